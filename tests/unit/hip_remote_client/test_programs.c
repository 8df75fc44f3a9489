/* test_programs.c: programs of others, through client, hip-worker and the emulated runtime: what hipcc compiles, what
 * hipInfo asks, and the calls of llama.cpp's HIP backend in their order. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fat_program.h"

/* ---- compiled programs ---- */

static void run_compiled(enum bundle_method method, int version)
{
    float in[5] = {1, 2, 3, 4, 5}, out[5], shift[4] = {10, 20, 30, 40}, back[4] = {0};
    void **binary = fat_register(method, version); /* before any session */
    void *stream = new_stream(), *p = device_floats(5);
    size_t bytes = 0;
    OK(hipMemcpyAsync(p, in, sizeof(in), HIP_COPY_TO_DEVICE, stream));
    OK(fat_launch(stub_scale, p, p, 5, 2, stream));
    OK(hipMemcpyToSymbolAsync(vector_shift_shadow, shift, sizeof(shift), 0, HIP_COPY_TO_DEVICE, stream));
    OK(fat_launch(stub_shift, p, p, 5, 0, stream));
    OK(hipMemcpyAsync(out, p, sizeof(out), HIP_COPY_TO_HOST, stream));
    OK(hipStreamSynchronize(stream));
    CHECK(out[0] == 12 && out[1] == 24 && out[2] == 36 && out[3] == 48 && out[4] == 20);

    OK(hipMemcpyFromSymbol(back, vector_shift_shadow, 2 * sizeof(float), sizeof(float), HIP_COPY_TO_HOST));
    CHECK(back[0] == 20 && back[1] == 30 && back[2] == 0);
    OK(hipGetSymbolSize(&bytes, vector_shift_shadow));
    CHECK(bytes == sizeof(shift));
    CHECK_HIP(hipMemcpyToSymbol(vector_shift_shadow, shift, sizeof(shift), 4, HIP_COPY_TO_DEVICE), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpyToSymbol(in, shift, sizeof(shift), 0, HIP_COPY_TO_DEVICE), HIP_INVALID_SYMBOL);
    CHECK_HIP(fat_launch(stub_unknown, p, p, 5, 2, stream), HIP_INVALID_DEVICE_FUNCTION);
    CHECK_HIP(hipGetLastError(), HIP_INVALID_DEVICE_FUNCTION);

    CHECK(strcmp(hipKernelNameRefByPtr((const void *)(uintptr_t)stub_shift, NULL), "shift") == 0);
    fat_unregister(binary);
    CHECK_HIP(fat_launch(stub_scale, p, p, 5, 2, stream), HIP_INVALID_DEVICE_FUNCTION);
    OK(hipDeviceSynchronize());
}

static void run_plain(void)
{
    run_compiled(BUNDLE_PLAIN, 0);
}

static void run_zlib(void)
{
    run_compiled(BUNDLE_ZLIB, 2);
}

static void run_zstd(void)
{
    run_compiled(BUNDLE_ZSTD, 3);
}

static void compiled_programs_run(void **state)
{
    (void)state;
    run_on_worker(NULL, run_plain);
    run_on_worker(NULL, run_zlib);
    run_on_worker(NULL, run_zstd);
}

/* The error comes with the launch, as in HIP, and not from a constructor. */
static void run_for_another_gpu(void)
{
    static const struct bundle_entry entries[] = {{"hipv4-amdgcn-amd-amdhsa--gfx1151", "another GPU's", 13}};
    static struct {
        uint32_t magic, version;
        const void *image;
        void *unused;
    } wrappers[2] = {{0x48495046, 1, NULL, NULL}, {0x4b504948, 1, "", NULL}};
    char name[] = "scale";
    size_t n;
    wrappers[0].image = bundle_build(entries, 1, BUNDLE_PLAIN, 0, &n);
    void **other = __hipRegisterFatBinary(&wrappers[0]), **apart = __hipRegisterFatBinary(&wrappers[1]);
    void *p = device_floats(1);
    __hipRegisterFunction(other, (const void *)(uintptr_t)stub_scale, name, name, 0, NULL, NULL, NULL, NULL, NULL);
    __hipRegisterFunction(apart, (const void *)(uintptr_t)stub_nap, name, name, 0, NULL, NULL, NULL, NULL, NULL);
    CHECK_HIP(fat_launch(stub_scale, p, p, 1, 2, NULL), HIP_NO_BINARY_FOR_GPU);
    CHECK_HIP(fat_launch(stub_scale, p, p, 1, 2, NULL), HIP_NO_BINARY_FOR_GPU);
    CHECK_HIP(fat_launch(stub_nap, p, p, 1, 2, NULL), HIP_INVALID_IMAGE);
    OK(hipDeviceSynchronize());
    __hipUnregisterFatBinary(other);
    __hipUnregisterFatBinary(other); /* no more */
}

