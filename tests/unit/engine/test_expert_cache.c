/* test_expert_cache.c: which experts stay: slots and their states, who is nobody's victim, and hit rates over traces
 * beside those of a plain least-recently-used order. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/expert_cache.h>

/* Chooses, reads, uses and releases. Returns whether the expert was there. */
static bool use(struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    bool was_there = halo_expert_cache_find(cache, layer, id) != HALO_EXPERT_NONE;
    uint32_t slot = halo_expert_cache_choose(cache, layer, id);
    assert_true(slot < cache->n_slots);
    if (!was_there)
        halo_expert_cache_arrive(cache, slot, cache->slots[slot].generation, true);
    if (cache->slots[slot].state == HALO_EXPERT_ARRIVED)
        halo_expert_cache_ready(cache, slot);
    halo_expert_cache_release(cache, slot);
    return was_there;
}

/* A layer whose batch chose these: what is there is held first, and all until the end. Returns the hits. */
static uint32_t run_layer(struct halo_expert_cache *cache, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    uint32_t slots[1024], n_hits = 0;
    halo_expert_cache_run(cache, layer, false);
    for (uint32_t i = 0; i < n; i++)
        n_hits += halo_expert_cache_hold(cache, layer, ids[i]);
    for (uint32_t i = 0; i < n; i++) {
        slots[i] = halo_expert_cache_choose(cache, layer, ids[i]);
        assert_true(slots[i] < cache->n_slots);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(slots[i], slots[k]);
        if (cache->slots[slots[i]].state == HALO_EXPERT_READING)
            halo_expert_cache_arrive(cache, slots[i], cache->slots[slots[i]].generation, true);
        if (cache->slots[slots[i]].state == HALO_EXPERT_ARRIVED)
            halo_expert_cache_ready(cache, slots[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        halo_expert_cache_release(cache, slots[i]);
    return n_hits;
}

/* Every slot is in one list or in use, the index leads to it, and the layers' counts are right. */
static void check(const struct halo_expert_cache *cache)
{
    uint32_t n_of[64] = {0}, n_empty = 0, n_closed = 0;
    assert_true(cache->n_layers <= 64);
    for (uint32_t i = 0; i < cache->n_slots; i++) {
        const struct halo_expert_slot *slot = &cache->slots[i];
        n_empty += slot->state == HALO_EXPERT_EMPTY;
        n_closed += slot->state == HALO_EXPERT_CLOSED;
        if (slot->state == HALO_EXPERT_EMPTY || slot->state == HALO_EXPERT_CLOSED)
            continue;
        n_of[slot->layer]++;
        assert_int_equal(halo_expert_cache_find(cache, slot->layer, slot->id), i);
        assert_int_equal(halo_list_is_linked(&slot->node), !slot->is_held && slot->state != HALO_EXPERT_READING);
    }
    assert_int_equal(cache->empty.n, n_empty);
    assert_int_equal(cache->n_open, cache->n_slots - n_closed);
    for (uint32_t layer = 0; layer < cache->n_layers; layer++)
        assert_int_equal(cache->layers[layer].n_slots, n_of[layer]);
}

static void sizes(void **state)
{
    struct halo_expert_cache cache;
    assert_int_equal(halo_expert_cache_least(4, 8, 3), 8 + 3 * 3);
    assert_int_equal(halo_expert_cache_init(&cache, 4, 8, 16, 3), -EINVAL);
    assert_int_equal(halo_expert_cache_init(&cache, 0, 8, 16, 3), -EINVAL);
    assert_int_equal(halo_expert_cache_init(&cache, 4, 8, 17, 3), 0);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

static void generations(void **state)
{
    struct halo_expert_cache cache;
    assert_int_equal(halo_expert_cache_init(&cache, 1, 4, 4, 1), 0);
    uint32_t slot = halo_expert_cache_choose(&cache, 0, 2);
    uint64_t first = cache.slots[slot].generation;
    assert_int_equal(cache.slots[slot].state, HALO_EXPERT_READING);
    halo_expert_cache_arrive(&cache, slot, first - 1, true); /* of what was there before */
    assert_int_equal(cache.slots[slot].state, HALO_EXPERT_READING);
    halo_expert_cache_release(&cache, slot); /* nobody waits any more, but the read goes on */
    check(&cache);
    for (uint32_t id = 0; id < 4; id++)
        if (id != 2)
            assert_int_not_equal(halo_expert_cache_choose(&cache, 0, id), slot);
    halo_expert_cache_arrive(&cache, slot, first, false);
    assert_int_equal(cache.slots[slot].state, HALO_EXPERT_EMPTY);
    assert_int_equal(halo_expert_cache_find(&cache, 0, 2), HALO_EXPERT_NONE);
    assert_int_equal(halo_expert_cache_choose(&cache, 0, 2), slot);
    halo_expert_cache_arrive(&cache, slot, first, true); /* late */
    assert_int_equal(cache.slots[slot].state, HALO_EXPERT_READING);
    assert_true(cache.slots[slot].generation > first);
    halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
    assert_int_equal(cache.slots[slot].state, HALO_EXPERT_ARRIVED);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

static void nobody_takes_what_is_held(void **state)
{
    struct halo_expert_cache cache;
    uint32_t held[8];
    assert_int_equal(halo_expert_cache_init(&cache, 2, 8, 10, 2), 0);
    for (uint32_t id = 0; id < 2; id++)
        use(&cache, 1, id);
    for (uint32_t id = 0; id < 8; id++)
        held[id] = halo_expert_cache_choose(&cache, 0, id);
    assert_int_not_equal(halo_expert_cache_choose(&cache, 1, 5), HALO_EXPERT_NONE);
    assert_int_equal(cache.layers[1].n_slots, 2); /* its own had to go */
    for (uint32_t id = 0; id < 8; id++)
        assert_int_equal(halo_expert_cache_find(&cache, 0, id), held[id]);
    assert_int_not_equal(halo_expert_cache_choose(&cache, 1, 6), HALO_EXPERT_NONE);
    assert_int_equal(halo_expert_cache_choose(&cache, 1, 7), HALO_EXPERT_NONE); /* all are held or read into */
    assert_int_equal(halo_expert_cache_guess(&cache, 1, 7), HALO_EXPERT_NONE);
    check(&cache);
    for (uint32_t id = 0; id < 8; id++) {
        halo_expert_cache_arrive(&cache, held[id], cache.slots[held[id]].generation, true);
        halo_expert_cache_release(&cache, held[id]);
    }
    assert_int_not_equal(halo_expert_cache_choose(&cache, 1, 7), HALO_EXPERT_NONE);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

/* A guess takes the slot that a miss would take, if that was of no use for a while: longer where it often was. */
static void what_a_guess_takes(void **state)
{
    static const uint32_t all[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct halo_expert_cache cache;
    assert_int_equal(halo_expert_cache_init(&cache, 2, 8, 10, 2), 0);
    run_layer(&cache, 0, all, 8);
    run_layer(&cache, 1, all, 2);
    assert_int_equal(halo_expert_cache_guess(&cache, 1, 5), HALO_EXPERT_NONE);
    run_layer(&cache, 0, all, 7);
    uint32_t slot = halo_expert_cache_find(&cache, 0, 7);
    assert_int_equal(halo_expert_cache_guess(&cache, 1, 5), slot);
    assert_int_equal(halo_expert_cache_find(&cache, 0, 7), HALO_EXPERT_NONE);
    halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, false); /* given up */
    for (int i = 0; i < 64; i++)
        run_layer(&cache, 0, all, 8);
    slot = halo_expert_cache_find(&cache, 0, 7);
    uint32_t patience = 1u << cache.slots[slot].class, n = 0;
    assert_true(patience > 1);
    do {
        run_layer(&cache, 0, all, 7);
        n++;
    } while (halo_expert_cache_guess(&cache, 1, 5) == HALO_EXPERT_NONE);
    assert_int_equal(n, patience);
    assert_int_equal(halo_expert_cache_find(&cache, 1, 5), slot);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

static void every_layer_keeps_its_least(void **state)
{
    struct halo_expert_cache cache;
    uint32_t all[16], few[3] = {1, 2, 3};
    for (uint32_t i = 0; i < 16; i++)
        all[i] = i;
    assert_int_equal(halo_expert_cache_init(&cache, 4, 16, 16 + 3 * 3, 3), 0);
    for (uint32_t layer = 0; layer < 4; layer++)
        run_layer(&cache, layer, few, 3);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t layer = 0; layer < 4; layer++) {
            run_layer(&cache, layer, all, 16);
            for (uint32_t other = 0; other < 4; other++)
                assert_true(cache.layers[other].n_slots >= 3);
            check(&cache);
        }
    halo_expert_cache_finish(&cache);
}

/* Prompts: every layer uses all its experts, one layer after the other, over and over. A global order by last use would
 * evict just what the next layers need, and never hit. */
static void no_cliff_when_all_are_used(void **state)
{
    enum { LAYERS = 8, EXPERTS = 32, SLOTS = LAYERS * EXPERTS / 2, ROUNDS = 20 };
    struct halo_expert_cache cache;
    uint32_t all[EXPERTS], n_hits = 0;
    for (uint32_t i = 0; i < EXPERTS; i++)
        all[i] = i;
    assert_int_equal(halo_expert_cache_init(&cache, LAYERS, EXPERTS, SLOTS, 2), 0);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            n_hits += run_layer(&cache, layer, all, EXPERTS);
    double rate = (double)n_hits / ((ROUNDS - 1) * LAYERS * EXPERTS);
    double best =
        (double)(SLOTS - EXPERTS) / (LAYERS * EXPERTS); /* of slots that need not be free for the next layer */
    print_message("all experts in turn: %.3f of the reads found, of at most about %.3f\n", rate, best);
    assert_true(rate > 0.9 * best);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

/* A prompt after tokens that left their experts in all layers: each expert is read once at most, what is there when its
 * layer's turn comes is found, and the next layer is read while one runs. What goes is what was chosen least, but for
 * the layers whose turn came last. */
static void a_sweep_reads_what_is_missing(void **state)
{
    enum { LAYERS = 12, EXPERTS = 32, SHARE = 16, SLOTS = LAYERS * SHARE, LEAST = 4 };
    struct halo_expert_cache cache;
    uint32_t all[EXPERTS], n_read = 0, n_late = 0;
    for (uint32_t i = 0; i < EXPERTS; i++)
        all[i] = EXPERTS - 1 - i;
    assert_int_equal(halo_expert_cache_init(&cache, LAYERS, EXPERTS, SLOTS, LEAST), 0);
    for (uint32_t token = 0; token < 40; token++) /* 0 to 7 in each of them, the others one after the other */
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            uint32_t ids[] = {token % 8, 8 + token % (SHARE - 8)};
            run_layer(&cache, layer, ids, 2);
        }
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        halo_expert_cache_run(&cache, layer, true);
        for (uint32_t i = 0; i < EXPERTS; i++)
            halo_expert_cache_hold(&cache, layer, all[i]);
        for (uint32_t i = 0; i < EXPERTS; i++) {
            uint32_t slot = halo_expert_cache_choose(&cache, layer, all[i]);
            assert_int_not_equal(slot, HALO_EXPERT_NONE);
            if (cache.slots[slot].state != HALO_EXPERT_READING)
                continue;
            n_late += layer > 0;
            n_read++;
            halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
        }
        for (uint32_t id = 0; id < EXPERTS && layer + 1 < LAYERS; id++) {
            uint32_t slot = halo_expert_cache_ahead(&cache, layer, layer + 1, id);
            if (slot == HALO_EXPERT_NONE)
                continue;
            n_read++;
            halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
        }
        for (uint32_t i = 0; i < EXPERTS; i++)
            halo_expert_cache_unhold(&cache, layer, all[i]);
        check(&cache);
    }
    /* Two layers had all of their experts in slots at once, which others had to give up: once. */
    print_message("a sweep reads %u of %u, %u are there at first\n", n_read, LAYERS * EXPERTS, SLOTS);
    assert_int_equal(n_late, 0);
    assert_in_range(n_read, LAYERS * EXPERTS - SLOTS, LAYERS * EXPERTS - SLOTS + 2 * (EXPERTS - SHARE));
    for (uint32_t layer = 0; layer < LAYERS / 2; layer++)
        for (uint32_t id = 0; id < 8; id++)
            assert_int_not_equal(halo_expert_cache_find(&cache, layer, id), HALO_EXPERT_NONE);
    halo_expert_cache_finish(&cache);
}

/* ---- traces ---- */

static uint64_t random_state;
static double random_unit(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 0x1p53;
}

/* n different experts of one layer by weight[]. */
static void draw(const double *weight, uint32_t n_expert, uint32_t n, uint32_t *ret)
{
    for (uint32_t i = 0; i < n;) {
        double at = random_unit() * weight[n_expert], sum = 0;
        uint32_t id = 0;
        while (id < n_expert - 1 && (sum += weight[id]) < at)
            id++;
        bool is_new = true;
        for (uint32_t k = 0; k < i; k++)
            is_new &= ret[k] != id;
        if (is_new)
            ret[i++] = id;
    }
}

enum { T_LAYERS = 12, T_EXPERTS = 64, T_USED = 4, T_TOKENS = 600 };

/* The hit rate of least recently used over all layers. */
static uint32_t lru_hit(uint64_t used[T_LAYERS][T_EXPERTS], uint64_t now, uint32_t layer, uint32_t id, uint32_t n_slots)
{
    bool hit = used[layer][id] > 0;
    used[layer][id] = now;
    uint32_t n = 0, old_layer = 0, old_id = 0;
    uint64_t oldest = UINT64_MAX;
    for (uint32_t l = 0; l < T_LAYERS; l++)
        for (uint32_t e = 0; e < T_EXPERTS; e++) {
            n += used[l][e] > 0;
            if (used[l][e] > 0 && used[l][e] < oldest) {
                oldest = used[l][e];
                old_layer = l;
                old_id = e;
            }
        }
    if (n > n_slots)
        used[old_layer][old_id] = 0;
    return hit;
}

/* Hit rates of decoding with experts of rank r as likely as r^-exponent, each layer in an order of its own. */
static void rates(double exponent, uint32_t n_slots, double *ret_ours, double *ret_lru)
{
    static uint64_t used[T_LAYERS][T_EXPERTS];
    struct halo_expert_cache cache;
    double weight[T_EXPERTS + 1] = {0};
    uint64_t now = 0;
    uint32_t n_ours = 0, n_lru = 0, n = 0;
    for (uint32_t e = 0; e < T_EXPERTS; e++)
        weight[T_EXPERTS] += weight[e] = pow(e + 1, -exponent);
    memset(used, 0, sizeof(used));
    random_state = 7;
    assert_int_equal(halo_expert_cache_init(&cache, T_LAYERS, T_EXPERTS, n_slots, T_USED + 1), 0);
    for (uint32_t token = 0; token < T_TOKENS; token++)
        for (uint32_t layer = 0; layer < T_LAYERS; layer++) {
            uint32_t ids[T_USED];
            draw(weight, T_EXPERTS, T_USED, ids);
            for (uint32_t i = 0; i < T_USED; i++)
                ids[i] = (ids[i] * 29 + layer * 7) % T_EXPERTS;
            uint32_t hits = run_layer(&cache, layer, ids, T_USED), lru = 0;
            for (uint32_t i = 0; i < T_USED; i++)
                lru += lru_hit(used, ++now, layer, ids[i], n_slots);
            if (token < T_TOKENS / 4)
                continue;
            n_ours += hits;
            n_lru += lru;
            n += T_USED;
        }
    check(&cache);
    halo_expert_cache_finish(&cache);
    *ret_ours = (double)n_ours / n;
    *ret_lru = (double)n_lru / n;
    print_message("exponent %.1f, %u of %u experts: %.3f, least recently used %.3f\n", exponent, n_slots,
                  T_LAYERS * T_EXPERTS, *ret_ours, *ret_lru);
}

static void hit_rates(void **state)
{
    double ours, lru;
    rates(0, 3 * T_LAYERS * T_EXPERTS / 8, &ours, &lru);
    assert_true(fabs(ours - 3.0 / 8) < 0.04); /* of uniform choices nothing can be learned */
    for (uint32_t eighths = 2; eighths <= 6; eighths += 2) {
        rates(0.7, eighths * T_LAYERS * T_EXPERTS / 8, &ours, &lru);
        assert_true(ours > lru - 0.005);
        rates(1.2, eighths * T_LAYERS * T_EXPERTS / 8, &ours, &lru);
        assert_true(ours > lru - 0.005);
    }
    rates(1.2, 64 + 11 * 5, &ours, &lru); /* fewer than three tokens' experts */
    assert_true(ours > lru);
}

/* ---- memory that is given back ---- */

/* The slots that are worth least close, the cache works with the rest, and what opens again is empty. */
static void closing(void **state)
{
    enum { LAYERS = 3, EXPERTS = 8, LEAST = 8 + 2 * 2, SLOTS = 24, SLAB = 4 };
    struct halo_expert_cache cache;
    const uint32_t ids[] = {1, 2};
    uint32_t n_closed = 0;
    assert_int_equal(halo_expert_cache_init(&cache, LAYERS, EXPERTS, SLOTS, 2), 0);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (uint32_t id = 0; id < EXPERTS; id++)
            use(&cache, layer, id);
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            assert_int_equal(run_layer(&cache, layer, ids, 2), 2);
    while (cache.n_open - SLAB >= LEAST) {
        uint64_t least = HALO_EXPERT_BUSY;
        uint32_t first = SLOTS;
        for (uint32_t slab = 0; slab < SLOTS; slab += SLAB) {
            uint64_t worth = halo_expert_cache_worth(&cache, slab, SLAB);
            if (worth < least) {
                least = worth;
                first = slab;
            }
        }
        assert_true(first < SLOTS);
        halo_expert_cache_close(&cache, first, SLAB);
        n_closed += SLAB;
        check(&cache);
    }
    assert_int_equal(cache.n_open, LEAST);
    assert_int_equal(n_closed, SLOTS - LEAST);
    for (uint32_t slab = 0; slab < SLOTS; slab += SLAB) /* the cache needs the others */
        assert_int_equal(halo_expert_cache_worth(&cache, slab, SLAB), HALO_EXPERT_BUSY);
    for (uint32_t layer = 0; layer < LAYERS; layer++) { /* what is chosen all the time is still there */
        assert_int_equal(run_layer(&cache, layer, ids, 2), 2);
        const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
        run_layer(&cache, layer, all, EXPERTS); /* and a prompt's layer fits */
        check(&cache);
    }
    for (uint32_t slab = 0; slab < SLOTS; slab += SLAB)
        if (cache.slots[slab].state == HALO_EXPERT_CLOSED)
            halo_expert_cache_open(&cache, slab, SLAB);
    check(&cache);
    assert_int_equal(cache.empty.n, SLOTS - LEAST);
    halo_expert_cache_finish(&cache);
}

static void what_is_in_use_does_not_close(void **state)
{
    struct halo_expert_cache cache;
    assert_int_equal(halo_expert_cache_init(&cache, 1, 4, 8, 1), 0);
    assert_int_equal(halo_expert_cache_worth(&cache, 0, 4), 0); /* empty */
    uint32_t slot = halo_expert_cache_choose(&cache, 0, 2), first = slot / 4 * 4;
    assert_int_equal(halo_expert_cache_worth(&cache, first, 4), HALO_EXPERT_BUSY);
    halo_expert_cache_release(&cache, slot); /* its read goes on */
    assert_int_equal(halo_expert_cache_worth(&cache, first, 4), HALO_EXPERT_BUSY);
    halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
    uint64_t lately = halo_expert_cache_worth(&cache, first, 4);
    assert_true(lately > 0 && lately != HALO_EXPERT_BUSY);
    halo_expert_cache_run(&cache, 0, false);
    assert_true(halo_expert_cache_worth(&cache, first, 4) < lately);
    halo_expert_cache_close(&cache, first, 4);
    assert_int_equal(halo_expert_cache_find(&cache, 0, 2), HALO_EXPERT_NONE);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

/* Single slots close, then the rest of their slab; opened again, all are empty. */
static void single_slots_close(void **state)
{
    struct halo_expert_cache cache;
    assert_int_equal(halo_expert_cache_init(&cache, 1, 4, 8, 1), 0);
    for (uint32_t id = 0; id < 4; id++)
        use(&cache, 0, id);
    uint32_t slot = halo_expert_cache_find(&cache, 0, 1), first = slot / 4 * 4;
    assert_int_equal(halo_expert_cache_close(&cache, slot, 1), 1);
    assert_int_equal(halo_expert_cache_find(&cache, 0, 1), HALO_EXPERT_NONE);
    assert_int_equal(halo_expert_cache_worth(&cache, slot, 1), HALO_EXPERT_BUSY); /* it is closed */
    check(&cache);
    assert_int_equal(halo_expert_cache_close(&cache, first, 4), 3);
    check(&cache);
    assert_int_equal(cache.n_open, 4);
    assert_int_equal(halo_expert_cache_open(&cache, slot, 1), 1);
    assert_int_equal(halo_expert_cache_open(&cache, first, 4), 3);
    assert_int_equal(halo_expert_cache_open(&cache, first, 4), 0);
    check(&cache);
    halo_expert_cache_finish(&cache);
}

/* ---- everything at once ---- */

/* Layers in turn, with slots for some: each is there when its turn comes, and read once in a round. */
static void ahead_in_turn(void **state)
{
    for (uint32_t n_slots = 2; n_slots <= 5; n_slots++) {
        struct halo_expert_cache cache;
        const uint32_t n_layers = 5;
        uint32_t n_read = 0, n_late = 0;
        assert_int_equal(halo_expert_cache_init(&cache, n_layers, 1, n_slots, 0), 0);
        for (uint32_t turn = 0; turn < 20 * n_layers; turn++) {
            uint32_t layer = turn % n_layers, slot = halo_expert_cache_choose(&cache, layer, 0);
            n_late += cache.slots[slot].state == HALO_EXPERT_READING && turn > 0;
            if (cache.slots[slot].state == HALO_EXPERT_READING)
                halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
            if (cache.slots[slot].state == HALO_EXPERT_ARRIVED)
                halo_expert_cache_ready(&cache, slot);
            halo_expert_cache_release(&cache, slot);
            for (uint32_t i = 0; i < n_slots; i++) {
                uint32_t now = (layer + 1) % n_layers, next = (now + i) % n_layers;
                slot = halo_expert_cache_ahead(&cache, now, next, 0);
                if (slot == HALO_EXPERT_NONE)
                    continue;
                n_read++;
                halo_expert_cache_arrive(&cache, slot, cache.slots[slot].generation, true);
                assert_int_not_equal(halo_expert_cache_find(&cache, now, 0), HALO_EXPERT_NONE);
            }
            check(&cache);
        }
        assert_int_equal(n_late, 0);
        assert_int_equal(n_read, n_slots == n_layers ? n_layers - 1 : 20 * n_layers + n_slots - 1);
        halo_expert_cache_finish(&cache);
    }
}

static void random_calls(void **state)
{
    enum { LAYERS = 5, EXPERTS = 9, SLOTS = 9 + 4 * 2 + 3 };
    struct halo_expert_cache cache;
    random_state = 11;
    assert_int_equal(halo_expert_cache_init(&cache, LAYERS, EXPERTS, SLOTS, 2), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t layer = (uint32_t)(random_unit() * LAYERS), id = (uint32_t)(random_unit() * EXPERTS);
        uint32_t slot = (uint32_t)(random_unit() * SLOTS);
        const struct halo_expert_slot *at = &cache.slots[slot];
        uint32_t pair = slot / 2 * 2 + 2 > SLOTS ? 0 : slot / 2 * 2;
        switch ((uint32_t)(random_unit() * 10)) {
        case 0: halo_expert_cache_choose(&cache, layer, id); break;
        case 1: halo_expert_cache_guess(&cache, layer, id); break;
        case 2: halo_expert_cache_run(&cache, layer, i % 2 == 0); break;
        case 3: halo_expert_cache_release(&cache, slot); break;
        case 4: halo_expert_cache_hold(&cache, layer, id); break;
        case 5: halo_expert_cache_arrive(&cache, slot, at->generation - (i % 3 == 0), i % 5 != 0); break;
        case 6:
            if (at->state == HALO_EXPERT_ARRIVED)
                halo_expert_cache_ready(&cache, slot);
            break;
        case 7:
            if (halo_expert_cache_worth(&cache, pair, 2) != HALO_EXPERT_BUSY)
                halo_expert_cache_close(&cache, pair, 2);
            break;
        case 8:
            if (cache.slots[pair].state == HALO_EXPERT_CLOSED)
                halo_expert_cache_open(&cache, pair, 2);
            break;
        default: halo_expert_cache_unhold(&cache, layer, id); break;
        }
        if (i % 16 == 0)
            check(&cache);
    }
    halo_expert_cache_finish(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(generations),
        cmocka_unit_test(nobody_takes_what_is_held),
        cmocka_unit_test(what_a_guess_takes),
        cmocka_unit_test(every_layer_keeps_its_least),
        cmocka_unit_test(no_cliff_when_all_are_used),
        cmocka_unit_test(a_sweep_reads_what_is_missing),
        cmocka_unit_test(hit_rates),
        cmocka_unit_test(ahead_in_turn),
        cmocka_unit_test(closing),
        cmocka_unit_test(what_is_in_use_does_not_close),
        cmocka_unit_test(single_slots_close),
        cmocka_unit_test(random_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
