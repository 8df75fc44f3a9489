/* test_hip_program.c: a toy plan compiled for a GPU that needs no runtime, against its golden text, and what holds for
 * every program.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"
#include "program_text.h"
#include "program_toy.h"

enum { WIDTH = 64, DIM = 32, HEADS = 16, HEADS_KV = 2, FF = 96, EXPERTS = 4, USED = 2, VOCAB = 96, MAX_ROWS = 300 };

/* A layer of attention with normalised heads, then a mixture of experts; q and k of one type, v of another. */
static void build(struct fixture *f)
{
    const enum halo_weight_role matrix = HALO_WEIGHT_MATRIX, vector = HALO_WEIGHT_VECTOR, experts = HALO_WEIGHT_EXPERTS;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, VOCAB, MAX_ROWS, 4096);
    fixture_kv(f, HALO_KV_F16, 1, HEADS_KV, DIM, DIM);
    uint16_t x = program_value(f, "x", WIDTH), norm = program_value(f, "norm", WIDTH),
             q = program_value(f, "q", HEADS * DIM), k = program_value(f, "k", HEADS_KV * DIM),
             v = program_value(f, "v", HEADS_KV * DIM), heads = program_value(f, "heads", HEADS * DIM),
             out = program_value(f, "out", WIDTH), router = program_value(f, "router", EXPERTS),
             choice = program_value(f, "choice", 2 * USED), gate = program_value(f, "gate", USED * FF),
             up = program_value(f, "up", USED * FF), down = program_value(f, "down", USED * WIDTH);
    uint32_t table = program_weight(f, "table", HALO_TYPE_Q8_0, matrix, WIDTH, VOCAB, 1);
    uint32_t rope = fixture_rope(f, HALO_ROPE_NEOX, DIM, 1, 10000);
    uint32_t w_norm = program_weight(f, "w_norm", HALO_TYPE_F32, vector, WIDTH, 1, 1);
    uint32_t w_head = program_weight(f, "w_head", HALO_TYPE_F32, vector, DIM, 1, 1);
    uint32_t w_q = program_weight(f, "w_q", HALO_TYPE_Q4_0, matrix, WIDTH, HEADS * DIM, 1);
    uint32_t w_k = program_weight(f, "w_k", HALO_TYPE_Q4_0, matrix, WIDTH, HEADS_KV * DIM, 1);
    uint32_t w_v = program_weight(f, "w_v", HALO_TYPE_F16, matrix, WIDTH, HEADS_KV * DIM, 1);
    uint32_t w_out = program_weight(f, "w_out", HALO_TYPE_Q8_0, matrix, HEADS * DIM, WIDTH, 1);
    uint32_t w_router = program_weight(f, "w_router", HALO_TYPE_F32, matrix, WIDTH, EXPERTS, 1);
    uint32_t w_gate = program_weight(f, "w_gate", HALO_TYPE_Q4_0, experts, WIDTH, FF, EXPERTS);
    uint32_t w_up = program_weight(f, "w_up", HALO_TYPE_Q4_0, experts, WIDTH, FF, EXPERTS);
    uint32_t w_down = program_weight(f, "w_down", HALO_TYPE_Q8_0, experts, FF, WIDTH, EXPERTS);
    const struct halo_op ops[] = {
        {HALO_OP_EMBED, .u.embed = {table, x, 1}},
        {HALO_OP_RMSNORM, .u.rmsnorm = {.weight = w_norm,
                                        .x = x,
                                        .add = HALO_NONE,
                                        .out = norm,
                                        .eps = 1e-6f,
                                        .add_scale = 1,
                                        .bias = HALO_WEIGHT_NONE}},
        {HALO_OP_MATMUL, .u.matmul = {norm, 3, {w_q, w_k, w_v}, {none, none, none}, {q, k, v}}},
        {HALO_OP_QK_NORM, .u.qk_norm = {q, k, w_head, w_head, HEADS, HEADS_KV, DIM, 1e-6f}},
        {HALO_OP_ROPE, .u.rope = {q, k, HEADS, HEADS_KV, DIM, rope}},
        {HALO_OP_KV_WRITE, .u.kv_write = {k, v, 0}},
        {HALO_OP_ATTEND,
         .u.attend = {.q = q, .out = heads, .kv_layer = 0, .n_head = HEADS, .scale = 0.25f, .sinks = HALO_WEIGHT_NONE}},
        {HALO_OP_MATMUL, .u.matmul = {heads, 1, {w_out}, {none}, {out}}},
        {HALO_OP_RMSNORM, .u.rmsnorm = {.weight = w_norm,
                                        .x = x,
                                        .add = out,
                                        .out = norm,
                                        .eps = 1e-6f,
                                        .add_scale = 1,
                                        .bias = HALO_WEIGHT_NONE}},
        {HALO_OP_MATMUL, .u.matmul = {norm, 1, {w_router}, {none}, {router}}},
        {HALO_OP_MOE_ROUTE, .u.moe_route = {router, choice, EXPERTS, USED, true, 1, .bias = HALO_WEIGHT_NONE}},
        {HALO_OP_MOE_MATMUL,
         .u.moe_matmul = {norm, choice, 2, false, {w_gate, w_up}, {gate, up}, USED, HALO_WEIGHTS_NONE}},
        {HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {gate, choice, 1, true, {w_down}, {down}, USED, HALO_WEIGHTS_NONE}},
        {HALO_OP_MOE_SUM, .u.moe_sum = {down, choice, out, USED, HALO_NONE, HALO_NONE}},
        {HALO_OP_ADD, .u.add = {x, out}},
        {HALO_OP_LOGITS, .u.logits = {.weight = table, .x = x, .bias = HALO_WEIGHT_NONE, .scale = 1}},
    };
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
}

