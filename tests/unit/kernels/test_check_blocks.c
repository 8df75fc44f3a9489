/* test_check_blocks.c: the checks of the ops of residual streams and compressed blocks: a plan with them passes, and
 * each thing that can be wrong is refused with a reason that names the op and the numbers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <common/check.h>

enum { MIX, HEAD, ADD, COMPRESS, CHOOSE, ATTEND, GLU, ROUTE, N_OPS };
enum {
    V_X,
    V_ONE,
    V_MIX,
    V_BACK,
    V_HEAD,
    V_U,
    V_Z,
    V_Q,
    V_OUT,
    V_KEY_Q,
    V_KEY_W,
    V_CHOSEN,
    V_LOGITS,
    V_CHOICE,
    N_VALUES
};
enum { W_SCALE, W_BASE, W_SCALE_HEAD, W_BASE_HEAD, W_BIAS, W_NORM, W_SINKS, N_WEIGHTS };
enum { WIDTH = 16, N = 4, DIM = 24, HEADS = 3, KEY_HEADS = 2, RATIO = 4, TOP_K = 5, EXPERTS = 3, VOCAB = 2 };
enum { G_WINDOW, G_BLOCKS, G_STATES, N_GROUPS };

struct toy {
    struct halo_plan plan;
    struct halo_op ops[N_OPS];
    struct halo_weight weights[N_WEIGHTS];
    struct halo_value values[N_VALUES];
    struct halo_rope rope;
    int32_t table[VOCAB * 2];
};

static struct halo_weight vectors(uint32_t n_cols, uint32_t n_rows)
{
    return (struct halo_weight){.name = "w",
                                .type = HALO_TYPE_F32,
                                .role = HALO_WEIGHT_VECTOR,
                                .n_cols = n_cols,
                                .n_rows = n_rows,
                                .n_experts = 1,
                                .n_bytes = 4ull * n_cols * n_rows};
}

static void toy_ops(struct toy *t)
{
    const struct halo_op ops[N_OPS] = {
        [MIX] = {HALO_OP_STREAMS_MIX, .u.streams_mix = {V_X, V_MIX, V_ONE, V_BACK, W_SCALE, W_BASE, N, 20, 1e-6f}},
        [HEAD] = {HALO_OP_STREAMS_MIX,
                  .u.streams_mix = {V_X, V_HEAD, V_ONE, HALO_NONE, W_SCALE_HEAD, W_BASE_HEAD, N, 0, 1e-6f}},
        [ADD] = {HALO_OP_STREAMS_ADD, .u.streams_add = {V_X, V_BACK, V_ONE, N}},
        [COMPRESS] = {HALO_OP_COMPRESS, .u.compress = {.u = V_U,
                                                       .z = V_Z,
                                                       .bias = W_BIAS,
                                                       .norm = W_NORM,
                                                       .dim = DIM,
                                                       .ratio = RATIO,
                                                       .overlap = true,
                                                       .kv_group = G_BLOCKS,
                                                       .state = {G_STATES, 0, 1}}},
        [CHOOSE] = {HALO_OP_BLOCKS_CHOOSE,
                    .u.blocks_choose = {V_KEY_Q, V_KEY_W, V_CHOSEN, KEY_HEADS, RATIO, TOP_K, G_BLOCKS, 0, 1}},
        [ATTEND] = {HALO_OP_ATTEND_BLOCKS,
                    .u.attend_blocks = {V_Q, V_OUT, V_CHOSEN, HEADS, 1, G_WINDOW, 0, 8, G_BLOCKS, 0, RATIO, W_SINKS}},
        [GLU] = {HALO_OP_GLU, .u.glu = {V_U, V_Z, V_U, HALO_GLU_SILU, 2}},
        [ROUTE] = {HALO_OP_MOE_ROUTE, .u.moe_route = {V_LOGITS, V_CHOICE, EXPERTS, 2, true, 1, .bias = HALO_WEIGHT_NONE,
                                                      .table = t->table}},
    };
    memcpy(t->ops, ops, sizeof(ops));
}

static void toy_init(struct toy *t)
{
    static const uint32_t widths[N_VALUES] = {
        N * WIDTH,   WIDTH,       N * (N + 2),     N * (N + 1), N,     2 * DIM, 2 * DIM,
        HEADS * DIM, HEADS * DIM, KEY_HEADS * DIM, KEY_HEADS,   TOP_K, EXPERTS, 4};
    *t = (struct toy){.rope = {HALO_ROPE_NORM, 8, 1, NULL}, .table = {0, 1, 2, 0}};
    t->weights[W_SCALE] = vectors(3, 1);
    t->weights[W_BASE] = vectors(N * (N + 2), 1);
    t->weights[W_SCALE_HEAD] = vectors(1, 1);
    t->weights[W_BASE_HEAD] = vectors(N, 1);
    t->weights[W_BIAS] = vectors(2 * DIM, RATIO);
    t->weights[W_NORM] = vectors(DIM, 1);
    t->weights[W_SINKS] = vectors(HEADS, 1);
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
        .n_kv_groups = N_GROUPS,
        .kv = {[G_WINDOW] = {HALO_KV_F16, 1, 1, DIM, DIM, 4, .window = 8, .latent = true},
               [G_BLOCKS] = {HALO_KV_F16, 1, 1, DIM, DIM, 4, .stride = RATIO, .latent = true},
               [G_STATES] = {.n_layers = 1, .n_pages = 4, .state_width = 1 + 6 * DIM}},
        .n_vocab = VOCAB,
        .n_context = 64,
        .max_rows = 8,
        .max_outputs = 2,
    };
}

static bool weight_fits(enum halo_weight_role role, enum halo_type type, uint64_t n_cols)
{
    return n_cols > 0;
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
SPOIL(streams_one, t->ops[MIX].u.streams_mix.n = 1)
SPOIL(streams_nine, t->ops[ADD].u.streams_add.n = 9)
SPOIL(streams_width, t->ops[ADD].u.streams_add.add = V_U)
SPOIL(mix_width, t->ops[MIX].u.streams_mix.mix = V_BACK)
SPOIL(back_width, t->ops[MIX].u.streams_mix.back = V_MIX)
SPOIL(mix_in_place, t->values[V_MIX].width = WIDTH; t->ops[HEAD].u.streams_mix.mix = V_ONE; t->values[V_ONE].width = N;
      t->values[V_X].width = N * N)
SPOIL(no_iterations, t->ops[MIX].u.streams_mix.iterations = 0)
SPOIL(mix_scale, t->ops[MIX].u.streams_mix.scale = W_SCALE_HEAD)
SPOIL(mix_base, t->ops[HEAD].u.streams_mix.base = W_BASE)
SPOIL(u_width, t->ops[COMPRESS].u.compress.overlap = false)
SPOIL(u_is_z, t->ops[COMPRESS].u.compress.z = V_U)
SPOIL(ratio_odd, t->ops[COMPRESS].u.compress.ratio = 3)
SPOIL(ratio_other, t->ops[COMPRESS].u.compress.ratio = 8)
SPOIL(blocks_q4, t->plan.kv[G_BLOCKS].type = HALO_KV_Q4)
SPOIL(blocks_apart, t->plan.kv[G_BLOCKS].latent = false)
SPOIL(blocks_dim, t->plan.kv[G_BLOCKS].head_dim_k = DIM + 2)
SPOIL(bias_rows, t->weights[W_BIAS] = vectors(2 * DIM, RATIO - 1))
SPOIL(norm_short, t->weights[W_NORM] = vectors(DIM - 1, 1))
SPOIL(rope_beyond, t->ops[COMPRESS].u.compress.rope = 1)
SPOIL(rope_wide, t->rope.n_rot = DIM + 2)
SPOIL(state_wide, t->ops[COMPRESS].u.compress.state.offset = 2)
SPOIL(state_of_rows, t->ops[COMPRESS].u.compress.state.kv_group = G_BLOCKS)
SPOIL(key_width, t->ops[CHOOSE].u.blocks_choose.n_head = 3)
SPOIL(too_few_chosen, t->ops[CHOOSE].u.blocks_choose.top_k = 4)
SPOIL(choose_in_place, t->values[V_CHOSEN].width = KEY_HEADS; t->ops[CHOOSE].u.blocks_choose.top_k = KEY_HEADS;
      t->ops[CHOOSE].u.blocks_choose.out = V_KEY_W)
SPOIL(rows_of_blocks, t->ops[ATTEND].u.attend_blocks.kv_group = G_BLOCKS)
SPOIL(window_wide, t->ops[ATTEND].u.attend_blocks.window = 9)
SPOIL(values_apart, t->plan.kv[G_WINDOW].latent = false)
SPOIL(blocks_of_rows, t->ops[ATTEND].u.attend_blocks.block_group = G_WINDOW)
SPOIL(blocks_narrow, t->plan.kv[G_WINDOW].head_dim_k = t->plan.kv[G_WINDOW].head_dim_v = DIM + 1)
SPOIL(chosen_beyond, t->ops[ATTEND].u.attend_blocks.chosen = 50)
SPOIL(sinks, t->ops[ATTEND].u.attend_blocks.sinks = W_NORM)
SPOIL(limit_nan, t->ops[GLU].u.glu.limit = -1)
SPOIL(limit_alone, t->ops[GLU].u.glu.up = HALO_NONE)
SPOIL(limit_shared, t->ops[GLU].u.glu.up = V_U)
SPOIL(table_beyond, t->table[3] = EXPERTS)
SPOIL(table_negative, t->table[1] = -1)

static const struct {
    void (*spoil)(struct toy *t);
    uint32_t op;
    const char *reason;
} cases[] = {
    {streams_one, MIX, "streams_mix: 1 streams, wanted 2 to 8"},
    {streams_nine, ADD, "streams_add: 9 streams, wanted 2 to 8"},
    {streams_width, ADD, "streams_add: x is 64, wanted 192"},
    {mix_width, MIX, "streams_mix: mix is 20, wanted 24"},
    {back_width, MIX, "streams_mix: back is 24, wanted 20"},
    {mix_in_place, HEAD, "streams_mix: out (value 1) must differ from its inputs"},
    {no_iterations, MIX, "streams_mix: iterations is 0, wanted 1000"},
    {mix_scale, MIX, "streams_mix: w has rows of 1, its input has 3"},
    {mix_base, HEAD, "streams_mix: w has rows of 24, its input has 4"},
    {u_width, COMPRESS, "compress: u is 48, wanted 24"},
    {u_is_z, COMPRESS, "compress: z (value 5) must differ from u"},
    {ratio_odd, COMPRESS, "compress: blocks of 3 positions, wanted a divisor or a multiple of 32"},
    {ratio_other, COMPRESS, "compress: positions of a row of the cache is 4, wanted 8"},
    {blocks_q4, COMPRESS, "compress: compressed blocks cannot be q4; use q8 or f16"},
    {blocks_apart, COMPRESS, "compress: group 1 of the cache does not hold compressed blocks"},
    {blocks_dim, COMPRESS, "compress: elements of a row is 26, wanted 24"},
    {bias_rows, COMPRESS, "compress: vectors of the bias is 3, wanted 4"},
    {norm_short, COMPRESS, "compress: w has rows of 23, its input has 24"},
    {rope_beyond, COMPRESS, "compress: rotation 1 of 1"},
    {rope_wide, COMPRESS, "compress: rotated elements is 26, wanted 24"},
    {state_wide, COMPRESS, "compress: 144 f32 from 2 on do not fit into a state of 145"},
    {state_of_rows, COMPRESS, "compress: 144 f32 from 1 on do not fit into a state of 0"},
    {key_width, CHOOSE, "blocks_choose: q is 48, wanted 72"},
    {too_few_chosen, CHOOSE, "blocks_choose: out is 5, wanted 4"},
    {choose_in_place, CHOOSE, "blocks_choose: out (value 10) must differ from its inputs"},
    {rows_of_blocks, ATTEND, "attend_blocks: positions of a row of the cache is 4, wanted 1"},
    {window_wide, ATTEND, "attend_blocks: window is 9, wanted 8"},
    {values_apart, ATTEND, "attend_blocks: group 0 of the cache does not keep one row for K and V"},
    {blocks_of_rows, ATTEND, "attend_blocks: positions of a row of the cache is 0, wanted 4"},
    {blocks_narrow, ATTEND, "attend_blocks: elements of a block is 24, wanted 25"},
    {chosen_beyond, ATTEND, "attend_blocks: chosen is value 50 of 14"},
    {sinks, ATTEND, "attend_blocks: w has rows of 24, its input has 3"},
    {limit_nan, GLU, "glu: limit is -1, wanted a number of at least 0"},
    {limit_alone, GLU, "glu: a limit needs an up of its own; up is value 65535 and gate value 5"},
    {limit_shared, GLU, "glu: a limit needs an up of its own; up is value 5 and gate value 5"},
    {table_beyond, ROUTE, "moe_route: token 1 has expert 3 of 3"},
    {table_negative, ROUTE, "moe_route: token 0 has expert -1 of 3"},
};

static void what_does_not_fit_is_refused(void **state)
{
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct toy t;
        char reason[HALO_DEVICE_REASON] = "";
        toy_init(&t);
        cases[i].spoil(&t);
        if (halo_plan_check(&t.plan, cases[i].op, &limits, reason) != -ENOTSUP)
            fail_msg("case %u passes: %s", i, cases[i].reason);
        assert_string_equal(reason, cases[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_with_every_op_passes),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
