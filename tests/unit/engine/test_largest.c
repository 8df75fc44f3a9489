/* test_largest.c: a device that finds the largest logit by itself is asked for ids when nobody wants more, and for
 * whole rows as soon as one sequence of the step does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

enum { N = 3, LENGTH = 40 };

/* N greedy replies, the last one changed by `change` when there is one; the ids of all. */
static void run(bool finds_largest, void (*change)(struct halo_sequence_setup *setup), int32_t ids[N][LENGTH],
                uint32_t *ret_n_largest, uint32_t *ret_n_outputs)
{
    struct rig rig;
    struct rig_seq *seq[N];
    rig_init(&rig, 8, 8, 64);
    rig.scheduler.setup.finds_largest = finds_largest;
    for (uint32_t i = 0; i < N; i++) {
        struct halo_sequence_setup setup = rig_setup(&rig, i + 1, 5 + 9 * i, LENGTH);
        if (i == N - 1 && change)
            change(&setup);
        seq[i] = rig_submit(&rig, &setup);
    }
    rig_run(&rig);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(seq[i]->outcome, HALO_OUTCOME_LENGTH);
        assert_int_equal(seq[i]->n_ids, LENGTH);
        memcpy(ids[i], seq[i]->ids, sizeof(ids[i]));
    }
    *ret_n_largest = atomic_load(&rig.control.n_largest);
    *ret_n_outputs = atomic_load(&rig.control.n_outputs);
    rig_finish(&rig);
}

static void greedy_replies_take_ids_alone(void **state)
{
    int32_t want[N][LENGTH], have[N][LENGTH];
    uint32_t n_largest, n_outputs;
    run(false, NULL, want, &n_largest, &n_outputs);
    assert_int_equal(n_largest, 0);
    run(true, NULL, have, &n_largest, &n_outputs);
    assert_int_equal(n_largest, n_outputs);
    assert_true(n_outputs >= N * LENGTH);
    assert_memory_equal(have, want, sizeof(want));
}

static void with_logprob(struct halo_sequence_setup *setup) { setup->want_logprob = true; }

static void with_temperature(struct halo_sequence_setup *setup)
{
    setup->sampler.temperature = 1;
    setup->sampler.seed = 7;
}

/* One that wants more turns the whole step to rows, and only the steps that it is in. */
static void more_than_an_id_takes_rows(void **state)
{
    void (*const changes[])(struct halo_sequence_setup * setup) = {with_logprob, with_temperature};
    for (uint32_t c = 0; c < 2; c++) {
        int32_t want[N][LENGTH], have[N][LENGTH];
        uint32_t n_largest, n_outputs;
        run(false, changes[c], want, &n_largest, &n_outputs);
        run(true, changes[c], have, &n_largest, &n_outputs);
        assert_memory_equal(have, want, sizeof(want));
        assert_true(n_largest + LENGTH <= n_outputs);
        assert_true(n_largest > 0); /* before the last prompt is in, the others are greedy among themselves */
    }
}

/* -1 is refused as a row with a NaN is. */
static void no_number_ends_the_sequence(void **state)
{
    struct halo_fault fault[2];
    for (uint32_t finds = 0; finds < 2; finds++) {
        struct rig rig;
        rig_init(&rig, 8, 8, 64);
        rig.scheduler.setup.finds_largest = finds;
        struct halo_sequence_setup setup = rig_setup(&rig, 1, 9, LENGTH);
        atomic_store(&rig.control.nan_token, setup.ids[4]);
        struct rig_seq *seq = rig_submit(&rig, &setup);
        rig_run(&rig);
        assert_int_equal(seq->n_ids, 0);
        assert_int_equal(atomic_load(&rig.control.n_largest), finds);
        fault[finds] = seq->fault;
        rig_finish(&rig);
    }
    assert_int_not_equal(fault[0].code, HALO_FAULT_NONE);
    assert_int_equal(fault[1].code, fault[0].code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_replies_take_ids_alone),
        cmocka_unit_test(more_than_an_id_takes_rows),
        cmocka_unit_test(no_number_ends_the_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
