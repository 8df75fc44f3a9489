/* cut.c: cuts a plan between layers (contract in cut_priv.h).
 *
 * A cut is possible between the ops of two layers where no more than HALO_HOP_VALUES values cross and no layer of
 * the cache is used on both sides. Of these places each stage's end is the one nearest to its share of the bytes: all
 * weights, and the cache of one context.
 */
#include "cut_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <common/op_parts.h>
#include <common/reason.h>

/* Where a layer of the cache stands in a table of all of them. */
struct layers {
    uint32_t first[HALO_KV_GROUPS_MAX + 1];
};

static struct layers layers_of(const struct halo_plan *plan)
{
    struct layers ret = {{0}};
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        ret.first[group + 1] = ret.first[group] + plan->kv[group].n_layers;
    return ret;
}

/* What a plan is looked at by: all of it in one piece of memory. */
struct view {
    const struct halo_plan *plan;
    struct layers layers;
    double *before;     /* [n_ops + 1] bytes of the ops in front */
    bool *can_cut;      /* [n_ops] */
    bool *is_live;      /* [n_values] */
    uint32_t *last_use; /* [layers of the cache] */
};

/* ---- what crosses ---- */

/* False: they are too many, or none. */
static bool hop_of(const struct view *v, struct halo_hop *ret)
{
    *ret = (struct halo_hop){0};
    for (uint32_t value = 0; value < v->plan->n_values; value++) {
        if (!v->is_live[value])
            continue;
        if (ret->n == HALO_HOP_VALUES)
            return false;
        ret->value[ret->n++] = (uint16_t)value;
    }
    return ret->n > 0;
}

/* Steps over op `i`, backwards: what is live behind it becomes what is live in front of it. */
static void step_back(struct view *v, uint32_t i)
{
    const struct halo_op_values in = halo_op_inputs(&v->plan->ops[i]), out = halo_op_outputs(&v->plan->ops[i]);
    for (uint32_t k = 0; k < HALO_OP_VALUES; k++)
        if (out.value[k] != HALO_NONE)
            v->is_live[out.value[k]] = false;
    for (uint32_t k = 0; k < HALO_OP_VALUES; k++)
        if (in.value[k] != HALO_NONE)
            v->is_live[in.value[k]] = true;
}

/* The hop in front of op `at`. */
static void hop_at(struct view *v, uint32_t at, struct halo_hop *ret)
{
    memset(v->is_live, 0, v->plan->n_values * sizeof(*v->is_live));
    for (uint32_t i = v->plan->n_ops; i-- > at;)
        step_back(v, i);
    hop_of(v, ret);
}

static void find_places(struct view *v)
{
    const struct halo_plan *plan = v->plan;
    struct halo_hop hop;
    for (uint32_t i = plan->n_ops; i-- > 0;) {
        step_back(v, i);
        v->can_cut[i] = i > 0 && plan->ops[i].layer != HALO_NONE && plan->ops[i - 1].layer != HALO_NONE &&
                        plan->ops[i].layer != plan->ops[i - 1].layer && hop_of(v, &hop);
    }
    uint32_t busy = 0; /* until here a layer of the cache is used that was used before */
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        struct halo_op op = plan->ops[i];
        struct halo_op_layer used[HALO_OP_LAYERS];
        v->can_cut[i] = v->can_cut[i] && busy < i;
        for (uint32_t k = 0, n = halo_op_layers(&op, used); k < n; k++) {
            uint32_t last = v->last_use[v->layers.first[*used[k].group] + *used[k].layer];
            busy = last > busy ? last : busy;
        }
    }
}

/* ---- where ---- */

