/* test_check.c: the checks of plans and batches: a plan with every op passes, and each thing that can be wrong is
 * refused with a reason that names the op and the numbers. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <common/check.h>

enum {
    EMBED,
    RMSNORM,
    MATMUL,
    QK_NORM,
    ROPE,
    KV_WRITE,
    ATTEND,
    GLU,
    MOE_ROUTE,
    MOE_MATMUL,
    MOE_SUM,
    ADD,
    LOGITS,
    CONCAT,
    CONV1D,
    DELTA_RULE,
    SSM_SCAN,
    N_OPS
};
enum { V_X, V_NORM, V_Q, V_K, V_V, V_OUT, V_ROUTER, V_CHOICE, V_EXPERTS, N_VALUES };
enum { W_TABLE, W_NORM, W_Q, W_BIAS, W_HEAD_NORM, W_EXPERTS, W_TAPS, W_GATE, W_HEADS, N_WEIGHTS };
enum { WIDTH = 64, DIM = 16, HEADS = 4, HEADS_KV = 2, VOCAB = 10, EXPERTS = 3, USED = 2, TAPS = 4 };

/* A plan with one op of each kind; the cases below change parts of it. */
struct toy {
    struct halo_plan plan;
    struct halo_op ops[N_OPS];
    struct halo_weight weights[N_WEIGHTS];
    struct halo_value values[N_VALUES];
    struct halo_rope rope;
};

static struct halo_weight weight(enum halo_weight_role role, uint32_t n_cols, uint32_t n_rows, uint32_t n_experts)
{
    return (struct halo_weight){.name = "w",
                                .type = HALO_TYPE_F32,
                                .role = role,
                                .n_cols = n_cols,
                                .n_rows = n_rows,
                                .n_experts = n_experts,
                                .n_bytes = 4ull * n_cols * n_rows * n_experts};
}

static void toy_ops(struct toy *t)
{
    const struct halo_op ops[N_OPS] = {
        [EMBED] = {HALO_OP_EMBED, .u.embed = {W_TABLE, V_X, 1}},
        [RMSNORM] = {HALO_OP_RMSNORM, .u.rmsnorm = {.weight = W_NORM,
                                                    .x = V_X,
                                                    .add = V_OUT,
                                                    .out = V_NORM,
                                                    .eps = 1e-6f,
                                                    .add_scale = 1,
                                                    .bias = HALO_WEIGHT_NONE}},
        [MATMUL] = {HALO_OP_MATMUL, .u.matmul = {V_NORM, 1, {W_Q}, {W_BIAS}, {V_Q}}},
        [QK_NORM] = {HALO_OP_QK_NORM, .u.qk_norm = {V_Q, V_K, W_HEAD_NORM, W_HEAD_NORM, HEADS, HEADS_KV, DIM, 1e-6f}},
        [ROPE] = {HALO_OP_ROPE, .u.rope = {V_Q, V_K, HEADS, HEADS_KV, DIM, 0}},
        [KV_WRITE] = {HALO_OP_KV_WRITE, .u.kv_write = {V_K, V_V, 0}},
        [ATTEND] = {HALO_OP_ATTEND, .u.attend = {.q = V_Q,
                                                 .out = V_OUT,
                                                 .kv_layer = 0,
                                                 .n_head = HEADS,
                                                 .scale = 1,
                                                 .sinks = HALO_WEIGHT_NONE}},
        [GLU] = {HALO_OP_GLU, .u.glu = {V_Q, V_OUT, V_Q, HALO_GLU_SILU}},
        [MOE_ROUTE] = {HALO_OP_MOE_ROUTE,
                       .u.moe_route = {V_ROUTER, V_CHOICE, EXPERTS, USED, true, 1, .bias = HALO_WEIGHT_NONE}},
        [MOE_MATMUL] =
            {HALO_OP_MOE_MATMUL,
             .u.moe_matmul = {V_NORM, V_CHOICE, 1, false, {W_EXPERTS}, {V_EXPERTS}, USED, HALO_WEIGHTS_NONE}},
        [MOE_SUM] = {HALO_OP_MOE_SUM, .u.moe_sum = {V_EXPERTS, V_CHOICE, V_OUT, USED, HALO_NONE, HALO_NONE}},
        [ADD] = {HALO_OP_ADD, .u.add = {V_X, V_OUT}},
        [CONCAT] = {HALO_OP_CONCAT, .u.concat = {V_Q, HALO_NONE, V_OUT, HEADS, 0, DIM, 0, false}},
        [CONV1D] = {HALO_OP_CONV1D,
                    .u.conv1d = {V_X, V_OUT, W_TAPS, W_NORM, true, {.kv_group = 1, .kv_layer = 1, .offset = 2}}},
        [DELTA_RULE] = {HALO_OP_DELTA_RULE, .u.delta_rule = {.qkv = V_Q,
                                                             .alpha = V_ROUTER,
                                                             .beta = V_ROUTER,
                                                             .out = V_K,
                                                             .a = W_GATE,
                                                             .dt_bias = W_GATE,
                                                             .n_head_k = 1,
                                                             .n_head_v = 2,
                                                             .dim_k = DIM,
                                                             .dim_v = DIM,
                                                             .gate_stride = 3,
                                                             .alpha_first = 1,
                                                             .eps = 1e-6f,
                                                             .scale = 1,
                                                             .state = {.kv_group = 1, .kv_layer = 1}}},
        [SSM_SCAN] = {HALO_OP_SSM_SCAN, .u.ssm_scan = {.xbc = V_Q,
                                                       .dt = V_CHOICE,
                                                       .out = V_K,
                                                       .a = W_HEADS,
                                                       .d = W_HEADS,
                                                       .dt_bias = W_HEADS,
                                                       .n_head = HEADS,
                                                       .head_dim = 8,
                                                       .n_group = HEADS,
                                                       .n_state = 4,
                                                       .state = {.kv_group = 1, .kv_layer = 1}}},
        [LOGITS] = {HALO_OP_LOGITS, .u.logits = {.weight = W_TABLE, .x = V_X, .bias = HALO_WEIGHT_NONE, .scale = 1}},
    };
    memcpy(t->ops, ops, sizeof(ops));
}

