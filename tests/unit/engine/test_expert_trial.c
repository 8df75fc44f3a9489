/* test_expert_trial.c: guesses stay on where they make tokens shorter, and are tried again after a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <engine/expert_trial.h>

/* A window of tokens of so many ns; the first one, and every fifth, is much longer. */
static void window(struct halo_expert_trial *trial, uint64_t ns)
{
    for (uint32_t i = 0; i < HALO_EXPERT_TRIAL_TOKENS; i++)
        halo_expert_trial_note(trial, i % 5 == 0 ? 50 * ns : ns);
}

static void try(struct halo_expert_trial *trial, uint64_t without_ns, uint64_t with_ns, uint64_t again_ns, bool pays)
{
    assert_int_equal(trial->phase, HALO_EXPERT_TRIAL_WITHOUT);
    assert_false(halo_expert_trial_is_on(trial));
    window(trial, without_ns);
    assert_true(halo_expert_trial_is_on(trial));
    window(trial, with_ns);
    assert_false(halo_expert_trial_is_on(trial));
    window(trial, again_ns);
    assert_int_equal(trial->phase, HALO_EXPERT_TRIAL_DECIDED);
    assert_int_equal(halo_expert_trial_is_on(trial), pays);
    for (uint32_t i = 0; i < HALO_EXPERT_TRIAL_KEPT; i++) {
        assert_int_equal(halo_expert_trial_is_on(trial), pays);
        halo_expert_trial_note(trial, 1);
    }
}

static void the_faster_stays(void **state)
{
    struct halo_expert_trial trial = {0};
    try(&trial, 1000000, 900000, 1000000, true);
    try(&trial, 900000, 1000000, 900000, false);
    try(&trial, 1000000, 995000, 1000000, false); /* within the noise: the simpler one */
    try(&trial, 1000000, 1, 1000000, true);
}

/* A cache that fills makes each window faster than the last one, with guesses or without. */
static void a_trend_is_no_gain(void **state)
{
    struct halo_expert_trial trial = {0};
    try(&trial, 3000000, 2000000, 1500000, false);
    try(&trial, 1000000, 1500000, 2000000, false); /* and slower, when others come */
    try(&trial, 3000000, 1000000, 1500000, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_faster_stays), cmocka_unit_test(a_trend_is_no_gain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
