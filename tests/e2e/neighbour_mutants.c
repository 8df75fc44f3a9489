/* neighbour_mutants.c: the gate of the hostile neighbour can fail: each limit of broken.h is taken away in turn, and
 * the pattern that it is for notices. That the same programs pass with all limits is tried with one pattern.
 *
 *   e2e_neighbour_mutants GATE HALOD_BROKEN ENGINE_BROKEN [--matrix]     --matrix: which patterns notice each limit
 */
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broken.h"

static const struct limit {
    const char *name, *pattern, *what;
} limits[] = {
#define X(name, pattern, what) {#name, #pattern, what},
    BROKEN_LIST(X)
#undef X
};
/* In which order halod hears of what came at once is up to the kernel; in some a missing limit does no harm. */
#define TRIES 3
#define N_LIMITS (sizeof(limits) / sizeof(limits[0]))

static const char *const patterns[] = {
    "silent_connections",
    "all_connections_in_use",
    "half_lines",
    "long_requests",
    "few_pages",
    "many_prompts",
    "long_texts",
    "long_templates",
    "refused_texts",
    "long_bench",
    "floods",
    "readers_that_never_read",
    "one_turn_of_the_loop",
};

/* How many tests of the gate fail; -1: it ended by a signal. */
static int run(const char *gate, const char *limit, const char *pattern)
{
    int status = -1;
    setenv(BROKEN_VARIABLE, limit, 1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(127);
        execl(gate, gate, pattern, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

static void print_matrix(const char *gate)
{
    for (size_t i = 0; i < N_LIMITS; i++) {
        printf("%s:", limits[i].name);
        for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++)
            if (run(gate, limits[i].name, patterns[p]) != 0)
                printf(" %s", patterns[p]);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    size_t n_bad = 0;
    if (argc < 4) {
        fprintf(stderr, "usage: %s GATE HALOD_BROKEN ENGINE_BROKEN [--matrix]\n", argv[0]);
        return 2;
    }
    setenv("HALO_TEST_HALOD", argv[2], 1);
    setenv("HALO_TEST_ENGINE", argv[3], 1);
    if (argc > 4) {
        print_matrix(argv[1]);
        return 0;
    }
    if (run(argv[1], "", limits[0].pattern) != 0) {
        printf("%s fails with all limits\n", limits[0].pattern);
        return 1;
    }
    for (size_t i = 0; i < N_LIMITS; i++) {
        int n = 0;
        for (int try = 0; n == 0 && try < TRIES; try++)
            n = run(argv[1], limits[i].name, limits[i].pattern);
        printf("%s (%s): %s by %s\n", limits[i].name, limits[i].what, n > 0 ? "noticed" : "NOT NOTICED",
               limits[i].pattern);
        fflush(stdout);
        n_bad += n <= 0;
    }
    printf("%zu limits, %zu failures\n", N_LIMITS, n_bad);
    return n_bad > 0;
}