static void toy_init(struct toy *t)
{
    static const uint32_t widths[N_VALUES] = {WIDTH, WIDTH,   HEADS * DIM, HEADS_KV * DIM, HEADS_KV * DIM,
                                              WIDTH, EXPERTS, 2 * USED,    USED * WIDTH};
    *t = (struct toy){.rope = {HALO_ROPE_NEOX, DIM, 1, NULL}};
    t->weights[W_TABLE] = weight(HALO_WEIGHT_MATRIX, WIDTH, VOCAB, 1);
    t->weights[W_NORM] = weight(HALO_WEIGHT_VECTOR, WIDTH, 1, 1);
    t->weights[W_Q] = weight(HALO_WEIGHT_MATRIX, WIDTH, HEADS * DIM, 1);
    t->weights[W_BIAS] = weight(HALO_WEIGHT_VECTOR, HEADS * DIM, 1, 1);
    t->weights[W_HEAD_NORM] = weight(HALO_WEIGHT_VECTOR, DIM, 1, 1);
    t->weights[W_EXPERTS] = weight(HALO_WEIGHT_EXPERTS, WIDTH, WIDTH, EXPERTS);
    t->weights[W_HEADS] = weight(HALO_WEIGHT_VECTOR, 1, HEADS, 1);
    t->weights[W_TAPS] = weight(HALO_WEIGHT_VECTOR, TAPS, WIDTH, 1);
    t->weights[W_GATE] = weight(HALO_WEIGHT_VECTOR, 2, 1, 1);
    for (uint32_t i = 0; i < N_VALUES; i++)
        t->values[i] = (struct halo_value){"v", widths[i]};
    toy_ops(t);
    t->plan = (struct halo_plan){
        .n_ops = N_OPS,
        .n_weights = N_WEIGHTS,
        .n_values = N_VALUES,
        .n_ropes = 1,
        .ops = t->ops,
        .weights = t->weights,
        .values = t->values,
        .ropes = &t->rope,
        .n_kv_groups = 2,
        .kv = {{HALO_KV_F16, 1, HEADS_KV, DIM, DIM, 4}, {.n_layers = 2, .n_pages = 2, .state_width = 512}},
        .n_vocab = VOCAB,
        .n_context = 64,
        .max_rows = 8,
        .max_outputs = 2};
}

/* A device that has no kernels for Q8_0. */
static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    return type != HALO_TYPE_Q8_0 && n_cols > 0 && role <= HALO_WEIGHT_EXPERTS;
}
static const struct halo_plan_limits limits = {.experts_max = EXPERTS, .weight_fits = weight_fits};

static void a_plan_with_every_op_passes(void **state)
{
    struct toy t;
    char reason[HALO_DEVICE_REASON] = "";
    toy_init(&t);
    for (uint32_t i = 0; i < N_OPS; i++)
        if (halo_plan_check(&t.plan, i, &limits, reason) != 0)
            fail_msg("op %u: %s", i, reason);
}

#define SPOIL(name, what)                                                                                              \
    static void name(struct toy *t)                                                                                    \
    {                                                                                                                  \
        what;                                                                                                          \
    }
