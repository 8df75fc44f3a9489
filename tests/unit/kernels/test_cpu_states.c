/* test_cpu_states.c: ops with a state: their formulas in double, and that a row has the same bits however its sequence
 * is divided into batches, whatever stands beside it, in every variant and on any number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"

#define N_VOCAB 97
#define N_TOKENS 23
#define MAX_ROWS 64
#define WIDTH_MAX 128 /* of an op's result */

static const char *const variants[] = {"reference", "avx2", "avx512"};
static int32_t tokens[N_TOKENS];

/* An op and what it is made of. */
struct subject {
    struct fixture f;
    uint16_t x, out;
    uint32_t weight, bias, width;
    struct halo_op op;
};
typedef void build_fn(struct subject *s, uint32_t form);

static struct halo_state_part part_of(uint32_t group, uint32_t offset)
{
    return (struct halo_state_part){.kv_group = group, .kv_layer = 1, .offset = offset};
}

/* What the op gives for each token of one prompt, in one batch: plain C on one thread. */
static void reference(struct subject *s, build_fn *build, uint32_t form, float *ret)
{
    for (int32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (i * i * 7 + 3 * i + 5) % N_VOCAB;
    *s = (struct subject){0};
    fixture_init(&s->f, N_VOCAB, MAX_ROWS, 128);
    build(s, form);
    assert_true(s->width <= WIDTH_MAX);
    fixture_op(&s->f, s->op);
    fixture_open(&s->f, "reference", 1);
    fixture_run(&s->f, 2, tokens, N_TOKENS, 0, NULL);
    for (uint32_t r = 0; r < N_TOKENS; r++)
        fixture_peek(&s->f, s->out, r, ret + r * s->width);
}

static void rows_equal(struct subject *s, const float *want, uint32_t first, uint32_t n, uint32_t row)
{
    float have[WIDTH_MAX];
    for (uint32_t i = 0; i < n; i++) {
        fixture_peek(&s->f, s->out, row + i, have);
        assert_memory_equal(want + (first + i) * s->width, have, s->width * sizeof(*have));
    }
}

/* One sequence, divided at `cut`, in a slot that another one has left full. */
static void divided(struct subject *s, const float *want, uint32_t cut)
{
    fixture_run(&s->f, cut % 8, tokens + 5, 9, 0, NULL);
    fixture_run(&s->f, cut % 8, tokens, cut, 0, NULL);
    rows_equal(s, want, 0, cut, 0);
    fixture_run(&s->f, cut % 8, tokens + cut, N_TOKENS - cut, (int32_t)cut, NULL);
    rows_equal(s, want, cut, N_TOKENS - cut, 0);
}

/* Eight sequences that step together, each some steps behind the one before: rows of prompts of 1 to 7 tokens. */
static void together(struct subject *s, const float *want, uint32_t group)
{
    struct halo_batch_seq seqs[8];
    uint32_t done[8] = {0}, slot[8];
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t i = 0; i < 8; i++) {
        slot[i] = (i * 3 + 1) % 8;
        seqs[i].pages[0] = fixture_pages(&s->f, i, &seqs[i].n_pages);
        seqs[i].pages[group] = &slot[i];
    }
    for (uint32_t step = 0; done[7] < N_TOKENS; step++) {
        int32_t token[MAX_ROWS], pos[MAX_ROWS];
        uint32_t seq[MAX_ROWS], n = 0;
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t k = (step + i) % 4 == 0 ? 7 : 1; k > 0 && done[i] < N_TOKENS && step >= i; k--, n++) {
                token[n] = tokens[done[i]];
                pos[n] = (int32_t)done[i]++;
                seq[n] = i;
            }
        const struct halo_batch batch = {
            .n_rows = n, .token = token, .pos = pos, .seq = seq, .n_seqs = 8, .seqs = seqs};
        assert_int_equal(s->f.device_ops->run(s->f.model, &batch, NULL, reason), 0);
        for (uint32_t r = 0; r < n; r++)
            rows_equal(s, want, (uint32_t)pos[r], 1, r);
    }
}

static void same_bits_everywhere(struct subject *s, const float *want, uint32_t group)
{
    for (uint32_t v = 0; v < 3; v++)
        for (uint32_t n_threads = 1; n_threads <= 3 && fixture_has(variants[v]); n_threads += 2) {
            fixture_open(&s->f, variants[v], n_threads);
            for (uint32_t cut = 1; cut < N_TOKENS; cut++)
                divided(s, want, cut);
            for (uint32_t pos = 0; pos < N_TOKENS; pos++) {
                fixture_run(&s->f, 5, tokens + pos, 1, (int32_t)pos, NULL);
                rows_equal(s, want, pos, 1, 0);
            }
            together(s, want, group);
        }
}

/* Taps, with a bias and an activation or without. */
static const struct {
    uint32_t n_taps, width;
    bool bias, silu;
} convolutions[] = {{3, 37, false, false}, {4, 80, true, true}, {2, 1, false, true}, {8, 16, true, false}};

static void convolution(struct subject *s, uint32_t form)
{
    uint32_t n_taps = convolutions[form].n_taps, width = convolutions[form].width;
    s->width = width;
    s->x = fixture_input(&s->f, width, 2);
    s->out = fixture_value(&s->f, width);
    s->weight = fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n_taps, width, 1, 1);
    s->bias = convolutions[form].bias ? fixture_weight(&s->f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, width, 1, 1, 1)
                                      : HALO_WEIGHT_NONE;
    uint32_t group = fixture_states(&s->f, 2, 3 + (n_taps - 1) * width);
    s->op = (struct halo_op){
        HALO_OP_CONV1D, .u.conv1d = {s->x, s->out, s->weight, s->bias, convolutions[form].silu, part_of(group, 3)}};
}

static void convolution_is_its_formula(void **state)
{
    static float got[N_TOKENS * WIDTH_MAX], x[N_TOKENS][WIDTH_MAX];
    static struct subject s;
    for (uint32_t form = 0; form < sizeof(convolutions) / sizeof(convolutions[0]); form++) {
        reference(&s, convolution, form, got);
        float *taps = fixture_floats(&s.f, s.weight), *bias = NULL;
        if (s.bias != HALO_WEIGHT_NONE)
            bias = fixture_floats(&s.f, s.bias);
        uint32_t n_taps = convolutions[form].n_taps;
        for (uint32_t r = 0; r < N_TOKENS; r++) {
            fixture_peek(&s.f, s.x, r, x[r]);
            for (uint32_t c = 0; c < s.width; c++) {
                double y = bias ? (double)bias[c] : 0;
                for (uint32_t k = 0; k < n_taps; k++)
                    if (r + k + 1 >= n_taps)
                        y += (double)taps[c * n_taps + k] * (double)x[r + k + 1 - n_taps][c];
                y = convolutions[form].silu ? y / (1 + exp(-y)) : y;
                assert_true(fabs((double)got[r * s.width + c] - y) <= 2e-6);
            }
        }
        free(taps);
        free(bias);
        same_bits_everywhere(&s, got, s.op.u.conv1d.state.kv_group);
        fixture_finish(&s.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_is_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
