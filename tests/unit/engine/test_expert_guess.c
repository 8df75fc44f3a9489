/* test_expert_guess.c: ranks of guesses that are mostly right are read, and the others are not, until they are right
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <engine/expert_guess.h>

#define LAYER 3

/* Lists of two experts: the first is chosen in first_right of eight, the second in second_right. Returns what the last
 * list said to read, as bits. */
static uint32_t run(struct halo_expert_guess *guess, uint32_t n, uint32_t first_right, uint32_t second_right)
{
    uint32_t read = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t chosen[2];
        halo_expert_guess_begin(guess, LAYER);
        read = halo_expert_guess_add(guess, 0, 10);
        read |= (uint32_t)halo_expert_guess_add(guess, 1, 20) << 1;
        chosen[0] = i % 8 < first_right ? 10 : 11;
        chosen[1] = i % 8 < second_right ? 20 : 21;
        halo_expert_guess_compare(guess, LAYER, chosen, 2);
    }
    return read;
}

static void what_is_right_is_read(void **state)
{
    struct halo_expert_guess guess = {0};
    assert_int_equal(run(&guess, HALO_EXPERT_GUESS_TRIED, 0, 0), 3); /* nothing is known yet */
    assert_int_equal(run(&guess, 1, 0, 0), 0);
    assert_int_equal(run(&guess, 800, 7, 2), 1);
    assert_int_equal(run(&guess, 800, 2, 8), 2); /* the later ones count more */
    assert_int_equal(run(&guess, 4000, 8, 8), 3);
}

/* What is in memory, another layer's choice and a long list say nothing. */
static void what_does_not_count(void **state)
{
    struct halo_expert_guess guess = {0};
    const uint32_t other[] = {1, 2};
    for (uint32_t i = 0; i < 100; i++) {
        halo_expert_guess_begin(&guess, LAYER);
        halo_expert_guess_compare(&guess, LAYER, other, 2); /* all of the list is there */
        halo_expert_guess_begin(&guess, LAYER);
        halo_expert_guess_add(&guess, 0, 10);
        halo_expert_guess_compare(&guess, LAYER + 1, other, 2);
        halo_expert_guess_compare(&guess, LAYER, other, 2); /* a list is compared once */
    }
    halo_expert_guess_begin(&guess, LAYER);
    assert_true(halo_expert_guess_add(&guess, 0, 10));
    assert_false(halo_expert_guess_add(&guess, HALO_EXPERT_GUESS_RANKS, 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_read),
        cmocka_unit_test(what_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
