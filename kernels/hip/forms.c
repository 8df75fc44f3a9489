/* forms.c: the forms in which products read their rows, made once while they are of use: q, k and v, or gate and up,
 * share one conversion (contract in compile_priv.h).
 *
 * Activation rows have two buffers: those of the routed experts' input are still there for the shared expert when the
 * products between have used the other.
 */
#include "compile_priv.h"

#define HALF_ROWS_MAX 32    /* of half_rows; more take half_waves (variants.def), unless they are long: */
#define HALF_LONG_COLS 2048 /* a wave would go through such a row in many steps, one after the other */

void halo_hip_forms_init(struct halo_hip_forms *forms)
{
    *forms = (struct halo_hip_forms){.act_last = HALO_HIP_ACTS - 1, .grouped_choice = HALO_NONE};
    for (uint32_t i = 0; i < HALO_HIP_ACTS; i++)
        forms->act[i].value = HALO_NONE;
    for (uint32_t i = 0; i < HALO_HIP_HALF_PLACES; i++)
        forms->half[i].value = HALO_NONE;
}

void halo_hip_forms_wrote(struct halo_hip_forms *forms, uint16_t value)
{
    for (uint32_t i = 0; i < HALO_HIP_ACTS; i++)
        if (forms->act[i].value == value)
            forms->act[i].value = HALO_NONE;
    for (uint32_t i = 0; i < HALO_HIP_HALF_PLACES; i++)
        if (forms->half[i].value == value)
            forms->half[i].value = HALO_NONE;
    if (forms->grouped_choice == value)
        forms->grouped_choice = HALO_NONE;
}

uint8_t *halo_hip_forms_take_act(struct halo_hip_compiler *c, uint16_t value, uint32_t n_cols)
{
    struct halo_hip_forms *forms = &c->forms;
    forms->act_last = (forms->act_last + 1) % HALO_HIP_ACTS;
    forms->act[forms->act_last].value = value;
    forms->act[forms->act_last].n_cols = n_cols;
    forms->act[forms->act_last].factor = (struct halo_factor_arg){0};
    return c->model->scratch.act[forms->act_last];
}

int halo_hip_form_act(struct halo_hip_compiler *c, uint16_t value, const float *x, struct halo_hip_amount n_rows,
                      uint32_t n_cols, const uint8_t **ret_act)
{
    struct halo_hip_forms *forms = &c->forms;
    for (uint32_t i = 0; i < HALO_HIP_ACTS && value != HALO_NONE; i++)
        if (forms->act[i].value == value && forms->act[i].n_cols == n_cols) {
            forms->act_last = i;
            *ret_act = c->model->scratch.act[i];
            return 0;
        }
    uint8_t *act = halo_hip_forms_take_act(c, value, n_cols);
    struct halo_quantize_args args = {.x = x, .act = act, .n_cols = n_cols};
    *ret_act = act;
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_QUANTIZE,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .grid = {halo_hip_fixed(HALO_HIP_CEIL(n_cols, HALO_QUANTIZE_COLS)), n_rows},
                                       HALO_HIP_ARGS(args)});
}

void halo_hip_forms_set_half(struct halo_hip_compiler *c, enum halo_hip_half_place place, uint16_t value,
                             uint32_t n_cols, bool strips)
{
    const struct halo_hip_scratch *scratch = &c->model->scratch;
    struct halo_hip_half_form form = {
        .value = value, .n_cols = n_cols, .strips = strips, .half = scratch->half, .scale = scratch->half_scale};
    if (place == HALO_HIP_HALF_OF_GLU) {
        uint64_t n = (uint64_t)c->plan->max_rows * c->plan->values[value].width;
        form.half = (uint16_t *)halo_hip_value(c->model, value);
        form.scale = form.half ? (float *)(form.half + n) : NULL; /* n / n_cols of them */
    }
    c->forms.half[place] = form;
    c->forms.half_last = place;
}

int halo_hip_form_half(struct halo_hip_compiler *c, uint16_t value, const float *x, struct halo_hip_amount n_rows,
                       uint32_t n_cols, bool strips)
{
    const struct halo_hip_scratch *scratch = &c->model->scratch;
    struct halo_hip_forms *forms = &c->forms;
    for (uint32_t i = 0; i < HALO_HIP_HALF_PLACES && value != HALO_NONE; i++)
        if (forms->half[i].value == value && forms->half[i].n_cols == n_cols && forms->half[i].strips == strips) {
            forms->half_last = i;
            return 0;
        }
    struct halo_half_args args = {
        .x = x, .half = scratch->half, .scale = scratch->half_scale, .n_cols = n_cols, .strips = strips};
    bool waves = c->min_span > HALF_ROWS_MAX && n_cols < HALF_LONG_COLS;
    halo_hip_forms_set_half(c, HALO_HIP_HALF_SCRATCH, value, n_cols, strips);
    return halo_hip_emit(
        c, &(struct halo_hip_emission){.op = HALO_HIP_HALF_ROWS,
                                       .type = HALO_HIP_TYPE_ANY,
                                       .rows = waves ? 0 : 1,
                                       .grid = {waves ? halo_hip_over(n_rows, HALO_HALF_WAVES) : n_rows},
                                       HALO_HIP_ARGS(args),
                                       HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_half_args, n_rows, n_rows))});
}

int halo_hip_form_groups(struct halo_hip_compiler *c, const struct halo_op_moe_matmul *u)
{
    uint32_t n_experts = c->plan->weights[u->weight[0]].n_experts;
    struct halo_hip_amount n_tiles = halo_hip_expert_tiles(u->n_used, n_experts);
    struct halo_moe_group_args args = {.choice = halo_hip_value(c->model, u->choice),
                                       .slot = c->model->scratch.moe_slot,
                                       .tile = c->model->scratch.moe_tile,
                                       .n_used = u->n_used,
                                       .n_expert = n_experts};
    if (u->choice != HALO_NONE && c->forms.grouped_choice == u->choice)
        return 0;
    c->forms.grouped_choice = u->choice;
    return halo_hip_emit(
        c, &(struct halo_hip_emission){
               .op = HALO_HIP_MOE_GROUP,
               .type = HALO_HIP_TYPE_ANY,
               .grid = {halo_hip_fixed(n_experts)},
               HALO_HIP_ARGS(args),
               HALO_HIP_PATCHES(HALO_HIP_AMOUNT(struct halo_moe_group_args, n_slots, halo_hip_per_row(u->n_used)),
                                HALO_HIP_AMOUNT(struct halo_moe_group_args, n_tiles, n_tiles))});
}
