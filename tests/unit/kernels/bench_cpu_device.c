/* bench_cpu_device.c: prompt and decode speed of the CPU device on the shape of a model, and where the time goes.
 *
 *   bench_cpu_device [TYPE] [VARIANT] [THREADS] [PROMPT] [LAYERS] [CHUNK]
 *
 * TYPE is Q8_0 (default), Q4_0, Q4_K, Q5_K, Q6_K, F16, BF16 or F32. The shape is that of Qwen3-0.6B; weights are seeded
 * noise. Prints the best of five, the memory bandwidth measured in the same run, and the share of it that decoding
 * reaches. No pass or fail.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <cpu/cpu.h>

#include "cpu_fixture.h"

enum { D = 1024, HEADS = 16, HEADS_KV = 8, DIM = 128, FF = 3072, VOCAB = 151936, N_DECODE = 16, N_REPEAT = 5 };
enum { ROWS_MAX = 2048, CHUNK = 256 }; /* of a step; of a piece of the prompt unless an argument says otherwise */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum halo_type type_of(const char *name)
{
    for (uint32_t type = 0; type < HALO_TYPE_END; type++)
        if (halo_type_info(type).name && strcmp(halo_type_info(type).name, name) == 0)
            return (enum halo_type)type;
    fprintf(stderr, "no type is called %s\n", name);
    exit(1);
}

static uint32_t matrix(struct fixture *f, enum halo_type type, uint32_t n_cols, uint32_t n_rows)
{
    return fixture_weight(f, type, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 1.7 / sqrt(n_cols));
}

static uint32_t vector(struct fixture *f, uint32_t n)
{
    return fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, n, 1, 1, 1);
}

static void build(struct fixture *f, enum halo_type type, uint32_t n_layers, uint32_t n_context)
{
    fixture_init(f, VOCAB, ROWS_MAX, n_context);
    fixture_kv(f, HALO_KV_F16, n_layers, HEADS_KV, DIM, DIM);
    uint32_t rope = fixture_rope(f, HALO_ROPE_NEOX, DIM, 1, 1e6), table = matrix(f, type, D, VOCAB);
    uint16_t x = fixture_value(f, D), normed = fixture_value(f, D), add = fixture_value(f, D),
             q = fixture_value(f, HEADS * DIM);
    uint16_t k = fixture_value(f, HEADS_KV * DIM), v = fixture_value(f, HEADS_KV * DIM),
             mixed = fixture_value(f, HEADS * DIM);
    uint16_t gate = fixture_value(f, FF), up = fixture_value(f, FF);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, x, 1}});
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        uint32_t none = HALO_WEIGHT_NONE;
        fixture_rmsnorm(f, vector(f, D), x, layer ? add : HALO_NONE, normed);
        struct halo_op_matmul qkv = {
            normed,
            3,
            {matrix(f, type, D, HEADS * DIM), matrix(f, type, D, HEADS_KV * DIM), matrix(f, type, D, HEADS_KV * DIM)},
            {none, none, none},
            {q, k, v}};
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = qkv});
        struct halo_op_qk_norm norm = {q, k, vector(f, DIM), vector(f, DIM), HEADS, HEADS_KV, DIM, 1e-6f};
        fixture_op(f, (struct halo_op){.kind = HALO_OP_QK_NORM, .u.qk_norm = norm});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q, k, HEADS, HEADS_KV, DIM, rope}});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, layer}});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_ATTEND,
                                       .u.attend = {.q = q,
                                                    .out = mixed,
                                                    .kv_layer = layer,
                                                    .n_head = HEADS,
                                                    .scale = 0.0884f,
                                                    .sinks = HALO_WEIGHT_NONE}});
        struct halo_op_matmul o = {mixed, 1, {matrix(f, type, HEADS * DIM, D)}, {none}, {add}};
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = o});
        fixture_rmsnorm(f, vector(f, D), x, add, normed);
        struct halo_op_matmul in = {
            normed, 2, {matrix(f, type, D, FF), matrix(f, type, D, FF)}, {none, none}, {gate, up}};
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = in});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU}});
        struct halo_op_matmul down = {gate, 1, {matrix(f, type, FF, D)}, {none}, {add}};
        fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = down});
    }
    fixture_rmsnorm(f, vector(f, D), x, add, normed);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = table, .x = normed, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

