/* test_cpu_invariance.c: a row's logits are the same bits whatever rows run beside it, however the prompt is divided,
 * on any number of threads, in any variant. A small model of two layers, one dense and one with experts, for each type
 * of cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"

#define N_VOCAB 100
#define N_TOKENS 70
#define MAX_ROWS 96
#define D 64
#define HEADS 4
#define HEADS_KV 2
#define DIM 16
#define FF 128
#define EXPERTS 6
#define USED 2

static const char *const variants[] = {"reference", "avx2", "avx512"};
static int32_t tokens[N_TOKENS];

static uint32_t matrix(struct fixture *f, enum halo_type type, uint32_t n_cols, uint32_t n_rows)
{
    return fixture_weight(f, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 2 / sqrt(n_cols));
}

static uint32_t vector(struct fixture *f, uint32_t n)
{
    return fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n, 1, 1, 2);
}

static void attention(struct fixture *f, uint32_t layer, uint32_t rope, uint16_t normed, uint16_t out)
{
    uint16_t q = fixture_value(f, HEADS * DIM), k = fixture_value(f, HEADS_KV * DIM),
             v = fixture_value(f, HEADS_KV * DIM);
    uint16_t mixed = fixture_value(f, HEADS * DIM);
    struct halo_op_matmul qkv = {.x = normed,
                                 .n = 3,
                                 .out = {q, k, v},
                                 .bias = {HALO_WEIGHT_NONE, vector(f, HEADS_KV * DIM), HALO_WEIGHT_NONE},
                                 .weight = {matrix(f, HALO_TYPE_Q8_0, D, HEADS * DIM),
                                            matrix(f, HALO_TYPE_Q4_0, D, HEADS_KV * DIM),
                                            matrix(f, HALO_TYPE_F16, D, HEADS_KV * DIM)}};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = qkv});
    struct halo_op_qk_norm norm = {q, k, vector(f, DIM), vector(f, DIM), HEADS, HEADS_KV, DIM, 1e-6f};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_QK_NORM, .u.qk_norm = norm});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, HEADS, HEADS_KV, DIM, rope}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, layer}});
    fixture_op(
        f,
        (struct halo_op){
            .kind = HALO_OP_ATTEND,
            .u.attend = {
                .q = q, .out = mixed, .kv_layer = layer, .n_head = HEADS, .scale = 0.25f, .sinks = HALO_WEIGHT_NONE}});
    struct halo_op_matmul o = {.x = mixed,
                               .n = 1,
                               .weight = {matrix(f, HALO_TYPE_Q8_0, HEADS * DIM, D)},
                               .bias = {HALO_WEIGHT_NONE},
                               .out = {out}};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = o});
}

static void dense(struct fixture *f, uint16_t normed, uint16_t out)
{
    uint16_t gate = fixture_value(f, FF), up = fixture_value(f, FF);
    struct halo_op_matmul in = {.x = normed,
                                .n = 2,
                                .out = {gate, up},
                                .bias = {HALO_WEIGHT_NONE, HALO_WEIGHT_NONE},
                                .weight = {matrix(f, HALO_TYPE_Q4_0, D, FF), matrix(f, HALO_TYPE_BF16, D, FF)}};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = in});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}});
    struct halo_op_matmul down = {
        .x = gate, .n = 1, .weight = {matrix(f, HALO_TYPE_Q8_0, FF, D)}, .bias = {HALO_WEIGHT_NONE}, .out = {out}};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = down});
}

static void experts(struct fixture *f, uint16_t normed, uint16_t out)
{
    uint16_t logits = fixture_value(f, EXPERTS), choice = fixture_value(f, 2 * USED);
    uint16_t gate = fixture_value(f, USED * FF), up = fixture_value(f, USED * FF), slots = fixture_value(f, USED * D);
    struct halo_op_matmul router = {.x = normed,
                                    .n = 1,
                                    .weight = {matrix(f, HALO_TYPE_F32, D, EXPERTS)},
                                    .bias = {HALO_WEIGHT_NONE},
                                    .out = {logits}};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = router});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_ROUTE,
                                   .u.moe_route = {logits, choice, EXPERTS, USED, true, 1, .bias = HALO_WEIGHT_NONE}});
    struct halo_op_moe_matmul in = {
        .x = normed, .choice = choice, .n = 2, .out = {gate, up}, .n_used = USED, .bias = HALO_WEIGHTS_NONE};
    in.weight[0] = fixture_weight(f, HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, D, FF, EXPERTS, 0.25);
    in.weight[1] = fixture_weight(f, HALO_TYPE_F16, HALO_WEIGHT_EXPERTS, D, FF, EXPERTS, 0.25);
    in.bias[0] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, FF, EXPERTS, 1, 0.1);
    in.bias[1] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, FF, EXPERTS, 1, 0.1);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = in});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, up, HALO_GLU_SILU}});
    struct halo_op_moe_matmul down = {
        .x = up, .choice = choice, .n = 1, .per_slot = true, .out = {slots}, .n_used = USED, .bias = HALO_WEIGHTS_NONE};
    down.weight[0] = fixture_weight(f, HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, FF, D, EXPERTS, 0.2);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MOE_MATMUL, .u.moe_matmul = down});
    fixture_op(
        f, (struct halo_op){.kind = HALO_OP_MOE_SUM, .u.moe_sum = {slots, choice, out, USED, HALO_NONE, HALO_NONE}});
}

static void build(struct fixture *f, enum halo_kv_type type)
{
    fixture_init(f, N_VOCAB, MAX_ROWS, 128);
    fixture_kv(f, type, 2, HEADS_KV, DIM, DIM);
    uint32_t rope = fixture_rope(f, HALO_ROPE_NEOX, DIM, 1, 10000);
    uint16_t x = fixture_value(f, D), normed = fixture_value(f, D), add = fixture_value(f, D);
    uint32_t table = matrix(f, HALO_TYPE_Q8_0, D, N_VOCAB);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, x, 8}});
    for (uint32_t layer = 0; layer < 2; layer++) {
        fixture_rmsnorm(f, vector(f, D), x, layer ? add : HALO_NONE, normed);
        attention(f, layer, rope, normed, add);
        fixture_rmsnorm(f, vector(f, D), x, add, normed);
        if (layer == 0)
            dense(f, normed, add);
        else
            experts(f, normed, add);
    }
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {x, add}});
    fixture_rmsnorm(f, vector(f, D), x, HALO_NONE, normed);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = table, .x = normed, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

/* Logits of all positions from one chunk, plain C, one thread: all other runs must repeat them. */
static void golden(struct fixture *f, enum halo_kv_type type, float *ret)
{
    uint64_t seed = 77;
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)((fixture_random(&seed) + 1) / 2 * (N_VOCAB - 1));
    build(f, type);
    fixture_open(f, "reference", 1);
    fixture_run(f, 2, tokens, N_TOKENS, 0, ret);
    uint32_t n_distinct = 0;
    for (uint32_t i = 0; i < N_TOKENS * N_VOCAB; i++) {
        assert_true(isfinite(ret[i]));
        n_distinct += ret[i] != ret[i % N_VOCAB];
    }
    assert_true(n_distinct > N_TOKENS * N_VOCAB / 2);
}

