/* inject.c: breaks plans and weights before a device gets them (contract in inject.h).
 *
 * The device underneath is untouched and gets a plan of ours: a copy with other rotations. Weights are changed where
 * the device wants them, before it is told that they are there. Threads as in device.h: the list of models has a lock.
 */
#include <inject/inject.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <common/reason.h>
#include <kernels/quant.h>

#define EVERY_LAYER (-1)

enum fault { ROPE_PAIRING, NORM_OFFSET, MIXED_NAN, STALE_PAGE, N_FAULTS };
static const char *const names[N_FAULTS] = {"rope-pairing", "norm-offset", "mixed-nan", "stale-page"};

struct broken {
    struct broken *next;
    struct halo_device_model *model;
    enum fault fault;
    int layer;
    struct halo_plan plan;
    struct halo_op *ops;
    struct halo_rope *ropes; /* those of the model, then the same with the other pairing */
};

static const struct halo_device_ops *below;
static struct halo_device_ops table;
static struct broken *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool fault_parse(const char *text, enum fault *ret_fault, int *ret_layer)
{
    size_t n = strcspn(text, "@");
    char *end = NULL;
    *ret_layer = text[n] ? (int)strtol(text + n + 1, &end, 10) : EVERY_LAYER;
    for (int i = 0; i < N_FAULTS; i++)
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0) {
            *ret_fault = (enum fault)i;
            return !text[n] || (end != text + n + 1 && !*end && *ret_layer >= 0);
        }
    return false;
}

static const struct halo_weight *weight_of(const struct halo_plan *plan, int layer, const char *what)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, what);
    for (uint32_t i = 0; i < plan->n_weights; i++)
        if (strcmp(plan->weights[i].name, name) == 0)
            return &plan->weights[i];
    return NULL;
}

static bool is_mixed(const struct halo_plan *plan, int layer)
{
    const struct halo_weight *q = weight_of(plan, layer, "attn_q"), *v = weight_of(plan, layer, "attn_v");
    return q && v && q->type != v->type;
}

/* The layer to break; false: the model has nothing of the kind. A plan may end before the layer: then the layer is
 * known by its weights. */
static bool layer_settle(struct broken *broken, const struct halo_plan *plan)
{
    if (broken->fault == MIXED_NAN && broken->layer == EVERY_LAYER)
        for (int layer = 0; weight_of(plan, layer, "attn_norm") && broken->layer == EVERY_LAYER; layer++)
            broken->layer = is_mixed(plan, layer) ? layer : EVERY_LAYER;
    if (broken->fault == STALE_PAGE)
        return broken->layer == EVERY_LAYER; /* a page has all layers */
    if (broken->fault == MIXED_NAN)
        return broken->layer != EVERY_LAYER && is_mixed(plan, broken->layer);
    return weight_of(plan, broken->layer == EVERY_LAYER ? 0 : broken->layer, "attn_norm") != NULL;
}

/* A copy of the plan in which the layer's rotations are the other ones. */
static bool plan_copy(struct broken *broken, const struct halo_plan *plan)
{
    broken->plan = *plan;
    broken->ops = malloc(plan->n_ops * sizeof(*broken->ops));
    broken->ropes = malloc(2 * (size_t)plan->n_ropes * sizeof(*broken->ropes) + 1);
    if (!broken->ops || !broken->ropes)
        return false;
    memcpy(broken->ops, plan->ops, plan->n_ops * sizeof(*broken->ops));
    broken->plan.ops = broken->ops;
    if (broken->fault != ROPE_PAIRING)
        return true;
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        broken->ropes[i] = broken->ropes[plan->n_ropes + i] = plan->ropes[i];
        broken->ropes[plan->n_ropes + i].pairing =
            plan->ropes[i].pairing == HALO_ROPE_NORM ? HALO_ROPE_NEOX : HALO_ROPE_NORM;
    }
    broken->plan.ropes = broken->ropes;
    broken->plan.n_ropes = 2 * plan->n_ropes;
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (broken->ops[i].kind == HALO_OP_ROPE &&
            (broken->layer == EVERY_LAYER || broken->ops[i].layer == broken->layer))
            broken->ops[i].u.rope.rope += plan->n_ropes;
    return true;
}

static void broken_destroy(struct broken *broken)
{
    if (!broken)
        return;
    free(broken->ops);
    free(broken->ropes);
    free(broken);
}

static int refuse(char *reason, int error, const char *why)
{
    return halo_reason(reason, error, "HALO_INJECT=%.60s: %s", getenv("HALO_INJECT"), why);
}

