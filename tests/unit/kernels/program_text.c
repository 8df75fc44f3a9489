/* program_text.c: a program of the HIP device as text (contract in program_text.h). */
#include "program_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum kind { NONE, POINTER, U32, U64, F32 };
struct field {
    const char *name;
    uint16_t at;
    enum kind kind;
};

#define FIELD(kind, type, field)                                                                                       \
    {                                                                                                                  \
#field, offsetof(struct halo_##type##_args, field), kind                                                       \
    }
#define P(type, field) FIELD(POINTER, type, field)
#define U(type, field) FIELD(U32, type, field)
#define F(type, field) FIELD(F32, type, field)
#define KV(type)                                                                                                       \
    P(type, kv.base), P(type, kv.pos), P(type, kv.page_first), P(type, kv.pages), FIELD(U64, type, kv.page_bytes),     \
        U(type, kv.n_head_kv), U(type, kv.head_dim_k), U(type, kv.head_dim_v)
#define SCORE(type)                                                                                                    \
    P(type, score.sinks), F(type, score.scale), F(type, score.cap), F(type, score.temperature), U(type, score.period), \
        U(type, score.window)
#define MATRIX(type, m) P(type, m.weight), P(type, m.bias), P(type, m.out), U(type, m.n_rows), U(type, m.out_stride)
#define EXPERT(type, m)                                                                                                \
    P(type, m.weight), FIELD(U64, type, m.expert_bytes), P(type, m.out), P(type, m.bias), U(type, m.n_rows),           \
        U(type, m.out_stride)

#define GLU(type) P(type, glu.half), P(type, glu.shift), U(type, glu.act), F(type, glu.limit)

static const struct field embed[] = {P(embed, weight), P(embed, token), P(embed, out),
                                     U(embed, n_cols), F(embed, scale), {0}};
static const struct field rmsnorm[] = {P(rmsnorm, x),         P(rmsnorm, add),
                                       P(rmsnorm, weight),    P(rmsnorm, out),
                                       P(rmsnorm, act),       U(rmsnorm, n_cols),
                                       F(rmsnorm, eps),       F(rmsnorm, add_scale),
                                       P(rmsnorm, bias),      F(rmsnorm, x_scale),
                                       P(rmsnorm, half),      P(rmsnorm, half_scale),
                                       P(rmsnorm, row_index), {0}};
static const struct field quantize[] = {P(quantize, x), P(quantize, act), U(quantize, n_cols), {0}};
static const struct field half[] = {
    P(half, x), P(half, half), P(half, scale), U(half, n_cols), U(half, strips), U(half, n_rows), {0}};
static const struct field half_align[] = {P(half_align, half),   P(half_align, shift),  P(half_align, scale),
                                          U(half_align, n_cols), U(half_align, n_rows), {0}};
static const struct field gemv[] = {MATRIX(gemv, matrix[0]),
                                    MATRIX(gemv, matrix[1]),
                                    MATRIX(gemv, matrix[2]),
                                    P(gemv, x),
                                    P(gemv, row_index),
                                    U(gemv, n_matrices),
                                    U(gemv, n_cols),
                                    U(gemv, n_rows),
                                    U(gemv, n_blocks),
                                    U(gemv, n_grid),
                                    {0}};
#define GEMV(type, of)                                                                                                 \
    MATRIX(type, of.matrix[0]), MATRIX(type, of.matrix[1]), MATRIX(type, of.matrix[2]), P(type, of.x),                 \
        P(type, of.row_index), U(type, of.n_matrices), U(type, of.n_cols), U(type, of.n_rows), U(type, of.n_blocks),   \
        U(type, of.n_grid)
#define FACTOR(type, f) P(type, f.squares), U(type, f.n_units), F(type, f.eps)
static const struct field gemv_scaled[] = {GEMV(gemv_scaled, gemv), FACTOR(gemv_scaled, factor), {0}};
static const struct field gemv_pair[] = {GEMV(gemv_pair, of[0].gemv),
                                         FACTOR(gemv_pair, of[0].factor),
                                         GEMV(gemv_pair, of[1].gemv),
                                         FACTOR(gemv_pair, of[1].factor),
                                         {0}};
