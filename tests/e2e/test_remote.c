/* test_remote.c: halod on a machine without a GPU: its engine computes in a hip-worker, with its sandbox on.
 *
 * The worker runs the emulated runtime. Its session is killed, stopped, or goes with its supervisor in the middle of a
 * reply; the reply goes on in the next engine behind the ids that were sent.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "proxy.h"
#include "remote_rig.h"

static struct worker worker;
static struct daemon_fixture fixture;
static int32_t expected[N_TOKENS];

/* ---- both sides ---- */

static void start_worker(void)
{
    worker_start(&worker, getenv("HALO_EMULATED_LIB"), NULL);
}

static void start_both(void)
{
    char remote[96];
    start_worker();
    snprintf(remote, sizeof(remote), "unix:%s/s", worker.folder);
    start_halod(&fixture, remote, "");
}

/* ---- requests ---- */

/* The client's fixture sees to it that no id is missing and none comes twice. Those that were computed before are kept;
 * those after them may differ from an undisturbed reply as on any GPU: a prompt is computed in another order. */
static void goes_on_after(void (*meanwhile)(void))
{
    int32_t ids[N_TOKENS];
    size_t n_before = reply(&fixture, meanwhile, ids);
    assert_memory_equal(ids, expected, n_before * sizeof(*ids));
}

static void stop_both(void)
{
    daemon_stop(&fixture, 30000);
    worker_stop(&worker, SIGTERM);
}

/* ---- what happens to the worker ---- */

static void kill_session(void)
{
    kill(worker_session(&worker), SIGKILL);
}

static pid_t stopped;

static void stop_session(void)
{
    stopped = worker_session(&worker);
    kill(stopped, SIGSTOP);
}

static struct worker replaced;

/* Another one takes its place: its socket is found at the path of the first. */
static void replace_worker(void)
{
    char from[96], to[96];
    replaced = worker;
    kill(replaced.pid, SIGKILL);
    waitpid(replaced.pid, NULL, 0);
    close(replaced.log_fd);
    start_worker();
    snprintf(from, sizeof(from), "%s/s", replaced.folder);
    snprintf(to, sizeof(to), "%s/s", worker.folder);
    unlink(from);
    assert_int_equal(symlink(to, from), 0);
}

/* One daemon for all three: each begins where the one before has ended. */
static void a_reply_goes_on_when_its_worker_does_not(void **state)
{
    (void)state;
    start_both();
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    reply(&fixture, NULL, expected);
    goes_on_after(kill_session);
    goes_on_after(stop_session);
    kill(stopped, SIGKILL);
    goes_on_after(replace_worker);
    stop_both();
    worker_remove(&replaced);
}

/* ---- a worker that is not there ---- */

static void a_missing_worker_is_one_clear_error(void **state)
{
    struct client client;
    char remote[96];
    (void)state;
    start_worker();
    snprintf(remote, sizeof(remote), "unix:%s/elsewhere", worker.folder);
    start_halod(&fixture, remote, "");
    client_open(&client, &fixture);
    size_t i = client_send(&client, "load", LOAD);
    assert_true(client_wait(&client, 0, ENDS_MS));
    assert_int_equal(client.requests[i].terminal, HALO_EV_ERROR);
    if (!strstr(client.requests[i].message, "no session with the worker unix:") ||
        !strstr(client.requests[i].message, "No such file"))
        fail_msg("the load says: %s", client.requests[i].message);
    client_close(&client);
    char path[96];
    snprintf(path, sizeof(path), "%s/s", worker.folder);
    assert_int_equal(symlink(path, remote + 5), 0); /* now it is there */
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    unlink(remote + 5);
    stop_both();
}

/* ---- who it is ---- */

static void hello_and_status_name(const char *remote)
{
    static const char *const types[] = {"hello", "status"};
    struct client client;
    char named[128];
    snprintf(named, sizeof(named), "\"worker\":\"%s\"", remote);
    client_open(&client, &fixture);
    for (int i = 0; i < 2; i++) {
        client_send(&client, types[i], "%s", "");
        assert_true(client_wait(&client, 0, ENDS_MS));
        if (!strstr(client.last_line, named))
            fail_msg("%s does not name the worker: %s", types[i], client.last_line);
    }
    client_close(&client);
}

