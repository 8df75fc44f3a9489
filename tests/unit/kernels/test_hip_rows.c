/* test_hip_rows.c: batches of up to 2,048 rows on the HIP device. A row has the numbers that it has in a batch of few:
 * those that the other tests compare with the CPU device.
 *
 * A layer of attention, then a mixture whose router reads inputs, so that no row changes its experts by a rounding.
 * Several sequences of uneven lengths share a batch; the reference feeds each by itself in pieces.
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

#include "hip_compare.h"

enum { LONGEST = 2048, PIECE = 61, SEQUENCES = 8, POSITIONS = 1024 };
enum { WIDTH = 32, DIM = 32, HEADS = 1, FF = 64, EXPERTS = 8, USED = 2 };

/* Batches of 300 and of 2,048 rows: those of each sequence. The first sequences alone are compared: the emulated GPU
 * takes its time. */
enum { COMPARED = 3 };
static const uint32_t batches[][SEQUENCES] = {
    {300}, {256, 1, 43}, {777, 2, 31}, {300, 513, 200, 1, 17, 256, 250, 511}, {129, 500, 333},
};
#define N_BATCHES (sizeof(batches) / sizeof(batches[0]))

struct plan_values {
    uint16_t out, choice;
};

static uint32_t matrix(struct fixture *f, enum halo_type type, uint32_t n_cols, uint32_t n_rows, uint32_t n_experts)
{
    return fixture_weight(f, type, n_experts > 1 ? HALO_WEIGHT_EXPERTS : HALO_WEIGHT_MATRIX, n_cols, n_rows, n_experts,
                          0.3);
}

static void add_attention(struct fixture *f, uint16_t x, uint16_t ret)
{
    uint16_t q = fixture_value(f, HEADS * DIM), k = fixture_value(f, DIM), v = fixture_value(f, DIM),
             heads = fixture_value(f, HEADS * DIM);
    uint32_t w_head = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, DIM, 1, 1, 1),
             rope = fixture_rope(f, HALO_ROPE_NEOX, DIM, 1, 10000);
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {x,
                                                                3,
                                                                {matrix(f, HALO_TYPE_Q4_0, WIDTH, HEADS * DIM, 1),
                                                                 matrix(f, HALO_TYPE_Q4_0, WIDTH, DIM, 1),
                                                                 matrix(f, HALO_TYPE_F16, WIDTH, DIM, 1)},
                                                                {none, none, none},
                                                                {q, k, v}}});
    fixture_op(f, (struct halo_op){HALO_OP_QK_NORM, .u.qk_norm = {q, k, w_head, w_head, HEADS, 1, DIM, 1e-6f}});
    fixture_op(f, (struct halo_op){HALO_OP_ROPE, .u.rope = {q, k, HEADS, 1, DIM, rope}});
    fixture_op(f, (struct halo_op){HALO_OP_KV_WRITE, .u.kv_write = {k, v, 0}});
    fixture_op(
        f, (struct halo_op){
               HALO_OP_ATTEND,
               .u.attend = {
                   .q = q, .out = heads, .kv_layer = 0, .n_head = HEADS, .scale = 0.25f, .sinks = HALO_WEIGHT_NONE}});
    fixture_op(
        f, (struct halo_op){HALO_OP_MATMUL,
                            .u.matmul = {heads, 1, {matrix(f, HALO_TYPE_Q8_0, HEADS * DIM, WIDTH, 1)}, {none}, {ret}}});
}

