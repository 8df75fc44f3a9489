/* test_hostile.c: a client that forges handles, ranges, lengths and code objects, or asks for too much.
 *
 * Each attack is answered with an error or ends the session; AddressSanitizer sees what gets through, because device
 * memory of the emulated GPU is the worker's own.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench.h"
#include "code_build.h"
#include "handles_priv.h"
#include "vector_host.h"

#define MODULE(i) bench_handle(HALO_REMOTE_MODULE, i, 1)
#define FUNCTION(i) bench_handle(HALO_REMOTE_FUNCTION, i, 1)
#define STREAM(i) bench_handle(HALO_REMOTE_STREAM, i, 1)

static uint64_t take(struct bench *b, uint64_t size)
{
    struct halo_remote_malloc_reply a;
    assert_int_equal(halo_remote_malloc(&b->port, &(struct halo_remote_malloc){.size = size}, &a), 0);
    return a.address;
}

static int read_bytes(struct bench *b, uint64_t from, uint64_t n)
{
    const struct halo_remote_memcpy q = {.from = from, .size = n, .kind = 2};
    struct halo_remote_memcpy_reply a;
    return halo_remote_memcpy(&b->port, &q, &a);
}

static int write_bytes(struct bench *b, uint64_t to, uint32_t n)
{
    static const uint8_t zeros[4096];
    const struct halo_remote_memcpy q = {.to = to, .size = n, .kind = 1, .data = {zeros, n}};
    return halo_remote_memcpy(&b->port, &q, NULL);
}

static int move_bytes(struct bench *b, uint64_t to, uint64_t from, uint64_t n)
{
    const struct halo_remote_memcpy q = {.to = to, .from = from, .size = n, .kind = 3};
    return halo_remote_memcpy(&b->port, &q, NULL);
}

/* The worker's own memory: what a copy from host to host would reach. */
static void memory_of_the_worker_cannot_be_named(void **state)
{
    struct bench b;
    static uint8_t secret[64] = "secret of the worker";
    uint64_t mine, theirs = (uint64_t)(uintptr_t)secret;
    (void)state;
    bench_open(&b, NULL);
    mine = take(&b, 64);
    assert_int_equal(read_bytes(&b, theirs, 64), 1);
    assert_int_equal(write_bytes(&b, theirs, 64), 1);
    assert_int_equal(move_bytes(&b, mine, theirs, 64), 1);
    assert_int_equal(move_bytes(&b, theirs, mine, 64), 1);
    const struct halo_remote_memset fill = {.to = theirs, .width = 1, .count = 64};
    assert_int_equal(halo_remote_memset(&b.port, &fill, NULL), 1);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){theirs}, NULL), 1);
    assert_string_equal((char *)secret, "secret of the worker");
    bench_close(&b);
}

static void a_range_must_lie_in_one_live_allocation(void **state)
{
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    uint64_t p = take(&b, 100), q = take(&b, 100);
    assert_int_equal(write_bytes(&b, p + 99, 1), 0);
    assert_int_equal(write_bytes(&b, p + 99, 2), 1);
    assert_int_equal(write_bytes(&b, p + 100, 1), 1);
    assert_int_equal(write_bytes(&b, p - 1, 1), 1);
    assert_int_equal(read_bytes(&b, p, 101), 1);
    assert_int_equal(move_bytes(&b, p, q, 101), 1);
    assert_int_equal(move_bytes(&b, p, q, HALO_REMOTE_SIZE_MAX), 1);
    assert_int_equal(move_bytes(&b, HALO_REMOTE_SIZE_MAX, q, HALO_REMOTE_SIZE_MAX), 1);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p + 8}, NULL), 1);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p}, NULL), 0);
    assert_int_equal(write_bytes(&b, p, 1), 1); /* after its end */
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p}, NULL), 1);
    const struct halo_remote_memset_2d_async fill = {.to = q, .pitch = 50, .width = 50, .height = 3};
    assert_int_equal(halo_remote_memset_2d_async(&b.port, &fill, NULL), 1);
    const struct halo_remote_memcpy_2d_async rows = {.to = q,
                                                     .to_pitch = 60,
                                                     .from_pitch = 50,
                                                     .width = 50,
                                                     .height = 2,
                                                     .kind = 1,
                                                     .data = {(uint8_t[100]){0}, 100}};
    assert_int_equal(halo_remote_memcpy_2d_async(&b.port, &rows, NULL), 1); /* ends at byte 110 */
    const struct halo_remote_memcpy_2d_async back = {
        .to_pitch = 50, .from = q, .from_pitch = 60, .width = 50, .height = 2, .kind = 2};
    assert_int_equal(
        halo_remote_memcpy_2d_async(&b.port, &back, &(struct halo_remote_memcpy_2d_async_reply){.status = {0}}), 1);
    bench_close(&b);
}