#define FOR_EACH_SETTING(f, type, want)                                                                                \
    for (uint32_t type = KV_FIRST; type <= HALO_KV_Q4; type += KV_STEP)                                                \
        for (uint32_t v_ = (golden(&(f), (enum halo_kv_type)type, want), 0); v_ < 3 || (fixture_finish(&(f)), false);  \
             v_++)                                                                                                     \
            for (uint32_t n_threads_ = FEWEST_THREADS; n_threads_ <= MOST_THREADS; n_threads_++)                       \
                if (fixture_has(variants[v_]) && (fixture_open(&(f), variants[v_], n_threads_), true))

static void cut_at_every_position(void **state)
{
    struct fixture f;
    static float want[N_TOKENS * N_VOCAB], have[N_TOKENS * N_VOCAB];
    FOR_EACH_SETTING(f, type, want)
    {
        /* Every division with two threads; plain C, which is slow, and other numbers of threads take some on both
         * sides of a page boundary. */
        for (uint32_t cut = 1; cut<N_TOKENS; cut += v_> 0 && n_threads_ == 2 ? 1 : 10) {
            fixture_run(&f, cut % 8, tokens, cut, 0, have);
            fixture_run(&f, cut % 8, tokens + cut, N_TOKENS - cut, (int32_t)cut, have + cut * N_VOCAB);
            assert_memory_equal(want, have, sizeof(have));
        }
        for (uint32_t pos = 0; pos < N_TOKENS; pos++)
            fixture_run(&f, 3, tokens + pos, 1, (int32_t)pos, have + pos * N_VOCAB);
        assert_memory_equal(want, have, sizeof(have));
    }
}