SPOIL(value_beyond, t->ops[EMBED].u.embed.out = 50)
SPOIL(table_too_short, t->weights[W_TABLE].n_rows = 9; t->weights[W_TABLE].n_bytes = 4ull * WIDTH * 9)
SPOIL(norm_too_short, t->weights[W_NORM] = weight(HALO_WEIGHT_VECTOR, WIDTH - 1, 1, 1))
SPOIL(norm_bytes, t->weights[W_NORM].n_bytes++)
SPOIL(add_too_wide, t->ops[RMSNORM].u.rmsnorm.add = V_EXPERTS)
SPOIL(no_weights, t->ops[MATMUL].u.matmul.n = 0)
SPOIL(weight_beyond, t->ops[MATMUL].u.matmul.weight[0] = 50)
SPOIL(weight_type, t->weights[W_Q].type = (enum halo_type)77)
SPOIL(weight_kernel, t->weights[W_Q].type = HALO_TYPE_Q8_0)
SPOIL(weight_role, t->weights[W_Q].role = HALO_WEIGHT_EXPERTS)
SPOIL(out_is_x, t->weights[W_Q] = weight(HALO_WEIGHT_MATRIX, WIDTH, WIDTH, 1); t->ops[MATMUL].u.matmul.out[0] = V_NORM)
SPOIL(bias_too_long, t->ops[MATMUL].u.matmul.bias[0] = W_HEAD_NORM)
SPOIL(head_bias_too_long, t->ops[LOGITS].u.logits.bias = W_HEAD_NORM)
SPOIL(heads_do_not_fit, t->ops[QK_NORM].u.qk_norm.n_head = 3)
SPOIL(heads_of_their_own, t->weights[W_HEAD_NORM] = weight(HALO_WEIGHT_VECTOR, DIM, HEADS, 1))
SPOIL(heads_of_three, (t->weights[W_HEAD_NORM] = weight(HALO_WEIGHT_VECTOR, DIM, 3, 1),
                       t->ops[QK_NORM].u.qk_norm.k = HALO_NONE, t->ops[QK_NORM].u.qk_norm.n_head_kv = 0))
SPOIL(heads_of_k, (t->ops[QK_NORM].u.qk_norm.q_weight = HALO_WEIGHT_NONE,
                   t->weights[W_HEAD_NORM] = weight(HALO_WEIGHT_VECTOR, DIM, HEADS_KV, 1)))
