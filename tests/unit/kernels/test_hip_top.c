/* test_hip_top.c: the outputs of a batch of the HIP device, over the runtime that $HALO_HIP_LIB names: lists and rows
 * in any combination, from steps that are launched and steps that are replayed, against the rows of the same batch.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <hip/hip.h>

#include "cpu_fixture.h"
#include "gfx/args.h"

/* The head's rows repeat, so the best logits have equals far away; the vocabulary is more than one part. */
enum { N_VOCAB = 9000, WIDTH = 32, MAX_ROWS = 20, N_SEQS = 8, NAN_TOKEN = 77 };

static void build(struct fixture *f, uint32_t n_vocab)
{
    const float nan = NAN;
    fixture_init(f, n_vocab, n_vocab > N_VOCAB ? 1 : MAX_ROWS, 64);
    f->device_ops = halo_device_hip();
    f->library = getenv("HALO_HIP_LIB");
    uint16_t x = fixture_input(f, WIDTH, 1);
    memcpy(f->bytes[f->plan.n_weights - 1] + NAN_TOKEN * WIDTH * sizeof(float), &nan, sizeof(nan));
    uint32_t head = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, WIDTH, n_vocab, 1, 1);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = head, .x = x, .bias = HALO_WEIGHT_NONE, .scale = 1}});
    fixture_open(f, NULL, 1);
}

/* A batch and its outputs. */
struct step {
    struct halo_batch batch;
    int32_t token[MAX_ROWS], pos[MAX_ROWS];
    uint32_t seq[MAX_ROWS], output[MAX_ROWS];
    struct halo_batch_seq seqs[N_SEQS];
    bool whole[MAX_ROWS];
    struct halo_candidate top[MAX_ROWS * HALO_CANDIDATES_MAX];
    _Alignas(64) float logits[MAX_ROWS * N_VOCAB];
};

/* Up to 8 rows: a step of so many sequences, all wanted. More: a prompt of which every second is wanted. */
static void make_step(const struct fixture *f, struct step *s, uint32_t n_rows, uint32_t first_token)
{
    bool prompt = n_rows > N_SEQS;
    static uint32_t pages[N_SEQS][8];
    s->batch = (struct halo_batch){.n_rows = n_rows,
                                   .token = s->token,
                                   .pos = s->pos,
                                   .seq = s->seq,
                                   .seqs = s->seqs,
                                   .n_seqs = prompt ? 1 : n_rows,
                                   .output = s->output,
                                   .logits = s->logits,
                                   .whole = s->whole,
                                   .top = s->top};
    for (uint32_t i = 0; i < s->batch.n_seqs; i++) {
        const uint32_t *of = fixture_pages(f, i, &s->seqs[i].n_pages);
        assert_true(s->seqs[i].n_pages <= 8);
        memcpy(pages[i], of, s->seqs[i].n_pages * sizeof(*of));
        s->seqs[i].pages[0] = pages[i];
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        s->token[r] = (int32_t)(first_token + 13 * r) % N_VOCAB;
        s->pos[r] = prompt ? (int32_t)r : 3;
        s->seq[r] = prompt ? 0 : r;
        if (!prompt || r % 2 == 0)
            s->output[s->batch.n_outputs++] = r;
    }
}

static void run(struct fixture *f, struct step *s)
{
    char reason[HALO_DEVICE_REASON] = "";
    memset(s->logits, 0x55, sizeof(s->logits));
    memset(s->top, 0x55, sizeof(s->top));
    if (f->device_ops->run(f->model, &s->batch, NULL, reason))
        fail_msg("%s", reason);
}

static int falling(const void *a, const void *b)
{
    const struct halo_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* Whether the row has no NaN; then its list is compared. Returns how many entries of the list have an equal
 * neighbour. */
static uint32_t compare_list(const struct halo_candidate *have, uint32_t n, const float *row, uint32_t n_vocab)
{
    struct halo_candidate *want = malloc(n_vocab * sizeof(*want));
    uint32_t n_ties = 0, n_broken = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        want[i] = (struct halo_candidate){row[i], (int32_t)i};
        n_broken += !isfinite(row[i]);
    }
    if (n_broken > 0) {
        assert_int_equal(have[0].id, -1);
        free(want);
        return 0;
    }
    qsort(want, n_vocab, sizeof(*want), falling);
    for (uint32_t i = 0; i < n; i++) {
        if (have[i].id != want[i].id || memcmp(&have[i].logit, &want[i].logit, sizeof(float)) != 0)
            fail_msg("entry %u of %u is %d (%.9g), wanted %d (%.9g)", i, n, have[i].id, (double)have[i].logit,
                     want[i].id, (double)want[i].logit);
        n_ties += i > 0 && want[i].logit == want[i - 1].logit;
    }
    free(want);
    return n_ties;
}

/* Compares each output that was asked for with the rows in `want`, and checks that nothing else was written. */
static uint32_t compare(const struct step *s, const float *want)
{
    static const unsigned char untouched[N_VOCAB * sizeof(float)] = {0x55};
    uint32_t n_ties = 0;
    for (uint32_t i = 0; i < s->batch.n_outputs; i++) {
        const float *row = s->logits + i * N_VOCAB;
        const unsigned char *bytes = (const unsigned char *)row;
        if (s->batch.n_top == 0 || s->whole[i])
            assert_memory_equal(row, want + i * N_VOCAB, N_VOCAB * sizeof(float));
        else
            assert_true(bytes[0] == untouched[0] && memcmp(bytes, bytes + 1, N_VOCAB * sizeof(float) - 1) == 0);
        if (s->batch.n_top > 0)
            n_ties += compare_list(s->top + i * s->batch.n_top, s->batch.n_top, want + i * N_VOCAB, N_VOCAB);
    }
    assert_int_equal(s->top[s->batch.n_outputs * s->batch.n_top].id, 0x55555555);
    return n_ties;
}

