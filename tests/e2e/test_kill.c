/* test_kill.c: kill -9 of the engine at any moment.
 *
 * The daemon answers within a second, every open request goes on in the next engine and gives what it gives
 * undisturbed, and a new request works after the reload, which the daemon does by itself. The moments are spread over
 * load, prefill and decode by delays that grow from 0 to beyond the work.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon_fixture.h"

#define MODEL "fable-Q4_K_M"

static struct daemon_fixture fixture;

/* A load that reaches the engine as it dies ends with engine_lost, which says: send it again. */
static void load(void)
{
    struct client client;
    client_open(&client, &fixture);
    for (int attempt = 0; attempt < 600; attempt++) {
        size_t i = client_send(&client, "load", "%s", "\"model\":\"" MODEL "\",\"params\":{\"context\":1024}");
        assert_true(client_wait(&client, 0, 60000));
        const struct client_request *request = &client.requests[i];
        if (request->terminal == HALO_EV_LOADED) {
            client_close(&client);
            return;
        }
        if (request->error != HALO_ERROR_ENGINE_LOST)
            fail_msg("load: %s", request->message);
        usleep(100000);
    }
    fail_msg("no load works after the restart: %s", client.requests[client.n_requests - 1].message);
}

static void generate_works(void)
{
    struct client client;
    client_open(&client, &fixture);
    /* While the engine comes back the daemon may ask to try again; it must work soon. */
    for (int attempt = 0; attempt < 600; attempt++) {
        size_t i = client_send(&client, "generate", "%s",
                               "\"model\":\"" MODEL
                               "\",\"prompt\":\"Once\",\"max_tokens\":3,\"temperature\":0,\"emit_token_ids\":true");
        assert_true(client_wait(&client, 0, 60000));
        const struct client_request *request = &client.requests[i];
        if (request->terminal == HALO_EV_DONE) {
            assert_int_equal(request->n_ids, 3);
            client_close(&client);
            return;
        }
        usleep(100000);
    }
    fail_msg("no request works after the restart: %s", client.requests[client.n_requests - 1].message);
}

static pid_t engine_pid(void)
{
    for (int i = 0; i < 1200; i++) {
        pid_t pid = daemon_engine_pid(&fixture);
        if (pid > 0)
            return pid;
        usleep(50000);
    }
    fail_msg("the daemon has no engine after a minute");
    return 0;
}

#define N_WORK 9
#if defined(__SANITIZE_THREAD__)
#define ROUND_STEP 12 /* a round takes half a minute there */
#define ENDS_MS 240000
#define REPLY_TOKENS 60
#elif defined(__SANITIZE_ADDRESS__)
#define ROUND_STEP 4 /* ten seconds */
#define ENDS_MS 60000
#define REPLY_TOKENS 200
#else
#define ROUND_STEP 1
#define ENDS_MS 60000
#define REPLY_TOKENS 200
#endif

static void send_work(struct client *client)
{
    char prompt[3000] = "";
    for (int i = 0; i < 60; i++)
        strcat(prompt, "The wolf and the seven little kids. ");
    client_send(client, "generate",
                "\"model\":\"" MODEL "\",\"prompt\":\"%s\",\"max_tokens\":40,\"seed\":1,\"emit_token_ids\":true",
                prompt);
    for (int i = 0; i < 6; i++)
        client_send(client, "generate",
                    "\"model\":\"" MODEL
                    "\",\"prompt\":\"Once upon a time\",\"max_tokens\":%d,\"seed\":%d,\"ignore_eos\":true,"
                    "\"emit_token_ids\":%s,\"temperature\":%d.%d,\"presence_penalty\":0.%d",
                    REPLY_TOKENS, i, i % 2 ? "true" : "false", i / 3, i % 3, i);
    client_send(client, "score", "%s", "\"model\":\"" MODEL "\",\"text\":\"The king had three daughters.\"");
    client_send(client, "tokenize", "%s", "\"model\":\"" MODEL "\",\"text\":\"The king\"");
}

