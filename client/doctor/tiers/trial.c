/* trial.c: a plan made by hand, on the HIP device (contract in trial.h). */
#include "trial.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hip/hip.h>

#define CONTEXT 512
#define LOOK_NS 2000000 /* between two looks at the device's phase */
#define ROWS_MAX CONTEXT

void halo_doctor_trial_init(struct halo_doctor_trial *trial, struct halo_doctor_tier *tier, uint32_t n_vocab,
                            uint32_t max_rows)
{
    assert(max_rows <= ROWS_MAX);
    *trial = (struct halo_doctor_trial){.tier = tier};
    trial->plan = (struct halo_plan){
        .ops = trial->ops,
        .weights = trial->weights,
        .values = trial->values,
        .n_vocab = n_vocab,
        .n_context = CONTEXT,
        .max_rows = max_rows,
        .max_outputs = max_rows,
        .n_kv_groups = 1,
        .kv = {{HALO_KV_F32, 1, 1, 8, 8, CONTEXT / HALO_KV_PAGE_TOKENS}},
    };
}

/* Small whole numbers, and whole parts of powers of two, have an exact form. */
static uint16_t half_bits(double x)
{
    int exponent;
    double mantissa = frexp(fabs(x), &exponent);
    if (x == 0)
        return 0;
    assert(exponent + 14 > 0 && exponent + 14 < 31);
    return (uint16_t)((x < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) | ((int)ldexp(mantissa, 11) & 0x3ff));
}

static void put_block(uint8_t *to, enum halo_type type, uint32_t row, uint32_t column,
                      double (*at)(uint32_t row, uint32_t column))
{
    float number = (float)at(row, column);
    uint16_t half = half_bits(type == HALO_TYPE_Q8_0 ? 0x1p-6 : (double)number);
    switch (type) {
    case HALO_TYPE_F32: memcpy(to, &number, sizeof(number)); return;
    case HALO_TYPE_F16: memcpy(to, &half, sizeof(half)); return;
    default: break;
    }
    assert(type == HALO_TYPE_Q8_0);
    memcpy(to, &half, sizeof(half));
    for (uint32_t i = 0; i < 32; i++)
        to[sizeof(half) + i] = (uint8_t)(int8_t)lrint(at(row, column + i) * 64);
}

uint32_t halo_doctor_trial_weight(struct halo_doctor_trial *trial, enum halo_type type, enum halo_weight_role role,
                                  uint32_t n_cols, uint32_t n_rows, double (*at)(uint32_t row, uint32_t column))
{
    assert(trial->plan.n_weights < HALO_DOCTOR_TRIAL_VALUES);
    uint32_t index = trial->plan.n_weights++;
    struct halo_type_info info = halo_type_info(type);
    struct halo_weight *w = &trial->weights[index];
    *w = (struct halo_weight){.type = type, .role = role, .n_cols = n_cols, .n_rows = n_rows, .n_experts = 1};
    snprintf(w->name, sizeof(w->name), "trial.%u.%s", index, info.name);
    w->n_bytes = halo_type_row_bytes(type, n_cols) * n_rows;
    uint8_t *to = trial->bytes[index] = malloc(w->n_bytes);
    trial->no_memory |= !to;
    for (uint32_t row = 0; row < n_rows && to; row++)
        for (uint32_t column = 0; column < n_cols; column += info.block_weights, to += info.block_bytes)
            put_block(to, type, row, column, at);
    return index;
}

uint16_t halo_doctor_trial_value(struct halo_doctor_trial *trial, uint32_t width)
{
    assert(trial->plan.n_values < HALO_DOCTOR_TRIAL_VALUES);
    trial->values[trial->plan.n_values] = (struct halo_value){"trial", width};
    return (uint16_t)trial->plan.n_values++;
}

void halo_doctor_trial_op(struct halo_doctor_trial *trial, struct halo_op op)
{
    assert(trial->plan.n_ops < HALO_DOCTOR_TRIAL_OPS);
    op.layer = HALO_NONE;
    trial->ops[trial->plan.n_ops++] = op;
}

