/* placement_text.c: a placement's reasons, and what would make it faster, in sentences with the numbers.
 *
 * A hint is the same placement made again with one thing changed: a smaller type, a shorter context, a faster drive,
 * more memory. Only hints that gain at least a twentieth are given.
 */
#include "placement_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GB 1e9
#define LEAST_GAIN 1.05

__attribute__((format(printf, 2, 3))) static void reason(struct halo_placement *p, const char *format, ...)
{
    va_list args;
    if (p->n_reasons == HALO_PLACEMENT_REASONS)
        return;
    va_start(args, format);
    vsnprintf(p->reasons[p->n_reasons++], HALO_PLACEMENT_TEXT, format, args);
    va_end(args);
}

/* ---- reasons ---- */

static uint64_t always_resident(const struct halo_placement *p)
{
    uint64_t n = 0;
    for (uint32_t placed = 0; placed < HALO_PLACED_EXPERTS; placed++)
        n += p->placed_bytes[placed];
    return n;
}

static void explain_resident(struct halo_placement *p)
{
    char weights[HALO_SIZE_TEXT], kv[HALO_SIZE_TEXT], scratch[HALO_SIZE_TEXT];
    halo_placement_size((double)(always_resident(p) + p->placed_bytes[HALO_PLACED_EXPERTS]), weights);
    halo_placement_size((double)p->kv_bytes, kv);
    halo_placement_size((double)p->scratch_bytes, scratch);
    if (p->fits)
        reason(p, "all %s of weights stay in memory, with %s of KV cache and %s of scratch; nothing is read from disk",
               weights, kv, scratch);
    else
        reason(p, "%s of weights that every token reads stay in memory, with %s of KV cache and %s of scratch", weights,
               kv, scratch);
}

static void explain_slots(struct halo_placement *p)
{
    uint32_t n_expert = 0, n_layers = 0, n_used = 0;
    double used_bytes = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const struct halo_placement_layer *layer = &p->layers[i];
        n_expert += layer->n_expert;
        n_layers += layer->n_expert > 0;
        n_used += layer->n_used;
        used_bytes += (double)layer->n_slots * (double)layer->read_bytes;
    }
    double empty = 1 - used_bytes / ((double)p->n_slots * (double)p->slot_bytes);
    char all[HALO_SIZE_TEXT], slot[HALO_SIZE_TEXT];
    reason(p, "the other %s are %u slots of %s for %u experts (%.0f %%); a token uses %u of them in %u layers",
           halo_placement_size((double)(p->n_slots * p->slot_bytes), all), p->n_slots,
           halo_placement_size((double)p->slot_bytes, slot), n_expert, 100.0 * p->n_slots / n_expert, n_used, n_layers);
    if (empty >= 0.01)
        reason(p, "all slots have the size of the largest expert; smaller experts leave %.0f %% of the cache unused",
               100 * empty);
    switch (p->routing.kind) {
    case HALO_ROUTING_UNIFORM:
        reason(p,
               "%.1f %% of the experts' bytes are found in their slots, on the assumption that routers choose every "
               "expert alike: the worst case",
               100 * p->hit_rate);
        break;
    case HALO_ROUTING_ZIPF:
        reason(p,
               "%.1f %% of the experts' bytes are found in their slots, on the assumption that routers follow Zipf's "
               "law with exponent %.2g",
               100 * p->hit_rate, p->routing.exponent);
        break;
    case HALO_ROUTING_TRACE:
        reason(p, "%.1f %% of the experts' bytes are found in their slots, by the recorded trace", 100 * p->hit_rate);
        break;
    }
}

static void explain_layers(struct halo_placement *p)
{
    uint32_t last = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t i = 0; i < p->n_layers; i++)
        if (p->layers[i].stream_bytes > 0) {
            last = first == UINT32_MAX ? UINT32_MAX : last == UINT32_MAX ? i : last;
            first = first == UINT32_MAX ? i : first;
        }
    char buffers[HALO_SIZE_TEXT];
    halo_placement_size((double)p->buffer_bytes, buffers);
    if (last == UINT32_MAX)
        reason(p, "layer %u is read from disk for every token, into two buffers of %s together", first, buffers);
    else
        reason(p,
               "%u of %u layers, evenly spread, are read from disk for every token, so that the drive never rests; "
               "they take turns in two buffers of %s together",
               p->n_streamed, p->n_layers, buffers);
}

static void explain_time(const struct halo_profile *profile, struct halo_placement *p)
{
    const struct halo_placement_terms *t = &p->terms;
    if (profile->memory_bytes_s <= 0) {
        reason(p, "the device's memory bandwidth is not known, so no speed is predicted");
        return;
    }
    if (p->miss_bytes > 0 && profile->disk_bytes_s <= 0) {
        reason(p, "the speed of the drive is not known, so no speed is predicted; `haloctl profile` measures it");
        return;
    }
    char memory[HALO_SIZE_TEXT], missed[HALO_SIZE_TEXT];
    reason(p, "a token reads %s of memory: %.1f ms at %.1f GB/s", halo_placement_size((double)p->token_bytes, memory),
           t->memory_s * 1e3, profile->memory_bytes_s / GB);
    if (p->miss_bytes <= 0)
        return;
    reason(p,
           "a token reads %s from disk: %.1f ms at %.2f GB/s, %.1f ms of latency; %.1f ms of this pass while the "
           "device computes",
           halo_placement_size(p->miss_bytes, missed), t->disk_s * 1e3, profile->disk_bytes_s / GB, t->latency_s * 1e3,
           t->overlap_s * 1e3);
    reason(p, "the %s is the bound: no order of the same reads exceeds %.2f tok/s",
           t->disk_s > t->memory_s ? "disk" : "memory", p->limit_tok_s);
}