/* Of the layers of the cache that the op writes first. */
static uint64_t cache_bytes(const struct halo_plan *plan, struct halo_op *op)
{
    struct halo_op_layer at[HALO_OP_LAYERS];
    uint64_t bytes = 0;
    if (op->kind == HALO_OP_ATTEND || op->kind == HALO_OP_ATTEND_BLOCKS || op->kind == HALO_OP_BLOCKS_CHOOSE)
        return 0;
    for (uint32_t k = 0, n = halo_op_layers(op, at); k < n; k++) {
        const struct halo_kv_group *kv = &plan->kv[*at[k].group];
        uint32_t n_pages = (plan->n_context + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS;
        uint32_t span = halo_kv_group_span(kv, plan->max_rows);
        bytes += halo_kv_page_bytes(kv) / kv->n_layers * (span < n_pages ? span : n_pages);
    }
    return bytes;
}

static uint64_t op_bytes(const struct halo_plan *plan, uint32_t index)
{
    struct halo_op op = plan->ops[index];
    uint32_t *weight[HALO_OP_WEIGHTS];
    uint64_t bytes = cache_bytes(plan, &op);
    for (uint32_t k = 0, n = halo_op_weights(&op, weight); k < n; k++)
        if (*weight[k] != HALO_WEIGHT_NONE)
            bytes += plan->weights[*weight[k]].n_bytes;
    return bytes;
}

/* The plan's bytes, uses and places. */
static int view_make(struct view *ret, const struct halo_plan *plan, char *reason)
{
    *ret = (struct view){.plan = plan, .layers = layers_of(plan)};
    uint32_t n_layers = ret->layers.first[plan->n_kv_groups];
    uint8_t *memory =
        calloc(1, (plan->n_ops + 1) * sizeof(double) + n_layers * sizeof(uint32_t) + plan->n_ops + plan->n_values);
    if (!memory)
        return halo_reason(reason, -ENOMEM, "no memory to divide a plan of %u ops into stages", plan->n_ops);
    ret->before = (double *)(void *)memory;
    ret->last_use = (uint32_t *)(void *)(ret->before + plan->n_ops + 1);
    ret->can_cut = (bool *)(ret->last_use + n_layers);
    ret->is_live = ret->can_cut + plan->n_ops;
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        struct halo_op op = plan->ops[i];
        struct halo_op_layer used[HALO_OP_LAYERS];
        ret->before[i + 1] = ret->before[i] + (double)op_bytes(plan, i);
        for (uint32_t k = 0, n = halo_op_layers(&op, used); k < n; k++)
            ret->last_use[ret->layers.first[*used[k].group] + *used[k].layer] = i;
    }
    find_places(ret);
    return 0;
}

static void view_drop(struct view *v)
{
    free(v->before);
}

static double distance(double a, double b)
{
    return a > b ? a - b : b - a;
}

/* Sets where stages 1 .. n - 1 begin, so that each of those behind has a place left. Returns how many places there are
 * when they are too few, else n - 1. */
static uint32_t choose(const struct view *v, uint32_t n, const uint64_t share[], uint32_t ret[])
{
    uint32_t n_ops = v->plan->n_ops, n_places = 0;
    double shares = 0, wanted = 0;
    for (uint32_t i = 0; i < n_ops; i++)
        n_places += v->can_cut[i];
    if (n_places < n - 1)
        return n_places;
    for (uint32_t i = 0; i < n; i++)
        shares += (double)share[i];
    for (uint32_t k = 1, at = 1; k < n; k++) {
        wanted += v->before[n_ops] * (double)share[k - 1] / shares;
        ret[k] = 0;
        for (; n_places >= n - k; at++) {
            if (!v->can_cut[at])
                continue;
            if (ret[k] > 0 && distance(v->before[at], wanted) >= distance(v->before[ret[k]], wanted))
                break; /* the next stage may begin there */
            ret[k] = at;
            n_places--;
        }
    }
    return n - 1;
}

/* ---- a stage ---- */

#define UNUSED UINT32_MAX

/* Gives the layers of the cache that the stage uses new numbers, in their order; the groups stay, some without a
 * layer. `number` has a place for each layer. */
static void keep_layers(struct halo_stage *stage, const struct halo_plan *plan, uint32_t *number)
{
    const struct layers layers = layers_of(plan);
    struct halo_op_layer used[HALO_OP_LAYERS];
    memset(number, 0xff, layers.first[plan->n_kv_groups] * sizeof(*number));
    for (uint32_t i = 0; i < stage->plan.n_ops; i++)
        for (uint32_t k = 0, n = halo_op_layers(&stage->ops[i], used); k < n; k++)
            number[layers.first[*used[k].group] + *used[k].layer] = 0;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        stage->plan.kv[group].n_layers = 0;
        for (uint32_t i = layers.first[group]; i < layers.first[group + 1]; i++)
            if (number[i] != UNUSED)
                number[i] = stage->plan.kv[group].n_layers++;
    }
    for (uint32_t i = 0; i < stage->plan.n_ops; i++)
        for (uint32_t k = 0, n = halo_op_layers(&stage->ops[i], used); k < n; k++)
            *used[k].layer = number[layers.first[*used[k].group] + *used[k].layer];
}

