/* test_cpu_blocks.c: residual streams, and attention over compressed blocks of the past: each op against its formula in
 * double, and the same bits whatever the batches, the threads and the kernels.
 *
 * Compiled with HALO_TEST_HIP the formulas are those of the HIP device over the runtime that $HALO_HIP_LIB names, and
 * the rows of blocks in its cache have the same bits whatever the batches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_fixture.h"
#if defined(HALO_TEST_HIP)
#include "hip_compare.h"
#else
#define N_VOCAB 61
#define MAX_ROWS 64
#endif

#if defined(HALO_TEST_HIP)
enum { N_POSITIONS = 320, N_POS = 100, SEQUENCE = 1 };
enum { DIM = 64, KEY = 32 }; /* q8 has a scale for 32 elements */

static void open_plan(struct fixture *f)
{
    use_hip(f);
}
#else
enum { N_POSITIONS = 320, N_POS = 300, SEQUENCE = 1 };
enum { DIM = 40, KEY = 24 };

static void open_plan(struct fixture *f)
{
    fixture_open(f, NULL, 2);
}
#endif

static int32_t token_at(uint32_t pos)
{
    return (int32_t)((pos * 37 + pos / 7) % N_VOCAB);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Runs positions 0 .. N_POS - 1 in batches of n_rows, and copies the value of each into ret[N_POS][width]. */
static void run_all(struct fixture *f, uint32_t n_rows, uint16_t value, uint32_t width, float *ret)
{
    for (uint32_t at = 0; at < N_POS; at += n_rows) {
        int32_t tokens[MAX_ROWS];
        uint32_t n = N_POS - at < n_rows ? N_POS - at : n_rows;
        for (uint32_t r = 0; r < n; r++)
            tokens[r] = token_at(at + r);
        fixture_run(f, SEQUENCE, tokens, n, (int32_t)at, NULL);
        for (uint32_t r = 0; r < n; r++)
            fixture_peek(f, value, r, ret + (size_t)(at + r) * width);
    }
}

enum { STREAMS = 4, WIDTH = 70, MIX = STREAMS * (STREAMS + 2), BACK = STREAMS * (STREAMS + 1), ITERATIONS = 20 };
#define EPS 1e-6f

/* post[i], then comb[s][d], by the formula. */
static void back_of(const float *mix, const float *scale, const float *base, double ret[BACK])
{
    double comb[STREAMS][STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++)
        ret[i] = 2 * sigmoid((double)mix[STREAMS + i] * (double)scale[1] + (double)base[STREAMS + i]);
    for (uint32_t s = 0; s < STREAMS; s++) {
        double sum = 0;
        for (uint32_t d = 0; d < STREAMS; d++) {
            uint32_t at = (2 + s) * STREAMS + d;
            sum += comb[s][d] = exp((double)mix[at] * (double)scale[2] + (double)base[at]);
        }
        for (uint32_t d = 0; d < STREAMS; d++)
            comb[s][d] = comb[s][d] / sum + (double)EPS;
    }
    for (uint32_t turn = 1; turn < 2 * ITERATIONS; turn++) /* odd: over s; even: over d */
        for (uint32_t a = 0; a < STREAMS; a++) {
            double sum = (double)EPS;
            for (uint32_t b = 0; b < STREAMS; b++)
                sum += turn % 2 ? comb[b][a] : comb[a][b];
            for (uint32_t b = 0; b < STREAMS; b++)
                *(turn % 2 ? &comb[b][a] : &comb[a][b]) /= sum;
        }
    for (uint32_t s = 0; s < STREAMS; s++)
        for (uint32_t d = 0; d < STREAMS; d++)
            ret[STREAMS + s * STREAMS + d] = comb[s][d];
}

static void near(const float *got, const double *want, uint32_t n, double bound)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound * fmax(1, fabs(want[i]))))
            fail_msg("element %u is %.9g, wanted %.9g", i, (double)got[i], want[i]);
}