/* ---- hints ---- */

struct question {
    const struct halo_plan *plan;
    const struct halo_parts *parts;
    const struct halo_profile *profile;
    const struct halo_placement_options *options;
    uint32_t context;
};

/* Keeps the fastest, in order. */
__attribute__((format(printf, 3, 4))) static void hint(struct halo_placement *p, double tok_s, const char *format, ...)
{
    va_list args;
    uint32_t at = p->n_hints;
    if (tok_s < LEAST_GAIN * p->tok_s)
        return;
    while (at > 0 && p->hints[at - 1].tok_s < tok_s)
        at--;
    if (at == HALO_PLACEMENT_HINTS)
        return;
    uint32_t n_behind = (p->n_hints < HALO_PLACEMENT_HINTS ? p->n_hints : HALO_PLACEMENT_HINTS - 1) - at;
    memmove(&p->hints[at + 1], &p->hints[at], n_behind * sizeof(p->hints[0]));
    p->n_hints = at + n_behind + 1;
    p->hints[at].tok_s = tok_s;
    va_start(args, format);
    vsnprintf(p->hints[at].text, HALO_PLACEMENT_TEXT, format, args);
    va_end(args);
}

/* The speed of the same question with other parts, speeds, budget or options; 0: it would not fit. */
static double ask(const struct question *q, uint64_t budget_bytes, struct halo_placement *ret)
{
    int r = halo_placement_place(q->plan, q->parts, q->profile, budget_bytes, q->context, q->options, ret, NULL);
    return r == 0 ? ret->tok_s : 0;
}

/* The largest type with which the whole model would fit. */
static void hint_type(const struct question *q, struct halo_placement *p)
{
    static const enum halo_type types[] = {HALO_TYPE_Q8_0,   HALO_TYPE_Q6_K, HALO_TYPE_Q5_K,    HALO_TYPE_Q4_K,
                                           HALO_TYPE_IQ4_XS, HALO_TYPE_Q3_K, HALO_TYPE_IQ3_XXS, HALO_TYPE_Q2_K};
    for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct halo_parts parts;
        struct halo_placement other;
        struct question smaller = *q;
        smaller.parts = &parts;
        halo_parts_of(q->plan, types[i], &parts);
        double tok_s = ask(&smaller, p->budget_bytes, &other);
        if (tok_s <= 0 || !other.fits)
            continue;
        char weights[HALO_SIZE_TEXT];
        halo_placement_size((double)(other.total_bytes - other.kv_bytes - other.scratch_bytes - other.padding_bytes),
                            weights);
        hint(p, tok_s, "a file in %s (%s of weights) fits whole: %.1f instead of %.1f tok/s",
             halo_type_info(types[i]).name, weights, tok_s, p->tok_s);
        return;
    }
}

static void hint_context(const struct question *q, struct halo_placement *p)
{
    struct halo_placement_options options = *q->options;
    struct question shorter = *q;
    struct halo_placement other;
    options.kv_bytes /= 2;
    options.streamed_kv_bytes /= 2;
    shorter.options = &options;
    shorter.context = q->context / 2;
    double tok_s = ask(&shorter, p->budget_bytes, &other);
    char more[HALO_SIZE_TEXT];
    halo_placement_size((double)p->kv_bytes / 2, more);
    if (tok_s > 0)
        hint(p, tok_s, "half the KV cache (a context of %u) leaves %s more: %.1f instead of %.1f tok/s",
             shorter.context, more, tok_s, p->tok_s);
}

static void hint_drive(const struct question *q, struct halo_placement *p)
{
    struct halo_profile profile = *q->profile;
    struct question faster = *q;
    struct halo_placement other;
    profile.disk_bytes_s *= 2;
    profile.disk_block_bytes *= 2; /* the same latency */
    faster.profile = &profile;
    double tok_s = ask(&faster, p->budget_bytes, &other);
    if (tok_s > 0)
        hint(p, tok_s, "a drive that reads %.1f GB/s, or a second one beside it: %.1f instead of %.1f tok/s",
             profile.disk_bytes_s / GB, tok_s, p->tok_s);
}

static void hint_memory(const struct question *q, struct halo_placement *p)
{
    struct halo_placement other;
    uint64_t whole = q->options->kv_bytes + q->options->scratch_bytes + q->options->padding_bytes;
    for (uint32_t placed = 0; placed < HALO_PLACED_KINDS; placed++)
        whole += q->parts->bytes[placed];
    if (whole <= p->budget_bytes)
        return;
    struct halo_placement_options options = *q->options;
    struct question more = *q;
    options.tiers = HALO_TIERS_AUTO;
    more.options = &options;
    double tok_s = ask(&more, whole, &other);
    char missing[HALO_SIZE_TEXT];
    hint(p, tok_s, "%s more memory hold all of it: %.1f instead of %.1f tok/s",
         halo_placement_size((double)(whole - p->budget_bytes), missing), tok_s, p->tok_s);
}

void halo_placement_explain(const struct halo_plan *plan, const struct halo_parts *parts,
                            const struct halo_profile *profile, uint32_t context,
                            const struct halo_placement_options *options, struct halo_placement *ret)
{
    const struct question q = {plan, parts, profile, options, context};
    explain_resident(ret);
    if (ret->n_slots > 0)
        explain_slots(ret);
    if (ret->n_streamed > 0)
        explain_layers(ret);
    explain_time(profile, ret);
    if (ret->fits || ret->tok_s <= 0)
        return;
    hint_type(&q, ret);
    hint_context(&q, ret);
    hint_drive(&q, ret);
    hint_memory(&q, ret);
}
