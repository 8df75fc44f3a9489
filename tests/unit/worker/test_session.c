/* test_session.c: what a client does with a session: memory, copies, streams, events, kernels, graphs, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <hip_tls/tls.h>

#include "bench.h"
#include "vector_host.h"

#define STREAM(i) bench_handle(HALO_REMOTE_STREAM, i, 1)
#define EVENT(i) bench_handle(HALO_REMOTE_EVENT, i, 1)
#define MODULE(i) bench_handle(HALO_REMOTE_MODULE, i, 1)
#define FUNCTION(i) bench_handle(HALO_REMOTE_FUNCTION, i, 1)
#define GRAPH(i) bench_handle(HALO_REMOTE_GRAPH, i, 1)
#define EXEC(i) bench_handle(HALO_REMOTE_GRAPH_EXEC, i, 1)
#define BLOB(i) bench_handle(HALO_REMOTE_BLOB, i, 1)

static uint64_t take(struct bench *b, uint64_t size)
{
    struct halo_remote_malloc_reply a;
    assert_int_equal(halo_remote_malloc(&b->port, &(struct halo_remote_malloc){.size = size}, &a), 0);
    return a.address;
}

static int up(struct bench *b, uint64_t to, const void *data, uint32_t n)
{
    const struct halo_remote_memcpy q = {.to = to, .size = n, .kind = 1, .data = {data, n}};
    return halo_remote_memcpy(&b->port, &q, NULL);
}

static int down(struct bench *b, uint64_t from, void *data, uint32_t n)
{
    const struct halo_remote_memcpy q = {.from = from, .size = n, .kind = 2};
    struct halo_remote_memcpy_reply a;
    int error = halo_remote_memcpy(&b->port, &q, &a);
    if (!error) {
        assert_int_equal(a.data.n, n);
        memcpy(data, a.data.at, n);
    }
    return error;
}

static void create_stream(struct bench *b, uint32_t i)
{
    const struct halo_remote_stream_create q = {.stream = STREAM(i), .flags = 1};
    assert_int_equal(halo_remote_stream_create(&b->port, &q, NULL), 0);
}

static void load(struct bench *b)
{
    size_t n;
    void *image = bench_read_object(&n);
    struct halo_remote_module_get_function_reply a;
    const struct halo_remote_module_load_data q = {.module = MODULE(0), .image = {image, (uint32_t)n}};
    assert_int_equal(halo_remote_module_load_data(&b->port, &q, NULL), 0);
    free(image);
    const struct halo_remote_module_get_function get = {MODULE(0), FUNCTION(0), {"scale", 5}};
    assert_int_equal(halo_remote_module_get_function(&b->port, &get, &a), 0);
    assert_int_equal(a.arg_bytes, sizeof(struct vector_scale));
}

/* Keeps the stream busy for a while. */
static void nap(struct bench *b, uint64_t stream, uint32_t ms)
{
    const struct vector_scale args = {.n = ms};
    const struct halo_remote_module_get_function get = {MODULE(0), FUNCTION(1), {"nap", 3}};
    struct halo_remote_module_get_function_reply a;
    const struct halo_remote_launch_kernel q = {FUNCTION(1), stream, 1, 1, 1, 64, 1, 1, 0, {&args, sizeof(args)}};
    (void)halo_remote_module_get_function(&b->port, &get, &a); /* 400 when it is there already */
    assert_int_equal(halo_remote_launch_kernel(&b->port, &q, NULL), 0);
}

static struct halo_remote_launch_kernel launch_of(const struct vector_scale *args, uint64_t stream)
{
    return (struct halo_remote_launch_kernel){FUNCTION(0), stream, 1, 1, 1, 64, 1, 1, 0, {args, sizeof(*args)}};
}

/* ---- tests ---- */

