/* predict.c: what the cycle model (cycles.h) says about the gemm, gemv and attention kernels of a code object, as
 * Markdown.
 *
 *   isa_predict [-l PERCENT] [-c LINES] [-b BYTES] [-f CLOCKS] [-g] [-r ROWS] [PREFIX]...
 *
 * Of $HALO_ISA_OBJECT's kernels whose names begin so, default all. Options change what is assumed: -l scales the
 * latencies of LDS and caches, -c is the size of L0, -b what the L2 gives a WGP in a clock, -f the latency of what L0
 * does not have. -g: gemm has a GLU in its epilogue. -r: a tile of gemm has so many rows of x.
 *
 * One block of each kernel is executed, whole tiles of it: of gemm with PRODUCT_COLS columns, of prefill the last rows
 * of PROMPT positions, of attend and latent_tiles one row over so many. Then the model replays it for as many blocks as
 * a WGP holds. With a PREFIX a second table follows: decode attention behind 8192, 32768 and 131072 positions with the
 * splits of a launch, as times of the bytes at 215 GB/s, and what the positions between them cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <kernels/op.h>

#include "cycles.h"
#include "gfx_fixture.h"
#include "isa.h"

enum { PRODUCT_COLS = 2048, PROMPT = 2048, ROUNDS = 4, PAGE = 32, PUBLISHED_THREADS = 256, DEVICE_PAGE = 4096 };

static struct isa_module *module;
static struct isa_machine machine;
static char **prefixes;
static int n_prefixes;
static uint32_t n_seen;
static bool has_glu;
static uint32_t tile_rows = HALO_GEMM_ROWS; /* that a tile of gemm has */

static bool is_wanted(const char *kernel)
{
    bool is = n_prefixes == 0;
    for (int i = 0; i < n_prefixes && !is; i++)
        is = strncmp(kernel, prefixes[i], strlen(prefixes[i])) == 0;
    return is && isa_find(module, kernel);
}

/* Executes block 0; isa_cycles() replays it then. */
static struct isa_kernel *record(const char *name, const void *args, size_t n)
{
    const struct isa_options options = {.order = ISA_IN_ORDER, .record = 1};
    struct halo_fault fault = {0};
    struct isa_kernel *k = isa_find(module, name);
    const uint32_t threads = isa_block(k) > 0 ? isa_block(k) : PUBLISHED_THREADS; /* which come without metadata */
    const int r = isa_launch(k, (uint32_t[]){1, 1, 1}, threads, args, n, &options, &fault);
    for (size_t i = 0; i < isa_n_findings(); i++)
        if (r < 0 || isa_finding_at(i)->kind < ISA_N_DEFECTS)
            fail_msg("%s: %s: %s", name, isa_kind_name(isa_finding_at(i)->kind), isa_finding_at(i)->text);
    if (r < 0)
        fail_msg("%s: %s", name, fault.text);
    return k;
}

/* Bytes a clock of a WGP at 215 GB/s. */
static double memory_rate(void)
{
    return 215e3 / machine.mhz / machine.n_wgps;
}

/* Executes block 0 and prints its row: `flops` are those that are asked for, `bytes` what must come from memory. */
static void predict(const char *name, const void *args, size_t n, double flops, double bytes)
{
    struct isa_cycles c;
    record(name, args, n);
    assert_int_equal(isa_cycles(&machine, 0, ROUNDS, &c), 0);
    const double clocks = (double)c.clocks / c.n_blocks; /* of the WGP for a block */
    const double peak = 2.0 * 16 * 16 * 16 / machine.wmma_clocks * machine.n_simds;
    printf("| %s | %u | %.0f | ", name, c.n_resident, clocks);
    if (c.n_wmma > 0)
        printf("%.0f %% | ", 100 * flops / clocks / peak);
    else
        printf("| ");
    printf("%.0f %% | %.0f %% | %.0f %% | %.0f %% | %.1f | %.0f %% | %.1f | %s |\n",
           100 * isa_busy(&machine, &c, ISA_UNIT_WMMA), 100 * isa_busy(&machine, &c, ISA_UNIT_VALU),
           100 * isa_busy(&machine, &c, ISA_UNIT_LDS), 100 * isa_busy(&machine, &c, ISA_UNIT_L0),
           c.lds_least > 0 ? (double)c.lds_passes / (double)c.lds_least : 0, 100 * isa_busy(&machine, &c, ISA_UNIT_FAR),
           bytes / clocks / memory_rate(), isa_limit(&machine, &c));
    n_seen++;
}

