/* text.c: `haloctl tokenize`, `detokenize`, `score`: texts, token ids and their probabilities. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

struct text_options {
    struct halo_str model;
    bool has_model;
    const char *file;
    bool special, has_bos, bos, ids;
    int64_t top, from;
};

#define OPTION(option, short_name, type, field, flag, value, text)                                                     \
    {                                                                                                                  \
        .name = option, .letter = short_name, .kind = HALO_CTL_##type, .offset = offsetof(struct text_options, field), \
        .has = flag, .value_name = value, .help = text                                                                 \
    }
#define HAS(field) offsetof(struct text_options, has_##field)
#define MODEL_OPTION OPTION("model", 'm', MODEL, model, HAS(model), "NAME", "model (required)")
#define FILE_OPTION                                                                                                    \
    OPTION("file", 'f', PATH, file, HALO_CTL_NO_HAS, "FILE", "read the text from FILE (-: standard input)")

static const struct halo_ctl_option tokenize_options[] = {
    MODEL_OPTION,
    FILE_OPTION,
    OPTION("special", 0, TRUE, special, HALO_CTL_NO_HAS, NULL, "special tokens written in the text are special tokens"),
    OPTION("bos", 0, TRUE, bos, HAS(bos), NULL, "put the start token in front"),
    OPTION("no-bos", 0, FALSE, bos, HAS(bos), NULL, "do not"),
    {.name = NULL},
};
static const struct halo_ctl_option detokenize_options[] = {
    MODEL_OPTION,
    OPTION("file", 'f', PATH, file, HALO_CTL_NO_HAS, "FILE", "read the ids from FILE (-: standard input)"),
    {.name = NULL},
};
static const struct halo_ctl_option score_options[] = {
    MODEL_OPTION,
    FILE_OPTION,
    OPTION("ids", 0, TRUE, ids, HALO_CTL_NO_HAS, NULL, "the text is a list of token ids"),
    OPTION("top", 0, INTEGER, top, HALO_CTL_NO_HAS, "N", "show the N most probable tokens at each position"),
    OPTION("from", 0, INTEGER, from, HALO_CTL_NO_HAS, "POS", "first position shown"),
    {.name = NULL},
};

/* Parses the options and wants a model. Returns the index of the first argument or a negative exit status less one. */
static int parse_text(struct halo_ctl *ctl, int argc, char **argv, const struct halo_ctl_option *options,
                      struct text_options *ret, const char *usage)
{
    int at = halo_ctl_parse(ctl, argc, argv, options, ret, usage);
    if (at < 0)
        return at == -2 ? -HALO_CTL_OK - 1 : -HALO_CTL_USAGE - 1;
    if (!ret->has_model) {
        halo_client_say("%s: needs --model NAME", argv[0]);
        return -HALO_CTL_USAGE - 1;
    }
    return at;
}

