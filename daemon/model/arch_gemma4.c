/* arch_gemma4.c: gemma4 in its three graphs: with experts beside a dense part in every layer (26B-A4B), dense (31B),
 * and with an input of its own for each layer (E2B, E4B).
 *
 * As gemma3: norms in front of and behind each block, GELU, an embedding times sqrt(width), Q/K norm, layers with a
 * window and their own base of the rotation, a cap on the logits. Beyond it: other heads in layers without a window,
 * whose rotation turns a part of the pairs (rope_freqs holds 1 for those and 1e30 for the rest); a norm of V without
 * weight; V is K as it was before norm and rotation where the file has no attn_v; scores without a scale; a factor for
 * the stream behind each layer; the last layers of the small models read the K and V of earlier ones (Google, Gemma 4;
 * the text model).
 */
#include <math.h>

#include "arch_priv.h"
#include "plan_blocks_priv.h"

static const struct halo_hparam hparams[] = {
    HALO_HPARAMS_SIZES,
    HALO_HPARAM_LAYERS(TWO, "attention.head_count_kv", n_head_kv, 1, HALO_MODEL_MAX_HEADS),
    HALO_HPARAMS_HEADS,
    HALO_HPARAM_NEEDED(REAL, "attention.layer_norm_rms_epsilon", norm_eps, 1e-20, 1),
    HALO_HPARAM_FROM(COUNT, "attention.key_length_swa", head_dim_k_local, halo_hparams_key_length, 1,
                     HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_FROM(COUNT, "attention.value_length_swa", head_dim_v_local, halo_hparams_key_length_local, 1,
                     HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_FROM(COUNT, "rope.dimension_count_swa", n_rot_local, halo_hparams_key_length_local, 2,
                     HALO_MODEL_MAX_HEAD_DIM),
    HALO_HPARAM_OR(REAL, "rope.freq_base_swa", rope_base_local, 10000, 1, 1e15),
    HALO_HPARAM_NEEDED(COUNT, "attention.sliding_window", window, 1, HALO_MODEL_MAX_CONTEXT),
    HALO_HPARAM_EACH(FLAG, "attention.sliding_window_pattern", local, 0, 1),
    HALO_HPARAM_OR(COUNT, "attention.shared_kv_layers", n_kv_shared, 0, 0, HALO_MODEL_MAX_LAYERS),
    HALO_HPARAM_OR(COUNT, "embedding_length_per_layer_input", n_embd_layer, 0, 0, HALO_MODEL_MAX_EMBD),
    HALO_HPARAM_LAYERS(TWO, "feed_forward_length", n_ff, 1, HALO_MODEL_MAX_FF),
    HALO_HPARAM_OR(COUNT, "expert_count", n_expert, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_OR(COUNT, "expert_used_count", n_expert_used, 0, 0, HALO_MODEL_MAX_EXPERTS),
    HALO_HPARAM_OR(COUNT, "expert_feed_forward_length", n_ff_expert, 0, 0, HALO_MODEL_MAX_FF),
    HALO_HPARAM_FIXED(FLAG, expert_normalise, 1),
    HALO_HPARAM_OR(REAL, "final_logit_softcapping", logit_cap, 0, 0, 1e6),
};

static bool has_layer_input(const struct halo_hparams *h, uint32_t layer)
{
    return h->n_embd_layer > 0;
}

/* Layers without a window may go without V, in the models that have no inputs of their own for the layers. */
static bool needs_v(const struct halo_hparams *h, uint32_t layer)
{
    return h->by_layer.local[layer] || h->n_embd_layer > 0;
}

static bool shares_kv(const struct halo_hparams *h, uint32_t layer)
{
    return !halo_hparams_has_kv(h, layer);
}

static const struct halo_tensor_spec tensors[] = {
    HALO_TENSORS_ENDS,
    HALO_TENSOR_ROW(ROPE_FREQS, VECTOR, ROT_PAIRS, ONE, ONE, .host = true),
    HALO_TENSOR_ROW(PER_LAYER_TOKEN_EMBD, MATRIX, LAYER_INPUTS, VOCAB, ONE, .when = has_layer_input),
    HALO_TENSOR_ROW(PER_LAYER_MODEL_PROJ, MATRIX, EMBD, LAYER_INPUTS, ONE, .when = has_layer_input),
    HALO_TENSOR_ROW(PER_LAYER_PROJ_NORM, VECTOR, LAYER_INPUT, ONE, ONE, .when = has_layer_input),
    HALO_TENSOR_VECTOR(ATTN_NORM, EMBD),
    HALO_TENSOR_MATRIX(ATTN_Q, EMBD, Q),
    HALO_TENSOR_ROW(ATTN_K, MATRIX, EMBD, K, ONE, .when = halo_hparams_has_kv, .unread = shares_kv),
    HALO_TENSOR_ROW(ATTN_V, MATRIX, EMBD, V, ONE, .optional = true, .needed = needs_v, .when = halo_hparams_has_kv,
                    .unread = shares_kv),
    HALO_TENSOR_MATRIX(ATTN_OUTPUT, ATT, EMBD),
    HALO_TENSOR_VECTOR(ATTN_Q_NORM, HEAD_K),
    HALO_TENSOR_ROW(ATTN_K_NORM, VECTOR, HEAD_K, ONE, ONE, .when = halo_hparams_has_kv, .unread = shares_kv),
    HALO_TENSOR_VECTOR(ATTN_POST_NORM, EMBD),
    HALO_TENSOR_VECTOR(FFN_NORM, EMBD),
    HALO_TENSORS_FFN(NULL),
    HALO_TENSOR_VECTOR(FFN_POST_NORM, EMBD),
    HALO_TENSORS_MOE(halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_GATE_INP_SCALE, VECTOR, EMBD, ONE, ONE, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_PRE_NORM_2, VECTOR, EMBD, ONE, ONE, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_POST_NORM_1, VECTOR, EMBD, ONE, ONE, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(FFN_POST_NORM_2, VECTOR, EMBD, ONE, ONE, .when = halo_tensors_when_moe),
    HALO_TENSOR_ROW(LAYER_GATE, MATRIX, EMBD, LAYER_INPUT, ONE, .when = has_layer_input),
    HALO_TENSOR_ROW(LAYER_PROJ, MATRIX, LAYER_INPUT, EMBD, ONE, .when = has_layer_input),
    HALO_TENSOR_ROW(LAYER_POST_NORM, VECTOR, EMBD, ONE, ONE, .when = has_layer_input),
    HALO_TENSOR_ROW(LAYER_OUTPUT_SCALE, VECTOR, ONE, ONE, ONE, .host = true),
};

/* Values beside those of struct halo_blocks; layers of one kind have the same. */
struct values {
    struct halo_blocks blocks;
    uint16_t router_in, experts; /* what the router reads; the sum of the chosen */
    uint16_t inputs;             /* of all layers, side by side */
    uint16_t input, input_gate;  /* of one */
};

/* The values of the current layer: heads and feed-forward of its sizes. */
static struct values layer_values(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    bool local = h->by_layer.local[builder->layer], wide = h->n_ff != builder->model->n_ff;
    struct values v = {.blocks = {
                           .x = halo_builder_value(builder, "x", h->n_embd),
                           .normed = halo_builder_value(builder, "normed", h->n_embd),
                           .out = halo_builder_value(builder, "out", h->n_embd),
                       }};
    struct halo_blocks *b = &v.blocks;

    b->q = halo_builder_value(builder, local ? "q_local" : "q", (uint64_t)h->n_head * h->head_dim_k);
    b->k = halo_builder_value(builder, local ? "k_local" : "k", (uint64_t)h->n_head_kv * h->head_dim_k);
    b->v = halo_builder_value(builder, local ? "v_local" : "v", (uint64_t)h->n_head_kv * h->head_dim_v);
    b->att = halo_builder_value(builder, local ? "att_local" : "att", (uint64_t)h->n_head * h->head_dim_v);
    b->gate = halo_builder_value(builder, wide ? "gate_other" : "gate", h->n_ff);
    b->up = halo_builder_value(builder, wide ? "up_other" : "up", h->n_ff);
    if (h->n_embd_layer > 0) {
        v.inputs = halo_builder_value(builder, "inputs", (uint64_t)h->n_layers * h->n_embd_layer);
        v.input = halo_builder_value(builder, "input", h->n_embd_layer);
        v.input_gate = halo_builder_value(builder, "input_gate", h->n_embd_layer);
    }
    if (h->n_expert == 0)
        return v;
    v.router_in = halo_builder_value(builder, "router_in", h->n_embd);
    v.experts = halo_builder_value(builder, "experts", h->n_embd);
    halo_blocks_make_experts(builder, b);
    return v;
}

/* The inputs of all layers, from the token and from its embedding: (rms(W x / sqrt(d)) + e sqrt(p)) / sqrt(2). The norm
 * takes the first root into its eps; the second is in its weight and in the scale of the look-up. */
static void inputs_make(struct halo_builder *builder, uint16_t x)
{
    const struct halo_hparams *h = builder->hparams;
    uint64_t n = (uint64_t)h->n_layers * h->n_embd_layer;
    uint16_t inputs = halo_builder_value(builder, "inputs", n), tokens = halo_builder_value(builder, "input_tokens", n);
    const struct halo_builder_pair proj[] = {{HALO_TENSOR_PER_LAYER_MODEL_PROJ, inputs}};

    halo_builder_embed(builder, HALO_TENSOR_PER_LAYER_TOKEN_EMBD, tokens, sqrtf((float)h->n_embd_layer / 2));
    halo_builder_matmul(builder, x, proj, 1);
    halo_builder_head_norm(builder, HALO_TENSOR_PER_LAYER_PROJ_NORM, inputs, h->n_layers,
                           h->norm_eps * (float)h->n_embd);
    halo_builder_factor(builder, HALO_TENSOR_PER_LAYER_PROJ_NORM, sqrtf(0.5f));
    halo_builder_add(builder, inputs, tokens);
}

static void attention(struct halo_builder *builder, const struct halo_blocks *v, const struct halo_attention *kind)
{
    const struct halo_hparams *h = builder->hparams;
    bool own = halo_hparams_has_kv(h, builder->layer), has_v = own && halo_builder_has(builder, HALO_TENSOR_ATTN_V);
    const struct halo_builder_pair qkv[] = {
        {HALO_TENSOR_ATTN_Q, v->q}, {HALO_TENSOR_ATTN_K, v->k}, {HALO_TENSOR_ATTN_V, v->v}};
    const struct halo_builder_pair output[] = {{HALO_TENSOR_ATTN_OUTPUT, v->out}};

    halo_builder_matmul(builder, v->normed, qkv, has_v ? 3 : own ? 2 : 1);
    if (own && !has_v)
        halo_builder_concat(builder,
                            &(struct halo_op_concat){
                                .a = v->k, .b = HALO_NONE, .out = v->v, .n_head = h->n_head_kv, .n_a = h->head_dim_k});
    if (own)
        halo_builder_head_norm(builder, HALO_TENSOR_NONE, v->v, h->n_head_kv, h->norm_eps);
    halo_builder_qk_norm(builder, v->q, own ? v->k : HALO_NONE);
    halo_builder_rope(builder, v->q, own ? v->k : HALO_NONE, kind->rope);
    if (own)
        halo_builder_kv_write(builder, v->k, v->v, kind->how.kv_group);
    halo_builder_attend(builder, v->q, v->att, &kind->how);
    halo_builder_matmul(builder, v->att, output, 1);
}

/* out: the dense part, with its norm; experts: those chosen, with theirs. The router reads the stream by a norm and a
 * weight of its own, divided by sqrt(width). */
static void experts_beside(struct halo_builder *builder, const struct values *v)
{
    const struct halo_blocks *b = &v->blocks;
    const struct halo_builder_pair router[] = {{HALO_TENSOR_FFN_GATE_INP, b->router}};

    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_POST_NORM_1, b->out, HALO_NONE, b->out);
    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_GATE_INP_SCALE, b->x, HALO_NONE, v->router_in);
    halo_builder_factor(builder, HALO_TENSOR_FFN_GATE_INP_SCALE, (float)(1 / sqrt((double)builder->hparams->n_embd)));
    halo_builder_matmul(builder, v->router_in, router, 1);
    halo_builder_moe_route(builder, b->router, b->choice);
    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_PRE_NORM_2, b->x, HALO_NONE, b->normed);
    halo_blocks_experts(builder, b, HALO_GLU_GELU);
    halo_builder_moe_sum(builder, b->slot_out, b->choice, HALO_NONE, HALO_NONE, v->experts);
    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_POST_NORM_2, v->experts, HALO_NONE, v->experts);
}

