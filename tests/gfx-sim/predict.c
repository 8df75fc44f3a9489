/* predict.c: what the cycle model (cycles.h) says about the gemm and attention kernels of a code object, as Markdown.
 *
 *   isa_predict [-l PERCENT] [-c LINES] [-b BYTES] [PREFIX]...
 *
 * Of $HALO_ISA_OBJECT's kernels whose names begin so, default all. Options change what is assumed: -l scales the
 * latencies of LDS and caches, -c is the size of L0, -b what the L2 gives a WGP in a clock.
 *
 * One block of each kernel is executed, whole tiles of it: of gemm with PRODUCT_COLS columns, of prefill the last rows
 * of PROMPT positions, of attend one row over so many. Then the model replays it for as many blocks as a WGP holds.
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

#include "cycles.h"
#include "gfx_fixture.h"
#include "isa.h"

enum { PRODUCT_COLS = 2048, PROMPT = 2048, ROUNDS = 4, PAGE = 32, PUBLISHED_THREADS = 256, DEVICE_PAGE = 4096 };

static struct isa_module *module;
static struct isa_machine machine;
static char **prefixes;
static int n_prefixes;
static uint32_t n_seen;

static bool is_wanted(const char *kernel)
{
    bool is = n_prefixes == 0;
    for (int i = 0; i < n_prefixes && !is; i++)
        is = strncmp(kernel, prefixes[i], strlen(prefixes[i])) == 0;
    return is && isa_find(module, kernel);
}

/* Executes block 0 and prints its row: `flops` are those that are asked for, `bytes` what must come from memory. */
static void predict(const char *name, const void *args, size_t n, double flops, double bytes)
{
    const struct isa_options options = {.order = ISA_IN_ORDER, .record = 1};
    struct halo_fault fault = {0};
    struct isa_cycles c;
    struct isa_kernel *k = isa_find(module, name);
    const uint32_t threads = isa_block(k) > 0 ? isa_block(k) : PUBLISHED_THREADS; /* which come without metadata */
    const int r = isa_launch(k, (uint32_t[]){1, 1, 1}, threads, args, n, &options, &fault);
    for (size_t i = 0; i < isa_n_findings(); i++)
        if (r < 0 || isa_finding_at(i)->kind < ISA_N_DEFECTS)
            fail_msg("%s: %s: %s", name, isa_kind_name(isa_finding_at(i)->kind), isa_finding_at(i)->text);
    if (r < 0)
        fail_msg("%s: %s", name, fault.text);
    assert_int_equal(isa_cycles(&machine, 0, ROUNDS, &c), 0);
    const double clocks = (double)c.clocks / c.n_blocks; /* of the WGP for a block */
    const double peak = 2.0 * 16 * 16 * 16 / machine.wmma_clocks * machine.n_simds;
    const double memory = 215e3 / machine.mhz / machine.n_wgps; /* bytes a clock of a WGP at 215 GB/s */
    printf("| %s | %u | %.0f | ", name, c.n_resident, clocks);
    if (c.n_wmma > 0)
        printf("%.0f %% | ", 100 * flops / clocks / peak);
    else
        printf("| ");
    printf("%.0f %% | %.0f %% | %.0f %% | %.0f %% | %.1f | %.0f %% | %.1f | %s |\n",
           100 * isa_busy(&machine, &c, ISA_UNIT_WMMA), 100 * isa_busy(&machine, &c, ISA_UNIT_VALU),
           100 * isa_busy(&machine, &c, ISA_UNIT_LDS), 100 * isa_busy(&machine, &c, ISA_UNIT_L0),
           c.lds_least > 0 ? (double)c.lds_passes / (double)c.lds_least : 0, 100 * isa_busy(&machine, &c, ISA_UNIT_FAR),
           bytes / clocks / memory, isa_limit(&machine, &c));
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
    struct product p = {.out = place((size_t)n_rows * HALO_GEMM_COLS * sizeof(float)),
                        .scale = place(n_rows * sizeof(float)),
                        .half = place((size_t)n_rows * PRODUCT_COLS * sizeof(uint16_t)),
                        .weight = place(halo_hip_weight_bytes(type, PRODUCT_COLS, HALO_GEMM_COLS))};
    return p;
}

static void product_free(struct product *p)
{
    free(p->out);
    free(p->scale);
    free(p->half);
    free(p->weight);
}

static double flops_of(uint32_t n_rows)
{
    return 2.0 * n_rows * HALO_GEMM_COLS * PRODUCT_COLS;
}

static void gemm(const struct gfx_type *type, uint32_t n_rows)
{
    char name[40];
    snprintf(name, sizeof(name), "gemm_%s_m%u", type->name, n_rows);
    if (!is_wanted(name))
        return;
    struct product p = product_make(type->type, n_rows);
    struct halo_gemm_args args = {.matrix[0] = {p.weight, NULL, p.out, HALO_GEMM_COLS, HALO_GEMM_COLS},
                                  .half = p.half,
                                  .scale = p.scale,
                                  .n_cols = PRODUCT_COLS,
                                  .n_rows = n_rows};
    predict(name, &args, sizeof(args), flops_of(n_rows), 0);
    product_free(&p);
}

