/* test_keys.c: hip-worker with a key: who gets a session over TCP, and what each side says to the others. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_tls/tls.h>

#include "remote.h"

#define PATIENCE_MS 60000

static char key_path[64];
static struct halo_remote_key right, wrong;

static void write_key(char digit)
{
    FILE *file = fopen(key_path, "w");
    assert_non_null(file);
    for (int i = 0; i < 2 * HALO_REMOTE_KEY_BYTES; i++)
        fputc(digit, file);
    fclose(file);
}

static int make_key(void **state)
{
    (void)state;
    strcpy(key_path, "/tmp/hip-worker-key-XXXXXX");
    int fd = mkstemp(key_path);
    if (fd < 0)
        return -1;
    close(fd);
    write_key('7');
    memset(&right, 0x77, sizeof(right));
    memset(&wrong, 0x77, sizeof(wrong));
    wrong.bytes[31] = 0x76;
    return 0;
}

static int remove_key(void **state)
{
    (void)state;
    return unlink(key_path);
}

static void start(struct worker *w)
{
    worker_start(w, NULL, (const char *[]){"--listen", "127.0.0.1:0", "--key-file", key_path, NULL});
    w->port = (uint16_t)atoi(worker_await(w, "listening on 127.0.0.1:"));
}

/* A connection and its handshake. 0 or the error. */
static int reach(const struct worker *w, struct halo_remote_channel *ch, const struct halo_remote_key *key)
{
    *ch = (struct halo_remote_channel){.fd = connect_tcp(w)};
    assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
    return halo_remote_channel_secure(ch, &halo_remote_tls, false, key, PATIENCE_MS);
}

static void leave(struct halo_remote_channel *ch)
{
    halo_remote_channel_finish(ch);
    close(ch->fd);
}

/* Sends a request and decodes its answer; data points into a static block. */
static int ask_secretly(struct halo_remote_channel *ch, enum halo_remote_op op, const void *request,
                        union halo_remote_reply *ret)
{
    static struct halo_remote_reader r;
    static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];
    struct halo_remote_header h = {.op = (uint16_t)op, .id = 1, .device = HALO_REMOTE_DEVICE_CURRENT};
    const uint8_t *payload;
    size_t room, sent = 0;
    int n = halo_remote_request_encode(frame, sizeof(frame), &h, request, true), error;
    assert_true(n > 0);
    halo_remote_reader_finish(&r);
    assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_PAYLOAD_MAX), 0);
    while ((error = halo_remote_reader_next(&r, &h, &payload)) == HALO_REMOTE_E_MORE) {
        struct pollfd state = {.fd = ch->fd, .events = (short)(sent < (size_t)n ? POLLIN | POLLOUT : POLLIN)};
        assert_true(halo_remote_channel_has_unread(ch) || poll(&state, 1, PATIENCE_MS) > 0);
        ssize_t took = sent < (size_t)n ? halo_remote_channel_send(ch, frame + sent, (size_t)n - sent) : 0;
        sent += took > 0 ? (size_t)took : 0;
        uint8_t *at = halo_remote_reader_reserve(&r, &room);
        ssize_t got = halo_remote_channel_recv(ch, at, room);
        if (got == 0 || (got < 0 && got != -EAGAIN))
            return -EPIPE;
        halo_remote_reader_commit(&r, got > 0 ? (size_t)got : 0);
    }
    assert_int_equal(error, 0);
    assert_int_equal(halo_remote_reply_decode(&h, payload, ret, NULL), 0);
    return ret->status.error;
}

/* Copies two megabytes, several frames each way, to the device and back. */
static void use(struct halo_remote_channel *ch)
{
    static uint8_t bytes[HALO_REMOTE_DATA_MAX];
    union halo_remote_reply a;
    assert_int_equal(ask_secretly(ch, HIP_OP_INIT, &(struct halo_remote_init){.hip_major = 7}, &a), 0);
    assert_int_equal(ask_secretly(ch, HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = 2 * sizeof(bytes)}, &a), 0);
    uint64_t p = a.malloc.address;
    for (unsigned part = 0; part < 2; part++) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)((i + part) * 2654435761u >> 24);
        uint64_t at = p + part * sizeof(bytes);
        const struct halo_remote_memcpy up = {
            .to = at, .size = sizeof(bytes), .kind = 1, .data = {bytes, sizeof(bytes)}};
        const struct halo_remote_memcpy down = {.from = at, .size = sizeof(bytes), .kind = 2};
        assert_int_equal(ask_secretly(ch, HIP_OP_MEMCPY, &up, &a), 0);
        assert_int_equal(ask_secretly(ch, HIP_OP_MEMCPY, &down, &a), 0);
        assert_int_equal(a.memcpy.data.n, sizeof(bytes));
        assert_memory_equal(a.memcpy.data.at, bytes, sizeof(bytes));
    }
}