/* Memory of a module is copied from and to, but goes with its module alone. */
static void a_variable_is_no_allocation(void **state)
{
    struct bench b;
    size_t n;
    uint8_t *object = bench_read_object(&n);
    struct halo_remote_module_get_global_reply a;
    (void)state;
    bench_open(&b, NULL);
    const struct halo_remote_module_load_data load = {.module = MODULE(0), .image = {object, (uint32_t)n}};
    assert_int_equal(halo_remote_module_load_data(&b.port, &load, NULL), 0);
    free(object);
    const struct halo_remote_module_get_global get = {MODULE(0), {"vector_shift", 12}};
    assert_int_equal(halo_remote_module_get_global(&b.port, &get, &a), 0);
    assert_int_equal(write_bytes(&b, a.address, 16), 0);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){a.address}, NULL), 1);
    assert_int_equal(write_bytes(&b, a.address, 16), 0);
    assert_int_equal(halo_remote_module_unload(&b.port, &(struct halo_remote_module_unload){MODULE(0)}, NULL), 0);
    assert_int_equal(write_bytes(&b, a.address, 16), 1);
    bench_close(&b);
}

/* The wire lets none through; the tables look again. */
static void a_handle_of_another_type_is_none(void **state)
{
    struct halo_handles streams;
    int object;
    (void)state;
    assert_int_equal(halo_handles_init(&streams, HALO_REMOTE_STREAM, 4), 0);
    halo_handles_put(&streams, STREAM(2), &object);
    assert_ptr_equal(halo_handles_get(&streams, STREAM(2)), &object);
    assert_null(halo_handles_get(&streams, bench_handle(HALO_REMOTE_EVENT, 2, 1)));
    assert_null(halo_handles_take(&streams, bench_handle(HALO_REMOTE_EVENT, 2, 1)));
    halo_handles_finish(&streams);
}

static void forged_handles_are_refused(void **state)
{
    static const uint64_t forged[] = {
        (uint64_t)HALO_REMOTE_STREAM << 56 | (uint64_t)1 << 32 | 1,                /* never made */
        (uint64_t)HALO_REMOTE_STREAM << 56 | (uint64_t)2 << 32,                    /* another generation */
        (uint64_t)HALO_REMOTE_STREAM << 56 | (uint64_t)1 << 32 | 255,              /* the last of the table */
        (uint64_t)HALO_REMOTE_STREAM << 56 | (uint64_t)1 << 32 | 256,              /* behind the table */
        (uint64_t)HALO_REMOTE_STREAM << 56 | (uint64_t)1 << 32 | ((1u << 20) - 1), /* far behind it */
    };
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    const struct halo_remote_stream_create make = {.stream = STREAM(0)};
    assert_int_equal(halo_remote_stream_create(&b.port, &make, NULL), 0);
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        assert_int_equal(
            halo_remote_stream_synchronize(&b.port, &(struct halo_remote_stream_synchronize){forged[i]}, NULL), 400);
        assert_int_equal(halo_remote_stream_destroy(&b.port, &(struct halo_remote_stream_destroy){forged[i]}, NULL),
                         400);
    }
    assert_int_equal(halo_remote_stream_create(&b.port, &make, NULL), 400); /* is live */
    assert_int_equal(halo_remote_stream_destroy(&b.port, &(struct halo_remote_stream_destroy){STREAM(0)}, NULL), 0);
    assert_int_equal(halo_remote_stream_create(&b.port, &make, NULL), 400); /* its generation is used up */
    assert_int_equal(halo_remote_stream_destroy(&b.port, &(struct halo_remote_stream_destroy){STREAM(0)}, NULL), 400);
    const struct halo_remote_stream_create next = {.stream = bench_handle(HALO_REMOTE_STREAM, 0, 2)};
    assert_int_equal(halo_remote_stream_create(&b.port, &next, NULL), 0);
    bench_close(&b);
}

/* ---- messages that end the session ---- */

static int raw_request(struct bench *b, uint16_t op, const void *payload, uint32_t n, uint16_t flags)
{
    const struct halo_remote_header h = {.op = op, .id = 5, .payload_bytes = n, .flags = flags, .device = 255};
    return halo_session_request(b->session, &h, payload, &b->fault);
}