SPOIL(heads_of_nothing, t->ops[QK_NORM].u.qk_norm.k = HALO_NONE)
SPOIL(factor_without_add, t->ops[RMSNORM].u.rmsnorm.add = HALO_NONE; t->ops[RMSNORM].u.rmsnorm.x_scale = 2)
SPOIL(rope_beyond, t->ops[ROPE].u.rope.rope = 1)
SPOIL(rotation_too_wide, t->rope.n_rot = DIM + 2)
SPOIL(pairing, t->rope.pairing = (enum halo_rope_pairing)7)
SPOIL(group_beyond, t->ops[ATTEND].u.attend.kv_group = 2)
SPOIL(window_wide, t->plan.kv[0].window = 8; t->ops[ATTEND].u.attend.window = 9)
SPOIL(window_none, t->plan.kv[0].window = 8)
SPOIL(layer_beyond, t->ops[KV_WRITE].u.kv_write.kv_layer = 1)
SPOIL(cache_type, t->plan.kv[0].type = (enum halo_kv_type)9)
SPOIL(groups_uneven, t->ops[ATTEND].u.attend.n_head = 3)
SPOIL(bias_of_rms, t->ops[RMSNORM].u.rmsnorm.bias = W_NORM)
SPOIL(norm_bias_too_short, t->ops[RMSNORM].u.rmsnorm.centre = true; t->ops[RMSNORM].u.rmsnorm.bias = W_HEAD_NORM)
SPOIL(sinks_too_many, t->ops[ATTEND].u.attend.sinks = W_HEAD_NORM)
SPOIL(cap_negative, t->ops[ATTEND].u.attend.cap = -1)
SPOIL(temperature_nan, t->ops[ATTEND].u.attend.temperature = NAN)
SPOIL(no_period, t->ops[ATTEND].u.attend.temperature = 0.1f)
SPOIL(logit_cap_infinite, t->ops[LOGITS].u.logits.cap = INFINITY)
SPOIL(activation, t->ops[GLU].u.glu.act = HALO_GLU_ACTS)
SPOIL(clamped_without_up, t->ops[GLU].u.glu.act = HALO_GLU_CLAMPED; t->ops[GLU].u.glu.up = HALO_NONE)
SPOIL(too_many_used, t->ops[MOE_ROUTE].u.moe_route.n_used = 4)
SPOIL(too_many_experts, t->weights[W_EXPERTS] = weight(HALO_WEIGHT_EXPERTS, WIDTH, WIDTH, EXPERTS + 1))
SPOIL(slots, t->ops[MOE_MATMUL].u.moe_matmul.n_used = 0)
SPOIL(gate, t->ops[MOE_ROUTE].u.moe_route.gate = (enum halo_moe_gate)7)
SPOIL(route_bias, t->ops[MOE_ROUTE].u.moe_route.bias = W_NORM)
SPOIL(expert_groups, (t->ops[MOE_ROUTE].u.moe_route.n_groups = 2, t->ops[MOE_ROUTE].u.moe_route.n_groups_used = 1))
SPOIL(gate_alone, t->ops[MOE_SUM].u.moe_sum.add_gate = V_ROUTER)
SPOIL(shared_width, t->ops[MOE_SUM].u.moe_sum.add = V_K)
SPOIL(shared_gate, (t->ops[MOE_SUM].u.moe_sum.add = V_X, t->ops[MOE_SUM].u.moe_sum.add_gate = V_ROUTER))
SPOIL(expert_bias, t->ops[MOE_MATMUL].u.moe_matmul.bias[0] = W_NORM)
SPOIL(sum_width, t->ops[MOE_SUM].u.moe_sum.n_used = 1)
SPOIL(all_slots, t->ops[MOE_MATMUL].u.moe_matmul.choice = HALO_NONE)
SPOIL(latent_v, t->plan.kv[0].latent = true)
SPOIL(latent_value, (t->plan.kv[0].latent = true, t->plan.kv[0].head_dim_v = DIM + 1))
SPOIL(concat_beyond, t->ops[CONCAT].u.concat.a_first = 1)
SPOIL(concat_width, t->ops[CONCAT].u.concat.n_a = 8)
SPOIL(concat_b, t->ops[CONCAT].u.concat.b = V_K)
SPOIL(concat_in_place, t->ops[CONCAT].u.concat.out = V_Q)
SPOIL(conv_in_place, t->ops[CONV1D].u.conv1d.out = V_X)
SPOIL(conv_width, t->ops[CONV1D].u.conv1d.out = V_K)
SPOIL(conv_one_tap, t->weights[W_TAPS] = weight(HALO_WEIGHT_VECTOR, 1, WIDTH, 1))
SPOIL(conv_many_taps, t->weights[W_TAPS] = weight(HALO_WEIGHT_VECTOR, 9, WIDTH, 1))
SPOIL(conv_channels, t->weights[W_TAPS] = weight(HALO_WEIGHT_VECTOR, TAPS, WIDTH - 1, 1))
SPOIL(conv_weight_beyond, t->ops[CONV1D].u.conv1d.weight = 50)
SPOIL(conv_bias, t->ops[CONV1D].u.conv1d.bias = W_HEAD_NORM)
SPOIL(state_group, t->ops[CONV1D].u.conv1d.state.kv_group = 2)
SPOIL(state_layer, t->ops[CONV1D].u.conv1d.state.kv_layer = 2)
SPOIL(state_short, t->ops[CONV1D].u.conv1d.state.offset = 321)
SPOIL(state_far, t->ops[CONV1D].u.conv1d.state.offset = UINT32_MAX)
SPOIL(state_of_positions, t->ops[CONV1D].u.conv1d.state = (struct halo_state_part){0})
SPOIL(delta_heads, t->ops[DELTA_RULE].u.delta_rule.n_head_k = 0)
SPOIL(delta_uneven, t->ops[DELTA_RULE].u.delta_rule.n_head_k = 3)
SPOIL(delta_stride, t->ops[DELTA_RULE].u.delta_rule.gate_stride = 1)
SPOIL(delta_alpha, t->ops[DELTA_RULE].u.delta_rule.alpha_first = 2)
SPOIL(delta_beta, t->ops[DELTA_RULE].u.delta_rule.beta_first = 2)
SPOIL(delta_qkv, t->ops[DELTA_RULE].u.delta_rule.qkv = V_K)
SPOIL(delta_gates, t->ops[DELTA_RULE].u.delta_rule.beta = V_K)
SPOIL(delta_out, t->ops[DELTA_RULE].u.delta_rule.out = V_Q)
SPOIL(delta_a, t->ops[DELTA_RULE].u.delta_rule.a = W_HEAD_NORM)
SPOIL(delta_dt_bias, t->ops[DELTA_RULE].u.delta_rule.dt_bias = W_HEAD_NORM)
SPOIL(delta_eps, t->ops[DELTA_RULE].u.delta_rule.eps = -1)
SPOIL(delta_state, t->ops[DELTA_RULE].u.delta_rule.state.offset = 1)
SPOIL(ssm_groups, t->ops[SSM_SCAN].u.ssm_scan.n_group = 3)
SPOIL(ssm_no_state, t->ops[SSM_SCAN].u.ssm_scan.n_state = 0)
SPOIL(ssm_width, t->ops[SSM_SCAN].u.ssm_scan.n_state = 5)
SPOIL(ssm_dt, t->ops[SSM_SCAN].u.ssm_scan.dt = V_ROUTER)
SPOIL(ssm_out, t->ops[SSM_SCAN].u.ssm_scan.out = V_X)
SPOIL(ssm_in_place, (t->values[V_CHOICE].width = 4, t->ops[SSM_SCAN].u.ssm_scan.head_dim = 1, t->values[V_Q].width = 36,
                     t->ops[SSM_SCAN].u.ssm_scan.out = V_CHOICE))
