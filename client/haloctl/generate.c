/* generate.c: `haloctl generate`: a prompt in, text out as it comes; the sampling options that chat shares. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_priv.h"

#define FIELD(field) offsetof(struct halo_ctl_sampling, msg.field)
#define OPT(name, letter, kind, field, value, help)                                                                    \
    {                                                                                                                  \
        name, letter, HALO_CTL_##kind, FIELD(field), FIELD(has_##field), value, help                                   \
    }
#define DEF(name, letter, kind, field, value, help)                                                                    \
    {                                                                                                                  \
        name, letter, HALO_CTL_##kind, FIELD(field), HALO_CTL_NO_HAS, value, help                                      \
    }

const struct halo_ctl_option halo_ctl_sampling_options[] = {
    OPT("model", 'm', STRING, model, "NAME", "model to use; may be left out when one is loaded"),
    {"file", 'f', HALO_CTL_CSTRING, offsetof(struct halo_ctl_sampling, file), HALO_CTL_NO_HAS, "FILE",
     "read the prompt from FILE (-: standard input)"},
    {"system", 's', HALO_CTL_CSTRING, offsetof(struct halo_ctl_sampling, system), HALO_CTL_NO_HAS, "TEXT",
     "chat: the system message"},
    {"messages", 0, HALO_CTL_CSTRING, offsetof(struct halo_ctl_sampling, messages), HALO_CTL_NO_HAS, "FILE",
     "generate: a conversation instead of a prompt, a JSON list of messages"},
    {"tools", 0, HALO_CTL_CSTRING, offsetof(struct halo_ctl_sampling, tools), HALO_CTL_NO_HAS, "FILE",
     "chat and --messages: tools for the chat template, a JSON list"},
    {"template-vars", 0, HALO_CTL_CSTRING, offsetof(struct halo_ctl_sampling, vars), HALO_CTL_NO_HAS, "JSON",
     "chat and --messages: variables of the template, a JSON object"},
    OPT("max-tokens", 'n', INTEGER, max_tokens, "N", "tokens to generate at most (default: to the end of the context)"),
    DEF("temperature", 't', NUMBER, temperature, "X", "0 is greedy (default 0.8)"),
    DEF("top-k", 0, INTEGER, top_k, "N", "keep the N best, 0 keeps all (default 40)"),
    DEF("top-p", 0, NUMBER, top_p, "X", "keep the best that make up X (default 0.95)"),
    DEF("min-p", 0, NUMBER, min_p, "X", "keep those at least X times as likely as the best (default 0.05)"),
    DEF("repeat-penalty", 0, NUMBER, repeat_penalty, "X", "divide the logits of repeated tokens (default 1: none)"),
    DEF("repeat-window", 0, INTEGER, repeat_window, "N", "last tokens that penalties look at (default 64)"),
    DEF("presence-penalty", 0, NUMBER, presence_penalty, "X", "subtracted once from tokens that were there"),
    DEF("frequency-penalty", 0, NUMBER, frequency_penalty, "X", "subtracted for each time they were there"),
    OPT("seed", 0, INTEGER, seed, "N", "seed of the sampler (default: drawn and reported)"),
    {"stop", 0, HALO_CTL_STRINGS, offsetof(struct halo_ctl_sampling, stops), HALO_CTL_NO_HAS, "TEXT",
     "end at TEXT; may be given 16 times"},
    DEF("ignore-eos", 0, TRUE, ignore_eos, NULL, "go on after an end token"),
    DEF("logprobs", 0, INTEGER, logprobs, "N", "with --json: log-probabilities of the N best of each token"),
    DEF("ids", 0, TRUE, emit_token_ids, NULL, "with --json: one `committed` event for each token"),
    DEF("detect-loops", 0, TRUE, detect_loops, NULL, "say so once when the reply goes round in a cycle"),
    OPT("deadline-ms", 0, INTEGER, deadline_ms, "N", "end after N milliseconds"),
    DEF("no-stream", 0, FALSE, stream, NULL, "text at the end, in one piece"),
    DEF("no-cache", 0, FALSE, cache_prompt, NULL, "do not use or keep cached prompt prefixes"),
    OPT("no-normalize", 0, FALSE, normalize, NULL, "keep runs of 3 and more newlines"),
    DEF("special", 0, TRUE, special, NULL, "special tokens written in the prompt are special tokens"),
    {NULL, 0, HALO_CTL_TRUE, 0, 0, NULL, NULL},
};

static void print_done(struct halo_ctl *ctl, const struct halo_ev_done *done)
{
    if (done->has_text)
        fwrite(done->text.at, 1, done->text.len, stdout);
    fflush(stdout);
    if (ctl->quiet || !(ctl->err_is_tty || ctl->verbose))
        return;
    fprintf(stderr, "\n[%s: %lld tokens", halo_word_name_wire_finish(done->finish_reason), (long long)done->tokens);
    if (done->has_decode_tok_s)
        fprintf(stderr, ", %.1f tok/s", done->decode_tok_s);
    fprintf(stderr, "; prompt %lld tokens", (long long)done->prefill_tokens);
    if (done->has_prefill_tok_s)
        fprintf(stderr, " at %.1f tok/s", done->prefill_tok_s);
    if (done->has_ttft_ms)
        fprintf(stderr, "; first token after %.0f ms", done->ttft_ms);
    fputs("]\n", stderr);
}

void halo_ctl_print_event(struct halo_ctl *ctl, const struct halo_ev *ev)
{
    if (ctl->json)
        return;
    if (ev->type == HALO_EV_PROGRESS) {
        halo_ctl_progress(ctl, &ev->progress);
        return;
    }
    if (ev->type == HALO_EV_STARTED) {
        halo_ctl_progress_clear(ctl);
        for (size_t i = 0; i < ev->started.changes.n && !ctl->quiet; i++)
            fprintf(stderr, "haloctl: changed: %.*s\n", (int)ev->started.changes.at[i].len,
                    ev->started.changes.at[i].at);
    } else if (ev->type == HALO_EV_NOTICE && !ctl->quiet) {
        fprintf(stderr, "haloctl: %.*s: %.*s\n", (int)ev->notice.code.len, ev->notice.code.at,
                (int)ev->notice.message.len, ev->notice.message.at);
    } else if (ev->type == HALO_EV_TOKEN) {
        fwrite(ev->token.text.at, 1, ev->token.text.len, stdout);
        fflush(stdout);
    } else if (ev->type == HALO_EV_DONE) {
        print_done(ctl, &ev->done);
    }
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    halo_ctl_print_event(ctl, ev);
}

/* A conversation from a file. */
static int generate_messages(struct halo_ctl *ctl, const struct halo_ctl_sampling *options, struct halo_msg *msg)
{
    const struct halo_ctl_talk talk = {.messages = options->messages, .tools = options->tools, .vars = options->vars};
    struct halo_msg read;
    int status = halo_ctl_read_talk(&talk, &read);
    if (status != HALO_CTL_OK)
        return status;
    msg->generate.has_messages = true;
    msg->generate.messages = read.template.messages;
    msg->generate.has_tools = read.template.has_tools;
    msg->generate.tools = read.template.tools;
    msg->generate.has_template_vars = read.template.has_template_vars;
    msg->generate.template_vars = read.template.template_vars;
    status = halo_ctl_run(ctl, msg, on_event, NULL);
    halo_msg_finish(&read);
    return status;
}