/* Zeros at a page's begin, as memory of a device is: what shares a line of a cache is the same in every run. */
static void *place(size_t n)
{
    const size_t bytes = (n + DEVICE_PAGE - 1) / DEVICE_PAGE * DEVICE_PAGE;
    void *p = aligned_alloc(DEVICE_PAGE, bytes);
    assert_non_null(p);
    memset(p, 0, bytes);
    isa_add(p, bytes); /* free() removes it (host.c) */
    return p;
}

/* ---- products ---- */

struct product {
    float *out, *scale;
    uint16_t *half;
    uint8_t *weight;
};

static struct product product_make(uint32_t type, uint32_t n_rows)
{
    const size_t weight_bytes = halo_hip_weight_bytes(type, PRODUCT_COLS, HALO_GEMM_COLS);
    struct product p = {.out = place((size_t)n_rows * HALO_GEMM_COLS * sizeof(float)),
                        .scale = place(n_rows * sizeof(float)),
                        .half = place((size_t)n_rows * PRODUCT_COLS * sizeof(uint16_t)),
                        .weight = place(weight_bytes)};
    uint32_t seed = type; /* indices of code books: which banks of LDS they meet in depends on them */
    for (size_t i = 0; halo_hip_planes(type) && i < weight_bytes; i++)
        p.weight[i] = (uint8_t)gfx_random(&seed);
    return p;
}

/* Half of the rows of `out` in f16, and the shifts behind them; nothing without -g. */
static struct halo_glu_arg glu_of(const struct product *p, uint32_t n_rows)
{
    uint8_t *shift = (uint8_t *)p->out + (size_t)n_rows * HALO_GEMM_COLS / 2 * sizeof(uint16_t);
    return has_glu ? (struct halo_glu_arg){(uint16_t *)p->out, shift, HALO_GLU_SILU, 0} : (struct halo_glu_arg){0};
}

static void product_free(struct product *p)
{
    free(p->out);
    free(p->scale);
    free(p->half);
    free(p->weight);
}

/* One row of x and HALO_GEMM_COLS weight rows, all of a block, which is persistent. */
static void gemv(const struct gfx_type *type)
{
    char name[40];
    snprintf(name, sizeof(name), "gemv_%s_x1", type->name);
    if (!is_wanted(name))
        return;
    struct product p = product_make(type->type, 2);
    struct halo_gemv_args args = {.matrix[0] = {p.weight, NULL, p.out, HALO_GEMM_COLS, HALO_GEMM_COLS},
                                  .x = p.half, /* zeros in either form */
                                  .n_matrices = 1,
                                  .n_cols = PRODUCT_COLS,
                                  .n_rows = 1,
                                  .n_blocks = HALO_GEMM_COLS / HALO_GEMV_ROWS(type->block == 1, 1),
                                  .n_grid = 1};
    predict(name, &args, sizeof(args), 0, (double)halo_hip_weight_bytes(type->type, PRODUCT_COLS, HALO_GEMM_COLS));
    product_free(&p);
}

/* ---- products with the op behind them ---- */

/* The weights of a launch of n_weights matrices of HALO_GEMM_COLS rows in all, and what its blocks read and leave. */
struct fusion {
    struct product p;
    const uint8_t *second; /* half of the rows */
    uint8_t *act;
    float *x, *squares;
    double bytes;
};

