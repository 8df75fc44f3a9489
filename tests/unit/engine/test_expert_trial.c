/* test_expert_trial.c: guesses stay on where they make tokens shorter, whatever else changes meanwhile, and are tried
 * again after a while. The clock is a formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <engine/expert_trial.h>

#define N_TRIAL (HALO_EXPERT_TRIAL_STRETCHES * HALO_EXPERT_TRIAL_TOKENS)

/* ns of token number i of a trial, without guesses. */
typedef uint64_t clock_fn(uint32_t i);

/* Runs a trial in which guesses take `percent` of the time without, then as many tokens as its result is kept. */
static void run(struct halo_expert_trial *trial, clock_fn *clock, uint64_t percent, bool pays)
{
    uint32_t n_on = 0;
    assert_false(trial->is_decided);
    for (uint32_t i = 0; i < N_TRIAL; i++) {
        bool is_on = halo_expert_trial_is_on(trial);
        bool is_first = i % HALO_EXPERT_TRIAL_TOKENS == 0; /* what was begun before is still under way */
        n_on += is_on;
        halo_expert_trial_note(trial, is_first ? 40 * clock(i) : is_on ? clock(i) * percent / 100 : clock(i));
    }
    assert_int_equal(n_on, HALO_EXPERT_TRIAL_STRETCHES / 2 * HALO_EXPERT_TRIAL_TOKENS);
    assert_true(trial->is_decided);
    for (uint32_t i = 0; i < HALO_EXPERT_TRIAL_KEPT; i++) {
        assert_int_equal(halo_expert_trial_is_on(trial), pays);
        halo_expert_trial_note(trial, 1);
    }
}

static uint64_t steady(uint32_t i)
{
    return 100000000;
}

/* Every fifth token takes much longer, as when something else reads from the drive. */
static uint64_t disturbed(uint32_t i)
{
    return i % 5 == 0 ? 900000000 : 100000000 + i * 7919 % 13 * 100000;
}

/* A cache that fills: from four times as long, ever more slowly. */
static uint64_t filling(uint32_t i)
{
    return 100000000 + 300000000ull * 20 / (20 + i);
}

static uint64_t slowing(uint32_t i)
{
    return 100000000 + i * 3000000ull;
}

/* The drive is slower for a third of the trial, in its middle. */
static uint64_t interrupted(uint32_t i)
{
    return i >= N_TRIAL / 3 && i < N_TRIAL * 2 / 3 ? 130000000 : 100000000;
}

static void the_faster_stays(void **state)
{
    static clock_fn *const clocks[] = {steady, disturbed, filling, slowing, interrupted};
    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        struct halo_expert_trial trial = {0};
        run(&trial, clocks[i], 113, false); /* 6.06 tok/s without, 5.38 with */
        run(&trial, clocks[i], 100, false); /* nothing gained: the simpler one */
        run(&trial, clocks[i], 80, true);
        run(&trial, clocks[i], 120, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_faster_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