static void streams_are_mixed_and_added(void **state)
{
    enum { ROWS = 9 };
    struct fixture f;
    fixture_init(&f, N_VOCAB, MAX_ROWS, N_POSITIONS);
    uint16_t before = fixture_input(&f, STREAMS * WIDTH, 1), mix = fixture_input(&f, MIX, 2);
    uint16_t add = fixture_input(&f, WIDTH, 1), head = fixture_input(&f, STREAMS, 2);
    uint16_t x = fixture_value(&f, STREAMS * WIDTH), out = fixture_value(&f, WIDTH), back = fixture_value(&f, BACK);
    uint16_t last = fixture_value(&f, WIDTH);
    uint32_t scale = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 3, 1, 1, 1);
    uint32_t base = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, MIX, 1, 1, 1);
    uint32_t one = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 1, 1, 1, 1);
    uint32_t per_stream = fixture_weight(&f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, STREAMS, 1, 1, 1);
    fixture_op(&f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {before, HALO_NONE, x, STREAMS, 0, WIDTH, 0, false}});
    fixture_op(&f, (struct halo_op){HALO_OP_STREAMS_MIX,
                                    .u.streams_mix = {x, mix, out, back, scale, base, STREAMS, ITERATIONS, EPS}});
    fixture_op(&f, (struct halo_op){HALO_OP_STREAMS_ADD, .u.streams_add = {x, back, add, STREAMS}});
    fixture_op(&f, (struct halo_op){HALO_OP_STREAMS_MIX,
                                    .u.streams_mix = {x, head, last, HALO_NONE, one, per_stream, STREAMS, 0, EPS}});
    open_plan(&f);
    int32_t tokens[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        tokens[r] = token_at(r);
    fixture_run(&f, SEQUENCE, tokens, ROWS, 0, NULL);
    float *w[4] = {fixture_floats(&f, scale), fixture_floats(&f, base), fixture_floats(&f, one),
                   fixture_floats(&f, per_stream)};
    for (uint32_t r = 0; r < ROWS; r++) {
        float was[STREAMS * WIDTH], is[STREAMS * WIDTH], m[MIX], a[WIDTH], h[STREAMS], o[WIDTH], b[BACK], l[WIDTH];
        double want_back[BACK], want[STREAMS * WIDTH] = {0}, want_out[WIDTH] = {0}, want_last[WIDTH] = {0};
        fixture_peek(&f, before, r, was), fixture_peek(&f, x, r, is), fixture_peek(&f, mix, r, m);
        fixture_peek(&f, add, r, a), fixture_peek(&f, head, r, h), fixture_peek(&f, out, r, o);
        fixture_peek(&f, back, r, b), fixture_peek(&f, last, r, l);
        back_of(m, w[0], w[1], want_back);
        for (uint32_t i = 0; i < STREAMS * WIDTH; i++) {
            uint32_t d = i / WIDTH, at = i % WIDTH;
            want[i] = want_back[d] * (double)a[at];
            for (uint32_t s = 0; s < STREAMS; s++)
                want[i] += want_back[STREAMS + s * STREAMS + d] * (double)was[s * WIDTH + at];
            want_out[at] += (sigmoid((double)m[d] * (double)w[0][0] + (double)w[1][d]) + (double)EPS) * (double)was[i];
        }
        for (uint32_t i = 0; i < STREAMS * WIDTH; i++)
            want_last[i % WIDTH] +=
                (sigmoid((double)h[i / WIDTH] * (double)w[2][0] + (double)w[3][i / WIDTH]) + (double)EPS) * want[i];
        near(b, want_back, BACK, 1e-6);
        near(o, want_out, WIDTH, 1e-6);
        near(is, want, STREAMS * WIDTH, 2e-6);
        near(l, want_last, WIDTH, 3e-6);
    }
    for (uint32_t i = 0; i < 4; i++)
        free(w[i]);
    fixture_finish(&f);
}