static const struct field gemv_norm[] = {
    P(gemv_norm, weight),  P(gemv_norm, in),     P(gemv_norm, bias),      P(gemv_norm, x),       P(gemv_norm, norm),
    P(gemv_norm, out),     P(gemv_norm, act),    P(gemv_norm, squares),   U(gemv_norm, n_cols),  U(gemv_norm, n_rows),
    U(gemv_norm, n_units), U(gemv_norm, n_grid), F(gemv_norm, add_scale), F(gemv_norm, x_scale), {0}};
static const struct field gemv_glu[] = {P(gemv_glu, gate),    P(gemv_glu, up),
                                        P(gemv_glu, in),      P(gemv_glu, gate_bias),
                                        P(gemv_glu, up_bias), FACTOR(gemv_glu, factor),
                                        P(gemv_glu, act),     U(gemv_glu, n_cols),
                                        U(gemv_glu, n_rows),  U(gemv_glu, n_units),
                                        U(gemv_glu, n_grid),  U(gemv_glu, glu),
                                        F(gemv_glu, limit),   {0}};
static const struct field moe_gemv_glu[] = {EXPERT(moe_gemv_glu, matrix),
                                            P(moe_gemv_glu, gate),
                                            P(moe_gemv_glu, up),
                                            P(moe_gemv_glu, choice),
                                            U(moe_gemv_glu, n_cols),
                                            U(moe_gemv_glu, n_used),
                                            U(moe_gemv_glu, n_slot_blocks),
                                            U(moe_gemv_glu, n_grid),
                                            U(moe_gemv_glu, glu),
                                            F(moe_gemv_glu, limit),
                                            {0}};
static const struct field strip[] = {MATRIX(strip, matrix[0]),
                                     MATRIX(strip, matrix[1]),
                                     MATRIX(strip, matrix[2]),
                                     P(strip, half),
                                     P(strip, scale),
                                     P(strip, row_index),
                                     U(strip, n_matrices),
                                     U(strip, n_cols),
                                     U(strip, n_rows),
                                     U(strip, x_stride),
                                     {0}};
static const struct field gemm[] = {MATRIX(gemm, matrix[0]),
                                    MATRIX(gemm, matrix[1]),
                                    MATRIX(gemm, matrix[2]),
                                    P(gemm, half),
                                    P(gemm, scale),
                                    U(gemm, n_cols),
                                    U(gemm, n_rows),
                                    GLU(gemm),
                                    {0}};
static const struct field qk_norm[] = {
    P(qk_norm, q),         P(qk_norm, k),        P(qk_norm, q_weight), P(qk_norm, k_weight), U(qk_norm, n_head),
    U(qk_norm, n_head_kv), U(qk_norm, head_dim), F(qk_norm, eps),      U(qk_norm, q_step),   {0}};
static const struct field rope[] = {P(rope, q),         P(rope, k),        P(rope, table), U(rope, n_head),
                                    U(rope, n_head_kv), U(rope, head_dim), U(rope, n_rot), {0}};
static const struct field kv_write[] = {KV(kv_write), P(kv_write, k), P(kv_write, v), {0}};
static const struct field heads[] = {KV(heads),          P(heads, q),        P(heads, k),     P(heads, v),
                                     P(heads, q_weight), P(heads, k_weight), P(heads, table), U(heads, n_head),
                                     U(heads, n_rot),    U(heads, neox),     F(heads, eps),   {0}};
static const struct field attend[] = {KV(attend),
                                      P(attend, q),
                                      P(attend, k),
                                      P(attend, v),
                                      P(attend, q_weight),
                                      P(attend, k_weight),
                                      P(attend, table),
                                      P(attend, out),
                                      P(attend, act),
                                      P(attend, partial),
                                      P(attend, counter),
                                      U(attend, n_head),
                                      U(attend, n_splits),
                                      U(attend, n_parts),
                                      U(attend, n_rot),
                                      U(attend, neox),
                                      SCORE(attend),
                                      F(attend, eps),
                                      U(attend, act_cols),
                                      U(attend, split_step),
                                      U(attend, split_least),
                                      {0}};
static const struct field latent_heads[] = {
    KV(latent_heads),         P(latent_heads, q_up),   P(latent_heads, c),     P(latent_heads, k_rot),
    P(latent_heads, weight),  P(latent_heads, table),  P(latent_heads, q),     P(latent_heads, q_low),
    P(latent_heads, act),     U(latent_heads, n_head), U(latent_heads, n_low), U(latent_heads, n_rot),
    U(latent_heads, n_table), U(latent_heads, neox),   F(latent_heads, eps),   {0}};
