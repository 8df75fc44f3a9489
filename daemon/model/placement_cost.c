/* placement_cost.c: what a decoded token costs with a placement.
 *
 * The formulas of docs/TIERS.md: bytes over measured speeds. In a layer with experts the device computes those that are
 * there while the drive reads the others, in the order in which they arrive.
 */
#include "placement_priv.h"

struct speeds {
    double memory, disk; /* seconds for a byte */
    double latency;      /* s, of the first byte of a burst */
};

static struct speeds speeds_of(const struct halo_profile *profile)
{
    double disk = profile->disk_bytes_s;
    if (profile->copy_bytes_s > 0 && profile->copy_bytes_s < disk) /* both at once: the slower one counts */
        disk = profile->copy_bytes_s;
    struct speeds s = {.memory = profile->memory_bytes_s > 0 ? 1 / profile->memory_bytes_s : 0,
                       .disk = disk > 0 ? 1 / disk : 0};
    double block_s = profile->disk_bytes_s > 0 ? profile->disk_block_bytes / profile->disk_bytes_s : 0;
    s.latency = profile->disk_latency_s > block_s ? profile->disk_latency_s - block_s : 0;
    return s;
}

/* Seconds of an expert in a layer, by product: the first one (gate and up), and the last one (down). */
enum { FIRST, LAST, PRODUCTS };
struct steps {
    double latency;          /* of the first byte; the first matrices of all missed experts come before the last ones */
    double read[PRODUCTS];   /* what the product needs of one */
    double repack[PRODUCTS]; /* of what was read, before it is used */
    double compute[PRODUCTS]; /* of one */
};

/* How much of the reads of n_missed experts of a layer passes while others are repacked and computed. */
static double overlap(uint32_t n_used, uint32_t n_missed, const struct steps *s)
{
    double done = 0, there = s->latency, alone = s->latency;
    for (int product = 0; product < PRODUCTS; product++) {
        done += (n_used - n_missed) * s->compute[product];
        alone += n_used * s->compute[product] + n_missed * (s->read[product] + s->repack[product]);
        for (uint32_t i = 0; i < n_missed; i++) {
            there += s->read[product];
            done = (there > done ? there : done) + s->repack[product] + s->compute[product];
        }
    }
    return alone - done;
}

static void add_layer(const struct halo_placement_layer *layer, const struct speeds *s, uint32_t miss_traffic,
                      struct halo_placement_terms *terms)
{
    double first = (double)layer->first_bytes / (double)layer->expert_bytes, share[PRODUCTS] = {first, 1 - first};
    struct steps steps = {.latency = s->latency};
    for (int product = 0; product < PRODUCTS; product++) {
        double read_bytes = share[product] * (double)layer->read_bytes;
        steps.read[product] = read_bytes * s->disk;
        steps.repack[product] = (miss_traffic - 1) * read_bytes * s->memory;
        steps.compute[product] = share[product] * (double)layer->expert_bytes * s->memory;
    }
    for (uint32_t n_missed = 1; n_missed <= layer->n_used; n_missed++) {
        double p = halo_shares_missing(layer->n_used, layer->hit_rate, n_missed);
        terms->latency_s += p * s->latency;
        terms->overlap_s += p * overlap(layer->n_used, n_missed, &steps);
    }
}

static void predict_time(const struct halo_profile *profile, uint32_t miss_traffic, struct halo_placement *p)
{
    struct speeds s = speeds_of(profile);
    struct halo_placement_terms *terms = &p->terms;
    if (s.memory == 0 || (p->miss_bytes > 0 && s.disk == 0))
        return;
    terms->memory_s = ((double)p->token_bytes + miss_traffic * p->miss_bytes) * s.memory;
    terms->disk_s = p->miss_bytes * s.disk;
    for (uint32_t i = 0; i < p->n_layers && p->n_slots > 0; i++)
        if (p->layers[i].n_expert > 0) {
            add_layer(&p->layers[i], &s, miss_traffic, terms);
            terms->host_s += profile->launch_s;
        }
    if (p->n_streamed > 0) { /* the order is known: everything can be read ahead */
        terms->latency_s = p->n_streamed * s.latency;
        double reads = terms->disk_s + terms->latency_s;
        terms->overlap_s = reads < terms->memory_s ? reads : terms->memory_s;
    }
    terms->token_s = terms->memory_s + terms->disk_s + terms->latency_s + terms->host_s - terms->overlap_s;
    p->tok_s = 1 / terms->token_s;
    p->limit_tok_s = 1 / (terms->disk_s > terms->memory_s ? terms->disk_s : terms->memory_s);
}

void halo_placement_predict(const struct halo_plan *plan, const struct halo_parts *parts,
                            const struct halo_profile *profile, uint32_t context,
                            const struct halo_placement_options *options, struct halo_placement *ret)
{
    double used_bytes = 0, missed_bytes = 0;
    struct halo_plan_cost cost;
    halo_plan_cost(plan, context / 2, 1, &cost);
    ret->token_bytes = parts->always_bytes + parts->expert_bytes + cost.kv_bytes;
    ret->miss_bytes = 0;
    for (uint32_t i = 0; i < ret->n_layers; i++) {
        const struct halo_placement_layer *layer = &ret->layers[i];
        double missed = layer->n_used * (1 - layer->hit_rate);
        used_bytes += (double)layer->n_used * (double)layer->expert_bytes;
        missed_bytes += missed * (double)layer->expert_bytes;
        ret->miss_bytes += missed * (double)layer->read_bytes + (double)layer->stream_bytes;
        ret->prefill_bytes += layer->stream_bytes;
        if (ret->n_slots > 0)
            ret->prefill_bytes += (layer->n_expert - layer->n_slots) * layer->read_bytes;
    }
    ret->hit_rate = used_bytes > 0 ? 1 - missed_bytes / used_bytes : 1;
    predict_time(profile, options->miss_traffic, ret);
}