static void a_key_leads_to_the_same_ids(void **state)
{
    char key[] = "/tmp/halod-remote-key-XXXXXX", remote[64], more[128];
    int32_t ids[N_TOKENS];
    (void)state;
    int fd = mkstemp(key);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 64), 64);
    close(fd);
    worker_start(&worker, getenv("HALO_EMULATED_LIB"),
                 (const char *[]){"--listen", "127.0.0.1:0", "--key-file", key, NULL});
    snprintf(remote, sizeof(remote), "127.0.0.1:%d", atoi(worker_await(&worker, "listening on 127.0.0.1:")));
    snprintf(more, sizeof(more), "remote_key = %s\n", key);
    start_halod(&fixture, remote, more);
    works(&fixture, "load", LOAD, HALO_EV_LOADED);
    hello_and_status_name(remote);
    reply(&fixture, NULL, ids);
    if (expected[0] != 0)
        assert_memory_equal(ids, expected, sizeof(ids));
    unlink(key); /* needed by new sessions alone */
    stop_both();
}

/* ---- a worker that keeps weights ---- */

#define N_LARGE 2 /* tokens of a reply */

/* A model whose weights are most of a load; that of the other tests is smaller than the graphs of its steps. Returns
 * its size. */
static size_t make_model(const char *folder)
{
    char command[512], path[96];
    struct stat facts;
    snprintf(path, sizeof(path), "%s/large.gguf", folder);
    snprintf(command, sizeof(command),
             "%s --arch llama --layers 1 --embd 512 --heads 8 --heads-kv 2 --head-dim 64 --ff 1024 --vocab 40000 "
             "--tied 1 --type Q8_0 -o %s >/dev/null",
             getenv("HALO_TEST_MKGGUF"), path);
    assert_int_equal(system(command), 0);
    assert_int_equal(stat(path, &facts), 0);
    return (size_t)facts.st_size;
}

static void reply_of_large(int32_t ids[static N_LARGE])
{
    struct client client;
    client_open(&client, &fixture);
    size_t i = client_send(&client, "generate", "%s",
                           "\"model\":\"large\",\"prompt\":\"ab\",\"max_tokens\":2,\"temperature\":0");
    assert_true(client_wait(&client, 0, ENDS_MS));
    if (client.requests[i].terminal != HALO_EV_DONE)
        fail_msg("the reply ended with: %s", client.requests[i].message);
    assert_int_equal(client.requests[i].n_ids, N_LARGE);
    memcpy(ids, client.requests[i].ids, N_LARGE * sizeof(*ids));
    client_close(&client);
}

/* Two daemons, one after the other, load the same model. */
static void a_second_load_sends_hashes_alone(void **state)
{
    char folder[] = "/tmp/halod-remote-blobs-XXXXXX", blobs[64], remote[128], command[64];
    size_t n_bytes[2];
    int32_t ids[2][N_LARGE];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(blobs, sizeof(blobs), "%s/blobs", folder);
    size_t n_model = make_model(folder);
    daemon_models = folder;
    worker_start(&worker, getenv("HALO_EMULATED_LIB"), (const char *[]){"--blobs", blobs, NULL});
    for (int i = 0; i < 2; i++) {
        struct proxy proxy;
        proxy_start(&proxy, worker.folder, &(struct proxy_rule){.fault = PROXY_PASS});
        snprintf(remote, sizeof(remote), "unix:%s", proxy.path);
        start_halod(&fixture, remote, "");
        works(&fixture, "load", "\"model\":\"large\",\"params\":{\"context\":64,\"kv_tokens\":64}", HALO_EV_LOADED);
        reply_of_large(ids[i]);
        daemon_stop(&fixture, 30000);
        proxy_wait(&proxy);
        n_bytes[i] = proxy.n_passed[PROXY_UP];
    }
    daemon_models = NULL;
    worker_stop(&worker, SIGTERM);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_memory_equal(ids[1], ids[0], sizeof(ids[0]));
    assert_true(n_bytes[0] > n_model);
    if (n_bytes[1] > n_model / 100)
        fail_msg("the second load of %zu bytes sent %zu", n_model, n_bytes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_goes_on_when_its_worker_does_not),
        cmocka_unit_test(a_missing_worker_is_one_clear_error),
        cmocka_unit_test(a_key_leads_to_the_same_ids),
        cmocka_unit_test(a_second_load_sends_hashes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
