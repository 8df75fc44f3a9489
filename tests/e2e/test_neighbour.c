/* test_neighbour.c: the hostile neighbour, with the real daemon and the real engine. Whatever user A does, user B is
 * served: its ping is answered, it gets a token in every step, its load and its texts do not wait for A's.
 *
 * No bound is a time: what counts is who is answered before whom, in how many steps of the engine, in what share of the
 * device's time, and beside how many bytes of A's. Users are stated by the names of the clients' sockets, which needs a
 * build with -Dinject=true.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon_fixture.h"

#define A 1001
#define B 1002
#define ADMIN 1003
#define M "\"model\":\"fable-Q4_K_M\""
#define PATIENCE_MS 240000
#define B_TOKENS 16
#define B_STEPS 300 /* beside one for each token: its prompt's, and those that pass while it is on its way */
#define MIB ((size_t)1 << 20)
#define MOST 64

static struct daemon_fixture fixture;
static struct client a[MOST];
static size_t n_a;

static void begin(const char *config)
{
    struct client client;
    char text[256];
    n_a = 0;
    snprintf(text, sizeof text, "[engine]\nstatus_ms = 10000\n[limits]\n%s", config);
    daemon_start(&fixture, text);
    client_open(&client, &fixture);
    client_send(&client, "load", "%s", M ",\"params\":{\"context\":1024,\"kv_tokens\":65536}");
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    assert_int_equal(client.requests[0].terminal, HALO_EV_LOADED);
    client_close(&client);
}

static struct client *open_a(void)
{
    assert_true(n_a < MOST);
    client_open_as(&a[n_a], &fixture, A, "");
    return &a[n_a++];
}

/* The engine that served all of it is the first one. */
static void end(pid_t engine)
{
    while (n_a > 0)
        client_close(&a[--n_a]);
    assert_int_equal(daemon_engine_pid(&fixture), engine);
    daemon_stop(&fixture, 60000);
}

/* One request to its end. */
static void ask(struct client *client, const char *type, const char *rest, enum halo_ev_type want)
{
    size_t at = client_send(client, type, "%s", rest);
    assert_true(client_wait(client, 0, PATIENCE_MS));
    if (client->requests[at].terminal != want)
        fail_msg("%s: %s", type, client->last_line);
}

/* A counter of the engine, or one of the daemon. */
static int64_t counter(struct client *client, const char *name)
{
    char key[64];
    client_forget(client);
    ask(client, "stats", "", HALO_EV_STATS);
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(client->last_line, key);
    assert_non_null(at);
    return atoll(at + strlen(key));
}

/* From arrival to end of the reply that has just ended. */
static double reply_ms(const struct client *client)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    assert_int_equal(halo_ev_decode(&ev, client->last_line, strlen(client->last_line), 0, &refusal), 0);
    double ms = (double)ev.done.tokens / ev.done.tok_s * 1e3;
    halo_ev_finish(&ev);
    return ms;
}

/* B alone or beside A: a ping, a reply, in few steps. Returns the share of the device's time that steps had while the
 * reply was decoded: what is left is others'. */
static double serve_b(int64_t n_tokens)
{
    struct client b;
    char rest[256];
    client_open_as(&b, &fixture, B, "");
    ask(&b, "ping", "", HALO_EV_PONG);
    int64_t steps = counter(&b, "steps"), step_us = counter(&b, "step_us");
    snprintf(rest, sizeof rest,
             M ",\"prompt\":\"Once upon\",\"max_tokens\":%lld,\"ignore_eos\":true,\"emit_token_ids\":true,"
               "\"cache_prompt\":false",
             (long long)n_tokens);
    ask(&b, "generate", rest, HALO_EV_DONE);
    assert_int_equal(b.requests[1].n_ids, n_tokens); /* after `stats` */
    double ms = reply_ms(&b);
    step_us = counter(&b, "step_us") - step_us;
    steps = counter(&b, "steps") - steps;
    if (steps > n_tokens + B_STEPS)
        fail_msg("%lld tokens of B in %lld steps", (long long)n_tokens, (long long)steps);
    client_close(&b);
    return (double)step_us / 1e3 / ms;
}

static char *repeat(const char *what, size_t n_bytes)
{
    size_t n_what = strlen(what);
    char *text = malloc(n_bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n_bytes; i++)
        text[i] = what[i % n_what];
    text[n_bytes] = '\0';
    return text;
}

