/* code_object.c: kernels and their arguments from the metadata of a code object. Any thread. */
#include <hip_remote/code_object.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf_priv.h"
#include "msgpack_priv.h"

#define KIND_HIDDEN "hidden_"

static bool begins_with(struct halo_remote_bytes text, const char *head)
{
    size_t n = strlen(head);
    return text.n >= n && memcmp(text.at, head, n) == 0;
}

/* ---- arguments ---- */

static int parse_arg(struct halo_msgpack *m, struct halo_code_arg *ret)
{
    uint32_t pairs;
    bool has_offset = false, has_bytes = false, ok = halo_msgpack_map(m, &pairs);
    *ret = (struct halo_code_arg){0};
    for (uint32_t i = 0; ok && i < pairs; i++) {
        struct halo_remote_bytes key, kind;
        ok = halo_msgpack_text(m, &key);
        if (!ok)
            break;
        if (halo_msgpack_is(key, ".offset")) {
            ok = has_offset = halo_msgpack_u32(m, &ret->offset);
        } else if (halo_msgpack_is(key, ".size")) {
            ok = has_bytes = halo_msgpack_u32(m, &ret->bytes);
        } else if (halo_msgpack_is(key, ".value_kind")) {
            ok = halo_msgpack_text(m, &kind);
            ret->is_pointer = ok && halo_msgpack_is(kind, "global_buffer");
            ret->is_hidden = ok && begins_with(kind, KIND_HIDDEN);
        } else {
            ok = halo_msgpack_skip(m);
        }
    }
    return ok && has_offset && has_bytes ? 0 : -EBADMSG;
}

static int parse_args(struct halo_msgpack *m, struct halo_code_object *object, struct halo_code_kernel *kernel)
{
    uint32_t n;
    if (!halo_msgpack_array(m, &n) || kernel->has_args)
        return -EBADMSG;
    if (n > HALO_CODE_ARGS_MAX)
        return -E2BIG;
    struct halo_code_arg *args = realloc(object->args, (object->n_args + (size_t)n + 1) * sizeof(*args));
    if (!args)
        return -ENOMEM;
    object->args = args;
    kernel->first_arg = object->n_args;
    kernel->n_args = n;
    kernel->has_args = true;
    for (uint32_t i = 0; i < n; i++) {
        struct halo_code_arg *arg = &args[object->n_args];
        int r = parse_arg(m, arg);
        if (r < 0)
            return r;
        object->n_args++;
        uint64_t end = (uint64_t)arg->offset + arg->bytes;
        if (end > UINT32_MAX)
            return -EBADMSG;
        if (!arg->is_hidden && end > kernel->arg_bytes)
            kernel->arg_bytes = (uint32_t)end;
    }
    return 0;
}

/* ---- kernels ---- */

static bool parse_block(struct halo_msgpack *m, uint32_t block[3])
{
    uint32_t n;
    if (!halo_msgpack_array(m, &n) || n != 3)
        return false;
    return halo_msgpack_u32(m, &block[0]) && halo_msgpack_u32(m, &block[1]) && halo_msgpack_u32(m, &block[2]);
}

static int parse_kernel_field(struct halo_msgpack *m, struct halo_remote_bytes key, struct halo_code_object *object,
                              struct halo_code_kernel *kernel)
{
    bool ok;
    if (halo_msgpack_is(key, ".args"))
        return parse_args(m, object, kernel);
    if (halo_msgpack_is(key, ".name"))
        ok = halo_msgpack_text(m, &kernel->name);
    else if (halo_msgpack_is(key, ".kernarg_segment_size"))
        ok = halo_msgpack_u32(m, &kernel->segment_bytes);
    else if (halo_msgpack_is(key, ".max_flat_workgroup_size"))
        ok = halo_msgpack_u32(m, &kernel->threads_per_block);
    else if (halo_msgpack_is(key, ".group_segment_fixed_size"))
        ok = halo_msgpack_u32(m, &kernel->lds_bytes);
    else if (halo_msgpack_is(key, ".reqd_workgroup_size"))
        ok = parse_block(m, kernel->block);
    else
        ok = halo_msgpack_skip(m);
    return ok ? 0 : -EBADMSG;
}

