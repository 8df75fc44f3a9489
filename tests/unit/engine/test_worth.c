/* test_worth.c: the policy of windows and states as tables: where states are taken, what is worth most, what goes to
 * the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <engine/kv_side.h>
#include <engine/kv_worth.h>

#define NOWHERE HALO_KV_NOWHERE
#define N(table) (sizeof(table) / sizeof((table)[0]))

static void the_next_place(void **state)
{
    static const struct {
        struct halo_kv_places places;
        uint32_t n_filled, next;
    } cases[] = {
        {{NOWHERE, NOWHERE}, 0, 2048},
        {{NOWHERE, NOWHERE}, 2047, 2048},
        {{NOWHERE, NOWHERE}, 2048, 4096},
        {{NOWHERE, NOWHERE}, UINT32_MAX - 5, NOWHERE},
        {{0, NOWHERE}, 0, 2048},
        {{96, NOWHERE}, 0, 96},
        {{96, NOWHERE}, 96, 2048},
        {{96, 70}, 0, 70},
        {{96, 70}, 70, 96},
        {{64, 70}, 64, 70},
        {{4096, 5000}, 100, 2048},
        {{4096, 5000}, 2048, 4096},
        {{4096, 5000}, 4096, 5000},
        {{4096, 5000}, 5000, 6144},
    };
    for (size_t i = 0; i < N(cases); i++)
        assert_int_equal(halo_kv_next_place(&cases[i].places, cases[i].n_filled), cases[i].next);
}

/* Every place that is announced is one, and nothing else is. */
static void places_are_what_was_announced(void **state)
{
    static const struct halo_kv_places cases[] = {{NOWHERE, NOWHERE}, {0, 1}, {96, 70}, {4096, 4096}, {2048, 6145}};
    for (size_t i = 0; i < N(cases); i++) {
        uint32_t next = halo_kv_next_place(&cases[i], 0);
        for (uint32_t n = 1; n < 9000; n++) {
            enum halo_kv_worth worth;
            bool place = halo_kv_is_place(&cases[i], n, false, &worth);
            assert_int_equal(place, n == next);
            assert_int_equal(worth, n == cases[i].stable ? HALO_KV_LAST : HALO_KV_PASSED);
            halo_kv_is_place(&cases[i], n, true, &worth);
            assert_int_equal(worth, n == cases[i].stable ? HALO_KV_RESUMED : HALO_KV_PASSED);
            if (place)
                next = halo_kv_next_place(&cases[i], n);
        }
    }
    enum halo_kv_worth worth;
    assert_false(halo_kv_is_place(&cases[1], 0, false, &worth));
}

static void the_window_in_front_of_the_stable_place(void **state)
{
    static const struct {
        uint32_t stable, window, page;
        enum halo_kv_worth worth;
    } cases[] = {
        {NOWHERE, 40, 0, HALO_KV_PASSED}, {NOWHERE, 40, 9, HALO_KV_PASSED},
        {100, 40, 0, HALO_KV_PASSED}, /* the row at 96, where its page begins, sees positions 57 and on */
        {100, 40, 1, HALO_KV_LAST},       {100, 40, 2, HALO_KV_LAST},
        {100, 40, 3, HALO_KV_LAST}, /* position 100 is in it: the next turn copies it */
        {100, 40, 4, HALO_KV_PASSED},     {96, 33, 1, HALO_KV_PASSED},
        {96, 33, 2, HALO_KV_LAST},        {96, 34, 1, HALO_KV_LAST},
        {10, 512, 0, HALO_KV_LAST},       {10, 512, 1, HALO_KV_PASSED},
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct halo_kv_places places = {NOWHERE, cases[i].stable};
        assert_int_equal(halo_kv_window_worth(&places, cases[i].window, cases[i].page, false), cases[i].worth);
        assert_int_equal(halo_kv_window_worth(&places, cases[i].window, cases[i].page, true),
                         cases[i].worth == HALO_KV_LAST ? HALO_KV_RESUMED : HALO_KV_PASSED);
    }
}

