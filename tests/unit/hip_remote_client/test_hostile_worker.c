/* test_hostile_worker.c: a worker that lies. Whatever it answers, the client returns an error, in time, and writes no
 * byte but those that were asked for. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include <hip_remote/codec.h>

#include "rig.h"

#define DEVICE_AT 0x7e9000000000u
#define ASKED_BYTES 64
#define DATA_BYTE 0x5a

/* How an answer is wrong, and to which operation. */
enum lie { TRUTH, OTHER_ID, OTHER_OP, OTHER_MAGIC, NOT_A_RESPONSE, CUT, LONGER, HUGE_LENGTH, TWICE, UNKNOWN_FLAG };
struct story {
    const char *name;
    enum halo_remote_op op;
    enum lie lie;
    int wanted; /* of the call that gets the answer */
};
static const struct story *story; /* of the worker and the program in hand */

/* ---- the worker ---- */

static void fill_reply(const struct halo_remote_header *h, const union halo_remote_request *q,
                       union halo_remote_reply *a)
{
    static uint8_t data[2 * ASKED_BYTES];
    memset(data, DATA_BYTE, sizeof(data));
    *a = (union halo_remote_reply){0};
    switch (h->op) {
    case HIP_OP_INIT:
        a->init = (struct halo_remote_init_reply){.n_devices = 1,
                                                  .memory_bytes = 1 << 20,
                                                  .staging_bytes = 1 << 20,
                                                  .n_streams = 4,
                                                  .n_events = 4,
                                                  .n_modules = 4,
                                                  .n_functions = 4,
                                                  .n_graphs = 4};
        break;
    case HIP_OP_GET_DEVICE_PROPERTIES: a->get_device_properties.arch = (struct halo_remote_bytes){"gfx1151", 7}; break;
    case HIP_OP_MALLOC: a->malloc.address = DEVICE_AT; break;
    case HIP_OP_MEMCPY_ASYNC:
        a->memcpy_async.data = (struct halo_remote_bytes){data, (uint32_t)q->memcpy_async.size};
        if (story->op == h->op && story->lie == LONGER)
            a->memcpy_async.data.n++;
        if (story->op == h->op && story->lie == CUT)
            a->memcpy_async.data.n--;
        break;
    default: break;
    }
}

/* Changes the frame; its new length. */
static size_t lie_about(uint8_t *frame, size_t n)
{
    switch (story->lie) {
    case OTHER_ID: frame[9] ^= 1; return n;
    case OTHER_OP: frame[6] ^= HIP_OP_MALLOC ^ HIP_OP_MALLOC_ASYNC; return n; /* their replies look alike */
    case OTHER_MAGIC: frame[0] ^= 1; return n;
    case NOT_A_RESPONSE: frame[16] &= (uint8_t)~HALO_REMOTE_FLAG_RESPONSE; return n;
    case UNKNOWN_FLAG: frame[16] |= 0x80; return n;
    case HUGE_LENGTH: frame[15] = 0x7f; return n;
    case CUT: /* of data: when the reply is filled in */
        if (story->op != HIP_OP_MEMCPY_ASYNC) {
            frame[12]--;
            n--;
        }
        return n;
    case LONGER:
        if (story->op != HIP_OP_MEMCPY_ASYNC) {
            frame[12]++;
            frame[n++] = 0;
        }
        return n;
    case TWICE: memcpy(frame + n, frame, n); return 2 * n;
    case TRUTH: return n;
    }
    return n;
}

static void answer(int fd, struct halo_remote_header *h, const uint8_t *payload)
{
    static uint8_t frame[64 << 10];
    union halo_remote_request q;
    union halo_remote_reply a;
    uint16_t op = h->op;
    if (h->flags & HALO_REMOTE_FLAG_NO_REPLY || halo_remote_request_decode(h, payload, &q, NULL) < 0)
        return;
    fill_reply(h, &q, &a);
    int n = halo_remote_reply_encode(frame, sizeof(frame) / 2, h, &a, true);
    CHECK(n > 0);
    size_t bytes = op == story->op ? lie_about(frame, (size_t)n) : (size_t)n;
    (void)!send(fd, frame, bytes, MSG_NOSIGNAL);
}

/* Serves one connection until its end. */
static void serve(int listener)
{
    struct halo_remote_reader reader;
    struct halo_remote_header h;
    const uint8_t *payload;
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && halo_remote_reader_init(&reader, HALO_REMOTE_PAYLOAD_MAX) == 0);
    for (;;) {
        size_t room;
        uint8_t *at = halo_remote_reader_reserve(&reader, &room);
        ssize_t n = recv(fd, at, room, 0);
        if (n <= 0)
            _exit(0);
        halo_remote_reader_commit(&reader, (size_t)n);
        while (halo_remote_reader_next(&reader, &h, &payload) == 0)
            answer(fd, &h, payload);
    }
}

