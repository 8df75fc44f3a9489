/* budget.c: see budget.h. */
#include <engine/budget.h>

#include <assert.h>
#include <stdio.h>

#include <base/size.h>
#include <engine/experts.h>
#include <engine/kv_pages.h>

#define SCRATCH_PART 16  /* of what is free: more scratch than that is not worth the speed of longer chunks */
#define STREAMED_SHARE 8 /* of what is left, checkpoints take one part at most, and streamed experts the others */
#define RESERVE_LEAST (512ull << 20) /* a sixteenth of a memory so small that this is more */
#define RESERVE_MOST (4ull << 30)
#define RESERVE_PART 32

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of memory that is the device's alone. */
static uint64_t device_reserve(uint64_t total_bytes)
{
    return min_u64(total_bytes / 16, RESERVE_LEAST);
}

uint64_t halo_budget_reserve(uint64_t total_bytes)
{
    uint64_t part = total_bytes / RESERVE_PART;
    return part > RESERVE_LEAST ? min_u64(part, RESERVE_MOST) : device_reserve(total_bytes);
}

uint64_t halo_budget_free_bytes(const struct halo_device_info *info)
{
    uint64_t total = info->memory_bytes;
    uint64_t reserve = info->features & HALO_DEVICE_HOST_MEMORY ? halo_budget_reserve(total) : device_reserve(total);
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

/* A device that takes slots in slabs of the host's memory takes up to one more for each slab. */
static uint64_t slabs_most(const struct halo_device_ops *ops, const struct halo_device *device,
                           const struct halo_expert_shape *shape, uint64_t free_bytes)
{
    struct halo_device_info info;
    ops->describe(device, &info);
    if (!ops->give_slab || shape->is_dense || !(info.features & HALO_DEVICE_HOST_MEMORY))
        return 0;
    uint64_t n_slots = min_u64(free_bytes / shape->slot_bytes, shape->n_experts);
    uint64_t n_slabs = n_slots / halo_expert_slab_slots(shape, (uint32_t)n_slots) + 1;
    return n_slabs > HALO_EXPERTS_SLABS ? n_slabs : HALO_EXPERTS_SLABS;
}

static void add_slots(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                      struct halo_budget *ret)
{
    struct halo_expert_shape shape;
    halo_expert_shape_of(ops, device, plan, &shape);
    if (shape.n_layers == 0)
        return;
    ret->slot_bytes = shape.slot_bytes;
    ret->least_slots = shape.least_slots;
    ret->weights_bytes += shape.least_slots * shape.slot_bytes;
    ret->weights_bytes += slabs_most(ops, device, &shape, ret->free_bytes) * shape.slot_bytes;
}

void halo_budget_streamed(const struct halo_budget *budget, const struct halo_plan *plan,
                          struct halo_placement_options *ret)
{
    uint64_t in_file = 0, taken = budget->weights_bytes - budget->least_slots * budget->slot_bytes;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        in_file += plan->weights[i].streamed > 0 ? 0 : plan->weights[i].n_bytes;
    ret->streamed_kv_bytes = budget->kv_bytes;
    ret->streamed_scratch_bytes = budget->scratch_bytes;
    ret->streamed_padding_bytes = taken > in_file ? taken - in_file : 0;
    ret->slot_bytes = budget->slot_bytes;
    ret->least_slots = budget->least_slots;
    ret->spare_slots = HALO_EXPERTS_MARGIN;
}

void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret)
{
    *ret = (struct halo_budget){
        .free_bytes = free_bytes, .n_groups = plan->n_kv_groups, .context_pages = halo_kv_pages_for(plan->n_context)};
    ops->estimate(device, plan, &ret->weights_bytes, &ret->kv_bytes, &ret->scratch_bytes);
    add_slots(ops, device, plan, ret);
    uint64_t row_bytes = (uint64_t)plan->n_vocab * sizeof(float);
    ret->scratch_bytes +=
        row_bytes * plan->max_outputs + 4 * row_bytes; /* logits and the sampler's four arrays of a row */
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        ret->groups[group].page_bytes = page_bytes(ops, device, plan, group);
        ret->groups[group].span = halo_kv_group_span(&plan->kv[group], plan->max_rows);
    }
    ret->max_pages = most_pages(ret, ret->context_pages, 0);
}

