/* test_loop.c: a reply that repeats a cycle is reported once, with the right numbers, not before it is certain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define N_PROMPT 12

/* A reply of `n` tokens that go round `cycle` of them up to `n_round`, and anything after that. */
static struct rig_seq *reply(struct rig *rig, uint32_t cycle, uint32_t n_round, uint32_t n, bool detect)
{
    rig_init(rig, 8, 8, 64);
    rig->control.cycle = cycle;
    rig->control.cycle_until = N_PROMPT + n_round;
    struct halo_sequence_setup setup = rig_setup(rig, 3, N_PROMPT, n);
    setup.detect_loops = detect;
    struct rig_seq *seq = rig_submit(rig, &setup);
    rig_run(rig);
    assert_int_equal(seq->n_ids, n);
    return seq;
}

static void told(uint32_t cycle, uint32_t least)
{
    struct rig rig;
    struct rig_seq *seq = reply(&rig, cycle, 1000, 500, true);
    assert_int_equal(seq->n_loops, 1);
    assert_int_equal(seq->loop.period, cycle);
    assert_int_equal(seq->loop_start, 0);
    assert_int_equal(seq->loop.n_ids, seq->loop_at);
    assert_in_range(seq->loop_at, least, least + 15);
    rig_finish(&rig);
}

static void cycles_are_told_once(void **state)
{
    told(1, 24);
    told(2, 24);
    told(7, 42);
    told(33, 99);
    told(74, 222);
    told(97, 291);
}

/* Two rounds and a part of the third are none; neither are five short rounds, nor 23 ids. */
static void less_is_not_told(void **state)
{
    static const uint32_t cases[][2] = {{74, 221}, {17, 95}, {2, 23}, {1, 23}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        struct rig_seq *seq = reply(&rig, cases[i][0], cases[i][1], 400, true);
        assert_int_equal(seq->n_loops, 0);
        rig_finish(&rig);
    }
}

static void nobody_asked(void **state)
{
    struct rig rig;
    struct rig_seq *seq = reply(&rig, 2, 1000, 300, false);
    assert_int_equal(seq->n_loops, 0);
    rig_finish(&rig);
}

/* A loop that begins late, and a prompt that is one by itself: the prompt does not count. */
static void the_prompt_is_no_part_of_it(void **state)
{
    struct rig rig;
    rig_init(&rig, 8, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 3, 200, 20);
    for (uint32_t i = 0; i < 200; i++)
        ((int32_t *)setup.ids)[i] = 2 + (int32_t)(i % 2);
    setup.detect_loops = true;
    struct rig_seq *seq = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(seq->n_loops, 0);
    rig_finish(&rig);
}

/* What another engine had told is not told again; what none had told is told with the first id. */
static void a_resumed_reply(void **state)
{
    for (int was_told = 0; was_told < 2; was_told++) {
        struct rig rig;
        int32_t ids[N_PROMPT + 100];
        rig_init(&rig, 8, 8, 64);
        rig.control.cycle = 5;
        rig.control.cycle_until = 10000;
        struct halo_sequence_setup setup = rig_setup(&rig, 3, N_PROMPT, 300);
        memcpy(ids, setup.ids, N_PROMPT * sizeof(ids[0]));
        for (int i = N_PROMPT; i < N_PROMPT + 100; i++)
            ids[i] = 2 + i % 5;
        setup.ids = ids;
        setup.n_committed = 100;
        setup.detect_loops = !was_told; /* as the text thread sets it for a resume with loop_told */
        struct rig_seq *seq = rig_submit(&rig, &setup);
        rig_run(&rig);
        assert_int_equal(seq->n_loops, !was_told);
        if (!was_told) {
            assert_int_equal(seq->loop_at, 1);
            assert_int_equal(seq->loop_start, 0);
            assert_int_equal(seq->loop.n_ids, 101);
        }
        rig_finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_are_told_once), cmocka_unit_test(less_is_not_told),
        cmocka_unit_test(nobody_asked),         cmocka_unit_test(the_prompt_is_no_part_of_it),
        cmocka_unit_test(a_resumed_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