/* The same ids, the same text, the same rows, and nothing that ended otherwise. */
static void compare(const struct client_request *got, const struct client_request *wanted)
{
    assert_int_equal(got->n_terminal, 1);
    if (got->terminal != wanted->terminal)
        fail_msg("ended with %s: %s", halo_ev_type_name(got->terminal), got->message);
    assert_int_equal(got->finish, wanted->finish);
    assert_int_equal(got->n_started, wanted->n_started);
    assert_int_equal(got->n_ids, wanted->n_ids);
    if (got->n_ids > 0)
        assert_memory_equal(got->ids, wanted->ids, got->n_ids * sizeof *got->ids);
    assert_int_equal(got->n_text, wanted->n_text);
    if (got->n_text > 0)
        assert_memory_equal(got->text, wanted->text, got->n_text);
    assert_int_equal(got->n_rows, wanted->n_rows);
    assert_true(fabs(got->nll - wanted->nll) <= 1e-8 * fabs(wanted->nll));
}

static void any_moment(void **state)
{
    (void)state;
    struct client quiet;
    int n_resumed = 0;
    daemon_start(&fixture, NULL);
    load();
    client_open(&quiet, &fixture);
    send_work(&quiet);
    assert_true(client_wait(&quiet, 0, ENDS_MS));
    assert_int_equal(quiet.n_requests, N_WORK);
    for (int round = 0; round < 14; round += ROUND_STEP) {
        struct client client;
        client_open(&client, &fixture);
        pid_t pid = engine_pid();
        send_work(&client);
        client_poll(&client, round * round); /* 0 .. 170 ms after the requests */
        kill(pid, SIGKILL);
        daemon_answers(&fixture);
        assert_true(client_wait(&client, 0, ENDS_MS)); /* every request ends, and (take_event) none twice */
        for (size_t i = 0; i < client.n_requests; i++) {
            compare(&client.requests[i], &quiet.requests[i]);
            n_resumed += client.requests[i].n_restarts;
        }
        client_close(&client);
        generate_works();
    }
    print_message("%d replies went on in another engine\n", n_resumed);
    assert_true(n_resumed > 0); /* the kills did hit requests */
    client_close(&quiet);
    daemon_stop(&fixture, 60000);
}

static void during_load(void **state)
{
    (void)state;
    daemon_start(&fixture, NULL);
    for (int round = 0; round < 6; round++) {
        struct client client;
        client_open(&client, &fixture);
        pid_t pid = engine_pid();
        client_send(&client, "load", "%s", "\"model\":\"" MODEL "\"");
        client_poll(&client, round * 8);
        kill(pid, SIGKILL);
        daemon_answers(&fixture);
        assert_true(client_wait(&client, 0, 60000));
        assert_int_equal(client.requests[0].n_terminal, 1);
        assert_int_equal(client.requests[0].terminal, HALO_EV_LOADED); /* the daemon asks again */
        client_close(&client);
    }
    load();
    generate_works();
    daemon_stop(&fixture, 60000);
}

static int oom_score(pid_t pid)
{
    char path[64];
    int score = -1;
    snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", (long)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &score), 1);
    fclose(file);
    return score;
}

/* When memory runs out the kernel ends the engine, which is replaced, and not halod; the next engine as well. */
static void who_goes_first(void **state)
{
    daemon_start(&fixture, NULL);
    int own = oom_score(getpid());
    load();
    for (int i = 0; i < 2; i++) {
        pid_t engine = daemon_engine_pid(&fixture);
        assert_true(engine > 0);
        assert_int_equal(oom_score(engine), 1000);
        assert_int_equal(oom_score(fixture.pid), own);
        if (i == 0)
            kill(engine, SIGKILL);
        generate_works();
    }
    daemon_stop(&fixture, 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_moment), cmocka_unit_test(during_load),
                                       cmocka_unit_test(who_goes_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
