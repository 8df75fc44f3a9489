/* code_note.c: writes the AMDGPU metadata of a module of host kernels, so that what reads code objects can read it.
 *
 *   code-note MODULE TARGET NOTE
 *
 * MODULE has the interface of tests/hip-emu/host/host_abi.h; NOTE becomes a section of it. Its kernels take one
 * argument by value, a struct.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_build.h"
#include "host_abi.h"

#define KERNELS_MAX 4096
#define NOTE_BYTES (1u << 20)

static struct code_build_kernel kernels[KERNELS_MAX];
static struct code_build_arg args[KERNELS_MAX];

int main(int argc, char **argv)
{
    void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
    halo_host_kernel_find_fn *find = NULL;
    struct code_build code = {.target = argv[2], .kernels = kernels};
    if (library)
        *(void **)&find = dlsym(library, "halo_host_kernel_find");
    if (!find) {
        fprintf(stderr, "code-note: %s\n", argc == 4 ? dlerror() : "usage: code-note MODULE TARGET NOTE");
        return 1;
    }
    for (const struct halo_host_kernel *k = find(NULL); k; k = k->next, code.n_kernels++) {
        if (code.n_kernels == KERNELS_MAX)
            return 1;
        args[code.n_kernels] = (struct code_build_arg){0, k->args_bytes, "by_value"};
        kernels[code.n_kernels] = (struct code_build_kernel){
            .name = k->name,
            .args = &args[code.n_kernels],
            .n_args = 1,
            .segment_bytes = k->args_bytes,
            .threads_per_block = k->block,
        };
    }
    uint8_t *note = malloc(NOTE_BYTES);
    FILE *out = fopen(argv[3], "wb");
    if (!note || !out)
        return 1;
    size_t n = code_build_note(note, NOTE_BYTES, &code);
    if (fwrite(note, 1, n, out) != n || fclose(out) != 0)
        return 1;
    free(note);
    return 0;
}
