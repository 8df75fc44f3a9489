/* tier_sim_run.c: the clock: a device and a drive that share the memory. */
#include "tier_sim.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <engine/expert_cache.h>
#include <engine/experts.h>

struct clock {
    const struct halo_profile *profile;
    double now, disk_free; /* seconds; the drive reads until disk_free */
    double latency;
    double memory_bytes, disk_bytes; /* since the measuring began */
    double slowed;                   /* bytes per second of the device while the drive writes into memory */
};

static struct clock clock_of(const struct halo_profile *profile)
{
    double block_s = profile->disk_block_bytes / profile->disk_bytes_s;
    return (struct clock){.profile = profile,
                          .latency = profile->disk_latency_s > block_s ? profile->disk_latency_s - block_s : 0,
                          .slowed = profile->memory_bytes_s - profile->disk_bytes_s};
}

/* The device reads so many bytes. */
static void compute(struct clock *c, double bytes)
{
    c->memory_bytes += bytes;
    if (c->now < c->disk_free) {
        double during = (c->disk_free - c->now) * c->slowed;
        if (bytes <= during) {
            c->now += bytes / c->slowed;
            return;
        }
        bytes -= during;
        c->now = c->disk_free;
    }
    c->now += bytes / c->profile->memory_bytes_s;
}

/* The drive reads so many bytes behind what it has to read. Returns when they are there. */
static double submit(struct clock *c, double bytes)
{
    c->disk_bytes += bytes;
    c->disk_free = (c->disk_free > c->now ? c->disk_free : c->now + c->latency) + bytes / c->profile->disk_bytes_s;
    return c->disk_free;
}

static void wait_until(struct clock *c, double time)
{
    c->now = c->now > time ? c->now : time;
}

static void finish(const struct clock *c, double from, uint32_t n_tokens, struct halo_sim_result *ret)
{
    double memory_s = c->memory_bytes / c->profile->memory_bytes_s, disk_s = c->disk_bytes / c->profile->disk_bytes_s;
    ret->tok_s = n_tokens / (c->now - from);
    ret->limit_tok_s = n_tokens / (memory_s > disk_s ? memory_s : disk_s);
    ret->disk_bytes = (uint64_t)c->disk_bytes;
}

/* ---- the cache: the engine's, or a plain order ---- */

/* A plain least-recently-used order over all slots. */
struct lru {
    uint64_t *used; /* [n_slots] */
    uint64_t time;
};

struct cache {
    struct halo_expert_cache experts;
    struct lru lru;
    bool is_lru;
    uint32_t n_slots, n_expert;
    uint64_t *content; /* [n_slots]: what was read into each; UINT64_MAX: nothing */
};

static void *allocated(size_t n, size_t size)
{
    void *bytes = calloc(n, size);
    if (!bytes)
        abort();
    return bytes;
}

static void cache_init(struct cache *cache, const struct halo_placement *p, const struct halo_sim_trace *trace,
                       bool lru)
{
    *cache = (struct cache){.is_lru = lru, .n_slots = p->n_slots, .n_expert = trace->n_expert};
    cache->content = allocated(p->n_slots, sizeof(*cache->content));
    for (uint32_t i = 0; i < p->n_slots; i++)
        cache->content[i] = UINT64_MAX;
    if (lru)
        cache->lru.used = allocated(p->n_slots, sizeof(*cache->lru.used));
    else if (halo_expert_cache_init(&cache->experts, p->n_layers, trace->n_expert, p->n_slots,
                                    trace->n_used + HALO_EXPERTS_MARGIN) < 0)
        abort();
}

static void cache_finish(struct cache *cache)
{
    if (!cache->is_lru)
        halo_expert_cache_finish(&cache->experts);
    free(cache->lru.used);
    free(cache->content);
}

/* The slot of an expert; *ret_there: it is in it. */
static uint32_t lru_choose(struct cache *cache, uint64_t key, bool *ret_there)
{
    uint32_t oldest = 0, slot = UINT32_MAX;
    for (uint32_t i = 0; i < cache->n_slots && slot == UINT32_MAX; i++) {
        slot = cache->content[i] == key ? i : UINT32_MAX;
        oldest = cache->lru.used[i] < cache->lru.used[oldest] ? i : oldest;
    }
    *ret_there = slot != UINT32_MAX;
    slot = *ret_there ? slot : oldest;
    cache->lru.used[slot] = ++cache->lru.time;
    return slot;
}

static uint32_t choose(struct cache *cache, uint32_t layer, uint32_t id, bool *ret_there)
{
    if (cache->is_lru)
        return lru_choose(cache, (uint64_t)layer * cache->n_expert + id, ret_there);
    uint32_t slot = halo_expert_cache_choose(&cache->experts, layer, id);
    assert(slot != HALO_EXPERT_NONE);
    *ret_there = cache->experts.slots[slot].state != HALO_EXPERT_READING;
    return slot;
}

/* ---- a mixture ---- */

struct run {
    const struct halo_sim_setup *setup;
    const struct halo_sim_trace *trace;
    struct clock clock;
    struct cache cache;
    double used_bytes, found_bytes;
    uint64_t n_wrong;
};

struct chosen {
    uint32_t id, slot;
    bool there;
    double arrival[2]; /* of what the first product needs, and the last */
};

