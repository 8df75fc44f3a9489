/* test_guard.c: with the guard, an allocation inside a step aborts and one outside does not; without it, the calls do
 * nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/guard.h>

/* Kept where the compiler cannot see that nobody uses it. */
static void *volatile kept;

static void use_malloc(void)
{
    kept = malloc(10);
}
static void use_calloc(void)
{
    kept = calloc(3, 10);
}
static void use_realloc(void)
{
    kept = realloc(kept, 20);
}
static void use_reallocarray(void)
{
    kept = reallocarray(kept, 20, 3);
}
static void use_aligned_alloc(void)
{
    kept = aligned_alloc(64, 64);
}
static void use_strdup(void)
{
    kept = strdup("x");
}
static void use_strndup(void)
{
    kept = strndup("xyz", 2);
}
static void use_posix_memalign(void)
{
    void *at;
    kept = posix_memalign(&at, 64, 64) == 0 ? at : NULL;
}
static void use_nothing(void)
{
}

static int run(void (*use)(void), char text[256])
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(ends[1], STDERR_FILENO);
        halo_guard_enter();
        halo_guard_enter();
        halo_guard_leave(); /* still inside: they nest */
        use();
        halo_guard_leave();
        use();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, 255);
    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_guard(void **state)
{
    static const struct {
        void (*use)(void);
        const char *name;
    } uses[] = {
        {use_malloc, "malloc of 10"},         {use_calloc, "calloc of 30"},
        {use_realloc, "realloc of 20"},       {use_reallocarray, "realloc of 60"},
        {use_aligned_alloc, "aligned_alloc"}, {use_posix_memalign, "posix_memalign"},
        {use_strdup, "malloc of 2"},          {use_strndup, "malloc of 3"},
    };
    char text[256];
    assert_int_equal(run(use_nothing, text), 0);
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        int status = run(uses[i].use, text);
#ifdef HALO_ALLOC_GUARD
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_non_null(strstr(text, uses[i].name));
        assert_non_null(strstr(text, "may not allocate"));
#else
        assert_int_equal(status, 0);
#endif
    }
}

static void test_count(void **state)
{
    uint64_t before = halo_guard_count();
    use_malloc();
    free(kept);
    use_calloc();
    free(kept);
#ifdef HALO_ALLOC_GUARD
    assert_int_equal(halo_guard_count() - before, 2);
#else
    assert_int_equal(halo_guard_count(), before);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_guard), cmocka_unit_test(test_count)};
    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