/* Reads "1 2 3" or "1,2,3" (brackets allowed) into a malloc'ed list; NULL after a message. */
static int32_t *parse_ids(const char *text, size_t *ret_n)
{
    size_t n = 0, room = 256;
    int32_t *ids = malloc(room * sizeof *ids);
    const char *at = text;
    while (ids) {
        at += strspn(at, " \t\r\n,[]");
        if (!*at) {
            *ret_n = n;
            return ids;
        }
        char *end;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX) {
            halo_client_say("'%.20s' at byte %zu is not a token id", at, (size_t)(at - text));
            free(ids);
            return NULL;
        }
        at = end;
        if (n == room) {
            room *= 2;
            int32_t *more = realloc(ids, room * sizeof *ids);
            if (!more)
                break;
            ids = more;
        }
        ids[n++] = (int32_t)id;
    }
    free(ids);
    halo_client_say("out of memory");
    return NULL;
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json)
        return;
    if (ev->type == HALO_EV_TOKENS) {
        for (size_t i = 0; i < ev->tokens.tokens.n; i++) {
            printf("%7d  ", ev->tokens.tokens.at[i]);
            if (i < ev->tokens.pieces.n) {
                struct halo_json shown;
                halo_json_init(&shown);
                halo_json_str_n(&shown, ev->tokens.pieces.at[i].at, ev->tokens.pieces.at[i].len);
                halo_client_show_line(stdout, shown.at, shown.len);
                halo_json_finish(&shown);
            }
            putchar('\n');
        }
    } else if (ev->type == HALO_EV_TEXT) {
        halo_client_show_text(stdout, ev->text.text.at, ev->text.text.len);
    } else if (ev->type == HALO_EV_SCORE_ROW) {
        const struct halo_ev_score_row *row = &ev->score_row;
        printf("%6lld %7lld", (long long)row->pos, (long long)row->tok_id);
        if (row->has_logprob)
            printf(" %12.6f", row->logprob);
        else
            printf(" %12s", "-");
        for (size_t i = 0; i < row->top.n; i++)
            printf("  %d:%.4f", row->top.at[i].tok_id, row->top.at[i].logprob);
        putchar('\n');
    } else if (ev->type == HALO_EV_SCORED) {
        if (ev->scored.has_nll)
            printf("%lld tokens, mean negative log-likelihood %.6f\n", (long long)ev->scored.tokens, ev->scored.nll);
        else
            printf("%lld tokens, nothing to predict\n", (long long)ev->scored.tokens);
    }
}

int halo_ctl_tokenize(struct halo_ctl *ctl, int argc, char **argv)
{
    struct text_options options = {0};
    int at = parse_text(ctl, argc, argv, tokenize_options, &options, "tokenize --model NAME [OPTION...] [TEXT...]");
    if (at < 0)
        return -at - 1;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_TOKENIZE);
    size_t n;
    char *text = halo_ctl_read_text(argv + at, argc - at, options.file, "text", &n);
    if (!text)
        return HALO_CTL_USAGE;
    msg.tokenize.model = options.model;
    msg.tokenize.text = (struct halo_str){text, n};
    msg.tokenize.special = options.special;
    msg.tokenize.has_bos = options.has_bos;
    msg.tokenize.bos = options.bos;
    int status = halo_ctl_run(ctl, &msg, on_event, NULL);
    free(text);
    return status;
}

int halo_ctl_detokenize(struct halo_ctl *ctl, int argc, char **argv)
{
    struct text_options options = {0};
    int at = parse_text(ctl, argc, argv, detokenize_options, &options, "detokenize --model NAME [OPTION...] [ID...]");
    if (at < 0)
        return -at - 1;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_DETOKENIZE);
    size_t n, n_ids;
    char *text = halo_ctl_read_text(argv + at, argc - at, options.file, "list of ids", &n);
    int32_t *ids = text ? parse_ids(text, &n_ids) : NULL;
    free(text);
    if (!ids)
        return HALO_CTL_USAGE;
    msg.detokenize.model = options.model;
    msg.detokenize.tokens = (struct halo_token_list){ids, n_ids};
    int status = halo_ctl_run(ctl, &msg, on_event, NULL);
    free(ids);
    return status;
}

int halo_ctl_score(struct halo_ctl *ctl, int argc, char **argv)
{
    struct text_options options = {0};
    int at = parse_text(ctl, argc, argv, score_options, &options, "score --model NAME [OPTION...] [TEXT...]");
    if (at < 0)
        return -at - 1;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_SCORE);
    size_t n, n_ids = 0;
    char *text = halo_ctl_read_text(argv + at, argc - at, options.file, "text", &n);
    int32_t *ids = text && options.ids ? parse_ids(text, &n_ids) : NULL;
    if (!text || (options.ids && !ids)) {
        free(text);
        return HALO_CTL_USAGE;
    }
    msg.score.model = options.model;
    msg.score.top = options.top;
    msg.score.from = options.from;
    msg.score.has_text = !options.ids;
    msg.score.text = (struct halo_str){text, n};
    msg.score.has_tokens = options.ids;
    msg.score.tokens = (struct halo_token_list){ids, n_ids};
    int status = halo_ctl_run(ctl, &msg, on_event, NULL);
    free(ids);
    free(text);
    return status;
}