static void what_goes_up_comes_down(void **state)
{
    static uint8_t data[HALO_REMOTE_DATA_MAX], got[sizeof(data)];
    struct bench b;
    struct halo_remote_mem_get_info_reply before, after;
    (void)state;
    bench_open(&b, NULL);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 4093);
    assert_int_equal(halo_remote_mem_get_info(&b.port, &(struct halo_remote_mem_get_info){}, &before), 0);
    uint64_t p = take(&b, sizeof(data) + 100), q = take(&b, sizeof(data));
    assert_int_equal(up(&b, p + 100, data, sizeof(data)), 0);
    const struct halo_remote_memcpy across = {.to = q, .from = p + 100, .size = sizeof(data), .kind = 3};
    assert_int_equal(halo_remote_memcpy(&b.port, &across, NULL), 0);
    assert_int_equal(down(&b, q, got, sizeof(got)), 0);
    assert_memory_equal(got, data, sizeof(got));
    const struct halo_remote_memset fill = {.to = q + 5, .value = 0xab, .width = 1, .count = 2};
    assert_int_equal(halo_remote_memset(&b.port, &fill, NULL), 0);
    assert_int_equal(down(&b, q + 4, got, 4), 0);
    assert_memory_equal(got, ((uint8_t[]){data[4], 0xab, 0xab, data[7]}), 4);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p}, NULL), 0);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){q}, NULL), 0);
    assert_int_equal(halo_remote_mem_get_info(&b.port, &(struct halo_remote_mem_get_info){}, &after), 0);
    /* The staging buffer is all that is left. */
    assert_true(before.free_bytes - after.free_bytes <= 64u << 20);
    bench_close(&b);
}

/* More copies in flight than the staging buffer holds, without an answer to any; then the answer to all. */
static void many_copies_are_in_flight(void **state)
{
    struct halo_session_limits limits = HALO_SESSION_LIMITS_DEFAULT;
    struct bench b;
    enum { N = 300, BYTES = 10000 };
    static uint8_t data[BYTES], got[BYTES];
    (void)state;
    limits.staging_bytes = HALO_REMOTE_DATA_MAX;
    limits.n_waits = 16;
    bench_open(&b, &limits);
    create_stream(&b, 0);
    uint64_t p = take(&b, (uint64_t)N * BYTES);
    b.no_reply = true;
    for (uint32_t i = 0; i < N; i++) {
        memset(data, (int)i, sizeof(data));
        const struct halo_remote_memcpy_async q = {
            .to = p + (uint64_t)i * BYTES, .size = BYTES, .kind = 1, .stream = STREAM(0), .data = {data, BYTES}};
        halo_remote_memcpy_async(&b.port, &q, NULL);
    }
    assert_int_equal(halo_remote_device_synchronize(&b.port, &(struct halo_remote_device_synchronize){}, NULL), 0);
    assert_int_equal(b.status.deferred_error, 0);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(down(&b, p + (uint64_t)i * BYTES, got, BYTES), 0);
        memset(data, (int)i, sizeof(data));
        assert_memory_equal(got, data, BYTES);
    }
    bench_close(&b);
}

/* The piece of a copy that waits behind a kernel is not given to the next copy, though a wait that was added before it,
 * and holds no piece, has ended. */
static void staged_bytes_stay_until_they_are_copied(void **state)
{
    struct halo_session_limits limits = HALO_SESSION_LIMITS_DEFAULT;
    static uint8_t data[HALO_REMOTE_DATA_MAX], got[sizeof(data)];
    struct bench b;
    (void)state;
    limits.staging_bytes = sizeof(data);
    bench_open(&b, &limits);
    create_stream(&b, 0);
    load(&b);
    uint64_t p = take(&b, sizeof(data)), q = take(&b, sizeof(data));
    nap(&b, STREAM(0), 50);
    b.n_inbox = 0;
    const struct halo_remote_memset fill = {.to = q, .value = 9, .width = 1, .count = 1};
    bench_send(&b, HIP_OP_MEMSET, &fill);
    for (int i = 0; i < 2; i++) {
        memset(data, 'a' + i, sizeof(data));
        const struct halo_remote_memcpy_async copy = {
            .to = i ? q : p, .size = sizeof(data), .kind = 1, .stream = STREAM(0), .data = {data, sizeof(data)}};
        assert_int_equal(halo_remote_memcpy_async(&b.port, &copy, NULL), 0);
    }
    assert_int_equal(halo_remote_device_synchronize(&b.port, &(struct halo_remote_device_synchronize){}, NULL), 0);
    assert_int_equal(down(&b, p, got, sizeof(got)), 0);
    memset(data, 'a', sizeof(data));
    assert_memory_equal(got, data, sizeof(got));
    bench_close(&b);
}

/* Data that was asked for comes before the answer that says that its stream is done. Each question to the runtime takes
 * a while, so that the stream gets on between one and the next. */
