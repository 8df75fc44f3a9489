/* program.c: compiles a plan into the launches of each class of batches (contract in program_priv.h).
 *
 * A class is a number of rows, as variants.def tells them apart, and a shape: what attention meets. For each of them
 * the ops are taken in order: those that fuse together (fuse.c) are one launch, an op that can leaves the form of
 * activations that the next one reads, and products choose their kernels (product.c, forms.c).
 */
#include <errno.h>
#include <stdlib.h>

#include "compile_priv.h"

#define BLOCKS_PER_UNIT 4 /* that keep a compute unit busy */

static halo_hip_emit_fn *const emit_op[HALO_OP_COUNT] = {
    [HALO_OP_EMBED] = halo_hip_emit_embed,
    [HALO_OP_RMSNORM] = halo_hip_emit_rmsnorm,
    [HALO_OP_MATMUL] = halo_hip_emit_matmul,
    [HALO_OP_QK_NORM] = halo_hip_emit_qk_norm,
    [HALO_OP_ROPE] = halo_hip_emit_rope,
    [HALO_OP_KV_WRITE] = halo_hip_emit_kv_write,
    [HALO_OP_ATTEND] = halo_hip_emit_attend,
    [HALO_OP_GLU] = halo_hip_emit_glu,
    [HALO_OP_MOE_ROUTE] = halo_hip_emit_moe_route,
    [HALO_OP_MOE_MATMUL] = halo_hip_emit_moe_matmul,
    [HALO_OP_MOE_SUM] = halo_hip_emit_moe_sum,
    [HALO_OP_ADD] = halo_hip_emit_add,
    [HALO_OP_CONCAT] = halo_hip_emit_concat,
    [HALO_OP_LOGITS] = halo_hip_emit_logits,
    [HALO_OP_CONV1D] = halo_hip_emit_conv1d,
    [HALO_OP_DELTA_RULE] = halo_hip_emit_delta_rule,
    [HALO_OP_SSM_SCAN] = halo_hip_emit_ssm_scan,
    [HALO_OP_STREAMS_MIX] = halo_hip_emit_streams_mix,
    [HALO_OP_STREAMS_ADD] = halo_hip_emit_streams_add,
    [HALO_OP_COMPRESS] = halo_hip_emit_compress,
    [HALO_OP_BLOCKS_CHOOSE] = halo_hip_emit_blocks_choose,
    [HALO_OP_ATTEND_BLOCKS] = halo_hip_emit_attend_blocks,
};

/* Every value that the op writes has lost its forms. */
static void forget_outputs(struct halo_hip_forms *forms, const struct halo_op *op)
{
    const struct halo_op_values out = halo_op_outputs(op);
    for (uint32_t i = 0; i < HALO_OP_VALUES; i++)
        if (out.value[i] != HALO_NONE)
            halo_hip_forms_wrote(forms, out.value[i]);
}

/* Has the op leave its output as activation rows as well, where it can and an op behind it reads them: sets c->act. */
static void leave_act(struct halo_hip_compiler *c, const struct halo_op *op)
{
    uint16_t out = HALO_NONE;
    uint32_t n_cols = 0;
    bool can = true;
    c->act = NULL;
    c->act_cols = 0;
    switch (op->kind) {
    case HALO_OP_RMSNORM:
        out = op->u.rmsnorm.out;
        n_cols = c->plan->values[out].width;
        break;
    case HALO_OP_GLU: out = op->u.glu.out; break; /* rows of any length that divides it */
    case HALO_OP_ATTEND:
        out = op->u.attend.out;
        n_cols = c->plan->kv[op->u.attend.kv_group].head_dim_v;
        can = n_cols % HALO_HIP_UNIT == 0 && c->shape != HALO_HIP_MIXED;
        if (!c->plan->kv[op->u.attend.kv_group].latent) /* else the next product has a matrix for each head */
            n_cols *= op->u.attend.n_head;
        break;
    default: return;
    }
    uint32_t wanted = can ? halo_hip_fuse_act(c, out, &c->act_per_row) : 0;
    if (wanted == 0 || (n_cols != 0 && n_cols != wanted))
        return;
    c->act_cols = wanted;
    c->act = halo_hip_forms_take_act(c, out, wanted);
}

