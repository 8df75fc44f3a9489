/* budget.c: see budget.h. */
#include <engine/budget.h>

#include <assert.h>
#include <stdio.h>

#include <engine/kv_pages.h>

#define RESERVE_BYTES (512ull << 20) /* left to the rest of the machine, or a sixteenth of it when it is small */

uint64_t halo_budget_free_bytes(const struct halo_device_info *info)
{
    uint64_t reserve = info->memory_bytes / 16 < RESERVE_BYTES ? info->memory_bytes / 16 : RESERVE_BYTES;
    return info->free_bytes > reserve ? info->free_bytes - reserve : 0;
}

void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret)
{
    *ret = (struct halo_budget){0};
    ops->estimate(device, plan, &ret->weights_bytes, &ret->kv_bytes, &ret->scratch_bytes);
    uint64_t row_bytes = (uint64_t)plan->n_vocab * sizeof(float);
    ret->scratch_bytes +=
        row_bytes * plan->max_outputs + 4 * row_bytes; /* logits and the sampler's four arrays of a row */
    ret->page_bytes = plan->kv[0].n_pages > 0 ? ret->kv_bytes / plan->kv[0].n_pages : halo_kv_page_bytes(&plan->kv[0]);
    uint64_t fixed = ret->weights_bytes + ret->scratch_bytes;
    uint64_t pages = free_bytes > fixed && ret->page_bytes > 0 ? (free_bytes - fixed) / ret->page_bytes : 0;
    ret->max_pages = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
}

uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit)
{
    assert(n_sequences > 0);
    uint32_t n_pages = budget->max_pages / n_sequences;
    return n_pages >= halo_kv_pages_for(limit) ? limit : n_pages * HALO_KV_PAGE_TOKENS;
}

const char *halo_size_text(uint64_t bytes, char buffer[HALO_SIZE_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, HALO_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}
