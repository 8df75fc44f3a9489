/* plan_compressed.c: attention over a window and over compressed blocks of the past (DeepSeek-V4).
 *
 * K and V are one row, of one head. Layers have a ratio: 0, a window alone; else the past beside it, one row for so
 * many positions. Blocks of the short ratio overlap, and an index of its own chooses those that a row attends to. The
 * last n_rot elements of q and of the row are rotated, those of what attention gives are rotated back: V carries its
 * position too. Layers with blocks rotate by another base, and they alone by YaRN. Heads go out in groups, through a
 * low rank each.
 */
#include <math.h>

#include "plan_blocks_priv.h"

/* Brings the last n_rot elements of each head of `in` round by a rope into `out`. */
struct turn {
    uint16_t in, rotated, out;
    uint32_t n_head, head_dim;
};

static void cut(struct halo_builder *builder, const struct turn *turn)
{
    uint32_t n_rot = builder->hparams->n_rot;
    halo_builder_concat(builder, &(struct halo_op_concat){.a = turn->in,
                                                          .a_first = turn->head_dim - n_rot,
                                                          .n_a = n_rot,
                                                          .b = HALO_NONE,
                                                          .out = turn->rotated,
                                                          .n_head = turn->n_head});
}

static void join(struct halo_builder *builder, const struct turn *turn)
{
    uint32_t n_rot = builder->hparams->n_rot;
    halo_builder_concat(builder, &(struct halo_op_concat){.a = turn->in,
                                                          .n_a = turn->head_dim - n_rot,
                                                          .b = turn->rotated,
                                                          .n_b = n_rot,
                                                          .out = turn->out,
                                                          .n_head = turn->n_head});
}

/* One or two at once; `second` may be NULL. */
static void rotate(struct halo_builder *builder, const struct turn *first, const struct turn *second, uint32_t rope)
{
    struct halo_op_rope heads = {
        .n_head = first->n_head, .n_head_kv = second ? second->n_head : 0, .head_dim = builder->hparams->n_rot};
    cut(builder, first);
    if (second)
        cut(builder, second);
    halo_builder_rope_heads(builder, first->rotated, second ? second->rotated : HALO_NONE, &heads, rope);
    join(builder, first);
    if (second)
        join(builder, second);
}

static uint32_t group_of_blocks(struct halo_builder *builder, uint32_t dim, uint32_t ratio)
{
    uint32_t stride = ratio < HALO_KV_PAGE_TOKENS ? ratio : HALO_KV_PAGE_TOKENS;
    return halo_builder_kv_add(
        builder, &(struct halo_kv_group){
                     .n_head_kv = 1, .head_dim_k = dim, .head_dim_v = dim, .stride = stride, .latent = true});
}

static uint32_t rotation(struct halo_builder *builder, bool compressed)
{
    struct halo_hparams h = *builder->hparams;
    if (compressed)
        h.rope_base = h.rope_base_compressed;
    else
        h.rope_scaling = HALO_ROPE_SCALING_NONE;
    uint32_t rope = halo_builder_rotation_by(builder, &h, HALO_ROPE_NORM);
    if (!builder->error)
        builder->ropes[rope].scale = 1;
    return rope;
}

struct halo_compressed halo_compressed_make(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t n_long = 0, n_short = 0;
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        n_short += h->by_layer.compress_ratio[layer] == HALO_COMPRESS_SHORT;
        n_long += h->by_layer.compress_ratio[layer] == HALO_COMPRESS_LONG;
    }
    struct halo_compressed c = {.rope = {rotation(builder, false)}};
    c.back[0] = halo_builder_rotation_back(builder, c.rope[0]);
    if (n_short + n_long > 0) {
        c.rope[1] = rotation(builder, true);
        c.back[1] = halo_builder_rotation_back(builder, c.rope[1]);
    }
    if (n_short > 0) {
        c.blocks[1] = group_of_blocks(builder, h->head_dim_k, HALO_COMPRESS_SHORT);
        c.keys = group_of_blocks(builder, h->indexer_dim, HALO_COMPRESS_SHORT);
    }
    if (n_long > 0)
        c.blocks[0] = group_of_blocks(builder, h->head_dim_k, HALO_COMPRESS_LONG);
    bool keeps_window = n_short + n_long > 0 && h->window < h->n_context; /* else this group keeps every position */
    c.rows = halo_builder_kv_add(builder, &(struct halo_kv_group){.n_head_kv = 1,
                                                                  .head_dim_k = h->head_dim_k,
                                                                  .head_dim_v = h->head_dim_k,
                                                                  .window = keeps_window ? h->window : 0,
                                                                  .latent = true});
    if (n_short > 0)
        c.state_width =
            halo_compress_state_width(h->head_dim_k, true) + halo_compress_state_width(h->indexer_dim, true);
    else
        c.state_width = halo_compress_state_width(h->head_dim_k, false);
    return c;
}