static const struct field prefill[] = {
    KV(prefill), P(prefill, tile), P(prefill, q), P(prefill, out), SCORE(prefill), U(prefill, n_head), {0}};
static const struct field glu[] = {P(glu, gate),   P(glu, up),    P(glu, out), P(glu, act),
                                   U(glu, n_cols), F(glu, limit), {0}};
static const struct field glu_half[] = {P(glu_half, gate),
                                        P(glu_half, up),
                                        P(glu_half, half),
                                        P(glu_half, scale),
                                        U(glu_half, n_cols),
                                        F(glu_half, limit),
                                        {0}};
static const struct field limit[] = {P(limit, x), U(limit, n), F(limit, scale), F(limit, cap), {0}};
static const struct field add[] = {P(add, x), P(add, add), U(add, n), {0}};
static const struct field moe_route[] = {P(moe_route, logits),
                                         P(moe_route, choice),
                                         U(moe_route, n_expert),
                                         U(moe_route, n_used),
                                         U(moe_route, normalise),
                                         P(moe_route, bias),
                                         U(moe_route, gate),
                                         U(moe_route, n_groups),
                                         U(moe_route, n_groups_used),
                                         F(moe_route, scale),
                                         P(moe_route, table),
                                         P(moe_route, token),
                                         {0}};
static const struct field moe_router[] = {
    P(moe_router, route.logits),   P(moe_router, route.choice),    U(moe_router, route.n_expert),
    U(moe_router, route.n_used),   U(moe_router, route.normalise), P(moe_router, route.bias),
    U(moe_router, route.gate),     U(moe_router, route.n_groups),  U(moe_router, route.n_groups_used),
    F(moe_router, route.scale),    P(moe_router, route.table),     P(moe_router, route.token),
    MATRIX(moe_router, matrix[0]), MATRIX(moe_router, matrix[1]),  P(moe_router, x),
    P(moe_router, counter),        U(moe_router, n_cols),          {0}};
static const struct field moe_router_norm[] = {P(moe_router_norm, router.route.logits),
                                               P(moe_router_norm, router.route.choice),
                                               U(moe_router_norm, router.route.n_expert),
                                               U(moe_router_norm, router.route.n_used),
                                               U(moe_router_norm, router.route.normalise),
                                               P(moe_router_norm, router.route.bias),
                                               U(moe_router_norm, router.route.gate),
                                               F(moe_router_norm, router.route.scale),
                                               P(moe_router_norm, router.route.table),
                                               MATRIX(moe_router_norm, router.matrix[0]),
                                               MATRIX(moe_router_norm, router.matrix[1]),
                                               P(moe_router_norm, router.counter),
                                               P(moe_router_norm, norm.x),
                                               P(moe_router_norm, norm.add),
                                               P(moe_router_norm, norm.weight),
                                               P(moe_router_norm, norm.out),
                                               P(moe_router_norm, norm.act),
                                               U(moe_router_norm, norm.n_cols),
                                               F(moe_router_norm, norm.eps),
                                               F(moe_router_norm, norm.add_scale),
                                               F(moe_router_norm, norm.x_scale),
                                               {0}};
static const struct field moe_gemv[] = {EXPERT(moe_gemv, matrix[0]),
                                        EXPERT(moe_gemv, matrix[1]),
                                        P(moe_gemv, x),
                                        P(moe_gemv, choice),
                                        P(moe_gemv, place),
                                        U(moe_gemv, n_cols),
                                        U(moe_gemv, n_used),
                                        U(moe_gemv, per_slot),
                                        U(moe_gemv, n_slot_blocks),
                                        U(moe_gemv, n_blocks),
                                        U(moe_gemv, n_grid),
                                        U(moe_gemv, early),
                                        {0}};
static const struct field moe_group[] = {
    P(moe_group, choice), P(moe_group, slot),     P(moe_group, tile),    U(moe_group, n_slots),
    U(moe_group, n_used), U(moe_group, n_expert), U(moe_group, n_tiles), {0}};
static const struct field moe_gemm[] = {
    EXPERT(moe_gemm, matrix[0]), EXPERT(moe_gemm, matrix[1]), P(moe_gemm, half),  P(moe_gemm, scale),
    P(moe_gemm, slot),           P(moe_gemm, tile),           P(moe_gemm, place), U(moe_gemm, n_cols),
    U(moe_gemm, n_used),         U(moe_gemm, per_slot),       GLU(moe_gemm),      {0}};