enum { ROT = 16, HEADS = 20, KEY_HEADS = 5, TOP_K = 6, WINDOW = 21 };

/* A layer that attends to a window and to blocks of `ratio` positions: all of them, or the best of an index. */
struct layer {
    struct fixture f;
    uint32_t ratio;
    bool overlap, indexed;
    uint16_t in[2][2]; /* u and z as they come, of the blocks and of the index */
    uint16_t q, kv, key_q, key_weight, chosen, out;
    uint32_t bias[2], norm[2], sinks, rope;
};

static void compress_add(struct layer *l, uint32_t which, uint32_t dim, uint32_t group, uint32_t offset)
{
    struct fixture *f = &l->f;
    uint32_t width = l->overlap ? 2 * dim : dim;
    uint16_t used[2];
    for (uint32_t i = 0; i < 2; i++) {
        l->in[which][i] = fixture_input(f, width, i ? 3 : 1);
        used[i] = fixture_value(f, width);
        fixture_op(f, (struct halo_op){HALO_OP_CONCAT,
                                       .u.concat = {l->in[which][i], HALO_NONE, used[i], 1, 0, width, 0, false}});
    }
    l->bias[which] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, width, l->ratio, 1, 1);
    l->norm[which] = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, dim, 1, 1, 1);
    fixture_op(f, (struct halo_op){HALO_OP_COMPRESS, .u.compress = {.u = used[0],
                                                                    .z = used[1],
                                                                    .bias = l->bias[which],
                                                                    .norm = l->norm[which],
                                                                    .dim = dim,
                                                                    .ratio = l->ratio,
                                                                    .overlap = l->overlap,
                                                                    .eps = EPS,
                                                                    .rope = l->rope,
                                                                    .kv_group = group,
                                                                    .kv_layer = 1,
                                                                    .state = {2, 1, offset}}});
}

static uint32_t blocks_group(struct fixture *f, enum halo_kv_type type, uint32_t dim, uint32_t ratio)
{
    uint32_t group = fixture_kv_add(f, type, 2, 1, dim, dim);
    f->plan.kv[group].latent = true;
    f->plan.kv[group].stride = ratio < HALO_KV_PAGE_TOKENS ? ratio : HALO_KV_PAGE_TOKENS;
    return group;
}

static void layer_init(struct layer *l, enum halo_kv_type type, uint32_t ratio, bool overlap, bool indexed)
{
    struct fixture *f = &l->f;
    *l = (struct layer){.ratio = ratio, .overlap = overlap, .indexed = indexed, .chosen = HALO_NONE};
    fixture_init(f, N_VOCAB, MAX_ROWS, N_POSITIONS);
    fixture_kv(f, type, 1, 1, DIM, DIM); /* 0: the window's */
    f->plan.kv[0].latent = true;
    blocks_group(f, type, DIM, ratio); /* 1 */
    uint32_t states = fixture_kv_add(f, type, 2, 1, DIM, DIM);
    f->plan.kv[states].state_width =
        1 + halo_compress_state_width(DIM, overlap) + halo_compress_state_width(KEY, overlap);
    uint32_t keys = blocks_group(f, type, KEY, ratio); /* 3 */
    l->rope = fixture_rope(f, HALO_ROPE_NORM, ROT, 1, 1000);
    l->q = fixture_input(f, HEADS * DIM, 1);
    l->kv = fixture_input(f, DIM, 1);
    l->sinks = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, HEADS, 1, 1, 1);
    l->out = fixture_value(f, HEADS * DIM);
    fixture_op(f, (struct halo_op){HALO_OP_KV_WRITE, .u.kv_write = {l->kv, HALO_NONE, 0, 0}});
    compress_add(l, 0, DIM, 1, 1);
    if (indexed) {
        compress_add(l, 1, KEY, keys, 1 + halo_compress_state_width(DIM, overlap));
        l->key_q = fixture_input(f, KEY_HEADS * KEY, 1);
        l->key_weight = fixture_input(f, KEY_HEADS, 1);
        l->chosen = fixture_value(f, TOP_K);
        fixture_op(
            f, (struct halo_op){HALO_OP_BLOCKS_CHOOSE, .u.blocks_choose = {l->key_q, l->key_weight, l->chosen,
                                                                           KEY_HEADS, ratio, TOP_K, keys, 1, 0.25f}});
    }
    fixture_op(f, (struct halo_op){HALO_OP_ATTEND_BLOCKS, .u.attend_blocks = {l->q, l->out, l->chosen, HEADS, 0.2f, 0,
                                                                              0, WINDOW, 1, 1, ratio, l->sinks}});
}