static void moe_gemm(const struct gfx_type *type, uint32_t n_rows)
{
    char name[40];
    snprintf(name, sizeof(name), "moe_gemm_%s%s", type->name, n_rows == HALO_MOE_TILE_WIDE ? "_m128" : "");
    if (!is_wanted(name))
        return;
    struct product p = product_make(type->type, n_rows);
    uint32_t *slot = place(n_rows * sizeof(*slot));
    for (uint32_t i = 0; i < n_rows; i++)
        slot[i] = i;
    struct halo_moe_tile tile = {0, 0, n_rows};
    struct halo_moe_gemm_args args = {.matrix[0] = {p.weight, 0, p.out, NULL, HALO_GEMM_COLS, HALO_GEMM_COLS},
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

struct cache {
    struct halo_kv_arg kv;
    int32_t *pos;
    uint32_t *first, *pages;
};

/* PROMPT positions of one kv head; the last n_rows of them are rows of the batch. */
static struct cache cache_make(uint32_t type, uint32_t dim, uint32_t n_rows)
{
    struct cache c = {.pos = place(n_rows * sizeof(*c.pos)),
                      .first = place(n_rows * sizeof(*c.first)),
                      .pages = place(PROMPT / PAGE * sizeof(*c.pages))};
    for (uint32_t i = 0; i < n_rows; i++)
        c.pos[i] = (int32_t)(PROMPT - n_rows + i);
    for (uint32_t i = 0; i < PROMPT / PAGE; i++)
        c.pages[i] = i;
    c.kv = (struct halo_kv_arg){.pos = c.pos,
                                .page_first = c.first,
                                .pages = c.pages,
                                .page_bytes = halo_hip_kv_layer_page_bytes(type, 1, dim, dim),
                                .n_head_kv = 1,
                                .head_dim_k = dim,
                                .head_dim_v = dim};
    c.kv.base = place(c.kv.page_bytes * (PROMPT / PAGE));
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
    const uint32_t n_rows = 8192 / dim; /* of a block */
    snprintf(name, sizeof(name), "prefill_%s_d%u", type_name, dim);
    if (!is_wanted(name))
        return;
    struct cache c = cache_make(type, dim, n_rows);
    const struct halo_prefill_tile tile = {0, n_rows};
    float *q = place(n_rows * dim * sizeof(*q)), *out = place((size_t)n_rows * dim * sizeof(*out));
    struct halo_prefill_args args = {.kv = c.kv, .tile = &tile, .q = q, .out = out, .score.scale = 1, .n_head = 1};
    predict(name, &args, sizeof(args), 4.0 * n_rows * dim * PROMPT, 0);
    cache_free(&c);
    free(q);
    free(out);
}

static void attend(const char *type_name, uint32_t type, uint32_t dim, uint32_t n_head)
{
    char name[40];
    snprintf(name, sizeof(name), "attend_%s_g%u_d%u", type_name, n_head, dim);
    if (!is_wanted(name))
        return;
    struct cache c = cache_make(type, dim, 1);
    float *q = place(n_head * dim * sizeof(*q)), *out = place((size_t)n_head * dim * sizeof(*out));
    uint32_t *counter = place(4096);
    struct halo_attend_args args = {.kv = c.kv,
                                    .q = q,
                                    .out = out,
                                    .partial = (float *)(void *)counter,
                                    .counter = counter,
                                    .score.scale = 1,
                                    .n_head = n_head,
                                    .n_splits = 1,
                                    .n_parts = 1};
    predict(name, &args, sizeof(args), 0, (double)c.kv.page_bytes * (PROMPT / PAGE));
    cache_free(&c);
    free(q);
    free(out);
    free(counter);
}

static void table(void **state)
{
    static const struct {
        const char *name;
        uint32_t type;
    } caches[] = {{"f32", 0}, {"f16", 1}, {"q8", 2}, {"q4", 3}};
    (void)state;
    printf("| kernel | blocks | clocks | of the peak | matrix | VALU | LDS | L0 | bank passes | L2 | of 215 GB/s | "
           "limit |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    published_dense();
    for (uint32_t t = 0; t < gfx_n_types; t++) {
        gemm(&gfx_types[t], 32);
        gemm(&gfx_types[t], 128);
        moe_gemm(&gfx_types[t], HALO_MOE_TILE);
        moe_gemm(&gfx_types[t], HALO_MOE_TILE_WIDE);
    }
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t dim = 128; dim <= 512; dim *= 2)
            prefill(caches[i].name, caches[i].type, dim);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t dim = 128; dim <= 512; dim *= 2)
            for (uint32_t n = 1; n <= 8; n = n == 1 ? 4 : 2 * n)
                attend(caches[i].name, caches[i].type, dim, n);
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
    for (int option; (option = getopt(argc, argv, "l:c:b:")) != -1;)
        if (!set(option, (uint32_t)atoi(optarg))) {
            fprintf(stderr, "isa_predict: -l PERCENT, -c LINES (at most 4096) and -b BYTES take numbers above 0\n");
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