static const struct field moe_sum[] = {P(moe_sum, x),   P(moe_sum, choice), P(moe_sum, add),    P(moe_sum, add_gate),
                                       P(moe_sum, out), U(moe_sum, n_cols), U(moe_sum, n_used), {0}};
static const struct field moe_sum_norm[] = {P(moe_sum_norm, sum.x),          P(moe_sum_norm, sum.choice),
                                            P(moe_sum_norm, sum.add),        P(moe_sum_norm, sum.add_gate),
                                            P(moe_sum_norm, sum.out),        U(moe_sum_norm, sum.n_cols),
                                            U(moe_sum_norm, sum.n_used),     P(moe_sum_norm, norm.x),
                                            P(moe_sum_norm, norm.add),       P(moe_sum_norm, norm.weight),
                                            P(moe_sum_norm, norm.out),       P(moe_sum_norm, norm.act),
                                            U(moe_sum_norm, norm.n_cols),    F(moe_sum_norm, norm.eps),
                                            F(moe_sum_norm, norm.add_scale), F(moe_sum_norm, norm.x_scale),
                                            P(moe_sum_norm, norm.half),      P(moe_sum_norm, norm.half_scale),
                                            U(moe_sum_norm, joins),          {0}};
static const struct field moe_scale[] = {P(moe_scale, x),      P(moe_scale, choice), P(moe_scale, scale),
                                         U(moe_scale, n_cols), U(moe_scale, n_used), {0}};
static const struct field concat[] = {
    P(concat, a),       P(concat, b),   P(concat, out),      U(concat, n_head), U(concat, a_stride),
    U(concat, a_first), U(concat, n_a), U(concat, b_stride), U(concat, n_b),    {0}};
#define STATE(type)                                                                                                    \
    P(type, state.base), P(type, state.pos), P(type, state.run), P(type, state.slot), FIELD(U64, type, state.slot_bytes)
static const struct field conv1d[] = {STATE(conv1d),     P(conv1d, x),    P(conv1d, weight),
                                      P(conv1d, bias),   P(conv1d, out),  U(conv1d, n_cols),
                                      U(conv1d, n_taps), U(conv1d, silu), {0}};
static const struct field delta_rule[] = {
    STATE(delta_rule),          P(delta_rule, qkv),        P(delta_rule, alpha),
    P(delta_rule, beta),        P(delta_rule, a),          P(delta_rule, dt_bias),
    P(delta_rule, out),         U(delta_rule, n_head_k),   U(delta_rule, n_head_v),
    U(delta_rule, dim_k),       U(delta_rule, dim_v),      U(delta_rule, gate_stride),
    U(delta_rule, alpha_first), U(delta_rule, beta_first), U(delta_rule, grouped),
    F(delta_rule, eps),         F(delta_rule, scale),      {0}};
static const struct field ssm_scan[] = {STATE(ssm_scan),      P(ssm_scan, xbc),     P(ssm_scan, dt),
                                        P(ssm_scan, a),       P(ssm_scan, d),       P(ssm_scan, dt_bias),
                                        P(ssm_scan, out),     U(ssm_scan, n_head),  U(ssm_scan, head_dim),
                                        U(ssm_scan, n_group), U(ssm_scan, n_state), {0}};
static const struct field streams_mix[] = {P(streams_mix, x),
                                           P(streams_mix, mix),
                                           P(streams_mix, scale),
                                           P(streams_mix, base),
                                           P(streams_mix, out),
                                           P(streams_mix, back),
                                           U(streams_mix, n),
                                           U(streams_mix, n_cols),
                                           U(streams_mix, iterations),
                                           F(streams_mix, eps),
                                           {0}};
static const struct field streams_add[] = {P(streams_add, x), P(streams_add, back),   P(streams_add, add),
                                           U(streams_add, n), U(streams_add, n_cols), {0}};
static const struct field compress[] = {STATE(compress),  P(compress, u),     P(compress, z),       P(compress, bias),
                                        U(compress, dim), U(compress, ratio), U(compress, overlap), {0}};
