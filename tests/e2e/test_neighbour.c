/* test_neighbour.c: the hostile neighbour, with the real daemon and the real engine. Whatever user A does, user B is
 * served: its ping is answered, it gets a token in every step, its load and its texts do not wait for A's.
 *
 * No bound is a time: what counts is who is answered before whom, in how many steps of the engine, in what share of the
 * device's time, and beside how many bytes of A's. Users are stated by the names of the clients' sockets, which needs a
 * build with -Dinject=true. That each pattern notices when its limit is gone: neighbour_mutants.c.
 *
 *   e2e_neighbour [PATTERN]
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

static void start(const char *config)
{
    char text[256];
    n_a = 0;
    snprintf(text, sizeof text, "[engine]\nstatus_ms = 10000\nheartbeat_ms = 60000\n[limits]\nstall_ms = 600000\n%s",
             config);
    daemon_start(&fixture, text);
}

static void begin_with(const char *config, int kv_tokens)
{
    struct client client;
    start(config);
    client_open(&client, &fixture);
    client_send(&client, "load", M ",\"params\":{\"context\":1024,\"kv_tokens\":%d}", kv_tokens);
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    assert_int_equal(client.requests[0].terminal, HALO_EV_LOADED);
    client_close(&client);
}

static void begin(const char *config)
{
    begin_with(config, 65536);
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

static int64_t number_in(const char *line, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    assert_non_null(at);
    return atoll(at + strlen(key));
}

/* A counter of the daemon, or one of the engine. */
static int64_t counter(struct client *client, const char *name)
{
    client_forget(client);
    ask(client, "stats", "", HALO_EV_STATS);
    return number_in(client->last_line, name);
}

/* What `status` says of the bytes that the daemon holds. */
static int64_t held(const char *name)
{
    struct client client;
    client_open_as(&client, &fixture, B, "");
    ask(&client, "status", "", HALO_EV_STATUS);
    int64_t n = number_in(client.last_line, name);
    client_close(&client);
    return n;
}