/* x += rms(proj(GELU(gate x) * input)) is left pending; out itself is in the stream already. */
static void input_add(struct halo_builder *builder, const struct values *v)
{
    const struct halo_hparams *h = builder->hparams;
    const struct halo_builder_pair gate[] = {{HALO_TENSOR_LAYER_GATE, v->input_gate}};
    const struct halo_builder_pair proj[] = {{HALO_TENSOR_LAYER_PROJ, v->blocks.out}};

    halo_builder_add(builder, v->blocks.x, v->blocks.out);
    halo_builder_matmul(builder, v->blocks.x, gate, 1);
    halo_builder_concat(builder, &(struct halo_op_concat){.a = v->inputs,
                                                          .b = HALO_NONE,
                                                          .out = v->input,
                                                          .n_head = 1,
                                                          .a_first = builder->layer * h->n_embd_layer,
                                                          .n_a = h->n_embd_layer});
    halo_builder_glu(builder, v->input_gate, v->input, v->input_gate, HALO_GLU_GELU);
    halo_builder_matmul(builder, v->input_gate, proj, 1);
    halo_builder_rmsnorm(builder, HALO_TENSOR_LAYER_POST_NORM, v->blocks.out, HALO_NONE, v->blocks.out);
}

/* What the layer before has left pending joins the stream, which is then scaled by that layer's factor. */
static void layer_add(struct halo_builder *builder, const struct halo_attention *kind, uint16_t pending, float x_scale)
{
    const struct values v = layer_values(builder);
    const struct halo_blocks *b = &v.blocks;

    halo_builder_rmsnorm_scaled(builder, HALO_TENSOR_ATTN_NORM, b->x, pending, x_scale, b->normed);
    attention(builder, b, kind);
    halo_builder_rmsnorm(builder, HALO_TENSOR_ATTN_POST_NORM, b->out, HALO_NONE, b->out);
    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_NORM, b->x, b->out, b->normed);
    halo_blocks_dense(builder, b, HALO_GLU_GELU);
    if (builder->hparams->n_expert > 0)
        experts_beside(builder, &v);
    halo_builder_rmsnorm(builder, HALO_TENSOR_FFN_POST_NORM, b->out,
                         builder->hparams->n_expert > 0 ? v.experts : HALO_NONE, b->out);
    if (builder->hparams->n_embd_layer > 0)
        input_add(builder, &v);
}