static struct fusion fusion_make(const struct gfx_type *type)
{
    struct fusion f = {.p = product_make(type->type, 2),
                       .act = place(halo_hip_act_bytes(HALO_GEMM_COLS)),
                       .x = place(PRODUCT_COLS * sizeof(float)),
                       .squares = place(PRODUCT_COLS / HALO_HIP_UNIT * sizeof(float)),
                       .bytes = (double)halo_hip_weight_bytes(type->type, PRODUCT_COLS, HALO_GEMM_COLS)};
    f.second = f.p.weight + (size_t)HALO_GEMM_COLS / 2 * halo_hip_row_layout(type->type, PRODUCT_COLS).stride;
    return f;
}

static void fusion_free(struct fusion *f)
{
    product_free(&f->p);
    free(f->act);
    free(f->x);
    free(f->squares);
}

static void gemv_norm(const struct gfx_type *type, const char *name)
{
    struct fusion f = fusion_make(type);
    struct halo_gemv_norm_args args = {.weight = f.p.weight,
                                       .in = f.p.half,
                                       .x = f.x,
                                       .act = f.act,
                                       .squares = f.squares,
                                       .n_cols = PRODUCT_COLS,
                                       .n_rows = HALO_GEMM_COLS,
                                       .n_units = HALO_GEMM_COLS / HALO_HIP_UNIT,
                                       .n_grid = 1,
                                       .add_scale = 1,
                                       .x_scale = 1};
    predict(name, &args, sizeof(args), 0, f.bytes);
    fusion_free(&f);
}

static void gemv_glu(const struct gfx_type *type, const char *name)
{
    struct fusion f = fusion_make(type);
    struct halo_gemv_glu_args args = {.gate = f.p.weight,
                                      .up = f.second,
                                      .in = f.p.half,
                                      .factor = {f.squares, PRODUCT_COLS / HALO_HIP_UNIT, 1e-6f},
                                      .act = f.act,
                                      .n_cols = PRODUCT_COLS,
                                      .n_rows = HALO_GEMM_COLS / 2,
                                      .n_units = HALO_GEMM_COLS / 2 / HALO_HIP_UNIT,
                                      .n_grid = 1};
    predict(name, &args, sizeof(args), 0, f.bytes);
    fusion_free(&f);
}

static void gemv_scaled(const struct gfx_type *type, const char *name)
{
    struct fusion f = fusion_make(type);
    struct halo_gemv_scaled_args args = {
        .gemv = {.matrix[0] = {f.p.weight, NULL, f.p.out, HALO_GEMM_COLS, HALO_GEMM_COLS},
                 .x = f.p.half,
                 .n_matrices = 1,
                 .n_cols = PRODUCT_COLS,
                 .n_rows = 1,
                 .n_blocks = HALO_GEMM_COLS / HALO_GEMV_ROWS(false, 1),
                 .n_grid = 1},
        .factor = {f.squares, PRODUCT_COLS / HALO_HIP_UNIT, 1e-6f},
        .n_cols = PRODUCT_COLS,
        .n_grid = 1};
    predict(name, &args, sizeof(args), 0, f.bytes);
    fusion_free(&f);
}

static void moe_gemv_glu(const struct gfx_type *type, const char *name)
{
    struct fusion f = fusion_make(type);
    struct halo_moe_gemv_glu_args args = {.matrix = {f.p.weight, 0, f.p.out, NULL, HALO_GEMM_COLS, HALO_GEMM_COLS},
                                          .gate = f.x,
                                          .up = f.x,
                                          .n_cols = PRODUCT_COLS,
                                          .n_used = 1,
                                          .n_slot_blocks = HALO_GEMM_COLS / HALO_MOE_GEMV_ROWS(false, PRODUCT_COLS),
                                          .n_grid = 1};
    predict(name, &args, sizeof(args), 0, f.bytes);
    fusion_free(&f);
}