/* The weights that the stage uses, in the order of the plan. */
static void keep_weights(struct halo_stage *stage, const struct halo_plan *plan, uint32_t *number)
{
    uint32_t *used[HALO_OP_WEIGHTS];
    memset(number, 0xff, plan->n_weights * sizeof(*number));
    for (uint32_t i = 0; i < stage->plan.n_ops; i++)
        for (uint32_t k = 0, n = halo_op_weights(&stage->ops[i], used); k < n; k++)
            if (*used[k] != HALO_WEIGHT_NONE)
                number[*used[k]] = 0;
    stage->plan.n_weights = 0;
    for (uint32_t w = 0; w < plan->n_weights; w++) {
        if (number[w] == UNUSED)
            continue;
        number[w] = stage->plan.n_weights++;
        stage->weights[number[w]] = plan->weights[w];
        stage->weight_of[number[w]] = w;
    }
    for (uint32_t i = 0; i < stage->plan.n_ops; i++)
        for (uint32_t k = 0, n = halo_op_weights(&stage->ops[i], used); k < n; k++)
            if (*used[k] != HALO_WEIGHT_NONE)
                *used[k] = number[*used[k]];
}

static int fill_stage(struct halo_stage *stage, struct view *v, uint32_t begin, uint32_t end, char *reason)
{
    const struct halo_plan *plan = v->plan;
    uint32_t n_ops = end - begin, n_layers = v->layers.first[plan->n_kv_groups];
    uint32_t *number = malloc((n_layers + plan->n_weights + 1) * sizeof(*number));
    stage->ops = malloc(n_ops * sizeof(*stage->ops));
    stage->weights = calloc(plan->n_weights + 1, sizeof(*stage->weights));
    stage->weight_of = calloc(plan->n_weights + 1, sizeof(*stage->weight_of));
    if (!number || !stage->ops || !stage->weights || !stage->weight_of) {
        free(number);
        return halo_reason(reason, -ENOMEM, "no memory for a stage of %u ops", n_ops);
    }
    memcpy(stage->ops, plan->ops + begin, n_ops * sizeof(*stage->ops));
    stage->plan = *plan;
    stage->plan.ops = stage->ops;
    stage->plan.n_ops = n_ops;
    stage->plan.weights = stage->weights;
    if (begin > 0)
        hop_at(v, begin, &stage->plan.takes);
    if (end < plan->n_ops) {
        hop_at(v, end, &stage->plan.leaves);
        stage->plan.max_outputs = 0;
    }
    stage->first_layer = stage->last_layer = HALO_NONE;
    for (uint32_t i = 0; i < n_ops; i++) {
        uint16_t layer = stage->ops[i].layer;
        stage->first_layer = stage->first_layer == HALO_NONE ? layer : stage->first_layer;
        stage->last_layer = layer == HALO_NONE ? stage->last_layer : layer;
    }
    keep_layers(stage, plan, number);
    keep_weights(stage, plan, number);
    free(number);
    return 0;
}

int halo_cut_make(struct halo_cut *ret, const struct halo_plan *plan, uint32_t n, const uint64_t share[], char *reason)
{
    uint32_t begin[HALO_STAGES_MAX + 1] = {0};
    struct view view;
    *ret = (struct halo_cut){.n = n};
    int r = view_make(&view, plan, reason);
    if (r)
        return r;
    uint32_t n_places = choose(&view, n, share, begin);
    if (n_places < n - 1)
        r = halo_reason(reason, -ENOTSUP,
                        "the model can be divided in %u place%s between its layers, %u devices need %u", n_places,
                        n_places == 1 ? "" : "s", n, n - 1);
    begin[n] = plan->n_ops;
    for (uint32_t i = 0; i < n && !r; i++)
        r = fill_stage(&ret->stage[i], &view, begin[i], begin[i + 1], reason);
    view_drop(&view);
    if (r)
        halo_cut_finish(ret);
    return r;
}

void halo_cut_finish(struct halo_cut *cut)
{
    for (uint32_t i = 0; i < cut->n; i++) {
        free(cut->stage[i].ops);
        free(cut->stage[i].weights);
        free(cut->stage[i].weight_of);
    }
    *cut = (struct halo_cut){0};
}
