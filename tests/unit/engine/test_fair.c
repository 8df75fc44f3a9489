/* test_fair.c: prompts beside replies and beside each other: who decodes has a row in every step, the oldest prompt
 * gets on in every step, a short one is not held up by a long one, and equal ones are computed once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

static void replies_have_a_row_in_every_step(void **state)
{
    enum { REPLIES = 8 };
    struct rig rig;
    rig_init(&rig, 64, 16, 256);
    rig.control.row_us = 200; /* so that pieces are smaller than the batch */
    for (uint32_t i = 0; i < REPLIES; i++) {
        struct halo_sequence_setup setup = rig_setup(&rig, i, 4, 600);
        rig_submit(&rig, &setup);
    }
    while (rig.seqs[REPLIES - 1].n_ids < 5)
        rig_step(&rig);
    struct halo_sequence_setup setup = rig_setup(&rig, 50, 900, 4);
    struct rig_seq *prompt = rig_submit(&rig, &setup);
    uint32_t n_steps = 0, n_without = 0;
    for (; prompt->n_done == 0; n_steps++) {
        uint32_t before[REPLIES], filled = prompt->sequence->n_filled;
        for (uint32_t i = 0; i < REPLIES; i++)
            before[i] = rig.seqs[i].n_ids;
        assert_int_equal(rig_step(&rig), 0);
        for (uint32_t i = 0; i < REPLIES; i++)
            assert_int_equal(rig.seqs[i].n_ids, before[i] + 1);
        n_without += prompt->sequence && prompt->sequence->n_filled == filled;
    }
    assert_true(n_steps > 16); /* it was cut, and not in pieces of one token */
    assert_true(n_steps < 900);
    assert_true(n_without <= 2 + n_steps / HALO_PACE_MIXED); /* the steps that measure */
    for (uint32_t i = 0; i < REPLIES; i++)
        atomic_store(&rig.seqs[i].sequence->cancel, true);
    rig_run(&rig);
    rig_finish(&rig);
}

static void a_short_prompt_is_not_held_up_by_long_ones(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 16, 256);
    struct rig_seq *longs[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct halo_sequence_setup setup = rig_setup(&rig, 60 + i, 960, 2);
        longs[i] = rig_submit(&rig, &setup);
    }
    rig_step(&rig);
    struct halo_sequence_setup setup = rig_setup(&rig, 70, 60, 2);
    struct rig_seq *small = rig_submit(&rig, &setup);
    uint32_t n_steps = 0;
    for (; small->n_ids == 0; n_steps++) {
        uint32_t before = longs[0]->sequence->n_filled;
        rig_step(&rig);
        assert_true(longs[0]->sequence->n_filled >= before + 16); /* at least half of the smallest piece */
    }
    assert_true(n_steps <= 5); /* 3 to get through half of 64 rows, one to measure */
    rig_run(&rig);
    assert_int_equal(longs[0]->n_ids, 2);
    rig_finish(&rig);
}

/* Short prompts that keep coming do not stop a long one. */
static void a_long_prompt_always_gets_on(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 16, 256);
    struct halo_sequence_setup setup = rig_setup(&rig, 80, 960, 2);
    struct rig_seq *large = rig_submit(&rig, &setup);
    uint32_t n_steps = 0;
    for (; large->n_ids == 0; n_steps++) {
        assert_true(n_steps < 900);
        setup = rig_setup(&rig, 1000 + n_steps, 50, 1);
        rig_submit(&rig, &setup);
        rig_step(&rig);
    }
    rig_run(&rig);
    rig_finish(&rig);
}

static void equal_prompts_at_once_are_computed_once(void **state)
{
    enum { N = 6, PROMPT = 200 };
    struct rig rig;
    rig_init(&rig, 64, 16, 256);
    struct halo_sequence_setup setup = rig_setup(&rig, 90, PROMPT, 3);
    for (uint32_t i = 0; i < N; i++) {
        setup.sampler.temperature = 1;
        setup.sampler.seed = i;
        rig_submit(&rig, &setup);
    }
    rig_run(&rig);
    /* The others share six whole pages and compute the 8 ids behind them. */
    assert_int_equal(rig.control.n_rows, PROMPT + (N - 1) * 8 + N * 2);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(rig.seqs[i].n_ids, 3);
        assert_int_equal(rig.seqs[i].n_cached, i == 0 ? 0 : 192);
    }
    rig_finish(&rig);
}

/* Those who wait for the oldest's pages go on by themselves when it leaves. */
static void nobody_waits_for_one_who_left(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 16, 256);
    struct halo_sequence_setup setup = rig_setup(&rig, 91, 700, 3);
    struct rig_seq *first = rig_submit(&rig, &setup), *second = rig_submit(&rig, &setup);
    for (int i = 0; i < 3; i++)
        rig_step(&rig);
    atomic_store(&first->sequence->cancel, true);
    rig_run(&rig);
    assert_int_equal(second->outcome, HALO_OUTCOME_LENGTH);
    assert_int_equal(rig.control.n_rows, 700 + 2);
    rig_finish(&rig);
}