static void fusions(const struct gfx_type *type)
{
    static const struct {
        const char *prefix;
        void (*run)(const struct gfx_type *type, const char *name);
    } all[] = {
        {"gemv_scaled", gemv_scaled}, {"gemv_norm", gemv_norm}, {"gemv_glu", gemv_glu}, {"moe_gemv_glu", moe_gemv_glu}};
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char name[40];
        snprintf(name, sizeof(name), "%s_%s", all[i].prefix, type->name);
        if (is_wanted(name))
            all[i].run(type, name);
    }
}

static double flops_of(uint32_t n_rows)
{
    return 2.0 * n_rows * HALO_GEMM_COLS * PRODUCT_COLS;
}

static void gemm(const struct gfx_type *type)
{
    char name[40];
    const uint32_t n_rows = tile_rows;
    snprintf(name, sizeof(name), "gemm_%s", type->name);
    if (!is_wanted(name))
        return;
    struct product p = product_make(type->type, n_rows);
    const uint32_t n_weight_rows = has_glu ? HALO_GEMM_COLS / 2 : HALO_GEMM_COLS;
    const uint32_t stride = halo_hip_row_layout(type->type, PRODUCT_COLS).stride;
    struct halo_gemm_args args = {
        .matrix[0] = {p.weight, NULL, p.out, n_weight_rows, HALO_GEMM_COLS},
        .matrix[1] = {.weight = p.weight + n_weight_rows * stride, .n_rows = has_glu ? n_weight_rows : 0},
        .glu = glu_of(&p, n_rows),
        .half = p.half,
        .scale = p.scale,
        .n_cols = PRODUCT_COLS,
        .n_rows = n_rows};
    predict(name, &args, sizeof(args), flops_of(n_rows), 0);
    product_free(&p);
}

static void moe_gemm(const struct gfx_type *type)
{
    char name[40];
    const uint32_t n_rows = tile_rows;
    snprintf(name, sizeof(name), "moe_gemm_%s", type->name);
    if (!is_wanted(name))
        return;
    struct product p = product_make(type->type, n_rows);
    uint32_t *slot = place(n_rows * sizeof(*slot));
    for (uint32_t i = 0; i < n_rows; i++)
        slot[i] = i;
    struct halo_moe_tile tile = {0, 0, n_rows};
    const uint32_t n_weight_rows = has_glu ? HALO_GEMM_COLS / 2 : HALO_GEMM_COLS;
    const uint32_t stride = halo_hip_row_layout(type->type, PRODUCT_COLS).stride;
    struct halo_moe_gemm_args args = {
        .matrix[0] = {p.weight, 0, p.out, NULL, n_weight_rows, HALO_GEMM_COLS},
        .matrix[1] = {.weight = p.weight + n_weight_rows * stride, .n_rows = has_glu ? n_weight_rows : 0},
        .glu = glu_of(&p, n_rows),
        .half = p.half,
        .scale = p.scale,
        .slot = slot,
        .tile = &tile,
        .n_cols = PRODUCT_COLS,
        .n_used = 1,
        .per_slot = 1};
    predict(name, &args, sizeof(args), flops_of(n_rows), 0);
    free(slot);
    product_free(&p);
}

/* 128 x 256 outputs (published.s). */
static void published_dense(void)
{
    enum { ROWS = 128, COLS = 256 };
    if (!is_wanted("dense"))
        return;
    uint16_t *a = place(ROWS * PRODUCT_COLS * sizeof(*a)), *b = place(COLS * PRODUCT_COLS * sizeof(*b));
    float *out = place(ROWS * COLS * sizeof(*out));
    const void *args[] = {a, b, out};
    predict("dense", args, sizeof(args), 2.0 * ROWS * COLS * PRODUCT_COLS, 0);
    free(a);
    free(b);
    free(out);
}

/* ---- attention ---- */

enum { N_CACHES = 4 };
static const struct {
    const char *name;
    uint32_t type;
} caches[N_CACHES] = {{"f32", HALO_KV_F32}, {"f16", HALO_KV_F16}, {"q8", HALO_KV_Q8}, {"q4", HALO_KV_Q4}};

