/* cost.c: what one row of attention executes: a kernel of a code object over so many positions of an empty cache, on
 * the interpreter of this folder, which counts instructions ($HALO_ISA_REPORT). scripts/attention-cost compares two
 * lengths.
 *
 *   isa_cost KERNEL KV-TYPE DIM-K DIM-V HEADS POSITIONS
 *
 * One block: all heads in one part, one split. Of attend_blocks every position is a block, behind a window of 32;
 * block_scores reads so many keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gfx_fixture.h"

enum { ROWS = 64 }; /* that exist beside the one; a tile may look at them */

struct cost {
    const char *kernel;
    struct halo_kv_arg kv;
    float *q, *out;
    uint32_t *zeros; /* partial results and counters, which one split does not touch */
    uint32_t n_head, n;
};

static void attention(struct cost *c)
{
    struct halo_attend_args args = {.kv = c->kv,
                                    .q = c->q,
                                    .out = c->out,
                                    .partial = (float *)(void *)c->zeros,
                                    .counter = c->zeros,
                                    .score.scale = 1,
                                    .n_head = c->n_head,
                                    .n_splits = 1,
                                    .n_parts = 1};
    if (!strstr(c->kernel, "attend_blocks")) {
        gfx_run(c->kernel, 1, 1, 1, &args);
        return;
    }
    int32_t *chosen = gfx_zeros(c->n * sizeof(*chosen));
    for (uint32_t i = 0; i < c->n; i++)
        chosen[i] = (int32_t)i;
    args.score.window = 32;
    gfx_run(c->kernel, 1, 1, 1, &(struct halo_attend_blocks_args){args, {c->kv, 1, 32}, chosen, c->n});
    free(chosen);
}

static void scores(struct cost *c)
{
    uint32_t *order = gfx_zeros(c->n * sizeof(*order));
    struct halo_block_scores_args args = {{c->kv, 1, 32}, c->q, c->out, order, c->n_head, c->n, 1, 1, 1};
    gfx_run(c->kernel, 1, 1, 1, &args);
    free(order);
}

static void run(void **state)
{
    char **argv = *state;
    const uint32_t type = (uint32_t)atoi(argv[2]), dim_k = (uint32_t)atoi(argv[3]), dim_v = (uint32_t)atoi(argv[4]);
    const bool one_row = !strstr(argv[1], "attend_") || strstr(argv[1], "attend_blocks"); /* of the cache for K and V */
    struct cost c = {.kernel = argv[1], .n_head = (uint32_t)atoi(argv[5]), .n = (uint32_t)atoi(argv[6])};
    int32_t *pos = gfx_zeros(ROWS * sizeof(*pos));
    uint32_t *first = gfx_zeros(ROWS * sizeof(*first)), *pages = gfx_zeros((c.n / 32 + 1) * sizeof(*pages));
    for (uint32_t i = 0; i < ROWS; i++)
        pos[i] = (int32_t)c.n - 1;
    c.kv = (struct halo_kv_arg){.pos = pos,
                                .page_first = first,
                                .pages = pages, /* all are the one page */
                                .page_bytes = halo_hip_kv_layer_page_bytes(type, 1, dim_k, one_row ? 0 : dim_v),
                                .n_head_kv = 1,
                                .head_dim_k = dim_k,
                                .head_dim_v = dim_v};
    c.kv.base = gfx_zeros(c.kv.page_bytes);
    c.q = gfx_zeros(ROWS * c.n_head * dim_k * sizeof(float));
    c.out = gfx_zeros(ROWS * c.n_head * dim_v * sizeof(float));
    c.zeros = gfx_zeros(4096);
    if (strstr(c.kernel, "block_scores"))
        scores(&c);
    else
        attention(&c);
    void *const all[] = {pos, first, pages, c.kv.base, c.q, c.out, c.zeros};
    for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(run, argv)};
    return argc == 7 ? cmocka_run_group_tests_name("cost", tests, NULL, NULL) : 2;
}
