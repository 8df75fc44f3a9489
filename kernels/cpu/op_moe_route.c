/* op_moe_route.c: router logits -> the n_used best experts and their weights (the format is in op.h).
 *
 * Device thread, rows on all threads. A NaN among the logits makes every weight of the row NaN; the experts chosen are
 * always n_used different ones that exist.
 */
#include <string.h>

#include "device_priv.h"

/* Marks the n_used largest, ties to the lowest id. A NaN loses against every number. */
static void choose(const float *logits, uint32_t n_expert, uint32_t n_used, int32_t *ret_expert)
{
    bool taken[HALO_CPU_EXPERTS_MAX] = {false};
    for (uint32_t s = 0; s < n_used; s++) {
        uint32_t best = n_expert;
        for (uint32_t e = 0; e < n_expert; e++)
            if (!taken[e] && (best == n_expert || logits[e] > logits[best] ||
                              (logits[best] != logits[best] && logits[e] == logits[e])))
                best = e;
        taken[best] = true;
        ret_expert[s] = (int32_t)best;
    }
}

static void route(const struct halo_cpu_lanes *lanes, const struct halo_op_moe_route *u, const float *logits,
                  float *choice)
{
    float power[HALO_CPU_EXPERTS_MAX];
    int32_t expert[HALO_CPU_EXPERTS_MAX];
    double all = 0, chosen = 0;
    choose(logits, u->n_expert, u->n_used, expert);
    lanes->exp(u->n_expert, logits, logits[expert[0]], power);
    for (uint32_t e = 0; e < u->n_expert; e++)
        all += (double)power[e];
    for (uint32_t s = 0; s < u->n_used; s++)
        chosen += (double)power[expert[s]] / all;
    for (uint32_t s = 0; s < u->n_used; s++)
        choice[s] = (float)((double)power[expert[s]] / all / (u->normalise ? chosen : 1) * (double)u->scale);
    memcpy(choice + u->n_used, expert, u->n_used * sizeof(expert[0]));
}

static void route_rows(struct halo_device_model *model, const struct halo_op *op, uint32_t first_row, uint32_t n_rows)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    for (uint32_t r = first_row; r < first_row + n_rows; r++)
        route(model->device->lanes, u, halo_cpu_row(model, u->logits, r), halo_cpu_row(model, u->choice, r));
}

void halo_cpu_op_moe_route(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_op_moe_route *u = &op->u.moe_route;
    halo_cpu_each_row(model, op, model->batch->n_rows, (u->n_used + 8) * u->n_expert, route_rows);
}
