/* code_object.h: what a code object says about its kernels: target, arguments, limits of a launch.
 *
 * A code object is an ELF file whose note NT_AMDGPU_METADATA holds a msgpack document (AMDGPU backend of LLVM, code
 * objects of version 3 and later). The client needs it to gather the arguments of a launch, the worker to check what a
 * client sends. The image is untrusted: every offset, length and count is checked against its size, and the tables of
 * the ELF file must lie in it, because HIP gets an image without its size.
 * Names point into the image, which must outlive the object. Any thread.
 */
#ifndef HALO_HIP_REMOTE_CODE_OBJECT_H
#define HALO_HIP_REMOTE_CODE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/message.h>

#define HALO_CODE_KERNELS_MAX 65536u
#define HALO_CODE_ARGS_MAX 1024u /* of one kernel */
#define HALO_CODE_IMAGE_MAX ((size_t)512 << 20)

struct halo_code_arg {
    uint32_t offset, bytes;
    bool is_pointer; /* to the device's memory; false: by value */
    bool is_hidden;  /* filled in by the runtime */
};

struct halo_code_kernel {
    struct halo_remote_bytes name;
    uint32_t first_arg, n_args; /* in the object's list; explicit ones and hidden ones */
    uint32_t arg_bytes;         /* end of the last explicit argument */
    uint32_t segment_bytes;     /* with the hidden ones */
    uint32_t threads_per_block; /* the most that it may be launched with; 0: not said */
    uint32_t block[3];          /* the only block that it may be launched with; 0: any */
    uint32_t lds_bytes;         /* static */
    bool has_args;              /* false: the document lists none; launched with one block of arguments only */
};

struct halo_code_object {
    struct halo_remote_bytes target; /* "gfx1030": the processor, without features; n 0: not said */
    struct halo_code_kernel *kernels;
    struct halo_code_arg *args;
    uint32_t n_kernels, n_args;
};

/* 0; -ENOEXEC not an ELF file of 64 bits, little-endian, or one whose tables leave it; -EBADMSG metadata that is
 * missing, cut or wrong; -E2BIG more than the limits; -ENOMEM. `ret_reason`: half a sentence, static. */
int halo_code_object_parse(const void *image, size_t n, struct halo_code_object *ret, const char **ret_reason);
void halo_code_object_finish(struct halo_code_object *object); /* takes a zeroed one */

/* NULL: it has no such kernel. */
const struct halo_code_kernel *halo_code_object_find(const struct halo_code_object *object,
                                                     struct halo_remote_bytes name);

/* Whether the object is for this processor ("gfx1151"; what follows a colon is ignored): by its name, or as a generic
 * target of its family ("gfx11-generic"). */
bool halo_code_object_is_for(const struct halo_code_object *object, const char *arch);

#endif
