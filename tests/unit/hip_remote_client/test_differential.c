/* test_differential.c: random programs through the client, hip-worker and the emulated runtime do what they do on the
 * emulated runtime directly, call for call and byte for byte. A program that does not is made shorter and printed.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "machine.h"
#include "rig.h"

#define PROGRAMS_MAX ACTIONS_MAX /* as many as there are places to leave something out */
#define N_PROGRAMS 48

/* Between this process and those that run programs. */
static struct shared {
    struct program programs[PROGRAMS_MAX];
    struct outcome outcomes[PROGRAMS_MAX];
    uint32_t n;
} * shared;
static const char *library;

static void run_shared(void)
{
    static uint8_t image[1 << 20];
    FILE *file = fopen(getenv("HALO_VECTOR_HOST"), "rb");
    CHECK(file && fread(image, 1, sizeof(image), file) > 0);
    fclose(file);
    struct machine *m = machine_open(library, image);
    CHECK(m);
    for (uint32_t i = 0; i < shared->n; i++)
        machine_run(m, &shared->programs[i], &shared->outcomes[i]);
    machine_close(m);
}

/* The outcomes of the programs, in a process of its own. `script`: of the emulated runtime. */
static void run_on(const char *name, const char *script, struct outcome *ret)
{
    struct worker w = {.folder = "/nonexistent"};
    bool is_remote = strcmp(name, "HALO_HIP_CLIENT") == 0;
    library = getenv(name);
    if (script)
        setenv("HALO_HIP_EMU_SCRIPT", script, 1);
    if (is_remote)
        worker_start(&w, NULL, NULL);
    int status = program_status(&w, run_shared);
    if (is_remote)
        worker_stop(&w, SIGTERM);
    unsetenv("HALO_HIP_EMU_SCRIPT");
    check_program(status);
    memcpy(ret, shared->outcomes, sizeof(*ret) * shared->n);
}

static bool is_good(const struct outcome *direct, const struct outcome *remote)
{
    return direct->bad_action < 0 && remote->bad_action < 0 && direct->digest == remote->digest &&
           direct->n_calls == remote->n_calls;
}

/* The first of the shared programs that fails; -1: none. The model alone may show it. */
static int first_failing(const char *script)
{
    struct outcome direct[PROGRAMS_MAX], remote[PROGRAMS_MAX];
    int found = -1;
    run_on("HALO_HIP_CLIENT", script, remote);
    for (uint32_t i = 0; i < shared->n && found < 0; i++)
        found = remote[i].bad_action >= 0 ? (int)i : -1;
    if (found >= 0)
        return found;
    run_on("HALO_HIP_LIB", NULL, direct);
    for (uint32_t i = 0; i < shared->n && found < 0; i++)
        found = is_good(&direct[i], &remote[i]) ? -1 : (int)i;
    return found;
}

/* Leaves out what the failure does not need: halves first, single actions last. What is left out is tried at all places
 * at once, as programs of one run. */
static void shorten(struct program *p, const char *script)
{
    int found = -1;
    for (uint32_t step = p->n / 2; step > 0; step = found >= 0 ? step : step / 2) {
        shared->n = 0;
        for (uint32_t at = 0; at + step <= p->n && shared->n < PROGRAMS_MAX; at += step) {
            struct program *less = &shared->programs[shared->n++];
            *less = *p;
            memmove(&less->actions[at], &less->actions[at + step], (p->n - at - step) * sizeof(*less->actions));
            less->n -= step;
        }
        found = shared->n > 0 ? first_failing(script) : -1;
        if (found >= 0)
            *p = shared->programs[found];
    }
}

static void fill_programs(uint64_t seed, uint32_t n)
{
    shared->n = n;
    for (uint32_t i = 0; i < n; i++)
        program_random(&shared->programs[i], seed + i);
}

static void programs_do_the_same(void **state)
{
    struct outcome direct[PROGRAMS_MAX], remote[PROGRAMS_MAX];
    const char *more = getenv("HALO_DIFFERENTIAL_SEEDS");
    uint32_t n_rounds = more ? (uint32_t)atoi(more) / N_PROGRAMS + 1 : 1, n_replays = 0, n_crossings = 0, n_calls = 0;
    (void)state;
    for (uint32_t round = 0; round < n_rounds; round++) {
        fill_programs(1 + (uint64_t)round * N_PROGRAMS, N_PROGRAMS);
        run_on("HALO_HIP_LIB", NULL, direct);
        run_on("HALO_HIP_CLIENT", NULL, remote);
        for (uint32_t i = 0; i < N_PROGRAMS; i++) {
            n_replays += remote[i].n_replays;
            n_crossings += remote[i].n_crossings;
            n_calls += remote[i].n_calls;
            if (is_good(&direct[i], &remote[i]))
                continue;
            struct program p;
            program_random(&p, 1 + (uint64_t)round * N_PROGRAMS + i);
            fprintf(stderr, "seed %u: directly action %d code %d, remotely action %d code %d\n",
                    1 + round * N_PROGRAMS + i, direct[i].bad_action, direct[i].bad_code, remote[i].bad_action,
                    remote[i].bad_code);
            shorten(&p, NULL);
            program_print(&p);
            fail_msg("a program differs");
        }
    }
    print_message("%u programs, %u calls, %u graphs launched, %u times a buffer changed its stream\n",
                  n_rounds * N_PROGRAMS, n_calls, n_replays, n_crossings);
    assert_true(n_calls > 1000 && n_replays > 20 && n_crossings > 100);
}

/* A worker that loses each fill of words: the programs show it, and three actions are enough to. */
static void a_wrong_result_is_found_and_made_short(void **state)
{
    static const char script[] = "hipMemsetD32Async:*:drop";
    (void)state;
    fill_programs(1, N_PROGRAMS);
    int found = first_failing(script);
    assert_true(found >= 0);
    struct program p = shared->programs[found];
    shorten(&p, script);
    if (p.n > 3)
        program_print(&p);
    assert_true(p.n <= 3);
    bool has_fill = false;
    for (uint32_t i = 0; i < p.n; i++)
        has_fill = has_fill || p.actions[i].kind == ACTION_FILL_WORDS || p.actions[i].kind == ACTION_GRAPH;
    assert_true(has_fill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_do_the_same),
        cmocka_unit_test(a_wrong_result_is_found_and_made_short),
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
