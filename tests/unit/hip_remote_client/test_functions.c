/* test_functions.c: functions of HIP that few programs call: what they answer, and which arguments they refuse.
 *
 * The emulated runtime lacks some of them; NotSupported is then its answer, and not the client's.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "client_priv.h"
#include "fat_program.h"

#define STUB ((const void *)(uintptr_t)stub_scale)
#define NO_STUB ((const void *)(uintptr_t)stub_unknown)

/* ---- the device ---- */

static void ask_about_the_device(void)
{
    int device = -1, major = -1, minor = -1, least = 0, greatest = 0, can = 7;
    size_t bytes = 0, n_free = 0, total = 0;
    char bus_id[64] = "", name[64] = "", uuid[16];
    unsigned int flags = 7;
    OK(hipDeviceGet(&device, 0));
    CHECK(device == 0);
    CHECK_HIP(hipDeviceGet(&device, 1), HIP_INVALID_DEVICE);
    CHECK_HIP(hipDeviceGet(NULL, 0), HIP_INVALID_VALUE);
    OK(hipDeviceTotalMem(&bytes, 0));
    OK(hipMemGetInfo(&n_free, &total));
    CHECK(bytes > 0 && n_free <= total);
    CHECK_HIP(hipDeviceTotalMem(&bytes, 1), HIP_INVALID_DEVICE);
    OK(hipDeviceComputeCapability(&major, &minor, 0));
    CHECK(major >= 0 && minor >= 0);
    CHECK_HIP(hipDeviceComputeCapability(&major, NULL, 0), HIP_INVALID_VALUE);
    OK(hipDeviceGetName(name, sizeof(name), 0));
    CHECK(name[0] != '\0');
    OK(hipDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
    device = -1;
    OK(hipDeviceGetByPCIBusId(&device, bus_id));
    CHECK(device == 0);
    CHECK_HIP(hipDeviceGetByPCIBusId(&device, "0000:00:00.9"), HIP_INVALID_VALUE);
    OK(hipDeviceGetUuid(uuid, 0));
    CHECK(memcmp(uuid, "an emulated GPU.", sizeof(uuid)) == 0);
    CHECK_HIP(hipDeviceGetUuid(NULL, 0), HIP_INVALID_VALUE);
    OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 1 && greatest == -1);
    CHECK_HIP(hipDeviceGetLimit(&bytes, 2), HIP_NOT_SUPPORTED);
    CHECK_HIP(hipDeviceGetLimit(&bytes, 3), HIP_INVALID_VALUE);
    OK(hipDeviceCanAccessPeer(&can, 0, 0));
    CHECK(can == 0);
    CHECK_HIP(hipDeviceCanAccessPeer(&can, 0, 1), HIP_INVALID_DEVICE);
    CHECK_HIP(hipDeviceEnablePeerAccess(0, 0), HIP_INVALID_DEVICE);
    CHECK_HIP(hipDeviceEnablePeerAccess(1, 0), HIP_INVALID_DEVICE);
    CHECK_HIP(hipDeviceEnablePeerAccess(0, 1), HIP_INVALID_VALUE);
    CHECK_HIP(hipDeviceDisablePeerAccess(0), HIP_INVALID_DEVICE);
    OK(hipSetDeviceFlags(4));
    CHECK_HIP(hipSetDeviceFlags(0x100), HIP_INVALID_VALUE);
    OK(hipGetDeviceFlags(&flags));
    CHECK(flags == 0);
    CHECK_HIP(hipGetDeviceFlags(NULL), HIP_INVALID_VALUE);
    OK(hipDeviceSetCacheConfig(1));
}

static void the_device_is_described(void **state)
{
    (void)state;
    run_on_worker(NULL, ask_about_the_device);
}

/* ---- kernels ---- */