static void stream_experts(struct fixture *f)
{
    for (uint32_t i = 0; i < f->plan.n_weights; i++)
        f->weights[i].streamed = f->weights[i].role == HALO_WEIGHT_EXPERTS;
}

/* Attention of 20 heads over a latent cache. */
static void build_latent(struct fixture *f, enum halo_kv_type type)
{
    fixture_init(f, VOCAB, MAX_ROWS, 4096);
    fixture_kv(f, type, 1, 1, 576, 512);
    f->plan.kv[0].latent = true;
    uint16_t q = program_value(f, "q", 20 * 576), k = program_value(f, "k", 576),
             heads = program_value(f, "heads", 20 * 512);
    fixture_op(f, (struct halo_op){HALO_OP_KV_WRITE, .u.kv_write = {k, HALO_NONE, 0}});
    fixture_op(f,
               (struct halo_op){
                   HALO_OP_ATTEND,
                   .u.attend = {
                       .q = q, .out = heads, .kv_layer = 0, .n_head = 20, .scale = 0.25f, .sinks = HALO_WEIGHT_NONE}});
}

/* Matrices of `type` of the layer below. */
static uint32_t matrix_of(struct fixture *f, const char *name, enum halo_type type, uint32_t n_cols, uint32_t n_rows)
{
    return program_weight(f, name, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1);
}

static struct halo_op norm_of(struct fixture *f, const char *name, uint16_t x, uint16_t add, uint16_t out)
{
    uint32_t w = program_weight(f, name, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, f->values[x].width, 1, 1);
    return (struct halo_op){
        HALO_OP_RMSNORM,
        .u.rmsnorm = {
            .weight = w, .x = x, .add = add, .out = out, .eps = 1e-6f, .add_scale = 1, .bias = HALO_WEIGHT_NONE}};
}

/* Latent attention of `heads` heads as plan_latent makes it, behind the norm of the stream. */
enum { LATENT_HEADS = 5, LOW = 64, ROT = 32, ROW = 96, UP = 64 };
static void latent_attention(struct fixture *f, uint16_t normed, uint16_t out)
{
    const uint32_t none = HALO_WEIGHT_NONE, n = LATENT_HEADS, q_low_width = 64;
    uint16_t q_low = program_value(f, "q_low", q_low_width), row = program_value(f, "row", ROW),
             k_rot = program_value(f, "k_rot", ROT), q_up = program_value(f, "q_up", n * (LOW + ROT)),
             q_row = program_value(f, "q_row", n * LOW), q_rot = program_value(f, "q_rot", n * ROT),
             q_down = program_value(f, "q_down", n * ROW), q = program_value(f, "q", n * (ROW + ROT)),
             k = program_value(f, "k", ROW + ROT), att = program_value(f, "att", n * ROW),
             heads = program_value(f, "heads", n * UP);
    uint32_t w_q_a = matrix_of(f, "w_q_a", HALO_TYPE_Q4_0, WIDTH, q_low_width),
             w_row = matrix_of(f, "w_row", HALO_TYPE_Q4_0, WIDTH, ROW),
             w_rot = matrix_of(f, "w_rot", HALO_TYPE_Q4_0, WIDTH, ROT),
             w_q_b = matrix_of(f, "w_q_b", HALO_TYPE_Q4_0, q_low_width, n * (LOW + ROT)),
             w_k_b = program_weight(f, "w_k_b", HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, LOW, ROW, n),
             w_v_b = program_weight(f, "w_v_b", HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, ROW, UP, n),
             w_out = matrix_of(f, "w_out", HALO_TYPE_Q4_0, n * UP, WIDTH);
    uint32_t rope = fixture_rope(f, HALO_ROPE_NORM, ROT, 1, 10000);
    const struct halo_op ops[] = {
        {HALO_OP_MATMUL, .u.matmul = {normed, 3, {w_q_a, w_row, w_rot}, {none, none, none}, {q_low, row, k_rot}}},
        norm_of(f, "w_q_norm", q_low, HALO_NONE, q_low),
        {HALO_OP_MATMUL, .u.matmul = {q_low, 1, {w_q_b}, {none}, {q_up}}},
        norm_of(f, "w_row_norm", row, HALO_NONE, row),
        {HALO_OP_CONCAT, .u.concat = {q_up, HALO_NONE, q_row, n, 0, LOW, 0, false}},
        {HALO_OP_CONCAT, .u.concat = {q_up, HALO_NONE, q_rot, n, LOW, ROT, 0, false}},
        {HALO_OP_ROPE, .u.rope = {q_rot, k_rot, n, 1, ROT, rope}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {q_row, HALO_NONE, 1, true, {w_k_b}, {q_down}, n, HALO_WEIGHTS_NONE}},
        {HALO_OP_CONCAT, .u.concat = {q_down, q_rot, q, n, 0, ROW, ROT, false}},
        {HALO_OP_CONCAT, .u.concat = {row, k_rot, k, 1, 0, ROW, ROT, false}},
        {HALO_OP_KV_WRITE, .u.kv_write = {k, HALO_NONE, 0}},
        {HALO_OP_ATTEND,
         .u.attend = {.q = q, .out = att, .kv_layer = 0, .n_head = n, .scale = 0.25f, .sinks = HALO_WEIGHT_NONE}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {att, HALO_NONE, 1, true, {w_v_b}, {heads}, n, HALO_WEIGHTS_NONE}},
        {HALO_OP_MATMUL, .u.matmul = {heads, 1, {w_out}, {none}, {out}}},
    };
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
}

