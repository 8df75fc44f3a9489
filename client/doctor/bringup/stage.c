/* stage.c: one cell of the matrix, in a process whose environment the runtime sees from its first moment.
 *
 * Uploads are made call by call; launches, graphs and decode steps go through the device as the engine's do, on a plan
 * whose logits are known exactly.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <client/clock.h>
#include <hip/hip.h>

#include "bringup_priv.h"
#include "tiers/trial.h"

#define N_COLS 256
#define N_VOCAB 64
#define MIN_STEPS 24

static uint32_t decode_for_ms;

/* Small whole numbers, so that every sum is exact. */
static double input_at(uint32_t row, uint32_t column)
{
    return (double)((row * 31 + column * 17) % 23) - 11;
}
static double head_at(uint32_t row, uint32_t column)
{
    return (double)((row * 13 + column * 29) % 19) - 9;
}

static double norm_at(uint32_t row, uint32_t column)
{
    (void)row;
    return 1 + column % 3;
}

/* A step: look a row up, norm it, a product, and logits of the row itself. */
static void build(struct halo_doctor_trial *trial, struct halo_doctor_tier *tier)
{
    halo_doctor_trial_init(trial, tier, N_VOCAB, 1);
    uint16_t in = halo_doctor_trial_input(trial, N_COLS, input_at), normed = halo_doctor_trial_value(trial, N_COLS);
    uint32_t norm = halo_doctor_trial_weight(trial, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, N_COLS, 1, norm_at);
    uint32_t head = halo_doctor_trial_weight(trial, HALO_TYPE_F16, HALO_WEIGHT_MATRIX, N_COLS, N_VOCAB, head_at);
    halo_doctor_trial_op(trial, (struct halo_op){.kind = HALO_OP_RMSNORM,
                                                 .u.rmsnorm = {.weight = norm,
                                                               .x = in,
                                                               .add = HALO_NONE,
                                                               .out = normed,
                                                               .eps = 1e-6f,
                                                               .add_scale = 1,
                                                               .bias = HALO_WEIGHT_NONE}});
    halo_doctor_trial_matmul(trial, normed, head);
    halo_doctor_trial_op(trial,
                         (struct halo_op){.kind = HALO_OP_LOGITS,
                                          .u.logits = {.weight = head, .x = in, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

static enum halo_doctor_failure check(struct halo_doctor_tier *tier, const float *logits, uint32_t token, uint32_t step)
{
    for (uint32_t j = 0; j < N_VOCAB; j++) {
        double want = 0;
        for (uint32_t i = 0; i < N_COLS; i++)
            want += input_at(token, i) * head_at(j, i);
        if (!(fabs(logits[j] - want) < 1e-3))
            return halo_doctor_tier_fail(tier, HALO_DOCTOR_WRONG, "step %u: logit %u is %.9g, the host computes %.9g",
                                         step, j, (double)logits[j], want);
    }
    return HALO_DOCTOR_FINE;
}

/* Steps one by one, each waited for and checked, for so long and at least MIN_STEPS. */
static enum halo_doctor_failure decode(struct halo_doctor_tier *tier, uint32_t for_ms, bool graphs)
{
    static struct halo_doctor_trial trial;
    static float logits[N_VOCAB] __attribute__((aligned(64)));
    struct halo_device_info info;
    build(&trial, tier);
    enum halo_doctor_failure failure = halo_doctor_trial_open(&trial);
    if (failure)
        return failure;
    halo_device_hip()->describe(trial.device, &info);
    if (graphs && info.n_notices > 0)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s", info.notice);
    double begin = halo_client_now_s();
    for (uint32_t step = 0; (step < MIN_STEPS || (halo_client_now_s() - begin) * 1e3 < for_ms) && !failure; step++) {
        uint32_t token = step * 7 % N_VOCAB;
        failure = halo_doctor_trial_run(&trial, 1, token, logits);
        if (!failure)
            failure = check(tier, logits, token, step);
    }
    return failure;
}

static enum halo_doctor_failure pageable(struct halo_doctor_tier *tier)
{
    return halo_doctor_trip(tier, HALO_DOCTOR_PAGEABLE);
}

static enum halo_doctor_failure pinned(struct halo_doctor_tier *tier)
{
    return halo_doctor_trip(tier, HALO_DOCTOR_PINNED);
}

static enum halo_doctor_failure zero_copy(struct halo_doctor_tier *tier)
{
    return halo_doctor_trip(tier, HALO_DOCTOR_ZERO_COPY);
}

static enum halo_doctor_failure graph(struct halo_doctor_tier *tier)
{
    return decode(tier, 0, true);
}
static enum halo_doctor_failure plain_decode(struct halo_doctor_tier *tier)
{
    return decode(tier, decode_for_ms, false);
}
static enum halo_doctor_failure graph_decode(struct halo_doctor_tier *tier)
{
    return decode(tier, decode_for_ms, true);
}

static enum halo_doctor_failure (*const stages[HALO_BRINGUP_N_STAGES])(struct halo_doctor_tier *tier) = {
    [HALO_BRINGUP_STAGE_OPEN] = halo_doctor_tier_initialises,
    [HALO_BRINGUP_STAGE_PAGEABLE] = pageable,
    [HALO_BRINGUP_STAGE_PINNED] = pinned,
    [HALO_BRINGUP_STAGE_ZERO_COPY] = zero_copy,
    [HALO_BRINGUP_STAGE_LAUNCH] = halo_doctor_tier_kernel,
    [HALO_BRINGUP_STAGE_PLAIN] = plain_decode,
    [HALO_BRINGUP_STAGE_GRAPH] = graph,
    [HALO_BRINGUP_STAGE_DECODE] = graph_decode,
};

int halo_bringup_stage_run(const char *name, const char *hip_lib, uint32_t decode_ms)
{
    static struct halo_doctor_finding finding;
    struct halo_doctor_options options = {.sysroot = "", .hip_lib = hip_lib};
    struct halo_child_port port = halo_child_port_inherited();
    struct halo_doctor_tier tier = {.options = &options, .port = &port, .finding = &finding};
    struct halo_bringup_word word = {.outcome = HALO_BRINGUP_OK};
    decode_for_ms = decode_ms;
    halo_doctor_finding_init(&finding, "stage", name);
    for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
        if (strcmp(halo_bringup_stage_name(s), name) != 0)
            continue;
        switch (stages[s](&tier)) {
        case HALO_DOCTOR_FINE: break;
        case HALO_DOCTOR_HANG: word.outcome = HALO_BRINGUP_HANG; break;
        case HALO_DOCTOR_WRONG: word.outcome = HALO_BRINGUP_WRONG; break;
        case HALO_DOCTOR_CRASH: word.outcome = HALO_BRINGUP_CRASH; break;
        case HALO_DOCTOR_ERROR: word.outcome = HALO_BRINGUP_ERROR; break;
        case HALO_DOCTOR_UNFIT: word.outcome = HALO_BRINGUP_SKIP; break;
        }
        snprintf(word.says, sizeof(word.says), "%s", tier.what);
        snprintf(word.runtime, sizeof(word.runtime), "%.319s", finding.read);
        halo_child_result(&port, &word, sizeof(word));
        _exit(0); /* the runtime's own exit may hang, and has nothing more to say */
    }
    return 2;
}
