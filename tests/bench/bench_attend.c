/* bench_attend.c: what attention on the HIP device costs behind a long context.
 *
 *   bench_attend KV HEADS KV_HEADS DIM DEPTH [LAYERS] [KERNEL_DIR...]
 *   bench_attend prompt ROWS KV HEADS KV_HEADS DIM DEPTH [LAYERS] [KERNEL_DIR...]
 *
 * A plan of LAYERS (default 12) layers with a cache of type KV (f32, f16, q8 or q4). Decode: norm and rotation of the
 * heads, the new entry, attention, as a model has them. Runs one row behind 31 positions and one behind DEPTH and
 * prints what a layer of each takes, and the difference beside the bytes of the cache over the copy bandwidth of the
 * same process. Prompt: attention alone, of ROWS rows behind DEPTH positions (0: of none); prints what a layer takes
 * and the products of q with K and of scores with V, hidden ones left out, as TFLOPS. The cache holds what memory held.
 * $HALO_HIP_LIB names the runtime; the rest is in bench_plan.h. No pass or fail.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_plan.h"

enum { LAYERS_MAX = 32, SHALLOW = 31, PROMPT_MAX = 4096 };

struct shape {
    enum halo_kv_type kv;
    uint32_t n_head, n_head_kv, dim, depth, n_layers;
    uint32_t prompt; /* rows; 0: decode */
};

static enum halo_kv_type kv_type(const char *name)
{
    static const char *const names[] = {
        [HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8", [HALO_KV_Q4] = "q4"};
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return (enum halo_kv_type)i;
    fprintf(stderr, "no cache has the type %s\n", name);
    exit(2);
}

static uint16_t attend(struct fixture *f, const struct shape *s, uint32_t layer, uint16_t q)
{
    uint16_t out = fixture_value(f, s->n_head * s->dim);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ATTEND,
                                   .u.attend = {.q = q,
                                                .out = out,
                                                .kv_layer = layer,
                                                .n_head = s->n_head,
                                                .scale = (float)(1 / sqrt(s->dim)),
                                                .sinks = HALO_WEIGHT_NONE}});
    return out;
}

/* Attention of a prompt. Returns the result of the last layer. */
static uint16_t build_prompt(struct fixture *f, const struct shape *s)
{
    uint16_t out = HALO_NONE;
    bench_init(f);
    f->plan.max_rows = s->prompt;
    f->plan.n_context = s->depth + s->prompt;
    fixture_kv(f, s->kv, s->n_layers, s->n_head_kv, s->dim, s->dim);
    uint16_t q = fixture_input(f, s->n_head * s->dim, 1);
    for (uint32_t i = 0; i < s->n_layers; i++)
        out = attend(f, s, i, q);
    return out;
}

/* Decode. Returns the result of the last layer. */
static uint16_t build(struct fixture *f, const struct shape *s)
{
    uint16_t q[LAYERS_MAX], k[LAYERS_MAX], v[LAYERS_MAX], out = HALO_NONE;
    bench_init(f);
    f->plan.n_context = s->depth + 64;
    fixture_kv(f, s->kv, s->n_layers, s->n_head_kv, s->dim, s->dim);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        q[i] = fixture_input(f, s->n_head * s->dim, 1);
        k[i] = fixture_input(f, s->n_head_kv * s->dim, 1);
        v[i] = fixture_input(f, s->n_head_kv * s->dim, 1);
    }
    uint32_t weight = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, s->dim, 1, 1, 1),
             rope = fixture_rope(f, HALO_ROPE_NEOX, s->dim, 1, 10000);
    for (uint32_t i = 0; i < s->n_layers; i++) {
        fixture_op(f,
                   (struct halo_op){.kind = HALO_OP_QK_NORM,
                                    .u.qk_norm = {q[i], k[i], weight, weight, s->n_head, s->n_head_kv, s->dim, 1e-6f}});
        fixture_op(
            f, (struct halo_op){.kind = HALO_OP_ROPE, .u.rope = {q[i], k[i], s->n_head, s->n_head_kv, s->dim, rope}});
        fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k[i], v[i], i, 0}});
        out = attend(f, s, i, q[i]);
    }
    return out;
}

