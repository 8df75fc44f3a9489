/* rig.c: starts halod, talks to it, ends it. Programs come from the environment: HALO_TEST_HALOD, HALO_TEST_ENGINE. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

uint64_t rig_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void rig_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    nanosleep(&t, NULL);
}

static const char *program(const char *name)
{
    const char *path = getenv(name);
    return path ? path : "";
}

static int try_connect(const struct rig *rig)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig->socket_path);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void child(const struct rig *rig, const char *const *env)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/log", rig->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    /* Whatever becomes of the test, its daemon does not stay behind. */
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(98);
    setenv("FAKE_DIR", rig->dir, 1);
    for (size_t i = 0; env && env[i]; i++)
        putenv((char *)env[i]);
    snprintf(path, sizeof(path), "%s/conf", rig->dir);
    execl(program("HALO_TEST_HALOD"), "halod", "--config", path, "--socket", rig->socket_path, "--engine",
          program("HALO_TEST_ENGINE"), "--model-dir", rig->dir, "--state-dir", rig->dir, (char *)NULL);
    _exit(99);
}

static bool launch(struct rig *rig, const char *config, const char *const *env, int *ret_status)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/conf", rig->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(config, file);
    assert_int_equal(fclose(file), 0);
    assert_string_not_equal(program("HALO_TEST_HALOD"), "");
    assert_string_not_equal(program("HALO_TEST_ENGINE"), "");
    rig->pid = fork();
    assert_true(rig->pid >= 0);
    if (rig->pid == 0)
        child(rig, env);
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; rig_now_ms() < end;) {
        int fd = try_connect(rig);
        if (fd >= 0) {
            close(fd);
            return true;
        }
        if (waitpid(rig->pid, ret_status, WNOHANG) == rig->pid)
            return false;
        rig_sleep_ms(2);
    }
    fail_msg("halod does not listen");
    return false;
}

static void make_dir(struct rig *rig)
{
    snprintf(rig->dir, sizeof(rig->dir), "/tmp/halo-serve-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    snprintf(rig->socket_path, sizeof(rig->socket_path), "%s/s", rig->dir);
}

void rig_restart(struct rig *rig, const char *config, const char *const *env)
{
    int status;
    if (!launch(rig, config, env, &status))
        fail_msg("halod ended at once with wait status %d", status);
}

void rig_start(struct rig *rig, const char *config, const char *const *env)
{
    make_dir(rig);
    rig_restart(rig, config, env);
}

bool rig_try_start(struct rig *rig, const char *config, const char *const *env, int *ret_status)
{
    make_dir(rig);
    return launch(rig, config, env, ret_status);
}

/* In a program with ThreadSanitizer a signal that comes while libuv starts a child is now and then lost (3 of 8,000
 * stops then; without it none of 11,000). So the likely ones are sent again: SIGCHLD costs nothing, and who has not
 * ended long after it should has not heard SIGTERM. */
static void signals_repeat(const struct rig *rig, uint64_t waited_ms)
{
#ifdef __SANITIZE_THREAD__
    kill(rig->pid, waited_ms / 1000 == 20 ? SIGTERM : SIGCHLD);
#endif
}

int rig_wait(struct rig *rig)
{
    int status;
    uint64_t begin = rig_now_ms(), repeated = begin;
    for (uint64_t now = begin; now < begin + RIG_PATIENCE_MS; rig_sleep_ms(2), now = rig_now_ms()) {
        if (waitpid(rig->pid, &status, WNOHANG) == rig->pid)
            return status;
        if (now < repeated + 1000)
            continue;
        signals_repeat(rig, now - begin);
        repeated = now;
    }
    kill(rig->pid, SIGKILL);
    waitpid(rig->pid, &status, 0);
    fail_msg("halod did not end");
    return -1;
}

void rig_remove(struct rig *rig)
{
    static const char *const names[] = {"s", "s.lock", "conf", "log", "starts", "old"};
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", rig->dir, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(rig->dir), 0);
}

static void show_log(const struct rig *rig)
{
    char path[128], line[512];
    snprintf(path, sizeof(path), "%s/log", rig->dir);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        print_message("log: %s", line);
    if (file)
        fclose(file);
}

void rig_stop(struct rig *rig)
{
    kill(rig->pid, SIGTERM);
    int status = rig_wait(rig);
    if (status != 0)
        show_log(rig);
    assert_int_equal(status, 0);
    rig_remove(rig);
}

static int read_starts(const struct rig *rig, long *ret_last)
{
    char path[128];
    int n = 0;
    long pid;
    snprintf(path, sizeof(path), "%s/starts", rig->dir);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%ld", &pid) == 1) {
        *ret_last = pid;
        n++;
    }
    if (file)
        fclose(file);
    return n;
}

