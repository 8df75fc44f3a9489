/* soak.c: the mixed load of mixed_load.h for a time, on one engine; memory must stay flat.
 *
 * Resident memory of daemon and engine is sampled 300 times. After a third of two minutes or more all caches are what
 * they will be: the highest of the last third may exceed the highest of the second by 2 % and 4 MiB. Whatever a
 * sanitizer writes into the daemon's or the engine's log fails the test, and so does a death of the engine. The engine
 * ends by _exit: what it leaks is seen as growth only.
 *
 * e2e_soak [SECONDS [CLIENTS [SEED]]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mixed_load.h"

#define SLACK_KB 4096
#define LONG_S 120 /* a shorter run is still filling its caches, and may see no cancel */
#define QUIET_S 120

static const char config[] = "[engine]\nwait_ms = 60000\n" LOAD_LIMITS;

static int n_seconds = 12, n_clients = 8;
static uint64_t seed = 1;
static struct daemon_fixture fixture;
static struct mixed_load load;

struct highest {
    long daemon_kb, engine_kb;
};

static long resident_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (kb < 0 && fgets(line, sizeof line, file))
        sscanf(line, "VmRSS: %ld kB", &kb);
    fclose(file);
    assert_true(kb > 0);
    return kb;
}

static void sample(struct highest *at, pid_t engine)
{
    long daemon_kb = resident_kb(fixture.pid), engine_kb = resident_kb(engine);
    at->daemon_kb = daemon_kb > at->daemon_kb ? daemon_kb : at->daemon_kb;
    at->engine_kb = engine_kb > at->engine_kb ? engine_kb : at->engine_kb;
}

static void assert_flat(const char *name, long before_kb, long after_kb)
{
    print_message("soak: %s: %ld kB at most in the second third of the time, %ld kB in the last\n", name, before_kb,
                  after_kb);
    assert_true(before_kb > 0 && after_kb > 0);
    assert_true(n_seconds < LONG_S || after_kb <= before_kb + before_kb / 50 + SLACK_KB);
}

static void assert_clean_log(void)
{
    char line[4096];
    int n_lines = 0;
    FILE *log = fopen(fixture.log_path, "r");
    assert_non_null(log);
    for (; fgets(line, sizeof line, log); n_lines++)
        if (strstr(line, "Sanitizer") || strstr(line, "runtime error:"))
            fail_msg("%s", line);
    fclose(log);
    assert_true(n_lines > 0);
}

/* Returns how many requests are still open. */
static int drive(int64_t end, struct highest thirds[3], pid_t engine)
{
    int64_t begin = load_now_us(), last = begin, sampled = begin;
    int n_open = 1, checked = 0;
    for (int64_t now = begin; now < end || n_open > 0; now = load_now_us()) {
        n_open = load_read(&load, now);
        load_tend(&load, now, now < end ? INT32_MAX : 0);
        if (checked != load.plain + load.cancelled) {
            checked = load.plain + load.cancelled;
            last = now;
        }
        if (now - last > QUIET_S * INT64_C(1000000))
            return n_open;
        if (now - sampled < (end - begin) / 300 && now < end)
            continue;
        sampled = now;
        int third = (int)(3 * (now - begin) / (end - begin));
        sample(&thirds[third < 3 ? third : 2], engine);
    }
    return 0;
}

static void soak(void **state)
{
    (void)state;
    struct highest thirds[3] = {{0, 0}};
    pid_t engine, last_engine;
    char letter;
    daemon_start(&fixture, config);
    load_start(&load, &fixture, "fable-Q4_K_M", n_clients, seed);
    assert_int_equal(load_children(&load, &engine, &letter), 1);
    int n_open = drive(load_now_us() + n_seconds * INT64_C(1000000), thirds, engine);
    if (n_open > 0)
        fail_msg("nothing happens any more: %d requests are open", n_open);
    load_finish(&load);
    assert_int_equal(load_children(&load, &last_engine, &letter), 1);
    assert_int_equal(last_engine, engine);
    assert_int_equal(load.lost, 0);
    assert_true(n_seconds < LONG_S || load.cancelled > 0);
    assert_flat("halod", thirds[1].daemon_kb, thirds[2].daemon_kb);
    assert_flat("halod-engine", thirds[1].engine_kb, thirds[2].engine_kb);
    daemon_end(&fixture, 60000);
    assert_clean_log();
    daemon_remove(&fixture);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(soak)};
    if (argc >= 2)
        n_seconds = atoi(argv[1]);
    if (argc >= 3)
        n_clients = atoi(argv[2]);
    if (argc >= 4)
        seed = strtoull(argv[3], NULL, 10) | 1;
    if (argc > 4 || n_seconds < 3 || n_clients < 1 || n_clients > LOAD_MAX_CLIENTS) {
        fputs("usage: e2e_soak [SECONDS [CLIENTS [SEED]]]\n", stderr);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