static void build(struct halo_builder *builder)
{
    const struct halo_hparams *h = builder->hparams;
    uint16_t x = halo_builder_value(builder, "x", h->n_embd), out = halo_builder_value(builder, "out", h->n_embd),
             normed = halo_builder_value(builder, "normed", h->n_embd), pending = HALO_NONE;
    float x_scale = 1;
    struct halo_attention global = {.rope = halo_builder_rotation(builder, HALO_ROPE_NEOX), .how = {.scale = 1}};
    struct halo_attention local = global;

    local.rope = halo_builder_rotation_local(builder, HALO_ROPE_NEOX);
    local.how.window = h->window < h->n_context ? h->window : h->n_context;
    local.how.kv_group = halo_builder_kv_group_apart(builder, local.how.window);
    halo_builder_embed(builder, HALO_TENSOR_TOKEN_EMBD, x, sqrtf((float)h->n_embd));
    if (h->n_embd_layer > 0)
        inputs_make(builder, x);
    for (uint32_t layer = 0; layer < h->n_layers; layer++) {
        halo_builder_layer(builder, layer);
        layer_add(builder, h->by_layer.local[layer] ? &local : &global, pending, x_scale);
        x_scale = halo_builder_number(builder, HALO_TENSOR_LAYER_OUTPUT_SCALE);
        pending = out;
    }
    halo_builder_outside(builder);
    halo_builder_rmsnorm_scaled(builder, HALO_TENSOR_OUTPUT_NORM, x, pending, x_scale, normed);
    halo_builder_logits(builder, normed, 1);
}

const struct halo_arch halo_arch_gemma4 = HALO_ARCH("gemma4", hparams, tensors, build);
