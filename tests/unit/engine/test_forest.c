/* test_forest.c: many texts with common beginnings, several users, cancels, resets and a pool that is too small: each
 * reply is the one it would be without any reuse, and the index says nothing but the truth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define N_TEXTS 160
#define MAX_REPLY 24

static int32_t texts[N_TEXTS][256];
static uint32_t n_texts[N_TEXTS], n_replies[N_TEXTS];
static int32_t want[N_TEXTS][MAX_REPLY];

/* Every text begins like an earlier one, up to somewhere. */
static void grow_texts(struct rig *rig)
{
    srand(7);
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        uint32_t from = i == 0 ? 0 : (uint32_t)rand() % i, n_shared = i < 4 ? 0 : (uint32_t)rand() % n_texts[from];
        uint32_t n_own = 1 + (uint32_t)rand() % 70;
        if (n_shared + n_own > 200)
            n_shared = 200 - n_own;
        struct halo_sequence_setup setup = rig_setup(rig, i, n_own, 1);
        memcpy(texts[i], texts[from], n_shared * sizeof(int32_t));
        memcpy(texts[i] + n_shared, setup.ids, n_own * sizeof(int32_t));
        n_texts[i] = n_shared + n_own;
        n_replies[i] = 1 + (uint32_t)rand() % MAX_REPLY;
    }
}

static struct halo_sequence_setup setup_of(struct rig *rig, uint32_t i, bool cache)
{
    struct halo_sequence_setup setup = rig_setup(rig, i, 1, n_replies[i]);
    setup.ids = texts[i];
    setup.n_prompt = n_texts[i];
    setup.sampler.temperature = i % 3 ? 0.9 : 0;
    setup.cache_prompt = cache;
    setup.n_stable = i % 4 ? 1 + i * 13 % n_texts[i] : 0;
    return setup;
}

static int learn(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 16, 400);
    grow_texts(&rig);
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        struct halo_sequence_setup setup = setup_of(&rig, i, false);
        rig_submit(&rig, &setup);
    }
    rig_run(&rig);
    for (uint32_t i = 0; i < N_TEXTS; i++)
        memcpy(want[i], rig.seqs[i].ids, n_replies[i] * sizeof(int32_t));
    assert_int_equal(rig.stats.prefix_hits, 0);
    rig_finish(&rig);
    return 0;
}

/* Lists, counts and links agree, and idle pages are those without references. */
static void check_index(const struct halo_kv_pool *pool)
{
    const struct halo_prefix *prefix = &pool->prefix;
    uint32_t n_listed = 0, n_idle = 0, n_linked = 0;
    for (uint32_t page = 0; page < pool->n_pages; page++) {
        const struct halo_prefix_entry *entry = &prefix->entries[page];
        if (!entry->listed)
            continue;
        n_listed++;
        n_idle += entry->idle;
        assert_int_equal(entry->idle, pool->refs[page] == 0);
        if (entry->parent != HALO_PREFIX_NONE) {
            assert_true(prefix->entries[entry->parent].listed && prefix->entries[entry->parent].user == entry->user);
            assert_true(entry->idle || !prefix->entries[entry->parent].idle);
        }
        if (entry->n_ids == HALO_KV_PAGE_TOKENS)
            assert_int_equal(halo_prefix_find(prefix, entry->parent, entry->user, entry->ids), page);
    }
    for (uint32_t page = prefix->idle_first; page != HALO_PREFIX_NONE; page = prefix->entries[page].idle_next)
        n_linked++;
    assert_int_equal(n_listed, prefix->n_listed);
    assert_int_equal(n_idle, prefix->n_idle);
    assert_int_equal(n_linked, prefix->n_idle);
}

/* A page of a group with a window is attached to one listed page at most, and idle where nobody holds it. */
static void check_sides(const struct halo_kv_pool *pool)
{
    for (uint32_t s = 0; s < pool->n_sides; s++) {
        const struct halo_kv_side *side = &pool->sides[s];
        uint32_t n_attached = 0, n_idle = 0, n_linked = 0, n_of = 0;
        for (uint32_t page = 0; page < side->n_pages; page++) {
            uint32_t owner = side->pages[page].owner;
            n_attached += owner != HALO_KV_NO_PAGE;
            n_idle += owner != HALO_KV_NO_PAGE && side->pages[page].refs == 0;
            if (owner != HALO_KV_NO_PAGE) {
                assert_int_equal(side->of[owner], page);
                assert_true(pool->prefix.entries[owner].listed);
                assert_true(side->pages[page].refs == 0 || pool->refs[owner] > 0);
            }
        }
        for (uint32_t page = 0; page < pool->n_pages; page++)
            n_of += side->of[page] != HALO_KV_NO_PAGE;
        for (uint32_t worth = 0; worth < HALO_KV_N_WORTHS; worth++) {
            uint32_t before = n_linked;
            for (uint32_t page = side->idle[worth].first; page != HALO_KV_NO_PAGE; page = side->pages[page].idle_next) {
                assert_int_equal(side->pages[page].worth, worth);
                n_linked++;
            }
            assert_int_equal(n_linked - before, side->idle[worth].n);
        }
        assert_true(side->idle[HALO_KV_RESUMED].n <= halo_kv_most_resumed(side->n_pages, side->n_reserved));
        assert_int_equal(n_of, n_attached);
        assert_int_equal(n_idle, halo_kv_side_available(side) - side->n_free);
        assert_int_equal(n_linked, n_idle);
    }
}