/* Rows first_pos .. first_pos + n_rows - 1 of one sequence, logits (may be NULL) of the last. Returns seconds. */
static double step(struct fixture *f, uint32_t first_pos, uint32_t n_rows, float *logits)
{
    static int32_t token[ROWS_MAX], pos[ROWS_MAX];
    static uint32_t seq[ROWS_MAX];
    char reason[HALO_DEVICE_REASON];
    struct halo_batch_seq pages;
    uint32_t last = n_rows - 1;
    pages.pages[0] = fixture_pages(f, 1, &pages.n_pages);
    for (uint32_t r = 0; r < n_rows; r++) {
        token[r] = (int32_t)((first_pos + r) * 7919 % VOCAB);
        pos[r] = (int32_t)(first_pos + r);
    }
    struct halo_batch batch = {n_rows, token, pos, seq, 1, &pages, logits ? 1 : 0, &last, logits};
    double begin = now_s();
    if (f->device_ops->run(f->model, &batch, NULL, reason)) {
        fprintf(stderr, "%s\n", reason);
        exit(1);
    }
    return now_s() - begin;
}

static double prompt(struct fixture *f, uint32_t n, uint32_t chunk, float *logits)
{
    double sum = 0;
    for (uint32_t pos = 0; pos < n; pos += chunk)
        sum += step(f, pos, n - pos < chunk ? n - pos : chunk, pos + chunk < n ? NULL : logits);
    return sum;
}

/* The least time of each kind of op over the steps so far. */
struct profile {
    uint64_t before[HALO_OP_COUNT], least[HALO_OP_COUNT];
};

static void profile_begin(struct profile *p, const struct fixture *f)
{
    memset(p->least, 0xff, sizeof(p->least));
    halo_cpu_profile(f->model, p->before);
}

static void profile_step(struct profile *p, const struct fixture *f)
{
    uint64_t now[HALO_OP_COUNT];
    halo_cpu_profile(f->model, now);
    for (uint32_t i = 0; i < HALO_OP_COUNT; i++)
        if (now[i] - p->before[i] < p->least[i])
            p->least[i] = now[i] - p->before[i];
    memcpy(p->before, now, sizeof(now));
}

static void profile_print(const struct profile *p, const char *what, uint32_t n_tokens)
{
    double sum = 0;
    printf("%s, microseconds a token at best:", what);
    for (uint32_t i = 0; i < HALO_OP_COUNT; i++) {
        if (p->least[i] != 0)
            printf(" %s %.1f", halo_op_name((enum halo_op_kind)i), (double)p->least[i] * 1e-3 / n_tokens);
        sum += (double)p->least[i] * 1e-3 / n_tokens;
    }
    printf(": %.1f\n", sum);
}

int main(int argc, char **argv)
{
    enum halo_type type = type_of(argc > 1 ? argv[1] : "Q8_0");
    const char *variant = argc > 2 && strcmp(argv[2], "best") != 0 ? argv[2] : NULL;
    uint32_t n_threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0, n_prompt = argc > 4 ? (uint32_t)atoi(argv[4]) : 64;
    uint32_t chunk = argc > 6 ? (uint32_t)atoi(argv[6]) : CHUNK;
    static struct fixture f;
    struct halo_device_info info;
    struct profile profile;
    uint64_t weight_bytes = 0;
    float *logits = aligned_alloc(64, VOCAB * sizeof(float));
    if (chunk < 1 || chunk > ROWS_MAX) {
        fprintf(stderr, "a chunk has 1 to %d rows\n", ROWS_MAX);
        return 1;
    }
    build(&f, type, argc > 5 ? (uint32_t)atoi(argv[5]) : 28, n_prompt + N_DECODE);
    fixture_open(&f, variant, n_threads);
    for (uint32_t i = 0; i < f.plan.n_weights; i++)
        weight_bytes += f.weights[i].n_bytes;
    f.device_ops->describe(f.device, &info);
    printf("%s\n%s, %.0f MB of weights\n", info.detail, halo_type_info(type).name, (double)weight_bytes / 1e6);
    double best_prompt = INFINITY, best_decode = INFINITY, bandwidth = 0;
    prompt(&f, n_prompt, chunk, logits);
    profile_begin(&profile, &f);
    for (uint32_t i = 0; i < N_REPEAT; i++) {
        bandwidth = fmax(bandwidth, f.device_ops->measure_bandwidth(f.device));
        best_prompt = fmin(best_prompt, prompt(&f, n_prompt, chunk, logits));
        profile_step(&profile, &f);
    }
    profile_print(&profile, "prompt", n_prompt);
    profile_begin(&profile, &f);
    for (uint32_t i = 0; i < N_REPEAT * N_DECODE; i++) {
        best_decode = fmin(best_decode, step(&f, n_prompt + i % N_DECODE, 1, logits));
        profile_step(&profile, &f);
    }
    profile_print(&profile, "decode", 1);
    printf("prompt of %u: %.1f tok/s; decode: %.1f tok/s, %.1f GB/s of %.1f GB/s measured: %.0f %%\n", n_prompt,
           n_prompt / best_prompt, 1 / best_decode, (double)weight_bytes / best_decode / 1e9, bandwidth / 1e9,
           100 * (double)weight_bytes / best_decode / bandwidth);
    free(logits);
    fixture_finish(&f);
    return 0;
}