static void the_key_gives_a_session(void **state)
{
    struct worker w;
    struct halo_remote_channel ch;
    (void)state;
    start(&w);
    assert_int_equal(reach(&w, &ch, &right), 0);
    use(&ch);
    int near = connect_unix(&w); /* of this user, who needs none */
    assert_int_equal(ask_init(near), 0);
    close(near);
    leave(&ch);
    worker_stop(&w, SIGTERM);
}

static void another_key_gives_an_error_on_both_sides(void **state)
{
    struct worker w;
    struct halo_remote_channel ch;
    (void)state;
    start(&w);
    assert_int_equal(reach(&w, &ch, &wrong), -EACCES);
    leave(&ch);
    worker_await(&w, "session ended: the client has another key");
    worker_stop(&w, SIGTERM);
}

/* Its first frame is a perfect one. */
static void a_client_without_a_key_gets_nothing(void **state)
{
    struct worker w;
    uint8_t alert[8];
    struct halo_remote_header h = {.op = HIP_OP_INIT, .id = 1};
    uint8_t frame[64];
    (void)state;
    start(&w);
    int fd = connect_tcp(&w);
    int n = halo_remote_request_encode(frame, sizeof(frame), &h, &(struct halo_remote_init){.hip_major = 7}, true);
    assert_int_equal(send(fd, frame, (size_t)n, MSG_NOSIGNAL), n);
    assert_int_equal(recv(fd, alert, sizeof(alert), MSG_WAITALL), 7); /* an alert of TLS, and the end */
    assert_int_equal(alert[0], 21);
    worker_await(&w, "session ended: the client does not encrypt");
    close(fd);
    worker_stop(&w, SIGTERM);
}

static void a_worker_without_a_key_says_so(void **state)
{
    struct worker w;
    struct halo_remote_channel ch;
    (void)state;
    worker_start(&w, NULL, (const char *[]){"--listen", "127.0.0.1:0", NULL});
    w.port = (uint16_t)atoi(worker_await(&w, "listening on 127.0.0.1:"));
    assert_int_equal(reach(&w, &ch, &right), -ECONNRESET);
    leave(&ch);
    worker_await(&w, "the client encrypts, but this worker has no --key-file");
    worker_stop(&w, SIGTERM);
}

static void refused(const char *listen, const char *reason)
{
    char command[512], said[512] = "";
    snprintf(command, sizeof(command), "%s --listen '%s' --key-file '%s' 2>&1", getenv("HALO_TEST_WORKER"), listen,
             key_path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    said[fread(said, 1, sizeof(said) - 1, out)] = '\0';
    assert_int_not_equal(pclose(out), 0);
    if (!strstr(said, reason))
        fail_msg("%s: %s", listen, said);
}

static void a_key_that_is_none_is_found_at_the_start(void **state)
{
    (void)state;
    assert_int_equal(chmod(key_path, 0640), 0);
    refused("127.0.0.1:0", "its mode 0640 gives rights to others");
    assert_int_equal(chmod(key_path, 0600), 0);
    write_key('x');
    refused("127.0.0.1:0", "it does not hold 64 hexadecimal digits alone");
    write_key('7');
    assert_int_equal(unlink(key_path), 0);
    refused("127.0.0.1:0", "No such file");
    make_key(NULL);
}

static void a_key_opens_the_network(void **state)
{
    struct worker w;
    struct halo_remote_channel ch;
    (void)state;
    worker_start(&w, NULL, (const char *[]){"--listen", "0.0.0.0:0", "--key-file", key_path, NULL});
    w.port = (uint16_t)atoi(worker_await(&w, "listening on 0.0.0.0:"));
    assert_int_equal(reach(&w, &ch, &right), 0);
    use(&ch);
    leave(&ch);
    worker_stop(&w, SIGTERM);
}

static bool has_said(struct worker *w, const char *text)
{
    struct pollfd state = {.fd = w->log_fd, .events = POLLIN};
    ssize_t n = 1;
    while (n > 0 && poll(&state, 1, 10) > 0) {
        n = read(w->log_fd, w->log + w->n_log, sizeof(w->log) - 1 - w->n_log);
        w->n_log += n > 0 ? (size_t)n : 0;
    }
    return strstr(w->log, text);
}

/* The children of strangers have 3 s; until then they hold all places that there are for them. */
static void strangers_do_not_take_all_sessions(void **state)
{
    struct worker w;
    struct halo_remote_channel ch;
    int silent[8];
    (void)state;
    start(&w);
    assert_int_equal(reach(&w, &ch, &right), 0); /* before them */
    use(&ch);
    for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
        silent[i] = connect_tcp(&w);
    int ninth = connect_tcp(&w);
    assert_true(ends(ninth));
    worker_await(&w, "too many other clients have not proved the key yet");
    int near = connect_unix(&w);
    assert_int_equal(ask_init(near), 0);
    assert_true(ends(silent[0]));
    worker_await(&w, "no complete handshake in time");
    while (!has_said(
        &w, "the last client from there failed to prove the key")) { /* until the supervisor has seen their end */
        int again = connect_tcp(&w);
        assert_true(ends(again));
        close(again);
    }
    for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++)
        close(silent[i]);
    close(ninth);
    close(near);
    leave(&ch);
    worker_stop(&w, SIGTERM);
}