int rig_engine_starts(const struct rig *rig)
{
    long last;
    return read_starts(rig, &last);
}

pid_t rig_engine_pid(const struct rig *rig)
{
    long last = 0;
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; read_starts(rig, &last) == 0; rig_sleep_ms(2))
        assert_true(rig_now_ms() < end);
    return (pid_t)last;
}

int rig_log_count(const struct rig *rig, const char *text)
{
    char path[128], line[2048];
    int n = 0;
    snprintf(path, sizeof(path), "%s/log", rig->dir);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        n += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return n;
}

static int line_of(const struct rig *rig, const char *text)
{
    char path[128], line[2048];
    int n = 0, at = 0;
    snprintf(path, sizeof(path), "%s/log", rig->dir);
    FILE *file = fopen(path, "r");
    while (file && at == 0 && fgets(line, sizeof(line), file) && ++n > 0)
        at = strstr(line, text) ? n : 0;
    if (file)
        fclose(file);
    return at;
}

bool rig_log_before(const struct rig *rig, const char *first, const char *second)
{
    int a = line_of(rig, first), b = line_of(rig, second);
    return a > 0 && b > a;
}

bool rig_log_has(const struct rig *rig, const char *text)
{
    return rig_log_count(rig, text) > 0;
}

void rig_wait_log(const struct rig *rig, const char *text)
{
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; !rig_log_has(rig, text); rig_sleep_ms(5))
        if (rig_now_ms() > end)
            fail_msg("the log does not say '%s'", text);
}

void client_connect(struct client *client, const struct rig *rig)
{
    client->fd = try_connect(rig);
    if (client->fd < 0)
        fail_msg("cannot connect to %s: %s", rig->socket_path, strerror(errno));
    halo_line_init(&client->reader, 64u << 20);
}

void client_connect_as(struct client *client, const struct rig *rig, unsigned uid, const char *role)
{
    static unsigned n;
    struct sockaddr_un name = {.sun_family = AF_UNIX}, to = {.sun_family = AF_UNIX};
    int len =
        snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "halo-uid-%u-%s%ld-%u", uid, role, (long)getpid(), n++);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", rig->socket_path);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(client->fd, (struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) != 0 ||
        connect(client->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        fail_msg("cannot connect to %s: %s", rig->socket_path, strerror(errno));
    halo_line_init(&client->reader, 64u << 20);
}

void client_close(struct client *client)
{
    close(client->fd);
    halo_line_finish(&client->reader);
}

void client_send(struct client *client, const char *line)
{
    size_t len = strlen(line) + 1, at = 0;
    char *copy = malloc(len); /* one piece with its newline: where a line is cut is the test's business */
    assert_non_null(copy);
    memcpy(copy, line, len - 1);
    copy[len - 1] = '\n';
    while (at < len) {
        ssize_t n = send(client->fd, copy + at, len - at, MSG_NOSIGNAL);
        assert_true(n > 0);
        at += (size_t)n;
    }
    free(copy);
}

void client_sendf(struct client *client, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    assert_true(n > 0 && (size_t)n < sizeof(line));
    client_send(client, line);
}

bool client_line(struct client *client, const char **ret_line, size_t *ret_len)
{
    uint64_t end = rig_now_ms() + RIG_PATIENCE_MS;
    for (;;) {
        int r = halo_line_next(&client->reader, ret_line, ret_len);
        if (r == 0)
            return true;
        assert_int_equal(r, HALO_LINE_E_MORE);
        uint64_t now = rig_now_ms();
        struct pollfd p = {.fd = client->fd, .events = POLLIN};
        if (now >= end || poll(&p, 1, (int)(end - now)) == 0)
            fail_msg("no line within %d ms", RIG_PATIENCE_MS);
        char *at;
        size_t room;
        assert_int_equal(halo_line_reserve(&client->reader, 4096, &at, &room), 0);
        ssize_t n = recv(client->fd, at, room, 0);
        if (n <= 0)
            return false;
        halo_line_commit(&client->reader, (size_t)n);
    }
}

void client_event(struct client *client, struct halo_ev *ret_ev)
{
    struct halo_refusal refusal;
    const char *line;
    size_t len;
    if (!client_line(client, &line, &len))
        fail_msg("the connection ended");
    if (halo_ev_decode(ret_ev, line, len, HALO_EV_STRICT, &refusal) != 0)
        fail_msg("no event: %s: %.*s", refusal.message, (int)len, line);
}

