/* module.c: the kernel file of the GPU's architecture: found, checked against the manifest, loaded, its functions
 * looked up.
 *
 * kernels.<arch> lies beside kernels.manifest, whose line "object SHA256 BYTES kernels.<arch>" says what was built.
 * Nothing is compiled and nothing is cached. -ENOTSUP: no kernels for this GPU. -EBADMSG: the file is not the one that
 * was built. Device thread.
 */
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_priv.h"

#define FILE_MAX (256ul << 20)

static const char *directory(void)
{
    const char *path = getenv("HALO_KERNEL_DIR");
    return path && *path ? path : HALO_KERNEL_DIR;
}

/* The whole file, freshly allocated; NULL with errno. */
static void *read_file(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "re");
    char *bytes = NULL;
    long n = -1;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (n = ftell(file)) >= 0 && (unsigned long)n <= FILE_MAX &&
        fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)n + 1);
    if (bytes && fread(bytes, 1, (size_t)n, file) != (size_t)n) {
        free(bytes);
        bytes = NULL;
        errno = EIO;
    }
    fclose(file);
    if (bytes) {
        bytes[n] = '\0';
        *ret_n = (size_t)n;
    }
    return bytes;
}

_Static_assert(SHA256_DIGEST_STRING_LENGTH == 65, "64 digits");

/* Whether the manifest has a line for this file with this sum, which is left in `have`. */
static int check_manifest(const char *dir, const char *name, const void *bytes, size_t n, char have[65], char *reason)
{
    char path[320], line_name[80], sum[80];
    unsigned long long n_bytes;
    SHA2_CTX sha;
    size_t n_manifest;
    snprintf(path, sizeof(path), "%.240s/kernels.manifest", dir);
    char *manifest = read_file(path, &n_manifest);
    if (!manifest)
        return halo_reason(reason, -EBADMSG, "%s cannot be read: %s", path, strerror(errno));
    SHA256Init(&sha);
    SHA256Update(&sha, bytes, n);
    SHA256End(&sha, have);
    int r = halo_reason(reason, -EBADMSG, "%s does not name %s", path, name);
    for (char *rest = manifest, *line; (line = strsep(&rest, "\n"));) {
        if (sscanf(line, "object %79s %llu %79s", sum, &n_bytes, line_name) != 3 || strcmp(line_name, name) != 0)
            continue;
        r = n_bytes == n && strcmp(sum, have) == 0
                ? 0
                : halo_reason(reason, -EBADMSG, "%.160s/%s is not the file that its manifest describes", dir, name);
        break;
    }
    free(manifest);
    return r;
}

static int find_functions(struct halo_device *device, char *reason)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < halo_hip_n_variants; i++) {
        int r = device->api.ModuleGetFunction(&device->functions[i], device->module, halo_hip_variants[i].kernel);
        if (r && r != HIP_ERROR_NOT_FOUND)
            return halo_hip_check(device, r, halo_hip_variants[i].kernel, reason);
        if (r)
            device->functions[i] = NULL; /* supports() refuses the ops that need it */
        n += !r;
    }
    return n > 0 ? 0 : halo_reason(reason, -ENOTSUP, "%s holds none of the kernels", device->kernels_path);
}

/* When all functions are known: the client of remote HIP asks its worker about the others with the first one. */
static void count_resident(struct halo_device *device)
{
    for (uint32_t i = 0; i < halo_hip_n_variants; i++) {
        int blocks = 0, r = -1;
        if (device->functions[i])
            r = device->api.ModuleOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, device->functions[i],
                                                                            (int)halo_hip_variants[i].block, 0);
        device->n_resident[i] = !r && blocks > 0 ? (uint32_t)blocks * device->properties.n_units : 0;
    }
}

int halo_hip_module_load(struct halo_device *device, char *reason)
{
    char name[80], what[320];
    const char *dir = directory();
    size_t n;
    snprintf(name, sizeof(name), "kernels.%.64s", device->properties.arch);
    snprintf(device->kernels_path, sizeof(device->kernels_path), "%.170s/%.80s", dir, name);
    void *image = read_file(device->kernels_path, &n);
    if (!image)
        return halo_reason(reason, errno == ENOENT ? -ENOTSUP : -EBADMSG, "no kernels for %s (%.100s): %s: %s",
                           device->properties.arch, device->name, device->kernels_path, strerror(errno));
    int r = check_manifest(dir, name, image, n, device->kernels_sha256, reason);
    if (!r) {
        snprintf(what, sizeof(what), "loading %.200s", device->kernels_path);
        r = halo_hip_check(device, device->api.ModuleLoadData(&device->module, image), what, reason);
    }
    free(image);
    if (!r)
        r = find_functions(device, reason);
    if (!r)
        count_resident(device);
    return r;
}

int halo_hip_kernel_find(const struct halo_device *device, uint32_t op, uint32_t type, uint32_t rows)
{
    const struct halo_hip_variant *v = halo_hip_variant_find(op, type, rows);
    uint32_t index = v ? (uint32_t)(v - halo_hip_variants) : 0;
    return v && device->functions[index] ? (int)index : -1;
}