static void ask_about_occupancy(void *kernel)
{
    int n = -1, grid = 0, block = 0, n_units = 0;
    OK(hipDeviceGetAttribute(&n_units, 63, 0));
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, 64, 0));
    CHECK(n == 1);
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, kernel, 64, 1, 0));
    CHECK(n == 0);
    CHECK_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, 0, 0), HIP_INVALID_VALUE);
    CHECK_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, &n, 64, 0), HIP_INVALID_HANDLE);
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, STUB, 64, 0, 0));
    CHECK(n == 1);
    CHECK_HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&n, NO_STUB, 64, 0), HIP_INVALID_DEVICE_FUNCTION);
    OK(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, 0));
    CHECK(grid == n_units && block == 64);
    OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, STUB, 0, 32));
    CHECK(grid == n_units && block == 32);
    OK(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 1, 0)); /* none fits */
    CHECK(grid == 0 && block == 0);
    CHECK_HIP(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, -1), HIP_INVALID_VALUE);
    CHECK_HIP(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, &n, 0, 0), HIP_INVALID_HANDLE);
}

static void ask_about_kernels(void)
{
    void **binary = fat_register(BUNDLE_PLAIN, 0);
    void *kernel = vector_kernel(vector_module(), "scale"), *of_stub = NULL;
    struct hip_func_attributes what = {0};
    int value = 7;
    ask_about_occupancy(kernel);
    CHECK_HIP(hipFuncGetAttribute(&value, 0, kernel), HIP_NOT_SUPPORTED);
    CHECK_HIP(hipFuncGetAttribute(&value, 10, kernel), HIP_INVALID_VALUE);
    CHECK_HIP(hipFuncGetAttribute(&value, 0, &value), HIP_INVALID_HANDLE);
    OK(hipFuncGetAttributes(&what, STUB)); /* the metadata is enough */
    CHECK(what.max_threads_per_block == 64 && what.shared_bytes == 0 && what.max_dynamic_shared_bytes == 65536);
    CHECK_HIP(hipFuncGetAttributes(NULL, STUB), HIP_INVALID_VALUE);
    CHECK_HIP(hipFuncSetAttribute(STUB, 7, 0), HIP_INVALID_VALUE);
    OK(hipFuncSetCacheConfig(STUB, 1));
    OK(hipGetFuncBySymbol(&of_stub, STUB));
    CHECK(of_stub && of_stub != kernel);
    CHECK_HIP(hipGetFuncBySymbol(&of_stub, NO_STUB), HIP_INVALID_DEVICE_FUNCTION);
    CHECK(strcmp(hipKernelNameRefByPtr(STUB, NULL), "scale") == 0);
    CHECK(strcmp(hipKernelNameRefByPtr(NO_STUB, NULL), "unknown") == 0);
    CHECK(strcmp(hipKernelNameRef(kernel), "unknown") == 0);
    fat_unregister(binary);
}

static void kernels_are_described(void **state)
{
    (void)state;
    run_on_worker(NULL, ask_about_kernels);
}

/* Nobody waits for a function, and one wait tells how often each function of a module fits. */
static void look_up_functions(void)
{
    static const char *const names[] = {"scale", "nap", "shift"};
    void *module = vector_module(), *kernels[3];
    uint64_t asked = halo_client.link.n_asked;
    uint32_t pending = halo_client.link.n_pending;
    int n;
    for (int i = 0; i < 3; i++)
        kernels[i] = vector_kernel(module, names[i]);
    CHECK(halo_client.link.n_asked - asked == 3 && halo_client.link.n_pending - pending == 3);
    CHECK_HIP(hipModuleGetFunction(&kernels[0], module, "unknown"), HIP_NOT_FOUND);
    asked = halo_client.link.n_asked;
    for (int i = 0; i < 3; i++) {
        OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernels[i], 64, 0));
        CHECK(n == 1 && halo_client.link.n_asked - asked == 3);
    }
    CHECK(halo_client.link.n_pending == pending);
    /* Another question, which nobody asked ahead. */
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernels[1], 64, 1));
    CHECK(n == 0 && halo_client.link.n_asked - asked == 4);
    OK(hipModuleUnload(module));
    CHECK_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernels[1], 64, 0), HIP_INVALID_HANDLE);
}

