/* test_hip_graphs.c: decode steps of a model whose cache has two groups of pages and one of states, over the runtime
 * that $HALO_HIP_LIB names: the prompt and the first step of a class are launched, the steps after it are replayed.
 * Both must see the pages and the slots of all groups, however many pages the sequences have by then. Against the CPU
 * device.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <hip/hip.h>

#include "cpu_fixture.h"

enum { N_VOCAB = 40, DIM = 32, N_PROMPT = 10, N_STEPS = 75, CONTEXT = 128, SEQUENCES = 3 };

static void attend_build(struct fixture *f, uint32_t group, uint32_t window, uint16_t *ret_out)
{
    uint16_t q = fixture_input(f, DIM, 3), k = fixture_input(f, DIM, 3), v = fixture_input(f, DIM, 1);
    *ret_out = fixture_value(f, DIM);
    struct halo_op_attend attend = {.q = q,
                                    .out = *ret_out,
                                    .kv_group = group,
                                    .n_head = 1,
                                    .scale = 0.25f,
                                    .window = window,
                                    .sinks = HALO_WEIGHT_NONE};
    fixture_op(f, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, 0, group}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ATTEND, .u.attend = attend});
}

static uint16_t conv1d_build(struct fixture *f)
{
    uint16_t x = fixture_input(f, DIM, 1), out = fixture_value(f, DIM);
    uint32_t taps = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 4, DIM, 1, 1);
    uint32_t group = fixture_states(f, 1, 3 * DIM);
    fixture_op(f, (struct halo_op){
                      .kind = HALO_OP_CONV1D,
                      .u.conv1d = {
                          .x = x, .out = out, .weight = taps, .bias = HALO_WEIGHT_NONE, .state = {.kv_group = group}}});
    return out;
}

static void build(struct fixture *f)
{
    uint16_t whole, local;
    fixture_init(f, N_VOCAB, 16, CONTEXT);
    fixture_kv(f, HALO_KV_F32, 1, 1, DIM, DIM);
    fixture_kv_add(f, HALO_KV_F32, 1, 1, DIM, DIM);
    attend_build(f, 0, 0, &whole);
    attend_build(f, 1, 40, &local);
    uint16_t convolved = conv1d_build(f);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {whole, local}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {whole, convolved}});
    uint32_t head = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, DIM, N_VOCAB, 1, 1);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = head, .x = whole, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

/* Position `pos` of each sequence: one step of as many rows. */
static void step_together(struct fixture *f, int32_t pos, float *logits)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_batch_seq seqs[SEQUENCES];
    const uint32_t slot[SEQUENCES] = {4, 0, 7}, rows[SEQUENCES] = {0, 1, 2};
    int32_t token[SEQUENCES], at[SEQUENCES];
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t group = 0; group < 2; group++)
            seqs[s].pages[group] = fixture_pages(f, (s + 3 * group) % 8, &seqs[s].n_pages);
        seqs[s].pages[2] = &slot[s];
        seqs[s].n_pages = (uint32_t)pos / HALO_KV_PAGE_TOKENS + 1;
        token[s] = (pos * 7 + (int32_t)s * 11) % N_VOCAB;
        at[s] = pos;
    }
    const struct halo_batch batch = {.n_rows = SEQUENCES,
                                     .token = token,
                                     .pos = at,
                                     .seq = rows,
                                     .n_seqs = SEQUENCES,
                                     .seqs = seqs,
                                     .n_outputs = SEQUENCES,
                                     .output = rows,
                                     .logits = logits};
    if (f->device_ops->run(f->model, &batch, NULL, reason))
        fail_msg("%s", reason);
}

static void several_sequences_over_all_groups(void **state)
{
    static _Alignas(64) float logits[2][N_STEPS][SEQUENCES * N_VOCAB];
    struct fixture f;
    build(&f);
    for (int device = 0; device < 2; device++) {
        f.device_ops = device == 0 ? halo_device_cpu() : halo_device_hip();
        f.library = device == 0 ? NULL : getenv("HALO_HIP_LIB");
        fixture_open(&f, NULL, 1);
        for (int32_t pos = 0; pos < N_STEPS; pos++)
            step_together(&f, pos, logits[device][pos]);
        fixture_close(&f);
    }
    for (uint32_t pos = 0; pos < N_STEPS; pos++)
        for (uint32_t i = 0; i < SEQUENCES * N_VOCAB; i++)
            if (!(fabsf(logits[1][pos][i] - logits[0][pos][i]) <= 1e-4f))
                fail_msg("position %u, sequence %u, logit %u is %.9g, wanted %.9g", pos, i / N_VOCAB, i % N_VOCAB,
                         (double)logits[1][pos][i], (double)logits[0][pos][i]);
    fixture_finish(&f);
}

/* A step whose class was launched once is one replay: it succeeds where every launch would fail. */
static void a_step_with_states_is_one_replay(void **state)
{
    static _Alignas(64) float logits[SEQUENCES * N_VOCAB];
    struct fixture f;
    build(&f);
    f.device_ops = halo_device_hip();
    f.library = getenv("HALO_HIP_LIB");
    fixture_open(&f, NULL, 1);
    for (int32_t pos = 0; pos < 2; pos++)
        step_together(&f, pos, logits);
    setenv("HALO_HIP_EMU_SCRIPT", "hipModuleLaunchKernel:*:error=700", 1);
    step_together(&f, 2, logits);
    unsetenv("HALO_HIP_EMU_SCRIPT");
    fixture_finish(&f);
}

static void decode_over_all_groups(void **state)
{
    static _Alignas(64) float logits[2][N_STEPS][48];
    struct fixture f;
    build(&f);
    for (int device = 0; device < 2; device++) {
        f.device_ops = device == 0 ? halo_device_cpu() : halo_device_hip();
        f.library = device == 0 ? NULL : getenv("HALO_HIP_LIB");
        fixture_open(&f, NULL, 1);
        int32_t prompt[N_PROMPT] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
        fixture_run(&f, 1, prompt, N_PROMPT, 0, NULL);
        for (int32_t pos = N_PROMPT; pos < N_STEPS; pos++)
            fixture_run(&f, 1, &(int32_t){pos * 7 % N_VOCAB}, 1, pos, logits[device][pos]);
        fixture_close(&f);
    }
    for (uint32_t pos = N_PROMPT; pos < N_STEPS; pos++)
        for (uint32_t i = 0; i < N_VOCAB; i++)
            if (!(fabsf(logits[1][pos][i] - logits[0][pos][i]) <= 1e-4f))
                fail_msg("position %u, logit %u is %.9g, wanted %.9g", pos, i, (double)logits[1][pos][i],
                         (double)logits[0][pos][i]);
    fixture_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decode_over_all_groups),
                                       cmocka_unit_test(several_sequences_over_all_groups),
                                       cmocka_unit_test(a_step_with_states_is_one_replay)};
    if (!getenv("HALO_HIP_LIB")) {
        printf("HALO_HIP_LIB names no runtime\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
