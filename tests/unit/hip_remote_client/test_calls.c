/* test_calls.c: programs through client, hip-worker and the emulated runtime: copies, launches, order, messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include <base/guard.h>

#include "client_priv.h"
#include "rig.h"

#define LONG_BYTES ((size_t)(5 << 20) + 12345) /* several frames, the last one short */
#define NAP_MS 100

static void copy_long_buffers(void)
{
    uint8_t *from = malloc(LONG_BYTES), *to = malloc(LONG_BYTES), *pinned;
    void *a, *b, *stream = new_stream();
    CHECK(from && to);
    for (size_t i = 0; i < LONG_BYTES; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    OK(hipMalloc(&a, LONG_BYTES));
    OK(hipMalloc(&b, LONG_BYTES));
    OK(hipHostMalloc((void **)&pinned, LONG_BYTES, 0));
    OK(hipMemcpy(a, from, LONG_BYTES, HIP_COPY_TO_DEVICE));
    OK(hipMemcpy(b, a, LONG_BYTES, HIP_COPY_DEFAULT));
    OK(hipMemcpy(to, b, LONG_BYTES, HIP_COPY_DEFAULT));
    CHECK(memcmp(from, to, LONG_BYTES) == 0);
    OK(hipMemsetAsync((uint8_t *)b + 100, 0xab, 1000, stream));
    OK(hipMemcpyAsync(pinned, b, LONG_BYTES, HIP_COPY_TO_HOST, stream));
    OK(hipStreamSynchronize(stream));
    memset(from + 100, 0xab, 1000);
    CHECK(memcmp(from, pinned, LONG_BYTES) == 0);
    /* Memory that HIP did not allocate is in place when the call returns. */
    memset(to, 0, LONG_BYTES);
    OK(hipMemcpyAsync(to, b, LONG_BYTES, HIP_COPY_TO_HOST, stream));
    CHECK(memcmp(from, to, LONG_BYTES) == 0);
    OK(hipFree(a));
    CHECK_HIP(hipFree(a), HIP_INVALID_VALUE);
    OK(hipFree(NULL));
    OK(hipHostFree(pinned));
    CHECK_HIP(hipHostFree(pinned), HIP_INVALID_VALUE);
    free(from);
    free(to);
}

static void copies_arrive_whole(void **state)
{
    (void)state;
    run_on_worker(NULL, copy_long_buffers);
}

static void launch_in_both_ways(void)
{
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *none = NULL, *host = NULL;
    float in[3] = {1, 2, 3}, out[3];
    void *p = device_floats(3);
    OK(hipMemcpy(p, in, sizeof(in), HIP_COPY_TO_DEVICE));
    OK(launch_vector(scale, p, p, 3, 2, NULL));
    struct vector_scale args = {p, p, 3, 5};
    size_t bytes = sizeof(args);
    void *extra[] = {(void *)1, &args, (void *)2, &bytes, (void *)3};
    OK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    OK(hipMemcpy(out, p, sizeof(out), HIP_COPY_TO_HOST));
    CHECK(out[0] == 10 && out[1] == 20 && out[2] == 30);
    /* Refused before anything is sent. */
    bytes--;
    CHECK_HIP(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra), HIP_INVALID_VALUE);
    CHECK_HIP(hipModuleLaunchKernel(scale, 0, 1, 1, 64, 1, 1, 0, NULL, NULL, extra), HIP_INVALID_VALUE);
    CHECK_HIP(hipModuleLaunchKernel(scale, 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, extra), HIP_INVALID_VALUE);
    CHECK_HIP(hipModuleGetFunction(&none, module, "no such kernel"), HIP_NOT_FOUND);
    OK(hipHostMalloc(&host, 64, 0));
    CHECK_HIP(hipHostGetDevicePointer(&none, host, 0), HIP_NOT_SUPPORTED);
    OK(hipModuleUnload(module));
    CHECK_HIP(launch_vector(scale, p, p, 3, 2, NULL), HIP_INVALID_HANDLE);
    OK(hipDeviceSynchronize());
    OK(hipHostFree(host));
}

