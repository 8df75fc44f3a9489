/* plan.c: `haloctl plan` and `bench`: what a load would need, and how fast a loaded model is. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

struct plan_wish {
    struct halo_msg_plan msg;
    const char *svg; /* file to draw into; NULL: none */
};

#define PARAM(option, type, field, value, text)                                                                        \
    {                                                                                                                  \
        .name = option, .kind = HALO_CTL_##type, .offset = offsetof(struct plan_wish, msg.params.field),               \
        .has = offsetof(struct plan_wish, msg.params.has_##field), .value_name = value, .help = text                   \
    }
#define WISH(option, type, field, flag, value, text)                                                                   \
    {                                                                                                                  \
        .name = option, .kind = HALO_CTL_##type, .offset = offsetof(struct plan_wish, field), .has = flag,             \
        .value_name = value, .help = text                                                                              \
    }
#define HAS(field) offsetof(struct plan_wish, msg.has_##field)

static const struct halo_ctl_option plan_options[] = {
    PARAM("context", INTEGER, context, "N", "tokens per sequence (default: the model's)"),
    PARAM("kv-tokens", INTEGER, kv_tokens, "N", "tokens in the whole KV pool"),
    PARAM("kv", KV, kv, "TYPE", "type of the KV cache: f32, f16, q8 or q4 (default f16)"),
    WISH("device", DEVICE, msg.params.device, HALO_CTL_NO_HAS, "NAME", "auto, cpu or hip (default auto)"),
    WISH("budget", BYTES, msg.budget_bytes, HAS(budget_bytes), "SIZE",
         "memory to plan for, like 8G (default: what is free)"),
    WISH("tiers", TIERS, msg.params.tiers, HALO_CTL_NO_HAS, "WHERE",
         "memory: all weights in memory; stream: experts or layers from disk; auto (default): what does not fit"),
    WISH("routing", ROUTING, msg.routing, HALO_CTL_NO_HAS, "LAW",
         "how routers choose experts: zipf, as published (default), or uniform, the worst case"),
    WISH("memory-gb-s", NUMBER, msg.memory_gb_s, HAS(memory_gb_s), "GB/S",
         "plan for this bandwidth (default: as measured)"),
    WISH("disk-gb-s", NUMBER, msg.disk_gb_s, HAS(disk_gb_s), "GB/S",
         "plan for this speed of the drive (default: the model's profile)"),
    WISH("svg", PATH, svg, HALO_CTL_NO_HAS, "FILE", "draw the layers by tier, and the speed over the budget"),
    {.name = NULL},
};

#define BENCH(option, field, text)                                                                                     \
    {                                                                                                                  \
        .name = option, .kind = HALO_CTL_INTEGER, .offset = offsetof(struct halo_msg_bench, field),                    \
        .has = HALO_CTL_NO_HAS, .value_name = "N", .help = text                                                        \
    }
static const struct halo_ctl_option bench_options[] = {
    BENCH("prefill", prefill, "prompt tokens of a run (default 512)"),
    BENCH("decode", decode, "decoded tokens of a run (default 128)"),
    BENCH("batch", batch, "concurrent sequences (default 1)"),
    BENCH("repeat", repeat, "runs; the median is reported (default 3)"),
    BENCH("chunk", chunk, "prompt tokens of a step, at most (default: as for requests)"),
    {.name = NULL},
};

/* Whether it fits, and what would. */
static void print_fit(const struct halo_ev_plan *p)
{
    char a[32];
    printf("  context %lld", (long long)p->context);
    if (p->kv_tokens > p->context && p->context > 0)
        printf(", a KV cache of %lld tokens for %lld such sequences", (long long)p->kv_tokens,
               (long long)(p->kv_tokens / p->context));
    else
        printf(", a KV cache of %lld tokens", (long long)p->kv_tokens);
    bool can_load = p->fits || (p->has_placement && p->placement.loadable);
    if (can_load || !p->has_context_max)
        putchar('\n');
    else if (p->context_max == 0)
        puts("; the weights leave no room for a sequence");
    else
        printf("; one sequence of %lld tokens would fit: --context %lld --kv-tokens %lld\n", (long long)p->context_max,
               (long long)p->context_max, (long long)p->context_max);
    if (p->has_budget_bytes)
        printf("  memory to use: %s\n", halo_ctl_bytes(p->budget_bytes, a));
}

/* Why, and what would be faster; of a model that stays in memory there is nothing to explain. */
static void print_placement(const struct halo_part_placement *p)
{
    char a[32];
    if (p->resident)
        return;
    printf("  with tiers, %s of memory%s:\n", halo_ctl_bytes(p->total_bytes, a),
           p->loadable ? "" : " (a prediction: load cannot do this on this device yet)");
    for (size_t i = 0; i < p->reasons.n; i++)
        halo_client_print_line(stdout, "    %.*s", (int)p->reasons.at[i].len, p->reasons.at[i].at);
    if (p->hints.n > 0)
        puts("  faster:");
    for (size_t i = 0; i < p->hints.n; i++)
        halo_client_print_line(stdout, "    %.*s", (int)p->hints.at[i].text.len, p->hints.at[i].text.at);
}

static void print_plan(const struct halo_ev_plan *p)
{
    char a[32], b[32], c[32], d[32];
    halo_client_print_line(stdout, "%.*s (%.*s) on %.*s: %s", (int)p->model.len, p->model.at, (int)p->arch.len,
                           p->arch.at, (int)p->device.len, p->device.at, p->fits ? "fits" : "does not fit");
    printf("  %s in total: weights %s, KV cache %s, scratch %s\n", halo_ctl_bytes(p->total_bytes, d),
           halo_ctl_bytes(p->weights_bytes, a), halo_ctl_bytes(p->kv_bytes, b), halo_ctl_bytes(p->scratch_bytes, c));
    halo_ctl_print_stages(&p->stages);
    print_fit(p);
    if (p->has_cache)
        halo_client_print_line(stdout, "  KV cache: %.*s", (int)p->cache.len, p->cache.at);
    if (p->has_checkpoint_bytes)
        printf("  checkpoints: %s of the KV cache keep states of conversations\n",
               halo_ctl_bytes(p->checkpoint_bytes, a));
    if (p->has_decode_tok_s)
        printf("  decode: about %.*f tok/s of one sequence\n", p->decode_tok_s < 100, p->decode_tok_s);
    if (p->has_prefill_tok_s)
        printf("  prefill: about %.*f tok/s\n", p->prefill_tok_s < 100, p->prefill_tok_s);
    if (p->has_bound && (!p->has_placement || p->placement.resident))
        halo_client_print_line(stdout, "  %.*s", (int)p->bound.len, p->bound.at);
    if (p->has_placement)
        print_placement(&p->placement);
}

static void print_bench(const struct halo_ev_bench *b)
{
    halo_client_print_line(stdout, "%.*s on %.*s, %lld sequence%s, median of %lld run%s", (int)b->model.len,
                           b->model.at, (int)b->device.len, b->device.at, (long long)b->batch, b->batch == 1 ? "" : "s",
                           (long long)b->repeat, b->repeat == 1 ? "" : "s");
    if (b->has_prefill_tok_s)
        printf("  prefill %5lld tokens  %9.1f tok/s  (spread %.1f; at most %lld tokens in a step)\n",
               (long long)b->prefill, b->prefill_tok_s, b->has_prefill_spread_tok_s ? b->prefill_spread_tok_s : 0,
               (long long)b->chunk);
    if (b->has_decode_tok_s)
        printf("  decode  %5lld tokens  %9.1f tok/s  (spread %.1f)\n", (long long)b->decode, b->decode_tok_s,
               b->has_decode_spread_tok_s ? b->decode_spread_tok_s : 0);
    if (b->has_gb_s)
        printf("  reads %.2f GB/s of weights and cache", b->gb_s);
    if (b->has_bandwidth_gb_s && b->has_bandwidth_share)
        printf(", %.0f %% of the %.2f GB/s that a plain read of memory reached", b->bandwidth_share * 100,
               b->bandwidth_gb_s);
    putchar('\n');
}

struct drawing {
    const char *path; /* NULL: none is wanted */
    int error;        /* of the file: 0 or a negative errno */
};

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    struct drawing *drawing = ud;
    if (ev->type == HALO_EV_PLAN && drawing->path)
        drawing->error = halo_ctl_plan_svg(drawing->path, &ev->plan);
    if (ctl->json)
        return;
    if (ev->type == HALO_EV_PLAN)
        print_plan(&ev->plan);
    else if (ev->type == HALO_EV_BENCH)
        print_bench(&ev->bench);
}

