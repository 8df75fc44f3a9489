/* replay.c: makes the launches of a batch's class, with what only the batch knows (contract in program_priv.h). */
#include <assert.h>
#include <string.h>

#include <common/phase.h>

#include "run_priv.h"

/* What a launch is for: rows, outputs or tiles first .. first + n - 1. */
struct span {
    uint32_t first, n;
    bool tiles;
};

int halo_hip_launch(struct halo_hip_run *run, uint32_t variant, struct halo_hip_grid grid, void *args)
{
    struct halo_device *device = run->model->device;
    const struct halo_hip_variant *v = &halo_hip_variants[variant];
    bool first = !device->seen[variant] && !run->recording;
    void *params[] = {args};
    if (!run->recording)
        halo_phase_publish(run->phase, first ? v->first_launch : v->kernel, run->op);
    int r = device->api.ModuleLaunchKernel(device->functions[variant], grid.x, grid.y, grid.z, v->block, 1, 1, 0,
                                           run->stream, params, NULL);
    if (run->recording)
        return r;
    r = halo_hip_check(device, r, v->kernel, run->reason);
    if (!r && first) {
        r = halo_hip_drain(device, v->first_launch, run->reason);
        device->seen[variant] = !r;
    }
    return r;
}

static uint32_t count_splits(const struct halo_hip_run *run, const struct halo_hip_amount *amount, uint32_t n_rows)
{
    uint32_t most = halo_hip_most_splits(run->level);
    uint32_t wanted = amount->most ? amount->most : run->model->program.blocks_wanted;
    /* Rounded down: a block more than the GPU holds would wait for the others. */
    uint32_t n = wanted / (amount->times * n_rows);
    n = n < most ? n : most;
    n = n * n_rows <= HALO_HIP_ITEMS_MAX ? n : HALO_HIP_ITEMS_MAX / n_rows;
    return n > 1 ? n : 1;
}

static uint32_t amount_of(const struct halo_hip_run *run, const struct span *span, const struct halo_hip_amount *amount)
{
    uint64_t n = 0;
    switch (amount->count) {
    case HALO_HIP_ONE: n = 1; break;
    case HALO_HIP_BATCH: n = run->n_rows; break;
    case HALO_HIP_SEQUENCES: n = run->n_seqs; break;
    case HALO_HIP_SPAN: n = span->n; break;
    case HALO_HIP_SPLITS: return count_splits(run, amount, span->n);
    case HALO_HIP_EXPERT_TILES: return halo_hip_moe_tiles(run->n_rows * amount->times, amount->over);
    }
    n = HALO_HIP_CEIL(n * amount->times, amount->over);
    return (uint32_t)(amount->most && n > amount->most ? amount->most : n);
}

/* A dimension that was left out is 1. */
static uint32_t dimension(const struct halo_hip_run *run, const struct span *span, const struct halo_hip_amount *amount)
{
    return amount->over == 0 ? 1 : amount_of(run, span, amount);
}

static void patch_args(const struct halo_hip_run *run, const struct span *span, const struct halo_hip_launch *l,
                       uint8_t *args)
{
    const struct halo_hip_program *program = &run->model->program;
    memcpy(args, program->args + l->first_arg, l->n_arg_bytes);
    for (uint32_t i = 0; i < l->n_patches; i++) {
        const struct halo_hip_patch *patch = &program->patches[l->first_patch + i];
        uint32_t amount;
        const char *pointer;
        switch (patch->kind) {
        case HALO_HIP_PATCH_AMOUNT:
            amount = amount_of(run, span, &patch->amount);
            memcpy(args + patch->at, &amount, sizeof(amount));
            break;
        case HALO_HIP_PATCH_INPUT:
        case HALO_HIP_PATCH_STEP:
            memcpy(&pointer,
                   patch->kind == HALO_HIP_PATCH_STEP ? args + patch->at : (const uint8_t *)&run->in + patch->input,
                   sizeof(pointer));
            pointer += (uint64_t)span->first * patch->step;
            memcpy(args + patch->at, &pointer, sizeof(pointer));
            break;
        case HALO_HIP_PATCH_MATRIX:
            pointer = (const char *)halo_hip_layer_matrix(run->model, patch->step);
            memcpy(args + patch->at, &pointer, sizeof(pointer));
            break;
        case HALO_HIP_PATCH_END: break;
        }
    }
}

