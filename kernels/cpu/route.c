/* route.c: the router's logits of a row -> the n_used best experts and their weights (the format is in op.h).
 *
 * A NaN among the logits makes every weight of the row NaN; the experts chosen are always n_used different ones that
 * exist.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

struct route { /* of one row */
    double score[HALO_CPU_EXPERTS_MAX];
    double all; /* sum of the scores */
    float key[HALO_CPU_EXPERTS_MAX];
    bool taken[HALO_CPU_EXPERTS_MAX];
    int32_t expert[HALO_CPU_EXPERTS_MAX];
};

/* Whether key a ranks before key b of a lower id. A NaN loses against every number. */
static bool ranks_before(float a, float b)
{
    return a > b || (b != b && a == a);
}

/* Marks the n_used largest keys that are not taken, ties to the lowest id. */
static void choose(struct route *row, uint32_t n_expert, uint32_t n_used)
{
    for (uint32_t s = 0; s < n_used; s++) {
        uint32_t best = n_expert;
        for (uint32_t e = 0; e < n_expert; e++)
            if (!row->taken[e] && (best == n_expert || ranks_before(row->key[e], row->key[best])))
                best = e;
        row->taken[best] = true;
        row->expert[s] = (int32_t)best;
    }
}

/* Takes the experts of all groups but the best ones out of the choice. */
static void choose_groups(struct route *row, const struct halo_op_moe_route *u)
{
    uint32_t size = u->n_expert / u->n_groups;
    struct route groups;
    memset(groups.taken, 0, u->n_groups * sizeof(groups.taken[0]));
    for (uint32_t g = 0; g < u->n_groups; g++) {
        const float *key = row->key + (size_t)g * size;
        float best = key[0], second = key[1];
        if (ranks_before(second, best)) {
            best = key[1];
            second = key[0];
        }
        for (uint32_t e = 2; e < size; e++) {
            second = ranks_before(key[e], best) ? best : ranks_before(key[e], second) ? key[e] : second;
            best = ranks_before(key[e], best) ? key[e] : best;
        }
        groups.key[g] = best + second;
    }
    choose(&groups, u->n_groups, u->n_groups_used);
    for (uint32_t e = 0; e < u->n_expert; e++)
        row->taken[e] = !groups.taken[e / size];
}

static void score_softmax(const struct halo_cpu_lanes *lanes, uint32_t n, const float *logits, struct route *row)
{
    float power[HALO_CPU_EXPERTS_MAX], top = logits[0];
    double all = 0;
    for (uint32_t e = 1; e < n; e++)
        top = ranks_before(logits[e], top) ? logits[e] : top;
    lanes->exp(n, logits, top, power);
    for (uint32_t e = 0; e < n; e++)
        all += (double)power[e];
    for (uint32_t e = 0; e < n; e++)
        row->score[e] = (double)power[e] / all;
}

static void score(const struct halo_cpu_lanes *lanes, const struct halo_op_moe_route *u, const float *logits,
                  struct route *row)
{
    float power[HALO_CPU_EXPERTS_MAX];
    row->all = 0;
    switch (u->gate) {
    case HALO_MOE_SOFTMAX: score_softmax(lanes, u->n_expert, logits, row); break;
    case HALO_MOE_SIGMOID:
        for (uint32_t e = 0; e < u->n_expert; e++)
            power[e] = -logits[e];
        lanes->exp(u->n_expert, power, 0, power);
        for (uint32_t e = 0; e < u->n_expert; e++)
            row->score[e] = 1 / (1 + (double)power[e]);
        break;
    case HALO_MOE_SQRT_SOFTPLUS:
        for (uint32_t e = 0; e < u->n_expert; e++)
            row->score[e] = sqrt(fmax((double)logits[e], 0) + log1p(exp(-fabs((double)logits[e]))));
        break;
    }
    for (uint32_t e = 0; e < u->n_expert; e++)
        row->all += row->score[e];
}

/* Chooses by score + bias; `bias` may be NULL. */
static void choose_best(const struct halo_op_moe_route *u, const float *logits, const float *bias, struct route *row)
{
    memset(row->taken, 0, u->n_expert * sizeof(row->taken[0]));
    for (uint32_t e = 0; e < u->n_expert; e++) /* scores rise with their logits, which tell closer ones apart */
        row->key[e] = bias ? (float)row->score[e] + bias[e] : u->n_groups > 1 ? (float)row->score[e] : logits[e];
    if (u->n_groups > 1)
        choose_groups(row, u);
    choose(row, u->n_expert, u->n_used);
}

static void route(const struct halo_cpu_lanes *lanes, const struct halo_op_moe_route *u, const float *logits,
                  const float *bias, int32_t token, float *choice)
{
    struct route row;
    double chosen = 0;
    score(lanes, u, logits, &row);
    if (u->table)
        memcpy(row.expert, u->table + (size_t)token * u->n_used, u->n_used * sizeof(row.expert[0]));
    else
        choose_best(u, logits, bias, &row);
    for (uint32_t s = 0; s < u->n_used; s++)
        chosen += row.score[row.expert[s]];
    chosen = chosen < (double)HALO_MOE_SUM_MIN ? (double)HALO_MOE_SUM_MIN : chosen;
    double whole = row.all == row.all ? (u->normalise ? chosen : 1) : row.all;
    for (uint32_t s = 0; s < u->n_used; s++)
        choice[s] = (float)(row.score[row.expert[s]] / whole * (double)u->scale);
    memcpy(choice + u->n_used, row.expert, u->n_used * sizeof(row.expert[0]));
}

void halo_cpu_route_row(const struct halo_device_model *model, const struct halo_op_moe_route *u, uint32_t row,
                        float *ret_choice)
{
    const float *bias = u->bias == HALO_WEIGHT_NONE ? NULL : halo_cpu_vector(model, u->bias);
    route(model->device->lanes, u, halo_cpu_row(model, u->logits, row), bias, model->batch->token[row], ret_choice);
}
