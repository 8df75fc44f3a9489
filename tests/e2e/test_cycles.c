/* test_cycles.c: a model that comes and goes a hundred times leaves nothing behind in the memory of engine and daemon.
 *
 * Each cycle loads by naming the model in a request and unloads; or two models take turns in a budget that has room for
 * one, so that each load makes the other one go. Memory is what the kernel says is resident and private.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon_fixture.h"

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

static void generate(struct client *client, const char *model)
{
    size_t i = client_send(client, "generate",
                           "\"model\":\"%s\",\"prompt\":\"Once\",\"max_tokens\":2,\"temperature\":0,"
                           "\"emit_token_ids\":true",
                           model);
    assert_true(client_wait(client, 0, 60000));
    if (client->requests[i].terminal != HALO_EV_DONE)
        fail_msg("generate: %s", client->requests[i].message);
    assert_int_equal(client->requests[i].n_ids, 2);
}

static void unload_cycle(void)
{
    struct client client;
    client_open(&client, &fixture);
    generate(&client, MODEL);
    size_t i = client_send(&client, "unload", "%s", "\"model\":\"" MODEL "\"");
    assert_true(client_wait(&client, 0, 60000));
    assert_int_equal(client.requests[i].terminal, HALO_EV_UNLOADED);
    client_close(&client);
}

static char turns[] = "/tmp/halod-turns-XXXXXX", turn_paths[2][64];

static void turn_cycle(void)
{
    struct client client;
    client_open(&client, &fixture);
    generate(&client, turn_paths[0]);
    generate(&client, turn_paths[1]);
    client_close(&client);
}

static void stays_flat(void (*one_cycle)(void), const char *config)
{
    daemon_start(&fixture, config);
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
}

static void unloads_leave_nothing_behind(void **state)
{
    stays_flat(unload_cycle, NULL);
    daemon_stop(&fixture, 60000);
}

static void copy_file(const char *from, const char *to)
{
    int from_fd = open(from, O_RDONLY), to_fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(from_fd >= 0 && to_fd >= 0);
    ssize_t n;
    while ((n = sendfile(to_fd, from_fd, NULL, 1u << 20)) > 0)
        ;
    assert_int_equal(n, 0);
    close(from_fd);
    close(to_fd);
}

static void models_that_take_turns_leave_nothing_behind(void **state)
{
    char from[4200];
    struct client client;
    snprintf(from, sizeof from, "%s/tests/models/" MODEL ".gguf", getenv("HALO_SOURCE_ROOT"));
    assert_non_null(mkdtemp(turns));
    for (int i = 0; i < 2; i++) {
        snprintf(turn_paths[i], sizeof turn_paths[i], "%s/turn%d.gguf", turns, i);
        copy_file(from, turn_paths[i]); /* links would be one model */
    }
    stays_flat(turn_cycle, "[models]\nbudget_bytes = 20000000\n");
    client_open(&client, &fixture);
    client_send(&client, "stats", "%s", "");
    assert_true(client_wait(&client, 0, 60000));
    const char *at = strstr(client.last_line, "\"models_evicted\":");
    assert_non_null(at);
    assert_int_equal(strtol(at + strlen("\"models_evicted\":"), NULL, 10), 2 * (WARM_UP + CYCLES) - 1);
    client_close(&client);
    daemon_stop(&fixture, 60000);
    for (int i = 0; i < 2; i++)
        assert_int_equal(unlink(turn_paths[i]), 0);
    assert_int_equal(rmdir(turns), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unloads_leave_nothing_behind),
                                       cmocka_unit_test(models_that_take_turns_leave_nothing_behind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