static bool fits(const struct halo_hip_run *run, const struct span *span, const struct halo_hip_launch *l)
{
    return l->min_span <= span->n && span->n <= l->max_span && (l->levels >> run->level & 1) != 0 &&
           l->tiles == span->tiles;
}

static int replay_span(struct halo_hip_run *run, const struct halo_hip_loop *loop, struct span span)
{
    const struct halo_hip_launch *launches = run->model->program.launches + loop->first;
    int r = 0;
    for (uint32_t i = 0; i < loop->n && !r; i++) {
        const struct halo_hip_launch *l = &launches[i];
        _Alignas(16) uint8_t args[HALO_HIP_ARGS_MAX];
        if (!fits(run, &span, l))
            continue;
        patch_args(run, &span, l, args);
        run->op = l->op;
        r = halo_hip_launch(run, l->variant,
                            (struct halo_hip_grid){dimension(run, &span, &l->grid[0]),
                                                   dimension(run, &span, &l->grid[1]),
                                                   dimension(run, &span, &l->grid[2])},
                            args);
    }
    return r;
}

static int replay_rows(struct halo_hip_run *run, const struct halo_hip_loop *loop, uint32_t first, uint32_t end)
{
    uint32_t step = loop->most ? loop->most : end - first;
    int r = 0;
    for (uint32_t n; first < end && !r; first += n) {
        n = end - first < step ? end - first : step;
        r = replay_span(run, loop, (struct span){first, n, false});
    }
    return r;
}

static bool is_long(const struct halo_hip_run *run, uint32_t tile)
{
    uint32_t least = run->model->program.prefill_rows;
    return least > 0 && run->tiles[tile].n_rows >= least;
}

/* Runs of tiles that are all long or all short. */
static int replay_runs(struct halo_hip_run *run, const struct halo_hip_loop *loop)
{
    int r = 0;
    for (uint32_t first = 0, n; first < run->n_tiles && !r; first += n) {
        bool tiles = is_long(run, first);
        for (n = 1; first + n < run->n_tiles && is_long(run, first + n) == tiles;)
            n++;
        const struct halo_prefill_tile *last = &run->tiles[first + n - 1];
        r = tiles ? replay_span(run, loop, (struct span){first, n, true})
                  : replay_rows(run, loop, run->tiles[first].first_row, last->first_row + last->n_rows);
    }
    return r;
}

static enum halo_hip_shape shape_of(const struct halo_hip_run *run)
{
    if (run->apart && run->n_rows <= HALO_HIP_ITEMS_MAX)
        return HALO_HIP_APART;
    for (uint32_t i = 0; i < run->n_tiles; i++)
        if (is_long(run, i))
            return HALO_HIP_MIXED;
    return HALO_HIP_SHORT;
}

static bool is_stop(const struct halo_hip_loop *loop)
{
    return loop->over >= HALO_HIP_STOP_AT_CHOICE;
}

static int stop(struct halo_hip_run *run, const struct halo_hip_loop *loop)
{
    const struct halo_op *op = &run->model->plan->ops[loop->op];
    run->op = loop->op;
    switch (loop->over) {
    case HALO_HIP_STOP_AT_CHOICE: return halo_hip_experts_copy_choice(run, &op->u.moe_route);
    case HALO_HIP_STOP_FOR_EXPERTS: return halo_hip_experts_bring(run, &op->u.moe_matmul);
    case HALO_HIP_STOP_FOR_LAYER: return halo_hip_layer_bring(run, &op->u.matmul);
    case HALO_HIP_STOP_BEHIND_LAYER: return halo_hip_layer_leave(run);
    default: return 0;
    }
}

int halo_hip_replay(struct halo_hip_run *run)
{
    const struct halo_hip_program *program = &run->model->program;
    uint32_t row_class = 0;
    while (run->n_rows > halo_hip_row_classes[row_class].max)
        row_class++;
    const struct halo_hip_list *list = &program->lists[row_class][shape_of(run)];
    int r = 0;
    assert(list->exists);
    for (uint32_t i = 0; i < list->n && !r; i++) {
        const struct halo_hip_loop *loop = &program->loops[list->first + i];
        if (is_stop(loop)) {
            r = stop(run, loop);
            continue;
        }
        uint32_t n = loop->over == HALO_HIP_OVER_OUTPUTS ? run->batch->n_outputs : run->n_rows;
        if (n < loop->min || n > loop->max)
            continue;
        r = loop->over == HALO_HIP_OVER_RUNS ? replay_runs(run, loop) : replay_rows(run, loop, 0, n);
    }
    return r;
}