struct cache {
    struct halo_kv_arg kv;
    int32_t *pos;
    uint32_t *first, *pages;
};

/* n_pos positions of one kv head; the last n_rows of them are rows of the batch. dim_v 0: a latent cache. */
static struct cache cache_make(uint32_t type, uint32_t dim_k, uint32_t dim_v, uint32_t n_rows, uint32_t n_pos)
{
    const uint32_t n_pages = n_pos / PAGE;
    struct cache c = {.pos = place(n_rows * sizeof(*c.pos)),
                      .first = place(n_rows * sizeof(*c.first)),
                      .pages = place(n_pages * sizeof(*c.pages))};
    for (uint32_t i = 0; i < n_rows; i++)
        c.pos[i] = (int32_t)(n_pos - n_rows + i);
    for (uint32_t i = 0; i < n_pages; i++)
        c.pages[i] = i;
    c.kv = (struct halo_kv_arg){.pos = c.pos,
                                .page_first = c.first,
                                .pages = c.pages,
                                .page_bytes = halo_hip_kv_layer_page_bytes(type, 1, dim_k, dim_v),
                                .n_head_kv = 1,
                                .head_dim_k = dim_k,
                                .head_dim_v = dim_v ? dim_v : HALO_LATENT_DIM_V};
    c.kv.base = place(c.kv.page_bytes * n_pages);
    return c;
}

static void cache_free(struct cache *c)
{
    free(c->pos);
    free(c->first);
    free(c->pages);
    free(c->kv.base);
}

static void prefill(const char *type_name, uint32_t type, uint32_t dim)
{
    char name[40];
    const uint32_t n_rows = HALO_PREFILL_ROWS / HALO_PREFILL_BLOCKS(dim);
    snprintf(name, sizeof(name), "prefill_%s_d%u", type_name, dim);
    if (!is_wanted(name))
        return;
    struct cache c = cache_make(type, dim, dim, n_rows, PROMPT);
    const struct halo_prefill_tile tile = {0, n_rows};
    float *q = place(n_rows * dim * sizeof(*q)), *out = place((size_t)n_rows * dim * sizeof(*out));
    struct halo_prefill_args args = {.kv = c.kv, .tile = &tile, .q = q, .out = out, .score.scale = 1, .n_head = 1};
    predict(name, &args, sizeof(args), 4.0 * n_rows * dim * PROMPT, 0);
    cache_free(&c);
    free(q);
    free(out);
}

/* What a block of decode attention needs, for all heads of one kv head. */
struct decode {
    struct cache cache;
    float *q, *out, *partial;
    uint32_t *counter;
    struct halo_attend_args args;
};

static struct decode decode_make(struct cache cache, uint32_t n_head, uint32_t n_splits)
{
    const uint32_t dim_v = cache.kv.head_dim_v;
    struct decode d = {.cache = cache,
                       .q = place(n_head * cache.kv.head_dim_k * sizeof(float)),
                       .out = place((size_t)n_head * dim_v * sizeof(float)),
                       .partial = place((size_t)n_head * n_splits * HALO_PARTIAL_STRIDE(dim_v) * sizeof(float)),
                       .counter = place(sizeof(uint32_t))};
    d.args = (struct halo_attend_args){.kv = cache.kv,
                                       .q = d.q,
                                       .out = d.out,
                                       .partial = d.partial,
                                       .counter = d.counter,
                                       .score.scale = 1,
                                       .n_head = n_head,
                                       .n_splits = n_splits,
                                       .n_parts = 1};
    return d;
}

static void decode_free(struct decode *d)
{
    cache_free(&d->cache);
    free(d->q);
    free(d->out);
    free(d->partial);
    free(d->counter);
}