static void disturb(struct rig *rig, uint32_t n_next, bool *cancelled)
{
    uint32_t i = (uint32_t)rand() % N_TEXTS;
    if (rand() % 60 == 0)
        halo_scheduler_forget(&rig->scheduler, rand() % 2, (uint64_t)rand() % 3);
    if (i >= n_next || !rig->seqs[i].sequence)
        return;
    if (rand() % 12 == 0)
        atomic_store(&rig->seqs[i].sequence->cancel, cancelled[i] = true);
    else
        atomic_store(&rig->seqs[i].sequence->hold, rand() % 4 == 0);
}

/* Returns how many began with something that was there. */
static uint64_t run_crowd(unsigned seed, const struct halo_plan *plan)
{
    struct rig rig;
    uint32_t n_pages = plan->kv[0].n_pages;
    bool cancelled[N_TEXTS] = {false};
    uint32_t n_next = 0;
    srand(seed);
    rig_init_plan(&rig, plan);
    for (int step = 0; n_next < N_TEXTS || rig.n_open > 0; step++) {
        assert_true(step < 20000);
        for (int k = rand() % 3; k > 0 && n_next < N_TEXTS; k--) {
            struct halo_sequence_setup setup = setup_of(&rig, n_next++, rand() % 8 != 0);
            setup.user = (uint64_t)rand() % 3;
            rig_submit(&rig, &setup);
        }
        disturb(&rig, n_next, cancelled);
        for (uint32_t k = 0; n_next == N_TEXTS && k < N_TEXTS; k++)
            if (rig.seqs[k].sequence)
                atomic_store(&rig.seqs[k].sequence->hold, false);
        rig_step(&rig);
        check_index(&rig.scheduler.pool);
        check_sides(&rig.scheduler.pool);
    }
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        assert_true(cancelled[i] || rig.seqs[i].n_ids == n_replies[i]);
        assert_memory_equal(rig.seqs[i].ids, want[i], rig.seqs[i].n_ids * sizeof(int32_t));
    }
    uint64_t n_hits = rig.stats.prefix_hits;
    if (plan->n_kv_groups == 1) {
        assert_true(rig.stats.prefix_hits > 20 && rig.stats.prefix_copies > 10);
        assert_true(n_pages > 100 || rig.scheduler.pool.prefix.n_evicted > 20);
    }
    rig_finish(&rig);
    return n_hits;
}

static void each_reply_is_the_one_without_reuse(void **state)
{
    static const uint32_t sizes[][2] = {{10, 48}, {40, 20}, {300, 64}};
    for (unsigned seed = 1; seed <= 6; seed++)
        for (int i = 0; i < 3; i++) {
            struct halo_plan plan;
            fake_plan(&plan, RIG_VOCAB, 1024, sizes[i][1], 16, sizes[i][0]);
            run_crowd(seed, &plan);
        }
}

/* The same beside groups with windows, whose pages are as few as one sequence needs, or as many as a load gives, and
 * beside one that keeps everything. */
static void windows_change_no_reply(void **state)
{
    uint64_t n_hits = 0; /* of all runs: how many a single one has depends on the order of its draws */
    static const uint32_t sizes[][2] = {{10, 48}, {40, 20}, {300, 64}}, windows[] = {1, 31, 32, 40, 0};
    for (unsigned i = 0; i < 15; i++)
        for (int tight = 0; tight < 2; tight++) {
            const uint32_t *size = sizes[i % 3], window = windows[i % 5];
            uint32_t span = halo_kv_span(window, size[1]);
            struct halo_plan plan;
            fake_plan(&plan, RIG_VOCAB, 1024, size[1], 16, size[0]);
            fake_plan_window(&plan, window, tight && window > 0 ? span : 0);
            if (i % 2)
                fake_plan_window(&plan, 100, 0);
            n_hits += run_crowd(i, &plan);
        }
    assert_true(n_hits > 600);
}

/* The same beside groups of states: with one slot, with a few, with as many as a load gives, and beside a window. */
static void states_change_no_reply(void **state)
{
    uint64_t n_hits = 0;
    static const uint32_t sizes[][2] = {{10, 48}, {40, 20}, {300, 64}}, slots[] = {1, 3, 40, 150};
    for (unsigned i = 0; i < 12; i++) {
        struct halo_plan plan;
        fake_plan(&plan, RIG_VOCAB, 1024, sizes[i % 3][1], 16, sizes[i % 3][0]);
        if (i % 2)
            fake_plan_window(&plan, 40, 0);
        fake_plan_states(&plan, slots[i % 4]);
        n_hits += run_crowd(i, &plan);
    }
    assert_true(n_hits > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_reply_is_the_one_without_reuse),
                                       cmocka_unit_test(windows_change_no_reply),
                                       cmocka_unit_test(states_change_no_reply)};
    return cmocka_run_group_tests(tests, learn, NULL);
}