static void measure_prompt(struct fixture *f, const struct shape *s, const char *name, uint16_t out)
{
    const char *dir = getenv("HALO_KERNEL_DIR");
    double best;
    fixture_open(f, NULL, 1);
    double layer = bench_time(f, out, s->prompt, (int32_t)s->depth, &best) / s->n_layers,
           flop = 4.0 * s->n_head * s->dim * s->prompt * (s->depth + (s->prompt + 1) / 2.0);
    printf("%s %u over %u of %u: %u rows behind %u, a layer %.3f ms (best %.3f), %.1f TFLOPS%s%s\n", name, s->n_head,
           s->n_head_kv, s->dim, s->prompt, s->depth, layer * 1e3, best / s->n_layers * 1e3, flop / layer * 1e-12,
           dir ? "  " : "", dir ? dir : "");
    fixture_close(f);
}

static void measure(struct fixture *f, const struct shape *s, const char *name, uint16_t out)
{
    const char *dir = getenv("HALO_KERNEL_DIR");
    double best;
    fixture_open(f, NULL, 1);
    double shallow = bench_time(f, out, 1, SHALLOW, &best), deep = bench_time(f, out, 1, (int32_t)s->depth, &best);
    double bytes =
               (double)halo_kv_page_bytes(&f->plan.kv[0]) / s->n_layers / HALO_KV_PAGE_TOKENS * (s->depth - SHALLOW),
           copy = f->device_ops->measure_bandwidth(f->device), wanted = bytes / copy,
           more = (deep - shallow) / s->n_layers;
    printf("%s %u over %u of %u: a layer behind %d %.2f us, behind %u %.2f us; +%.2f us, %.2f times the bytes at %.0f "
           "GB/s%s%s\n",
           name, s->n_head, s->n_head_kv, s->dim, SHALLOW, shallow / s->n_layers * 1e6, s->depth,
           deep / s->n_layers * 1e6, more * 1e6, more / wanted, copy * 1e-9, dir ? "  " : "", dir ? dir : "");
    fixture_close(f);
}

int main(int argc, char **argv)
{
    static struct fixture f;
    bool prompt = argc > 1 && strcmp(argv[1], "prompt") == 0;
    int at = prompt ? 3 : 1; /* of KV */
    if (argc < at + 5) {
        fprintf(stderr, "usage: bench_attend [prompt ROWS] KV HEADS KV_HEADS DIM DEPTH [LAYERS] [KERNEL_DIR...]\n");
        return 2;
    }
    const struct shape s = {
        .kv = kv_type(argv[at]),
        .n_head = bench_number(argc, argv, at + 1, 0, 1024),
        .n_head_kv = bench_number(argc, argv, at + 2, 0, 1024),
        .dim = bench_number(argc, argv, at + 3, 0, 512),
        .depth = prompt && strcmp(argv[at + 4], "0") == 0 ? 0 : bench_number(argc, argv, at + 4, 0, 1u << 20),
        .n_layers = bench_number(argc, argv, at + 5, 12, LAYERS_MAX),
        .prompt = prompt ? bench_number(argc, argv, 2, 0, PROMPT_MAX) : 0};
    void (*run)(struct fixture *, const struct shape *, const char *, uint16_t) = prompt ? measure_prompt : measure;
    char **dirs = argv + (argc < at + 6 ? argc : at + 6);
    uint16_t out = prompt ? build_prompt(&f, &s) : build(&f, &s);
    if (!*dirs)
        run(&f, &s, argv[at], out);
    for (; *dirs; dirs++) {
        setenv("HALO_KERNEL_DIR", *dirs, 1);
        run(&f, &s, argv[at], out);
    }
    fixture_finish(&f);
    return 0;
}
