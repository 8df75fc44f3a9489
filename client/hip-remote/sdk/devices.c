/* devices.c: lists the worker's GPUs and reads a megabyte back from each: the least program of remote HIP, in C. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hip/hip_runtime.h>

#define BYTES ((size_t)1 << 20)

static int report(hipError_t error, const char *call)
{
    fprintf(stderr, "%s: %s\n", call, hipGetErrorString(error));
    return 1;
}

static int move(int device)
{
    char name[256] = "";
    unsigned char *bytes = malloc(BYTES);
    void *p = NULL;
    size_t free_bytes, total;
    hipError_t error = hipSetDevice(device);
    if (!bytes || error || (error = hipDeviceGetName(name, sizeof(name), device)) ||
        (error = hipMemGetInfo(&free_bytes, &total)) || (error = hipMalloc(&p, BYTES)) ||
        (error = hipMemset(p, device + 1, BYTES)) || (error = hipMemcpy(bytes, p, BYTES, hipMemcpyDeviceToHost)) ||
        (error = hipFree(p)))
        return report(error, "device");
    size_t n_wrong = 0;
    for (size_t i = 0; i < BYTES; i++)
        n_wrong += bytes[i] != (unsigned char)(device + 1);
    printf("device %d: %s, %zu of %zu MiB free, %zu wrong bytes\n", device, name, free_bytes >> 20, total >> 20,
           n_wrong);
    free(bytes);
    return n_wrong > 0;
}

int main(void)
{
    int n = 0, failed = 0;
    hipError_t error = hipGetDeviceCount(&n);
    if (error)
        return report(error, "hipGetDeviceCount");
    for (int i = 0; i < n && !failed; i++)
        failed = move(i);
    return failed;
}
