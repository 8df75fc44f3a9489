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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_remote/table.h>
#include <hip_tls/tls.h>

#include "bench.h"
#include "fill.h"
#include "store_priv.h"
#include "vector_host.h"

#define LIVES 40
#define REQUESTS 400
#define LIVE_MAX 16
#define SIZE_MAX_HERE 20000

struct life {
    struct bench b;
    struct fill_choices c;
    uint64_t live[LIVE_MAX]; /* addresses that were allocated, some of them freed since */
    uint32_t n_live;
    uint64_t n_ok, n_refused, n_launched;
    struct halo_blob_store store;
    uint8_t kept[HALO_BLOB_HASH_BYTES]; /* of the last upload */
    uint32_t n_kept;                    /* its bytes; 0: there was none */
    uint64_t n_found;
    void *object; /* with the kernel "nap" */
    size_t object_bytes;
};

static uint64_t near_handle(struct life *l, uint64_t bits)
{
    struct halo_remote_handle h = halo_remote_handle_unpack(bits);
    bool of_module = h.type == HALO_REMOTE_MODULE || h.type == HALO_REMOTE_FUNCTION; /* a launch takes three steps */
    uint64_t now = 1 + l->b.next_id / (of_module ? 100 : 40);
    h.index = of_module ? 0 : (uint32_t)(fill_next(&l->c) % 3);
    h.generation = (uint32_t)(fill_next(&l->c) % 4 ? now : 1 + fill_next(&l->c) % 12);
    return bits ? halo_remote_handle_pack(h) : 0;
}

static uint64_t near_address(struct life *l, uint64_t was)
{
    if (was == 0 || l->n_live == 0 || fill_next(&l->c) % 8 == 0)
        return was;
    uint64_t offset = fill_next(&l->c) % 4 ? 0 : fill_next(&l->c) % SIZE_MAX_HERE;
    return l->live[fill_next(&l->c) % l->n_live] + offset;
}

/* The kernel that does nothing: one with random pointers would be a fault of the GPU, not of the worker. */
static void bring_near_kernels(struct life *l, const struct halo_remote_op_info *op, union halo_remote_request *q)
{
    static const struct vector_scale nothing;
    bool wrong = fill_next(&l->c) % 8 == 0;
    struct halo_remote_launch_kernel *launch = &q->launch_kernel;
    switch (wrong ? 0 : op->number) {
    case HIP_OP_MODULE_LOAD_DATA:
        q->module_load_data.blob = 0;
        q->module_load_data.image = (struct halo_remote_bytes){l->object, (uint32_t)l->object_bytes};
        break;
    case HIP_OP_MODULE_GET_FUNCTION: q->module_get_function.name = (struct halo_remote_bytes){"nap", 3}; break;
    case HIP_OP_LAUNCH_KERNEL:
        launch->args = (struct halo_remote_bytes){&nothing, sizeof(nothing)};
        launch->grid_x = launch->grid_y = launch->grid_z = launch->block_y = launch->block_z = 1;
        launch->block_x = 64;
        launch->lds_bytes = 0;
        launch->stream = fill_next(&l->c) % 4 ? 0 : launch->stream;
        break;
    default: break;
    }
}