/* An attribute may change how often a function fits. */
static void set_an_attribute(void)
{
    void **binary = fat_register(BUNDLE_PLAIN, 0), *scale, *nap;
    int n;
    OK(hipGetFuncBySymbol(&scale, STUB));
    OK(hipGetFuncBySymbol(&nap, (const void *)(uintptr_t)stub_nap));
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, scale, 64, 0));
    uint64_t asked = halo_client.link.n_asked;
    OK(hipFuncSetAttribute((const void *)(uintptr_t)stub_nap, 8, 0));
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, nap, 64, 0));
    CHECK(n == 1 && halo_client.link.n_asked - asked == 1);
    fat_unregister(binary);
}

static void miss_a_function(void)
{
    void *module = vector_module(), *missing = vector_kernel(module, "scale"), *p = device_floats(1), *stream;
    int n;
    OK(hipMalloc(&stream, 4)); /* its answer comes behind that about the function */
    CHECK_HIP(launch_vector(missing, p, p, 1, 2, NULL), HIP_OUT_OF_MEMORY);
    CHECK_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&n, missing, 64, 0), HIP_INVALID_HANDLE);
    CHECK_HIP(hipDeviceSynchronize(), HIP_OUT_OF_MEMORY);
    OK(hipDeviceSynchronize());
    OK(launch_vector(vector_kernel(module, "scale"), p, p, 1, 2, NULL));
    OK(hipDeviceSynchronize());
}

static void functions_are_looked_up_without_waiting(void **state)
{
    (void)state;
    run_on_worker(NULL, look_up_functions);
    run_on_worker(NULL, set_an_attribute);
    run_on_worker("hipModuleGetFunction:1:oom", miss_a_function);
}

/* ---- streams and graphs ---- */

static void ask_about_streams(void)
{
    void *stream = NULL, *plain = NULL;
    unsigned int flags = 7;
    int value = 7;
    OK(hipStreamCreateWithFlags(&stream, 1));
    OK(hipStreamCreate(&plain));
    CHECK_HIP(hipStreamCreateWithFlags(&stream, 2), HIP_INVALID_VALUE);
    CHECK_HIP(hipStreamCreate(NULL), HIP_INVALID_VALUE);
    OK(hipStreamGetFlags(stream, &flags));
    CHECK(flags == 1);
    OK(hipStreamGetFlags(NULL, &flags));
    CHECK(flags == 0);
    CHECK_HIP(hipStreamGetFlags(stream, NULL), HIP_INVALID_VALUE);
    CHECK_HIP(hipStreamGetFlags(&flags, &flags), HIP_INVALID_HANDLE);
    OK(hipStreamGetPriority(plain, &value));
    CHECK(value == 0);
    OK(hipStreamGetDevice(stream, &value));
    CHECK(value == 0 && hipGetStreamDeviceId(stream) == 0 && hipGetStreamDeviceId(&value) == -1);
    value = 2;
    OK(hipThreadExchangeStreamCaptureMode(&value));
    CHECK(value == 0);
    OK(hipThreadExchangeStreamCaptureMode(&value));
    CHECK(value == 2);
    value = 3;
    CHECK_HIP(hipThreadExchangeStreamCaptureMode(&value), HIP_INVALID_VALUE);
    CHECK_HIP(hipStreamDestroy(NULL), HIP_INVALID_HANDLE);
    CHECK_HIP(hipStreamWaitEvent(stream, NULL, 0), HIP_INVALID_HANDLE);
    CHECK_HIP(hipStreamWaitEvent(stream, NULL, 1), HIP_INVALID_VALUE);
    CHECK_HIP(hipEventRecordWithFlags(NULL, stream, 1), HIP_INVALID_HANDLE);
}

static void *capture(void *kernel, void *p, void *stream)
{
    void *graph = NULL;
    OK(hipStreamBeginCapture(stream, 1));
    CHECK_HIP(hipStreamBeginCapture(stream, 1), HIP_ILLEGAL_STATE);
    OK(launch_vector(kernel, p, p, 1, 2, stream));
    CHECK_HIP(hipStreamEndCapture(stream, NULL), HIP_INVALID_VALUE);
    OK(hipStreamEndCapture(stream, &graph));
    CHECK_HIP(hipStreamEndCapture(stream, &graph), HIP_ILLEGAL_STATE);
    return graph;
}

