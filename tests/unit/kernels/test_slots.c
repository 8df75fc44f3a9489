/* test_slots.c: groups of states on a device: slots, their copies, their bytes. Compiled for the CPU device and, with
 * HALO_TEST_HIP, for the HIP device over the runtime that $HALO_HIP_LIB names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#if defined(HALO_TEST_HIP)
#include <hip/hip.h>
#endif

#include "cpu_fixture.h"

enum { GROUP = 1, LAYERS = 3, SLOTS = 4, WIDTH = 21 }; /* an odd width */

static void use_device(struct fixture *f)
{
#if defined(HALO_TEST_HIP)
    f->device_ops = halo_device_hip();
    f->library = getenv("HALO_HIP_LIB");
#endif
    fixture_open(f, NULL, 1);
}

/* Pages in front of the states, and pages behind them. */
static void build(struct fixture *f)
{
    fixture_init(f, 10, 8, 32);
    fixture_kv(f, HALO_KV_F16, 1, 1, 8, 8);
    f->plan.kv[f->plan.n_kv_groups++] =
        (struct halo_kv_group){.n_layers = LAYERS, .n_pages = SLOTS, .state_width = WIDTH};
    fixture_kv_add(f, HALO_KV_F16, 2, 1, 8, 8);
    use_device(f);
}

static void fill(uint8_t *bytes, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + seed);
}

static void assert_slot(struct fixture *f, uint32_t slot, const uint8_t *want)
{
    char reason[HALO_DEVICE_REASON] = "";
    uint8_t have[LAYERS * WIDTH * sizeof(float)];
    assert_int_equal(f->device_ops->kv_read(f->model, GROUP, slot, have, reason), 0);
    assert_memory_equal(have, want, sizeof(have));
}

/* A slot has the bytes of its numbers on every device: no more is taken, and estimate counts as many. */
static void slots_take_what_their_numbers_take(void **state)
{
    struct fixture f, without;
    uint64_t weights, kv, scratch, kv_without;
    build(&f);
    assert_int_equal(f.device_ops->kv_page_bytes(f.model, GROUP), LAYERS * WIDTH * sizeof(float));
    f.device_ops->estimate(f.device, &f.plan, &weights, &kv, &scratch);
    without = f;
    without.plan.kv[GROUP].n_pages += 64;
    f.device_ops->estimate(f.device, &without.plan, &weights, &kv_without, &scratch);
    assert_int_equal(kv_without - kv, 64 * LAYERS * WIDTH * sizeof(float));
    fixture_finish(&f);
}

/* Slots begin with zeros, and are copied and moved without touching each other. */
static void slots_are_copied_and_moved(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    uint8_t first[LAYERS * WIDTH * sizeof(float)], second[sizeof(first)], zeros[sizeof(first)] = {0};
    build(&f);
    fill(first, sizeof(first), 1);
    fill(second, sizeof(second), 90);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        assert_slot(&f, slot, zeros);
    assert_int_equal(f.device_ops->kv_write(f.model, GROUP, 1, first, reason), 0);
    assert_int_equal(f.device_ops->kv_copy(f.model, GROUP, 1, 3, reason), 0);
    assert_int_equal(f.device_ops->kv_write(f.model, GROUP, 1, second, reason), 0); /* the copy stays */
    assert_int_equal(f.device_ops->kv_copy(f.model, GROUP, 1, 1, reason), 0);
    assert_slot(&f, 0, zeros);
    assert_slot(&f, 1, second);
    assert_slot(&f, 2, zeros);
    assert_slot(&f, 3, first);
    fixture_finish(&f);
}

/* The pages of the groups before and behind keep their bytes. */
static void other_groups_are_left_alone(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    uint8_t slot[LAYERS * WIDTH * sizeof(float)];
    build(&f);
    fill(slot, sizeof(slot), 5);
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_int_equal(f.device_ops->kv_write(f.model, GROUP, i, slot, reason), 0);
    for (uint32_t group = 0; group < f.plan.n_kv_groups; group++) {
        uint64_t n_bytes = f.device_ops->kv_page_bytes(f.model, group);
        uint8_t *page = malloc(n_bytes), *zeros = calloc(1, n_bytes);
        assert_true(page && zeros);
        for (uint32_t i = 0; group != GROUP && i < f.plan.kv[group].n_pages; i++) {
            assert_int_equal(f.device_ops->kv_read(f.model, group, i, page, reason), 0);
            assert_memory_equal(page, zeros, n_bytes);
        }
        free(page);
        free(zeros);
    }
    fixture_finish(&f);
}

static void slots_that_do_not_exist_are_refused(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    uint8_t slot[LAYERS * WIDTH * sizeof(float)] = {0};
    build(&f);
    assert_int_equal(f.device_ops->kv_read(f.model, GROUP, SLOTS, slot, reason), -EINVAL);
    assert_string_equal(reason, "page 4 of a pool of 4");
    assert_int_equal(f.device_ops->kv_write(f.model, GROUP, SLOTS, slot, reason), -EINVAL);
    assert_int_equal(f.device_ops->kv_copy(f.model, GROUP, 0, SLOTS, reason), -EINVAL);
    assert_int_equal(f.device_ops->kv_copy(f.model, GROUP, SLOTS, 0, reason), -EINVAL);
    fixture_finish(&f);
}

#if defined(HALO_TEST_HIP)
/* A copy is queued behind the runs before it, and the host waits for nothing: it succeeds with a runtime whose
 * events all fail. */
static void a_copy_waits_for_nothing(void **state)
{
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    uint8_t slot[LAYERS * WIDTH * sizeof(float)];
    fill(slot, sizeof(slot), 3);
    build(&f);
    assert_int_equal(f.device_ops->kv_write(f.model, GROUP, 2, slot, reason), 0);
    setenv("HALO_HIP_EMU_SCRIPT", "hipEventQuery:*:error=700", 1);
    assert_int_equal(f.device_ops->kv_copy(f.model, GROUP, 2, 0, reason), 0);
    unsetenv("HALO_HIP_EMU_SCRIPT");
    assert_slot(&f, 0, slot);
    fixture_finish(&f);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_take_what_their_numbers_take),
        cmocka_unit_test(slots_are_copied_and_moved),
        cmocka_unit_test(other_groups_are_left_alone),
        cmocka_unit_test(slots_that_do_not_exist_are_refused),
#if defined(HALO_TEST_HIP)
        cmocka_unit_test(a_copy_waits_for_nothing),
#endif
    };
#if defined(HALO_TEST_HIP)
    if (!getenv("HALO_HIP_LIB")) {
        printf("HALO_HIP_LIB names no runtime\n");
        return 77;
    }
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
