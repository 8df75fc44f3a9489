/* test_gfx_states.c: kernels with a state, several sequences in one launch, against plain loops in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

/* Sequences of some rows each: the first begins, the others go on. */
enum { SEQUENCES = 3, SLOTS = 4 };
static const struct halo_state_run runs[SEQUENCES] = {{0, 11}, {11, 1}, {12, 9}};
static const uint32_t slots[SEQUENCES] = {2, 0, 3};
enum { ROWS = 21 };

struct states {
    struct halo_state_run *run;
    uint32_t *slot;
    int32_t *pos;
    float *bytes, *before; /* [SLOTS][width], of which an op has those from `offset` on; and as they were */
    uint32_t width, offset;
};

static struct states states_init(uint32_t width, uint32_t offset, uint32_t seed)
{
    struct states s = {.run = gfx_zeros(sizeof(runs)),
                       .slot = gfx_zeros(sizeof(slots)),
                       .pos = gfx_zeros(ROWS * sizeof(int32_t)),
                       .bytes = gfx_floats(SLOTS * width, seed),
                       .before = gfx_floats(SLOTS * width, seed),
                       .width = width,
                       .offset = offset};
    memcpy(s.run, runs, sizeof(runs));
    memcpy(s.slot, slots, sizeof(slots));
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t r = 0; r < runs[i].n_rows; r++)
            s.pos[runs[i].first + r] = (int32_t)(i * 40 + r);
    return s;
}

static struct halo_state_arg states_arg(const struct states *s)
{
    return (struct halo_state_arg){.base = (uint8_t *)(s->bytes + s->offset),
                                   .pos = s->pos,
                                   .run = s->run,
                                   .slot = s->slot,
                                   .slot_bytes = s->width * sizeof(float)};
}

/* The part of a sequence before the launch, or after it; NULL: it begins. */
static const float *part_before(const struct states *s, uint32_t sequence)
{
    return s->pos[runs[sequence].first] == 0 ? NULL : s->before + slots[sequence] * s->width + s->offset;
}

static const float *part_after(const struct states *s, uint32_t sequence)
{
    return s->bytes + slots[sequence] * s->width + s->offset;
}

/* What does not belong to the op is as it was: the slot of nobody, and n f32 of the others. */
static void states_finish(struct states *s, uint32_t n)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const float *have = s->bytes + slot * s->width, *want = s->before + slot * s->width;
        if (slot == 1)
            assert_memory_equal(have, want, s->width * sizeof(float));
        assert_memory_equal(have, want, s->offset * sizeof(float));
        assert_memory_equal(have + s->offset + n, want + s->offset + n, (s->width - s->offset - n) * sizeof(float));
    }
    free(s->run);
    free(s->slot);
    free(s->pos);
    free(s->bytes);
    free(s->before);
}

static void convolution(uint32_t n_taps, uint32_t n, bool bias, bool silu)
{
    struct states s = states_init((n_taps - 1) * n + 9, 4, n_taps);
    float *x = gfx_floats(ROWS * n, 5), *weight = gfx_floats(n * n_taps, 6), *shift = gfx_floats(n, 7),
          *out = gfx_zeros(ROWS * n * sizeof(float));
    struct halo_conv1d_args args = {.state = states_arg(&s),
                                    .x = x,
                                    .weight = weight,
                                    .bias = bias ? shift : NULL,
                                    .out = out,
                                    .n_cols = n,
                                    .n_taps = n_taps,
                                    .silu = silu};
    gfx_run(n_taps <= 4 ? "conv1d_t4" : "conv1d_t8", HALO_HIP_CEIL(n, HALO_CONV1D_COLS), SEQUENCES, 1, &args);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t c = 0; c < n; c++) {
            double column[16 + ROWS]; /* of the state, then of x */
            const float *before = part_before(&s, i), *after = part_after(&s, i);
            const uint32_t n_rows = runs[i].n_rows;
            for (uint32_t k = 0; k + 1 < n_taps; k++)
                column[k] = before ? (double)before[k * n + c] : 0;
            for (uint32_t r = 0; r < n_rows; r++)
                column[n_taps - 1 + r] = (double)x[(runs[i].first + r) * n + c];
            for (uint32_t r = 0; r < n_rows; r++) {
                double y = bias ? (double)shift[c] : 0;
                for (uint32_t k = 0; k < n_taps; k++)
                    y += (double)weight[c * n_taps + k] * column[r + k];
                y = silu ? y / (1 + exp(-y)) : y;
                gfx_near((double)out[(runs[i].first + r) * n + c], y, 2e-6, fabs(y) + 1, "conv1d", r);
            }
            for (uint32_t k = 0; k + 1 < n_taps; k++)
                assert_true((double)after[k * n + c] == column[n_rows + k]);
        }
    states_finish(&s, (n_taps - 1) * n);
    free(x);
    free(weight);
    free(shift);
    free(out);
}

static void convolutions(void **state)
{
    (void)state;
    convolution(2, 1, false, true);
    convolution(3, 37, false, false);
    convolution(4, 300, true, true);
    convolution(5, 64, false, true);
    convolution(8, 30, true, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