static void attend(const char *type_name, uint32_t type, uint32_t dim, uint32_t n_head)
{
    char name[40];
    snprintf(name, sizeof(name), "attend_%s_g%u_d%u", type_name, n_head, dim);
    if (!is_wanted(name))
        return;
    struct decode d = decode_make(cache_make(type, dim, dim, 1, PROMPT), n_head, 1);
    predict(name, &d.args, sizeof(d.args), 0, (double)d.cache.kv.page_bytes * (PROMPT / PAGE));
    decode_free(&d);
}

/* A row of 32 heads: of a prompt, whose share of the peak counts, and in decode, whose share of 215 GB/s does. */
static void latent(const char *type_name, uint32_t type)
{
    char name[40];
    snprintf(name, sizeof(name), "latent_tiles_%s", type_name);
    if (!is_wanted(name))
        return;
    const struct halo_prefill_tile tile = {0, 1};
    struct decode d = decode_make(cache_make(type, HALO_LATENT_DIM_K, 0, 1, PROMPT), HALO_LATENT_QUERIES, 1);
    d.args.tile = &tile;
    predict(name, &d.args, sizeof(d.args), 2.0 * HALO_LATENT_QUERIES * (HALO_LATENT_DIM_K + HALO_LATENT_DIM_V) * PROMPT,
            (double)d.cache.kv.page_bytes * (PROMPT / PAGE));
    decode_free(&d);
}

/* ---- decode attention by depth ---- */

/* Blocks of a WGP: those that op_attend.c wants. */
enum { BLOCKS_WANTED = 8 };

struct depth {
    double clocks, bytes; /* of a WGP for its share of a launch */
    struct isa_cycles cycles;
};

/* One row behind `n_pos` positions whose kv heads and splits fill the GPU; dim HALO_LATENT_DIM_K: of a latent cache. */
static struct depth depth_of(const char *name, uint32_t type, uint32_t dim, uint32_t n_head, uint32_t n_kv,
                             uint32_t n_pos)
{
    struct isa_kernel *kernel = isa_find(module, name);
    const uint32_t resident = isa_resident(&machine, kernel, isa_block(kernel) / 32),
                   n = resident < BLOCKS_WANTED ? resident : BLOCKS_WANTED;
    uint32_t n_splits = n * machine.n_wgps / n_kv;
    n_splits = n_splits < HALO_SPLITS_MAX ? n_splits : HALO_SPLITS_MAX;
    const uint32_t dim_v = dim == HALO_LATENT_DIM_K ? 0 : dim;
    struct decode d = decode_make(cache_make(type, dim, dim_v, 1, n_pos), n_head, n_splits);
    struct depth ret = {0};
    record(name, &d.args, sizeof(d.args));
    const uint32_t n_blocks = HALO_HIP_CEIL(n_splits * n_kv, machine.n_wgps);
    assert_int_equal(isa_cycles(&machine, n_blocks, 1, &ret.cycles), 0);
    ret.clocks = (double)ret.cycles.clocks;
    ret.bytes = (double)d.cache.kv.page_bytes * HALO_HIP_CEIL(n_pos / PAGE, n_splits) * n_blocks;
    decode_free(&d);
    return ret;
}

static void depth(const char *name, uint32_t type, uint32_t dim, uint32_t n_head, uint32_t n_kv)
{
    static const uint32_t n_pos[] = {8192, 32768, 131072};
    struct depth at[3];
    if (!is_wanted(name))
        return;
    const double rate = memory_rate();
    for (uint32_t i = 0; i < 3; i++)
        at[i] = depth_of(name, type, dim, n_head, n_kv, n_pos[i]);
    printf("| %s | %u | %u | %u | ", name, dim, n_kv, at[2].cycles.n_resident);
    for (uint32_t i = 0; i < 3; i++)
        printf("%.2f | ", at[i].clocks * rate / at[i].bytes);
    printf("%.2f | %s |\n", (at[2].clocks - at[0].clocks) * rate / (at[2].bytes - at[0].bytes),
           isa_limit(&machine, &at[2].cycles));
}