static void launches_take_arguments_both_ways(void **state)
{
    (void)state;
    run_on_worker(NULL, launch_in_both_ways);
}

/* A kernel keeps the stream busy while everything behind it is queued and the sources change. */
static void overwrite_sources(void)
{
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *nap = vector_kernel(module, "nap");
    void *stream = new_stream(), *event = new_event(), *p = device_floats(2);
    float *pinned;
    OK(hipHostMalloc((void **)&pinned, 2 * sizeof(float), 0));
    for (int pass = 1; pass <= 3; pass++) {
        float in[2] = {(float)pass, 7};
        OK(launch_vector(nap, p, p, NAP_MS, 0, stream));
        OK(hipMemcpyAsync(p, in, sizeof(in), HIP_COPY_TO_DEVICE, stream));
        in[0] = in[1] = -1;
        OK(launch_vector(scale, p, p, 2, 3, stream));
        OK(hipMemcpyAsync(pinned, p, 2 * sizeof(float), HIP_COPY_TO_HOST, stream));
        OK(hipEventRecord(event, stream));
        int error, n_polls = 0;
        while ((error = hipEventQuery(event)) == HIP_NOT_READY)
            n_polls++;
        OK(error);
        CHECK(n_polls > 0);
        CHECK(pinned[0] == 3.0f * (float)pass && pinned[1] == 21);
        /* The pinned buffer is the source of the next copy before it is filled. */
        OK(launch_vector(nap, p, p, NAP_MS, 0, stream));
        pinned[0] = -5;
        OK(hipMemcpyAsync(pinned, p, 2 * sizeof(float), HIP_COPY_TO_HOST, stream));
        OK(hipMemcpyAsync(p, pinned, 2 * sizeof(float), HIP_COPY_TO_DEVICE, stream));
        pinned[0] = -2;
        OK(hipStreamSynchronize(stream)); /* which the null stream does not wait for */
        OK(hipMemcpy(in, p, sizeof(in), HIP_COPY_TO_HOST));
        CHECK(in[0] == 3.0f * (float)pass);
    }
    OK(hipHostFree(pinned));
}

static void a_stream_keeps_its_order(void **state)
{
    (void)state;
    run_on_worker(NULL, overwrite_sources);
}

static void step_through_a_graph(void)
{
    void *module = vector_module(), *scale = vector_kernel(module, "scale"), *stream = new_stream();
    void *event = new_event(), *p = device_floats(4), *graph = NULL, *exec = NULL;
    float *host, in[4] = {1, 2, 3, 4};
    int status = -1;
    OK(hipHostMalloc((void **)&host, sizeof(in), 0));
    OK(hipStreamBeginCapture(stream, 1));
    OK(hipStreamIsCapturing(stream, &status));
    CHECK(status == 1);
    for (int i = 0; i < 10; i++)
        OK(launch_vector(scale, p, p, 4, 2, stream));
    CHECK_HIP(hipMemcpyAsync(p, in, sizeof(in), HIP_COPY_TO_DEVICE, stream), HIP_CAPTURE_UNSUPPORTED);
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipStreamIsCapturing(stream, &status));
    CHECK(status == 0);
    OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    OK(hipGraphDestroy(graph));
    for (int step = 0; step < 5; step++) {
        uint64_t asked = halo_client.link.n_asked;
        memcpy(host, in, sizeof(in));
        halo_guard_enter();
        OK(hipMemcpyAsync(p, host, sizeof(in), HIP_COPY_TO_DEVICE, stream));
        OK(hipGraphLaunch(exec, stream));
        for (int i = 0; i < 100; i++)
            OK(launch_vector(scale, p, p, 4, 1, stream));
        OK(hipMemcpyAsync(host, p, sizeof(in), HIP_COPY_TO_HOST, stream));
        OK(hipEventRecord(event, stream));
        while ((status = hipEventQuery(event)) == HIP_NOT_READY)
            ;
        OK(status);
        halo_guard_leave();
        CHECK(host[0] == 1024 && host[3] == 4096);
        CHECK(halo_client.link.n_asked - asked == 1);
    }
    OK(hipGraphExecDestroy(exec));
    CHECK_HIP(hipGraphLaunch(exec, stream), HIP_INVALID_HANDLE);
    OK(hipStreamDestroy(stream));
    CHECK_HIP(hipStreamSynchronize(stream), HIP_INVALID_HANDLE);
}