SPOIL(ssm_numbers, t->ops[SSM_SCAN].u.ssm_scan.d = W_HEAD_NORM)
SPOIL(ssm_weight, t->ops[SSM_SCAN].u.ssm_scan.a = 50)
SPOIL(ssm_state, t->ops[SSM_SCAN].u.ssm_scan.state.offset = 385)
SPOIL(add_width, t->ops[ADD].u.add.add = V_K)
SPOIL(head_rows, t->plan.n_vocab = 9)
SPOIL(kind, t->ops[LOGITS].kind = (enum halo_op_kind)99)

static const struct {
    void (*spoil)(struct toy *t);
    uint32_t op;
    const char *reason;
} plan_cases[] = {
    {value_beyond, EMBED, "embed: out is value 50 of 9"},
    {table_too_short, EMBED, "embed: rows of the table is 9, wanted 10"},
    {norm_too_short, RMSNORM, "rmsnorm: w has rows of 63, its input has 64"},
    {norm_bytes, RMSNORM, "rmsnorm: w of type F32 has no kernel for rows of 64"},
    {add_too_wide, RMSNORM, "rmsnorm: add is 128, wanted 64"},
    {no_weights, MATMUL, "matmul: weights is 0, wanted 3"},
    {weight_beyond, MATMUL, "matmul: weight 50 of 9"},
    {weight_type, MATMUL, "matmul: w has type 77, which has no kernels"},
    {weight_kernel, MATMUL, "matmul: w of type Q8_0 has no kernel for rows of 64"},
    {weight_role, MATMUL, "matmul: w is declared as another kind of weight"},
    {out_is_x, MATMUL, "matmul: out (value 1) must differ from x"},
    {bias_too_long, MATMUL, "matmul: w has rows of 16, its input has 64"},
    {head_bias_too_long, LOGITS, "logits: w has rows of 16, its input has 10"},
    {heads_do_not_fit, QK_NORM, "qk_norm: q is 64, wanted 48"},
    {heads_of_their_own, QK_NORM, "qk_norm: vectors of q is 4, wanted 1"},
    {heads_of_three, QK_NORM, "qk_norm: vectors of q is 3, wanted 1"},
    {heads_of_k, QK_NORM, "qk_norm: vectors of k is 2, wanted 1"},
    {heads_of_nothing, QK_NORM, "qk_norm: heads of no k is 2, wanted 0"},
    {factor_without_add, RMSNORM, "rmsnorm: the factor 2 of x wants an addition and a finite number"},
    {rope_beyond, ROPE, "rope: rotation 1 of 1"},
    {rotation_too_wide, ROPE, "rope: rotated elements is 18, wanted 16"},
    {pairing, ROPE, "rope: pairing is 7, wanted 0"},
    {group_beyond, ATTEND, "attend: group of the cache 2 of 2"},
    {window_wide, ATTEND, "attend: window is 9, wanted 8"},
    {window_none, ATTEND, "attend: window is 0, wanted 8"},
    {layer_beyond, KV_WRITE, "kv_write: layer of the cache 1 of 1"},
    {cache_type, ATTEND, "attend: type of the cache is 9, wanted 1"},
    {groups_uneven, ATTEND, "attend: 3 heads over 2 kv heads"},
    {bias_of_rms, RMSNORM, "rmsnorm: only a norm that subtracts the mean has a bias"},
    {norm_bias_too_short, RMSNORM, "rmsnorm: w has rows of 16, its input has 64"},
    {sinks_too_many, ATTEND, "attend: w has rows of 16, its input has 4"},
    {cap_negative, ATTEND, "attend: cap is -1, wanted a number of at least 0"},
    {temperature_nan, ATTEND, "attend: temperature is nan, wanted a number of at least 0"},
    {no_period, ATTEND, "attend: period of the temperature is 0, wanted 1"},
    {logit_cap_infinite, LOGITS, "logits: cap is inf, wanted a number of at least 0"},
    {activation, GLU, "glu: activation 6 of 6"},
    {clamped_without_up, GLU, "glu: up is value 65535 of 9"},
    {too_many_used, MOE_ROUTE, "moe_route: uses 4 of 3 experts, at most 3 are supported"},
    {too_many_experts, MOE_MATMUL, "moe_matmul: uses 2 of 4 experts, at most 3 are supported"},
    {slots, MOE_MATMUL, "moe_matmul: slots is 0, wanted 1"},
    {gate, MOE_ROUTE, "moe_route: gate is 7, wanted 0"},
    {route_bias, MOE_ROUTE, "moe_route: w has rows of 64, its input has 3"},
    {expert_groups, MOE_ROUTE, "moe_route: 1 of 2 groups of 3 experts for 2 to choose"},
    {gate_alone, MOE_SUM, "moe_sum: add_gate without add is 6, wanted 65535"},
    {shared_width, MOE_SUM, "moe_sum: add is 32, wanted 64"},
    {shared_gate, MOE_SUM, "moe_sum: add_gate is 3, wanted 1"},
    {expert_bias, MOE_MATMUL, "moe_matmul: vectors of the experts is 1, wanted 3"},
    {sum_width, MOE_SUM, "moe_sum: choice is 4, wanted 2"},
    {all_slots, MOE_MATMUL, "moe_matmul: slots without a choice is 2, wanted 3"},
    {latent_v, KV_WRITE, "kv_write: v of a latent group is 4, wanted 65535"},
    {latent_value, KV_WRITE, "kv_write: value of a latent row is 17, wanted 16"},
    {concat_beyond, CONCAT, "concat: 4 heads of 16 and 0 elements"},
    {concat_width, CONCAT, "concat: 4 heads of 8 and 0 elements"},
    {concat_b, CONCAT, "concat: 4 heads of 16 and 0 elements"},
    {concat_in_place, CONCAT, "concat: out (value 2) must differ from a and b"},
    {conv_in_place, CONV1D, "conv1d: out (value 0) must differ from x"},
    {conv_width, CONV1D, "conv1d: out is 32, wanted 64"},
    {conv_one_tap, CONV1D, "conv1d: taps is 1, wanted 8"},
    {conv_many_taps, CONV1D, "conv1d: taps is 9, wanted 8"},
    {conv_channels, CONV1D, "conv1d: channels is 63, wanted 64"},
    {conv_weight_beyond, CONV1D, "conv1d: weight 50 of 9"},
    {conv_bias, CONV1D, "conv1d: w has rows of 16, its input has 64"},
    {state_group, CONV1D, "conv1d: group of the cache 2 of 2"},
    {state_layer, CONV1D, "conv1d: layer of the cache 2 of 2"},
    {state_short, CONV1D, "conv1d: 192 f32 from 321 on do not fit into a state of 512"},
    {state_far, CONV1D, "conv1d: 192 f32 from 4294967295 on do not fit into a state of 512"},
    {state_of_positions, CONV1D, "conv1d: 192 f32 from 0 on do not fit into a state of 0"},
    {delta_heads, DELTA_RULE, "delta_rule: 2 heads of 16 over 0 heads of 16"},
    {delta_uneven, DELTA_RULE, "delta_rule: 2 heads of 16 over 3 heads of 16"},
    {delta_stride, DELTA_RULE, "delta_rule: 2 gates from element 1 and from element 0 on do not fit into 1"},
    {delta_alpha, DELTA_RULE, "delta_rule: 2 gates from element 2 and from element 0 on do not fit into 3"},
    {delta_beta, DELTA_RULE, "delta_rule: 2 gates from element 1 and from element 2 on do not fit into 3"},
    {delta_qkv, DELTA_RULE, "delta_rule: qkv is 32, wanted 64"},
    {delta_gates, DELTA_RULE, "delta_rule: beta is 32, wanted 3"},
    {delta_out, DELTA_RULE, "delta_rule: out is 64, wanted 32"},
    {delta_a, DELTA_RULE, "delta_rule: w has rows of 16, its input has 2"},
    {delta_dt_bias, DELTA_RULE, "delta_rule: w has rows of 16, its input has 2"},
    {delta_eps, DELTA_RULE, "delta_rule: eps is -1, wanted a number of at least 0"},
    {delta_state, DELTA_RULE, "delta_rule: 512 f32 from 1 on do not fit into a state of 512"},
    {ssm_groups, SSM_SCAN, "ssm_scan: no support for 4 heads of 8 over 3 groups of 4"},
    {ssm_no_state, SSM_SCAN, "ssm_scan: no support for 4 heads of 8 over 4 groups of 0"},
    {ssm_width, SSM_SCAN, "ssm_scan: xbc is 64, wanted 72"},
    {ssm_dt, SSM_SCAN, "ssm_scan: dt is 3, wanted 4"},
    {ssm_out, SSM_SCAN, "ssm_scan: out is 64, wanted 32"},
    {ssm_in_place, SSM_SCAN, "ssm_scan: out (value 7) must differ from the inputs"},
    {ssm_numbers, SSM_SCAN, "ssm_scan: numbers of d is 16, wanted 4"},
    {ssm_weight, SSM_SCAN, "ssm_scan: weight 50 of 9"},
    {ssm_state, SSM_SCAN, "ssm_scan: 128 f32 from 385 on do not fit into a state of 512"},
    {add_width, ADD, "add: add is 32, wanted 64"},
    {head_rows, LOGITS, "logits: rows of the head is 10, wanted 9"},
    {kind, LOGITS, "op 99 has no kernel"},
};