static int parse_kernel(struct halo_msgpack *m, struct halo_code_object *object, struct halo_code_kernel *kernel)
{
    uint32_t pairs;
    if (!halo_msgpack_map(m, &pairs))
        return -EBADMSG;
    for (uint32_t i = 0; i < pairs; i++) {
        struct halo_remote_bytes key;
        if (!halo_msgpack_text(m, &key))
            return -EBADMSG;
        int r = parse_kernel_field(m, key, object, kernel);
        if (r < 0)
            return r;
    }
    if (kernel->name.n == 0 || kernel->arg_bytes > kernel->segment_bytes)
        return -EBADMSG;
    return kernel->segment_bytes > HALO_REMOTE_ARGS_MAX || kernel->name.n > HALO_REMOTE_NAME_MAX ? -E2BIG : 0;
}

static int parse_kernels(struct halo_msgpack *m, struct halo_code_object *object)
{
    uint32_t n;
    if (!halo_msgpack_array(m, &n) || object->kernels)
        return -EBADMSG;
    if (n > HALO_CODE_KERNELS_MAX)
        return -E2BIG;
    object->kernels = calloc((size_t)n + 1, sizeof(*object->kernels));
    if (!object->kernels)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        int r = parse_kernel(m, object, &object->kernels[i]);
        if (r < 0)
            return r;
        object->n_kernels++;
    }
    return 0;
}

/* "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-" to "gfx90a". */
static struct halo_remote_bytes processor_of(struct halo_remote_bytes target)
{
    const char *at = target.at;
    uint32_t begin = 0, end = 0;
    while (end < target.n && at[end] != ':')
        end++;
    for (uint32_t i = 0; i + 1 < end; i++)
        if (at[i] == '-' && at[i + 1] == '-')
            begin = i + 2;
    return (struct halo_remote_bytes){at + begin, end - begin};
}

static int parse_document(struct halo_msgpack *m, struct halo_code_object *object)
{
    uint32_t pairs;
    if (!halo_msgpack_map(m, &pairs))
        return -EBADMSG;
    for (uint32_t i = 0; i < pairs; i++) {
        struct halo_remote_bytes key, target;
        int r = 0;
        if (!halo_msgpack_text(m, &key))
            return -EBADMSG;
        if (halo_msgpack_is(key, "amdhsa.kernels")) {
            r = parse_kernels(m, object);
        } else if (halo_msgpack_is(key, "amdhsa.target")) {
            r = halo_msgpack_text(m, &target) ? 0 : -EBADMSG;
            if (r == 0)
                object->target = processor_of(target);
        } else if (!halo_msgpack_skip(m)) {
            r = -EBADMSG;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int halo_code_object_parse(const void *image, size_t n, struct halo_code_object *ret, const char **ret_reason)
{
    struct halo_remote_bytes metadata;
    *ret = (struct halo_code_object){0};
    if (n > HALO_CODE_IMAGE_MAX) {
        *ret_reason = "is larger than 512 MiB";
        return -E2BIG;
    }
    int r = halo_elf_metadata(image, n, &metadata, ret_reason);
    if (r < 0)
        return r;
    struct halo_msgpack m = {metadata.at, metadata.n};
    r = parse_document(&m, ret);
    if (r < 0) {
        *ret_reason = r == -E2BIG    ? "has more kernels or arguments than the limits"
                      : r == -ENOMEM ? "needs more memory than there is"
                                     : "has metadata that cannot be read";
        halo_code_object_finish(ret);
    }
    return r;
}

void halo_code_object_finish(struct halo_code_object *object)
{
    free(object->kernels);
    free(object->args);
    *object = (struct halo_code_object){0};
}

const struct halo_code_kernel *halo_code_object_find(const struct halo_code_object *object,
                                                     struct halo_remote_bytes name)
{
    for (uint32_t i = 0; i < object->n_kernels; i++) {
        const struct halo_code_kernel *kernel = &object->kernels[i];
        if (kernel->name.n == name.n && memcmp(kernel->name.at, name.at, name.n) == 0)
            return kernel;
    }
    return NULL;
}

/* "gfx11-generic" is for gfx1100 and gfx1151, "gfx10-3-generic" for gfx1030. */
static bool generic_is_for(const char *target, size_t n, const char *arch)
{
    static const char generic[] = "-generic";
    size_t tail = sizeof(generic) - 1;
    if (n <= tail || memcmp(target + n - tail, generic, tail) != 0)
        return false;
    for (size_t i = 0; i < n - tail; i++) {
        if (target[i] == '-')
            continue;
        if (*arch == '\0' || *arch++ != target[i])
            return false;
    }
    return true;
}

bool halo_code_object_is_for(const struct halo_code_object *object, const char *arch)
{
    size_t n = strcspn(arch, ":");
    const struct halo_remote_bytes *target = &object->target;
    if (target->n == 0)
        return false;
    return (target->n == n && memcmp(target->at, arch, n) == 0) || generic_is_for(target->at, target->n, arch);
}
