/* sampling.c: the options of generate and chat, and what a reply says to a person. */
#include <stddef.h>
#include <stdio.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

#define FIELD(field) offsetof(struct halo_ctl_sampling, field)
/* Fields of the message: one that is optional, one that has a default; and what haloctl reads itself. */
#define OPT(option, short_name, type, field, value, text)                                                              \
    {                                                                                                                  \
        .name = option, .letter = short_name, .kind = HALO_CTL_##type, .offset = FIELD(msg.field),                     \
        .has = FIELD(msg.has_##field), .value_name = value, .help = text                                               \
    }
#define DEF(option, short_name, type, field, value, text)                                                              \
    {                                                                                                                  \
        .name = option, .letter = short_name, .kind = HALO_CTL_##type, .offset = FIELD(msg.field),                     \
        .has = HALO_CTL_NO_HAS, .value_name = value, .help = text                                                      \
    }
#define OWN(option, short_name, type, field, value, text)                                                              \
    {                                                                                                                  \
        .name = option, .letter = short_name, .kind = HALO_CTL_##type, .offset = FIELD(field), .has = HALO_CTL_NO_HAS, \
        .value_name = value, .help = text                                                                              \
    }

const struct halo_ctl_option halo_ctl_sampling_options[] = {
    OPT("model", 'm', MODEL, model, "NAME", "model to use; may be omitted when exactly one is loaded"),
    OWN("file", 'f', PATH, file, "FILE", "generate: read the prompt from FILE (-: standard input)"),
    OWN("system", 's', TEXT, system, "TEXT", "chat: the system message"),
    OWN("messages", 0, PATH, messages, "FILE", "generate: a conversation instead of a prompt, a JSON list of messages"),
    OWN("tools", 0, PATH, tools, "FILE", "chat and --messages: tools for the chat template, a JSON list"),
    OWN("template-vars", 0, TEXT, vars, "JSON", "chat and --messages: variables of the chat template, a JSON object"),
    OPT("max-tokens", 'n', INTEGER, max_tokens, "N", "generate at most N tokens (default: to the end of the context)"),
    DEF("temperature", 't', NUMBER, temperature, "X", "0 is greedy (default 0.8)"),
    DEF("top-k", 0, INTEGER, top_k, "N", "sample from the N most probable tokens, 0: from all (default 40)"),
    DEF("top-p", 0, NUMBER, top_p, "X", "sample from the most probable tokens that sum to X (default 0.95)"),
    DEF("min-p", 0, NUMBER, min_p, "X", "drop tokens less than X times as probable as the best (default 0.05)"),
    DEF("repeat-penalty", 0, NUMBER, repeat_penalty, "X",
        "divide the logits of repeated tokens by X (default 1: none)"),
    DEF("repeat-window", 0, INTEGER, repeat_window, "N", "the penalties look at the last N tokens (default 64)"),
    DEF("presence-penalty", 0, NUMBER, presence_penalty, "X", "subtract X from the logit of each token seen"),
    DEF("frequency-penalty", 0, NUMBER, frequency_penalty, "X", "subtract X for each time the token was seen"),
    OPT("seed", 0, INTEGER, seed, "N", "seed of the sampler (default: drawn and reported)"),
    OWN("stop", 0, STRINGS, stops, "TEXT", "stop at TEXT; up to 16 times"),
    DEF("ignore-eos", 0, TRUE, ignore_eos, NULL, "continue after an end token"),
    DEF("logprobs", 0, INTEGER, logprobs, "N", "with --json: log-probabilities of the N best candidates of each token"),
    DEF("ids", 0, TRUE, emit_token_ids, NULL, "with --json: one `committed` event for each token"),
    DEF("detect-loops", 0, TRUE, detect_loops, NULL, "report once when the reply starts to loop"),
    OPT("deadline-ms", 0, INTEGER, deadline_ms, "N", "stop after N milliseconds"),
    DEF("no-stream", 0, FALSE, stream, NULL, "print the text at the end, in one piece"),
    DEF("no-cache", 0, FALSE, cache_prompt, NULL, "neither use nor keep cached prompt prefixes"),
    OPT("no-normalize", 0, FALSE, normalize, NULL, "keep runs of 3 or more newlines"),
    DEF("special", 0, TRUE, special, NULL, "special tokens written in the prompt are special tokens"),
    {.name = NULL},
};

/* What the daemon changed before it began. */
static void print_started(const struct halo_ev_started *started)
{
    for (size_t i = 0; i < started->changes.n; i++)
        halo_client_say("changed: %.*s", (int)started->changes.at[i].len, started->changes.at[i].at);
    if (started->newline_runs > 0)
        halo_client_say(
            "changed: normalize: %lld run%s of 3 or more newlines became 2 newlines (--no-normalize keeps them)",
            (long long)started->newline_runs, started->newline_runs == 1 ? "" : "s");
}

static void print_text(struct halo_ctl *ctl, struct halo_str text)
{
    if (text.len == 0)
        return;
    halo_client_show_text(stdout, text.at, text.len);
    bool together = (ctl->out_is_tty && ctl->err_is_tty) || ctl->verbose;
    ctl->mid_line = together && text.at[text.len - 1] != '\n';
}

/* The last line on a terminal. */
static void print_figures(struct halo_ctl *ctl, const struct halo_ev_done *done)
{
    halo_ctl_end_line(ctl);
    fprintf(stderr, "[%s: %lld tokens", halo_word_name_wire_finish(done->finish_reason), (long long)done->tokens);
    if (done->has_decode_tok_s)
        fprintf(stderr, ", %.1f tok/s", done->decode_tok_s);
    fprintf(stderr, "; prompt %lld tokens", (long long)done->prefill_tokens);
    if (done->has_prefill_tok_s)
        fprintf(stderr, " at %.1f tok/s", done->prefill_tok_s);
    if (done->has_ttft_ms)
        fprintf(stderr, "; first token after %.0f ms", done->ttft_ms);
    fputs("]\n", stderr);
}

/* The last line in a pipe: only of a reply that did not end by itself. */
static void print_cut(const struct halo_ev_done *done, int64_t limit)
{
    long long n = done->tokens;
    if (done->finish_reason == HALO_WIRE_FINISH_DEADLINE)
        halo_client_say("deadline: the reply was cut off after %lld tokens, when its deadline passed", n);
    else if (done->finish_reason == HALO_WIRE_FINISH_LENGTH && limit > 0 && done->tokens >= limit)
        halo_client_say("length: the reply was cut off after %lld tokens, the limit of --max-tokens", n);
    else if (done->finish_reason == HALO_WIRE_FINISH_LENGTH)
        halo_client_say("length: the reply was cut off after %lld tokens, where the context ends", n);
}

void halo_ctl_print_reply(struct halo_ctl *ctl, const struct halo_ev *ev, int64_t limit)
{
    if (ctl->json)
        return;
    if (ev->type == HALO_EV_STARTED && !ctl->quiet) {
        print_started(&ev->started);
    } else if (ev->type == HALO_EV_TOKEN) {
        print_text(ctl, ev->token.text);
    } else if (ev->type == HALO_EV_DONE) {
        if (ev->done.has_text)
            print_text(ctl, ev->done.text);
        halo_ctl_flush(ctl); /* before the last line, which goes to stderr */
        if (ctl->quiet)
            return;
        if (ctl->err_is_tty || ctl->verbose)
            print_figures(ctl, &ev->done);
        else
            print_cut(&ev->done, limit);
    }
}
