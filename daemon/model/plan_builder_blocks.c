/* plan_builder_blocks.c: the builder's verbs for residual streams and compressed blocks. Runs where the model is
 * created; failures stay in the builder. */
#include <assert.h>
#include <string.h>

#include "plan_builder_priv.h"

uint32_t halo_builder_kv_add(struct halo_builder *builder, const struct halo_kv_group *shape)
{
    uint32_t group = builder->kv[0].n_head_kv == 0 ? 0 : builder->n_kv_groups++;
    assert(group < HALO_KV_GROUPS_MAX);
    builder->kv[group] = *shape;
    return group;
}

uint32_t halo_builder_rotation_back(struct halo_builder *builder, uint32_t rope)
{
    if (builder->error)
        return 0;
    const struct halo_rope *forth = &builder->ropes[rope];
    double *freqs = halo_arena_alloc(builder->arena, forth->n_rot / 2, sizeof(*freqs));
    if (!freqs)
        return (void)halo_builder_no_memory(builder), 0;
    assert(builder->n_ropes < HALO_BUILDER_ROPES);
    builder->ropes[builder->n_ropes] = *forth;
    builder->ropes[builder->n_ropes].freqs = freqs;
    for (uint32_t i = 0; i < forth->n_rot / 2; i++)
        freqs[i] = -forth->freqs[i];
    return builder->n_ropes++;
}

void halo_builder_streams_mix(struct halo_builder *builder, const struct halo_op_streams_mix *mix,
                              enum halo_tensor_id scale, enum halo_tensor_id base)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_STREAMS_MIX);

    op->u.streams_mix = *mix;
    op->u.streams_mix.scale = halo_builder_weight(builder, scale);
    op->u.streams_mix.base = halo_builder_weight(builder, base);
    op->u.streams_mix.n = builder->hparams->n_streams;
    op->u.streams_mix.iterations = mix->back == HALO_NONE ? 0 : builder->hparams->stream_iterations;
    op->u.streams_mix.eps = builder->hparams->stream_eps;
}

void halo_builder_streams_add(struct halo_builder *builder, uint16_t x, uint16_t back, uint16_t add)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_STREAMS_ADD);

    op->u.streams_add =
        (struct halo_op_streams_add){.x = x, .back = back, .add = add, .n = builder->hparams->n_streams};
}

void halo_builder_compress(struct halo_builder *builder, const struct halo_op_compress *compress,
                           enum halo_tensor_id bias, enum halo_tensor_id norm)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_COMPRESS);

    op->u.compress = *compress;
    op->u.compress.bias = halo_builder_weight(builder, bias);
    op->u.compress.norm = halo_builder_weight(builder, norm);
    op->u.compress.eps = builder->hparams->norm_eps;
    op->u.compress.kv_layer = builder->kv[compress->kv_group].n_layers++;
    op->u.compress.state =
        halo_builder_state_take(builder, halo_compress_state_width(compress->dim, compress->overlap));
}

void halo_builder_blocks_choose(struct halo_builder *builder, const struct halo_op_blocks_choose *choose)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_BLOCKS_CHOOSE);

    op->u.blocks_choose = *choose;
    op->u.blocks_choose.kv_layer = builder->kv[choose->kv_group].n_layers - 1;
}

void halo_builder_attend_blocks(struct halo_builder *builder, const struct halo_op_attend_blocks *attend)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_ATTEND_BLOCKS);

    op->u.attend_blocks = *attend;
    op->u.attend_blocks.kv_layer = builder->kv[attend->kv_group].n_layers - 1;
    op->u.attend_blocks.block_layer = builder->kv[attend->block_group].n_layers - 1;
    op->u.attend_blocks.n_head = builder->hparams->n_head;
    op->u.attend_blocks.sinks = halo_builder_weight_if(builder, HALO_TENSOR_ATTN_SINKS);
}

void halo_builder_group_matmul(struct halo_builder *builder, uint16_t x, enum halo_tensor_id id, uint32_t n_groups,
                               uint16_t out)
{
    struct halo_op *op = halo_builder_append(builder, HALO_OP_MOE_MATMUL);
    uint32_t index = halo_builder_weight(builder, id);

    if (!builder->error) { /* rows that belong together are a matrix of their own */
        struct halo_weight *weight = &builder->weights[index];
        assert(weight->role == HALO_WEIGHT_MATRIX && weight->n_rows % n_groups == 0);
        weight->role = HALO_WEIGHT_EXPERTS;
        weight->n_rows /= n_groups;
        weight->n_experts = n_groups;
    }
    op->u.moe_matmul = (struct halo_op_moe_matmul){.x = x,
                                                   .choice = HALO_NONE,
                                                   .n = 1,
                                                   .per_slot = true,
                                                   .weight = {index, HALO_WEIGHT_NONE},
                                                   .out = {out, HALO_NONE},
                                                   .n_used = n_groups,
                                                   .bias = HALO_WEIGHTS_NONE};
}
