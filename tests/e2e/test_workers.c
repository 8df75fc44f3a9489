/* test_workers.c: halod whose engine divides a model over two workers: the ids are those of one worker; a worker that
 * ends, ends the engine, and the reply goes on behind the ids that were sent; a worker whose GPU holds other
 * activations than the one before sent ends it before a token is sent. Both workers give out the same addresses.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "remote_rig.h"

#define LOAD_ON_HIP "\"model\":\"" MODEL "\",\"params\":{\"device\":\"hip\",\"context\":64,\"kv_tokens\":128}"
/* Copies of the rows of a prompt of four tokens: 256 numbers each. */
#define CHANGE_ROWS "hipMemcpyAsync:*:flip=4096"

static struct worker first, second;
static struct daemon_fixture fixture;

/* `script`: of the second one's GPU, or NULL. */
static void start_workers(const char *script, char remote[static 200])
{
    worker_start(&first, getenv("HALO_EMULATED_LIB"), NULL);
    if (script)
        setenv("HALO_HIP_EMU_SCRIPT", script, 1);
    worker_start(&second, getenv("HALO_EMULATED_LIB"), NULL);
    unsetenv("HALO_HIP_EMU_SCRIPT");
    snprintf(remote, 200, "unix:%s/s, unix:%s/s", first.folder, second.folder);
}

static void kill_second_session(void)
{
    kill(worker_session(&second), SIGKILL);
}

static void log_has(const char *words)
{
    static char log[1 << 20];
    FILE *file = fopen(fixture.log_path, "re");
    assert_non_null(file);
    log[fread(log, 1, sizeof(log) - 1, file)] = '\0';
    fclose(file);
    if (!strstr(log, words))
        fail_msg("the log has no '%s'", words);
}

static void answer_has(const char *type, const char *rest, const char *words)
{
    struct client client;
    client_open(&client, &fixture);
    client_send(&client, type, "%s", rest);
    assert_true(client_wait(&client, 0, ENDS_MS));
    if (!strstr(client.last_line, words))
        fail_msg("%s: no '%s' in %s", type, words, client.last_line);
    client_close(&client);
}

/* Of eight layers each worker has half. */
static void stages_are_named(void)
{
    static const char *const types[] = {"load", "plan", "status", "models"};
    char begins[160], goes_on[160];
    snprintf(begins, sizeof(begins), "\"worker\":\"unix:%s/s\",\"first_layer\":0,\"last_layer\":3,", first.folder);
    snprintf(goes_on, sizeof(goes_on), "\"worker\":\"unix:%s/s\",\"first_layer\":4,\"last_layer\":7,", second.folder);
    for (int i = 0; i < 4; i++) {
        answer_has(types[i], i < 2 ? LOAD : "", begins);
        answer_has(types[i], i < 2 ? LOAD : "", goes_on);
    }
    answer_has("load", LOAD_ON_HIP, "\"device\":\"hip\",");
    for (int i = 2; i < 4; i++)
        answer_has(types[i], "", "\"loaded\":true,\"device\":\"hip\",");
    answer_has("stats", "", "\"stage_steps\":");
    answer_has("stats", "", "\"stage_2_us\":");
}

static void replies_go_on_over_two_workers(void **state)
{
    char remote[200];
    int32_t expected[N_TOKENS], ids[N_TOKENS];
    (void)state;
    start_workers(NULL, remote);
    char *end = strchr(remote, ',');
    *end = '\0';
    start_halod(&fixture, remote, ""); /* the first worker alone */
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    reply(&fixture, NULL, expected);
    daemon_stop(&fixture, 30000);
    *end = ',';
    start_halod(&fixture, remote, "");
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    reply(&fixture, NULL, ids);
    assert_memory_equal(ids, expected, sizeof(ids));
    stages_are_named();
    /* A prompt is computed in another order behind a restart: as on any GPU, later ids may differ. */
    size_t n_before = reply(&fixture, kill_second_session, ids);
    assert_memory_equal(ids, expected, n_before * sizeof(*ids));
    daemon_stop(&fixture, 30000);
    worker_stop(&first, SIGTERM);
    worker_stop(&second, SIGTERM);
}

/* One bit of the rows is wrong in the memory of the second GPU. */
static void no_token_is_sent_of_changed_rows(void **state)
{
    struct client client;
    char remote[200];
    (void)state;
    start_workers(CHANGE_ROWS, remote);
    start_halod(&fixture, remote, "request_deaths = 1\n");
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    client_open(&client, &fixture);
    size_t i = client_send(&client, "generate", "%s", GENERATE);
    assert_true(client_wait(&client, 0, ENDS_MS));
    assert_int_equal(client.requests[i].terminal, HALO_EV_ERROR);
    assert_int_equal(client.requests[i].n_ids, 0);
    client_close(&client);
    log_has("stage 2 holds other activations than stage 1 sent");
    daemon_stop(&fixture, 30000);
    worker_stop(&first, SIGTERM);
    worker_stop(&second, SIGTERM);
}

static void one_missing_worker_is_one_clear_error(void **state)
{
    struct client client;
    char remote[200];
    (void)state;
    start_workers(NULL, remote);
    worker_stop(&second, SIGTERM);
    start_halod(&fixture, remote, "");
    client_open(&client, &fixture);
    size_t i = client_send(&client, "load", LOAD);
    assert_true(client_wait(&client, 0, ENDS_MS));
    assert_int_equal(client.requests[i].terminal, HALO_EV_ERROR);
    const char *message = client.requests[i].message;
    char words[160];
    snprintf(words, sizeof(words), "last words: no session with the worker unix:%s/s: No such file", second.folder);
    if (!strstr(message, words))
        fail_msg("the load says: %s", message);
    client_close(&client);
    daemon_stop(&fixture, 30000);
    worker_stop(&first, SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_go_on_over_two_workers),
        cmocka_unit_test(no_token_is_sent_of_changed_rows),
        cmocka_unit_test(one_missing_worker_is_one_clear_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
