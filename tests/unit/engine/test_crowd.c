/* test_crowd.c: two hundred sequences at once, with cancels, slow readers and a small pool: each that ends by itself is
 * as if alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define N_CROWD 200

/* Mixed lengths, temperatures and penalties; the same for the same i. */
static struct halo_sequence_setup member(struct rig *rig, uint32_t i)
{
    struct halo_sequence_setup setup = rig_setup(rig, 1000 + i, 1 + i * 37 % 150, 1 + i * 13 % 60);
    setup.sampler.temperature = i % 3 == 0 ? 0 : 0.5 + i % 7 * 0.2;
    setup.sampler.top_k = i % 5 * 10;
    setup.sampler.top_p = i % 4 == 0 ? 1 : 0.9;
    setup.sampler.min_p = i % 2 * 0.05;
    setup.sampler.repeat_penalty = i % 6 == 0 ? 1.2 : 1;
    setup.sampler.repeat_window = 64;
    setup.ignore_eos = i % 2;
    setup.want_logprob = i % 9 == 0;
    setup.n_top = i % 9 == 0 ? 5 : 0;
    return setup;
}

static int32_t want[N_CROWD][64];
static uint32_t n_want[N_CROWD];

static int learn_alone(void **state)
{
    for (uint32_t i = 0; i < N_CROWD; i++) {
        struct rig rig;
        rig_init(&rig, 64, 8, 64);
        struct halo_sequence_setup setup = member(&rig, i);
        struct rig_seq *seq = rig_submit(&rig, &setup);
        rig_run(&rig);
        n_want[i] = seq->n_ids;
        memcpy(want[i], seq->ids, sizeof(want[i]));
        rig_finish(&rig);
    }
    return 0;
}

static void each_gets_the_ids_it_would_get_alone(void **state)
{
    static const uint32_t pages[] = {8, 40, 1000};
    for (int p = 0; p < 3; p++) {
        struct rig rig;
        rig_init(&rig, 64, 32, pages[p]);
        for (uint32_t i = 0; i < N_CROWD; i++) {
            struct halo_sequence_setup setup = member(&rig, i);
            rig_submit(&rig, &setup);
        }
        rig_run(&rig);
        for (uint32_t i = 0; i < N_CROWD; i++) {
            assert_int_equal(rig.seqs[i].n_done, 1);
            assert_int_equal(rig.seqs[i].n_ids, n_want[i]);
            assert_memory_equal(rig.seqs[i].ids, want[i], n_want[i] * sizeof(int32_t));
        }
        if (p == 2) { /* the crowd really ran together */
            assert_true(rig.stats.steps_8_or_more > rig.stats.steps / 2);
            assert_true(rig.control.max_seqs >= 16);
        }
        rig_finish(&rig);
    }
}

/* Whatever happens to the others, an undisturbed one is undisturbed, and everyone ends once. */
static void disturbances_stay_with_those_disturbed(void **state)
{
    for (unsigned seed = 1; seed <= 5; seed++) {
        struct rig rig;
        bool touched[N_CROWD] = {false};
        srand(seed);
        rig_init(&rig, 48, 16, 30);
        uint32_t n_next = 0;
        for (int step = 0; n_next < N_CROWD || rig.n_open > 0; step++) {
            assert_true(step < 20000);
            for (int k = rand() % 4; k > 0 && n_next < N_CROWD; k--) {
                struct halo_sequence_setup setup = member(&rig, n_next++);
                rig_submit(&rig, &setup);
            }
            uint32_t i = (uint32_t)rand() % N_CROWD;
            if (i < n_next && rig.seqs[i].sequence) {
                int what = rand() % 4;
                if (what == 0) {
                    touched[i] = true;
                    atomic_store(&rig.seqs[i].sequence->cancel, true);
                } else { /* pausing changes when, not what */
                    atomic_store(&rig.seqs[i].sequence->hold, what == 1);
                }
            }
            if (n_next == N_CROWD)
                for (uint32_t k = 0; k < N_CROWD; k++)
                    if (rig.seqs[k].sequence)
                        atomic_store(&rig.seqs[k].sequence->hold, false);
            rig_step(&rig);
        }
        uint32_t n_cancelled = 0;
        for (uint32_t i = 0; i < N_CROWD; i++) {
            assert_int_equal(rig.seqs[i].n_done, 1);
            n_cancelled += rig.seqs[i].outcome == HALO_OUTCOME_CANCELLED;
            assert_true(touched[i] || rig.seqs[i].n_ids == n_want[i]);
            assert_memory_equal(rig.seqs[i].ids, want[i], rig.seqs[i].n_ids * sizeof(int32_t)); /* a prefix at least */
        }
        assert_true(n_cancelled > 0 && n_cancelled < N_CROWD);
        rig_finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_the_ids_it_would_get_alone),
        cmocka_unit_test(disturbances_stay_with_those_disturbed),
    };
    return cmocka_run_group_tests(tests, learn_alone, NULL);
}
