/* fat_program.c: registers the bundle and launches by stubs. */
#include "fat_program.h"

#include <string.h>

float vector_shift_shadow[4];

void stub_scale(void)
{
    abort();
}

void stub_shift(void)
{
    abort();
}

void stub_nap(void)
{
    abort();
}

void stub_unknown(void)
{
    abort();
}

static struct {
    uint32_t magic, version;
    const void *image;
    void *unused;
} wrapper = {.magic = 0x48495046, .version = 1};

void **fat_register(enum bundle_method method, int version)
{
    static uint8_t object[1 << 20];
    char name[] = "vector_shift", scale[] = "scale", shift[] = "shift", nap[] = "nap";
    size_t bytes;
    FILE *file = fopen(getenv("HALO_VECTOR_HOST"), "rb");
    CHECK(file);
    size_t n = fread(object, 1, sizeof(object), file);
    fclose(file);
    const struct bundle_entry entries[] = {{"host-x86_64-unknown-linux", NULL, 0},
                                           {"hipv4-amdgcn-amd-amdhsa--gfx1151", "another GPU's", 13},
                                           {"hipv4-amdgcn-amd-amdhsa--host", object, n}};
    wrapper.image = bundle_build(entries, 3, method, version, &bytes);
    void **binary = __hipRegisterFatBinary(&wrapper);
    CHECK(binary);
    __hipRegisterFunction(binary, (const void *)(uintptr_t)stub_scale, scale, scale, 64, NULL, NULL, NULL, NULL, NULL);
    __hipRegisterFunction(binary, (const void *)(uintptr_t)stub_shift, shift, shift, 64, NULL, NULL, NULL, NULL, NULL);
    __hipRegisterFunction(binary, (const void *)(uintptr_t)stub_nap, nap, nap, 64, NULL, NULL, NULL, NULL, NULL);
    __hipRegisterVar(binary, vector_shift_shadow, name, name, 0, sizeof(vector_shift_shadow), 0, 0);
    return binary;
}

void fat_unregister(void **binary)
{
    __hipUnregisterFatBinary(binary);
    free((void *)(uintptr_t)wrapper.image);
}

/* The kernels of vector_host.c take one struct; a compiled stub would list its parts. */
int fat_launch(void (*stub)(void), void *out, const void *in, uint32_t n, float factor, void *stream)
{
    struct vector_scale args = {out, in, n, factor};
    struct hip_dim3 grid, block;
    void *params[] = {&args}, *on;
    size_t lds_bytes;
    OK(__hipPushCallConfiguration((struct hip_dim3){1, 1, 1}, (struct hip_dim3){64, 1, 1}, 0, stream));
    OK(__hipPopCallConfiguration(&grid, &block, &lds_bytes, &on));
    return hipLaunchKernel((const void *)(uintptr_t)stub, grid, block, params, lds_bytes, on);
}