static void what_does_not_fit_is_refused(void **state)
{
    for (uint32_t i = 0; i < sizeof(plan_cases) / sizeof(plan_cases[0]); i++) {
        struct toy t;
        char reason[HALO_DEVICE_REASON] = "";
        toy_init(&t);
        plan_cases[i].spoil(&t);
        assert_int_equal(halo_plan_check(&t.plan, plan_cases[i].op, &limits, reason), -ENOTSUP);
        assert_string_equal(reason, plan_cases[i].reason);
    }
}

static const struct {
    uint32_t n_rows, n_outputs, n_pages, page, seq, output;
    int32_t token, pos;
    const char *reason; /* NULL: the batch is right */
} batch_cases[] = {
    {2, 1, 2, 3, 0, 1, 9, 63, NULL},
    {0, 0, 2, 0, 0, 0, 0, 1, NULL},
    {9, 1, 2, 0, 0, 0, 0, 1, "a batch of 9 rows and 1 outputs, the plan allows 8 and 2"},
    {2, 3, 2, 0, 0, 0, 0, 1, "a batch of 2 rows and 3 outputs, the plan allows 8 and 2"},
    {2, 1, 2, 0, 0, 0, 10, 1, "row 1: token 10 is outside the vocabulary of 10"},
    {2, 1, 2, 0, 0, 0, -1, 1, "row 1: token -1 is outside the vocabulary of 10"},
    {2, 1, 2, 0, 1, 0, 0, 1, "row 1: sequence 1 of 1"},
    {2, 1, 2, 0, 0, 0, 0, 64, "row 1: position 64 is outside the context of 64"},
    {2, 1, 2, 0, 0, 0, 0, -1, "row 1: position -1 is outside the context of 64"},
    {2, 1, 1, 0, 0, 0, 0, 32, "row 1: position 32 has no page, the sequence has 1"},
    {2, 1, 2, 0, 0, 0, 0, 0, "row 1: position 0 after 0"},
    {2, 1, 2, 4, 0, 0, 0, 1, "sequence 0: page 4 of a pool of 4"},
    {2, 1, 2, 0, 0, 2, 0, 1, "output 0: row 2 of 2"},
    {2, 2, 2, 0, 0, 0, 0, 1, "output 1: row 0 after 0"},
};