/* Routed experts beside a shared one, behind the same norm. */
static void shared_experts(struct fixture *f, uint16_t normed, uint16_t out)
{
    const uint32_t none = HALO_WEIGHT_NONE;
    uint16_t router = program_value(f, "router", EXPERTS), choice = program_value(f, "choice", 2 * USED),
             gate = program_value(f, "gate", USED * FF), up = program_value(f, "up", USED * FF),
             down = program_value(f, "down", USED * WIDTH), own_gate = program_value(f, "own_gate", FF),
             own_up = program_value(f, "own_up", FF), own = program_value(f, "own", WIDTH);
    uint32_t w_router = matrix_of(f, "w_router", HALO_TYPE_F32, WIDTH, EXPERTS),
             w_gate = program_weight(f, "w_gate", HALO_TYPE_Q4_0, HALO_WEIGHT_EXPERTS, WIDTH, FF, EXPERTS),
             w_up = program_weight(f, "w_up", HALO_TYPE_Q4_0, HALO_WEIGHT_EXPERTS, WIDTH, FF, EXPERTS),
             w_down = program_weight(f, "w_down", HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, FF, WIDTH, EXPERTS),
             w_own_gate = matrix_of(f, "w_own_gate", HALO_TYPE_Q4_0, WIDTH, FF),
             w_own_up = matrix_of(f, "w_own_up", HALO_TYPE_Q4_0, WIDTH, FF),
             w_own = matrix_of(f, "w_own", HALO_TYPE_Q8_0, FF, WIDTH);
    const struct halo_op ops[] = {
        {HALO_OP_MATMUL, .u.matmul = {normed, 1, {w_router}, {none}, {router}}},
        {HALO_OP_MOE_ROUTE, .u.moe_route = {router, choice, EXPERTS, USED, true, 1, .bias = none}},
        {HALO_OP_MOE_MATMUL,
         .u.moe_matmul = {normed, choice, 2, false, {w_gate, w_up}, {gate, up}, USED, HALO_WEIGHTS_NONE}},
        {HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}},
        {HALO_OP_MOE_MATMUL, .u.moe_matmul = {gate, choice, 1, true, {w_down}, {down}, USED, HALO_WEIGHTS_NONE}},
        {HALO_OP_MATMUL, .u.matmul = {normed, 2, {w_own_gate, w_own_up}, {none, none}, {own_gate, own_up}}},
        {HALO_OP_GLU, .u.glu = {own_gate, own_up, own_gate, HALO_GLU_SILU}},
        {HALO_OP_MATMUL, .u.matmul = {own_gate, 1, {w_own}, {none}, {own}}},
        {HALO_OP_MOE_SUM, .u.moe_sum = {down, choice, out, USED, own, HALO_NONE}},
    };
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
}

