/* test_score.c: score sequences: every row once, from where it was asked, beside replies, and through preemption. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static struct halo_sequence_setup score_setup(struct rig *rig, uint32_t seed, uint32_t n, uint32_t from, uint32_t n_top)
{
    struct halo_sequence_setup setup = rig_setup(rig, seed, n, 0);
    setup.kind = HALO_SEQUENCE_SCORE;
    setup.score_from = from;
    setup.n_top = n_top;
    return setup;
}

static void every_row_comes_once_in_order(void **state)
{
    struct rig rig;
    rig_init(&rig, 32, 8, 64);
    struct halo_sequence_setup setup = score_setup(&rig, 1, 100, 0, 3);
    struct rig_seq *all = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(all->outcome, HALO_OUTCOME_SCORED);
    assert_int_equal(all->n_rows, 100);
    assert_int_equal(all->n_top, 3);
    double sum = 0;
    for (uint32_t i = 0; i < 99; i++) {
        assert_true(all->row_has[i] && all->row_logprobs[i] < 0);
        sum -= all->row_logprobs[i];
    }
    assert_false(all->row_has[99]); /* nothing follows the last */
    assert_true(fabs(all->nll - sum / 99) < 1e-12);
    for (uint32_t from = 0; from < 100; from += 33) {
        setup = score_setup(&rig, 1, 100, from, 0);
        struct rig_seq *part = rig_submit(&rig, &setup);
        rig_run(&rig);
        assert_int_equal(part->first_row, from);
        assert_int_equal(part->n_rows, 100 - from);
        assert_memory_equal(part->row_logprobs, all->row_logprobs + from, (99 - from) * sizeof(double));
    }
    rig_finish(&rig);
}

/* The rows that need no logits cost none. */
static void rows_in_front_have_no_outputs(void **state)
{
    struct rig rig;
    rig_init(&rig, 32, 8, 64);
    struct halo_sequence_setup setup = score_setup(&rig, 2, 200, 190, 0);
    rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(rig.control.n_outputs, 10);
    rig_finish(&rig);
}

static void a_full_house_of_replies_does_not_starve_a_score(void **state)
{
    struct rig rig;
    rig_init(&rig, 32, 8, 64);
    struct halo_sequence_setup setup = score_setup(&rig, 3, 50, 0, 0);
    struct rig_seq *alone = rig_submit(&rig, &setup);
    rig_run(&rig);
    double want[64];
    memcpy(want, alone->row_logprobs, sizeof(want));
    for (uint32_t i = 0; i < 5; i++) {
        struct halo_sequence_setup reply = rig_setup(&rig, 10 + i, 8, 200);
        rig_submit(&rig, &reply);
    }
    rig_step(&rig);
    setup = score_setup(&rig, 3, 50, 0, 0);
    struct rig_seq *score = rig_submit(&rig, &setup);
    while (score->n_done == 0)
        rig_step(&rig);
    assert_int_equal(rig.n_open, 5); /* the replies are still at it */
    assert_int_equal(score->n_rows, 50);
    assert_memory_equal(score->row_logprobs, want, 49 * sizeof(double));
    rig_run(&rig);
    rig_finish(&rig);
}

/* A score that loses its pages computes them again but reports no row twice. */
static void preemption_repeats_no_row(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 4, 8); /* 256 tokens */
    struct halo_sequence_setup reply = rig_setup(&rig, 5, 20, 200);
    struct rig_seq *old = rig_submit(&rig, &reply);
    rig_step(&rig);
    struct halo_sequence_setup setup = score_setup(&rig, 4, 120, 0, 0);
    struct rig_seq *score = rig_submit(&rig, &setup);
    while (score->n_rows < 40)
        rig_step(&rig);
    score->blocked = true; /* its reader falls asleep: it is paused, and the reply takes its pages */
    while (score->n_done == 0 && old->n_done == 0)
        rig_step(&rig);
    assert_int_equal(old->n_done, 1);
    assert_int_equal(old->n_preempted, 0);
    assert_int_equal(halo_sequence_state_of(score->sequence), HALO_SEQUENCE_QUEUED);
    score->blocked = false;
    atomic_store(&score->sequence->events_posted, false);
    halo_sequence_tell(score->sequence, &rig.port);
    rig_collect(&rig);
    rig_run(&rig);
    assert_true(score->n_preempted > 0);
    assert_int_equal(score->n_rows, 120); /* the rig fails on a row out of order */
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_comes_once_in_order),
        cmocka_unit_test(rows_in_front_have_no_outputs),
        cmocka_unit_test(a_full_house_of_replies_does_not_starve_a_score),
        cmocka_unit_test(preemption_repeats_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