struct halo_budget_checkpoints halo_budget_checkpoints_of(const struct halo_budget *budget,
                                                          const struct halo_plan *plan, uint64_t n_pages,
                                                          uint64_t bytes)
{
    struct halo_budget_checkpoints ret = {0};
    uint64_t taken, left;
    for (uint32_t group = 0; group < budget->n_groups; group++)
        if (plan->kv[group].state_width > 0)
            ret.slot_bytes += budget->groups[group].page_bytes;
    if (ret.slot_bytes == 0)
        return ret;
    if (__builtin_add_overflow(halo_budget_pool_bytes(budget, n_pages, budget->context_pages),
                               budget->weights_bytes + budget->scratch_bytes, &taken))
        taken = UINT64_MAX;
    left = budget->free_bytes > taken ? budget->free_bytes - taken : 0;
    left = (budget->slot_bytes > 0 ? left / STREAMED_SHARE : left) / ret.slot_bytes;
    uint64_t most = n_pages - halo_kv_pages_of(1, (uint32_t)n_pages, budget->context_pages);
    uint64_t wanted = bytes / ret.slot_bytes < most ? bytes / ret.slot_bytes : most;
    ret.n_wanted = (uint32_t)wanted;
    ret.n = (uint32_t)(wanted < left ? wanted : left);
    return ret;
}

uint32_t halo_budget_rows(const struct halo_device_ops *ops, const struct halo_device *device,
                          const struct halo_plan *plan, uint64_t free_bytes, uint32_t n_pages, uint32_t wanted)
{
    struct halo_budget budget;
    struct halo_plan wide = *plan;
    for (wide.max_rows = wanted; wide.max_rows > HALO_BATCH_ROWS; wide.max_rows /= 2) {
        halo_budget_of(ops, device, &wide, free_bytes, &budget);
        if (budget.scratch_bytes <= free_bytes / SCRATCH_PART && budget.max_pages >= n_pages)
            return wide.max_rows;
    }
    return HALO_BATCH_ROWS;
}

void halo_budget_settle(const struct halo_device_ops *ops, const struct halo_device *device, struct halo_plan *plan,
                        uint64_t free_bytes, uint32_t least_pages, bool exact, uint64_t checkpoint_bytes,
                        struct halo_settled *ret)
{
    *ret = (struct halo_settled){0};
    halo_budget_of(ops, device, plan, free_bytes, &ret->budget);
    bool is_streamed = ret->budget.slot_bytes > 0;
    struct halo_device_info info;
    ops->describe(device, &info);
    ret->batch_rows = info.batch_rows;
    /* Every step of a prompt reads most of what streams, however long its piece is. */
    uint32_t wanted = is_streamed && info.batch_rows < HALO_STREAMED_ROWS ? HALO_STREAMED_ROWS : info.batch_rows;
    plan->max_rows = halo_budget_rows(ops, device, plan, free_bytes, least_pages, wanted);
    halo_budget_of(ops, device, plan, free_bytes, &ret->budget);
    ret->pages_wanted = exact || is_streamed ? least_pages : 4 * (uint64_t)least_pages;
    ret->n_pages = ret->pages_wanted < ret->budget.max_pages ? (uint32_t)ret->pages_wanted : ret->budget.max_pages;
    halo_plan_set_pages(plan, ret->n_pages);
    ret->checkpoints = halo_budget_checkpoints_of(&ret->budget, plan, ret->n_pages, checkpoint_bytes);
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        if (plan->kv[group].state_width > 0)
            plan->kv[group].n_pages += ret->checkpoints.n;
    halo_budget_of(ops, device, plan, free_bytes, &ret->budget);
}