/* A layer of GLM-4.7-Flash, smaller. */
static void build_latent_layer(struct fixture *f)
{
    fixture_init(f, VOCAB, MAX_ROWS, 4096);
    fixture_kv(f, HALO_KV_F16, 1, 1, ROW + ROT, ROW);
    f->plan.kv[0].latent = true;
    uint16_t x = program_value(f, "x", WIDTH), normed = program_value(f, "normed", WIDTH),
             out = program_value(f, "out", WIDTH);
    uint32_t table = matrix_of(f, "table", HALO_TYPE_Q8_0, WIDTH, VOCAB);
    fixture_op(f, (struct halo_op){HALO_OP_EMBED, .u.embed = {table, x, 1}});
    fixture_op(f, norm_of(f, "w_first", x, HALO_NONE, normed));
    latent_attention(f, normed, out);
    fixture_op(f, norm_of(f, "w_second", x, out, normed));
    shared_experts(f, normed, out);
    fixture_op(f, norm_of(f, "w_last", x, out, normed));
    fixture_op(f, (struct halo_op){HALO_OP_LOGITS,
                                   .u.logits = {.weight = table, .x = normed, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

/* A layer with a convolution, the delta rule over what it gives, and a scan over the same: parts of one state. */
static void build_states(struct fixture *f)
{
    enum { HEAD = 32, QKV = 2 * HEAD + 2 * HEAD };
    const enum halo_weight_role matrix = HALO_WEIGHT_MATRIX, vector = HALO_WEIGHT_VECTOR;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, VOCAB, MAX_ROWS, 4096);
    fixture_kv(f, HALO_KV_F16, 1, HEADS_KV, DIM, DIM);
    uint32_t group = fixture_states(f, 2, 3 * QKV + 4 * HEAD * HEAD);
    uint16_t x = program_value(f, "x", WIDTH), qkv = program_value(f, "qkv", QKV), gates = program_value(f, "gates", 4),
             dt = program_value(f, "dt", 2), mixed = program_value(f, "mixed", QKV),
             heads = program_value(f, "heads", 2 * HEAD), scanned = program_value(f, "scanned", 2 * HEAD);
    uint32_t table = program_weight(f, "table", HALO_TYPE_Q8_0, matrix, WIDTH, VOCAB, 1);
    uint32_t w_qkv = program_weight(f, "w_qkv", HALO_TYPE_F16, matrix, WIDTH, QKV, 1);
    uint32_t w_gates = program_weight(f, "w_gates", HALO_TYPE_F16, matrix, WIDTH, 4, 1);
    uint32_t w_dt = program_weight(f, "w_dt", HALO_TYPE_F16, matrix, WIDTH, 2, 1);
    uint32_t w_out = program_weight(f, "w_out", HALO_TYPE_F16, matrix, 2 * HEAD, WIDTH, 1);
    uint32_t taps = program_weight(f, "taps", HALO_TYPE_F32, vector, 4, QKV, 1);
    uint32_t a = program_weight(f, "a", HALO_TYPE_F32, vector, 2, 1, 1),
             d = program_weight(f, "d", HALO_TYPE_F32, vector, 2, 1, 1),
             bias = program_weight(f, "bias", HALO_TYPE_F32, vector, 2, 1, 1);
    const struct halo_op ops[] = {
        {HALO_OP_EMBED, .u.embed = {table, x, 1}},
        {HALO_OP_MATMUL, .u.matmul = {x, 3, {w_qkv, w_gates, w_dt}, {none, none, none}, {qkv, gates, dt}}},
        {HALO_OP_CONV1D, .u.conv1d = {qkv, mixed, taps, none, true, {group, 1, 0}}},
        {HALO_OP_DELTA_RULE, .u.delta_rule = {.qkv = mixed,
                                              .alpha = gates,
                                              .beta = gates,
                                              .out = heads,
                                              .a = a,
                                              .dt_bias = bias,
                                              .n_head_k = 1,
                                              .n_head_v = 2,
                                              .dim_k = HEAD,
                                              .dim_v = HEAD,
                                              .gate_stride = 4,
                                              .beta_first = 2,
                                              .eps = 1e-6f,
                                              .scale = 0.5f,
                                              .state = {group, 1, 3 * QKV}}},
        {HALO_OP_SSM_SCAN, .u.ssm_scan = {.xbc = mixed,
                                          .dt = dt,
                                          .out = scanned,
                                          .a = a,
                                          .d = d,
                                          .dt_bias = bias,
                                          .n_head = 2,
                                          .head_dim = HEAD,
                                          .n_group = 1,
                                          .n_state = HEAD,
                                          .state = {group, 1, 3 * QKV + 2 * HEAD * HEAD}}},
        {HALO_OP_ADD, .u.add = {heads, scanned}},
        {HALO_OP_MATMUL, .u.matmul = {heads, 1, {w_out}, {none}, {x}}},
        {HALO_OP_LOGITS, .u.logits = {.weight = table, .x = x, .bias = none, .scale = 1}},
    };
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
}

/* A layer of two streams that attends to a window and to chosen blocks of four positions; its experts by token, and a
 * limit of what they multiply. */
static void build_blocks(struct fixture *f)
{
    enum { STREAMS = 2, KEY = 16, KEY_HEADS = 3, TOP_K = 5 };
    static const int32_t experts[VOCAB * USED];
    const enum halo_weight_role vector = HALO_WEIGHT_VECTOR;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, VOCAB, MAX_ROWS, 4096);
    fixture_kv(f, HALO_KV_F16, 1, 1, DIM, DIM);
    uint32_t blocks = fixture_kv_add(f, HALO_KV_F16, 1, 1, DIM, DIM),
             keys = fixture_kv_add(f, HALO_KV_F16, 1, 1, KEY, KEY);
    uint32_t states = fixture_states(f, 1, halo_compress_state_width(DIM, true) + halo_compress_state_width(KEY, true));
    for (uint32_t group = 0; group < states; group++)
        f->plan.kv[group].latent = true;
    f->plan.kv[blocks].stride = f->plan.kv[keys].stride = 4;
    uint16_t x = program_value(f, "x", STREAMS * WIDTH), mix = program_value(f, "mix", STREAMS * (STREAMS + 2)),
             back = program_value(f, "back", STREAMS * (STREAMS + 1)), in = program_value(f, "in", WIDTH),
             q = program_value(f, "q", HEADS * DIM), u = program_value(f, "u", 2 * DIM),
             z = program_value(f, "z", 2 * DIM), key_u = program_value(f, "key_u", 2 * KEY),
             key_z = program_value(f, "key_z", 2 * KEY), key_q = program_value(f, "key_q", KEY_HEADS * KEY),
             key_weight = program_value(f, "key_weight", KEY_HEADS), chosen = program_value(f, "chosen", TOP_K),
             heads = program_value(f, "heads", HEADS * DIM), router = program_value(f, "router", EXPERTS),
             choice = program_value(f, "choice", 2 * USED), gate = program_value(f, "gate", FF),
             up = program_value(f, "up", FF);
    uint32_t rope = fixture_rope(f, HALO_ROPE_NORM, DIM / 2, 1, 10000),
             key_rope = fixture_rope(f, HALO_ROPE_NORM, KEY, 1, 10000);
    uint32_t scale = program_weight(f, "scale", HALO_TYPE_F32, vector, 3, 1, 1);
    uint32_t base = program_weight(f, "base", HALO_TYPE_F32, vector, STREAMS * (STREAMS + 2), 1, 1);
    uint32_t bias = program_weight(f, "bias", HALO_TYPE_F32, vector, 2 * DIM, 4, 1),
             norm = program_weight(f, "norm", HALO_TYPE_F32, vector, DIM, 1, 1);
    uint32_t key_bias = program_weight(f, "key_bias", HALO_TYPE_F32, vector, 2 * KEY, 4, 1);
    uint32_t key_norm = program_weight(f, "key_norm", HALO_TYPE_F32, vector, KEY, 1, 1),
             sinks = program_weight(f, "sinks", HALO_TYPE_F32, vector, HEADS, 1, 1);
    const struct halo_op ops[] = {
        {HALO_OP_STREAMS_MIX, .u.streams_mix = {x, mix, in, back, scale, base, STREAMS, 20, 1e-6f}},
        {HALO_OP_COMPRESS, .u.compress = {u, z, bias, norm, DIM, 4, true, 1e-6f, rope, blocks, 0, {states, 0, 0}}},
        {HALO_OP_COMPRESS,
         .u.compress =
             {key_u, key_z, key_bias, key_norm, KEY, 4, true, 1e-6f, key_rope, keys, 0, {states, 0, 6 * DIM}}},
        {HALO_OP_BLOCKS_CHOOSE, .u.blocks_choose = {key_q, key_weight, chosen, KEY_HEADS, 4, TOP_K, keys, 0, 0.25f}},
        {HALO_OP_ATTEND_BLOCKS, .u.attend_blocks = {q, heads, chosen, HEADS, 0.25f, 0, 0, 128, blocks, 0, 4, sinks}},
        {HALO_OP_STREAMS_ADD, .u.streams_add = {x, back, in, STREAMS}},
        {HALO_OP_MOE_ROUTE, .u.moe_route = {.logits = router,
                                            .choice = choice,
                                            .n_expert = EXPERTS,
                                            .n_used = USED,
                                            .normalise = true,
                                            .scale = 1,
                                            .gate = HALO_MOE_SQRT_SOFTPLUS,
                                            .bias = none,
                                            .table = experts}},
        {HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU, 10}},
    };
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
}

/* What no chip of AMD's has: the rows of variants.def that say NVIDIA. */
static const char *const amd[] = {"attend_tiles_", "attend_merge_", NULL};

/* Decode of one row and of several, rows of one sequence, a prompt. */
static void launches_of_a_toy(void **state)
{
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    build(&f);
    program_compile(&f, &device, &model, amd);
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    program_print_list(to, &model, 3, HALO_HIP_APART);
    program_print_list(to, &model, 3, HALO_HIP_SHORT);
    program_print_list(to, &model, 4, HALO_HIP_MIXED);
    fprintf(to, "all kernels\n");
    program_print_kernels(to, &model);
    assert_int_equal(fclose(to), 0);
    program_compare("toy", text);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* At the last level of the context: matrix tiles, or without them the other kernel, and a launch that merges the
 * splits. Rows that see few pages of it, by a window, have few splits. */
static void launches_of_decode_attention(void **state)
{
    static const char *const all[] = {NULL}, *const no_tiles[] = {"attend_tiles_", NULL};
    static struct fixture f;
    build(&f);
    char *tiles = program_decode_text(&f, all), *merge = program_decode_text(&f, no_tiles);
    program_compare("toy-tiles", tiles);
    program_compare("toy-merge", merge);
    for (uint32_t window = 128; window <= 3000; window += 2872) {
        for (uint32_t i = 0; i < f.plan.n_ops; i++)
            if (f.ops[i].kind == HALO_OP_ATTEND)
                f.ops[i].u.attend.window = window;
        char *text = program_decode_text(&f, all);
        assert_int_equal(strstr(text, "attend_merge_") != NULL, window > 2048);
        free(text);
    }
    free(tiles);
    free(merge);
    fixture_finish(&f);
}

/* A unit of AMD's chips is two compute units: twice the blocks of decode attention, but no more than the GPU holds. */
static void splits_fill_a_unit(void **state)
{
    static const struct {
        const char *arch;
        uint32_t resident, most; /* blocks; 16 are wanted of four units */
    } cases[] = {{"gfx1151", 24, 24}, {"gfx1151", 100, 32}, {"gfx1151", 8, 0}, {"sm_90", 24, 0}};
    static const char *const all[] = {NULL};
    (void)state;
    static struct fixture f;
    static struct halo_device device;
    build(&f);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char reason[HALO_DEVICE_REASON] = "";
        struct halo_device_model model;
        uint32_t n = 0;
        program_device_init(&device, all);
        snprintf(device.properties.arch, sizeof(device.properties.arch), "%s", cases[i].arch);
        for (uint32_t v = 0; v < halo_hip_n_variants; v++)
            device.n_resident[v] = cases[i].resident;
        program_model_init(&model, &device, &f.plan);
        assert_int_equal(halo_hip_program_compile(&model.program, &model, reason), 0);
        for (uint32_t l = 0; l < model.program.n_launches; l++) {
            const struct halo_hip_amount *amount = &model.program.launches[l].grid[0];
            if (amount->count != HALO_HIP_SPLITS)
                continue;
            assert_int_equal(amount->most, cases[i].most);
            n++;
        }
        assert_true(n > 0);
        program_model_finish(&model);
    }
    fixture_finish(&f);
}

/* Where experts are streamed: the same launches, which find the experts in slots, and two stops. */
static void launches_with_streamed_experts(void **state)
{
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    build(&f);
    stream_experts(&f);
    program_compile(&f, &device, &model, amd);
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    assert_int_equal(fclose(to), 0);
    program_compare("toy-streamed", text);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* Ops with a state: the same launches for one row and for many, over the sequences of the batch. */
static void launches_with_states(void **state)
{
    static const char *const all[] = {NULL};
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    build_states(&f);
    program_compile(&f, &device, &model, all);
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    program_print_list(to, &model, 5, HALO_HIP_MIXED);
    assert_int_equal(fclose(to), 0);
    program_compare("toy-states", text);
    /* Where decode attention has matrix tiles, it takes pieces of up to 32 rows as well. */
    assert_int_equal(model.program.prefill_rows, HALO_HIP_PREFILL_ABOVE_TILES);
    assert_false(model.program.lists[4][HALO_HIP_MIXED].exists);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* Compressed blocks: scores of a prompt's rows go in spans that their memory has room for. */
static void launches_with_blocks(void **state)
{
    static const char *const all[] = {NULL};
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    build_blocks(&f);
    program_compile(&f, &device, &model, all);
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    program_print_list(to, &model, 5, HALO_HIP_MIXED);
    assert_int_equal(fclose(to), 0);
    program_compare("toy-blocks", text);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* What the kernels of blocks do not take is refused by name. */
static void shapes_of_blocks_are_refused(void **state)
{
    enum { COMPRESS = 1, CHOOSE = 3, ATTEND = 4, LONG = HALO_KEY_DIM + 8 };
    static const char *const all[] = {NULL};
    static struct fixture f;
    static struct halo_device device;
    char reason[HALO_DEVICE_REASON] = "";
    build_blocks(&f);
    program_device_init(&device, all);
    f.plan.kv[1].type = HALO_KV_Q8;
    assert_int_equal(halo_hip_supports(&device, &f.plan, ATTEND, reason), -ENOTSUP);
    assert_string_equal(
        reason, "attend_blocks: the window and the blocks are kept in two types; use one KV cache type for both");
    f.plan.kv[1].type = HALO_KV_F16;
    f.plan.kv[2].head_dim_k = f.plan.kv[2].head_dim_v = LONG;
    f.values[f.ops[CHOOSE].u.blocks_choose.q].width = 3 * LONG;
    assert_int_equal(halo_hip_supports(&device, &f.plan, CHOOSE, reason), -ENOTSUP);
    assert_string_equal(reason, "blocks_choose: keys of 136 elements, at most 128 are supported");
    /* As many tables of rotations as there are in front of a compression. */
    for (uint32_t i = 2; i < 4; i++)
        fixture_rope(&f, HALO_ROPE_NORM, DIM / 2, 1, 10000);
    const struct halo_op compress = f.ops[COMPRESS];
    for (uint32_t i = 0; i < HALO_HIP_TABLES_MAX; i++) {
        f.ops[i] = compress;
        f.ops[i].u.compress.ratio = 2 + i;
    }
    f.ops[HALO_HIP_TABLES_MAX - 1].u.compress.ratio = 4;
    f.ops[2].u.compress.ratio = 9;
    assert_int_equal(halo_hip_supports(&device, &f.plan, HALO_HIP_TABLES_MAX - 1, reason), -ENOTSUP);
    assert_string_equal(
        reason, "compress: the rotation of blocks of 4 positions by rope 0 is one table too many; 8 are supported, "
                "those of the 4 ropes included");
    fixture_finish(&f);
}

/* The kernels that replace them on a GPU without matrix units, or where a file was built without the fused kernels. */
static void launches_without_matrix_units(void **state)
{
    static const char *const without[] = {"strip_", "prefill_",      "gemm_",         "moe_gemm_",
                                          "heads_", "attend_tiles_", "attend_merge_", NULL};
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    build(&f);
    program_compile(&f, &device, &model, without);
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_print_kernels(to, &model);
    program_print_list(to, &model, 5, HALO_HIP_SHORT);
    assert_int_equal(fclose(to), 0);
    program_compare("toy-plain", text);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* Tiles of prompts, and of single rows where the cache is not f32 and the GPU has them. */
static void launches_over_a_latent_cache(void **state)
{
    static const struct {
        enum halo_kv_type type;
        const char *without[2], *what;
    } cases[] = {{HALO_KV_F16, {NULL}, "f16"},
                 {HALO_KV_F32, {NULL}, "f32"},
                 {HALO_KV_F16, {"latent_tiles", NULL}, "f16 without matrix units"}};
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        build_latent(&f, cases[i].type);
        program_compile(&f, &device, &model, cases[i].without);
        fprintf(to, "%s\n", cases[i].what);
        program_print_list(to, &model, 0, HALO_HIP_APART);
        program_print_list(to, &model, 5, i < 2 ? HALO_HIP_MIXED : HALO_HIP_SHORT);
        program_model_finish(&model);
        fixture_finish(&f);
    }
    assert_int_equal(fclose(to), 0);
    program_compare("latent", text);
    free(text);
}

/* A whole layer: of few rows what lies between the products and attention is one launch; prompts have one for each
 * op, and so has a GPU without the kernel. */
static void launches_of_a_latent_layer(void **state)
{
    static const char *const all[] = {NULL}, *const without[] = {"latent_heads", NULL};
    static struct fixture f;
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    build_latent_layer(&f);
    program_compile(&f, &device, &model, all);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    program_print_kernels(to, &model);
    program_model_finish(&model);
    program_compile(&f, &device, &model, without);
    fprintf(to, "without latent_heads\n");
    program_print_list(to, &model, 0, HALO_HIP_APART);
    assert_int_equal(fclose(to), 0);
    program_compare("latent-layer", text);
    free(text);
    program_model_finish(&model);
    fixture_finish(&f);
}

/* Shapes of a latent cache that the kernels do not take, by name. */
static void latent_shapes_are_refused(void **state)
{
    static const struct {
        enum halo_kv_type type;
        uint32_t n_head_kv, dim_k, dim_v;
        const char *reason;
    } cases[] = {
        {HALO_KV_F16, 2, 576, 512, "attend: a latent cache of 2 rows for each position, only 1 is supported"},
        {HALO_KV_F16, 1, 584, 512,
         "attend: latent rows of 584 with values of 512; rows must be multiples of 8 and values of 4, up to 576 and "
         "512"},
        {HALO_KV_F32, 1, 36, 32,
         "attend: latent rows of 36 with values of 32; rows must be multiples of 8 and values of 4, up to 576 and 512"},
        {HALO_KV_Q4, 1, 576, 512, "attend: a latent cache cannot be q4; use q8 or f16"},
        {HALO_KV_Q8, 1, 40, 32,
         "attend: latent rows of 40 with values of 32; rows must be multiples of 32 and values of 4, up to 576 and "
         "512"},
    };
    static const char *const all[] = {NULL};
    static struct fixture f;
    static struct halo_device device;
    build_latent(&f, HALO_KV_F16);
    program_device_init(&device, all);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char reason[HALO_DEVICE_REASON] = "";
        struct halo_kv_group *kv = &f.plan.kv[0];
        kv->type = cases[i].type;
        kv->n_head_kv = cases[i].n_head_kv;
        kv->head_dim_k = cases[i].dim_k;
        kv->head_dim_v = cases[i].dim_v;
        f.values[0].width = 20 * kv->head_dim_k;
        f.values[2].width = 20 * kv->head_dim_v;
        assert_int_equal(halo_hip_supports(&device, &f.plan, 1, reason), -ENOTSUP);
        assert_string_equal(reason, cases[i].reason);
    }
    fixture_finish(&f);
}

/* Without a kernel that some batch needs, the op is refused; the reason names the op and the kernel. */
static void a_missing_kernel_is_named(void **state)
{
    static const struct {
        const char *kernel, *reason;
    } cases[] = {{"embed_q8_0", "embed: kernels.toy has no kernel embed_q8_0 for 1 row of type 8"},
                 {"rmsnorm", "rmsnorm: kernels.toy has no kernel rmsnorm for 1 row of type 127"},
                 {"gemv_q4_0_x4", "matmul: kernels.toy has no kernel gemv_q4_0_x4 for 3 rows of type 2"},
                 {"kv_write_f16", "kv_write: kernels.toy has no kernel kv_write_f16 for 1 row of type 65"},
                 {"attend_f16_g4_d128", "attend: kernels.toy has no kernel attend_f16_g4_d128 for 4 rows of type 65"},
                 {"moe_group", "moe_matmul: kernels.toy has no kernel moe_group for 33 rows of type 127"},
                 {"largest", "logits: kernels.toy has no kernels for lists of the largest"},
                 {"gather_rows", "logits: kernels.toy has no kernel gather_rows for 1 row of type 127"}};
    static struct fixture f;
    static struct halo_device device;
    build(&f);
    for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const char *const without[] = {cases[c].kernel, "attend_tiles_", "attend_merge_", NULL};
        char reason[HALO_DEVICE_REASON] = "";
        int r = 0;
        program_device_init(&device, without);
        for (uint32_t i = 0; i < f.plan.n_ops && !r; i++)
            r = halo_hip_supports(&device, &f.plan, i, reason);
        assert_int_equal(r, -ENOTSUP);
        assert_string_equal(reason, cases[c].reason);
    }
    fixture_finish(&f);
}

/* Rows of a head's state are held in registers: longer ones are refused before anything is loaded. */
static void long_rows_of_a_state_are_refused(void **state)
{
    static const char *const all[] = {NULL};
    static struct fixture f;
    static struct halo_device device;
    char reason[HALO_DEVICE_REASON] = "";
    build_states(&f);
    program_device_init(&device, all);
    enum { DELTA = 3, SCAN = 4, COLS = HALO_RECURRENCE_COLS + 1 };
    f.ops[DELTA].u.delta_rule.dim_k = f.ops[SCAN].u.ssm_scan.n_state = COLS;
    f.values[f.ops[DELTA].u.delta_rule.qkv].width = 2 * COLS + 2 * f.ops[DELTA].u.delta_rule.dim_v;
    f.plan.kv[1].state_width = 1 << 20;
    assert_int_equal(halo_hip_supports(&device, &f.plan, DELTA, reason), -ENOTSUP);
    assert_string_equal(reason, "delta_rule: the state has rows of 513 elements, at most 512 are supported");
    assert_int_equal(halo_hip_supports(&device, &f.plan, SCAN, reason), -ENOTSUP);
    assert_string_equal(reason, "ssm_scan: the state has rows of 513 elements, at most 512 are supported");
    fixture_finish(&f);
}

/* Every number of rows belongs to one class, and no kernel serves only part of a class. */
static void classes_follow_the_table_of_variants(void **state)
{
    static const uint32_t by_rows[] = {HALO_HIP_GEMV, HALO_HIP_STRIP, HALO_HIP_GEMM, HALO_HIP_MOE_GEMV};
    for (uint32_t c = 0; c < HALO_HIP_ROW_CLASSES; c++) {
        const struct halo_hip_row_class *rows = &halo_hip_row_classes[c];
        assert_int_equal(rows->min, c == 0 ? 1 : rows[-1].max + 1);
        for (uint32_t op = 0; op < sizeof(by_rows) / sizeof(by_rows[0]); op++)
            for (uint32_t type = 0; type < HALO_TYPE_END; type++)
                assert_ptr_equal(halo_hip_variant_find(by_rows[op], type, rows->min),
                                 halo_hip_variant_find(by_rows[op], type, rows->max));
        assert_ptr_equal(halo_hip_variant_find(HALO_HIP_HALF_ROWS, HALO_HIP_TYPE_ANY, rows->min),
                         halo_hip_variant_find(HALO_HIP_HALF_ROWS, HALO_HIP_TYPE_ANY, rows->max));
    }
    assert_int_equal(halo_hip_row_classes[HALO_HIP_ROW_CLASSES - 1].max, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_a_toy),
        cmocka_unit_test(launches_of_decode_attention),
        cmocka_unit_test(splits_fill_a_unit),
        cmocka_unit_test(launches_with_streamed_experts),
        cmocka_unit_test(launches_with_states),
        cmocka_unit_test(launches_with_blocks),
        cmocka_unit_test(shapes_of_blocks_are_refused),
        cmocka_unit_test(launches_without_matrix_units),
        cmocka_unit_test(launches_over_a_latent_cache),
        cmocka_unit_test(launches_of_a_latent_layer),
        cmocka_unit_test(latent_shapes_are_refused),
        cmocka_unit_test(a_missing_kernel_is_named),
        cmocka_unit_test(long_rows_of_a_state_are_refused),
        cmocka_unit_test(classes_follow_the_table_of_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