/* Whether the op has a kernel that leaves rows of f16; a GLU leaves nothing beside them. */
static bool can_leave_half(const struct halo_hip_compiler *c, const struct halo_op *op, uint32_t n_cols, bool alone)
{
    if (op->kind == HALO_OP_RMSNORM)
        return !op->u.rmsnorm.centre && op->u.rmsnorm.x != op->u.rmsnorm.out;
    uint32_t kernel = HALO_HIP_GLU_HALF_SILU + (uint32_t)op->u.glu.act;
    return alone && n_cols <= HALO_GLU_HALF_COLS &&
           halo_hip_kernel_find(c->model->device, kernel, HALO_HIP_TYPE_ANY, c->min_rows) >= 0;
}

/* Has a norm or a GLU of many rows leave them in f16 for the products behind it, and as f32 only where others read
 * them: sets c->half. */
static void leave_half(struct halo_hip_compiler *c, const struct halo_op *op)
{
    bool alone = false;
    c->half = NULL;
    c->half_alone = false;
    if (op->kind != HALO_OP_RMSNORM && op->kind != HALO_OP_GLU)
        return;
    uint16_t out = op->kind == HALO_OP_RMSNORM ? op->u.rmsnorm.out : op->u.glu.out;
    uint32_t n_cols = halo_hip_fuse_half(c, out, &c->half_per_row, &alone);
    uint32_t per_row = op->kind == HALO_OP_RMSNORM ? 1 : c->half_per_row;
    if (n_cols == 0 || c->plan->values[out].width != n_cols * per_row || !can_leave_half(c, op, n_cols, alone))
        return;
    halo_hip_forms_set_half(c, HALO_HIP_HALF_SCRATCH, out, n_cols, false);
    c->half = c->model->scratch.half;
    c->half_cols = n_cols;
    c->half_alone = alone;
}