static void code_for_another_gpu_fails_at_its_launch(void **state)
{
    (void)state;
    run_on_worker(NULL, run_for_another_gpu);
}

static void nest_configurations(void)
{
    struct hip_dim3 grid, block;
    size_t lds;
    void *stream;
    CHECK_HIP(__hipPopCallConfiguration(&grid, &block, &lds, &stream), HIP_INVALID_VALUE);
    for (unsigned i = 1; i <= 3; i++)
        OK(__hipPushCallConfiguration((struct hip_dim3){i, 2, 3}, (struct hip_dim3){4, 5, 6}, i, NULL));
    for (unsigned i = 3; i >= 1; i--) {
        OK(__hipPopCallConfiguration(&grid, &block, &lds, &stream));
        CHECK(grid.x == i && grid.z == 3 && block.x == 4 && block.z == 6 && lds == i);
    }
}

static void configurations_nest(void **state)
{
    const struct worker none = {.folder = "/nonexistent"};
    (void)state;
    check_program(program_status(&none, nest_configurations));
}

/* ---- hipInfo ---- */

static void ask_like_hip_info(void)
{
    static uint8_t properties[1472];
    int n = 0, value = -1, wave, integrated, can_map;
    size_t free_bytes, total;
    OK(hipGetDeviceCount(&n));
    CHECK(n == 1);
    for (int i = 0; i < n; i++) {
        OK(hipSetDevice(i));
        OK(hipGetDevicePropertiesR0600(properties, i));
        memcpy(&wave, properties + 308, sizeof(wave));
        memcpy(&integrated, properties + 396, sizeof(integrated));
        memcpy(&can_map, properties + 400, sizeof(can_map));
        CHECK(strcmp((const char *)properties, "emulated GPU 0") == 0);
        CHECK(strcmp((const char *)properties + 1160, "host:emulated") == 0);
        CHECK(wave == 32 && integrated == 0 && can_map == 0);
        OK(hipDeviceGetAttribute(&value, 87, i));
        CHECK(value == 32);
        OK(hipDeviceGetAttribute(&value, 16, i)); /* integrated: never, over a network */
        CHECK(value == 0);
        for (int j = 0; j < n; j++) {
            OK(hipDeviceCanAccessPeer(&value, i, j));
            CHECK(value == 0);
        }
        OK(hipMemGetInfo(&free_bytes, &total));
        CHECK(free_bytes > 0 && free_bytes <= total);
    }
    CHECK(strcmp(hipGetErrorString(HIP_OUT_OF_MEMORY), "out of memory") == 0);
    CHECK_HIP(hipSetDevice(n), HIP_INVALID_DEVICE);
    uint8_t uuid[16];
    OK(hipDeviceGetUuid(uuid, 0));
    CHECK(memcmp(uuid, "an emulated GPU.", 16) == 0);
}

static void hip_info_has_its_answers(void **state)
{
    (void)state;
    run_on_worker(NULL, ask_like_hip_info);
}

/* ---- llama.cpp: load, a prompt, decode steps as graphs ---- */

#define N_ROWS 8
#define N_COLS 16

struct backend {
    void *copies, *compute, *loaded, *weights, *x, *y;
    float *pinned;
    void *graph_exec;
};

static void load_weights(struct backend *b)
{
    float padded[N_ROWS][N_COLS + 4], row[N_COLS];
    void *rows = NULL;
    size_t pitch = (N_COLS + 4) * sizeof(float);
    for (int i = 0; i < N_ROWS; i++)
        for (int j = 0; j < N_COLS + 4; j++)
            padded[i][j] = (float)(i * 100 + j);
    OK(hipMalloc(&rows, N_ROWS * N_COLS * sizeof(float)));
    OK(hipMemsetAsync(rows, 0, N_ROWS * N_COLS * sizeof(float), b->copies));
    /* A tensor whose rows have gaps on the host; what is behind it in the source must not arrive. */
    OK(hipMemcpy2DAsync(rows, N_COLS * sizeof(float), padded, pitch, N_COLS * sizeof(float), N_ROWS, HIP_COPY_TO_DEVICE,
                        b->copies));
    memset(padded, 0, sizeof(padded)); /* the source was read */
    OK(hipEventRecord(b->loaded, b->copies));
    OK(hipStreamWaitEvent(b->compute, b->loaded, 0));
    OK(hipMemcpy2DAsync(row, sizeof(float), (const float *)rows + 3, N_COLS * sizeof(float), sizeof(float), N_ROWS,
                        HIP_COPY_TO_HOST, b->compute)); /* a column */
    OK(hipStreamSynchronize(b->compute));
    for (int i = 0; i < N_ROWS; i++)
        CHECK(row[i] == (float)(i * 100 + 3));
    OK(hipGetLastError());
    b->weights = rows;
}