/* u and z of the layer's blocks, or of its index. */
static struct halo_op_compress project_blocks(struct halo_builder *builder, uint16_t normed, bool indexed,
                                              uint32_t ratio)
{
    const struct halo_hparams *h = builder->hparams;
    bool overlap = ratio == HALO_COMPRESS_SHORT;
    uint32_t dim = indexed ? h->indexer_dim : h->head_dim_k;
    struct halo_op_compress compress = {.dim = dim, .ratio = ratio, .overlap = overlap};
    compress.u = halo_builder_value(builder,
                                    indexed   ? "key_u"
                                    : overlap ? "block_u"
                                              : "long_u",
                                    (overlap ? 2 : 1) * dim);
    compress.z = halo_builder_value(builder,
                                    indexed   ? "key_z"
                                    : overlap ? "block_z"
                                              : "long_z",
                                    (overlap ? 2 : 1) * dim);
    const struct halo_builder_pair in[] = {{indexed   ? HALO_TENSOR_INDEXER_KV
                                            : overlap ? HALO_TENSOR_COMPRESSOR_KV_2
                                                      : HALO_TENSOR_COMPRESSOR_KV,
                                            compress.u},
                                           {indexed   ? HALO_TENSOR_INDEXER_GATE
                                            : overlap ? HALO_TENSOR_COMPRESSOR_GATE_2
                                                      : HALO_TENSOR_COMPRESSOR_GATE,
                                            compress.z}};
    halo_builder_matmul(builder, normed, in, 2);
    return compress;
}

/* The blocks that a row of this layer chooses, by keys of their own. */
static uint16_t choose(struct halo_builder *builder, const struct halo_compressed *c, uint16_t normed, uint16_t low)
{
    const struct halo_hparams *h = builder->hparams;
    uint64_t width = (uint64_t)h->indexer_heads * h->indexer_dim;
    uint16_t weight = halo_builder_value(builder, "key_weight", h->indexer_heads);
    uint16_t chosen = halo_builder_value(builder, "chosen", h->indexer_top_k);
    const struct turn q = {halo_builder_value(builder, "key_q_in", width),
                           halo_builder_value(builder, "key_q_rot", (uint64_t)h->indexer_heads * h->n_rot),
                           halo_builder_value(builder, "key_q", width), h->indexer_heads, h->indexer_dim};
    const struct halo_builder_pair up[] = {{HALO_TENSOR_INDEXER_Q, q.in}};
    const struct halo_builder_pair proj[] = {{HALO_TENSOR_INDEXER_PROJ, weight}};
    struct halo_op_compress keys = project_blocks(builder, normed, true, HALO_COMPRESS_SHORT);

    keys.rope = c->rope[1];
    keys.kv_group = c->keys;
    halo_builder_compress(builder, &keys, HALO_TENSOR_INDEXER_APE, HALO_TENSOR_INDEXER_NORM);
    halo_builder_matmul(builder, low, up, 1);
    rotate(builder, &q, NULL, c->rope[1]);
    halo_builder_matmul(builder, normed, proj, 1);
    halo_builder_blocks_choose(builder, &(struct halo_op_blocks_choose){
                                            .q = q.out,
                                            .weight = weight,
                                            .out = chosen,
                                            .n_head = h->indexer_heads,
                                            .ratio = HALO_COMPRESS_SHORT,
                                            .top_k = h->indexer_top_k,
                                            .kv_group = c->keys,
                                            .scale = (float)(1 / sqrt((double)h->indexer_dim * h->indexer_heads))});
    return chosen;
}