static void what_goes_to_the_disk(void **state)
{
    assert_false(halo_kv_is_saved(HALO_KV_PASSED, 0));
    assert_false(halo_kv_is_saved(HALO_KV_PASSED, 1)); /* of the grid */
    assert_true(halo_kv_is_saved(HALO_KV_PASSED, 2));
    assert_true(halo_kv_is_saved(HALO_KV_LAST, 1));
    assert_true(halo_kv_is_saved(HALO_KV_RESUMED, 0));
}

/* Eight slots become idle with these worths, in this order; the order in which they are taken. */
static void the_least_worth_goes_first(void **state)
{
    static const struct {
        enum halo_kv_worth worths[8];
        uint32_t order[8];
    } cases[] = {
        {{0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}},
        {{1, 0, 1, 0, 1, 0, 1, 0}, {1, 3, 5, 7, 0, 2, 4, 6}},
        {{2, 1, 0, 2, 1, 0, 2, 1}, {2, 5, 1, 4, 7, 0, 3, 6}},
        /* Half of them may be RESUMED: the longest idle of those makes room. */
        {{2, 2, 2, 2, 2, 1, 2, 0}, {7, 0, 5, 1, 2, 3, 4, 6}},
        {{2, 2, 2, 2, 2, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    for (size_t i = 0; i < N(cases); i++) {
        struct halo_kv_side side;
        uint32_t slots[8];
        assert_int_equal(halo_kv_side_init(&side, 8, 8, 0, 1), 0);
        for (uint32_t k = 0; k < 8; k++) {
            slots[k] = halo_kv_side_take(&side);
            halo_kv_side_attach(&side, slots[k], k);
            halo_kv_side_set_worth(&side, slots[k], cases[i].worths[k]);
        }
        for (uint32_t k = 0; k < 8; k++)
            halo_kv_side_drop(&side, slots[k]);
        assert_true(side.idle[HALO_KV_RESUMED].n <= 4);
        for (uint32_t k = 0; k < 8; k++) {
            assert_int_equal(halo_kv_side_take(&side), slots[cases[i].order[k]]);
            assert_int_equal(side.of[cases[i].order[k]], HALO_KV_NO_PAGE);
        }
        for (uint32_t k = 0; k < 8; k++)
            halo_kv_side_drop(&side, slots[k]);
        halo_kv_side_finish(&side);
    }
}

/* Raised or lowered while it is idle, it moves; what was used stands behind others of its worth. */
static void worth_may_change(void **state)
{
    struct halo_kv_side side;
    uint32_t slots[3];
    assert_int_equal(halo_kv_side_init(&side, 3, 3, 0, 1), 0);
    for (uint32_t k = 0; k < 3; k++) {
        slots[k] = halo_kv_side_take(&side);
        halo_kv_side_attach(&side, slots[k], k);
        halo_kv_side_set_worth(&side, slots[k], HALO_KV_LAST);
        halo_kv_side_drop(&side, slots[k]);
    }
    halo_kv_side_touch(&side, slots[0]);
    halo_kv_side_set_worth(&side, slots[2], HALO_KV_PASSED);
    assert_int_equal(halo_kv_side_take(&side), slots[2]);
    assert_int_equal(halo_kv_side_take(&side), slots[1]);
    assert_int_equal(halo_kv_side_take(&side), slots[0]);
    for (uint32_t k = 0; k < 3; k++)
        halo_kv_side_drop(&side, slots[k]);
    halo_kv_side_finish(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_place),
        cmocka_unit_test(places_are_what_was_announced),
        cmocka_unit_test(the_window_in_front_of_the_stable_place),
        cmocka_unit_test(what_goes_to_the_disk),
        cmocka_unit_test(the_least_worth_goes_first),
        cmocka_unit_test(worth_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