int halo_ctl_plan(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    struct halo_str model;
    struct plan_wish wish = {.svg = NULL};
    halo_msg_init(&msg, HALO_MSG_PLAN);
    wish.msg = msg.plan;
    int at = halo_ctl_parse(ctl, argc, argv, plan_options, &wish, "plan [OPTION...] MODEL|PATH");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &model))
        return HALO_CTL_USAGE;
    msg.plan = wish.msg;
    msg.plan.curve = wish.svg != NULL;
    msg.plan.has_path = strchr(model.at, '/') != NULL;
    msg.plan.has_model = !msg.plan.has_path;
    *(msg.plan.has_path ? &msg.plan.path : &msg.plan.model) = model;
    struct drawing drawing = {.path = wish.svg};
    int status = halo_ctl_run(ctl, &msg, on_event, &drawing);
    if (drawing.error == 0)
        return status;
    if (drawing.error == -ENODATA)
        halo_client_say("%s was not written: the model cannot run within this budget", wish.svg);
    else
        halo_client_say("cannot write %s: %s", wish.svg, strerror(-drawing.error));
    return HALO_CTL_FAILED;
}

int halo_ctl_bench(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_BENCH);
    int at = halo_ctl_parse(ctl, argc, argv, bench_options, &msg.bench, "bench [OPTION...] MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &msg.bench.model))
        return HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_event, &(struct drawing){0});
}
