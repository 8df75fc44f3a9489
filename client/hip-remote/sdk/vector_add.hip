// vector_add.hip: a kernel, a variable of the device and a launch: hip-remote-cc vector_add.hip -o vector_add
#include <cstdio>
#include <hip/hip_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t error_ = (call);                                                                                    \
        if (error_ != hipSuccess) {                                                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error_));                                        \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

constexpr int BLOCK = 64, N = 1000;

__constant__ float factors[2];

template <typename T> __global__ void add(T *out, const T *a, const T *b, int n)
{
    int i = static_cast<int>(blockIdx.x) * BLOCK + static_cast<int>(threadIdx.x);
    if (i < n)
        out[i] = factors[0] * a[i] + factors[1] * b[i];
}

int main()
{
    static float a[N], b[N], out[N];
    const float scale[2] = {2, 3};
    float *on_device[3];
    for (int i = 0; i < N; i++) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(N - i);
    }
    for (float *&p : on_device)
        CHECK(hipMalloc(reinterpret_cast<void **>(&p), sizeof(out)));
    CHECK(hipMemcpyToSymbol(factors, scale, sizeof(scale), 0, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(on_device[0], a, sizeof(a), hipMemcpyHostToDevice));
    CHECK(hipMemcpy(on_device[1], b, sizeof(b), hipMemcpyHostToDevice));
    add<<<(N + BLOCK - 1) / BLOCK, BLOCK>>>(on_device[2], on_device[0], on_device[1], N);
    CHECK(hipGetLastError());
    CHECK(hipMemcpy(out, on_device[2], sizeof(out), hipMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        if (out[i] != 2 * a[i] + 3 * b[i]) {
            std::fprintf(stderr, "out[%d] is %g, not %g\n", i, static_cast<double>(out[i]),
                         static_cast<double>(2 * a[i] + 3 * b[i]));
            return 1;
        }
    for (float *p : on_device)
        CHECK(hipFree(p));
    std::printf("%d sums are right\n", N);
    return 0;
}