static void broken_messages_end_the_session(void **state)
{
    static const uint8_t zeros[64];
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    assert_int_equal(raw_request(&b, HIP_OP_MALLOC, zeros, 11, 0), -EBADMSG);
    assert_string_equal(b.fault.text, "request 5, HIP_OP_MALLOC: the field size is out of range");
    assert_int_equal(raw_request(&b, HIP_OP_PING, zeros, 1, 0), -EBADMSG);
    assert_string_equal(b.fault.text, "request 5, HIP_OP_PING: its length is wrong");
    assert_int_equal(raw_request(&b, HIP_OP_INIT, zeros, 12, 0), -EPROTO);
    assert_int_equal(raw_request(&b, HIP_OP_SHUTDOWN, zeros, 0, 0), HALO_SESSION_E_END);
    bench_close(&b);
}

static void an_unknown_operation_is_answered(void **state)
{
    struct bench b;
    struct halo_remote_header h;
    (void)state;
    bench_open(&b, NULL);
    b.n_inbox = 0;
    assert_int_equal(raw_request(&b, 0x7777, NULL, 0, 0), 0);
    assert_int_equal(halo_remote_header_decode(b.inbox, &h), 0);
    assert_int_equal(h.flags, HALO_REMOTE_FLAG_RESPONSE | HALO_REMOTE_FLAG_ERROR);
    assert_int_equal(b.inbox[HALO_REMOTE_HEADER_BYTES] | b.inbox[HALO_REMOTE_HEADER_BYTES + 1] << 8, 801);
    bench_close(&b);
}

/* ---- code objects ---- */

static int load_image(struct bench *b, const void *image, size_t n)
{
    const struct halo_remote_module_load_data q = {.module = MODULE(0), .image = {image, (uint32_t)n}};
    return halo_remote_module_load_data(&b->port, &q, NULL);
}

static void code_objects_are_read_before_the_runtime_sees_them(void **state)
{
    static uint8_t image[8192];
    static const struct code_build_arg arg = {0, 8, "by_value"};
    static const struct code_build_kernel kernel = {.name = "k", .args = &arg, .n_args = 1, .segment_bytes = 8};
    struct bench b;
    size_t n;
    (void)state;
    bench_open(&b, NULL);
    assert_int_equal(load_image(&b, "\177ELF", 4), 200);
    n = code_build_object(image, sizeof(image), &(struct code_build){"amdgcn-amd-amdhsa--gfx1151", &kernel, 1});
    assert_int_equal(load_image(&b, image, n), 209); /* another GPU's */
    uint8_t *object = bench_read_object(&n);
    assert_int_equal(load_image(&b, object, n - 1), 200); /* HIP would read past its end */
    /* The runtime would take it: what refuses it is the worker, by the target in the metadata. */
    uint8_t *target = memmem(object, n, "amdhsa.target", 13);
    assert_non_null(target);
    assert_memory_equal(target + 13 + 3, "host", 4);
    target[13 + 3] = 'm';
    assert_int_equal(load_image(&b, object, n), 209);
    target[13 + 3] = 'h';
    ((Elf64_Ehdr *)(void *)object)->e_shoff += 64;
    assert_int_equal(load_image(&b, object, n), 200);
    ((Elf64_Ehdr *)(void *)object)->e_shoff -= 64;
    assert_int_equal(load_image(&b, object, n), 0);
    free(object);
    bench_close(&b);
}

/* A session that has the kernel "scale" of the object, or of what `change` makes of it. */
static void open_with_kernel(struct bench *b, void (*change)(uint8_t *object, size_t n),
                             struct halo_remote_module_get_function_reply *ret)
{
    const struct halo_remote_module_get_function get = {MODULE(0), FUNCTION(0), {"scale", 5}};
    size_t n;
    bench_open(b, NULL);
    uint8_t *object = bench_read_object(&n);
    if (change)
        change(object, n);
    assert_int_equal(load_image(b, object, n), 0);
    free(object);
    assert_int_equal(halo_remote_module_get_function(&b->port, &get, ret), 0);
}