/* One message that is answered, and no allocation. */
static void a_decode_step_waits_for_one_message(void **state)
{
    (void)state;
    run_on_worker(NULL, step_through_a_graph);
}

/* Copies to the host, records, waits; how many answers that took. */
static uint64_t answers_of(void *event, void *of_copy, void *of_event, void *kernel, float *host, void *p)
{
    uint64_t asked = halo_client.link.n_asked;
    int status;
    *host = 0;
    OK(hipMemcpyAsync(host, p, sizeof(*host), HIP_COPY_TO_HOST, of_copy));
    if (kernel) /* between both */
        OK(launch_vector(kernel, NULL, NULL, 1, 0, of_copy));
    OK(hipEventRecord(event, of_event));
    while ((status = hipEventQuery(event)) == HIP_NOT_READY)
        ;
    OK(status);
    uint64_t n = halo_client.link.n_asked - asked;
    OK(hipStreamSynchronize(of_copy));
    CHECK(*host == 7);
    return n;
}

/* The answer to a copy is that of the event right behind it, of no other one. */
static void record_behind_copies(void)
{
    void *stream = new_stream(), *other = new_stream(), *event = new_event(), *timed = NULL;
    void *p = device_floats(1), *module = vector_module(), *nap = vector_kernel(module, "nap");
    float *host, seven = 7;
    OK(hipHostMalloc((void **)&host, sizeof(*host), 0));
    OK(hipEventCreateWithFlags(&timed, 0));
    OK(hipMemcpy(p, &seven, sizeof(seven), HIP_COPY_TO_DEVICE));
    OK(launch_vector(nap, NULL, NULL, 50, 0, stream)); /* no answer before the record */
    CHECK(answers_of(event, stream, stream, NULL, host, p) == 1);
    OK(launch_vector(nap, NULL, NULL, 50, 0, stream));
    CHECK(answers_of(event, stream, other, NULL, host, p) == 2);
    OK(launch_vector(nap, NULL, NULL, 50, 0, stream));
    CHECK(answers_of(timed, stream, stream, NULL, host, p) == 2);
    OK(launch_vector(nap, NULL, NULL, 50, 0, stream));
    CHECK(answers_of(event, stream, stream, nap, host, p) == 2);
}

static void the_answer_to_a_copy_is_that_of_the_event_behind_it(void **state)
{
    (void)state;
    run_on_worker(NULL, record_behind_copies);
}

