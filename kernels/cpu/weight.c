/* weight.c: where each weight lives, and how the file's bytes become the kernels' layout.
 *
 * All weights lie in one region in the order of the plan. A large one begins on a page and owns whole pages, and its
 * file bytes go to an address congruent to their file offset, so that direct I/O can write them without a copy; small
 * ones are packed tight. A matrix is repacked over its own file bytes. Where the packed form is larger (rows are padded
 * to groups, f16 vectors become f32) the file bytes go to the end of the slot: then repacking forwards never overwrites
 * what it has yet to read.
 *
 * halo_cpu_weight_commit may run for several weights at once on different threads; it allocates one group of scratch.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <common/carve.h>

#include "device_priv.h"

/* As large as the reader's limit for direct reads: smaller ones go through its bounce buffer anyway. */
#define SLACK_MIN (256 * 1024)
#define SMALL_ALIGN 64

static uint64_t n_weights_of(const struct halo_weight *w)
{
    return (uint64_t)w->n_cols * w->n_rows * w->n_experts;
}

static uint64_t add_or_max(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Bytes of the repacked form of one expert. */
static uint64_t expert_bytes(const struct halo_weight *w)
{
    if (w->role == HALO_WEIGHT_VECTOR)
        return n_weights_of(w) * sizeof(float);
    return halo_cpu_matrix_bytes(w->type, w->n_cols, w->n_rows);
}

/* Has no memory here: its experts lie in the slots of their source. */
static void place_streamed(const struct halo_weight *info, struct halo_cpu_weight *ret)
{
    if (!ret)
        return;
    ret->info = info;
    halo_cpu_matrix_init(&ret->matrix, info->type, info->n_cols, info->n_rows, NULL);
}

static void place(const struct halo_weight *info, struct halo_carver *carver, struct halo_cpu_weight *ret)
{
    uint64_t one = expert_bytes(info), packed, n_experts = info->role == HALO_WEIGHT_VECTOR ? 1 : info->n_experts;
    if (__builtin_mul_overflow(one, n_experts, &packed))
        packed = UINT64_MAX;
    uint64_t growth = packed > info->n_bytes ? packed - info->n_bytes : 0, data = growth;
    bool slack = info->n_bytes >= SLACK_MIN;
    if (slack) {
        uint64_t wanted = info->offset % HALO_CPU_PAGE_BYTES, have = growth % HALO_CPU_PAGE_BYTES;
        data = add_or_max(growth, (wanted + HALO_CPU_PAGE_BYTES - have) % HALO_CPU_PAGE_BYTES);
    }
    uint64_t capacity = add_or_max(data, info->n_bytes);
    if (slack)
        capacity = add_or_max(capacity, HALO_CPU_PAGE_BYTES - 1) / HALO_CPU_PAGE_BYTES * HALO_CPU_PAGE_BYTES;
    uint8_t *slot = halo_carve(carver, capacity, 1, slack ? HALO_CPU_PAGE_BYTES : SMALL_ALIGN);
    if (!slot)
        return;
    ret->info = info;
    ret->slot = slot;
    ret->data = slot + data;
    ret->slack = slack;
    ret->expert_bytes = one;
    if (info->role != HALO_WEIGHT_VECTOR)
        halo_cpu_matrix_init(&ret->matrix, info->type, info->n_cols, info->n_rows, slot);
}

uint64_t halo_cpu_weights_place(const struct halo_plan *plan, uint8_t *base, struct halo_cpu_weight *weights)
{
    struct halo_carver carver = {.base = base};
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *info = &plan->weights[i];
        if (info->streamed > 0)
            place_streamed(info, weights ? &weights[i] : NULL);
        else
            place(info, &carver, weights ? &weights[i] : NULL);
    }
    /* The last small weight may be followed by the reads of a vector unit. */
    halo_carve(&carver, 1, HALO_CPU_PAGE_BYTES, HALO_CPU_PAGE_BYTES);
    return carver.n_bytes;
}

int halo_cpu_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    assert(index < model->plan->n_weights && !model->sealed && model->plan->weights[index].streamed == 0);
    const struct halo_cpu_weight *w = &model->weights[index];
    *ret = (struct halo_device_slot){.data = w->data, .slack = w->slack};
    return 0;
}

/* Through a buffer, because the floats may overlap the blocks that they are made of. */
static void unpack_vector(const struct halo_cpu_weight *w)
{
    const struct halo_type_info type = halo_type_info(w->info->type);
    uint64_t n = n_weights_of(w->info);
    float *out = (float *)(void *)w->slot;
    uint8_t blocks[1024];
    uint32_t step = sizeof(blocks) / type.block_bytes * type.block_weights;
    if (w->info->type == HALO_TYPE_F32) {
        memmove(out, w->data, n * sizeof(float));
        step = 0;
    }
    for (uint64_t i = 0; step > 0 && i < n; i += step) {
        uint64_t now = n - i < step ? n - i : step;
        memcpy(blocks, w->data + halo_type_row_bytes(w->info->type, i), halo_type_row_bytes(w->info->type, now));
        halo_dequantize(w->info->type, blocks, now, out + i);
    }
    for (uint64_t i = 0; w->info->scales && i < n; i++)
        out[i] *= w->info->scales[0];
}

int halo_cpu_weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    assert(index < model->plan->n_weights && !model->sealed);
    struct halo_cpu_weight *w = &model->weights[index];
    const struct halo_weight *info = w->info;
    if (info->role == HALO_WEIGHT_VECTOR) {
        unpack_vector(w);
    } else {
        uint64_t scratch_bytes = halo_cpu_matrix_scratch_bytes(info->type, info->n_cols);
        uint64_t file_bytes = halo_type_row_bytes(info->type, info->n_cols) * info->n_rows;
        void *scratch = malloc(scratch_bytes);
        if (!scratch)
            return halo_reason(reason, -ENOMEM, "no %.1f MiB of memory to repack %s",
                               (double)scratch_bytes / (1024 * 1024), info->name);
        for (uint32_t e = 0; e < info->n_experts; e++)
            halo_cpu_matrix_pack(info->type, info->n_cols, info->n_rows, w->data + e * file_bytes,
                                 w->slot + e * w->expert_bytes, scratch);
        free(scratch);
    }
    atomic_store_explicit(&w->committed, true, memory_order_release);
    return 0;
}