static void launches_are_checked_against_the_metadata(void **state)
{
    static const struct vector_scale args;
    struct halo_remote_module_get_function_reply scale;
    struct bench b;
    (void)state;
    open_with_kernel(&b, NULL, &scale);
    const struct halo_remote_module_get_function none = {MODULE(0), FUNCTION(1), {"scal", 4}};
    assert_int_equal(halo_remote_module_get_function(&b.port, &none, NULL), 500);
    const struct halo_remote_launch_kernel good = {FUNCTION(0), 0, 1, 1, 1, 64, 1, 1, 0, {&args, sizeof(args)}};
    struct halo_remote_launch_kernel q = good;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 0);
    q.args.n--; /* the runtime would read one byte past them */
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 1);
    q = good;
    q.block_x = 65;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 9);
    q = good;
    q.block_y = q.block_z = 1u << 16;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 9);
    q = good;
    q.grid_x = INT32_MAX;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 9);
    q = good;
    q.lds_bytes = 65537;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 9);
    q = good;
    q.function = FUNCTION(1);
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 400);
    assert_int_equal(halo_remote_module_unload(&b.port, &(struct halo_remote_module_unload){MODULE(0)}, NULL), 0);
    assert_int_equal(halo_remote_launch_kernel(&b.port, &good, NULL), 400); /* its function ended with it */
    bench_close(&b);
}

/* "At most 64 threads" of the first kernel becomes "64 by 1 by 1", which is as long. */
static void fix_block(uint8_t *object, size_t n)
{
    static const uint8_t block[] = "\x93\xce\0\0\0\x40\xcc\1\1";
    uint8_t *key = memmem(object, n, ".max_flat_workgroup_size", 24);
    assert_non_null(key);
    assert_int_equal(key[-3], 0xda); /* a text, and its length */
    key[-1] = 20;
    memcpy(key, ".reqd_workgroup_size", 20);
    memcpy(key + 20, block, 9);
}

static void a_kernel_for_one_block_gets_no_other(void **state)
{
    static const struct vector_scale args;
    struct halo_remote_module_get_function_reply scale;
    struct bench b;
    (void)state;
    open_with_kernel(&b, fix_block, &scale);
    assert_int_equal(scale.threads_per_block, 0);
    struct halo_remote_launch_kernel q = {FUNCTION(0), 0, 1, 1, 1, 64, 1, 1, 0, {&args, sizeof(args)}};
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 0);
    q.block_x = 32;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &q, NULL), 9);
    bench_close(&b);
}

/* ---- quotas ---- */

static void quotas_hold(void **state)
{
    struct halo_session_limits limits = HALO_SESSION_LIMITS_DEFAULT;
    struct bench b;
    struct halo_remote_mem_get_info_reply info;
    (void)state;
    limits.memory_bytes = 1000;
    limits.n_allocations = 3;
    limits.n_streams = 2;
    limits.n_events = 1;
    limits.code_bytes = 4096;
    bench_open(&b, &limits);
    uint64_t p = take(&b, 600);
    const struct halo_remote_malloc more = {.size = 401}, small = {.size = 1};
    assert_int_equal(halo_remote_malloc(&b.port, &more, NULL), 2);
    assert_int_equal(halo_remote_mem_get_info(&b.port, &(struct halo_remote_mem_get_info){}, &info), 0);
    assert_int_equal(info.total_bytes, 1000);
    assert_int_equal(info.free_bytes, 400);
    take(&b, 1);
    take(&b, 1);
    assert_int_equal(halo_remote_malloc(&b.port, &small, NULL), 2);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p}, NULL), 0);
    take(&b, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(
            halo_remote_stream_create(&b.port, &(struct halo_remote_stream_create){.stream = STREAM(i)}, NULL),
            i < 2 ? 0 : 2);
    const struct halo_remote_event_create event = {.event = bench_handle(HALO_REMOTE_EVENT, 1, 1)};
    assert_int_equal(halo_remote_event_create(&b.port, &event, NULL), 2);
    const struct halo_remote_blob_open blob = {.blob = bench_handle(HALO_REMOTE_BLOB, 0, 1), .size = 4097};
    assert_int_equal(halo_remote_blob_open(&b.port, &blob, NULL), 2);
    size_t n;
    uint8_t *object = bench_read_object(&n);
    assert_true(n > 4096);
    assert_int_equal(load_image(&b, object, n), 2);
    free(object);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_the_worker_cannot_be_named),
        cmocka_unit_test(a_range_must_lie_in_one_live_allocation),
        cmocka_unit_test(a_variable_is_no_allocation),
        cmocka_unit_test(a_handle_of_another_type_is_none),
        cmocka_unit_test(forged_handles_are_refused),
        cmocka_unit_test(broken_messages_end_the_session),
        cmocka_unit_test(an_unknown_operation_is_answered),
        cmocka_unit_test(code_objects_are_read_before_the_runtime_sees_them),
        cmocka_unit_test(launches_are_checked_against_the_metadata),
        cmocka_unit_test(a_kernel_for_one_block_gets_no_other),
        cmocka_unit_test(quotas_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