static int model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                        char *reason)
{
    struct broken *broken = calloc(1, sizeof(*broken));
    int r;
    if (!broken)
        return refuse(reason, -ENOMEM, "no memory");
    if (!fault_parse(getenv("HALO_INJECT"), &broken->fault, &broken->layer))
        r = refuse(reason, -EINVAL,
                   "no such fault; there are rope-pairing, norm-offset, mixed-nan, each with @LAYER, and stale-page");
    else if (!layer_settle(broken, plan))
        r = refuse(reason, -EINVAL, "the model has nothing that this breaks");
    else if (!plan_copy(broken, plan))
        r = refuse(reason, -ENOMEM, "no memory");
    else
        r = below->model_create(device, &broken->plan, ret, reason);
    if (r < 0) {
        broken_destroy(broken);
        return r;
    }
    broken->model = *ret;
    pthread_mutex_lock(&lock);
    broken->next = all;
    all = broken;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void model_destroy(struct halo_device_model *model)
{
    struct broken **at = &all, *broken;
    below->model_destroy(model);
    pthread_mutex_lock(&lock);
    while ((*at)->model != model)
        at = &(*at)->next;
    broken = *at;
    *at = broken->next;
    pthread_mutex_unlock(&lock);
    broken_destroy(broken);
}

static int weight_lessen(const struct halo_weight *weight, uint8_t *data)
{
    if (weight->type != HALO_TYPE_F32)
        return -ENOTSUP;
    for (size_t at = 0; at < weight->n_bytes; at += sizeof(float)) {
        float value;
        memcpy(&value, data + at, sizeof(value));
        value -= 1;
        memcpy(data + at, &value, sizeof(value));
    }
    return 0;
}

/* The scale of the first block, or the first number, becomes a NaN. */
static int weight_spoil(const struct halo_weight *weight, uint8_t *data)
{
    static const float nan_f32 = __builtin_nanf("");
    static const uint16_t nan_f16 = 0x7e00, nan_bf16 = 0x7fc0;
    size_t at = 0;
    switch (weight->type) {
    case HALO_TYPE_F32: memcpy(data, &nan_f32, sizeof(nan_f32)); return 0;
    case HALO_TYPE_BF16: memcpy(data, &nan_bf16, sizeof(nan_bf16)); return 0;
    case HALO_TYPE_MXFP4: data[offsetof(struct halo_block_mxfp4, e)] = 0xff; return 0;
    case HALO_TYPE_Q2_K: at = offsetof(struct halo_block_q2_k, d); break;
    case HALO_TYPE_Q3_K: at = offsetof(struct halo_block_q3_k, d); break;
    case HALO_TYPE_Q6_K: at = offsetof(struct halo_block_q6_k, d); break;
    case HALO_TYPE_TQ1_0: at = offsetof(struct halo_block_tq1_0, d); break;
    case HALO_TYPE_TQ2_0: at = offsetof(struct halo_block_tq2_0, d); break;
    case HALO_TYPE_IQ1_M:
    case HALO_TYPE_NVFP4: return -ENOTSUP; /* no scale of its own, and none that can be a NaN */
    default: break;                        /* all others begin with their scale */
    }
    memcpy(data + at, &nan_f16, sizeof(nan_f16));
    return 0;
}

static const struct broken *broken_of(const struct halo_device_model *model)
{
    pthread_mutex_lock(&lock);
    const struct broken *broken = all;
    while (broken->model != model)
        broken = broken->next;
    pthread_mutex_unlock(&lock);
    return broken;
}

static int kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page, char *reason)
{
    if (broken_of(model)->fault == STALE_PAGE)
        return 0;
    return below->kv_copy(model, group, from_page, to_page, reason);
}

static int weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    struct halo_device_slot slot;
    const struct broken *broken = broken_of(model);
    const struct halo_weight *weight = &broken->plan.weights[index];
    int layer = -1, end = 0, r = 0;
    if (sscanf(weight->name, "blk.%d.%n", &layer, &end) == 1 && end > 0 &&
        (broken->layer == EVERY_LAYER || broken->layer == layer)) {
        r = below->weight_slot(model, index, &slot);
        assert(r == 0); /* its bytes are there */
        if (broken->fault == NORM_OFFSET && strcmp(weight->name + end, "attn_norm.weight") == 0)
            r = weight_lessen(weight, slot.data);
        else if (broken->fault == MIXED_NAN && strcmp(weight->name + end, "attn_v.weight") == 0)
            r = weight_spoil(weight, slot.data);
    }
    return r < 0 ? refuse(reason, r, "a type that it does not know") : below->weight_commit(model, index, reason);
}

const struct halo_device_ops *halo_inject_wrap(const struct halo_device_ops *inner)
{
    const char *what = getenv("HALO_INJECT");
    if (!inner || !what || !*what)
        return inner;
    assert(!all || below == inner);
    fprintf(stderr, "HALO_INJECT=%s: the numbers of device %s are wrong on purpose\n", what, inner->name);
    below = inner;
    table = *inner;
    table.model_create = model_create;
    table.model_destroy = model_destroy;
    table.weight_commit = weight_commit;
    table.kv_copy = kv_copy;
    return &table;
}