/* As a loader does: one buffer is filled while the other is copied. */
static void upload_from_two_buffers(void)
{
    void *stream = new_stream(), *other = new_stream(), *events[2] = {new_event(), new_event()}, *p = NULL;
    uint8_t *host;
    int status;
    OK(hipHostMalloc((void **)&host, 2 * LONG_BYTES, 0));
    OK(hipMalloc(&p, LONG_BYTES));
    uint64_t asked = halo_client.link.n_asked;
    for (uint32_t i = 0; i < 6; i++) {
        void *event = events[i % 2];
        while (i >= 2 && (status = hipEventQuery(event)) == HIP_NOT_READY)
            ;
        OK(i >= 2 ? status : 0);
        memset(host + i % 2 * LONG_BYTES, (int)i, LONG_BYTES);
        OK(hipMemcpyAsync(p, host + i % 2 * LONG_BYTES, LONG_BYTES, HIP_COPY_TO_DEVICE, stream));
        OK(hipEventRecord(event, stream));
        CHECK(halo_client.link.n_asked - asked == i + 1); /* the question is in front of the next copy */
    }
    OK(hipEventSynchronize(events[1]));
    CHECK(halo_client.link.n_asked - asked == 6);
    OK(hipMemcpy(host, p, 1, HIP_COPY_TO_HOST));
    CHECK(host[0] == 5);
    /* Not behind a short copy, nor where the copy is another stream's or not the last request. */
    asked = halo_client.link.n_asked;
    OK(hipMemcpyAsync(p, host, 1024, HIP_COPY_TO_DEVICE, stream));
    OK(hipEventRecord(events[0], stream));
    OK(hipMemcpyAsync(p, host, LONG_BYTES, HIP_COPY_TO_DEVICE, stream));
    OK(hipEventRecord(events[0], other));
    OK(hipEventRecord(events[1], stream));
    CHECK(halo_client.link.n_asked == asked);
}

/* Else each buffer waits for a round trip behind the copy of the other one. */
static void an_event_behind_a_long_copy_is_asked_about_at_once(void **state)
{
    (void)state;
    run_on_worker(NULL, upload_from_two_buffers);
}

static void look_at_the_device(void)
{
    uint8_t properties[1472], old[792];
    int n = 0, value = -1, device = -1;
    int32_t integrated, wave;
    OK(hipInit(0));
    OK(hipGetDeviceCount(&n));
    CHECK(n == 1);
    CHECK_HIP(hipSetDevice(1), HIP_INVALID_DEVICE);
    OK(hipSetDevice(0));
    OK(hipGetDevice(&device));
    CHECK(device == 0);
    memset(properties, 0xff, sizeof(properties));
    OK(hipGetDevicePropertiesR0600(properties, 0));
    memcpy(&integrated, properties + 396, 4);
    memcpy(&wave, properties + 308, 4);
    CHECK(integrated == 0 && wave == 32);
    CHECK(strcmp((char *)properties + 1160, "host:emulated") == 0);
    OK(hipGetDeviceProperties(old, 0));
    memcpy(&wave, old + 276, 4);
    CHECK(wave == 32 && strcmp((char *)old + 396, "host:emulated") == 0);
    OK(hipDeviceGetAttribute(&value, 16, 0));
    CHECK(value == 0);
    CHECK_HIP(hipSetDevice(-1), HIP_INVALID_DEVICE);
    CHECK(hipPeekAtLastError() == HIP_INVALID_DEVICE);
    CHECK(hipGetLastError() == HIP_INVALID_DEVICE);
    CHECK(hipGetLastError() == 0);
    CHECK(strcmp(hipGetErrorName(2), "hipErrorOutOfMemory") == 0);
}

/* The emulated GPU says that it is integrated, as an APU would. */
static void no_property_promises_shared_memory(void **state)
{
    (void)state;
    run_on_worker(NULL, look_at_the_device);
}

static void map_over_the_device(void)
{
    void *p = NULL, *at;
    OK(hipMalloc(&p, 1 << 20));
    at = mmap(p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && at != p);
    munmap(at, 4096);
    OK(hipFree(p));
    at = mmap(p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at == p);
}

static void an_address_of_the_device_is_none_of_the_host(void **state)
{
    (void)state;
    run_on_worker(NULL, map_over_the_device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_arrive_whole),
        cmocka_unit_test(launches_take_arguments_both_ways),
        cmocka_unit_test(a_stream_keeps_its_order),
        cmocka_unit_test(a_decode_step_waits_for_one_message),
        cmocka_unit_test(the_answer_to_a_copy_is_that_of_the_event_behind_it),
        cmocka_unit_test(an_event_behind_a_long_copy_is_asked_about_at_once),
        cmocka_unit_test(no_property_promises_shared_memory),
        cmocka_unit_test(an_address_of_the_device_is_none_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