/* ---- the program ---- */

static void believe_nothing(void)
{
    uint8_t bytes[ASKED_BYTES + 64];
    void *p = NULL, *more = NULL;
    int n, is_init = story->op == HIP_OP_INIT || story->op == HIP_OP_GET_DEVICE_PROPERTIES;
    memset(bytes, 0, sizeof(bytes));
    CHECK_HIP(hipGetDeviceCount(&n), is_init ? story->wanted : 0);
    if (is_init) {
        CHECK(n == 0);
        return;
    }
    CHECK_HIP(hipMalloc(&p, ASKED_BYTES), story->op == HIP_OP_MALLOC ? story->wanted : 0);
    if (story->op == HIP_OP_MEMCPY_ASYNC)
        CHECK_HIP(hipMemcpy(bytes, p, ASKED_BYTES, HIP_COPY_TO_HOST), story->wanted);
    for (size_t i = ASKED_BYTES; i < sizeof(bytes); i++)
        CHECK(bytes[i] == 0);
    if (story->lie == TRUTH) {
        CHECK(bytes[0] == DATA_BYTE && bytes[ASKED_BYTES - 1] == DATA_BYTE);
        /* The same address once more: two allocations cannot have it. */
        CHECK_HIP(hipMalloc(&more, ASKED_BYTES), HIP_OUT_OF_MEMORY);
        return;
    }
    /* It is lost for good. */
    CHECK_HIP(hipStreamSynchronize(NULL), HIP_CONTEXT_IS_DESTROYED);
    CHECK_HIP(hipMalloc(&more, ASKED_BYTES), HIP_CONTEXT_IS_DESTROYED);
}

static void tell(const struct story *s)
{
    struct worker w = {.folder = "/tmp/hip-hostile-XXXXXX"};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    story = s;
    assert_non_null(mkdtemp(w.folder));
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", w.folder);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    w.pid = fork();
    assert_true(w.pid >= 0);
    if (w.pid == 0)
        serve(listener);
    close(listener);
    int status = program_status(&w, believe_nothing);
    kill(w.pid, SIGKILL);
    waitpid(w.pid, NULL, 0);
    unlink(address.sun_path);
    rmdir(w.folder);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        print_message("the story of %s:\n", s->name);
    check_program(status);
}

static void no_answer_is_taken_on_trust(void **state)
{
    static const struct story stories[] = {
        {"the truth", HIP_OP_MEMCPY_ASYNC, TRUTH, 0},
        {"another id", HIP_OP_MALLOC, OTHER_ID, HIP_CONTEXT_IS_DESTROYED},
        {"another operation", HIP_OP_MALLOC, OTHER_OP, HIP_CONTEXT_IS_DESTROYED},
        {"another magic", HIP_OP_MALLOC, OTHER_MAGIC, HIP_CONTEXT_IS_DESTROYED},
        {"a request", HIP_OP_MALLOC, NOT_A_RESPONSE, HIP_CONTEXT_IS_DESTROYED},
        {"an unknown flag", HIP_OP_MALLOC, UNKNOWN_FLAG, HIP_CONTEXT_IS_DESTROYED},
        {"a huge length", HIP_OP_MALLOC, HUGE_LENGTH, HIP_CONTEXT_IS_DESTROYED},
        {"a cut reply", HIP_OP_MALLOC, CUT, HIP_CONTEXT_IS_DESTROYED},
        {"a longer reply", HIP_OP_MALLOC, LONGER, HIP_CONTEXT_IS_DESTROYED},
        {"more data than asked for", HIP_OP_MEMCPY_ASYNC, LONGER, HIP_CONTEXT_IS_DESTROYED},
        {"less data than asked for", HIP_OP_MEMCPY_ASYNC, CUT, HIP_CONTEXT_IS_DESTROYED},
        {"an answer given twice", HIP_OP_MEMCPY_ASYNC, TWICE, HIP_CONTEXT_IS_DESTROYED},
        {"a cut beginning", HIP_OP_INIT, CUT, HIP_NO_DEVICE},
        {"cut properties", HIP_OP_GET_DEVICE_PROPERTIES, CUT, HIP_NO_DEVICE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++)
        tell(&stories[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_is_taken_on_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