static void lists_and_rows_in_any_mixture(void **state)
{
    static const uint32_t counts[] = {1, 3, 8, 13}, lengths[] = {1, 2, 40, HALO_CANDIDATES_MAX};
    static struct step s;
    static float want[MAX_ROWS * N_VOCAB];
    struct fixture f;
    struct halo_device_info info;
    uint32_t n_ties = 0, n_whole = 0, random = 1;
    build(&f, N_VOCAB);
    f.device_ops->describe(f.device, &info);
    assert_true(info.features & HALO_DEVICE_TOP);
    for (uint32_t c = 0; c < 4; c++) {
        make_step(&f, &s, counts[c], 100 * c);
        run(&f, &s); /* launched; steps of few rows are replayed from the next one on */
        memcpy(want, s.logits, s.batch.n_outputs * N_VOCAB * sizeof(float));
        compare(&s, want);
        for (uint32_t k = 0; k < 4; k++) {
            s.batch.n_top = lengths[k];
            for (uint32_t i = 0; i < s.batch.n_outputs; i++) {
                s.whole[i] = k != 1 && (random = random * 1664525 + 1013904223) >> 31;
                n_whole += s.whole[i];
            }
            run(&f, &s);
            n_ties += compare(&s, want);
        }
    }
    assert_true(n_ties > 100 && n_whole > 20);
    fixture_finish(&f);
}

/* So many parts that the candidates of all of them are more than one part. */
static void three_launches(void **state)
{
    enum { MANY = 66 * HALO_TOP_PART };
    if (getenv("HALO_HIP_EMU_DISCRETE"))
        skip();             /* the same launches, and running it once takes long enough */
#ifdef __SANITIZE_ADDRESS__ /* gfx top merges as many parts, in memory of just their size */
    skip();
#endif
    static struct step s;
    struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    float *logits = aligned_alloc(64, MANY * sizeof(float));
    assert_non_null(logits);
    setenv("HALO_HIP_DEADLINE_MS", "600000", 1); /* the head has half a million rows, which take an emulator long */
    build(&f, MANY);
    unsetenv("HALO_HIP_DEADLINE_MS");
    make_step(&f, &s, 1, 4);
    s.batch.logits = logits;
    s.batch.n_top = HALO_CANDIDATES_MAX;
    s.whole[0] = true;
    if (f.device_ops->run(f.model, &s.batch, NULL, reason))
        fail_msg("%s", reason);
    assert_true(compare_list(s.top, HALO_CANDIDATES_MAX, logits, MANY) > 10);
    free(logits);
    fixture_finish(&f);
}

/* The row with the NaN lies between two finite rows. */
static void a_nan_empties_its_own_list(void **state)
{
    static struct step s;
    static float want[MAX_ROWS * N_VOCAB];
    struct fixture f;
    build(&f, N_VOCAB);
    make_step(&f, &s, 3, NAN_TOKEN - 13);
    run(&f, &s);
    memcpy(want, s.logits, sizeof(want));
    assert_true(isfinite(want[0]) && isnan(want[N_VOCAB]) && isfinite(want[2 * N_VOCAB]));
    for (uint32_t k = 0; k < 2; k++) {
        s.batch.n_top = k ? 40 : 1;
        run(&f, &s);
        compare(&s, want);
        assert_int_equal(s.top[s.batch.n_top].id, -1);
        assert_true(s.top[0].id >= 0 && s.top[2 * s.batch.n_top].id >= 0);
    }
    fixture_finish(&f);
}

/* Outputs that are not wanted, and invalid ones. */
static void nothing_and_too_much(void **state)
{
    static struct step s;
    char reason[HALO_DEVICE_REASON] = "";
    struct fixture f;
    build(&f, N_VOCAB);
    make_step(&f, &s, 4, 5);
    s.batch.n_outputs = 0;
    s.batch.n_top = 1;
    run(&f, &s);
    assert_int_equal(s.top[0].id, 0x55555555);
    make_step(&f, &s, 4, 5);
    s.batch.n_top = HALO_CANDIDATES_MAX + 1;
    assert_int_equal(f.device_ops->run(f.model, &s.batch, NULL, reason), -EINVAL);
    assert_non_null(strstr(reason, "lists of the 129 largest logits: at most 128"));
    s.batch.n_top = 2;
    s.batch.top = NULL;
    assert_int_equal(f.device_ops->run(f.model, &s.batch, NULL, reason), -EINVAL);
    assert_non_null(strstr(reason, "without memory for them"));
    fixture_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_rows_in_any_mixture),
        cmocka_unit_test(three_launches),
        cmocka_unit_test(a_nan_empties_its_own_list),
        cmocka_unit_test(nothing_and_too_much),
    };
    if (!getenv("HALO_HIP_LIB")) {
        printf("HALO_HIP_LIB names no runtime\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