static void make_graphs(void)
{
    void *stream = new_stream(), *p = device_floats(1), *kernel = vector_kernel(vector_module(), "scale");
    void *exec = NULL, *node = &exec, *graph;
    char log[8] = "log";
    float value = 3;
    int result = 0, status = 7;
    CHECK_HIP(hipStreamBeginCapture(NULL, 1), HIP_CAPTURE_UNSUPPORTED);
    CHECK_HIP(hipStreamBeginCapture(stream, 3), HIP_INVALID_VALUE);
    OK(hipStreamIsCapturing(NULL, &status));
    CHECK(status == 0);
    graph = capture(kernel, p, stream);
    OK(hipGraphInstantiate(&exec, graph, &node, log, sizeof(log)));
    CHECK(exec && !node && log[0] == '\0');
    OK(hipGraphUpload(exec, stream));
    CHECK_HIP(hipGraphUpload(graph, stream), HIP_INVALID_HANDLE);
    OK(hipMemcpyWithStream(p, &value, sizeof(value), HIP_COPY_TO_DEVICE, stream));
    OK(hipGraphLaunch(exec, stream));
    OK(hipMemcpyWithStream(&value, p, sizeof(value), HIP_COPY_TO_HOST, stream));
    CHECK(value == 6);
    CHECK_HIP(hipGraphExecUpdate(exec, graph, &node, &result), HIP_NOT_SUPPORTED);
    CHECK(result == 1); /* so that a program makes a new one */
    CHECK_HIP(hipGraphExecUpdate(exec, graph, NULL, &result), HIP_INVALID_VALUE);
    CHECK_HIP(hipGraphExecUpdate(graph, graph, &node, &result), HIP_INVALID_HANDLE);
    CHECK_HIP(hipGraphInstantiateWithFlags(&exec, graph, 16), HIP_INVALID_VALUE);
    CHECK_HIP(hipGraphInstantiateWithFlags(NULL, graph, 0), HIP_INVALID_VALUE);
    OK(hipGraphExecDestroy(exec));
    CHECK_HIP(hipGraphExecDestroy(exec), HIP_INVALID_HANDLE);
    OK(hipGraphDestroy(graph));
    CHECK_HIP(hipGraphInstantiateWithFlags(&exec, graph, 0), HIP_INVALID_HANDLE);
}

static void streams_and_graphs_are_told_apart(void **state)
{
    (void)state;
    run_on_worker(NULL, ask_about_streams);
    run_on_worker(NULL, make_graphs);
}

/* ---- copies, fills, variables ---- */