static uint16_t add_mixture(struct fixture *f, uint16_t x, uint16_t ret)
{
    uint16_t router = fixture_input(f, EXPERTS, 4), choice = fixture_value(f, 2 * USED),
             gate = fixture_value(f, USED * FF), up = fixture_value(f, USED * FF),
             down = fixture_value(f, USED * WIDTH);
    uint32_t w_gate = matrix(f, HALO_TYPE_Q4_0, WIDTH, FF, EXPERTS),
             w_up = matrix(f, HALO_TYPE_Q4_0, WIDTH, FF, EXPERTS),
             w_down = matrix(f, HALO_TYPE_Q8_0, FF, WIDTH, EXPERTS);
    fixture_op(f, (struct halo_op){HALO_OP_MOE_ROUTE,
                                   .u.moe_route = {router, choice, EXPERTS, USED, true, 1, .bias = HALO_WEIGHT_NONE}});
    fixture_op(f, (struct halo_op){
                      HALO_OP_MOE_MATMUL,
                      .u.moe_matmul = {x, choice, 2, false, {w_gate, w_up}, {gate, up}, USED, HALO_WEIGHTS_NONE}});
    fixture_op(f, (struct halo_op){HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}});
    fixture_op(f, (struct halo_op){HALO_OP_MOE_MATMUL,
                                   .u.moe_matmul = {gate, choice, 1, true, {w_down}, {down}, USED, HALO_WEIGHTS_NONE}});
    fixture_op(f, (struct halo_op){HALO_OP_MOE_SUM, .u.moe_sum = {down, choice, ret, USED, HALO_NONE, HALO_NONE}});
    return choice;
}

static struct plan_values build(struct fixture *f)
{
    fixture_init(f, N_VOCAB, LONGEST, POSITIONS);
    fixture_kv(f, HALO_KV_F16, 1, 1, DIM, DIM);
    f->plan.max_outputs = SEQUENCES;
    uint16_t x = fixture_input(f, WIDTH, 1), mixed = fixture_value(f, WIDTH), norm = fixture_value(f, WIDTH),
             last = fixture_value(f, WIDTH);
    uint32_t w_norm = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, WIDTH, 1, 1, 1),
             w_head = matrix(f, HALO_TYPE_Q8_0, WIDTH, N_VOCAB, 1);
    add_attention(f, x, mixed);
    fixture_rmsnorm(f, w_norm, x, mixed, norm);
    struct plan_values values = {.choice = add_mixture(f, norm, mixed)};
    fixture_op(f, (struct halo_op){HALO_OP_ADD, .u.add = {x, mixed}});
    fixture_rmsnorm(f, w_norm, x, HALO_NONE, last);
    fixture_op(f, (struct halo_op){HALO_OP_LOGITS,
                                   .u.logits = {.weight = w_head, .x = last, .bias = HALO_WEIGHT_NONE, .scale = 1}});
    values.out = x;
    return values;
}

static int32_t token_at(uint32_t sequence, uint32_t position)
{
    return (int32_t)((sequence * 31 + position * 7 + position / 50) % N_VOCAB);
}

/* Rows from .. from + n[s] - 1 of every sequence s, and the logits of the last row of each that has rows. */
static void run(struct fixture *f, const uint32_t n[SEQUENCES], uint32_t from, float *logits)
{
    static int32_t token[LONGEST], pos[LONGEST];
    static uint32_t seq[LONGEST];
    uint32_t output[SEQUENCES], n_rows = 0, n_outputs = 0;
    struct halo_batch_seq seqs[SEQUENCES];
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        seqs[s].pages[0] = fixture_pages(f, s, &seqs[s].n_pages);
        for (uint32_t i = 0; i < n[s]; i++, n_rows++) {
            token[n_rows] = token_at(s, from + i);
            pos[n_rows] = (int32_t)(from + i);
            seq[n_rows] = s;
        }
        if (n[s] > 0)
            output[n_outputs++] = n_rows - 1;
    }
    const struct halo_batch batch = {.n_rows = n_rows,
                                     .token = token,
                                     .pos = pos,
                                     .seq = seq,
                                     .n_seqs = SEQUENCES,
                                     .seqs = seqs,
                                     .n_outputs = n_outputs,
                                     .output = output,
                                     .logits = logits};
    if (f->device_ops->run(f->model, &batch, NULL, reason))
        fail_msg("%s", reason);
}

