/* test_random.c: random requests, valid on the wire and mostly wrong in what they refer to, against live sessions.
 *
 * Handles have small indices and addresses lie in or near live memory, so that many requests get through to the
 * runtime. Each life is a process, as in the program: work that is still queued when its memory is freed loses the
 * emulated device, as a client can do to its own session. AddressSanitizer watches the device's memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_remote/table.h>

#include "bench.h"
#include "fill.h"

#define LIVES 40
#define REQUESTS 400
#define LIVE_MAX 16
#define SIZE_MAX_HERE 20000

struct life {
    struct bench b;
    struct fill_choices c;
    uint64_t live[LIVE_MAX]; /* addresses that were allocated, some of them freed since */
    uint32_t n_live;
    uint64_t n_ok, n_refused;
};

static uint64_t near_handle(struct life *l, uint64_t bits)
{
    struct halo_remote_handle h = halo_remote_handle_unpack(bits);
    h.index = (uint32_t)(fill_next(&l->c) % 3);
    h.generation = 1 + (uint32_t)(fill_next(&l->c) % 4 ? l->b.next_id / 40 : fill_next(&l->c) % 12);
    return bits ? halo_remote_handle_pack(h) : 0;
}

static uint64_t near_address(struct life *l, uint64_t was)
{
    if (was == 0 || l->n_live == 0 || fill_next(&l->c) % 8 == 0)
        return was;
    uint64_t offset = fill_next(&l->c) % 4 ? 0 : fill_next(&l->c) % SIZE_MAX_HERE;
    return l->live[fill_next(&l->c) % l->n_live] + offset;
}

/* Brings the fields near what the session has. The request stays valid on the wire. */
static void bring_near(struct life *l, const struct halo_remote_op_info *op, union halo_remote_request *q)
{
    for (const struct halo_remote_field *f = op->request.fields(); f->kind != HALO_REMOTE_KIND_END; f++) {
        void *value = (char *)q + f->at;
        if (f->kind == HALO_REMOTE_KIND_HANDLE)
            *(uint64_t *)value = near_handle(l, *(uint64_t *)value);
        else if (f->kind == HALO_REMOTE_KIND_ADDR)
            *(uint64_t *)value = near_address(l, *(uint64_t *)value);
    }
    switch (op->number) {
    case HIP_OP_MALLOC: q->malloc.size = 1 + q->malloc.size % SIZE_MAX_HERE, q->malloc.flags = 0; break;
    case HIP_OP_MEMSET: q->memset.count = 1 + q->memset.count % 6000; break;
    case HIP_OP_MEMSET_ASYNC: q->memset_async.count = 1 + q->memset_async.count % 6000; break;
    case HIP_OP_MEMCPY: q->memcpy.size = q->memcpy.kind == 1 ? q->memcpy.size : 1 + q->memcpy.size % 6000; break;
    case HIP_OP_MEMCPY_ASYNC:
        if (q->memcpy_async.kind != 1)
            q->memcpy_async.size = 1 + q->memcpy_async.size % 6000;
        break;
    case HIP_OP_BLOB_OPEN: q->blob_open.size = 1 + q->blob_open.size % 1000; break;
    case HIP_OP_STREAM_CREATE: q->stream_create.priority = 0; break;
    case HIP_OP_EVENT_CREATE: q->event_create.flags &= 3; break;
    default: break;
    }
}

static void request(struct life *l)
{
    const struct halo_remote_op_info *op = &halo_remote_ops[fill_next(&l->c) % HALO_REMOTE_N_OPS];
    union halo_remote_request q;
    union halo_remote_reply a;
    bool rare = op->number == HIP_OP_DEVICE_RESET && fill_next(&l->c) % 16;
    if (op->number == HIP_OP_INIT || op->number == HIP_OP_SHUTDOWN || rare)
        return;
    fill_request(op, &l->c, false, &q);
    bring_near(l, op, &q);
    l->b.no_reply = fill_next(&l->c) & 1;
    bool to_host = (op->number == HIP_OP_MEMCPY_ASYNC && q.memcpy_async.kind == 2) ||
                   (op->number == HIP_OP_MEMCPY_2D_ASYNC && q.memcpy_2d_async.kind == 2);
    if (to_host)
        l->b.no_reply = false;
    int error = l->b.port.call(&l->b.port, (enum halo_remote_op)op->number, &q, &a);
    l->n_ok += error == 0;
    l->n_refused += error != 0;
    if (op->number == HIP_OP_MALLOC && error == 0)
        l->live[l->n_live < LIVE_MAX ? l->n_live++ : fill_next(&l->c) % LIVE_MAX] = a.malloc.address;
}

static _Noreturn void live(uint64_t seed, const struct halo_session_limits *limits, uint64_t *counts)
{
    struct life l = {.c.state = seed};
    bench_open(&l.b, limits);
    for (int i = 0; i < REQUESTS; i++)
        request(&l);
    bench_close(&l.b);
    counts[0] += l.n_ok;
    counts[1] += l.n_refused;
    _exit(0);
}

static void random_requests_do_no_harm(void **state)
{
    struct halo_session_limits limits = HALO_SESSION_LIMITS_DEFAULT;
    uint64_t *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(counts != MAP_FAILED);
    limits.staging_bytes = HALO_REMOTE_DATA_MAX;
    limits.memory_bytes = 200000;
    limits.n_waits = 8;
    limits.n_streams = limits.n_events = limits.n_graphs = 3;
    limits.n_modules = limits.n_functions = 3;
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        int status;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            live(seed, &limits, counts);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("seed %u ended with status %x", (unsigned)seed, (unsigned)status);
    }
    print_message("%u requests succeeded, %u were refused\n", (unsigned)counts[0], (unsigned)counts[1]);
    assert_true(counts[0] > LIVES * 40 && counts[1] > LIVES * 40);
    munmap(counts, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
