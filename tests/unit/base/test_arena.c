/* test_arena.c: alignment, zeroing, limits, overflow, reset, sealing, and a system that has no memory. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/arena.h>

#include "fail_alloc.h"

static void test_alignment_and_zero(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 0);
    for (size_t i = 0; i < 3000; i++) {
        size_t align = (size_t)1 << i % 13, bytes = i * 7 % 5000;
        unsigned char *at = halo_arena_alloc_aligned(&arena, bytes, align);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % (align < 16 ? 16 : align), 0);
        for (size_t k = 0; k < bytes; k++)
            assert_int_equal(at[k], 0);
        memset(at, 0xaa, bytes);
    }
    assert_true(arena.used_bytes <= arena.held_bytes);
    halo_arena_finish(&arena);
    assert_int_equal(arena.held_bytes, 0);
}

static void test_allocations_do_not_move_or_overlap(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 0);
    enum { N = 2000 };
    static unsigned *blocks[N];
    for (unsigned i = 0; i < N; i++) {
        blocks[i] = halo_arena_alloc(&arena, i % 50 + 1, sizeof *blocks[i]);
        for (unsigned k = 0; k <= i % 50; k++)
            blocks[i][k] = i;
    }
    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k <= i % 50; k++)
            assert_int_equal(blocks[i][k], i);
    assert_non_null(halo_arena_alloc(&arena, 0, 8));
    halo_arena_finish(&arena);
}

static void test_limit_and_overflow(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 100000);
    size_t total = 0;
    while (halo_arena_alloc(&arena, 1, 1000))
        total += 1000;
    assert_true(total > 80000 && total <= 100000);
    assert_true(arena.held_bytes <= 100000);
    assert_null(halo_arena_alloc(&arena, SIZE_MAX / 2, 4));
    assert_null(halo_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(halo_arena_alloc_aligned(&arena, SIZE_MAX - 8, 64));
    halo_arena_finish(&arena);
    halo_arena_init(&arena, 0);
    assert_null(halo_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(halo_arena_strndup(&arena, "x", SIZE_MAX));
    halo_arena_finish(&arena);
}

static void test_strndup(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 0);
    char *copy = halo_arena_strndup(&arena, "a\0bcd", 4);
    assert_memory_equal(copy, "a\0bc", 5); /* with a NUL after it */
    assert_string_equal(halo_arena_strndup(&arena, NULL, 0), "");
    halo_arena_finish(&arena);
}

static void test_reset_keeps_chunks(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 0);
    halo_arena_alloc(&arena, 1, 100);
    halo_arena_alloc(&arena, 1, 5000000);
    halo_arena_alloc(&arena, 1, 100);
    size_t held = arena.held_bytes;
    halo_arena_reset(&arena, SIZE_MAX);
    assert_int_equal(arena.used_bytes, 0);
    assert_int_equal(arena.held_bytes, held);
    halo_fail_alloc_arm(0); /* the same again takes nothing from the system, and is zero again */
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2000; i++)
            assert_non_null(halo_arena_alloc(&arena, 1, 100));
        unsigned char *at = halo_arena_alloc(&arena, 1, 4900000);
        assert_non_null(at);
        assert_int_equal(at[0] | at[4899999], 0);
        memset(at, 1, 4900000);
        halo_arena_reset(&arena, SIZE_MAX);
    }
    assert_false(halo_fail_alloc_disarm());
    assert_int_equal(arena.held_bytes, held);
    halo_arena_reset(&arena, 4999999); /* the largest one goes */
    assert_true(arena.held_bytes > 0 && arena.held_bytes < 2000000);
    halo_arena_reset(&arena, 0);
    assert_int_equal(arena.held_bytes, 0);
    halo_arena_finish(&arena);
}

/* Spare chunks that are too small do not count against the limit. */
static void test_reset_leaves_the_limit(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 1000000);
    for (size_t i = 0; i < 9; i++)
        assert_non_null(halo_arena_alloc(&arena, 1, 50000));
    halo_arena_reset(&arena, SIZE_MAX);
    assert_true(arena.held_bytes > 450000);
    assert_non_null(halo_arena_alloc(&arena, 1, 900000));
    assert_true(arena.held_bytes <= 1000000);
    assert_null(halo_arena_alloc(&arena, 1, 100000));
    halo_arena_finish(&arena);
}

static void test_no_memory(void **state)
{
    struct halo_arena arena;
    halo_arena_init(&arena, 0);
    assert_non_null(halo_arena_alloc(&arena, 1, 10));
    halo_fail_alloc_arm(0);
    assert_null(halo_arena_alloc(&arena, 1, 100000));
    assert_true(halo_fail_alloc_disarm());
    assert_non_null(halo_arena_alloc(&arena, 1, 100000)); /* and it goes on */
    halo_arena_finish(&arena);
}

static void test_sealed_arena_aborts(void **state)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        struct halo_arena arena;
        halo_arena_init(&arena, 0);
        halo_arena_seal(&arena);
        halo_arena_alloc(&arena, 1, 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_zero), cmocka_unit_test(test_allocations_do_not_move_or_overlap),
        cmocka_unit_test(test_limit_and_overflow), cmocka_unit_test(test_strndup),
        cmocka_unit_test(test_reset_keeps_chunks), cmocka_unit_test(test_reset_leaves_the_limit),
        cmocka_unit_test(test_no_memory),          cmocka_unit_test(test_sealed_arena_aborts),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
