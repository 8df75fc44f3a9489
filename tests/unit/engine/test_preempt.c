/* test_preempt.c: a page pool that is too small: the youngest goes back to the queue, the oldest always gets on, ids do
 * not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define N_SEQS 6
#define N_TOKENS 150

static void reference(int32_t ids[N_SEQS][N_TOKENS])
{
    for (uint32_t i = 0; i < N_SEQS; i++) {
        struct rig rig;
        rig_init(&rig, 64, 8, 64);
        struct halo_sequence_setup setup = rig_setup(&rig, 100 + i, 10 + 20 * i, N_TOKENS);
        setup.sampler.temperature = 1;
        struct rig_seq *seq = rig_submit(&rig, &setup);
        rig_run(&rig);
        assert_int_equal(seq->n_ids, N_TOKENS);
        memcpy(ids[i], seq->ids, sizeof(ids[i]));
        rig_finish(&rig);
    }
}

static void ids_are_the_same_whatever_the_pool(void **state)
{
    static int32_t want[N_SEQS][N_TOKENS];
    reference(want);
    for (uint32_t n_pages = 9; n_pages <= 44; n_pages += 5) { /* the longest alone needs 9, all together 42 */
        struct rig rig;
        uint32_t n_preempted = 0;
        rig_init(&rig, 24, 8, n_pages);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            struct halo_sequence_setup setup = rig_setup(&rig, 100 + i, 10 + 20 * i, N_TOKENS);
            setup.sampler.temperature = 1;
            rig_submit(&rig, &setup);
        }
        rig_run(&rig);
        for (uint32_t i = 0; i < N_SEQS; i++) {
            assert_int_equal(rig.seqs[i].outcome, HALO_OUTCOME_LENGTH);
            assert_int_equal(rig.seqs[i].n_started, 1);
            assert_memory_equal(rig.seqs[i].ids, want[i], sizeof(want[i]));
            n_preempted += rig.seqs[i].n_preempted;
        }
        assert_int_equal(rig.seqs[0].n_preempted, 0); /* the oldest never pays */
        assert_int_equal(n_preempted, rig.stats.preemptions);
        if (n_pages == 14)
            assert_true(n_preempted > 0); /* several were admitted and could not all stay */
        if (n_pages == 44)
            assert_int_equal(n_preempted, 0);
        rig_finish(&rig);
    }
}

static void a_paused_sequence_goes_first_even_if_older(void **state)
{
    struct rig rig;
    rig_init(&rig, 24, 8, 8);
    struct halo_sequence_setup setup = rig_setup(&rig, 1, 60, 40);
    struct rig_seq *old = rig_submit(&rig, &setup);
    rig_step(&rig);
    setup = rig_setup(&rig, 2, 40, 180);
    struct rig_seq *young = rig_submit(&rig, &setup);
    rig_step(&rig);
    rig_step(&rig);
    atomic_store(&old->sequence->hold, true);
    while (young->n_done == 0)
        assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(young->n_preempted, 0);
    assert_int_equal(halo_sequence_state_of(old->sequence), HALO_SEQUENCE_QUEUED);
    assert_int_equal(rig_step(&rig), HALO_SCHEDULER_IDLE); /* held: it is not admitted either */
    atomic_store(&old->sequence->hold, false);
    rig_run(&rig);
    assert_int_equal(old->n_preempted, 1);
    assert_int_equal(old->n_ids, 40);
    rig_finish(&rig);
}

static void a_held_one_in_the_queue_blocks_nobody(void **state)
{
    struct rig rig;
    rig_init(&rig, 24, 8, 16);
    struct halo_sequence_setup setup = rig_setup(&rig, 3, 20, 20);
    struct rig_seq *held = rig_submit(&rig, &setup);
    atomic_store(&held->sequence->hold, true);
    struct rig_seq *behind = rig_submit(&rig, &setup);
    while (behind->n_done == 0)
        assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(held->n_started, 0);
    atomic_store(&held->sequence->hold, false);
    rig_run(&rig);
    assert_memory_equal(held->ids, behind->ids, 20 * sizeof(int32_t));
    rig_finish(&rig);
}

static void large_ones_are_not_overtaken_for_ever(void **state)
{
    struct rig rig;
    rig_init(&rig, 24, 8, 10);
    struct halo_sequence_setup setup = rig_setup(&rig, 4, 60, 200);
    struct rig_seq *first = rig_submit(&rig, &setup);
    rig_step(&rig);
    setup = rig_setup(&rig, 5, 250, 20); /* must wait for the first */
    struct rig_seq *large = rig_submit(&rig, &setup);
    setup = rig_setup(&rig, 6, 4, 4); /* would fit beside the first */
    struct rig_seq *small = rig_submit(&rig, &setup);
    while (large->n_started == 0)
        assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(first->n_done, 1);
    assert_int_equal(small->n_done, 0); /* in order of arrival */
    rig_run(&rig);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_the_same_whatever_the_pool),
        cmocka_unit_test(a_paused_sequence_goes_first_even_if_older),
        cmocka_unit_test(a_held_one_in_the_queue_blocks_nobody),
        cmocka_unit_test(large_ones_are_not_overtaken_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