/* The right hash of an upload, and bytes that are kept. */
static void bring_near_blobs(struct life *l, const struct halo_remote_op_info *op, union halo_remote_request *q)
{
    struct halo_remote_memcpy_to_blob *up = &q->memcpy_to_blob;
    struct halo_remote_memcpy_from_blob *from = &q->memcpy_from_blob;
    bool wrong = fill_next(&l->c) % 4 == 0;
    if (op->number == HIP_OP_MEMCPY_TO_BLOB && !wrong) {
        assert_true(halo_remote_tls.sha256(up->data.at, up->data.n, up->sha256));
        memcpy(l->kept, up->sha256, sizeof(l->kept));
        l->n_kept = up->data.n;
        up->stream = 0;
    } else if (op->number == HIP_OP_MEMCPY_FROM_BLOB && !wrong && l->n_kept > 0) {
        memcpy(from->sha256, l->kept, sizeof(l->kept));
        from->size = l->n_kept;
        from->stream = 0;
    }
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
    static const uint8_t steps[] = {HALO_REMOTE_AT_MODULE_LOAD_DATA, HALO_REMOTE_AT_MODULE_GET_FUNCTION,
                                    HALO_REMOTE_AT_LAUNCH_KERNEL, HALO_REMOTE_AT_LAUNCH_KERNEL}; /* to a launch */
    bool steps_on = fill_next(&l->c) % 3 == 0;
    const struct halo_remote_op_info *op =
        &halo_remote_ops[steps_on ? steps[fill_next(&l->c) % sizeof(steps)] : fill_next(&l->c) % HALO_REMOTE_N_OPS];
    union halo_remote_request q;
    union halo_remote_reply a;
    bool rare = op->number == HIP_OP_DEVICE_RESET && fill_next(&l->c) % 16;
    if (op->number == HIP_OP_INIT || op->number == HIP_OP_SHUTDOWN || rare)
        return;
    fill_request(op, &l->c, false, &q);
    bring_near(l, op, &q);
    bring_near_kernels(l, op, &q);
    bring_near_blobs(l, op, &q);
    l->b.no_reply = fill_next(&l->c) & 1;
    bool to_host = (op->number == HIP_OP_MEMCPY_ASYNC && q.memcpy_async.kind == 2) ||
                   (op->number == HIP_OP_MEMCPY_2D_ASYNC && q.memcpy_2d_async.kind == 2);
    if (to_host)
        l->b.no_reply = false;
    int error = l->b.port.call(&l->b.port, (enum halo_remote_op)op->number, &q, &a);
    l->n_ok += error == 0;
    l->n_launched += error == 0 && op->number == HIP_OP_LAUNCH_KERNEL && !l->b.no_reply;
    l->n_refused += error != 0;
    l->n_found += error == 0 && op->number == HIP_OP_MEMCPY_FROM_BLOB && a.memcpy_from_blob.was_kept;
    if (op->number == HIP_OP_MALLOC && error == 0)
        l->live[l->n_live < LIVE_MAX ? l->n_live++ : fill_next(&l->c) % LIVE_MAX] = a.malloc.address;
}

static _Noreturn void live(uint64_t seed, const struct halo_session_limits *limits, const char *blobs, uint64_t *counts)
{
    struct life l = {.c.state = seed};
    l.object = bench_read_object(&l.object_bytes);
    assert_int_equal(halo_blob_store_open(&l.store, blobs, 100000, NULL), 0);
    (void)bench_open_with_blobs(&l.b, limits, seed % 4 ? &l.store : NULL, HALO_REMOTE_FEATURE_BLOBS);
    for (int i = 0; i < REQUESTS; i++)
        request(&l);
    bench_close(&l.b);
    free(l.object);
    counts[0] += l.n_ok;
    counts[1] += l.n_refused;
    counts[2] += l.n_launched;
    counts[3] += l.n_found;
    _exit(0);
}

static void random_requests_do_no_harm(void **state)
{
    struct halo_session_limits limits = HALO_SESSION_LIMITS_DEFAULT;
    uint64_t *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char blobs[] = "/tmp/hip-worker-blobs-XXXXXX", command[64];
    (void)state;
    assert_true(counts != MAP_FAILED && mkdtemp(blobs));
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
            live(seed, &limits, blobs, counts);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("seed %u ended with status %x", (unsigned)seed, (unsigned)status);
    }
    print_message("%u requests succeeded, %u were refused; %u launches, %u copies by hash\n", (unsigned)counts[0],
                  (unsigned)counts[1], (unsigned)counts[2], (unsigned)counts[3]);
    assert_true(counts[0] > LIVES * 40 && counts[1] > LIVES * 40 && counts[2] > LIVES && counts[3] > 0);
    snprintf(command, sizeof(command), "rm -rf %s", blobs);
    assert_int_equal(system(command), 0);
    munmap(counts, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
