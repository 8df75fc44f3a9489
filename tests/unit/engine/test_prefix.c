/* test_prefix.c: what one sequence computed and the next does not compute again, on the scripted device, whose logits
 * depend on every token that the page table leads to: a page shared wrongly changes ids. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define PAGE HALO_KV_PAGE_TOKENS

/* Runs a setup to its end; rows that it cost. */
static struct rig_seq *run_one(struct rig *rig, const struct halo_sequence_setup *setup, uint32_t *ret_rows)
{
    uint32_t before = atomic_load(&rig->control.n_rows);
    struct rig_seq *seq = rig_submit(rig, setup);
    rig_run(rig);
    if (ret_rows)
        *ret_rows = atomic_load(&rig->control.n_rows) - before;
    return seq;
}

/* The ids of a setup without any reuse. */
static void ids_afresh(const struct halo_sequence_setup *setup, int32_t *ids)
{
    struct fake_control *kept = fake_control;
    struct halo_sequence_setup own = *setup;
    struct rig rig;
    rig_init(&rig, 48, 8, 64);
    own.cache_prompt = false;
    struct rig_seq *seq = run_one(&rig, &own, NULL);
    assert_int_equal(rig.stats.cached_tokens, 0);
    memcpy(ids, seq->ids, seq->n_ids * sizeof(*ids));
    rig_finish(&rig);
    fake_control = kept;
}

static void twenty_turns_prefill_only_what_is_new(void **state)
{
    enum { TURNS = 20, REPLY = 11 };
    struct rig rig;
    int32_t text[1024], want[REPLY];
    uint32_t n_text = 0;
    rig_init(&rig, 64, 8, 64);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t n_new = 5 + turn * 7 % 40, n_known = n_text, n_rows;
        struct halo_sequence_setup setup = rig_setup(&rig, 100 + turn, n_new, REPLY);
        memcpy(text + n_text, setup.ids, n_new * sizeof(*text));
        n_text += n_new;
        setup.ids = text;
        setup.n_prompt = n_text;
        setup.sampler.temperature = 0.8;
        ids_afresh(&setup, want);
        struct rig_seq *seq = run_one(&rig, &setup, &n_rows);
        assert_memory_equal(seq->ids, want, sizeof(want));
        /* The last id of a reply is committed and never run: its row is new, like those of the next question. */
        uint32_t n_cached = turn == 0 ? 0 : n_known - 1;
        assert_int_equal(seq->n_cached, n_cached);
        assert_int_equal(seq->n_started_cached, n_cached);
        assert_int_equal(n_rows, n_text - n_cached + REPLY - 1);
        memcpy(text + n_text, seq->ids, sizeof(want));
        n_text += REPLY;
    }
    assert_int_equal(rig.stats.prefix_hits, TURNS - 1);
    rig_finish(&rig);
}

static void the_last_token_is_always_computed(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    for (uint32_t n = 1; n <= 3 * PAGE; n++) { /* whole pages among them */
        struct halo_sequence_setup setup = rig_setup(&rig, n, n, 1);
        uint32_t n_first, n_again;
        struct rig_seq *first = run_one(&rig, &setup, &n_first);
        struct rig_seq *again = run_one(&rig, &setup, &n_again);
        assert_int_equal(n_first, n - first->n_cached); /* prompts of other seeds may begin alike */
        assert_int_equal(n_again, 1);
        assert_int_equal(again->n_cached, n - 1);
        assert_int_equal(again->ids[0], first->ids[0]);
        rig.n_seqs = 0;
        memset(rig.seqs, 0, RIG_MAX * sizeof(*rig.seqs));
    }
    rig_finish(&rig);
}

static void texts_that_part_in_a_page_share_up_to_there(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 1, 100, 20);
    run_one(&rig, &setup, NULL);
    for (uint32_t part = 1; part < 100; part += 9) {
        int32_t ids[100], want[20];
        memcpy(ids, setup.ids, sizeof(ids));
        for (uint32_t i = part; i < 100; i++)
            ids[i] = 2 + (ids[i] + 7) % 60;
        struct halo_sequence_setup other = setup;
        other.ids = ids;
        other.sampler.seed = part;
        ids_afresh(&other, want);
        struct rig_seq *seq = run_one(&rig, &other, NULL);
        assert_int_equal(seq->n_cached, part);
        assert_memory_equal(seq->ids, want, sizeof(want));
        halo_scheduler_forget(&rig.scheduler, true, 0);
        run_one(&rig, &setup, NULL);
    }
    assert_true(rig.control.n_copies > 5);
    rig_finish(&rig);
}