static void a_batch_is_checked_against_its_plan(void **state)
{
    struct toy t;
    toy_init(&t);
    t.plan.n_kv_groups = 1;
    for (uint32_t i = 0; i < sizeof(batch_cases) / sizeof(batch_cases[0]); i++) {
        char reason[HALO_DEVICE_REASON] = "";
        const int32_t token[9] = {0, batch_cases[i].token}, pos[9] = {0, batch_cases[i].pos};
        const uint32_t seq[9] = {0, batch_cases[i].seq}, output[3] = {batch_cases[i].output};
        const uint32_t pages[2] = {0, batch_cases[i].page};
        const struct halo_batch_seq seqs = {{pages}, batch_cases[i].n_pages};
        const struct halo_batch batch = {.n_rows = batch_cases[i].n_rows,
                                         .token = token,
                                         .pos = pos,
                                         .seq = seq,
                                         .n_seqs = 1,
                                         .seqs = &seqs,
                                         .n_outputs = batch_cases[i].n_outputs,
                                         .output = output};
        assert_int_equal(halo_batch_check(&t.plan, &batch, reason), batch_cases[i].reason ? -EINVAL : 0);
        assert_string_equal(reason, batch_cases[i].reason ? batch_cases[i].reason : "");
    }
    char reason[HALO_DEVICE_REASON] = "";
    assert_int_equal(halo_page_check(&t.plan, 0, 3, reason), 0);
    assert_int_equal(halo_page_check(&t.plan, 0, 4, reason), -EINVAL);
    assert_string_equal(reason, "page 4 of a pool of 4");
    assert_int_equal(halo_page_check(&t.plan, 1, 0, reason), -EINVAL);
    assert_string_equal(reason, "group 1 of the cache does not exist; the number of groups is 1");
}

