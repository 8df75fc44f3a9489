/* bench_latent.c: a chunk of a prompt over a latent cache, on one thread of the CPU device: attention in the absorbed
 * form, over the cache's rows as they are, against the expanded form, which makes K and V of every head from all of
 * them first.
 *
 *   bench_latent [CONTEXT [CHUNK [HEADS NOPE ROT ROW VALUE]]]     default 4096 512 20 192 64 512 256 (GLM-4.7-Flash)
 *
 * Prints processor seconds of the last chunk of a context of one layer: the product of each head with its matrices and
 * attention; attention over K and V of the heads; and making those of the whole context. Weights are Q8_0, the cache
 * is f16. No pass or fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include <cpu/cpu.h>

#include "cpu_fixture.h"

enum { CONTEXT, CHUNK, HEADS, NOPE, ROT, ROW, VALUE, NUMBERS };

static double processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void head_matmul(struct fixture *f, uint16_t x, uint32_t n_cols, uint32_t n_rows, uint32_t n_head, uint16_t out)
{
    uint32_t w = fixture_weight(f, HALO_TYPE_Q8_0, HALO_WEIGHT_EXPERTS, n_cols, n_rows, n_head, 0.1);
    struct halo_op_moe_matmul u = {x, HALO_NONE, 1, true, {w}, {out}, n_head, HALO_WEIGHTS_NONE};
    fixture_op(f, (struct halo_op){HALO_OP_MOE_MATMUL, .u.moe_matmul = u});
}

static void attend(struct fixture *f, uint32_t n_head, uint16_t q, uint16_t k, uint16_t v, uint16_t out)
{
    fixture_op(f, (struct halo_op){HALO_OP_KV_WRITE, .u.kv_write = {k, v, 0}});
    fixture_op(f, (struct halo_op){
                      HALO_OP_ATTEND,
                      .u.attend = {.q = q, .out = out, .n_head = n_head, .scale = 0.05f, .sinks = HALO_WEIGHT_NONE}});
}

static void absorbed(struct fixture *f, const uint32_t *n)
{
    uint32_t heads = n[HEADS], dim = n[ROW] + n[ROT];
    uint16_t q_row = fixture_input(f, heads * n[NOPE], 1), q_rot = fixture_input(f, heads * n[ROT], 1),
             k = fixture_input(f, dim, 1), down = fixture_value(f, heads * n[ROW]), q = fixture_value(f, heads * dim),
             mean = fixture_value(f, heads * n[ROW]), out = fixture_value(f, heads * n[VALUE]);
    fixture_kv(f, HALO_KV_F16, 1, 1, dim, n[ROW]);
    f->plan.kv[0].latent = true;
    head_matmul(f, q_row, n[NOPE], n[ROW], heads, down);
    fixture_op(f, (struct halo_op){HALO_OP_CONCAT, .u.concat = {down, q_rot, q, heads, 0, n[ROW], n[ROT], false}});
    attend(f, heads, q, k, HALO_NONE, mean);
    head_matmul(f, mean, n[ROW], n[VALUE], heads, out);
}

static void expanded(struct fixture *f, const uint32_t *n)
{
    uint32_t heads = n[HEADS], dim = n[NOPE] + n[ROT];
    uint16_t q = fixture_input(f, heads * dim, 1), k = fixture_input(f, heads * dim, 1),
             v = fixture_input(f, heads * n[VALUE], 1), out = fixture_value(f, heads * n[VALUE]);
    fixture_kv(f, HALO_KV_F16, 1, heads, dim, n[VALUE]);
    attend(f, heads, q, k, v, out);
}

static void expansion(struct fixture *f, const uint32_t *n)
{
    uint32_t n_rows = n[HEADS] * (n[NOPE] + n[VALUE]);
    uint16_t row = fixture_input(f, n[ROW], 1), out = fixture_value(f, n_rows);
    uint32_t w = fixture_weight(f, HALO_TYPE_Q8_0, HALO_WEIGHT_MATRIX, n[ROW], n_rows, 1, 0.1);
    fixture_kv(f, HALO_KV_F16, 1, 1, 32, 32);
    fixture_op(f, (struct halo_op){HALO_OP_MATMUL, .u.matmul = {row, 1, {w}, {HALO_WEIGHT_NONE}, {out}}});
}

/* Of the last chunk, after those in front of it. */
static double time_of(const uint32_t *n, void (*build)(struct fixture *f, const uint32_t *n))
{
    static struct fixture f;
    int32_t *tokens = calloc(n[CHUNK], sizeof(*tokens));
    double begin = 0;
    for (uint32_t i = 0; i < n[CHUNK]; i++)
        tokens[i] = (int32_t)(i % 64);
    fixture_init(&f, 64, n[CHUNK], n[CONTEXT]);
    f.device_ops = halo_device_cpu();
    build(&f, n);
    fixture_open(&f, NULL, 1);
    for (uint32_t first = 0; first + n[CHUNK] <= n[CONTEXT]; first += n[CHUNK]) {
        begin = processor_s();
        fixture_run(&f, 1, tokens, n[CHUNK], (int32_t)first, NULL);
    }
    double spent = processor_s() - begin;
    fixture_finish(&f);
    free(tokens);
    return spent;
}

int main(int argc, char **argv)
{
    uint32_t n[NUMBERS] = {4096, 512, 20, 192, 64, 512, 256};
    for (int i = 1; i < argc && i <= NUMBERS; i++)
        n[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
    if (n[CHUNK] == 0 || n[CONTEXT] < n[CHUNK]) {
        fprintf(stderr, "a context of %u has no chunk of %u\n", n[CONTEXT], n[CHUNK]);
        return 2;
    }
    double one = time_of(n, absorbed), apart = time_of(n, expanded),
           rows = time_of(n, expansion) * n[CONTEXT] / n[CHUNK];
    printf("context %u, chunk %u: absorbed %.2f s; expanded %.2f s (attention %.2f, K and V of the context %.2f)\n",
           n[CONTEXT], n[CHUNK], one, apart + rows, apart, rows);
    return 0;
}