static void data_comes_before_the_end_of_its_stream(void **state)
{
    struct bench b;
    struct halo_remote_memcpy_async_reply a;
    (void)state;
    setenv("HALO_HIP_EMU_SCRIPT", "hipEventQuery:*:delay=1", 1);
    bench_open(&b, NULL);
    create_stream(&b, 0);
    load(&b);
    uint64_t p = take(&b, 64);
    assert_int_equal(up(&b, p, "data of the device", 19), 0);
    const struct halo_remote_event_create event = {.event = EVENT(0)};
    assert_int_equal(halo_remote_event_create(&b.port, &event, NULL), 0);
    for (uint32_t round = 0; round < 40; round++) {
        const struct halo_remote_memcpy_async q = {.from = p, .size = 19, .kind = 2, .stream = STREAM(0)};
        const struct halo_remote_event_record record = {EVENT(0), STREAM(0)};
        const struct halo_remote_event_synchronize wait = {EVENT(0)};
        bool asks = round & 1;
        nap(&b, STREAM(0), 2 + round / 2 % 4);
        b.n_inbox = 0;
        uint32_t copy = bench_send(&b, HIP_OP_MEMCPY_ASYNC, &q), end;
        bench_send(&b, HIP_OP_EVENT_RECORD, &record);
        do {
            end = bench_send(&b, asks ? HIP_OP_EVENT_QUERY : HIP_OP_EVENT_SYNCHRONIZE, &wait);
            bench_receive(&b, end, asks ? HIP_OP_EVENT_QUERY : HIP_OP_EVENT_SYNCHRONIZE, NULL);
        } while (b.status.error == 600);
        size_t all = b.n_inbox;
        bench_receive(&b, copy, HIP_OP_MEMCPY_ASYNC, &a);
        assert_int_equal(b.n_inbox, all); /* it had come already */
        assert_memory_equal(a.data.at, "data of the device", 19);
    }
    unsetenv("HALO_HIP_EMU_SCRIPT");
    bench_close(&b);
}

static void a_kernel_computes(void **state)
{
    struct bench b;
    float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    (void)state;
    bench_open(&b, NULL);
    create_stream(&b, 0);
    load(&b);
    uint64_t p = take(&b, sizeof(in)), q = take(&b, sizeof(out));
    assert_int_equal(up(&b, p, in, sizeof(in)), 0);
    const struct vector_scale args = {(float *)(uintptr_t)q, (const float *)(uintptr_t)p, 8, 3};
    const struct halo_remote_launch_kernel launch = launch_of(&args, STREAM(0));
    b.no_reply = true;
    assert_int_equal(halo_remote_launch_kernel(&b.port, &launch, NULL), 0);
    assert_int_equal(halo_remote_stream_synchronize(&b.port, &(struct halo_remote_stream_synchronize){STREAM(0)}, NULL),
                     0);
    assert_int_equal(down(&b, q, out, sizeof(out)), 0);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == 3 * in[i]);
    bench_close(&b);
}