/* Values of all rows of a batch and the logits of each sequence, from pieces of one sequence at a time. */
static void run_in_pieces(struct fixture *f, const uint32_t n[SEQUENCES], struct plan_values values, float *out,
                          float *choice, float *logits)
{
    for (uint32_t s = 0; s < COMPARED; s++) {
        for (uint32_t from = 0; from < n[s]; from += PIECE) {
            uint32_t piece[SEQUENCES] = {0};
            piece[s] = n[s] - from < PIECE ? n[s] - from : PIECE;
            run(f, piece, from, logits);
            for (uint32_t i = 0; i < piece[s]; i++, out += WIDTH, choice += 2 * USED) {
                fixture_peek(f, values.out, i, out);
                fixture_peek(f, values.choice, i, choice);
            }
        }
        logits += n[s] > 0 ? N_VOCAB : 0;
    }
}

/* Of a row of a batch: few rows in a piece are products of integers, those of experts up to 32. */
static double bound_of(const uint32_t n[SEQUENCES], uint32_t row)
{
    uint32_t s = 0;
    for (; row >= n[s]; s++)
        row -= n[s];
    uint32_t left = n[s] - row / PIECE * PIECE;
    return left <= 32 ? 2e-2 : bound_f16;
}

static void a_row_is_the_same_in_any_batch(void **state)
{
    static float want[LONGEST * WIDTH], choice[LONGEST * 2 * USED];
    _Alignas(64) static float want_logits[SEQUENCES * N_VOCAB + 16], have_logits[SEQUENCES * N_VOCAB + 16];
    struct fixture f;
    struct plan_values values = build(&f);
    use_hip(&f);
    for (size_t b = 0; b < N_BATCHES; b++) {
        uint32_t n_rows = 0, n_outputs = 0;
        for (uint32_t s = 0; s < COMPARED; s++) {
            n_rows += batches[b][s];
            n_outputs += batches[b][s] > 0;
        }
        run_in_pieces(&f, batches[b], values, want, choice, want_logits);
        run(&f, batches[b], 0, have_logits);
        for (uint32_t r = 0; r < n_rows; r++) {
            float out[WIDTH], chosen[2 * USED];
            char what[64];
            snprintf(what, sizeof(what), "row %u of %u", r, n_rows);
            fixture_peek(&f, values.choice, r, chosen);
            assert_memory_equal(chosen, choice + (size_t)r * 2 * USED, sizeof(chosen));
            fixture_peek(&f, values.out, r, out);
            compare_row(what, out, want + (size_t)r * WIDTH, WIDTH, bound_of(batches[b], r), 0);
        }
        compare_rows("logits", have_logits, want_logits, n_outputs, N_VOCAB, 2e-2);
    }
    fixture_finish(&f);
}

/* Page numbers of long contexts are kept for so many sequences. */
static void too_many_sequences_are_refused(void **state)
{
    enum { MANY = 513 };
    static int32_t zeros[MANY];
    static uint32_t seq[MANY];
    static struct halo_batch_seq seqs[MANY];
    char reason[HALO_DEVICE_REASON] = "";
    struct fixture f;
    build(&f);
    use_hip(&f);
    for (uint32_t i = 0; i < MANY; i++) {
        seq[i] = i;
        seqs[i].pages[0] = fixture_pages(&f, 0, &seqs[i].n_pages);
    }
    struct halo_batch batch = {.n_rows = MANY, .token = zeros, .pos = zeros, .seq = seq, .n_seqs = MANY, .seqs = seqs};
    assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), -EINVAL);
    assert_string_equal(reason, "a batch of 513 sequences, the hip device takes at most 512");
    batch.n_rows = batch.n_seqs = MANY - 1;
    assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), 0);
    fixture_finish(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_same_in_any_batch),
        cmocka_unit_test(too_many_sequences_are_refused),
    };
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
