/* test_pressure.c: what is done about memory, second by second. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <engine/budget.h>
#include <engine/pressure.h>

#define MIB (1ull << 20)
#define TOTAL (64ull << 30)
#define RESERVE (2048 * MIB) /* of TOTAL */
#define FINE (TOTAL / 2)
#define S 1000000000ull

#define CALM HALO_PRESSURE_CALM
#define SHRINK HALO_PRESSURE_SHRINK
#define NO_GUESSES HALO_PRESSURE_NO_GUESSES
#define NO_LOADS HALO_PRESSURE_NO_LOADS

/* One sample, and what comes of it. */
struct row {
    uint64_t second;
    double some, full;
    uint64_t available;
    bool is_triggered;
    enum halo_pressure_level level;
    uint64_t give;
    bool may_grow;
};

static void run(const struct row *rows, size_t n)
{
    struct halo_pressure pressure;
    halo_pressure_init(&pressure, &halo_pressure_rules_default);
    for (size_t i = 0; i < n; i++) {
        const struct row *row = &rows[i];
        struct halo_pressure_sample sample = {.now_ns = (1000 + row->second) * S,
                                              .some = row->some,
                                              .full = row->full,
                                              .total_bytes = TOTAL,
                                              .available_bytes = row->available,
                                              .is_triggered = row->is_triggered};
        enum halo_pressure_level before = pressure.level;
        struct halo_pressure_actions actions;
        halo_pressure_step(&pressure, &sample, &actions);
        if (pressure.level != row->level || actions.give_bytes != row->give || actions.may_grow != row->may_grow)
            fail_msg("row %zu: level %s, gives %llu, %s grow", i, halo_pressure_level_name(pressure.level),
                     (unsigned long long)actions.give_bytes, actions.may_grow ? "may" : "must not");
        assert_int_equal(actions.has_moved, pressure.level != before);
    }
}
#define RUN(rows) run(rows, sizeof(rows) / sizeof((rows)[0]))

static void the_reserve(void **state)
{
    static const struct {
        uint64_t total, reserve;
    } rows[] = {
        {0, 0},
        {1024 * MIB, 64 * MIB},
        {8192 * MIB, 512 * MIB},
        {16384 * MIB, 512 * MIB},
        {32768 * MIB, 1024 * MIB},
        {131072 * MIB, 4096 * MIB},
        {1048576 * MIB, 4096 * MIB},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(halo_budget_reserve(rows[i].total), rows[i].reserve);
    assert_int_equal(halo_budget_reserve(TOTAL), RESERVE);
    struct halo_device_info info = {.features = HALO_DEVICE_HOST_MEMORY, .memory_bytes = TOTAL, .free_bytes = FINE};
    assert_int_equal(halo_budget_free_bytes(&info), FINE - RESERVE);
    info.features = 0; /* a GPU's own memory: nobody else needs it */
    assert_int_equal(halo_budget_free_bytes(&info), FINE - 512 * MIB);
    info.free_bytes = 512 * MIB;
    assert_int_equal(halo_budget_free_bytes(&info), 0);
}

/* Calm lets caches grow, a slab each 5 s, once it has lasted 10 s. */
static void calm(void **state)
{
    static const struct row rows[] = {
        {0, .available = FINE, .level = CALM},
        {9, .available = FINE, .level = CALM},
        {10, .available = FINE, .level = CALM, .may_grow = true},
        {11, .available = FINE, .level = CALM},
        {15, .available = FINE, .level = CALM, .may_grow = true},
        {20, .some = 6, .available = FINE, .level = CALM}, /* neither calm nor scarce */
        {21, .available = FINE, .level = CALM},
        {30, .available = FINE, .level = CALM},
        {31, .available = FINE, .level = CALM, .may_grow = true},
        {36, .available = RESERVE - 1, .level = CALM}, /* the budget's border is no level's */
        {37, .available = RESERVE / 2, .level = CALM},
    };
    RUN(rows);
}

/* Stalls: a slab each 2 s, then no guesses; loads go on unless the whole machine stands still. */
static void stalls(void **state)
{
    static const struct row rows[] = {
        {0, .some = 9.9, .full = 4.9, .available = FINE, .level = CALM},
        {1, .some = 10, .available = FINE, .level = SHRINK, .give = 1},
        {2, .some = 12, .available = FINE, .level = SHRINK},
        {3, .some = 12, .available = FINE, .level = NO_GUESSES, .give = 1},
        {5, .full = 5, .available = FINE, .level = NO_GUESSES, .give = 1},
        {60, .full = 19, .available = FINE, .level = NO_GUESSES, .give = 1},
        {61, .full = 20, .available = FINE, .level = NO_LOADS},
        {63, .some = 8, .available = FINE, .level = NO_LOADS}, /* in between nothing changes */
        {64, .some = 4, .available = FINE, .level = NO_LOADS},
        {73, .some = 4, .available = FINE, .level = NO_LOADS},
        {74, .some = 4, .available = FINE, .level = NO_GUESSES},
        {83, .available = FINE, .level = NO_GUESSES},
        {84, .available = FINE, .level = SHRINK},
        {94, .available = FINE, .level = CALM},
        {103, .available = FINE, .level = CALM},
        {104, .available = FINE, .level = CALM, .may_grow = true},
    };
    RUN(rows);
}

/* Short memory: what is missing to the reserve goes at once and with each sample. */
static void too_little(void **state)
{
    static const struct row rows[] = {
        {0, .available = RESERVE / 2, .level = CALM},
        {1, .available = RESERVE / 2 - 1, .level = SHRINK, .give = RESERVE / 2 + 1},
        {2, .available = 0, .level = SHRINK, .give = RESERVE},
        {3, .available = MIB, .level = NO_GUESSES, .give = RESERVE - MIB},
        {4, .available = MIB, .level = NO_GUESSES, .give = RESERVE - MIB},
        {5, .available = MIB, .level = NO_LOADS, .give = RESERVE - MIB},
        {100, .available = MIB, .level = NO_LOADS, .give = RESERVE - MIB},
        {101, .available = RESERVE - 1, .level = NO_LOADS},
        {200, .available = RESERVE - 1, .level = NO_LOADS}, /* not before the whole reserve is there */
        {201, .available = RESERVE, .level = NO_LOADS},
        {211, .available = RESERVE, .level = NO_GUESSES},
        {212, .available = MIB, .level = NO_GUESSES, .give = RESERVE - MIB}, /* and back */
        {213, .available = MIB, .level = NO_LOADS, .give = RESERVE - MIB},
    };
    RUN(rows);
}

static void the_kernels_trigger(void **state)
{
    static const struct row rows[] = {
        {0, .available = FINE, .level = CALM},
        {1, .available = FINE, .is_triggered = true, .level = SHRINK, .give = 1},
        {2, .available = FINE, .level = SHRINK},
        {11, .available = FINE, .level = SHRINK},
        {12, .available = FINE, .level = CALM},
    };
    RUN(rows);
}

/* Nothing can be read: nothing is done. */
static void unknown_memory(void **state)
{
    struct halo_pressure pressure;
    struct halo_pressure_actions actions;
    struct halo_pressure_sample sample = {.now_ns = S};
    halo_pressure_init(&pressure, &halo_pressure_rules_default);
    halo_pressure_step(&pressure, &sample, &actions);
    assert_int_equal(pressure.level, CALM);
    assert_int_equal(actions.give_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reserve),
        cmocka_unit_test(calm),
        cmocka_unit_test(stalls),
        cmocka_unit_test(too_little),
        cmocka_unit_test(the_kernels_trigger),
        cmocka_unit_test(unknown_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