/* ---- what A does ---- */

static void silent_connections(void **state)
{
    begin("connections = 64\n");
    pid_t engine = daemon_engine_pid(&fixture);
    for (int i = 0; i < MOST; i++)
        open_a();
    serve_b(B_TOKENS);
    end(engine);
}

/* As many replies as can run, and as many more as may wait. */
static void long_requests(void **state)
{
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    for (int i = 0; i < 384; i++) {
        if (i % 32 == 0)
            open_a();
        client_send(&a[n_a - 1], "generate",
                    M ",\"prompt\":\"Once upon a time %d\",\"max_tokens\":1000,\"ignore_eos\":true,\"stream\":false",
                    i);
    }
    struct client b;
    client_open_as(&b, &fixture, B, "");
    while (counter(&b, "sequences_submitted") < 100 || counter(&b, "steps") < 20)
        usleep(10000);
    serve_b(B_TOKENS);
    client_close(&b);
    size_t n_done = 0, n_refused = 0;
    for (size_t c = 0; c < n_a; c++) {
        client_take(&a[c]);
        for (size_t i = 0; i < a[c].n_requests; i++) {
            n_done += a[c].requests[i].n_terminal && a[c].requests[i].terminal == HALO_EV_DONE;
            n_refused += a[c].requests[i].n_terminal && a[c].requests[i].error == HALO_ERROR_QUEUE_FULL;
        }
    }
    assert_int_equal(n_done, 0); /* B did not wait for one of them */
    assert_true(n_refused > 0);  /* A has asked for more than may wait */
    end(engine);
}

/* Cancels all that A has open: how many there were. */
static size_t cancel_all(struct client *client)
{
    size_t n = client->n_requests, n_open = 0;
    for (size_t i = n; i-- > 0;)
        client_send(client, "cancel", "\"target\":%lld", (long long)client->requests[i].id);
    assert_true(client_wait(client, 0, PATIENCE_MS));
    for (size_t i = 0; i < n; i++)
        n_open +=
            client->requests[i].terminal == HALO_EV_DONE && client->requests[i].finish == HALO_WIRE_FINISH_CANCELLED;
    return n_open;
}

static void copy_model(void)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "cp '%s/tests/models/fable-Q4_K_M.gguf' '%s/second.gguf'",
             getenv("HALO_SOURCE_ROOT"), fixture.dir);
    assert_int_equal(system(command), 0);
}

/* A second model, by its path: what the daemon's own user may do. */
static void load_and_generate(void)
{
    struct client own;
    char path[PATH_MAX], rest[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/second.gguf", fixture.dir);
    client_open(&own, &fixture);
    snprintf(rest, sizeof rest, "\"model\":\"%s\",\"params\":{\"context\":256}", path);
    ask(&own, "load", rest, HALO_EV_LOADED);
    snprintf(rest, sizeof rest, "\"model\":\"%s\",\"prompt\":\"Once\",\"max_tokens\":2,\"ignore_eos\":true", path);
    ask(&own, "generate", rest, HALO_EV_DONE);
    client_close(&own);
}

/* B does something beside a text of A that takes long; it is not done before that. */
static void beside_a_long_text(void (*what)(void))
{
    struct client *client = open_a();
    char *text = repeat("a", 7 * MIB);
    for (size_t i = 0; i < 7 * MIB; i += 2 * MIB)
        text[i] = ' '; /* long words are the slowest */
    client_send(client, "tokenize", M ",\"text\":\"%s\"", text);
    free(text);
    what();
    assert_int_equal(cancel_all(client), 1);
}

static void reply(void)
{
    serve_b(2);
}

static void long_texts(void **state)
{
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    copy_model();
    beside_a_long_text(reply);
    beside_a_long_text(load_and_generate);
    end(engine);
}

static void long_bench(void **state)
{
    struct client admin;
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    double alone = serve_b(600);
    client_open_as(&admin, &fixture, ADMIN, "admin-");
    client_send(&admin, "bench", "%s", M ",\"prefill\":256,\"decode\":0,\"repeat\":1000");
    while (admin.requests[0].n_progress == 0)
        client_poll(&admin, 10);
    double beside = serve_b(600);
    fprintf(stderr, "steps have %.0f %% of the device's time alone, %.0f %% beside a bench\n", alone * 100,
            beside * 100);
    assert_true(beside > alone / 4); /* half of it, and the runs are longer than B's steps */
    assert_int_equal(cancel_all(&admin), 1);
    client_close(&admin);
    end(engine);
}

/* Sixteen connections that ask for answers of megabytes and read none. */
static void readers_that_never_read(void **state)
{
    size_t n_bytes = 0;
    begin("output_user_bytes = 34603008\n");
    pid_t engine = daemon_engine_pid(&fixture);
    char *text = repeat("a b c d e f g h ", 400000);
    for (int i = 0; i < 64; i++) {
        if (i % 4 == 0)
            open_a();
        client_send(&a[n_a - 1], "tokenize", M ",\"text\":\"%s\"", text);
    }
    free(text);
    struct client b;
    client_open_as(&b, &fixture, B, "");
    while (counter(&b, "output_refused") < 40)
        usleep(10000);
    client_close(&b);
    serve_b(B_TOKENS);
    for (size_t c = 0; c < n_a; c++) {
        assert_true(client_wait(&a[c], 0, PATIENCE_MS));
        n_bytes += a[c].n_bytes;
    }
    fprintf(stderr, "%zu bytes were kept for those who did not read\n", n_bytes);
    assert_true(n_bytes < 64 * MIB);
    end(engine);
}

/* Takes what has come on one of A's connections: lines that end. */
static long count_answers(int fd)
{
    char bytes[65536];
    long n_answers = 0;
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0)
        _exit(1);
    for (ssize_t i = 0; i < n; i++)
        n_answers += bytes[i] == '\n';
    return n_answers;
}

