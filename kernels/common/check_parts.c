/* check_parts.c: what the checks of ops are made of (check_priv.h). */
#include "check_priv.h"

#include <errno.h>
#include <float.h>

#include <common/reason.h>

int halo_check_refuse(const struct halo_check *c, const char *what, uint32_t have, uint32_t want)
{
    return halo_reason(c->reason, -ENOTSUP, "%s: %s is %u, wanted %u", c->op, what, have, want);
}

int halo_check_refuse_same(const struct halo_check *c, const char *what, uint16_t value, const char *others)
{
    return halo_reason(c->reason, -ENOTSUP, "%s: %s (value %u) must differ from %s", c->op, what, value, others);
}

int halo_check_refuse_index(const struct halo_check *c, const char *what, uint32_t index, uint32_t n)
{
    return halo_reason(c->reason, -ENOTSUP, "%s: %s %u of %u", c->op, what, index, n);
}

int halo_check_value(const struct halo_check *c, const char *what, uint16_t value, uint32_t width)
{
    if (value >= c->plan->n_values)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s is value %u of %u", c->op, what, value, c->plan->n_values);
    uint32_t have = c->plan->values[value].width;
    return width != 0 && have != width ? halo_check_refuse(c, what, have, width) : 0;
}

uint32_t halo_check_width_of(const struct halo_check *c, uint16_t value)
{
    return value < c->plan->n_values ? c->plan->values[value].width : 0;
}

static int check_weight(const struct halo_check *c, uint32_t weight, enum halo_weight_role role, uint32_t n_cols,
                        bool can_stream)
{
    if (weight >= c->plan->n_weights)
        return halo_check_refuse_index(c, "weight", weight, c->plan->n_weights);
    const struct halo_weight *w = &c->plan->weights[weight];
    const struct halo_type_info type = halo_type_info(w->type);
    if (!type.name || w->type == HALO_TYPE_I32)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has type %d, which has no kernels", c->op, w->name,
                           (int)w->type);
    uint64_t n = (uint64_t)w->n_cols * w->n_rows * w->n_experts;
    bool fits = n > 0 && c->limits->weight_fits(role, w->type, role == HALO_WEIGHT_VECTOR ? n : w->n_cols);
    if (!fits || w->n_rows == 0 || w->n_experts == 0 ||
        w->n_bytes != halo_type_row_bytes(w->type, w->n_cols) * w->n_rows * w->n_experts)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s of type %s has no kernel for rows of %u", c->op, w->name,
                           type.name, w->n_cols);
    if (w->role != role)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s is declared as another kind of weight", c->op, w->name);
    if (w->n_cols != n_cols)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has rows of %u, its input has %u", c->op, w->name, w->n_cols,
                           n_cols);
    if (w->streamed > 0 && !can_stream)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s must be resident, this device cannot stream it", c->op,
                           w->name);
    return 0;
}

int halo_check_weight(const struct halo_check *c, uint32_t weight, enum halo_weight_role role, uint32_t n_cols)
{
    return check_weight(c, weight, role, n_cols, role == HALO_WEIGHT_EXPERTS && c->limits->streams);
}

int halo_check_factor(const struct halo_check *c, uint32_t weight, uint32_t n_cols)
{
    return check_weight(c, weight, HALO_WEIGHT_MATRIX, n_cols, c->limits->streams_layers);
}

int halo_check_vector(const struct halo_check *c, uint32_t weight, uint32_t n)
{
    return weight == HALO_WEIGHT_NONE ? 0 : halo_check_weight(c, weight, HALO_WEIGHT_VECTOR, n);
}

int halo_check_positive(const struct halo_check *c, const char *what, float number)
{
    return number >= 0 && number <= FLT_MAX
               ? 0
               : halo_reason(c->reason, -ENOTSUP, "%s: %s is %g, wanted a number of at least 0", c->op, what,
                             (double)number);
}
