/* fuse_product.c: which products of one row have the op behind them in their epilogue (contract in compile_priv.h).
 *
 * The epilogue needs whole units of 32 weight rows in a block (gfx/fused.h), so the work is in larger parts than that
 * of a product alone. Where the last turn of these leaves so much of the GPU idle that memory is idle with it, what
 * could have been read meanwhile costs more than the launch that is saved.
 */
#include <string.h>

#include "compile_priv.h"

/* Bytes that a GPU reads in the time of the launch that is saved. NVIDIA's: measured on one with 4 TB/s. AMD's: 3 us at
 * 215 GB/s (docs/KERNELS.md). */
#define SPARE_BYTES (4u << 20)
#define SPARE_BYTES_AMD (640u << 10)
#define BUSY_THREADS_AMD                                                                                               \
    256 /* whose loads keep the memory of a unit of AMD's chips busy; NVIDIA's: all that it holds */

/* Whether the kernel exists, and its blocks have about as much to do as each other. n_bytes: of the matrices. */
static bool is_worth(const struct halo_hip_compiler *c, uint32_t op, uint32_t type, uint32_t n_units, uint64_t n_bytes)
{
    const struct halo_device *device = c->model->device;
    int variant = halo_hip_kernel_find(device, op, type, 1);
    if (variant < 0)
        return false;
    const bool is_amd = strncmp(device->properties.arch, "gfx", 3) == 0;
    uint64_t resident = device->n_resident[variant], wanted = resident;
    uint64_t busy = (uint64_t)device->properties.n_units * BUSY_THREADS_AMD / halo_hip_variants[variant].block;
    if (is_amd && busy < wanted)
        wanted = busy;
    uint64_t last = resident ? (n_units - 1) % resident + 1 : 0; /* blocks of the last turn */
    uint64_t spare = last < wanted ? wanted - last : 0;
    return n_bytes * spare / n_units <= (is_amd ? SPARE_BYTES_AMD : SPARE_BYTES);
}

static uint64_t matrix_bytes(const struct halo_weight *w)
{
    return (uint64_t)w->n_rows * halo_hip_row_layout(halo_hip_form(w->type), w->n_cols).stride;
}

/* Whether a product of quantized weights can take a row of x that lacks its factor. */
static bool takes_scaled(const struct halo_hip_compiler *c, uint32_t weight)
{
    uint32_t type = c->plan->weights[weight].type;
    return halo_hip_quantized(type) && halo_hip_kernel_find(c->model->device, HALO_HIP_GEMV_SCALED, type, 1) >= 0;
}

/* Whether the next ops are products that can take such a row of x, and nothing else reads it. */
static bool readers_take_scaled(const struct halo_hip_compiler *c, uint32_t index, uint16_t x)
{
    const struct halo_plan *plan = c->plan;
    uint32_t n = 0;
    for (; index < plan->n_ops; index++, n++) {
        const struct halo_op *op = &plan->ops[index];
        if (op->kind == HALO_OP_LOGITS && op->u.logits.x == x) {
            if (!takes_scaled(c, op->u.logits.weight))
                return false;
        } else if (op->kind == HALO_OP_MATMUL && op->u.matmul.x == x) {
            for (uint32_t k = 0; k < op->u.matmul.n; k++)
                if (!takes_scaled(c, op->u.matmul.weight[k]))
                    return false;
        } else {
            break;
        }
        if (halo_op_writes(op, x))
            return false;
    }
    return n > 0 && halo_hip_is_dead(plan, index, x);
}

/* Whether the value's activation row, if there is one, is whole. */
static bool is_whole(const struct halo_hip_compiler *c, uint16_t value)
{
    for (uint32_t i = 0; i < HALO_HIP_ACTS; i++)
        if (c->forms.act[i].value == value && c->forms.act[i].factor.squares)
            return false;
    return true;
}

