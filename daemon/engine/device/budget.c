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

/* Bytes of one page of a group: those of a plan that has this page alone. */
static uint64_t page_bytes(const struct halo_device_ops *ops, const struct halo_device *device,
                           const struct halo_plan *plan, uint32_t group)
{
    struct halo_plan one = *plan;
    uint64_t weights, kv, scratch;
    for (uint32_t i = 0; i < one.n_kv_groups; i++)
        one.kv[i].n_pages = i == group;
    ops->estimate(device, &one, &weights, &kv, &scratch);
    return kv;
}

uint64_t halo_budget_pool_bytes(const struct halo_budget *budget, uint64_t n_pages, uint32_t n_context)
{
    uint64_t sum = 0, bytes;
    if (n_pages > INT32_MAX)
        return UINT64_MAX;
    for (uint32_t group = 0; group < budget->n_groups; group++) {
        uint32_t n = halo_kv_pages_of(budget->groups[group].span, (uint32_t)n_pages, n_context);
        if (__builtin_mul_overflow(n, budget->groups[group].page_bytes, &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* The most pages that fit, when whole sequences take so many or, with n_sequences, as many as come to each of them. */
static uint32_t most_pages(const struct halo_budget *budget, uint32_t n_context, uint32_t n_sequences)
{
    uint64_t fixed = budget->weights_bytes + budget->scratch_bytes;
    uint64_t left = budget->free_bytes > fixed ? budget->free_bytes - fixed : 0;
    uint32_t least = 0, most = INT32_MAX / (n_sequences > 0 ? n_sequences : 1);
    while (least < most) { /* `least` fit */
        uint32_t n = most - (most - least) / 2;
        uint64_t bytes = n_sequences > 0 ? halo_budget_pool_bytes(budget, (uint64_t)n * n_sequences, n)
                                         : halo_budget_pool_bytes(budget, n, n_context);
        if (bytes <= left)
            least = n;
        else
            most = n - 1;
    }
    return least;
}

void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret)
{
    *ret = (struct halo_budget){
        .free_bytes = free_bytes, .n_groups = plan->n_kv_groups, .context_pages = halo_kv_pages_for(plan->n_context)};
    ops->estimate(device, plan, &ret->weights_bytes, &ret->kv_bytes, &ret->scratch_bytes);
    uint64_t row_bytes = (uint64_t)plan->n_vocab * sizeof(float);
    ret->scratch_bytes +=
        row_bytes * plan->max_outputs + 4 * row_bytes; /* logits and the sampler's four arrays of a row */
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        ret->groups[group].page_bytes = page_bytes(ops, device, plan, group);
        ret->groups[group].span = halo_kv_group_span(&plan->kv[group], plan->max_rows);
    }
    ret->max_pages = most_pages(ret, ret->context_pages, 0);
}

uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit)
{
    assert(n_sequences > 0);
    uint32_t n_pages = most_pages(budget, 0, n_sequences);
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
