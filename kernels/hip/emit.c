/* emit.c: appends launches to a program (contract in compile_priv.h). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compile_priv.h"

/* Memory for n more items of an array; it grows by doubling. False: there is none. */
static bool reserve(void **array, size_t size, uint32_t have, uint32_t *most, uint32_t n)
{
    uint32_t wanted = *most ? *most : 64;
    while (wanted - have < n)
        wanted *= 2;
    void *larger = wanted > *most ? realloc(*array, wanted * size) : *array;
    if (!larger)
        return false;
    *array = larger;
    *most = wanted;
    return true;
}

void halo_hip_loop_begin(struct halo_hip_compiler *c, enum halo_hip_over over, uint32_t most, uint32_t min,
                         uint32_t max)
{
    c->loop = (struct halo_hip_loop){.over = over, .most = most, .min = min, .max = max};
    c->new_loop = true;
    halo_hip_span_limit(c, min, max);
}

void halo_hip_loop_end(struct halo_hip_compiler *c)
{
    halo_hip_loop_begin(c, HALO_HIP_OVER_ROWS, 0, c->min_rows, c->max_rows);
}

void halo_hip_span_limit(struct halo_hip_compiler *c, uint32_t min, uint32_t max)
{
    c->min_span = min;
    c->max_span = max;
}

static bool append_loop(struct halo_hip_program *p, const struct halo_hip_loop *loop)
{
    if (!reserve((void **)&p->loops, sizeof(*p->loops), p->n_loops, &p->most_loops, 1))
        return false;
    p->loops[p->n_loops] = *loop;
    p->loops[p->n_loops++].first = p->n_launches;
    return true;
}

int halo_hip_stop(struct halo_hip_compiler *c, enum halo_hip_over what)
{
    const struct halo_hip_loop stop = {.over = what, .op = (uint16_t)c->op};
    if (c->program && !append_loop(c->program, &stop))
        return halo_reason(c->reason, -ENOMEM, "no memory for the launches of the model");
    c->new_loop = true;
    return 0;
}

/* Patches for the streamed matrices among arguments. */
static bool append_matrices(struct halo_hip_compiler *c, const struct halo_hip_emission *e)
{
    struct halo_hip_program *p = c->program;
    uint64_t word;
    for (uint32_t at = 0; at + sizeof(word) <= e->n_arg_bytes; at += (uint32_t)sizeof(word)) {
        memcpy(&word, (const uint8_t *)e->args + at, sizeof(word));
        uint32_t weight = (uint32_t)word;
        if (word >> 32 != HALO_HIP_STREAMED_MATRIX)
            continue;
        assert(c->plan->weights[weight].streamed == c->brought);
        if (!reserve((void **)&p->patches, sizeof(*p->patches), p->n_patches, &p->most_patches, 1))
            return false;
        p->patches[p->n_patches++] =
            (struct halo_hip_patch){.kind = HALO_HIP_PATCH_MATRIX, .at = (uint16_t)at, .step = weight};
    }
    return true;
}

static bool append_arguments(struct halo_hip_program *p, const struct halo_hip_emission *e)
{
    uint32_t n_patches = 0;
    while (e->patches && e->patches[n_patches].kind != HALO_HIP_PATCH_END)
        n_patches++;
    if (!reserve((void **)&p->patches, sizeof(*p->patches), p->n_patches, &p->most_patches, n_patches) ||
        !reserve((void **)&p->args, 1, p->n_arg_bytes, &p->most_arg_bytes, e->n_arg_bytes))
        return false;
    if (n_patches > 0)
        memcpy(p->patches + p->n_patches, e->patches, n_patches * sizeof(*p->patches));
    memcpy(p->args + p->n_arg_bytes, e->args, e->n_arg_bytes);
    p->n_patches += n_patches;
    p->n_arg_bytes += e->n_arg_bytes;
    return true;
}

static bool append(struct halo_hip_compiler *c, int variant, const struct halo_hip_emission *e)
{
    struct halo_hip_program *p = c->program;
    struct halo_hip_launch launch = {.variant = (uint16_t)variant,
                                     .op = (uint16_t)c->op,
                                     .first_patch = p->n_patches,
                                     .first_arg = p->n_arg_bytes,
                                     .n_arg_bytes = e->n_arg_bytes,
                                     .grid = {e->grid[0], e->grid[1], e->grid[2]},
                                     .min_span = c->min_span,
                                     .max_span = c->max_span,
                                     .levels = e->levels ? e->levels : UINT8_MAX,
                                     .tiles = e->tiles};
    if (c->new_loop && !append_loop(p, &c->loop))
        return false;
    c->new_loop = false;
    if (!append_arguments(p, e) || !append_matrices(c, e) ||
        !reserve((void **)&p->launches, sizeof(*p->launches), p->n_launches, &p->most_launches, 1))
        return false;
    launch.n_patches = p->n_patches - launch.first_patch;
    p->launches[p->n_launches++] = launch;
    p->loops[p->n_loops - 1].n++;
    return true;
}

int halo_hip_emit(struct halo_hip_compiler *c, const struct halo_hip_emission *e)
{
    const struct halo_device *device = c->model->device;
    uint32_t rows = e->rows ? e->rows : c->min_span;
    int variant = halo_hip_kernel_find(device, e->op, e->type, rows);
    const struct halo_hip_variant *v = halo_hip_variant_find(e->op, e->type, rows);
    assert(e->n_arg_bytes <= HALO_HIP_ARGS_MAX && c->min_span <= c->max_span);
    assert(e->rows || v == halo_hip_variant_find(e->op, e->type, c->max_span)); /* a class has one variant */
    if (variant < 0)
        return halo_reason(c->reason, -ENOTSUP, "%s: %s has no kernel%s%s for %u row%s of type %u",
                           halo_op_name(c->plan->ops[c->op].kind), device->kernels_path, v ? " " : "",
                           v ? v->kernel : "", rows, rows == 1 ? "" : "s", e->type);
    if (c->program && !append(c, variant, e))
        return halo_reason(c->reason, -ENOMEM, "no memory for the launches of the model");
    return 0;
}