void client_terminal(struct client *client, int64_t id, struct halo_ev *ret_ev)
{
    struct halo_id wanted = halo_id_of(id);
    for (;;) {
        client_event(client, ret_ev);
        if (halo_ev_is_terminal(ret_ev->type) && halo_id_equal(&ret_ev->id, &wanted))
            return;
        halo_ev_finish(ret_ev);
    }
}

enum halo_ev_type client_ask(struct client *client, const char *line, int64_t id, enum halo_error *ret_code)
{
    struct halo_ev ev;
    client_send(client, line);
    client_terminal(client, id, &ev);
    enum halo_ev_type type = ev.type;
    if (ret_code)
        *ret_code = type == HALO_EV_ERROR ? ev.error.code : HALO_ERROR_NONE;
    halo_ev_finish(&ev);
    return type;
}

long client_counter(struct client *client, const char *name)
{
    struct halo_ev ev;
    char key[64];
    client_send(client, "{\"type\":\"stats\",\"id\":\"stats\"}");
    for (;;) {
        client_event(client, &ev);
        if (ev.type == HALO_EV_STATS)
            break;
        halo_ev_finish(&ev);
    }
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(ev.stats.counters.at, key);
    assert_non_null(at);
    long value = atol(at + strlen(key));
    halo_ev_finish(&ev);
    return value;
}

void client_wait_counter(struct client *client, const char *name, long least)
{
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; client_counter(client, name) < least; rig_sleep_ms(5))
        if (rig_now_ms() > end)
            fail_msg("%s does not come to %ld", name, least);
}

bool client_is_quiet(struct client *client, int ms)
{
    struct pollfd p = {.fd = client->fd, .events = POLLIN};
    return halo_line_pending(&client->reader) == 0 && poll(&p, 1, ms) == 0;
}

static void stream_text(struct stream *stream, struct halo_str text)
{
    for (size_t i = 0; i < text.len; i++, stream->n_text++)
        if (text.at[i] != (char)('a' + stream->n_text / stream->size % 26))
            fail_msg("byte %zu of the text is '%c'", stream->n_text, text.at[i]);
    assert_true((long)((stream->n_text + stream->size - 1) / stream->size) <= stream->n_ids); /* committed first */
}

static void stream_row(struct stream *stream, const struct halo_ev_score_row *row)
{
    assert_int_equal(row->pos, stream->n_rows);
    stream->n_rows++;
    if (row->has_logprob)
        stream->nll -= row->logprob;
}

bool stream_take(struct stream *stream, struct halo_ev *ev)
{
    struct halo_id id = halo_id_of(stream->id);
    if (!halo_id_equal(&ev->id, &id))
        return false;
    if (stream->over)
        fail_msg("a %s event after the end of %lld", halo_ev_type_name(ev->type), (long long)stream->id);
    switch (ev->type) {
    case HALO_EV_STARTED: assert_int_equal(++stream->n_started, 1); break;
    case HALO_EV_COMMITTED:
        assert_int_equal(ev->committed.pos, stream->n_ids);
        assert_int_equal(ev->committed.tok_id, stream->n_ids);
        stream->n_ids++;
        break;
    case HALO_EV_TOKEN: stream_text(stream, ev->token.text); break;
    case HALO_EV_SCORE_ROW: stream_row(stream, &ev->score_row); break;
    case HALO_EV_PROGRESS: stream->n_progress++; break;
    case HALO_EV_NOTICE:
        if (halo_str_is(ev->notice.code, "loop_detected")) {
            stream->n_loops++;
            break;
        }
        assert_true(halo_str_is(ev->notice.code, "engine_restarted"));
        assert_true(ev->notice.has_resumed_at);
        assert_int_equal(ev->notice.resumed_at, stream->n_rows > 0 ? stream->n_rows : stream->n_ids);
        stream->n_notices++;
        break;
    default:
        stream->over = halo_ev_is_terminal(ev->type);
        stream->terminal = ev->type;
        stream->end = *ev;
        return true;
    }
    halo_ev_finish(ev);
    return true;
}

void streams_read(struct client *client, struct stream *streams, size_t n)
{
    for (;;) {
        struct halo_ev ev;
        size_t n_over = 0, i = 0;
        for (size_t j = 0; j < n; j++)
            n_over += streams[j].over;
        if (n_over == n)
            return;
        client_event(client, &ev);
        while (i < n && !stream_take(&streams[i], &ev))
            i++;
        if (i == n)
            halo_ev_finish(&ev);
    }
}

void rig_begin(struct rig *rig, struct client *client, struct client *other, const char *config, const char *const *env)
{
    rig_start(rig, config, env);
    client_connect(client, rig);
    client_connect(other, rig);
}

void rig_end(struct rig *rig, struct client *client, struct client *other)
{
    client_close(client);
    client_close(other);
    rig_stop(rig);
}