static void begin_layer(struct run *run, uint64_t token, uint32_t index, struct chosen *chosen)
{
    const struct halo_placement_layer *layer = &run->setup->placement->layers[index];
    uint32_t ids[HALO_MODEL_MAX_EXPERTS];
    halo_sim_trace_choose(run->trace, token, index, ids);
    if (!run->cache.is_lru) {
        halo_expert_cache_run(&run->cache.experts, index, false);
        for (uint32_t i = 0; i < layer->n_used; i++)
            halo_expert_cache_hold(&run->cache.experts, index, ids[i]);
    }
    for (uint32_t i = 0; i < layer->n_used; i++) {
        uint64_t key = (uint64_t)index * run->cache.n_expert + ids[i];
        chosen[i] = (struct chosen){.id = ids[i]};
        chosen[i].slot = choose(&run->cache, index, ids[i], &chosen[i].there);
        run->used_bytes += (double)layer->expert_bytes;
        if (chosen[i].there) {
            run->found_bytes += (double)layer->expert_bytes;
            run->n_wrong += run->cache.content[chosen[i].slot] != key;
        } else {
            run->cache.content[chosen[i].slot] = key;
        }
    }
    double first = (double)layer->first_bytes / (double)layer->expert_bytes;
    for (int product = 0; product < 2; product++)
        for (uint32_t i = 0; i < layer->n_used; i++)
            if (!chosen[i].there)
                chosen[i].arrival[product] =
                    submit(&run->clock, (double)layer->read_bytes * (product == 0 ? first : 1 - first));
}

/* Those that are there, then each as it arrives. */
static void run_product(struct run *run, const struct halo_placement_layer *layer, const struct chosen *chosen,
                        int product)
{
    double first = (double)layer->first_bytes, bytes = product == 0 ? first : (double)layer->expert_bytes - first;
    for (int there = 1; there >= 0; there--)
        for (uint32_t i = 0; i < layer->n_used; i++) {
            if (chosen[i].there != there)
                continue;
            if (!there)
                wait_until(&run->clock, chosen[i].arrival[product]);
            compute(&run->clock, bytes);
        }
}

static void run_layer(struct run *run, uint64_t token, uint32_t index)
{
    const struct halo_placement_layer *layer = &run->setup->placement->layers[index];
    struct chosen chosen[HALO_MODEL_MAX_EXPERTS];
    double kv = (double)run->setup->kv_bytes / run->setup->placement->n_layers;
    compute(&run->clock, (double)layer->resident_bytes + kv);
    if (layer->n_expert == 0)
        return;
    run->clock.now += run->setup->profile->launch_s;
    begin_layer(run, token, index, chosen);
    for (int product = 0; product < 2; product++)
        run_product(run, layer, chosen, product);
    for (uint32_t i = 0; i < layer->n_used && !run->cache.is_lru; i++) {
        struct halo_expert_slot *slot = &run->cache.experts.slots[chosen[i].slot];
        if (!chosen[i].there) {
            halo_expert_cache_arrive(&run->cache.experts, chosen[i].slot, slot->generation, true);
            halo_expert_cache_ready(&run->cache.experts, chosen[i].slot);
        }
        halo_expert_cache_release(&run->cache.experts, chosen[i].slot);
    }
}

void halo_sim_run(const struct halo_sim_setup *setup, const struct halo_sim_trace *trace, struct halo_sim_result *ret)
{
    struct run run = {.setup = setup, .trace = trace, .clock = clock_of(setup->profile)};
    double from = 0;
    cache_init(&run.cache, setup->placement, trace, setup->lru);
    for (uint32_t token = 0; token < setup->warm + setup->measured; token++) {
        if (token == setup->warm) {
            from = run.clock.now;
            run.clock.memory_bytes = run.clock.disk_bytes = run.used_bytes = run.found_bytes = 0;
        }
        for (uint32_t layer = 0; layer < setup->placement->n_layers; layer++)
            run_layer(&run, token, layer);
        compute(&run.clock, (double)setup->output_bytes);
    }
    *ret = (struct halo_sim_result){.hit_rate = run.found_bytes / run.used_bytes, .n_wrong = run.n_wrong};
    finish(&run.clock, from, setup->measured, ret);
    cache_finish(&run.cache);
}

/* ---- a dense model ---- */

void halo_sim_run_dense(const struct halo_sim_setup *setup, struct halo_sim_result *ret)
{
    const struct halo_placement *p = setup->placement;
    struct clock c = clock_of(setup->profile);
    uint32_t order[HALO_MODEL_MAX_LAYERS], n = 0;
    double arrival[2] = {0}, from = 0;
    for (uint32_t i = 0; i < p->n_layers; i++)
        if (p->layers[i].stream_bytes > 0)
            order[n++] = i;
    assert(n > 0);
    uint64_t next = 0, read = 0; /* streamed layers computed, and read or being read */
    for (uint32_t token = 0; token < setup->warm + setup->measured; token++) {
        if (token == setup->warm) {
            from = c.now;
            c.memory_bytes = c.disk_bytes = 0;
        }
        for (uint32_t i = 0; i < p->n_layers; i++) {
            for (; read < next + 2; read++) /* a buffer is free */
                arrival[read % 2] = submit(&c, (double)p->layers[order[read % n]].stream_bytes);
            if (p->layers[i].stream_bytes > 0)
                wait_until(&c, arrival[next++ % 2]);
            compute(&c, (double)(p->layers[i].resident_bytes + p->layers[i].stream_bytes) +
                            (double)setup->kv_bytes / p->n_layers);
        }
        compute(&c, (double)setup->output_bytes);
    }
    *ret = (struct halo_sim_result){.hit_rate = 1};
    finish(&c, from, setup->measured, ret);
}
