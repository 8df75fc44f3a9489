/* test_state.c: every move of a table is allowed or refused as it says, and a refused one aborts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/state.h>

enum { FIRST, SECOND, THIRD, N_STATES };

static const unsigned moves[N_STATES] = {
    [FIRST] = HALO_STATE_BIT(SECOND) | HALO_STATE_BIT(THIRD),
    [SECOND] = HALO_STATE_BIT(FIRST),
};

static void test_every_move(void **state)
{
    (void)state;
    static const bool may[N_STATES][N_STATES] = {{false, true, true}, {true, false, false}, {false, false, false}};
    for (unsigned from = 0; from < N_STATES; from++)
        for (unsigned to = 0; to < N_STATES; to++)
            assert_int_equal(halo_state_may_move(moves, from, to), may[from][to]);
    assert_int_equal(halo_state_move(moves, FIRST, THIRD), THIRD);
}

static void test_refused_move_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(STDERR_FILENO);
        halo_state_move(moves, THIRD, FIRST);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_move), cmocka_unit_test(test_refused_move_aborts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