/* The rows of every position of an input: the table is by token. */
static const float *row_of(const struct layer *l, uint16_t input, uint32_t pos)
{
    const struct halo_op *op = l->f.ops;
    while (op->kind != HALO_OP_EMBED || op->u.embed.out != input)
        op++;
    uint32_t width = l->f.values[input].width;
    return (const float *)(const void *)l->f.bytes[op->u.embed.weight] + (size_t)token_at(pos) * width;
}

/* Block b of the keys (0) or the index (1), by the formula. */
static void block_of(const struct layer *l, uint32_t which, uint32_t dim, uint32_t b, double *ret)
{
    const float *bias = (const float *)(const void *)l->f.bytes[l->bias[which]];
    const float *norm = (const float *)(const void *)l->f.bytes[l->norm[which]];
    uint32_t width = l->overlap ? 2 * dim : dim, own = l->overlap ? dim : 0;
    double squares = 0;
    for (uint32_t i = 0; i < dim; i++) {
        double sum = 0;
        ret[i] = 0;
        for (uint32_t k = l->overlap && b > 0 ? 0 : l->ratio; k < 2 * l->ratio; k++) {
            uint32_t pos = b * l->ratio + k - l->ratio, at = i + (k < l->ratio ? 0 : own);
            double z = (double)(row_of(l, l->in[which][1], pos)[at] + bias[(size_t)(k % l->ratio) * width + at]);
            sum += exp(z);
            ret[i] += exp(z) * (double)row_of(l, l->in[which][0], pos)[at];
        }
        ret[i] /= sum;
        squares += ret[i] * ret[i];
    }
    for (uint32_t i = 0; i < dim; i++)
        ret[i] = ret[i] / sqrt(squares / dim + (double)EPS) * (double)norm[i];
    for (uint32_t i = 0; i < ROT / 2; i++) {
        double angle = b * l->ratio * l->f.freqs[l->rope][i], *pair = ret + dim - ROT + (size_t)2 * i;
        double x = pair[0] * cos(angle) - pair[1] * sin(angle), y = pair[0] * sin(angle) + pair[1] * cos(angle);
        pair[0] = x;
        pair[1] = y;
    }
}

static double score_of(const struct layer *l, uint32_t pos, const double *key)
{
    double score = 0;
    for (uint32_t h = 0; h < KEY_HEADS; h++) {
        double product = 0;
        for (uint32_t i = 0; i < KEY; i++)
            product += (double)row_of(l, l->key_q, pos)[h * KEY + i] * key[i];
        score += (double)row_of(l, l->key_weight, pos)[h] * fmax(0, product) * 0.25;
    }
    return score;
}

enum { BLOCKS_MAX = N_POS / 4 };

/* Marks the blocks that the position attends to. False when two scores are too close to tell which is chosen. */
static bool choose(const struct layer *l, uint32_t pos, double keys[][KEY], bool ret[BLOCKS_MAX])
{
    uint32_t n = (pos + 1) / l->ratio;
    double score[BLOCKS_MAX];
    for (uint32_t b = 0; b < n; b++)
        ret[b] = true;
    if (!l->indexed || n <= TOP_K)
        return true;
    double worst = INFINITY, next = -INFINITY;
    for (uint32_t b = 0; b < n; b++)
        score[b] = score_of(l, pos, keys[b]);
    for (uint32_t b = 0; b < n; b++) {
        uint32_t rank = 0;
        for (uint32_t c = 0; c < n; c++)
            rank += score[c] > score[b] || (score[c] == score[b] && c < b);
        ret[b] = rank < TOP_K;
        if (ret[b])
            worst = fmin(worst, score[b]);
        else
            next = fmax(next, score[b]);
    }
    return worst - next > 1e-4 || (worst == 0 && next == 0);
}

