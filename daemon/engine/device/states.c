/* states.c: copies of pages and of states, and where the states of a text are kept.
 *
 * Device thread. K and V of a text can be cut anywhere, a state cannot. So that a text that begins like another need
 * not be computed from its start, states are kept (checkpoints): where a sequence ends, and at the places of
 * kv_worth.h. Prompts are cut there. A copy that fails costs nothing but computing.
 */
#include "device/scheduler_priv.h"

/* The page that a group has of the sequence at page `at` of the first group. */
static uint32_t page_of(const struct halo_scheduler *s, const struct halo_sequence *q, uint32_t group, uint32_t at)
{
    bool has_states = s->setup.plan->kv[group].state_width > 0;
    return halo_kv_table_seq(&q->table).pages[group][has_states ? 0 : at];
}

bool halo_scheduler_copy(struct halo_scheduler *s, const struct halo_sequence *q, uint32_t at,
                         const uint32_t from[HALO_KV_GROUPS_MAX])
{
    char reason[HALO_DEVICE_REASON];
    for (uint32_t group = 0; group < s->setup.plan->n_kv_groups; group++) {
        uint32_t to = page_of(s, q, group, at);
        if (from[group] != HALO_KV_NO_PAGE && from[group] != to &&
            s->setup.ops->kv_copy(s->setup.device_model, group, from[group], to, reason) < 0)
            return false;
        if (group > 0 && from[group] != HALO_KV_NO_PAGE)
            halo_kv_side_touch(&s->pool.sides[group - 1], from[group]);
    }
    return true;
}

static bool has_states(const struct halo_scheduler *s)
{
    for (uint32_t side = 0; side < s->pool.n_sides; side++)
        if (halo_kv_side_has_states(&s->pool.sides[side]))
            return true;
    return false;
}

uint32_t halo_scheduler_next_checkpoint(const struct halo_scheduler *s, const struct halo_sequence *q)
{
    if (!q->cache_prompt || !has_states(s))
        return UINT32_MAX;
    return halo_kv_next_place(&q->table.places, q->n_filled);
}

void halo_scheduler_checkpoint(struct halo_scheduler *s, const struct halo_sequence *q)
{
    uint32_t to[HALO_KV_GROUPS_MAX];
    enum halo_kv_worth worth;
    char reason[HALO_DEVICE_REASON];
    if (!q->cache_prompt || !has_states(s) ||
        !halo_kv_is_place(&q->table.places, q->n_filled, q->table.resumed, &worth))
        return;
    uint32_t page = halo_kv_table_checkpoint(&q->table, &s->pool, q->user, q->ids, q->n_filled, worth, to);
    for (uint32_t group = 0; group < s->setup.plan->n_kv_groups && page != HALO_PREFIX_NONE; group++) {
        uint32_t at = (q->n_filled - 1) / HALO_KV_PAGE_TOKENS;
        if (to[group] != HALO_KV_NO_PAGE &&
            s->setup.ops->kv_copy(s->setup.device_model, group, page_of(s, q, group, at), to[group], reason) < 0) {
            halo_kv_pool_undo_checkpoint(&s->pool, page, to);
            return;
        }
    }
}