bool halo_hip_fuse_product_norm(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_product_norm *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (c->max_rows > 1 || index + 1 >= c->plan->n_ops || op[0].kind != HALO_OP_MATMUL || op[1].kind != HALO_OP_RMSNORM)
        return false;
    *ret = (struct halo_hip_product_norm){&op[0].u.matmul, &op[1].u.rmsnorm};
    const struct halo_op_matmul *u = ret->product;
    const struct halo_op_rmsnorm *norm = ret->norm;
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    if (u->n != 1 || norm->add != u->out[0] || norm->centre || norm->out == norm->x || u->x == norm->out ||
        !halo_hip_quantized(w->type) || halo_hip_scaled(w) || w->n_rows % HALO_HIP_UNIT != 0 || !is_whole(c, u->x))
        return false;
    return (norm->out == norm->add || halo_hip_is_dead(c->plan, index + HALO_HIP_PAIR_OPS, norm->add)) &&
           readers_take_scaled(c, index + HALO_HIP_PAIR_OPS, norm->out) &&
           is_worth(c, HALO_HIP_GEMV_NORM, w->type, w->n_rows / HALO_HIP_UNIT, matrix_bytes(w));
}

bool halo_hip_fuse_product_glu(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_product_glu *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (c->max_rows > 1 || index + 2 >= c->plan->n_ops || op[0].kind != HALO_OP_MATMUL || op[1].kind != HALO_OP_GLU ||
        op[2].kind != HALO_OP_MATMUL)
        return false;
    *ret = (struct halo_hip_product_glu){&op[0].u.matmul, &op[1].u.glu};
    const struct halo_op_matmul *u = ret->product, *next = &op[2].u.matmul;
    const struct halo_op_glu *glu = ret->glu;
    const struct halo_weight *gate = &c->plan->weights[u->weight[0]], *up = &c->plan->weights[u->weight[1]];
    if (u->n != 2 || glu->gate != u->out[0] || glu->up != u->out[1] || next->x != glu->out ||
        !halo_hip_quantized(gate->type) || halo_hip_form(gate->type) != halo_hip_form(up->type) ||
        halo_hip_scaled(gate) || halo_hip_scaled(up) || gate->n_rows != up->n_rows || gate->n_rows % HALO_HIP_UNIT != 0)
        return false;
    for (uint32_t k = 0; k < next->n; k++)
        if (!halo_hip_quantized(c->plan->weights[next->weight[k]].type))
            return false;
    const uint16_t inner[] = {glu->gate, glu->up, glu->out};
    for (uint32_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
        if (!halo_hip_is_dead(c->plan, index + (inner[i] == glu->out ? 3 : 2), inner[i]))
            return false;
    return is_worth(c, HALO_HIP_GEMV_GLU, gate->type, gate->n_rows / HALO_HIP_UNIT,
                    matrix_bytes(gate) + matrix_bytes(up));
}

bool halo_hip_fuse_glu_product(const struct halo_hip_compiler *c, uint32_t index, struct halo_hip_glu_product *ret)
{
    const struct halo_op *op = &c->plan->ops[index];
    if (c->max_rows > 1 || index + 1 >= c->plan->n_ops || op[0].kind != HALO_OP_GLU || op[1].kind != HALO_OP_MOE_MATMUL)
        return false;
    *ret = (struct halo_hip_glu_product){&op[0].u.glu, &op[1].u.moe_matmul};
    const struct halo_op_glu *glu = ret->glu;
    const struct halo_op_moe_matmul *u = ret->product;
    const struct halo_weight *w = &c->plan->weights[u->weight[0]];
    return u->n == 1 && u->per_slot && u->x == glu->out && u->out[0] != glu->gate && u->out[0] != glu->up &&
           w->n_cols <= HALO_MOE_GLU_COLS && w->n_cols % HALO_HIP_UNIT == 0 && !halo_hip_scaled(w) &&
           w->streamed == 0 && c->plan->values[glu->out].width == u->n_used * w->n_cols &&
           halo_hip_is_dead(c->plan, index + HALO_HIP_PAIR_OPS, glu->out) &&
           halo_hip_kernel_find(c->model->device, HALO_HIP_MOE_GEMV_GLU, w->type, 1) >= 0;
}