static void users_share_nothing(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 2, 90, 5);
    const uint64_t users[] = {1000, 1001, 0, HALO_SEQUENCE_NOBODY, 1001 + (1ull << 32)};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++) {
            setup.user = users[i];
            assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, round == 0 ? 0 : 89);
        }
    uint32_t n_idle = rig.scheduler.pool.prefix.n_idle;
    uint32_t n_freed = halo_scheduler_forget(&rig.scheduler, false, 1001); /* a user's reset is that user's */
    assert_true(n_freed >= 3 && rig.scheduler.pool.prefix.n_idle == n_idle - n_freed);
    for (int i = 0; i < 5; i++) {
        setup.user = users[i];
        assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, i == 1 ? 0 : 89);
    }
    rig_finish(&rig);
}

/* More users than lists of first pages: some share a list. */
static void users_in_one_list_share_nothing(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 4 * HALO_PREFIX_ROOTS);
    struct halo_sequence_setup setup = rig_setup(&rig, 2, 20, 1);
    for (uint64_t user = 0; user < 3 * HALO_PREFIX_ROOTS; user++) {
        setup.user = user;
        assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, 0);
    }
    for (setup.user = 0; setup.user < 50; setup.user++)
        assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, 19);
    rig_finish(&rig);
}

static void who_wants_no_cache_neither_takes_nor_leaves(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 3, 70, 30);
    setup.cache_prompt = false;
    run_one(&rig, &setup, NULL);
    assert_int_equal(rig.scheduler.pool.prefix.n_listed, 0);
    setup.cache_prompt = true;
    assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, 0);
    assert_true(rig.scheduler.pool.prefix.n_listed > 0);
    setup.cache_prompt = false;
    assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, 0);
    rig_finish(&rig);
}

static void a_reset_forgets_also_what_still_runs(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 4, 70, 60);
    run_one(&rig, &setup, NULL);
    assert_int_equal(rig.scheduler.pool.prefix.n_listed, 5); /* 129 positions; the last id is not computed */
    struct rig_seq *running = rig_submit(&rig, &setup);
    for (int i = 0; i < 10; i++)
        rig_step(&rig);
    uint32_t n_free = rig.scheduler.pool.n_free, n_idle = rig.scheduler.pool.prefix.n_idle;
    assert_int_equal(halo_scheduler_forget(&rig.scheduler, true, 0), n_idle);
    assert_int_equal(rig.scheduler.pool.n_free, n_free + n_idle);
    rig_run(&rig);
    assert_int_equal(running->outcome, HALO_OUTCOME_LENGTH);
    assert_memory_equal(running->ids, rig.seqs[0].ids, 60 * sizeof(int32_t));
    assert_int_equal(rig.scheduler.pool.prefix.n_listed, 0);
    assert_int_equal(rig.scheduler.pool.n_free, 64);
    assert_int_equal(run_one(&rig, &setup, NULL)->n_cached, 0);
    rig_finish(&rig);
}

static void the_longest_unused_goes_first(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 12); /* three texts of 4 pages */
    struct halo_sequence_setup setups[4];
    int32_t ids[4][100];
    for (uint32_t i = 0; i < 4; i++) {
        setups[i] = rig_setup(&rig, 10 + i, 100, 20);
        memcpy(ids[i], setups[i].ids, sizeof(ids[i]));
        ids[i][0] = 10 + (int32_t)i; /* no two begin alike */
        setups[i].ids = ids[i];
    }
    for (uint32_t i = 0; i < 3; i++)
        run_one(&rig, &setups[i], NULL);
    assert_int_equal(rig.scheduler.pool.n_free, 0);
    assert_int_equal(run_one(&rig, &setups[0], NULL)->n_cached, 99); /* used again: now 1 is the oldest */
    run_one(&rig, &setups[3], NULL);
    assert_true(rig.scheduler.pool.prefix.n_evicted >= 4);
    assert_int_equal(run_one(&rig, &setups[3], NULL)->n_cached, 99);
    assert_int_equal(run_one(&rig, &setups[0], NULL)->n_cached, 99);
    assert_int_equal(run_one(&rig, &setups[1], NULL)->n_cached, 0);
    rig_finish(&rig);
}

static void equal_prompts_at_once_end_up_in_the_same_pages(void **state)
{
    struct rig rig;
    rig_init(&rig, 256, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 5, 128, 60);
    struct rig_seq *a = rig_submit(&rig, &setup), *b = rig_submit(&rig, &setup);
    for (int i = 0; i < 5; i++)
        rig_step(&rig);
    for (uint32_t page = 0; page < 4; page++)
        assert_int_equal(a->sequence->table.pages[page], b->sequence->table.pages[page]);
    assert_int_not_equal(a->sequence->table.pages[4], b->sequence->table.pages[4]);
    rig_run(&rig);
    assert_memory_equal(a->ids, b->ids, 60 * sizeof(int32_t));
    rig_finish(&rig);
}

