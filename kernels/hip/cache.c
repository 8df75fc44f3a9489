/* cache.c: where the groups of the cache lie, and copies of their pages. Device thread, apart from the placement
 * (pure).
 *
 * A group has its layers one after the other, each with all its pages. A group of states has its slots one after the
 * other, each with all its layers, so that one copy moves a slot. Copies within the GPU's memory are in the order of
 * the stream: the runs behind them see them, and nobody waits.
 */
#include <errno.h>

#include <common/check.h>

#include "device_priv.h"

uint64_t halo_hip_groups_place(const struct halo_plan *plan, uint64_t first[HALO_KV_GROUPS_MAX])
{
    uint64_t end = 0;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        const struct halo_kv_group *kv = &plan->kv[group];
        uint64_t bytes;
        first[group] = end = (end + HALO_HIP_ALIGN - 1) / HALO_HIP_ALIGN * HALO_HIP_ALIGN;
        if (__builtin_mul_overflow(halo_hip_kv_page(kv), (uint64_t)kv->n_pages, &bytes) ||
            __builtin_mul_overflow(bytes, (uint64_t)kv->n_layers, &bytes) || __builtin_add_overflow(end, bytes, &end) ||
            end > UINT64_MAX - HALO_HIP_ALIGN)
            return UINT64_MAX;
    }
    return end;
}

/* The pieces of a page: n_bytes every `stride` bytes on the device, one after the other on the host. */
struct pieces {
    uint8_t *first;
    uint64_t stride, n_bytes;
    uint32_t n;
};

static int pieces_of(const struct halo_device_model *model, uint32_t group, uint32_t page, struct pieces *ret,
                     char *reason)
{
    int r = halo_hip_usable(model->device, reason);
    if (!r)
        r = halo_page_check(model->plan, group, page, reason);
    if (r)
        return r;
    const struct halo_kv_group *kv = &model->plan->kv[group];
    bool whole = kv->state_width > 0;
    *ret = (struct pieces){.first = halo_hip_kv_layer(model, group, 0) + page * halo_hip_kv_page_stride(kv),
                           .stride = halo_hip_kv_layer_stride(kv),
                           .n_bytes = whole ? halo_hip_kv_page_stride(kv) : halo_hip_kv_page(kv),
                           .n = whole ? 1 : kv->n_layers};
    return 0;
}

int halo_hip_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                     char *reason)
{
    struct halo_device *device = model->device;
    struct pieces from, to;
    int r = pieces_of(model, group, from_page, &from, reason);
    if (!r)
        r = pieces_of(model, group, to_page, &to, reason);
    if (r || from_page == to_page)
        return r;
    for (uint32_t i = 0; i < from.n && !r; i++)
        r = halo_hip_check(device,
                           device->api.MemcpyAsync(to.first + i * to.stride, from.first + i * from.stride, from.n_bytes,
                                                   HIP_COPY_ON_DEVICE, device->stream),
                           "copying a page of the KV cache", reason);
    return r;
}

uint64_t halo_hip_kv_page_bytes(const struct halo_device_model *model, uint32_t group)
{
    return model->plan->kv[group].n_layers * halo_hip_kv_page(&model->plan->kv[group]);
}

/* One page between the device and the host; waits until it is done. */
static int move_page(struct halo_device_model *model, uint32_t group, uint32_t page, uint8_t *host, int direction,
                     char *reason)
{
    struct halo_device *device = model->device;
    struct pieces pieces;
    int r = pieces_of(model, group, page, &pieces, reason);
    if (r)
        return r;
    for (uint32_t i = 0; i < pieces.n && !r; i++) {
        uint8_t *there = pieces.first + i * pieces.stride, *here = host + i * pieces.n_bytes;
        bool down = direction == HIP_COPY_TO_HOST;
        r = halo_hip_check(device,
                           device->api.MemcpyAsync(down ? here : there, down ? there : here, pieces.n_bytes, direction,
                                                   device->stream),
                           "moving a page of the KV cache", reason);
    }
    return r ? r : halo_hip_drain(device, "moving a page of the KV cache", reason);
}

int halo_hip_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason)
{
    return move_page(model, group, page, ret_bytes, HIP_COPY_TO_HOST, reason);
}

int halo_hip_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason)
{
    return move_page(model, group, page, (uint8_t *)(uintptr_t)bytes, HIP_COPY_TO_DEVICE, reason);
}
