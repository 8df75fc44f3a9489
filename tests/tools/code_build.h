/* code_build.h: code objects for tests: the note with AMD's metadata, and an ELF file around it.
 *
 * What is built can be wrong on purpose: nothing is checked but the size of the buffer (assert).
 */
#ifndef HALO_TESTS_CODE_BUILD_H
#define HALO_TESTS_CODE_BUILD_H

#include <stddef.h>
#include <stdint.h>

struct code_build_arg {
    uint32_t offset, bytes;
    const char *kind; /* "global_buffer", "by_value", "hidden_block_count_x" */
};

struct code_build_kernel {
    const char *name;
    const struct code_build_arg *args; /* NULL: the document lists none */
    uint32_t n_args;
    uint32_t segment_bytes, threads_per_block, lds_bytes;
    uint32_t block[3]; /* 0: left out */
};

struct code_build {
    const char *target; /* "amdgcn-amd-amdhsa--gfx1151"; NULL: left out */
    const struct code_build_kernel *kernels;
    uint32_t n_kernels;
};

/* The note, with its header. The bytes written. */
size_t code_build_note(uint8_t *buf, size_t cap, const struct code_build *code);

/* An ELF file: header, one segment and one section that are the note. */
size_t code_build_object(uint8_t *buf, size_t cap, const struct code_build *code);

#endif
