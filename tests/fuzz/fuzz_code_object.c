/* fuzz_code_object.c: the metadata of a code object. Every kernel that is found has its facts within the limits. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include <hip_remote/code_object.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_code_object object;
    const char *reason = NULL;
    if (halo_code_object_parse(data, size, &object, &reason) < 0) {
        assert(reason && !object.kernels && !object.args);
        return 0;
    }
    for (uint32_t i = 0; i < object.n_kernels; i++) {
        const struct halo_code_kernel *k = &object.kernels[i];
        assert(halo_code_object_find(&object, k->name));
        assert(k->first_arg <= object.n_args && k->n_args <= object.n_args - k->first_arg);
        assert(k->arg_bytes <= k->segment_bytes && k->segment_bytes <= HALO_REMOTE_ARGS_MAX);
        for (uint32_t j = 0; j < k->n_args; j++) {
            const struct halo_code_arg *arg = &object.args[k->first_arg + j];
            assert(arg->is_hidden || (uint64_t)arg->offset + arg->bytes <= k->arg_bytes);
        }
    }
    (void)halo_code_object_is_for(&object, "gfx1151");
    halo_code_object_finish(&object);
    return 0;
}