static void a_preempted_sequence_finds_its_own_pages(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 6, 75, 40);
    int32_t want[40];
    ids_afresh(&setup, want);
    struct rig_seq *seq = rig_submit(&rig, &setup);
    for (int i = 0; i < 12; i++)
        rig_step(&rig);
    atomic_store(&seq->sequence->hold, true);
    rig_step(&rig);
    struct halo_kv_table bench;
    assert_int_equal(halo_kv_table_init(&bench, 65 * HALO_KV_PAGE_TOKENS), 0);
    assert_false(halo_scheduler_lend(&rig.scheduler, &bench, 1, 65 * HALO_KV_PAGE_TOKENS)); /* more than there are */
    halo_kv_table_finish(&bench);
    /* back in the queue, without pages */
    assert_int_equal(seq->sequence->table.n, 0);
    atomic_store(&seq->sequence->hold, false);
    uint32_t before = atomic_load(&rig.control.n_rows), n_left = 40 - seq->n_ids;
    rig_run(&rig);
    assert_int_equal(seq->n_preempted, 1);
    assert_int_equal(atomic_load(&rig.control.n_rows) - before, n_left);
    assert_int_equal(seq->n_cached, 0); /* it had computed all of them itself */
    assert_memory_equal(seq->ids, want, sizeof(want));
    rig_finish(&rig);
}

static void a_score_takes_what_lies_before_its_first_row(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 7, 150, 0);
    setup.kind = HALO_SEQUENCE_SCORE;
    double want[150];
    uint32_t n_rows;
    struct rig_seq *all = run_one(&rig, &setup, &n_rows);
    memcpy(want, all->row_logprobs, sizeof(want));
    assert_int_equal(n_rows, 150);
    run_one(&rig, &setup, &n_rows);
    assert_int_equal(n_rows, 150); /* from 0 on every row is wanted */
    static const uint32_t froms[] = {1, 31, 32, 33, 100, 128, 149};
    for (int i = 0; i < 7; i++) {
        setup.score_from = froms[i];
        struct rig_seq *seq = run_one(&rig, &setup, &n_rows);
        assert_int_equal(n_rows, 150 - froms[i]);
        assert_int_equal(seq->n_rows, 150 - froms[i]);
        assert_memory_equal(seq->row_logprobs, want + froms[i], (149 - froms[i]) * sizeof(double));
    }
    rig_finish(&rig);
}

static void a_faulty_text_is_not_kept(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 8, 100, 20);
    int32_t want[20];
    ids_afresh(&setup, want);
    rig.control.nan_token = setup.ids[90];
    assert_int_equal(run_one(&rig, &setup, NULL)->fault.code, HALO_FAULT_DEVICE_FAULT);
    assert_int_equal(rig.scheduler.pool.prefix.n_listed, 0);
    rig.control.nan_token = 0;
    struct rig_seq *seq = run_one(&rig, &setup, NULL);
    assert_int_equal(seq->n_cached, 0);
    assert_memory_equal(seq->ids, want, sizeof(want));
    rig_finish(&rig);
}

static void a_copy_that_fails_is_computed(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 9, 60, 10);
    struct rig_seq *first = run_one(&rig, &setup, NULL);
    rig.control.copy_error = -ENOTSUP;
    struct rig_seq *again = run_one(&rig, &setup, NULL);
    assert_int_equal(again->n_cached, PAGE);
    assert_memory_equal(again->ids, first->ids, 10 * sizeof(int32_t));
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_turns_prefill_only_what_is_new),
        cmocka_unit_test(the_last_token_is_always_computed),
        cmocka_unit_test(texts_that_part_in_a_page_share_up_to_there),
        cmocka_unit_test(users_share_nothing),
        cmocka_unit_test(users_in_one_list_share_nothing),
        cmocka_unit_test(who_wants_no_cache_neither_takes_nor_leaves),
        cmocka_unit_test(a_reset_forgets_also_what_still_runs),
        cmocka_unit_test(the_longest_unused_goes_first),
        cmocka_unit_test(equal_prompts_at_once_end_up_in_the_same_pages),
        cmocka_unit_test(a_preempted_sequence_finds_its_own_pages),
        cmocka_unit_test(a_score_takes_what_lies_before_its_first_row),
        cmocka_unit_test(a_faulty_text_is_not_kept),
        cmocka_unit_test(a_copy_that_fails_is_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