/* q, K and V -> att, over the window and what the layer has of blocks. */
static void attend(struct halo_builder *builder, const struct halo_compressed *c, const struct halo_blocks *values,
                   uint16_t low, uint16_t att)
{
    const struct halo_hparams *h = builder->hparams;
    uint32_t ratio = h->by_layer.compress_ratio[builder->layer];
    bool overlap = ratio == HALO_COMPRESS_SHORT;
    float scale = (float)(1 / sqrt((double)h->head_dim_k));
    uint16_t chosen = HALO_NONE;

    halo_builder_kv_write(builder, values->k, HALO_NONE, c->rows);
    if (ratio == 0) {
        halo_builder_attend(builder, values->q, att,
                            &(struct halo_op_attend){.scale = scale, .kv_group = c->rows, .window = h->window});
        return;
    }
    halo_builder_state(builder, c->state_width);
    struct halo_op_compress blocks = project_blocks(builder, values->normed, false, ratio);
    blocks.rope = c->rope[1];
    blocks.kv_group = c->blocks[overlap];
    halo_builder_compress(builder, &blocks, overlap ? HALO_TENSOR_COMPRESSOR_APE_2 : HALO_TENSOR_COMPRESSOR_APE,
                          HALO_TENSOR_COMPRESSOR_NORM);
    if (overlap)
        chosen = choose(builder, c, values->normed, low);
    halo_builder_attend_blocks(builder, &(struct halo_op_attend_blocks){.q = values->q,
                                                                        .out = att,
                                                                        .chosen = chosen,
                                                                        .scale = scale,
                                                                        .kv_group = c->rows,
                                                                        .window = h->window,
                                                                        .block_group = c->blocks[overlap],
                                                                        .ratio = ratio});
}

void halo_blocks_compressed(struct halo_builder *builder, const struct halo_blocks *values,
                            const struct halo_compressed *c)
{
    const struct halo_hparams *h = builder->hparams;
    bool compressed = h->by_layer.compress_ratio[builder->layer] > 0;
    uint64_t heads = (uint64_t)h->n_head * h->head_dim_k;
    uint16_t low = halo_builder_value(builder, "q_low", h->n_q_lora);
    uint16_t rank = halo_builder_value(builder, "out_low", (uint64_t)h->n_out_groups * h->n_out_lora);
    const struct turn q = {halo_builder_value(builder, "q_in", heads),
                           halo_builder_value(builder, "q_rot", (uint64_t)h->n_head * h->n_rot), values->q, h->n_head,
                           h->head_dim_k};
    const struct turn k = {halo_builder_value(builder, "k_in", h->head_dim_k),
                           halo_builder_value(builder, "k_rot", h->n_rot), values->k, 1, h->head_dim_k};
    const struct turn att = {halo_builder_value(builder, "att_in", heads),
                             halo_builder_value(builder, "att_rot", (uint64_t)h->n_head * h->n_rot), values->att,
                             h->n_head, h->head_dim_k};
    const struct halo_builder_pair down[] = {{HALO_TENSOR_ATTN_Q_A, low}, {HALO_TENSOR_ATTN_KV, k.in}};
    const struct halo_builder_pair up[] = {{HALO_TENSOR_ATTN_Q_B, q.in}};
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT_B, values->out}};

    halo_builder_matmul(builder, values->normed, down, 2);
    halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_Q_A_NORM, low, HALO_NONE, low);
    halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_KV_A_NORM, k.in, HALO_NONE, k.in);
    halo_builder_matmul(builder, low, up, 1);
    halo_builder_head_norm(builder, HALO_TENSOR_NONE, q.in, h->n_head, h->norm_eps);
    rotate(builder, &q, &k, c->rope[compressed]);
    attend(builder, c, values, low, att.in);
    rotate(builder, &att, NULL, c->back[compressed]);
    halo_builder_group_matmul(builder, values->att, HALO_TENSOR_ATTN_OUTPUT_A, h->n_out_groups, rank);
    halo_builder_matmul(builder, rank, output, 1);
}