static void step(struct backend *b)
{
    OK(fat_launch(stub_scale, b->y, b->x, N_COLS, 3, b->compute));
    OK(hipGetLastError());
    OK(fat_launch(stub_shift, b->y, b->y, N_COLS, 0, b->compute));
    OK(hipGetLastError());
}

static void decode(struct backend *b, int n_steps)
{
    int status = -1;
    void *graph = NULL;
    OK(hipStreamIsCapturing(b->compute, &status));
    CHECK(status == 0);
    OK(hipStreamBeginCapture(b->compute, 2));
    step(b);
    OK(hipStreamIsCapturing(b->compute, &status));
    CHECK(status == 1);
    OK(hipStreamEndCapture(b->compute, &graph));
    OK(hipGraphInstantiate(&b->graph_exec, graph, NULL, NULL, 0));
    OK(hipGraphDestroy(graph));
    for (int i = 0; i < n_steps; i++) {
        for (int j = 0; j < N_COLS; j++)
            b->pinned[j] = (float)(i + j);
        OK(hipMemcpyAsync(b->x, b->pinned, N_COLS * sizeof(float), HIP_COPY_TO_DEVICE, b->compute));
        OK(hipGraphLaunch(b->graph_exec, b->compute));
        OK(hipMemcpyAsync(b->pinned, b->y, N_COLS * sizeof(float), HIP_COPY_TO_HOST, b->compute));
        OK(hipStreamSynchronize(b->compute));
        for (int j = 0; j < N_COLS; j++)
            CHECK(b->pinned[j] == 3 * (float)(i + j) + (float)(j % 4 + 1));
    }
    OK(hipGraphExecDestroy(b->graph_exec));
}

static void run_like_llama(void)
{
    static const float shift[4] = {1, 2, 3, 4};
    void **binary = fat_register(BUNDLE_ZSTD, 3);
    struct backend b = {.copies = new_stream(), .compute = new_stream(), .loaded = new_event()};
    int blocks = 0, device = -1;
    float registered[N_COLS];
    OK(hipSetDevice(0));
    OK(hipGetDevice(&device));
    CHECK(device == 0);
    OK(hipFuncSetAttribute((const void *)(uintptr_t)stub_scale, 8, 0));
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)(uintptr_t)stub_scale, 64, 0));
    CHECK(blocks == 1);
    OK(hipMemcpyToSymbol(vector_shift_shadow, shift, sizeof(shift), 0, HIP_COPY_TO_DEVICE));
    OK(hipDeviceSynchronize());
    load_weights(&b);
    OK(hipMalloc(&b.x, N_COLS * sizeof(float)));
    OK(hipMalloc(&b.y, N_COLS * sizeof(float)));
    OK(hipHostMalloc((void **)&b.pinned, N_COLS * sizeof(float), 0));
    decode(&b, 5);
    /* Memory that the program registers. */
    OK(hipHostRegister(registered, sizeof(registered), 2));
    CHECK_HIP(hipHostRegister(registered, sizeof(registered), 2), HIP_HOST_ALREADY_REGISTERED);
    OK(hipHostUnregister(registered));
    CHECK_HIP(hipMallocPitch(&b.x, NULL, 1, 1), HIP_INVALID_VALUE);
    OK(hipFree(b.weights));
    OK(hipHostFree(b.pinned));
    OK(hipEventDestroy(b.loaded));
    OK(hipStreamDestroy(b.copies));
    OK(hipStreamDestroy(b.compute));
    fat_unregister(binary);
}

static void the_calls_of_llama_cpp_work(void **state)
{
    (void)state;
    run_on_worker(NULL, run_like_llama);
}

/* ---- rows, fills, addresses ---- */