static void depths(void)
{
    static const struct {
        uint32_t dim, n_head, n_kv;
    } shapes[] = {{64, 8, 8}, {128, 4, 8}, {128, 8, 4}, {256, 4, 4}, {256, 8, 2}, {512, 4, 4}};
    char name[40];
    printf("\n| kernel | elements | kv heads | blocks | at 8192 | at 32768 | at 131072 | a position | limit "
           "|\n|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < N_CACHES; i++)
        for (uint32_t j = 0; j < sizeof(shapes) / sizeof(shapes[0]); j++) {
            const uint32_t dim = shapes[j].dim;
            snprintf(name, sizeof(name), "attend_%s_g%u_d%u", caches[i].name, shapes[j].n_head, dim < 128 ? 128 : dim);
            depth(name, caches[i].type, dim, shapes[j].n_head, shapes[j].n_kv);
        }
    for (uint32_t i = 1; i < N_CACHES - 1; i++) { /* f32 takes another kernel */
        snprintf(name, sizeof(name), "latent_tiles_%s", caches[i].name);
        depth(name, caches[i].type, HALO_LATENT_DIM_K, HALO_LATENT_QUERIES, 1);
    }
}

static void table(void **state)
{
    (void)state;
    printf("| kernel | blocks | clocks | of the peak | matrix | VALU | LDS | L0 | bank passes | L2 | of 215 GB/s | "
           "limit |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    published_dense();
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        gemm(&gfx_types[t]);
        moe_gemm(&gfx_types[t]);
        gemv(&gfx_types[t]);
        fusions(&gfx_types[t]);
    }
    for (uint32_t i = 0; i < N_CACHES; i++)
        for (uint32_t dim = 128; dim <= 512; dim *= 2)
            prefill(caches[i].name, caches[i].type, dim);
    for (uint32_t i = 0; i < N_CACHES; i++)
        for (uint32_t dim = 128; dim <= 512; dim *= 2)
            for (uint32_t n = 1; n <= 8; n = n == 1 ? 4 : 2 * n)
                attend(caches[i].name, caches[i].type, dim, n);
    for (uint32_t i = 0; i < N_CACHES - 1; i++)
        latent(caches[i].name, caches[i].type);
    if (n_prefixes > 0)
        depths();
    assert_true(n_seen > 0);
}

static bool set(int option, uint32_t n)
{
    if (option == 'l') {
        machine.lds_latency = machine.lds_latency * n / 100;
        machine.l0_latency = machine.l0_latency * n / 100;
        machine.far_latency = machine.far_latency * n / 100;
    } else if (option == 'c' && n <= 4096) {
        machine.l0_lines = n;
    } else if (option == 'b') {
        machine.far_bytes = n;
    } else if (option == 'f') {
        machine.far_latency = n;
    } else if (option == 'r' && n <= HALO_GEMM_ROWS) {
        tile_rows = n;
    } else {
        return false;
    }
    return n > 0;
}

int main(int argc, char **argv)
{
    const char *path = getenv("HALO_ISA_OBJECT");
    struct halo_fault fault = {0};
    machine = isa_gfx1151;
    for (int option; (option = getopt(argc, argv, "l:c:b:f:r:g")) != -1;)
        if (option == 'g') {
            has_glu = true;
        } else if (!set(option, (uint32_t)atoi(optarg))) {
            fprintf(stderr, "isa_predict: -l PERCENT, -c LINES (at most 4096), -b BYTES, -f CLOCKS and -r ROWS (at "
                            "most 128) take numbers above 0\n");
            return 2;
        }
    if (!path || isa_open(path, &module, &fault) < 0) {
        fprintf(stderr, "isa_predict: %s\n", path ? fault.text : "HALO_ISA_OBJECT names no code object");
        return 2;
    }
    prefixes = argv + optind;
    n_prefixes = argc - optind;
    const struct CMUnitTest tests[] = {cmocka_unit_test(table)};
    return cmocka_run_group_tests_name("predict", tests, NULL, NULL);
}