/* Eight sequences at different positions, stepping together: 8 decode rows, then with prompt chunks of others among
 * them. Each sequence s runs the same tokens as the reference, s * 3 positions after the first. */
static void beside_other_sequences(void **state)
{
    struct fixture f;
    static float want[N_TOKENS * N_VOCAB], have[MAX_ROWS * N_VOCAB];
    FOR_EACH_SETTING(f, type, want)
    {
        char reason[HALO_DEVICE_REASON];
        struct halo_batch_seq seqs[8];
        uint32_t done[8] = {0}, n_steps = 0;
        for (uint32_t s = 0; s < 8; s++)
            seqs[s].pages[0] = fixture_pages(&f, s, &seqs[s].n_pages);
        for (bool more = true; more; n_steps++) {
            int32_t token[MAX_ROWS], pos[MAX_ROWS];
            uint32_t seq[MAX_ROWS], output[MAX_ROWS], n = 0;
            more = false;
            for (uint32_t s = 0; s < 8; s++) {
                uint32_t chunk = (n_steps + s) % 5 == 0 ? 11 : 1;
                for (; chunk > 0 && done[s] < N_TOKENS && n_steps >= s; chunk--, n++) {
                    token[n] = tokens[done[s]];
                    pos[n] = (int32_t)done[s]++;
                    seq[n] = s;
                    output[n] = n;
                }
                more |= done[s] < N_TOKENS;
            }
            struct halo_batch batch = {n, token, pos, seq, 8, seqs, n, output, have};
            assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), 0);
            for (uint32_t r = 0; r < n; r++)
                assert_memory_equal(want + pos[r] * N_VOCAB, have + r * N_VOCAB, N_VOCAB * sizeof(float));
        }
        assert_true(n_steps > 10);
    }
}

/* A row alone has the bits that it has in a batch of 17 rows of 17 one-token prompts, at any place there. */
static void alone_and_among_seventeen(void **state)
{
    struct fixture f;
    static float want[N_TOKENS * N_VOCAB], alone[N_VOCAB], have[17 * N_VOCAB];
    FOR_EACH_SETTING(f, type, want)
    {
        char reason[HALO_DEVICE_REASON];
        struct halo_batch_seq seqs[17];
        uint32_t page[17], seq[17], output[17];
        int32_t token[17], pos[17] = {0};
        for (uint32_t i = 0; i < 17; i++) {
            page[i] = i;
            seqs[i] = (struct halo_batch_seq){{&page[i]}, 1};
            seq[i] = output[i] = i;
            token[i] = (int32_t)(i * 5);
        }
        struct halo_batch batch = {17, token, pos, seq, 17, seqs, 17, output, have};
        assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), 0);
        for (uint32_t i = 0; i < 17; i++) {
            fixture_run(&f, 1, token + i, 1, 0, alone);
            assert_memory_equal(alone, have + i * N_VOCAB, sizeof(alone));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_position),
        cmocka_unit_test(beside_other_sequences),
        cmocka_unit_test(alone_and_among_seventeen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