static void attend(const struct layer *l, uint32_t pos, double blocks[][DIM], const bool *chosen, double *ret)
{
    const float *sinks = (const float *)(const void *)l->f.bytes[l->sinks];
    uint32_t first = pos >= WINDOW ? pos + 1 - WINDOW : 0, n_blocks = (pos + 1) / l->ratio;
    for (uint32_t h = 0; h < HEADS; h++) {
        const float *q = row_of(l, l->q, pos) + (size_t)h * DIM;
        double sum = exp((double)sinks[h]), *out = ret + (size_t)h * DIM;
        memset(out, 0, DIM * sizeof(*out));
        for (uint32_t j = 0; j < n_blocks + pos + 1 - first; j++) {
            double key[DIM], score = 0;
            if (j < n_blocks && !chosen[j])
                continue;
            for (uint32_t i = 0; i < DIM; i++)
                key[i] = j < n_blocks ? blocks[j][i] : (double)row_of(l, l->kv, first + j - n_blocks)[i];
            for (uint32_t i = 0; i < DIM; i++)
                score += (double)q[i] * key[i] * (double)0.2f;
            sum += exp(score);
            for (uint32_t i = 0; i < DIM; i++)
                out[i] += exp(score) * key[i];
        }
        for (uint32_t i = 0; i < DIM; i++)
            out[i] /= sum;
    }
}

static float got[N_POS][HEADS * DIM], again[N_POS][HEADS * DIM];

static void layer_is_right(uint32_t ratio, bool overlap, bool indexed)
{
    static double blocks[BLOCKS_MAX][DIM], keys[BLOCKS_MAX][KEY];
    struct layer l;
    uint32_t n_clear = 0;
    layer_init(&l, HALO_KV_F32, ratio, overlap, indexed);
    open_plan(&l.f);
    run_all(&l.f, 50, l.out, HEADS * DIM, got[0]);
    for (uint32_t b = 0; b < N_POS / ratio; b++) {
        block_of(&l, 0, DIM, b, blocks[b]);
        if (indexed)
            block_of(&l, 1, KEY, b, keys[b]);
    }
    for (uint32_t pos = 0; pos < N_POS; pos++) {
        bool chosen[BLOCKS_MAX];
        double want[HEADS * DIM];
        if (!choose(&l, pos, keys, chosen))
            continue;
        attend(&l, pos, blocks, chosen, want);
        near(got[pos], want, HEADS * DIM, 2e-5);
        n_clear++;
    }
    assert_true(n_clear > N_POS / 2);
    fixture_finish(&l.f);
}

#if defined(HALO_TEST_HIP)
static void blocks_are_attended(void **state)
{
    layer_is_right(4, true, true);
    layer_is_right(16, false, false);
    layer_is_right(64, false, false);
}

/* Every page of the groups of blocks and of keys, freshly allocated. */
static uint8_t *blocks_kept(const struct fixture *f, uint64_t *ret_n)
{
    static const uint32_t groups[] = {1, 3};
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t n = 0;
    for (uint32_t i = 0; i < 2; i++)
        n += f->plan.kv[groups[i]].n_pages * f->device_ops->kv_page_bytes(f->model, groups[i]);
    uint8_t *bytes = calloc(1, n), *at = bytes;
    assert_non_null(bytes);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t page = 0; page < f->plan.kv[groups[i]].n_pages; page++) {
            assert_int_equal(f->device_ops->kv_read(f->model, groups[i], page, at, reason), 0);
            at += f->device_ops->kv_page_bytes(f->model, groups[i]);
        }
    *ret_n = n;
    return bytes;
}