#define CACHE(type, field)                                                                                             \
    P(type, field.base), P(type, field.pos), P(type, field.page_first), P(type, field.pages),                          \
        FIELD(U64, type, field.page_bytes), U(type, field.n_head_kv), U(type, field.head_dim_k),                       \
        U(type, field.head_dim_v)
#define BLOCKS(type) CACHE(type, blocks.kv), U(type, blocks.ratio), U(type, blocks.page_rows)
static const struct field compress_store[] = {
    BLOCKS(compress_store),   P(compress_store, u),        P(compress_store, norm),
    P(compress_store, table), U(compress_store, u_stride), U(compress_store, n_rot),
    U(compress_store, neox),  F(compress_store, eps),      {0}};
static const struct field block_scores[] = {BLOCKS(block_scores),    P(block_scores, q),
                                            P(block_scores, weight), P(block_scores, order),
                                            U(block_scores, n_head), U(block_scores, n_most),
                                            U(block_scores, top_k),  U(block_scores, n_splits),
                                            F(block_scores, scale),  {0}};
static const struct field blocks_choose[] = {P(blocks_choose, order),
                                             P(blocks_choose, pos),
                                             P(blocks_choose, out),
                                             U(blocks_choose, n_most),
                                             U(blocks_choose, top_k),
                                             U(blocks_choose, ratio),
                                             {0}};
static const struct field attend_blocks[] = {CACHE(attend_blocks, attend.kv),
                                             P(attend_blocks, attend.q),
                                             P(attend_blocks, attend.out),
                                             P(attend_blocks, attend.partial),
                                             P(attend_blocks, attend.counter),
                                             P(attend_blocks, attend.score.sinks),
                                             F(attend_blocks, attend.score.scale),
                                             U(attend_blocks, attend.score.window),
                                             U(attend_blocks, attend.n_head),
                                             U(attend_blocks, attend.n_splits),
                                             U(attend_blocks, attend.n_parts),
                                             BLOCKS(attend_blocks),
                                             P(attend_blocks, chosen),
                                             U(attend_blocks, n_chosen),
                                             {0}};
static const struct field gather[] = {P(gather, x), P(gather, row), P(gather, out), U(gather, n_cols), {0}};

