/* plan_latent.c: latent attention (MLA), in the absorbed form and with K and V of every head. Runs where the model is
 * created; failures stay in the builder.
 *
 * The stream's row becomes a compressed row c and a part of K that is rotated and shared by the heads; q of a head has
 * a part for each. Absorbed: the part of q for c goes down through attn_k_b, so that its product with c is that with
 * the head's K; the cache holds c and the rotated part, and what attention gives, a mean of c, goes up through
 * attn_v_b. Expanded: attn_kv_b makes K and V of every head from c, and the cache holds those.
 */
#include <math.h>

#include "plan_blocks_priv.h"

static uint32_t key_dim(const struct halo_hparams *h)
{
    return h->mla_dim_k ? h->mla_dim_k : h->head_dim_k;
}

static uint32_t value_dim(const struct halo_hparams *h)
{
    return h->mla_dim_k ? h->mla_dim_v : h->head_dim_v;
}

struct halo_latent halo_latent_make(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    uint64_t n_head = h->n_head, k = key_dim(h), v = value_dim(h);
    struct halo_latent values = {
        .q_up = halo_builder_value(builder, "q_up", n_head * k),
        .q_row = halo_builder_value(builder, "q_row", n_head * (k - h->n_rot)),
        .q_rot = halo_builder_value(builder, "q_rot", n_head * h->n_rot),
        .row = halo_builder_value(builder, "row", h->n_kv_lora),
        .k_rot = halo_builder_value(builder, "k_rot", h->n_rot),
    };

    if (h->n_q_lora > 0)
        values.q_low = halo_builder_value(builder, "q_low", h->n_q_lora);
    if (h->mla_dim_k == 0) {
        values.kv_up = halo_builder_value(builder, "kv_up", n_head * (k - h->n_rot + v));
        return values;
    }
    values.q_down = halo_builder_value(builder, "q_down", n_head * h->n_kv_lora);
    values.heads = halo_builder_value(builder, "heads", n_head * v);
    return values;
}

/* normed -> q_row, q_rot, row, k_rot, the latter two of each pair not yet rotated */
static void project(struct halo_builder *builder, const struct halo_blocks *values, const struct halo_latent *latent)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t n_row = key_dim(h) - h->n_rot;
    bool is_low = h->n_q_lora > 0;
    const struct halo_builder_pair in[] = {
        {is_low ? HALO_TENSOR_ATTN_Q_A : HALO_TENSOR_ATTN_Q, is_low ? latent->q_low : latent->q_up},
        {HALO_TENSOR_ATTN_KV_A_ROW, latent->row},
        {HALO_TENSOR_ATTN_KV_A_ROT, latent->k_rot}};
    const struct halo_builder_pair up[] = {{HALO_TENSOR_ATTN_Q_B, latent->q_up}};

    halo_builder_matmul(builder, values->normed, in, 3);
    if (is_low) {
        halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_Q_A_NORM, latent->q_low, HALO_NONE, latent->q_low);
        halo_builder_matmul(builder, latent->q_low, up, 1);
    }
    halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_KV_A_NORM, latent->row, HALO_NONE, latent->row);
    halo_builder_concat(
        builder, &(struct halo_op_concat){
                     .a = latent->q_up, .n_a = n_row, .b = HALO_NONE, .out = latent->q_row, .n_head = h->n_head});
    halo_builder_concat(builder, &(struct halo_op_concat){.a = latent->q_up,
                                                          .a_first = n_row,
                                                          .n_a = h->n_rot,
                                                          .b = HALO_NONE,
                                                          .out = latent->q_rot,
                                                          .n_head = h->n_head});
}

static void attend_absorbed(struct halo_builder *builder, const struct halo_blocks *values,
                            const struct halo_latent *latent, const struct halo_attention *attention)
{
    const struct halo_hparams *h = builder->hparams;
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT, values->out}};

    halo_builder_head_matmul(builder, latent->q_row, HALO_TENSOR_ATTN_K_B, latent->q_down);
    halo_builder_concat(builder, &(struct halo_op_concat){.a = latent->q_down,
                                                          .n_a = h->n_kv_lora,
                                                          .b = latent->q_rot,
                                                          .n_b = h->n_rot,
                                                          .out = values->q,
                                                          .n_head = h->n_head});
    halo_builder_concat(
        builder,
        &(struct halo_op_concat){
            .a = latent->row, .n_a = h->n_kv_lora, .b = latent->k_rot, .n_b = h->n_rot, .out = values->k, .n_head = 1});
    halo_builder_kv_write(builder, values->k, HALO_NONE, attention->how.kv_group);
    halo_builder_attend(builder, values->q, values->att, &attention->how);
    halo_builder_head_matmul(builder, values->att, HALO_TENSOR_ATTN_V_B, latent->heads);
    halo_builder_matmul(builder, latent->heads, output, 1);
}

static void attend_expanded(struct halo_builder *builder, const struct halo_blocks *values,
                            const struct halo_latent *latent, const struct halo_attention *attention)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t n_row = key_dim(h) - h->n_rot;
    const struct halo_builder_pair up[] = {{HALO_TENSOR_ATTN_KV_B, latent->kv_up}};
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT, values->out}};
    struct halo_op_concat part = {.n_a = n_row, .n_b = h->n_rot, .n_head = h->n_head};

    halo_builder_matmul(builder, latent->row, up, 1);
    part.a = latent->q_row;
    part.b = latent->q_rot;
    part.out = values->q;
    halo_builder_concat(builder, &part);
    part.a = latent->kv_up;
    part.b = latent->k_rot;
    part.b_shared = true;
    part.out = values->k;
    halo_builder_concat(builder, &part);
    halo_builder_concat(builder, &(struct halo_op_concat){.a = latent->kv_up,
                                                          .a_first = n_row,
                                                          .n_a = value_dim(h),
                                                          .b = HALO_NONE,
                                                          .out = values->v,
                                                          .n_head = h->n_head});
    halo_builder_kv_write(builder, values->k, values->v, attention->how.kv_group);
    halo_builder_attend(builder, values->q, values->att, &attention->how);
    halo_builder_matmul(builder, values->att, output, 1);
}

float halo_latent_scale(const struct halo_hparams *h)
{
    double grown = h->rope_scaling == HALO_ROPE_SCALING_YARN
                       ? 1 + (double)h->rope_yarn_log_multiplier * log((double)h->rope_factor)
                       : 1;
    return (float)(grown * grown / sqrt((double)key_dim(h)));
}

void halo_blocks_latent(struct halo_builder *builder, const struct halo_blocks *values,
                        const struct halo_attention *attention)
{
    const struct halo_hparams *h = builder->hparams;
    const struct halo_latent *latent = &values->latent;

    project(builder, values, latent);
    halo_builder_rope_heads(builder, latent->q_rot, latent->k_rot,
                            &(struct halo_op_rope){.n_head = h->n_head, .n_head_kv = 1, .head_dim = h->n_rot},
                            attention->rope);
    if (h->mla_dim_k > 0)
        attend_absorbed(builder, values, latent, attention);
    else
        attend_expanded(builder, values, latent, attention);
}
