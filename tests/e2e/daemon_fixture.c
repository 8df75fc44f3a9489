/* daemon_fixture.c: see daemon_fixture.h. */
#include "daemon_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <protocol/envelope.h>

/* cmocka.h wants these headers before it. */
#include <stddef.h>
#include <cmocka.h>

static void sleep_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* name: what the socket is bound to in the abstract namespace; NULL: nothing. */
static int try_connect_as(const char *path, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}, own = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (name) {
        socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
        memcpy(own.sun_path + 1, name, strlen(name));
        assert_int_equal(bind(fd, (const struct sockaddr *)&own, n), 0);
    }
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int try_connect(const char *path)
{
    return try_connect_as(path, NULL);
}

static void print_log(const struct daemon_fixture *daemon)
{
    char line[1024];
    FILE *log = fopen(daemon->log_path, "r");
    while (log && fgets(line, sizeof line, log))
        fputs(line, stderr);
    if (log)
        fclose(log);
}

static void write_config(struct daemon_fixture *daemon, const char *config, char *path, size_t n)
{
    snprintf(path, n, "%s/halod.conf", daemon->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(config, file);
    fclose(file);
}

const char *daemon_models;

void daemon_start(struct daemon_fixture *daemon, const char *config)
{
    const char *build = getenv("HALO_BUILD_ROOT"), *source = getenv("HALO_SOURCE_ROOT");
    assert_non_null(build);
    assert_non_null(source);
    snprintf(daemon->dir, sizeof daemon->dir, "%s/halod-e2e-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(daemon->dir));
    snprintf(daemon->socket_path, sizeof daemon->socket_path, "%s/s", daemon->dir);
    char halod[512], engine[512], models[512], state[300], conf[300] = "";
    const char *own = getenv("HALO_TEST_ENGINE"), *own_halod = getenv("HALO_TEST_HALOD");
    snprintf(halod, sizeof halod, "%s%s", own_halod ? own_halod : build, own_halod ? "" : "/daemon/serve/halod");
    snprintf(engine, sizeof engine, "%s%s", own ? own : build, own ? "" : "/daemon/engine/halod-engine");
    snprintf(models, sizeof models, "%s%s", daemon_models ? daemon_models : source,
             daemon_models ? "" : "/tests/models");
    snprintf(state, sizeof state, "%s/state", daemon->dir);
    snprintf(daemon->log_path, sizeof daemon->log_path, "%s/log", daemon->dir);
    if (config)
        write_config(daemon, config, conf, sizeof conf);
    const char *hip_lib = getenv("HALO_HIP_LIB");
    const char *argv[20] = {
        halod,      "--socket", daemon->socket_path, "--model-dir",          models, "--state-dir", state,
        "--engine", engine,     "--device",          hip_lib ? "hip" : "cpu"};
    size_t n_args = 11;
    if (hip_lib) {
        argv[n_args++] = "--hip-lib";
        argv[n_args++] = hip_lib;
    }
    if (config) {
        argv[n_args++] = "--config";
        argv[n_args++] = conf;
    }
    daemon->pid = fork();
    assert_true(daemon->pid >= 0);
    if (daemon->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        int fd = open(daemon->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 2);
        close(fd);
        execv(halod, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int64_t deadline = (int64_t)halo_clock_ms() + 60000;
    int fd;
    while ((fd = try_connect(daemon->socket_path)) < 0) {
        if ((int64_t)halo_clock_ms() > deadline || waitpid(daemon->pid, NULL, WNOHANG) != 0) {
            print_log(daemon);
            fail_msg("halod did not open %s", daemon->socket_path);
        }
        sleep_ms(5);
    }
    close(fd);
}

void daemon_end(struct daemon_fixture *daemon, int deadline_ms)
{
    kill(daemon->pid, SIGTERM);
    int64_t deadline = (int64_t)halo_clock_ms() + deadline_ms;
    int status = 0;
    while (waitpid(daemon->pid, &status, WNOHANG) == 0) {
        if ((int64_t)halo_clock_ms() > deadline) {
            print_log(daemon);
            kill(daemon->pid, SIGKILL);
            fail_msg("halod did not end within %d ms of SIGTERM", deadline_ms);
        }
        sleep_ms(5);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        print_log(daemon);
        fail_msg("halod ended with wait status 0x%x", (unsigned)status);
    }
    assert_int_equal(access(daemon->socket_path, F_OK), -1);
}

void daemon_remove(struct daemon_fixture *daemon)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", daemon->dir);
    assert_int_equal(system(command), 0);
}

void daemon_stop(struct daemon_fixture *daemon, int deadline_ms)
{
    daemon_end(daemon, deadline_ms);
    daemon_remove(daemon);
}

static void open_as(struct client *client, const struct daemon_fixture *daemon, const char *name)
{
    memset(client, 0, sizeof *client);
    client->fd = try_connect_as(daemon->socket_path, name);
    assert_true(client->fd >= 0);
    halo_line_init(&client->lines, (size_t)1 << 30);
}

void client_open(struct client *client, const struct daemon_fixture *daemon)
{
    open_as(client, daemon, NULL);
}

void client_open_as(struct client *client, const struct daemon_fixture *daemon, unsigned uid, const char *role)
{
    static unsigned n;
    char name[96];
    snprintf(name, sizeof name, "halo-uid-%u-%s%ld-%u", uid, role, (long)getpid(), n++);
    open_as(client, daemon, name);
}

static void free_requests(struct client *client)
{
    for (size_t i = 0; i < client->n_requests; i++) {
        free(client->requests[i].ids);
        free(client->requests[i].text);
        client->requests[i] = (struct client_request){0};
    }
    client->n_requests = 0;
}

void client_close(struct client *client)
{
    close(client->fd);
    halo_line_finish(&client->lines);
    free(client->last_line);
    free_requests(client);
}

void client_forget(struct client *client)
{
    assert_int_equal(client->n_open, 0);
    free_requests(client);
}

size_t client_send(struct client *client, const char *type, const char *rest, ...)
{
    assert_true(client->n_requests < CLIENT_MAX_REQUESTS);
    struct client_request *request = &client->requests[client->n_requests];
    request->id = (int64_t)client->n_requests + 1;
    char *members, *line;
    va_list args;
    va_start(args, rest);
    int n = vasprintf(&members, rest, args);
    va_end(args);
    assert_true(n >= 0);
    n = asprintf(&line, "{\"type\":\"%s\",\"id\":%lld%s%s}\n", type, (long long)request->id, n ? "," : "", members);
    assert_true(n >= 0);
    for (int at = 0; at < n;) {
        ssize_t done = send(client->fd, line + at, (size_t)(n - at), MSG_NOSIGNAL);
        assert_true(done > 0 || errno == EINTR);
        at += done > 0 ? (int)done : 0;
    }
    free(members);
    free(line);
    client->n_open++;
    return client->n_requests++;
}

static void add_text(struct client_request *request, struct halo_str text)
{
    request->text = realloc(request->text, request->n_text + text.len + 1);
    assert_non_null(request->text);
    memcpy(request->text + request->n_text, text.at, text.len);
    request->n_text += text.len;
    request->text[request->n_text] = '\0';
}

static void take_event(struct client *client, struct client_request *request, const struct halo_ev *ev)
{
    assert_int_equal(request->n_terminal, 0); /* nothing may follow a terminal event */
    client->n_tokens += ev->type == HALO_EV_COMMITTED || ev->type == HALO_EV_TOKEN;
    switch (ev->type) {
    case HALO_EV_STARTED:
        assert_int_equal(request->n_started++, 0);
        request->seed = ev->started.seed;
        break;
    case HALO_EV_PROGRESS: request->n_progress++; break;
    case HALO_EV_COMMITTED:
        assert_int_equal((size_t)ev->committed.pos, request->n_ids); /* no gap, no repeat */
        request->ids = realloc(request->ids, (request->n_ids + 1) * sizeof *request->ids);
        assert_non_null(request->ids);
        request->ids[request->n_ids++] = (int32_t)ev->committed.tok_id;
        break;
    case HALO_EV_SCORE_ROW:
        if (request->n_rows == 0)
            request->first_row = ev->score_row.pos;
        assert_int_equal(ev->score_row.pos, request->first_row + request->n_rows++);
        break;
    case HALO_EV_NOTICE:
        if (!halo_str_is(ev->notice.code, "engine_restarted"))
            break;
        request->n_restarts++;
        client->n_restarts++;
        if (request->n_ids > 0) /* without `committed` events nobody can tell */
            assert_int_equal((size_t)ev->notice.resumed_at, request->n_ids);
        break;
    case HALO_EV_TOKEN: add_text(request, ev->token.text); break;
    default: break;
    }
    if (!halo_ev_is_terminal(ev->type))
        return;
    request->n_terminal++;
    request->terminal = ev->type;
    if (ev->type == HALO_EV_ERROR) {
        request->error = ev->error.code;
        snprintf(request->message, sizeof request->message, "%.*s", (int)ev->error.message.len, ev->error.message.at);
        snprintf(request->detail, sizeof request->detail, "%.*s", (int)ev->error.detail.len,
                 ev->error.has_detail ? ev->error.detail.at : "");
    } else if (ev->type == HALO_EV_SCORED) {
        request->nll = ev->scored.nll;
    } else if (ev->type == HALO_EV_DONE) {
        request->finish = ev->done.finish_reason;
        if (ev->done.has_text)
            add_text(request, ev->done.text);
        assert_int_equal((size_t)ev->done.tokens, request->n_ids ? request->n_ids : (size_t)ev->done.tokens);
    }
    client->n_open--;
}

static void take_line(struct client *client, const char *line, size_t n)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    if (halo_ev_decode(&ev, line, n, HALO_EV_STRICT, &refusal) != 0)
        fail_msg("bad event: %s in %.*s", refusal.message, (int)n, line);
    if (ev.id.kind != HALO_ID_INT || ev.id.num < 1 || (size_t)ev.id.num > client->n_requests)
        fail_msg("event of an unknown id: %.*s", (int)n, line);
    struct client_request *request = &client->requests[ev.id.num - 1];
    take_event(client, request, &ev);
    if (halo_ev_is_terminal(ev.type)) {
        free(client->last_line);
        client->last_line = strndup(line, n);
    }
    halo_ev_finish(&ev);
}

/* Reads once, waiting at most timeout_ms. 1 something, 0 nothing, -1 end. */
static int read_once(struct client *client, int timeout_ms)
{
    struct pollfd wait = {.fd = client->fd, .events = POLLIN};
    if (poll(&wait, 1, timeout_ms) <= 0)
        return 0;
    char *at;
    size_t room;
    assert_int_equal(halo_line_reserve(&client->lines, 65536, &at, &room), 0);
    ssize_t n = read(client->fd, at, room);
    if (n <= 0)
        return -1;
    client->n_bytes += (size_t)n;
    halo_line_commit(&client->lines, (size_t)n);
    const char *line;
    size_t len;
    while (halo_line_next(&client->lines, &line, &len) == 0)
        take_line(client, line, len);
    return 1;
}

bool client_wait(struct client *client, int n_open, int timeout_ms)
{
    int64_t deadline = (int64_t)halo_clock_ms() + timeout_ms;
    while (client->n_open > n_open) {
        int64_t left = deadline - (int64_t)halo_clock_ms();
        if (left <= 0)
            fail_msg("%d requests still open after %d ms", client->n_open, timeout_ms);
        if (read_once(client, (int)left) < 0)
            return false;
    }
    return true;
}

void client_poll(struct client *client, int timeout_ms)
{
    int64_t deadline = (int64_t)halo_clock_ms() + timeout_ms;
    for (int64_t left = timeout_ms; left > 0; left = deadline - (int64_t)halo_clock_ms())
        if (read_once(client, (int)left) < 0)
            return;
}

bool client_take(struct client *client)
{
    return read_once(client, 0) >= 0;
}

int64_t client_last_i64(const struct client *client, const char *key)
{
    struct halo_envelope_field field = {.key = key};
    struct halo_envelope env;
    int64_t value;
    if (!client->last_line ||
        halo_envelope_scan_fields(client->last_line, strlen(client->last_line), &env, &field, 1) != 0 ||
        !halo_envelope_i64(client->last_line, field.value, &value))
        return -1;
    return value;
}

pid_t daemon_engine_pid(const struct daemon_fixture *daemon)
{
    struct client client;
    client_open(&client, daemon);
    client_send(&client, "status", "%s", "");
    assert_true(client_wait(&client, 0, 2000)); /* status answers within a second whatever the engine does */
    struct halo_ev ev;
    struct halo_refusal refusal;
    assert_int_equal(halo_ev_decode(&ev, client.last_line, strlen(client.last_line), 0, &refusal), 0);
    pid_t pid =
        ev.type == HALO_EV_STATUS && ev.status.has_engine && ev.status.engine.has_pid ? (pid_t)ev.status.engine.pid : 0;
    halo_ev_finish(&ev);
    client_close(&client);
    return pid;
}

void daemon_answers(const struct daemon_fixture *daemon)
{
    struct client client;
    client_open(&client, daemon);
    client_send(&client, "ping", "%s", "");
    assert_true(client_wait(&client, 0, 1000));
    assert_int_equal(client.requests[0].terminal, HALO_EV_PONG);
    client_close(&client);
}