/* In a group with a window a sequence may lack the pages behind it, and no other. */
static void pages_behind_a_window_may_be_missing(void **state)
{
    enum { GONE = HALO_KV_NO_PAGE };
    static const struct {
        uint32_t page[2], other[2];
        int32_t pos;
        const char *reason;
    } cases[] = {
        {{0, 1}, {GONE, 3}, 51, NULL},
        {{0, 1}, {2, 3}, 50, NULL},
        {{0, 1}, {GONE, 3}, 50, "row 0: position 50 sees page 0 of group 1, which was released"},
        {{0, 1}, {2, GONE}, 60, "row 0: position 60 sees page 1 of group 1, which was released"},
        {{0, 1}, {4, 3}, 60, "sequence 0: page 4 of a pool of 4"},
        {{GONE, 1}, {2, 3}, 60, "sequence 0: page 4294967295 of a pool of 4"},
    };
    struct toy t;
    toy_init(&t);
    t.plan.kv[1] = t.plan.kv[0];
    t.plan.kv[1].window = 20; /* position 50 sees 31, position 51 does not */
    t.plan.n_kv_groups = 2;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char reason[HALO_DEVICE_REASON] = "";
        const int32_t token = 1;
        const uint32_t seq = 0;
        const struct halo_batch_seq seqs = {{cases[i].page, cases[i].other}, 2};
        const struct halo_batch batch = {
            .n_rows = 1, .token = &token, .pos = &cases[i].pos, .seq = &seq, .n_seqs = 1, .seqs = &seqs};
        assert_int_equal(halo_batch_check(&t.plan, &batch, reason), cases[i].reason ? -EINVAL : 0);
        assert_string_equal(reason, cases[i].reason ? cases[i].reason : "");
    }
}

/* Of a group of states a sequence has one slot, and its rows come one behind the other; no op of K and V may name
 * it. */
static void a_group_of_states_has_slots(void **state)
{
    struct toy t;
    char reason[HALO_DEVICE_REASON] = "";
    toy_init(&t);
    t.plan.kv[1] = (struct halo_kv_group){.n_layers = 1, .n_pages = 2, .state_width = 5};
    t.plan.n_kv_groups = 2;
    const int32_t token = 1, pos = 40;
    const uint32_t seq = 0, pages[2] = {0, 1};
    uint32_t slot[2] = {1, 77};
    const struct halo_batch_seq seqs = {{pages, slot}, 2};
    const struct halo_batch batch = {
        .n_rows = 1, .token = &token, .pos = &pos, .seq = &seq, .n_seqs = 1, .seqs = &seqs};
    assert_int_equal(halo_batch_check(&t.plan, &batch, reason), 0);
    static const struct {
        int32_t pos[3];
        uint32_t seq[3];
        const char *reason;
    } rows[] = {
        {{5, 6, 7}, {0, 0, 0}, NULL},
        {{5, 6, 2}, {1, 1, 0}, NULL},
        {{5, 7, 8}, {0, 0, 0}, "row 1: position 7 after 5, a state takes every position"},
        {{5, 2, 6}, {0, 1, 0}, "row 2: sequence 0 is also at row 0, with another one between them"},
    };
    const int32_t tokens[3] = {1, 1, 1};
    const struct halo_batch_seq two[2] = {seqs, seqs};
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct halo_batch more = {
            .n_rows = 3, .token = tokens, .pos = rows[i].pos, .seq = rows[i].seq, .n_seqs = 2, .seqs = two};
        reason[0] = 0;
        assert_int_equal(halo_batch_check(&t.plan, &more, reason), rows[i].reason ? -EINVAL : 0);
        assert_string_equal(reason, rows[i].reason ? rows[i].reason : "");
    }
    slot[0] = 2;
    assert_int_equal(halo_batch_check(&t.plan, &batch, reason), -EINVAL);
    assert_string_equal(reason, "sequence 0: page 2 of a pool of 2");
    t.ops[KV_WRITE].u.kv_write.kv_group = 1;
    assert_int_equal(halo_plan_check(&t.plan, KV_WRITE, &limits, reason), -ENOTSUP);
    assert_string_equal(reason, "kv_write: group 1 of the cache has states");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_with_every_op_passes),         cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_batch_is_checked_against_its_plan), cmocka_unit_test(pages_behind_a_window_may_be_missing),
        cmocka_unit_test(a_group_of_states_has_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