uint64_t halo_budget_token_bytes(const struct halo_budget *budget)
{
    uint64_t n = 0;
    for (uint32_t group = 0; group < budget->n_groups; group++)
        if (budget->groups[group].span == UINT32_MAX)
            n += budget->groups[group].page_bytes;
    return (n + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS;
}

/* Of the groups of states, or of those with windows. */
static uint64_t sequence_bytes(const struct halo_budget *budget, const struct halo_plan *plan, bool states,
                               uint32_t *ret_layers)
{
    uint64_t n = 0;
    *ret_layers = 0;
    for (uint32_t group = 0; group < budget->n_groups; group++)
        if (budget->groups[group].span != UINT32_MAX && (plan->kv[group].state_width > 0) == states) {
            n += budget->groups[group].span * budget->groups[group].page_bytes;
            *ret_layers += plan->kv[group].n_layers;
        }
    return n;
}

uint64_t halo_budget_sequence_bytes(const struct halo_budget *budget)
{
    uint64_t n = 0;
    for (uint32_t group = 0; group < budget->n_groups; group++)
        if (budget->groups[group].span != UINT32_MAX)
            n += budget->groups[group].span * budget->groups[group].page_bytes;
    return n;
}

static const char *keep(uint32_t n_layers)
{
    return n_layers == 1 ? "layer keeps" : "layers keep";
}

void halo_budget_cache_text(const struct halo_budget *budget, const struct halo_plan *plan, char ret[HALO_CACHE_TEXT])
{
    char token[HALO_SIZE_TEXT], window[HALO_SIZE_TEXT], state[HALO_SIZE_TEXT], whole[HALO_SIZE_TEXT];
    uint32_t n_window, n_state, n_full = 0;
    uint64_t window_bytes = sequence_bytes(budget, plan, false, &n_window),
             state_bytes = sequence_bytes(budget, plan, true, &n_state), token_bytes = halo_budget_token_bytes(budget);
    bool has_blocks = false;
    for (uint32_t group = 0; group < budget->n_groups; group++) {
        bool is_blocks = plan->kv[group].stride > 1;
        n_full += budget->groups[group].span == UINT32_MAX && !is_blocks ? plan->kv[group].n_layers : 0;
        has_blocks = has_blocks || is_blocks;
    }
    int n = 0;
    if (n_full > 0)
        n = snprintf(ret, HALO_CACHE_TEXT, "%u %s every token%s", n_full, keep(n_full), has_blocks ? ", and " : "");
    n += snprintf(ret + n, HALO_CACHE_TEXT - (size_t)n, "%s (%s a token)",
                  has_blocks ? "one row is kept for several tokens" : "", halo_size_text(token_bytes, token));
    if (n_window > 0)
        n += snprintf(ret + n, HALO_CACHE_TEXT - (size_t)n, "; %u %s a window (%s a sequence)", n_window,
                      keep(n_window), halo_size_text(window_bytes, window));
    if (n_state > 0)
        n += snprintf(ret + n, HALO_CACHE_TEXT - (size_t)n, "; %u recurrent %s a state (%s a sequence)", n_state,
                      keep(n_state), halo_size_text(state_bytes, state));
    snprintf(
        ret + n, HALO_CACHE_TEXT - (size_t)n, "%s; a sequence of %u tokens takes %s",
        n_window + n_state > 0 ? ", however long it is, which makes long contexts cheap" : "", plan->n_context,
        halo_size_text(window_bytes + state_bytes + (uint64_t)budget->context_pages * HALO_KV_PAGE_TOKENS * token_bytes,
                       whole));
}

uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit)
{
    assert(n_sequences > 0);
    uint32_t n_pages = most_pages(budget, 0, n_sequences);
    return n_pages >= halo_kv_pages_for(limit) ? limit : n_pages * HALO_KV_PAGE_TOKENS;
}