static void a_user_who_fills_the_queue_holds_nobody_up(void **state)
{
    enum { MANY = 20 };
    struct rig rig;
    rig_init(&rig, 64, 4, 256); /* three at once */
    struct halo_sequence_setup setup = rig_setup(&rig, 92, 4, 30);
    setup.user = 1;
    for (uint32_t i = 0; i < MANY; i++)
        rig_submit(&rig, &setup);
    rig_step(&rig);
    setup.user = 2;
    struct rig_seq *other = rig_submit(&rig, &setup), *again = rig_submit(&rig, &setup);
    rig_step(&rig);
    assert_int_equal(other->n_started, 1); /* the first user's youngest made room at once */
    assert_int_equal(rig.scheduler.n_running, 3);
    assert_int_equal(halo_sequence_state_of(rig.seqs[2].sequence), HALO_SEQUENCE_QUEUED);
    assert_int_equal(rig.seqs[3].n_started, 0); /* of three places two are the first user's */
    while (other->n_done == 0) {
        assert_int_equal(again->n_started, 0); /* and one is the second's, not more */
        rig_step(&rig);
    }
    assert_int_equal(other->n_preempted, 0);
    rig_run(&rig);
    assert_int_equal(rig.seqs[2].n_preempted, 1);
    for (uint32_t i = 1; i < MANY; i++)
        assert_memory_equal(rig.seqs[i].ids, rig.seqs[0].ids, 30 * sizeof(int32_t));
    rig_finish(&rig);
}

/* All pages are a user's, whose replies grow: another user's reply gets its pages, and keeps them. */
static void a_user_who_fills_the_pages_holds_nobody_up(void **state)
{
    enum { MANY = 8 };
    struct rig rig;
    rig_init(&rig, 64, 16, 32);
    struct halo_sequence_setup setup = rig_setup(&rig, 93, 60, 900);
    setup.cache_prompt = false;
    setup.user = 1;
    for (uint32_t i = 0; i < MANY; i++)
        rig_submit(&rig, &setup);
    while (rig.seqs[0].n_ids < 40)
        rig_step(&rig);
    setup = rig_setup(&rig, 94, 60, 200);
    setup.cache_prompt = false;
    setup.user = 2;
    struct rig_seq *other = rig_submit(&rig, &setup);
    rig_step(&rig);
    assert_int_equal(other->n_started, 1);
    while (other->n_done == 0)
        rig_step(&rig);
    assert_int_equal(other->outcome, HALO_OUTCOME_LENGTH);
    assert_int_equal(other->n_preempted, 0);
    assert_int_equal(rig.seqs[0].n_done, 0);
    for (uint32_t i = 0; i < MANY; i++)
        if (rig.seqs[i].sequence)
            atomic_store(&rig.seqs[i].sequence->cancel, true);
    rig_run(&rig);
    rig_finish(&rig);
}

/* Many prompts of one user, all with less left, do not hold up the one of another. */
static void a_user_who_fills_the_steps_holds_nobody_up(void **state)
{
    enum { MANY = 10, PROMPT = 640 };
    struct rig rig;
    rig_init(&rig, 64, 16, 512);
    for (uint32_t i = 0; i < MANY; i++) {
        struct halo_sequence_setup setup = rig_setup(&rig, 200 + i, PROMPT / 2, 2);
        setup.user = 1;
        rig_submit(&rig, &setup);
    }
    rig_step(&rig);
    struct halo_sequence_setup setup = rig_setup(&rig, 95, PROMPT, 2);
    setup.user = 2;
    struct rig_seq *other = rig_submit(&rig, &setup);
    uint32_t n_steps = 0;
    for (; other->n_ids == 0; n_steps++)
        rig_step(&rig);
    assert_true(n_steps <= PROMPT / 32 + 8); /* half of 64 rows in each; some steps only measure */
    assert_true(rig.seqs[MANY - 1].n_done == 0);
    rig_run(&rig);
    rig_finish(&rig);
}

/* A user with one running and a large one waiting gets it in, however many small ones another user sends. */
static void a_large_one_is_not_overtaken_for_ever_by_another_user(void **state)
{
    struct rig rig;
    rig_init(&rig, 24, 8, 10);
    struct halo_sequence_setup setup = rig_setup(&rig, 4, 60, 150);
    setup.user = 1;
    struct rig_seq *first = rig_submit(&rig, &setup);
    rig_step(&rig);
    setup = rig_setup(&rig, 5, 250, 20);
    setup.user = 1;
    struct rig_seq *large = rig_submit(&rig, &setup);
    uint32_t n_steps = 0;
    for (; large->n_started == 0; n_steps++) {
        assert_true(n_steps < 240);
        setup = rig_setup(&rig, 100 + n_steps % 50, 6, 6);
        setup.user = 2;
        if (rig.n_open < 6)
            rig_submit(&rig, &setup);
        rig_step(&rig);
    }
    assert_int_equal(first->n_done, 1);
    rig_run(&rig);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_have_a_row_in_every_step),
        cmocka_unit_test(a_short_prompt_is_not_held_up_by_long_ones),
        cmocka_unit_test(a_long_prompt_always_gets_on),
        cmocka_unit_test(equal_prompts_at_once_are_computed_once),
        cmocka_unit_test(nobody_waits_for_one_who_left),
        cmocka_unit_test(a_user_who_fills_the_queue_holds_nobody_up),
        cmocka_unit_test(a_user_who_fills_the_pages_holds_nobody_up),
        cmocka_unit_test(a_user_who_fills_the_steps_holds_nobody_up),
        cmocka_unit_test(a_large_one_is_not_overtaken_for_ever_by_another_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