uint16_t halo_doctor_trial_input(struct halo_doctor_trial *trial, uint32_t width,
                                 double (*at)(uint32_t row, uint32_t column))
{
    uint32_t table = halo_doctor_trial_weight(trial, HALO_TYPE_F32, HALO_WEIGHT_MATRIX, width, trial->plan.n_vocab, at);
    uint16_t value = halo_doctor_trial_value(trial, width);
    trial->weights[table].embed = true;
    halo_doctor_trial_op(trial, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, value, 1}});
    return value;
}

uint16_t halo_doctor_trial_matmul(struct halo_doctor_trial *trial, uint16_t x, uint32_t weight)
{
    uint16_t out = halo_doctor_trial_value(trial, trial->weights[weight].n_rows);
    halo_doctor_trial_op(
        trial, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = {x, 1, {weight}, {HALO_WEIGHT_NONE}, {out}}});
    return out;
}

/* Tells each change of the device's phase until the process ends. */
static void *watch(void *ud)
{
    struct halo_doctor_trial *trial = ud;
    for (uint64_t seen = 0;;) {
        uint64_t step = atomic_load_explicit(&trial->phase.step, memory_order_acquire);
        const char *what = atomic_load(&trial->phase.what);
        if (step != seen && what)
            halo_doctor_tier_phase(trial->tier, "in the phase \"%s\"", what);
        seen = step;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return NULL;
}

enum halo_doctor_failure halo_doctor_trial_open(struct halo_doctor_trial *trial)
{
    const struct halo_device_ops *ops = halo_device_hip();
    const struct halo_device_options options = {.library = trial->tier->options->hip_lib};
    char reason[HALO_DEVICE_REASON] = "";
    pthread_t thread;
    if (trial->no_memory || pthread_create(&thread, NULL, watch, trial) != 0)
        return halo_doctor_tier_fail(trial->tier, HALO_DOCTOR_ERROR, "the host is out of memory");
    pthread_detach(thread);
    halo_doctor_tier_phase(trial->tier, "opening the device");
    int r = ops->open(&trial->device, &options, reason);
    if (r)
        return halo_doctor_tier_device(trial->tier, r, reason);
    halo_doctor_tier_phase(trial->tier, "taking memory for weights");
    r = ops->model_create(trial->device, &trial->plan, &trial->model, reason);
    for (uint32_t i = 0; i < trial->plan.n_weights && !r; i++) {
        struct halo_device_slot slot;
        halo_doctor_tier_phase(trial->tier, "uploading %s", trial->weights[i].name);
        ops->weight_slot(trial->model, i, &slot);
        memcpy(slot.data, trial->bytes[i], trial->weights[i].n_bytes);
        r = ops->weight_commit(trial->model, i, reason);
    }
    if (!r) {
        halo_doctor_tier_phase(trial->tier, "ending the upload and recording graphs");
        r = ops->model_seal(trial->model, reason);
    }
    return halo_doctor_tier_device(trial->tier, r, reason);
}

enum halo_doctor_failure halo_doctor_trial_run(struct halo_doctor_trial *trial, uint32_t n_rows, uint32_t first_token,
                                               float *logits)
{
    static int32_t token[ROWS_MAX], pos[ROWS_MAX];
    static uint32_t zero[ROWS_MAX], row[ROWS_MAX];
    uint32_t pages[CONTEXT / HALO_KV_PAGE_TOKENS];
    char reason[HALO_DEVICE_REASON] = "";
    for (uint32_t i = 0; i < CONTEXT / HALO_KV_PAGE_TOKENS; i++)
        pages[i] = i;
    for (uint32_t i = 0; i < n_rows; i++) {
        token[i] = (int32_t)((first_token + i) % trial->plan.n_vocab);
        pos[i] = (int32_t)i;
        row[i] = i;
    }
    const struct halo_batch_seq seq = {{pages}, CONTEXT / HALO_KV_PAGE_TOKENS};
    const struct halo_batch batch = {n_rows, token, pos, zero, 1, &seq, logits ? n_rows : 0, row, logits};
    int r = halo_device_hip()->run(trial->model, &batch, &trial->phase, reason);
    return halo_doctor_tier_device(trial->tier, r, reason);
}

enum halo_doctor_failure halo_doctor_trial_peek(struct halo_doctor_trial *trial, uint16_t value, uint32_t row,
                                                float *ret)
{
    char reason[HALO_DEVICE_REASON] = "";
    int r = halo_device_hip()->peek(trial->model, value, row, ret, reason);
    return halo_doctor_tier_device(trial->tier, r, reason);
}