/* The blocks of a sequence that comes in other batches, and after the slot was used. */
static void every_batch_gives_the_same_bits(void **state)
{
    static const uint32_t n_rows[] = {64, 31, 3};
    struct layer l;
    for (int type = HALO_KV_F32; type <= HALO_KV_Q8; type++) {
        uint64_t n;
        uint8_t *want = NULL;
        layer_init(&l, (enum halo_kv_type)type, 4, true, true);
        l.f.plan.n_ops -= 2; /* without the choice and attention */
        open_plan(&l.f);
        for (uint32_t i = 0; i < 3; i++) {
            run_all(&l.f, n_rows[i], l.kv, DIM, got[0]);
            uint8_t *kept = blocks_kept(&l.f, &n);
            if (want)
                assert_memory_equal(kept, want, n);
            free(want);
            want = kept;
        }
        free(want);
        fixture_finish(&l.f);
    }
}

/* Attention to every block, over the types of cache: as the CPU device has it. */
static void caches_of_every_type(void **state)
{
    static const double bound[] = {2e-5, 1e-3, 5e-3};
    struct layer l;
    for (int type = HALO_KV_F16; type <= HALO_KV_Q8; type++) {
        layer_init(&l, (enum halo_kv_type)type, 4, true, false);
        use_cpu(&l.f);
        run_all(&l.f, 50, l.out, HEADS * DIM, got[0]);
        use_hip(&l.f);
        run_all(&l.f, 64, l.out, HEADS * DIM, again[0]);
        compare_rows("attend_blocks", again[0], got[0], N_POS, HEADS * DIM, bound[type]);
        fixture_finish(&l.f);
    }
}
#else
static void blocks_are_attended(void **state)
{
    layer_is_right(4, true, false);
    layer_is_right(4, true, true);
    layer_is_right(16, false, false);
    layer_is_right(64, false, false);
    layer_is_right(128, false, false);
    layer_is_right(32, true, true);
}

static void every_batch_gives_the_same_bits(void **state)
{
    static const char *const variants[] = {"reference", "avx2", "avx512"};
    static const uint32_t n_rows[] = {1, 3, 31, 64};
    struct layer l;
    for (int type = HALO_KV_F32; type <= HALO_KV_Q8; type++) {
        layer_init(&l, (enum halo_kv_type)type, 4, true, true);
        fixture_open(&l.f, "reference", 1);
        run_all(&l.f, 64, l.out, HEADS * DIM, got[0]);
        fixture_close(&l.f);
        for (uint32_t i = 0; i < 12; i++) {
            if (!fixture_has(variants[i % 3]))
                continue;
            fixture_open(&l.f, variants[i % 3], 1 + i % 2 * 3);
            run_all(&l.f, n_rows[i / 3], l.out, HEADS * DIM, again[0]);
            assert_memory_equal(got, again, sizeof(got));
            fixture_close(&l.f);
        }
        fixture_finish(&l.f);
    }
}
#endif

/* A slot that another sequence has used does not shine through. */
static void a_sequence_begins_afresh(void **state)
{
    struct layer l;
    layer_init(&l, HALO_KV_F32, 4, true, true);
    open_plan(&l.f);
    run_all(&l.f, 50, l.out, HEADS * DIM, got[0]);
    run_all(&l.f, 50, l.out, HEADS * DIM, again[0]);
    assert_memory_equal(got, again, sizeof(got));
    fixture_finish(&l.f);
}