int halo_ctl_generate(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    struct halo_ctl_sampling options = {.msg = msg.generate};
    int at = halo_ctl_parse(argc, argv, halo_ctl_sampling_options, &options, "generate [OPTION...] [PROMPT...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (options.system) {
        fprintf(stderr, "haloctl generate: --system belongs to `haloctl chat`\n");
        return HALO_CTL_USAGE;
    }
    msg.generate = options.msg;
    msg.generate.stop = (struct halo_str_list){options.stops.at, options.stops.n};
    if (options.messages && at == argc && !options.file)
        return generate_messages(ctl, &options, &msg);
    if (options.messages || options.tools || options.vars) {
        fprintf(stderr, "haloctl generate: %s\n",
                options.messages ? "a prompt and --messages exclude each other"
                                 : "--tools and --template-vars need --messages: a prompt goes through no template");
        return HALO_CTL_USAGE;
    }
    size_t n;
    char *prompt = halo_ctl_read_text(argv + at, argc - at, options.file, "prompt", &n);
    if (!prompt)
        return HALO_CTL_USAGE;
    msg.generate.has_prompt = true;
    msg.generate.prompt = (struct halo_str){prompt, n};
    int status = halo_ctl_run(ctl, &msg, on_event, NULL);
    free(prompt);
    return status;
}
