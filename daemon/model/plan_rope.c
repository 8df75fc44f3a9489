/* plan_rope.c: the rotations of a plan, with the factors that the file has for them.
 *
 * Runs where the model is created; failures stay in the builder: OUT_OF_MEMORY, LOAD_FAILED (factors).
 */
#include <assert.h>
#include <errno.h>

#include "plan_builder_priv.h"
#include "rope_priv.h"

/* The factors of the pairs that the file has for this context, or HALO_TENSOR_NONE. */
static enum halo_tensor_id factors_of(const struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    bool is_long = h->n_context > h->rope_original_context;
    enum halo_tensor_id id = is_long ? HALO_TENSOR_ROPE_FACTORS_LONG : HALO_TENSOR_ROPE_FACTORS_SHORT;
    if (halo_binding_find(builder->binding, HALO_TENSOR_ROPE_FREQS, 0))
        return HALO_TENSOR_ROPE_FREQS;
    return halo_binding_find(builder->binding, id, 0) ? id : HALO_TENSOR_NONE;
}

static uint32_t rotation(struct halo_builder *builder, const struct halo_hparams *h, enum halo_rope_pairing pairing,
                         enum halo_tensor_id id)
{
    uint32_t n = h->n_rot / 2, bad = 0;
    float *factors = NULL;
    int r;

    if (builder->error)
        return 0;
    assert(builder->n_ropes < HALO_BUILDER_ROPES);
    if (id != HALO_TENSOR_NONE) {
        factors = halo_arena_alloc(builder->arena, n, sizeof(*factors));
        if (!factors)
            return (void)halo_builder_no_memory(builder), 0;
        builder->error =
            halo_binding_read(builder->binding, halo_binding_find(builder->binding, id, 0), factors, n, builder->fault);
        if (builder->error)
            return 0;
    }
    r = halo_rope_make(&builder->ropes[builder->n_ropes], builder->arena, h, pairing, factors, &bad);
    if (r == -EINVAL)
        builder->error =
            halo_fault_set(builder->fault, HALO_FAULT_LOAD_FAILED, "%s[%u] is %g, must be a positive number",
                           halo_tensors_pattern(id), bad, factors[bad]);
    else if (r < 0)
        halo_builder_no_memory(builder);
    return builder->n_ropes++;
}

uint32_t halo_builder_rotation(struct halo_builder *builder, enum halo_rope_pairing pairing)
{
    enum halo_tensor_id id = factors_of(builder);

    if (builder->hparams->rope_scaling == HALO_ROPE_SCALING_LONGROPE && id == HALO_TENSOR_NONE && !builder->error)
        builder->error = halo_fault_set(builder->fault, HALO_FAULT_LOAD_FAILED,
                                        "the rotary scaling is longrope, and its rope_factors tensors are missing");
    return rotation(builder, builder->hparams, pairing, id);
}

uint32_t halo_builder_rotation_by(struct halo_builder *builder, const struct halo_hparams *hparams,
                                  enum halo_rope_pairing pairing)
{
    return rotation(builder, hparams, pairing, HALO_TENSOR_NONE);
}

uint32_t halo_builder_rotation_local(struct halo_builder *builder, enum halo_rope_pairing pairing)
{
    struct halo_hparams local = *builder->hparams;

    local.rope_base = local.rope_base_local;
    local.rope_scaling = HALO_ROPE_SCALING_NONE;
    local.rope_attn_factor = 1;
    if (local.n_rot_local > 0)
        local.n_rot = local.n_rot_local;
    return halo_builder_rotation_by(builder, &local, pairing);
}