static void gate_and_up_are_limited(void **state)
{
    enum { N = 45, ROWS = 8 };
    const float limit = 0.5f;
    struct fixture f;
    fixture_init(&f, N_VOCAB, MAX_ROWS, N_POSITIONS);
    uint16_t gate = fixture_input(&f, N, 2), up = fixture_input(&f, N, 2), out = fixture_value(&f, N);
    uint32_t tables[] = {f.ops[0].u.embed.weight, f.ops[1].u.embed.weight};
    fixture_op(&f, (struct halo_op){HALO_OP_GLU, .u.glu = {gate, up, out, HALO_GLU_SILU, limit}});
    open_plan(&f);
    int32_t tokens[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        tokens[r] = token_at(r);
    fixture_run(&f, SEQUENCE, tokens, ROWS, 0, NULL);
    for (uint32_t r = 0; r < ROWS; r++) {
        float is[N];
        double want[N];
        fixture_peek(&f, out, r, is);
        for (uint32_t i = 0; i < N; i++) {
            size_t at = (size_t)tokens[r] * N + i;
            double g = fmin((double)((const float *)(const void *)f.bytes[tables[0]])[at], (double)limit);
            double u = fmin(fmax((double)((const float *)(const void *)f.bytes[tables[1]])[at], -(double)limit),
                            (double)limit);
            want[i] = g * sigmoid(g) * u;
        }
        near(is, want, N, 1e-6);
    }
    fixture_finish(&f);
}

/* The experts of a token are those of the table, weighted by their scores. */
static void experts_by_token(void **state)
{
    enum { EXPERTS = 7, USED = 2, ROWS = 8 };
    static int32_t table[N_VOCAB * USED];
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        table[USED * i] = (int32_t)(i * 5 % EXPERTS);
        table[USED * i + 1] = (int32_t)((i * 5 + 3) % EXPERTS);
    }
    struct fixture f;
    fixture_init(&f, N_VOCAB, MAX_ROWS, N_POSITIONS);
    uint16_t logits = fixture_input(&f, EXPERTS, 3), choice = fixture_value(&f, 2 * USED);
    fixture_op(&f, (struct halo_op){HALO_OP_MOE_ROUTE, .u.moe_route = {.logits = logits,
                                                                       .choice = choice,
                                                                       .n_expert = EXPERTS,
                                                                       .n_used = USED,
                                                                       .normalise = true,
                                                                       .scale = 1.5f,
                                                                       .gate = HALO_MOE_SQRT_SOFTPLUS,
                                                                       .bias = HALO_WEIGHT_NONE,
                                                                       .table = table}});
    open_plan(&f);
    int32_t tokens[ROWS];
    for (uint32_t r = 0; r < ROWS; r++)
        tokens[r] = token_at(r);
    fixture_run(&f, SEQUENCE, tokens, ROWS, 0, NULL);
    for (uint32_t r = 0; r < ROWS; r++) {
        float in[EXPERTS], is[2 * USED];
        double want[USED], sum = 0;
        fixture_peek(&f, logits, r, in);
        fixture_peek(&f, choice, r, is);
        assert_memory_equal(is + USED, table + (size_t)USED * (size_t)tokens[r], USED * sizeof(int32_t));
        for (uint32_t s = 0; s < USED; s++)
            sum += want[s] = sqrt(log1p(exp((double)in[table[USED * tokens[r] + (int32_t)s]])));
        for (uint32_t s = 0; s < USED; s++)
            want[s] *= 1.5 / sum;
        near(is, want, USED, 1e-6);
    }
    fixture_finish(&f);
}

#if defined(HALO_TEST_HIP)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_mixed_and_added),
        cmocka_unit_test(blocks_are_attended),
        cmocka_unit_test(every_batch_gives_the_same_bits),
        cmocka_unit_test(caches_of_every_type),
        cmocka_unit_test(a_sequence_begins_afresh),
        cmocka_unit_test(gate_and_up_are_limited),
        cmocka_unit_test(experts_by_token),
    };
    return compare_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
#else
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_mixed_and_added),     cmocka_unit_test(blocks_are_attended),
        cmocka_unit_test(every_batch_gives_the_same_bits), cmocka_unit_test(a_sequence_begins_afresh),
        cmocka_unit_test(gate_and_up_are_limited),         cmocka_unit_test(experts_by_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