/* A child that sends `what` to each of A's connections, n_rounds times, until every line of it is answered, once. */
static pid_t flood(const char *what, int n_rounds)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    size_t sent[MOST] = {0};
    size_t n = strlen(what), n_bytes = n * (size_t)n_rounds, n_lines = 0;
    for (size_t i = 0; i < n; i++)
        n_lines += what[i] == '\n';
    for (long n_left = (long)(n_a * n_lines) * n_rounds; n_left > 0;) {
        struct pollfd fds[MOST];
        for (size_t c = 0; c < n_a; c++)
            fds[c] = (struct pollfd){.fd = a[c].fd, .events = (short)(POLLIN | (sent[c] < n_bytes ? POLLOUT : 0))};
        if (poll(fds, n_a, PATIENCE_MS / 4) <= 0)
            _exit(3); /* a line has no answer */
        for (size_t c = 0; c < n_a; c++) {
            size_t at = sent[c] % n;
            n_left -= fds[c].revents & POLLIN ? count_answers(a[c].fd) : 0;
            ssize_t done = fds[c].revents & POLLOUT ? send(a[c].fd, what + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
            sent[c] += done > 0 ? (size_t)done : 0;
        }
        if (n_left < 0)
            _exit(2);
    }
    _exit(0);
}

/* How many pings B has answered until A has all its answers. */
static int count_pings(pid_t pid)
{
    int n = 0, status;
    struct client b;
    client_open_as(&b, &fixture, B, "");
    for (; waitpid(pid, &status, WNOHANG) == 0; n++) {
        client_forget(&b);
        ask(&b, "ping", "", HALO_EV_PONG);
    }
    assert_int_equal(status, 0);
    client_close(&b);
    return n;
}

static void floods(void **state)
{
    char *line = repeat("x", MIB + MIB / 8), *lines = repeat("{\"type\":\"models\",\"id\":1}\n", 25 * 400);
    line[MIB + MIB / 8 - 1] = '\n';
    begin("line_bytes = 1048576\n");
    pid_t engine = daemon_engine_pid(&fixture);
    for (int i = 0; i < MOST; i++)
        open_a();
    int n_long = count_pings(flood(line, 2));
    serve_b(B_TOKENS);
    int n_models = count_pings(flood(lines, 8));
    fprintf(stderr, "%d pings beside 144 MiB of long lines, %d beside 204800 of `models`\n", n_long, n_models);
    assert_true(n_long >= 40);  /* a turn of the loop has 256 KiB of A's ... */
    assert_true(n_models >= 5); /* ... and 2 ms of handling its lines */
    free(line);
    free(lines);
    end(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections), cmocka_unit_test(long_requests),           cmocka_unit_test(long_texts),
        cmocka_unit_test(long_bench),         cmocka_unit_test(readers_that_never_read), cmocka_unit_test(floods),
    };
    signal(SIGPIPE, SIG_IGN);
    setenv("HALO_INJECT_UIDS", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