static void a_graph_is_captured_and_replayed(void **state)
{
    struct bench b;
    float values[4] = {1, 1, 1, 1};
    (void)state;
    bench_open(&b, NULL);
    create_stream(&b, 0);
    load(&b);
    uint64_t p = take(&b, sizeof(values));
    assert_int_equal(up(&b, p, values, sizeof(values)), 0);
    const struct vector_scale args = {(float *)(uintptr_t)p, (const float *)(uintptr_t)p, 4, 2};
    const struct halo_remote_launch_kernel launch = launch_of(&args, STREAM(0));
    const struct halo_remote_memcpy_async copy = {
        .to = p, .size = 4, .kind = 1, .stream = STREAM(0), .data = {"abcd", 4}};
    const struct halo_remote_graph_instantiate make = {GRAPH(0), EXEC(0), 0};
    const struct halo_remote_graph_launch replay = {EXEC(0), STREAM(0)};
    struct halo_remote_stream_is_capturing_reply is;
    assert_int_equal(
        halo_remote_stream_begin_capture(&b.port, &(struct halo_remote_stream_begin_capture){STREAM(0), 1}, NULL), 0);
    assert_int_equal(
        halo_remote_stream_is_capturing(&b.port, &(struct halo_remote_stream_is_capturing){STREAM(0)}, &is), 0);
    assert_int_equal(is.capture_status, 1);
    assert_int_equal(halo_remote_memcpy_async(&b.port, &copy, NULL), 900); /* would read the staging buffer later */
    assert_int_equal(halo_remote_launch_kernel(&b.port, &launch, NULL), 0);
    assert_int_equal(
        halo_remote_stream_end_capture(&b.port, &(struct halo_remote_stream_end_capture){STREAM(0), GRAPH(0)}, NULL),
        0);
    assert_int_equal(halo_remote_graph_instantiate(&b.port, &make, NULL), 0);
    assert_int_equal(halo_remote_graph_destroy(&b.port, &(struct halo_remote_graph_destroy){GRAPH(0)}, NULL), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(halo_remote_graph_launch(&b.port, &replay, NULL), 0);
    assert_int_equal(halo_remote_stream_synchronize(&b.port, &(struct halo_remote_stream_synchronize){STREAM(0)}, NULL),
                     0);
    assert_int_equal(down(&b, p, values, sizeof(values)), 0);
    assert_true(values[0] == 32 && values[3] == 32);
    assert_int_equal(halo_remote_graph_exec_destroy(&b.port, &(struct halo_remote_graph_exec_destroy){EXEC(0)}, NULL),
                     0);
    assert_int_equal(halo_remote_graph_launch(&b.port, &replay, NULL), 400);
    bench_close(&b);
}

/* It would never be reached by itself: whoever waits for it would wait forever, and hipFree with them. */
static void an_event_in_a_graph_is_not_waited_for(void **state)
{
    const struct halo_remote_stream_begin_capture begin = {STREAM(0), 0};
    const struct halo_remote_stream_end_capture end = {STREAM(0), GRAPH(0)};
    const struct halo_remote_event_record record = {EVENT(0), STREAM(0)};
    struct bench b;
    (void)state;
    bench_open(&b, NULL);
    create_stream(&b, 0);
    uint64_t p = take(&b, 64);
    assert_int_equal(halo_remote_event_create(&b.port, &(struct halo_remote_event_create){.event = EVENT(0)}, NULL), 0);
    assert_int_equal(halo_remote_stream_end_capture(&b.port, &end, NULL), 401);
    assert_int_equal(halo_remote_stream_begin_capture(&b.port, &begin, NULL), 0);
    assert_int_equal(halo_remote_stream_begin_capture(&b.port, &begin, NULL), 401);
    assert_int_equal(halo_remote_event_record(&b.port, &record, NULL), 0);
    assert_int_equal(halo_remote_event_synchronize(&b.port, &(struct halo_remote_event_synchronize){EVENT(0)}, NULL),
                     907);
    assert_int_equal(halo_remote_event_query(&b.port, &(struct halo_remote_event_query){EVENT(0)}, NULL), 907);
    const struct halo_remote_stream_synchronize wait = {STREAM(0)};
    assert_int_equal(halo_remote_stream_synchronize(&b.port, &wait, NULL), 900);
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){p}, NULL), 0);
    assert_int_equal(halo_remote_stream_end_capture(&b.port, &end, NULL), 0);
    assert_int_equal(halo_remote_stream_synchronize(&b.port, &wait, NULL), 0);
    bench_close(&b);
}

/* An operation without an answer that fails is told of with the next answer, once; the first one of several. */
static void an_error_without_an_answer_is_told_later(void **state)
{
    struct bench b;
    struct halo_remote_peek_at_last_error_reply peeked;
    (void)state;
    bench_open(&b, NULL);
    b.no_reply = true;
    assert_int_equal(halo_remote_free(&b.port, &(struct halo_remote_free){12345}, NULL), 0);
    uint32_t id = b.next_id;
    assert_int_equal(halo_remote_stream_destroy(&b.port, &(struct halo_remote_stream_destroy){STREAM(3)}, NULL), 0);
    assert_int_equal(halo_remote_peek_at_last_error(&b.port, &(struct halo_remote_peek_at_last_error){}, &peeked), 0);
    assert_int_equal(peeked.error, 1);
    assert_int_equal(b.status.deferred_error, 1);
    assert_int_equal(b.status.deferred_id, id);
    assert_int_equal(b.status.deferred_op, HIP_OP_FREE);
    assert_int_equal(halo_remote_ping(&b.port, &(struct halo_remote_ping){}, NULL), 0);
    assert_int_equal(b.status.deferred_error, 0);
    bench_close(&b);
}