static void copy_rows(void)
{
    enum { WIDTH = 9000, PITCH = 9216, N = 5 }; /* rows that are sent by themselves, and narrow ones */
    uint8_t *from = malloc(PITCH * N), *to = calloc(1, PITCH * N);
    void *a = NULL, *b = NULL, *base = NULL;
    size_t pitch = 0, bytes = 0;
    struct hip_pointer_attributes what;
    CHECK(from && to);
    for (size_t i = 0; i < PITCH * N; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 11);
    OK(hipMallocPitch(&a, &pitch, WIDTH, N));
    CHECK(pitch == PITCH);
    OK(hipMalloc(&b, PITCH * N));
    OK(hipMemset(a, 0, PITCH * N));
    for (size_t width = 3; width <= WIDTH; width *= 3000) {
        OK(hipMemcpy2D(a, pitch, from, PITCH, width, N, HIP_COPY_DEFAULT));
        OK(hipMemcpy2D(b, PITCH, a, pitch, width, N, HIP_COPY_DEFAULT));
        memset(to, 0, PITCH * N);
        OK(hipMemcpy2D(to, PITCH, b, PITCH, width, N, HIP_COPY_DEFAULT));
        for (size_t i = 0; i < N; i++) {
            CHECK(memcmp(to + i * PITCH, from + i * PITCH, width) == 0);
            CHECK(to[i * PITCH + width] == 0);
        }
    }
    CHECK_HIP(hipMemcpy2D(a, 8, from, 16, 16, 1, HIP_COPY_TO_DEVICE), HIP_INVALID_PITCH);
    CHECK_HIP(hipMemcpy2D(a, pitch, from, PITCH, WIDTH, N + 1, HIP_COPY_TO_DEVICE), HIP_INVALID_VALUE);
    CHECK_HIP(hipMemcpy2D(a, SIZE_MAX / 2, from, PITCH, WIDTH, N, HIP_COPY_TO_DEVICE), HIP_INVALID_VALUE);

    OK(hipMemsetD32((uint8_t *)b + 4, 0x01020304, 2));
    OK(hipMemsetD16Async((uint8_t *)b + 12, 0x0506, 1, NULL));
    OK(hipMemset2D((uint8_t *)b + 14, PITCH, 7, 1, 2));
    OK(hipMemcpyDtoH(to, b, 2 * PITCH));
    CHECK(memcmp(to + 4, "\4\3\2\1\4\3\2\1\6\5\7", 11) == 0 && to[PITCH + 14] == 7);
    CHECK_HIP(hipMemsetD32((uint8_t *)b + 2, 0, 1), HIP_INVALID_VALUE);

    OK(hipPointerGetAttributes(&what, (uint8_t *)a + 100));
    CHECK(what.type == HIP_MEMORY_DEVICE && what.device == 0 && what.device_pointer == (uint8_t *)a + 100);
    OK(hipPointerGetAttributes(&what, to));
    CHECK(what.type == HIP_MEMORY_UNREGISTERED);
    OK(hipMemGetAddressRange(&base, &bytes, (uint8_t *)a + 100));
    CHECK(base == a && bytes == PITCH * N);
    free(from);
    free(to);
}

static void rows_are_copied(void **state)
{
    (void)state;
    run_on_worker(NULL, copy_rows);
}

/* ---- order between streams ---- */

static void wait_across_streams(void)
{
    void *module = vector_module(), *nap = vector_kernel(module, "nap"), *scale = vector_kernel(module, "scale");
    void *first = new_stream(), *second = new_stream(), *begin, *end = new_event(), *p = device_floats(1);
    float one = 1, out = 0, ms = 0;
    int priority = 7;
    OK(hipMemcpy(p, &out, sizeof(out), HIP_COPY_TO_DEVICE)); /* the worker has what its first copy takes */
    OK(hipEventCreate(&begin));
    OK(hipEventRecord(begin, first));
    OK(launch_vector(nap, p, p, 500, 0, first));
    OK(hipMemcpyAsync(p, &one, sizeof(one), HIP_COPY_TO_DEVICE, first));
    OK(hipEventRecord(end, first));
    OK(hipStreamWaitEvent(second, end, 0));
    OK(launch_vector(scale, p, p, 1, 5, second));
    OK(hipMemcpyAsync(&out, p, sizeof(out), HIP_COPY_TO_HOST, second));
    CHECK(out == 5);
    OK(hipEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 500);
    OK(hipStreamQuery(second));
    OK(hipStreamCreateWithPriority(&first, 1, -1));
    OK(hipStreamGetPriority(first, &priority));
    CHECK(priority == -1);
}

static void streams_wait_for_events(void **state)
{
    (void)state;
    run_on_worker(NULL, wait_across_streams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_programs_run),       cmocka_unit_test(code_for_another_gpu_fails_at_its_launch),
        cmocka_unit_test(configurations_nest),         cmocka_unit_test(hip_info_has_its_answers),
        cmocka_unit_test(the_calls_of_llama_cpp_work), cmocka_unit_test(rows_are_copied),
        cmocka_unit_test(streams_wait_for_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