static int compile_latent(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_latent *latent)
{
    for (uint32_t i = 0; i < HALO_HIP_LATENT_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index;
    int r = halo_hip_emit_latent_heads(c, latent);
    c->op = index + HALO_HIP_LATENT_DOWN;
    uint32_t out_stride = c->plan->kv[latent->write->kv_group].head_dim_k;
    return r ? r : halo_hip_emit_head_matmul(c, latent->down, latent->q->out, out_stride);
}

static int compile_router(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_router *router)
{
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index + 1; /* which knows the tables of experts */
    return halo_hip_emit_router(c, router);
}

static int compile_router_norm(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_router_norm *router)
{
    for (uint32_t i = 0; i < HALO_HIP_ROUTER_NORM_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index;
    leave_act(c, &c->plan->ops[index]);
    leave_half(c, &c->plan->ops[index]);
    c->op = index + 2; /* which knows the tables of experts */
    return halo_hip_emit_router_norm(c, router);
}

static int compile_sum_norm(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_sum_norm *pair)
{
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index + 1;
    leave_act(c, &c->plan->ops[index + 1]);
    leave_half(c, &c->plan->ops[index + 1]);
    return halo_hip_emit_sum_norm(c, pair);
}

static int compile_product_norm(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_product_norm *pair)
{
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index + 1;
    return halo_hip_emit_product_norm(c, pair);
}

static int compile_product_glu(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_product_glu *pair)
{
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index + 1;
    return halo_hip_emit_product_glu(c, pair);
}

static int compile_glu_product(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_glu_product *pair)
{
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &c->plan->ops[index + i]);
    c->op = index + 1;
    return halo_hip_emit_glu_product(c, pair);
}

static int compile_glu_rows(struct halo_hip_compiler *c, uint32_t index, const struct halo_hip_glu_rows *rows)
{
    const struct halo_op *product = &c->plan->ops[index];
    const struct halo_hip_half_form *form = &c->forms.half[HALO_HIP_HALF_OF_GLU];
    for (uint32_t i = 0; i < HALO_HIP_PAIR_OPS; i++)
        forget_outputs(&c->forms, &product[i]);
    halo_hip_forms_set_half(c, HALO_HIP_HALF_OF_GLU, rows->glu->out, rows->n_cols, false);
    c->glu =
        (struct halo_glu_arg){.half = form->half,
                              .shift = form->half ? (uint8_t *)(form->scale + c->plan->max_rows * rows->per_row) : NULL,
                              .act = rows->glu->act,
                              .limit = rows->glu->limit};
    c->has_glu = true;
    c->op = index;
    int r = emit_op[product->kind](c, product);
    c->has_glu = false;
    c->op = index + 1;
    return r ? r : halo_hip_emit_half_align(c, rows);
}

/* An op by itself, or those from `index` on around a cache of heads. */
static int compile_heads(struct halo_hip_compiler *c, uint32_t index, uint32_t *ret_n)
{
    struct halo_hip_heads heads;
    bool fused = halo_hip_fuse_heads(c, index, &heads);
    *ret_n = fused ? heads.n_ops : 1;
    c->op = fused && heads.attend ? index + heads.n_ops - 1 : index;
    /* q and k stay as they are where attention does it all. */
    const struct halo_op *last = &c->plan->ops[c->op];
    forget_outputs(&c->forms, fused && !heads.attend ? &c->plan->ops[index + heads.n_ops - 2] : last);
    leave_act(c, last);
    leave_half(c, last);
    return fused ? halo_hip_emit_heads(c, &heads) : emit_op[last->kind](c, last);
}

/* The ops from `index` on that belong together; ret_n: how many they are. */
static int compile_ops(struct halo_hip_compiler *c, uint32_t index, uint32_t *ret_n)
{
    struct halo_hip_latent latent;
    struct halo_hip_router router;
    struct halo_hip_router_norm router_norm;
    struct halo_hip_sum_norm pair;
    struct halo_hip_product_norm product_norm;
    struct halo_hip_product_glu product_glu;
    struct halo_hip_glu_product glu_product;
    struct halo_hip_glu_rows glu_rows;
    if (halo_hip_fuse_latent(c, index, &latent)) {
        *ret_n = HALO_HIP_LATENT_OPS;
        return compile_latent(c, index, &latent);
    }
    if (halo_hip_fuse_router_norm(c, index, &router_norm)) {
        *ret_n = HALO_HIP_ROUTER_NORM_OPS;
        return compile_router_norm(c, index, &router_norm);
    }
    if (halo_hip_fuse_router(c, index, &router)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_router(c, index, &router);
    }
    if (halo_hip_fuse_last_norm(c, index)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        c->op = index + 1;
        c->act = NULL;
        c->half = NULL;
        c->half_alone = false;
        return halo_hip_emit_last_norm(c, &c->plan->ops[index].u.rmsnorm, &c->plan->ops[index + 1].u.logits);
    }
    if (halo_hip_fuse_sum_norm(c, index, &pair)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_sum_norm(c, index, &pair);
    }
    if (halo_hip_fuse_product_norm(c, index, &product_norm)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_product_norm(c, index, &product_norm);
    }
    if (halo_hip_fuse_product_glu(c, index, &product_glu)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_product_glu(c, index, &product_glu);
    }
    if (halo_hip_fuse_glu_product(c, index, &glu_product)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_glu_product(c, index, &glu_product);
    }
    if (halo_hip_fuse_glu_rows(c, index, &glu_rows)) {
        *ret_n = HALO_HIP_PAIR_OPS;
        return compile_glu_rows(c, index, &glu_rows);
    }
    return compile_heads(c, index, ret_n);
}

static void begin_class(struct halo_hip_compiler *c, uint32_t row_class, enum halo_hip_shape shape)
{
    const struct halo_hip_row_class *rows = &halo_hip_row_classes[row_class];
    uint32_t most = c->plan->max_rows;
    if (shape == HALO_HIP_APART && most > HALO_HIP_ITEMS_MAX)
        most = HALO_HIP_ITEMS_MAX;
    c->shape = shape;
    c->min_rows = rows->min;
    c->max_rows = rows->max < most ? rows->max : most;
    c->brought = 0;
    halo_hip_forms_init(&c->forms);
    halo_hip_loop_end(c);
}

/* Whether there are such batches at all. */
static bool class_exists(const struct halo_hip_compiler *c, uint32_t row_class, enum halo_hip_shape shape,
                         uint32_t prefill_rows)
{
    const struct halo_hip_row_class *rows = &halo_hip_row_classes[row_class];
    return rows->min <= c->plan->max_rows && (shape == HALO_HIP_APART || rows->max > 1) &&
           (shape != HALO_HIP_MIXED || (prefill_rows > 0 && rows->max >= prefill_rows));
}

/* Whether the op chooses experts that are streamed. */
static bool chooses_streamed(const struct halo_plan *plan, uint32_t index)
{
    if (plan->ops[index].kind != HALO_OP_MOE_ROUTE)
        return false;
    uint16_t choice = plan->ops[index].u.moe_route.choice;
    for (uint32_t i = index + 1; i < plan->n_ops; i++) {
        const struct halo_op *op = &plan->ops[i];
        if (op->kind == HALO_OP_MOE_MATMUL && op->u.moe_matmul.choice == choice)
            return plan->weights[op->u.moe_matmul.weight[0]].streamed > 0;
    }
    return false;
}

/* Behind the ops first .. first + n - 1. */
static int stop_at_choice(struct halo_hip_compiler *c, uint32_t first, uint32_t n)
{
    int r = 0;
    for (c->op = first; c->op < first + n && !r; c->op++)
        if (chooses_streamed(c->plan, c->op))
            r = halo_hip_stop(c, HALO_HIP_STOP_AT_CHOICE);
    return r;
}

static int compile_class(struct halo_hip_compiler *c, struct halo_hip_list *list)
{
    int r = 0;
    list->first = c->program->n_loops;
    for (uint32_t i = 0, n; i < c->plan->n_ops && !r; i += n) {
        r = halo_hip_layer_begin(c, i);
        r = r ? r : compile_ops(c, i, &n);
        r = r ? r : stop_at_choice(c, i, n);
        r = r ? r : halo_hip_layer_end(c, i, n);
    }
    list->n = c->program->n_loops - list->first;
    list->exists = true;
    return r;
}

static struct halo_hip_compiler compiler(const struct halo_device_model *model, char *reason)
{
    return (struct halo_hip_compiler){.model = model,
                                      .plan = model->plan,
                                      .reason = reason,
                                      .blocks_wanted = BLOCKS_PER_UNIT * model->device->properties.n_units};
}

int halo_hip_program_compile(struct halo_hip_program *ret, const struct halo_device_model *model, char *reason)
{
    struct halo_hip_compiler c = compiler(model, reason);
    *ret = (struct halo_hip_program){.blocks_wanted = c.blocks_wanted,
                                     .prefill_rows = halo_hip_prefill_rows(model->device, model->plan),
                                     .largest = halo_hip_kernel_find(model->device, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, 1),
                                     .top = halo_hip_kernel_find(model->device, HALO_HIP_TOP, HALO_HIP_TYPE_ANY, 2)};
    int r = 0;
    c.program = ret;
    for (uint32_t i = 0; i < HALO_HIP_ROW_CLASSES && !r; i++)
        for (int shape = 0; shape < HALO_HIP_SHAPES && !r; shape++) {
            if (!class_exists(&c, i, (enum halo_hip_shape)shape, ret->prefill_rows))
                continue;
            begin_class(&c, i, (enum halo_hip_shape)shape);
            r = compile_class(&c, &ret->lists[i][shape]);
        }
    if (r)
        halo_hip_program_finish(ret);
    return r;
}

void halo_hip_program_finish(struct halo_hip_program *program)
{
    free(program->launches);
    free(program->patches);
    free(program->args);
    free(program->loops);
    *program = (struct halo_hip_program){0};
}

int halo_hip_program_check(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    /* A model without memory: emitters look up kernels and nobody sees the addresses. */
    const struct halo_device_model model = {.device = (struct halo_device *)(uintptr_t)device, .plan = plan};
    const struct halo_op *op = &plan->ops[index];
    struct halo_hip_compiler c = compiler(&model, reason);
    uint32_t prefill_rows = halo_hip_prefill_rows(device, plan);
    int r = 0;
    if (!emit_op[op->kind])
        return halo_reason(reason, -ENOTSUP, "%s: the HIP device has no kernels for this op", halo_op_name(op->kind));
    c.op = index;
    for (uint32_t i = 0; i < HALO_HIP_ROW_CLASSES && !r; i++)
        for (int shape = 0; shape < HALO_HIP_SHAPES && !r; shape++) {
            if (!class_exists(&c, i, (enum halo_hip_shape)shape, prefill_rows))
                continue;
            begin_class(&c, i, (enum halo_hip_shape)shape);
            r = emit_op[op->kind](&c, op);
        }
    return r;
}