static void copy_by_every_name(void)
{
    uint8_t bytes[16] = "0123456789abcde", got[16] = "";
    void *stream = new_stream(), *a = NULL, *b = NULL;
    OK(hipMalloc(&a, 16));
    OK(hipMalloc(&b, 16));
    OK(hipMemcpyHtoD(a, bytes, 16));
    OK(hipMemcpyDtoD(b, a, 16));
    OK(hipMemcpyDtoH(got, b, 16));
    CHECK(memcmp(got, bytes, 16) == 0);
    OK(hipMemsetD8(a, 1, 4));
    OK(hipMemsetD8Async((uint8_t *)a + 4, 2, 4, stream));
    OK(hipMemsetD32Async((uint8_t *)a + 12, 0x04040404, 1, stream));
    OK(hipMemsetD16((uint8_t *)a + 8, 0x0303, 2));
    OK(hipDeviceSynchronize()); /* the stream does not wait for the null stream */
    OK(hipMemcpyDtoHAsync(got, a, 16, stream));
    OK(hipStreamSynchronize(stream));
    CHECK(memcmp(got, "\1\1\1\1\2\2\2\2\3\3\3\3\4\4\4\4", 16) == 0);
    OK(hipMemcpyHtoDAsync(a, bytes, 16, stream));
    OK(hipMemcpyDtoDAsync((uint8_t *)b + 8, (uint8_t *)a + 4, 8, stream));
    OK(hipMemcpyPeerAsync(b, 0, (uint8_t *)a + 8, 0, 8, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpyDtoH(got, b, 16));
    CHECK(memcmp(got, "89abcde\000456789ab", 16) == 0);
    OK(hipMemcpyPeer(b, 0, a, 0, 4));
    CHECK_HIP(hipMemcpyPeer(b, 0, a, 1, 4), HIP_INVALID_DEVICE);
    CHECK_HIP(hipMemcpyDtoD(b, bytes, 16), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyHtoD(a, NULL, 16), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyHtoD(a, bytes, 17), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyHtoDAsync(a, bytes, 16, bytes), HIP_INVALID_HANDLE);
}

static void copy_variables(void)
{
    void **binary = fat_register(BUNDLE_PLAIN, 0);
    float in[4] = {1, 2, 3, 4}, out[4] = {0};
    void *stream = new_stream(), *p = device_floats(4), *at = NULL;
    OK(hipMemcpy(p, in, sizeof(in), HIP_COPY_TO_DEVICE));
    OK(hipMemcpyToSymbol(vector_shift_shadow, p, sizeof(in), 0, HIP_COPY_DEFAULT)); /* on the device */
    OK(hipMemset(p, 0, sizeof(in)));
    OK(hipDeviceSynchronize()); /* the stream does not wait for the null stream */
    OK(hipMemcpyFromSymbolAsync(p, vector_shift_shadow, 8, 8, HIP_COPY_ON_DEVICE, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpy(out, p, sizeof(out), HIP_COPY_TO_HOST));
    CHECK(out[0] == 3 && out[1] == 4 && out[2] == 0);
    OK(hipMemcpyFromSymbol(out, vector_shift_shadow, sizeof(out), 0, HIP_COPY_DEFAULT)); /* to the host */
    CHECK(memcmp(out, in, sizeof(in)) == 0);
    OK(hipGetSymbolAddress(&at, vector_shift_shadow));
    OK(hipMemcpy(out, at, 4, HIP_COPY_TO_HOST));
    CHECK(out[0] == 1);
    CHECK_HIP(hipMemcpyFromSymbol(out, vector_shift_shadow, 8, 12, HIP_COPY_TO_HOST), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyFromSymbol(out, vector_shift_shadow, 4, 0, HIP_COPY_ON_DEVICE), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyToSymbol(vector_shift_shadow, in, 4, 0, HIP_COPY_TO_HOST), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyToSymbolAsync(vector_shift_shadow, in, 4, 0, HIP_COPY_TO_DEVICE, in), HIP_INVALID_HANDLE);
    CHECK_HIP(hipGetSymbolAddress(NULL, vector_shift_shadow), HIP_INVALID_VALUE);
    CHECK_HIP(hipGetSymbolSize(NULL, vector_shift_shadow), HIP_INVALID_VALUE);
    fat_unregister(binary);
}

static void copies_have_many_names(void **state)
{
    (void)state;
    run_on_worker(NULL, copy_by_every_name);
    run_on_worker(NULL, copy_variables);
}

/* ---- texts ---- */

static void texts_need_no_worker(void **state)
{
    const char *text = NULL;
    (void)state;
    assert_int_equal(hipDrvGetErrorName(HIP_OUT_OF_MEMORY, &text), 0);
    assert_string_equal(text, "hipErrorOutOfMemory");
    assert_int_equal(hipDrvGetErrorString(HIP_NOT_READY, &text), 0);
    assert_string_equal(text, "device not ready");
    assert_int_equal(hipDrvGetErrorName(0, NULL), HIP_INVALID_VALUE);
    assert_int_equal(hipDrvGetErrorString(0, NULL), HIP_INVALID_VALUE);
    assert_string_equal(hipGetErrorName(12345), "hipErrorUnknown");
    assert_string_equal(hipGetErrorString(12345), "unknown error");
    struct hip_channel_desc desc = hipCreateChannelDesc(8, 16, 24, 32, 2);
    assert_int_equal(desc.y, 16);
    assert_int_equal(desc.kind, 2);
    assert_string_equal(hipApiName(1), "unknown");
    assert_string_equal(hipGetCmdName(1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_described),
        cmocka_unit_test(kernels_are_described),
        cmocka_unit_test(functions_are_looked_up_without_waiting),
        cmocka_unit_test(streams_and_graphs_are_told_apart),
        cmocka_unit_test(copies_have_many_names),
        cmocka_unit_test(texts_need_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