/* What has come on a connection that asks for nothing: bytes; 0: nothing; -1: nothing more will. */
static ssize_t unasked(int fd, char bytes[static 4096])
{
    ssize_t n = recv(fd, bytes, 4095, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return 0;
    bytes[n > 0 ? n : 0] = '\0';
    return n > 0 ? n : -1;
}

/* A's connections that have read an error with this code. */
static size_t count_errors(const char *code)
{
    char bytes[4096], wanted[64];
    size_t n = 0;
    snprintf(wanted, sizeof wanted, "\"code\":\"%s\"", code);
    for (size_t c = 0; c < n_a; c++)
        n += unasked(a[c].fd, bytes) > 0 && strstr(bytes, wanted);
    return n;
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

/* The reply of B comes in few steps; if not, this does not wait for its end. */
static void wait_for_reply(struct client *b, int64_t n_tokens, int64_t before)
{
    struct client watch;
    int64_t steps = 0;
    client_open_as(&watch, &fixture, B, "");
    while (b->n_open > 0 && steps <= n_tokens + B_STEPS) {
        client_poll(b, 20);
        steps = counter(&watch, "steps") - before;
    }
    if (steps > n_tokens + B_STEPS)
        fail_msg("%zu of %lld tokens of B in %lld steps", b->requests[b->n_requests - 1].n_ids, (long long)n_tokens,
                 (long long)steps);
    client_close(&watch);
}

/* B alone or beside A: a ping, a reply, in few steps. Returns the share of the device's time that steps had while the
 * reply was decoded: what is left is others'. */
static double serve_b(int64_t n_tokens)
{
    struct client b;
    client_open_as(&b, &fixture, B, "");
    ask(&b, "ping", "", HALO_EV_PONG);
    int64_t steps = counter(&b, "steps"), step_us = counter(&b, "step_us");
    size_t at = client_send(&b, "generate",
                            M ",\"prompt\":\"Once upon\",\"max_tokens\":%lld,\"ignore_eos\":true,"
                              "\"emit_token_ids\":true,\"cache_prompt\":false",
                            (long long)n_tokens);
    wait_for_reply(&b, n_tokens, steps);
    if (b.requests[at].terminal != HALO_EV_DONE)
        fail_msg("generate: %s", b.last_line);
    assert_int_equal(b.requests[at].n_ids, n_tokens);
    double ms = reply_ms(&b);
    step_us = counter(&b, "step_us") - step_us;
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

/* A gets the half of 60 that is its share, or of 59 while a connection of before is still open, and reads why not more.
 */
static void silent_connections(void **state)
{
    begin("connections = 64\n");
    pid_t engine = daemon_engine_pid(&fixture);
    for (int i = 0; i < MOST; i++)
        open_a();
    serve_b(B_TOKENS);
    assert_int_equal(count_errors("too_many_requests"), MOST - 30);
    end(engine);
}

/* Seven users have all connections between them: 60, root's included. One that has been silent for a second makes room
 * for B. */
static void all_connections_in_use(void **state)
{
    static const int n_of[] = {30, 15, 7, 4, 2, 1}; /* half of what the others leave */
    struct client own;
    char bytes[4096];
    bool served = false;
    start("connections = 64\n");
    client_open(&own, &fixture);
    do {
        client_forget(&own);
        ask(&own, "status", "", HALO_EV_STATUS);
    } while (number_in(own.last_line, "connections") > 1); /* of before */
    for (unsigned user = 0; user < 6; user++)
        for (int i = 0; i < n_of[user]; i++)
            client_open_as(&a[n_a++], &fixture, A + 100 + user, "");
    client_forget(&own);
    ask(&own, "status", "", HALO_EV_STATUS);
    assert_int_equal(number_in(own.last_line, "connections"), 60);
    for (int i = 0; i < 5 && !served; i++) {
        struct client b;
        struct pollfd wait;
        usleep(1200000);
        client_open_as(&b, &fixture, B, "");
        client_send(&b, "ping", "%s", "");
        wait = (struct pollfd){.fd = b.fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
        served = unasked(b.fd, bytes) > 0 && strstr(bytes, "\"pong\"");
        client_close(&b);
    }
    assert_true(served);
    client_close(&own);
    while (n_a > 0)
        client_close(&a[--n_a]);
    daemon_stop(&fixture, 60000);
}

/* Half lines of all of A's connections together stay below what its lines may hold. */
static void half_lines(void **state)
{
    struct client b;
    begin("resume_user_bytes = 1048576\n");
    pid_t engine = daemon_engine_pid(&fixture);
    char *half = repeat("x", 150000);
    for (int i = 0; i < 16; i++) {
        struct client *client = open_a();
        for (size_t at = 0; at < 150000;)
            at += (size_t)send(client->fd, half + at, 150000 - at, MSG_NOSIGNAL);
    }
    free(half);
    client_open_as(&b, &fixture, B, "");
    while (counter(&b, "bytes_in") < 16 * 150000)
        usleep(10000);
    client_close(&b);
    serve_b(B_TOKENS);
    assert_true(held("request_line_bytes") <= 1048576);
    assert_true(count_errors("too_many_requests") >= 9); /* seven of 150000 bytes fit */
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
    while (counter(&b, "requests") < 384 || counter(&b, "sequences_submitted") < 100 || counter(&b, "steps") < 20)
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
    /* 120 may wait, the half of 240; 48 run, and a few have run and wait again. */
    if (n_refused < 200)
        fail_msg("%zu of 384 requests were refused", n_refused);
    end(engine);
}

/* A's replies are three at a time, which take all pages and leave each other alone: one of them goes when B comes. (Not
 * if B comes just when one ends.) */
static void few_pages(void **state)
{
    struct client b;
    begin_with("", 3072);
    pid_t engine = daemon_engine_pid(&fixture);
    char *prompt = repeat(" a", 1760), *own = repeat(" b", 800);
    for (int i = 0; i < 60; i++) {
        if (i % 30 == 0)
            open_a();
        client_send(&a[n_a - 1], "generate",
                    M ",\"prompt\":\"%d%s\",\"max_tokens\":100,\"ignore_eos\":true,\"stream\":false,"
                      "\"cache_prompt\":false",
                    i, prompt);
    }
    client_open_as(&b, &fixture, B, "");
    while (counter(&b, "steps") < 20)
        usleep(10000);
    assert_int_equal(counter(&b, "preemptions"), 0);
    for (int i = 0; i < 10 && counter(&b, "preemptions") == 0; i++) {
        client_forget(&b);
        client_send(&b, "generate", M ",\"prompt\":\"%s\",\"max_tokens\":1,\"cache_prompt\":false", own);
        assert_true(client_wait(&b, 0, PATIENCE_MS));
    }
    assert_true(counter(&b, "preemptions") > 0);
    client_close(&b);
    free(prompt);
    free(own);
    end(engine);
}

/* The time from arrival to the first token, by the engine's clock. */
static double first_token_ms(const struct client *client)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    assert_int_equal(halo_ev_decode(&ev, client->last_line, strlen(client->last_line), 0, &refusal), 0);
    assert_int_equal(ev.type, HALO_EV_DONE);
    double ms = ev.done.ttft_ms;
    halo_ev_finish(&ev);
    return ms;
}

/* Forty prompts, each shorter than B's, which is the last to come to the device: a text of its own is prepared before
 * it. All arrive in the engine at once. B is done before most of those that are left. */
static void many_prompts(void **state)
{
    struct client b;
    size_t n_after = 0;
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    char *short_one = repeat(" a", 800), *long_one = repeat(" b", 1800), *text = repeat(" c", MIB / 4);
    assert_int_equal(kill(engine, SIGSTOP), 0); /* until all have arrived */
    for (int i = 0; i < 40; i++)
        client_send(open_a(), "generate", M ",\"prompt\":\"%d%s\",\"max_tokens\":1,\"cache_prompt\":false", i,
                    short_one);
    client_open_as(&b, &fixture, B, "");
    client_send(&b, "tokenize", M ",\"text\":\"%s\"", text);
    client_send(&b, "generate", M ",\"prompt\":\"%s\",\"max_tokens\":1,\"cache_prompt\":false", long_one);
    client_send(&b, "ping", "%s", ""); /* halod has passed on what came before */
    assert_true(client_wait(&b, 2, PATIENCE_MS));
    assert_int_equal(kill(engine, SIGCONT), 0);
    assert_true(client_wait(&b, 0, PATIENCE_MS));
    for (size_t c = 0; c < n_a; c++) {
        assert_true(client_wait(&a[c], 0, PATIENCE_MS));
        n_after += first_token_ms(&a[c]) > first_token_ms(&b);
    }
    fprintf(stderr, "%zu of 40 prompts after B's\n", n_after);
    if (n_after < 25)
        fail_msg("only %zu of 40 shorter prompts came after B's", n_after);
    client_close(&b);
    free(short_one);
    free(long_one);
    free(text);
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

/* Three conversations of megabytes, a million tokens each. B's is rendered before they all are. */
static void long_templates(void **state)
{
    struct client b;
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    struct client *client = open_a();
    char *text = repeat("a b c d e ", 2 * MIB);
    for (int i = 0; i < 3; i++)
        client_send(client, "template", M ",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]", text);
    free(text);
    client_open_as(&b, &fixture, B, "");
    ask(&b, "template", M ",\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]", HALO_EV_TEMPLATE);
    client_close(&b);
    assert_true(cancel_all(client) > 0);
    end(engine);
}

/* Texts that cannot fit into the context end at once: by their bytes, or where they are too many tokens. */
static void refused_texts(void **state)
{
    begin("");
    pid_t engine = daemon_engine_pid(&fixture);
    struct client *client = open_a();
    char *text = repeat("a b c d e ", 7 * MIB);
    for (int i = 0; i < 3; i++)
        client_send(client, "score", M ",\"text\":\"%s\"", text);
    text[12000] = '\0';
    client_send(client, "score", M ",\"text\":\"%s\"", text);
    free(text);
    serve_b(B_TOKENS);
    assert_true(client_wait(client, 0, PATIENCE_MS));
    for (int i = 0; i < 4; i++) {
        const struct client_request *request = &client->requests[i];
        assert_int_equal(request->error, HALO_ERROR_CONTEXT_OVERFLOW);
        assert_int_equal(strstr(request->detail, "\"bytes\":") != NULL, i < 3);
        assert_non_null(strstr(request->detail, "\"least_prompt_tokens\":"));
    }
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
    while (counter(&b, "requests_done") < 1 + 64) /* the load of before */
        usleep(10000);
    client_close(&b);
    serve_b(B_TOKENS);
    assert_true(held("unread_event_bytes") < 35 * (int64_t)MIB);
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
    if (n == 0 || (n < 0 && errno != EAGAIN))
        _exit(1); /* closed */
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

/* B is served until A has an answer to each of its lines. */
static void serve_beside(pid_t pid)
{
    int n = 0, status;
    struct client b;
    client_open_as(&b, &fixture, B, "");
    for (; waitpid(pid, &status, WNOHANG) == 0; n++) {
        client_forget(&b);
        ask(&b, "ping", "", HALO_EV_PONG);
    }
    fprintf(stderr, "%d pings beside a flood\n", n);
    assert_int_equal(status, 0);
    client_close(&b);
}

static void floods(void **state)
{
    char *line = repeat("x", MIB + MIB / 8), *lines = repeat("{\"type\":\"models\",\"id\":1}\n", 25 * 400);
    line[MIB + MIB / 8 - 1] = '\n';
    begin("line_bytes = 1048576\n");
    pid_t engine = daemon_engine_pid(&fixture);
    for (int i = 0; i < MOST; i++)
        open_a();
    serve_beside(flood(line, 2));
    serve_b(B_TOKENS);
    serve_beside(flood(lines, 8));
    free(line);
    free(lines);
    end(engine);
}

/* All of A's sockets are full when halod wakes up, and B's request came last. It is handled in the first turn of the
 * loop, which reads 256 KiB of A's and handles its lines for 2 ms. Without an engine `stats` is answered at once. */
static void one_turn_of_the_loop(void **state)
{
    struct client b;
    int status;
    char *pings = repeat("{\"type\":\"ping\"}\n", 16 * 4096), own[512] = "";
    const char *engine = getenv("HALO_TEST_ENGINE");
    snprintf(own, sizeof own, "%s", engine ? engine : "");
    setenv("HALO_TEST_ENGINE", "/bin/false", 1);
    start("");
    if (engine)
        setenv("HALO_TEST_ENGINE", own, 1);
    else
        unsetenv("HALO_TEST_ENGINE");
    for (int i = 0; i < MOST; i++)
        open_a();
    client_open_as(&b, &fixture, B, "");
    int64_t before = counter(&b, "bytes_in");
    assert_int_equal(kill(fixture.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(fixture.pid, &status, WUNTRACED), fixture.pid);
    size_t n_bytes = 0;
    for (size_t c = 0; c < n_a; c++)
        for (ssize_t n; (n = send(a[c].fd, pings, 16 * 4096, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;)
            n_bytes += (size_t)n;
    client_forget(&b);
    client_send(&b, "stats", "%s", "");
    assert_int_equal(kill(fixture.pid, SIGCONT), 0);
    assert_true(client_wait(&b, 0, PATIENCE_MS));
    int64_t n_read = number_in(b.last_line, "bytes_in") - before, n_lines = number_in(b.last_line, "requests");
    fprintf(stderr, "%lld of %zu bytes read and %lld lines handled before B's\n", (long long)n_read, n_bytes,
            (long long)n_lines);
    assert_true(n_bytes > 8 * MIB);
    assert_true(n_read < (int64_t)MIB);
    assert_true(n_lines < 16000); /* 256 KiB hold 16384: it is the time that ends the turn */
    client_close(&b);
    while (n_a > 0)
        client_close(&a[--n_a]);
    free(pings);
    daemon_stop(&fixture, 60000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections),
        cmocka_unit_test(all_connections_in_use),
        cmocka_unit_test(half_lines),
        cmocka_unit_test(long_requests),
        cmocka_unit_test(few_pages),
        cmocka_unit_test(many_prompts),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(long_templates),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(long_bench),
        cmocka_unit_test(readers_that_never_read),
        cmocka_unit_test(floods),
        cmocka_unit_test(one_turn_of_the_loop),
    };
    signal(SIGPIPE, SIG_IGN);
    setenv("HALO_INJECT_UIDS", "1", 1);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