/* A new session reads the file again. */
static void a_new_key_holds_for_new_sessions(void **state)
{
    struct worker w;
    struct halo_remote_channel before, after;
    struct halo_remote_key next;
    (void)state;
    start(&w);
    assert_int_equal(reach(&w, &before, &right), 0);
    write_key('8');
    memset(&next, 0x88, sizeof(next));
    assert_int_equal(reach(&w, &after, &next), 0);
    use(&before);
    use(&after);
    leave(&before);
    leave(&after);
    write_key('7');
    worker_stop(&w, SIGTERM);
}

/* ---- what clients uploaded ---- */

static const char upload[] = "weights of one key";

/* A session that asks for these bytes by their hash, and uploads them. Whether the worker had them. */
static bool had_upload(const struct worker *w, const struct halo_remote_key *key)
{
    struct halo_remote_channel ch;
    union halo_remote_reply a;
    struct halo_remote_memcpy_from_blob by_hash = {.size = sizeof(upload)};
    struct halo_remote_memcpy_to_blob with_hash = {.data = {upload, sizeof(upload)}};
    const struct halo_remote_init init = {.hip_major = 7, .features = HALO_REMOTE_FEATURE_BLOBS};
    assert_int_equal(reach(w, &ch, key), 0);
    assert_int_equal(ask_secretly(&ch, HIP_OP_INIT, &init, &a), 0);
    assert_int_equal(a.init.features, HALO_REMOTE_FEATURE_BLOBS);
    assert_int_equal(ask_secretly(&ch, HIP_OP_MALLOC, &(struct halo_remote_malloc){.size = sizeof(upload)}, &a), 0);
    by_hash.to = with_hash.to = a.malloc.address;
    assert_true(halo_remote_tls.sha256(upload, sizeof(upload), by_hash.sha256));
    memcpy(with_hash.sha256, by_hash.sha256, sizeof(with_hash.sha256));
    assert_int_equal(ask_secretly(&ch, HIP_OP_MEMCPY_FROM_BLOB, &by_hash, &a), 0);
    bool had = a.memcpy_from_blob.was_kept;
    assert_int_equal(ask_secretly(&ch, HIP_OP_MEMCPY_TO_BLOB, &with_hash, &a), 0);
    leave(&ch);
    return had;
}

/* The sandbox is on: a session reaches no folder but that of its key. */
static void what_one_key_uploads_is_no_other_keys(void **state)
{
    struct worker w;
    struct halo_remote_key next;
    char dir[] = "/tmp/hip-worker-blobs-XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    worker_start(&w, NULL, (const char *[]){"--listen", "127.0.0.1:0", "--key-file", key_path, "--blobs", dir, NULL});
    w.port = (uint16_t)atoi(worker_await(&w, "listening on 127.0.0.1:"));
    assert_false(had_upload(&w, &right));
    assert_true(had_upload(&w, &right));
    write_key('8');
    memset(&next, 0x88, sizeof(next));
    assert_false(had_upload(&w, &next));
    assert_true(had_upload(&w, &next));
    write_key('7');
    worker_stop(&w, SIGTERM);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_gives_a_session),
        cmocka_unit_test(another_key_gives_an_error_on_both_sides),
        cmocka_unit_test(a_client_without_a_key_gets_nothing),
        cmocka_unit_test(a_worker_without_a_key_says_so),
        cmocka_unit_test(a_key_that_is_none_is_found_at_the_start),
        cmocka_unit_test(a_key_opens_the_network),
        cmocka_unit_test(strangers_do_not_take_all_sessions),
        cmocka_unit_test(a_new_key_holds_for_new_sessions),
        cmocka_unit_test(what_one_key_uploads_is_no_other_keys),
    };
    return cmocka_run_group_tests(tests, make_key, remove_key);
}