static void a_blob_carries_what_is_larger_than_a_frame(void **state)
{
    struct bench b;
    struct halo_remote_blob_open open = {.blob = BLOB(0)};
    struct halo_remote_blob_open_reply a;
    size_t n;
    uint8_t *image = bench_read_object(&n);
    (void)state;
    bench_open(&b, NULL);
    open.size = n;
    assert_true(halo_remote_tls.sha256(image, n, open.sha256));
    const struct halo_remote_module_load_data load_it = {.module = MODULE(0), .blob = BLOB(0)};
    const struct halo_remote_blob_write first = {BLOB(0), 0, {image, 10}};
    const struct halo_remote_blob_write wrong = {BLOB(0), 11, {image + 11, (uint32_t)n - 11}};
    const struct halo_remote_blob_write second = {BLOB(0), 10, {image + 10, (uint32_t)n - 10}};
    assert_int_equal(halo_remote_blob_open(&b.port, &open, &a), 0);
    assert_int_equal(a.is_complete, 0);
    assert_int_equal(halo_remote_blob_write(&b.port, &first, NULL), 0);
    assert_int_equal(halo_remote_blob_write(&b.port, &wrong, NULL), 1);           /* leaves a hole */
    assert_int_equal(halo_remote_module_load_data(&b.port, &load_it, NULL), 400); /* not complete */
    assert_int_equal(halo_remote_blob_write(&b.port, &second, NULL), 0);
    assert_int_equal(halo_remote_module_load_data(&b.port, &load_it, NULL), 0);
    open.blob = BLOB(1);
    open.sha256[0] ^= 1;
    const struct halo_remote_blob_write whole = {BLOB(1), 0, {image, (uint32_t)n}};
    assert_int_equal(halo_remote_blob_open(&b.port, &open, &a), 0);
    assert_int_equal(halo_remote_blob_write(&b.port, &whole, NULL), 1); /* not what its hash says */
    free(image);
    bench_close(&b);
}

static void a_reset_frees_everything(void **state)
{
    struct bench b;
    struct halo_remote_mem_get_info_reply a;
    (void)state;
    bench_open(&b, NULL);
    create_stream(&b, 0);
    load(&b);
    uint64_t p = take(&b, 4096);
    assert_int_equal(up(&b, p, "x", 1), 0);
    assert_int_equal(halo_remote_device_reset(&b.port, &(struct halo_remote_device_reset){}, NULL), 0);
    assert_int_equal(up(&b, p, "x", 1), 1);
    assert_int_equal(halo_remote_mem_get_info(&b.port, &(struct halo_remote_mem_get_info){}, &a), 0);
    assert_int_equal(a.total_bytes - a.free_bytes, 64u << 20); /* the staging buffer */
    bench_close(&b);
}

static void properties_are_told_by_name(void **state)
{
    struct bench b;
    struct halo_remote_get_device_properties_reply a;
    (void)state;
    bench_open(&b, NULL);
    assert_int_equal(halo_remote_get_device_properties(&b.port, &(struct halo_remote_get_device_properties){0}, &a), 0);
    assert_int_equal(a.arch.n, 13);
    assert_memory_equal(a.arch.at, "host:emulated", 13);
    assert_int_equal(a.wave_size, 32);
    assert_int_equal(a.n_units, 4);
    assert_int_equal(halo_remote_get_device_properties(&b.port, &(struct halo_remote_get_device_properties){1}, &a),
                     101);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_up_comes_down),
        cmocka_unit_test(many_copies_are_in_flight),
        cmocka_unit_test(staged_bytes_stay_until_they_are_copied),
        cmocka_unit_test(data_comes_before_the_end_of_its_stream),
        cmocka_unit_test(a_kernel_computes),
        cmocka_unit_test(a_graph_is_captured_and_replayed),
        cmocka_unit_test(an_event_in_a_graph_is_not_waited_for),
        cmocka_unit_test(an_error_without_an_answer_is_told_later),
        cmocka_unit_test(a_blob_carries_what_is_larger_than_a_frame),
        cmocka_unit_test(a_reset_frees_everything),
        cmocka_unit_test(properties_are_told_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