static const struct field *const fields_of[] = {
    [HALO_HIP_EMBED] = embed,
    [HALO_HIP_GEMV] = gemv,
    [HALO_HIP_GEMV_SCALED] = gemv_scaled,
    [HALO_HIP_GEMV_PAIR] = gemv_pair,
    [HALO_HIP_GEMV_NORM] = gemv_norm,
    [HALO_HIP_GEMV_GLU] = gemv_glu,
    [HALO_HIP_MOE_GEMV_GLU] = moe_gemv_glu,
    [HALO_HIP_MOE_ROUTER_NORM] = moe_router_norm,
    [HALO_HIP_MOE_ROUTER_NORM_SCORED] = moe_router_norm,
    [HALO_HIP_STRIP] = strip,
    [HALO_HIP_GEMM] = gemm,
    [HALO_HIP_MOE_GEMV] = moe_gemv,
    [HALO_HIP_MOE_GEMM] = moe_gemm,
    [HALO_HIP_KV_WRITE] = kv_write,
    [HALO_HIP_HEADS] = heads,
    [HALO_HIP_ATTEND_D128] = attend,
    [HALO_HIP_ATTEND_D256] = attend,
    [HALO_HIP_ATTEND_D512] = attend,
    [HALO_HIP_ATTEND_TILES_D128] = attend,
    [HALO_HIP_ATTEND_MERGE] = attend,
    [HALO_HIP_PREFILL_D128] = prefill,
    [HALO_HIP_PREFILL_D256] = prefill,
    [HALO_HIP_PREFILL_D512] = prefill,
    [HALO_HIP_LATENT] = attend,
    [HALO_HIP_LATENT_HEADS] = latent_heads,
    [HALO_HIP_LATENT_TILES] = attend,
    [HALO_HIP_RMSNORM] = rmsnorm,
    [HALO_HIP_LAYERNORM] = rmsnorm,
    [HALO_HIP_QUANTIZE] = quantize,
    [HALO_HIP_HALF_ROWS] = half,
    [HALO_HIP_HALF_ALIGN] = half_align,
    [HALO_HIP_QK_NORM] = qk_norm,
    [HALO_HIP_ROPE_NORM] = rope,
    [HALO_HIP_ROPE_NEOX] = rope,
    [HALO_HIP_GLU_SILU] = glu,
    [HALO_HIP_GLU_GELU] = glu,
    [HALO_HIP_GLU_RELU2] = glu,
    [HALO_HIP_GLU_CLAMPED] = glu,
    [HALO_HIP_GLU_LINEAR] = glu,
    [HALO_HIP_GLU_SIGMOID] = glu,
    [HALO_HIP_GLU_HALF_SILU] = glu_half,
    [HALO_HIP_GLU_HALF_GELU] = glu_half,
    [HALO_HIP_GLU_HALF_RELU2] = glu_half,
    [HALO_HIP_GLU_HALF_CLAMPED] = glu_half,
    [HALO_HIP_GLU_HALF_LINEAR] = glu_half,
    [HALO_HIP_GLU_HALF_SIGMOID] = glu_half,
    [HALO_HIP_LIMIT] = limit,
    [HALO_HIP_ADD] = add,
    [HALO_HIP_MOE_ROUTE] = moe_route,
    [HALO_HIP_MOE_ROUTE_SCORED] = moe_route,
    [HALO_HIP_MOE_GROUP] = moe_group,
    [HALO_HIP_MOE_ROUTER] = moe_router,
    [HALO_HIP_MOE_ROUTER_SCORED] = moe_router,
    [HALO_HIP_MOE_SUM] = moe_sum,
    [HALO_HIP_MOE_SUM_NORM] = moe_sum_norm,
    [HALO_HIP_MOE_SCALE] = moe_scale,
    [HALO_HIP_GATHER] = gather,
    [HALO_HIP_CONCAT] = concat,
    [HALO_HIP_CONV1D] = conv1d,
    [HALO_HIP_DELTA_RULE] = delta_rule,
    [HALO_HIP_SSM_SCAN] = ssm_scan,
    [HALO_HIP_STREAMS_MIX] = streams_mix,
    [HALO_HIP_STREAMS_ADD] = streams_add,
    [HALO_HIP_COMPRESS] = compress,
    [HALO_HIP_COMPRESS_STORE] = compress_store,
    [HALO_HIP_BLOCK_SCORES] = block_scores,
    [HALO_HIP_BLOCKS_CHOOSE] = blocks_choose,
    [HALO_HIP_ATTEND_BLOCKS] = attend_blocks,
    [HALO_HIP_ATTEND_BLOCKS_TILES] = attend_blocks,
};

