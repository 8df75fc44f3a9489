/* test_cycles.c: a model that comes and goes a hundred times leaves nothing behind in the memory of engine and daemon.
 *
 * Each cycle loads by naming the model in a request and unloads. Memory is what the kernel says is resident and
 * private.
 */
#include "daemon_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stddef.h>
#include <cmocka.h>

#define MODEL "fable-Q4_K_M"
#define WARM_UP 15 /* cycles after which allocator and page tables have what they will have */
#define CYCLES 100
#define SLACK_KB 3072

static struct daemon_fixture fixture;

static long resident_kb(pid_t pid)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (kb < 0 && fgets(line, sizeof line, file))
        sscanf(line, "RssAnon: %ld kB", &kb);
    fclose(file);
    assert_true(kb > 0);
    return kb;
}

static void one_cycle(void)
{
    struct client client;
    client_open(&client, &fixture);
    size_t i = client_send(&client, "generate", "%s",
                           "\"model\":\"" MODEL
                           "\",\"prompt\":\"Once\",\"max_tokens\":2,\"temperature\":0,\"emit_token_ids\":true");
    assert_true(client_wait(&client, 0, 60000));
    if (client.requests[i].terminal != HALO_EV_DONE)
        fail_msg("generate: %s", client.requests[i].message);
    assert_int_equal(client.requests[i].n_ids, 2);
    i = client_send(&client, "unload", "%s", "\"model\":\"" MODEL "\"");
    assert_true(client_wait(&client, 0, 60000));
    assert_int_equal(client.requests[i].terminal, HALO_EV_UNLOADED);
    client_close(&client);
}

static void memory_stays_flat(void **state)
{
    (void)state;
    daemon_start(&fixture, NULL);
    for (int i = 0; i < WARM_UP; i++)
        one_cycle();
    pid_t engine = daemon_engine_pid(&fixture);
    long engine_kb = resident_kb(engine), daemon_kb = resident_kb(fixture.pid);
    for (int i = 0; i < CYCLES; i++)
        one_cycle();
    assert_int_equal(daemon_engine_pid(&fixture), engine);
    long engine_after_kb = resident_kb(engine), daemon_after_kb = resident_kb(fixture.pid);
    print_message("%d cycles: engine %ld kB, before %ld; daemon %ld kB, before %ld\n", CYCLES, engine_after_kb,
                  engine_kb, daemon_after_kb, daemon_kb);
    assert_true(engine_after_kb <= engine_kb + SLACK_KB);
    assert_true(daemon_after_kb <= daemon_kb + 512);
    daemon_stop(&fixture, 15000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_stays_flat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