/* The name of a device address. */
static void print_pointer(FILE *to, const struct halo_device_model *model, const void *p)
{
    const struct halo_hip_scratch *s = &model->scratch;
    const struct {
        const void *p;
        const char *name;
    } buffers[] = {
        {s->block_order, "orders"}, {s->expert_tables, "experts"},    {s->act[0], "act"},
        {s->act[1], "act1"},        {s->squares[0], "squares"},       {s->squares[1], "squares1"},
        {s->half, "half"},          {s->half_scale, "scale"},         {s->partial, "partial"},
        {s->counters, "counters"},  {s->gathered, "gathered"},        {s->moe_slot, "slots"},
        {s->moe_tile, "tiles"},     {model->logits_device, "logits"}, {model->experts.place_device, "places"}};
    for (uint32_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        if (buffers[i].p == p) {
            fprintf(to, "%s", buffers[i].name);
            return;
        }
    for (uint32_t i = 0; i < model->plan->n_values; i++)
        if (s->values[i] == p) {
            fprintf(to, "%s", model->plan->values[i].name);
            return;
        }
    for (uint32_t i = 0; i < model->plan->n_values; i++) {
        const uint8_t *value = (const uint8_t *)s->values[i], *at = p;
        if (at > value && at < value + (size_t)model->plan->max_rows * model->plan->values[i].width * sizeof(float)) {
            fprintf(to, "%s+%zu", model->plan->values[i].name, (size_t)(at - value));
            return;
        }
    }
    for (uint32_t i = 0; i < model->plan->n_weights; i++)
        if (halo_hip_weight(model, i) == p) {
            fprintf(to, "%s", model->plan->weights[i].name);
            return;
        }
    for (uint32_t i = 0; i < model->plan->kv[0].n_layers; i++)
        if (halo_hip_kv_layer(model, 0, i) == p) {
            fprintf(to, "kv%u", i);
            return;
        }
    for (uint32_t group = 0; group < model->plan->n_kv_groups; group++)
        for (uint32_t i = 0; i < model->plan->kv[group].n_layers; i++) {
            const uint8_t *layer = halo_hip_kv_layer(model, group, i), *at = p;
            if (model->plan->kv[group].state_width == 0 && at == layer) {
                fprintf(to, "kv%u.%u", group, i);
                return;
            }
            uint64_t n_bytes = model->plan->kv[group].state_width * sizeof(float);
            if (at >= layer && at < layer + n_bytes) {
                fprintf(to, "state%u+%u", i, (unsigned)((uint64_t)(at - layer) / sizeof(float)));
                return;
            }
        }
    fail_msg("the address %p has no name", p);
}

static void print_input(FILE *to, uint16_t at)
{
    static const struct {
        uint16_t at;
        const char *name;
    } inputs[] = {{offsetof(struct halo_hip_inputs, token), "token"},
                  {offsetof(struct halo_hip_inputs, pos), "pos"},
                  {offsetof(struct halo_hip_inputs, page_first), "page_first"},
                  {offsetof(struct halo_hip_inputs, output), "output"},
                  {offsetof(struct halo_hip_inputs, pages), "pages"},
                  {offsetof(struct halo_hip_inputs, tile), "tile"},
                  {offsetof(struct halo_hip_inputs, state_run), "state_run"}};
    for (uint32_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        if (inputs[i].at == at) {
            fprintf(to, "batch.%s", inputs[i].name);
            return;
        }
    uint32_t pages = offsetof(struct halo_hip_inputs, pages), ropes = offsetof(struct halo_hip_inputs, rope);
    if (at > pages && at < pages + HALO_KV_GROUPS_MAX * sizeof(uint32_t *))
        fprintf(to, "batch.pages%u", (uint32_t)((at - pages) / sizeof(uint32_t *)));
    else
        fprintf(to, "batch.rope%u", (uint32_t)((at - ropes) / sizeof(float *)));
}

static void print_amount(FILE *to, const struct halo_hip_amount *a)
{
    static const char *const names[] = {"", "rows", "sequences", "span", "splits", "tiles"};
    if (a->over == 0 || a->count == HALO_HIP_ONE) {
        fprintf(to, "%u", a->over == 0 ? 1 : a->times);
        return;
    }
    if (a->count == HALO_HIP_EXPERT_TILES) {
        fprintf(to, "tiles(rows*%u, %u)", a->times, a->over);
        return;
    }
    if (a->most)
        fprintf(to, "min(%u, ", a->most);
    if (a->count == HALO_HIP_SPLITS)
        fprintf(to, "splits(%u)", a->times);
    else if (a->over > 1 && a->times == 1)
        fprintf(to, "ceil(%s/%u)", names[a->count], a->over);
    else if (a->over > 1)
        fprintf(to, "ceil(%s*%u/%u)", names[a->count], a->times, a->over);
    else if (a->times > 1)
        fprintf(to, "%s*%u", names[a->count], a->times);
    else
        fprintf(to, "%s", names[a->count]);
    if (a->most)
        fprintf(to, ")");
}

static const struct halo_hip_patch *patch_of(const struct halo_hip_program *p, const struct halo_hip_launch *l,
                                             uint16_t at)
{
    for (uint32_t i = 0; i < l->n_patches; i++)
        if (p->patches[l->first_patch + i].at == at)
            return &p->patches[l->first_patch + i];
    return NULL;
}

/* One argument; those that are zero and stay so are left out. */
static void print_field(FILE *to, const struct halo_device_model *model, const struct halo_hip_launch *l,
                        const struct field *f)
{
    const uint8_t *args = model->program.args + l->first_arg;
    const struct halo_hip_patch *patch = patch_of(&model->program, l, f->at);
    uint64_t word = 0;
    float number;
    memcpy(&word, args + f->at, f->kind == POINTER || f->kind == U64 ? 8 : 4);
    memcpy(&number, &word, sizeof(number));
    if (word == 0 && (!patch || patch->kind == HALO_HIP_PATCH_STEP))
        return;
    bool is_streamed = patch && patch->kind == HALO_HIP_PATCH_MATRIX;
    fprintf(to, is_streamed ? " %s=slot." : " %s=", f->name);
    if (patch && patch->kind == HALO_HIP_PATCH_AMOUNT)
        print_amount(to, &patch->amount);
    else if (patch && patch->kind == HALO_HIP_PATCH_INPUT)
        print_input(to, patch->input);
    else if (f->kind == POINTER)
        print_pointer(to, model, (const void *)(uintptr_t)word);
    else if (f->kind == F32)
        fprintf(to, "%g", (double)number);
    else
        fprintf(to, "%llu", (unsigned long long)word);
    if (patch && patch->step > 0 && !is_streamed)
        fprintf(to, "+first*%u", patch->step);
}

static void print_launch(FILE *to, const struct halo_device_model *model, const struct halo_hip_loop *loop,
                         const struct halo_hip_launch *l)
{
    const struct halo_hip_variant *v = &halo_hip_variants[l->variant];
    fprintf(to, "    %2u %s(", l->op, v->kernel);
    for (int i = 0; i < 3; i++) {
        fprintf(to, i ? ", " : "");
        print_amount(to, &l->grid[i]);
    }
    fprintf(to, ")");
    if (l->tiles)
        fprintf(to, " for tiles");
    else if (l->min_span != loop->min || l->max_span != loop->max)
        fprintf(to, " for spans of %u..%u", l->min_span, l->max_span);
    if (l->levels != UINT8_MAX) {
        fprintf(to, " at levels");
        for (uint32_t i = 0; i < HALO_HIP_LEVELS; i++)
            if (l->levels >> i & 1)
                fprintf(to, " %u", i);
    }
    fprintf(to, "\n       ");
    for (const struct field *f = fields_of[v->op]; f->name; f++)
        print_field(to, model, l, f);
    fprintf(to, "\n");
}

static void print_class(FILE *to, const struct halo_device_model *model, uint32_t row_class, enum halo_hip_shape shape)
{
    static const char *const shapes[] = {"apart", "short", "mixed"};
    const struct halo_hip_row_class *rows = &halo_hip_row_classes[row_class];
    uint32_t max = rows->max < model->plan->max_rows ? rows->max : model->plan->max_rows;
    fprintf(to, "%u..%u rows, %s", rows->min, max, shapes[shape]);
}

static void print_loop(FILE *to, const struct halo_hip_loop *loop)
{
    static const char *const names[] = {"over rows",
                                        "over outputs",
                                        "over runs of tiles",
                                        "stop at the choice of",
                                        "stop for the experts of",
                                        "stop for the layer of",
                                        "stop behind the layer of"};
    fprintf(to, "  %s", names[loop->over]);
    if (loop->over >= HALO_HIP_STOP_AT_CHOICE)
        fprintf(to, " %u", loop->op);
    if (loop->over == HALO_HIP_OVER_OUTPUTS)
        fprintf(to, ", %u..%u of them", loop->min, loop->max);
    if (loop->most)
        fprintf(to, ", at most %u at a time", loop->most);
    fprintf(to, "\n");
}

void program_print_list(FILE *to, const struct halo_device_model *model, uint32_t row_class, enum halo_hip_shape shape)
{
    const struct halo_hip_program *p = &model->program;
    const struct halo_hip_list *list = &p->lists[row_class][shape];
    assert_true(list->exists);
    print_class(to, model, row_class, shape);
    fprintf(to, "\n");
    for (uint32_t i = list->first; i < list->first + list->n; i++) {
        print_loop(to, &p->loops[i]);
        for (uint32_t k = 0; k < p->loops[i].n; k++)
            print_launch(to, model, &p->loops[i], &p->launches[p->loops[i].first + k]);
    }
}

void program_print_kernels(FILE *to, const struct halo_device_model *model)
{
    const struct halo_hip_program *p = &model->program;
    for (uint32_t c = 0; c < HALO_HIP_ROW_CLASSES; c++)
        for (int shape = 0; shape < HALO_HIP_SHAPES; shape++) {
            const struct halo_hip_list *list = &p->lists[c][shape];
            if (!list->exists)
                continue;
            print_class(to, model, c, (enum halo_hip_shape)shape);
            fprintf(to, ":\n");
            for (uint32_t i = list->first; i < list->first + list->n; i++) {
                fprintf(to, "   ");
                for (uint32_t k = 0; k < p->loops[i].n; k++)
                    fprintf(to, " %s", halo_hip_variants[p->launches[p->loops[i].first + k].variant].kernel);
                fprintf(to, "\n");
            }
        }
}
