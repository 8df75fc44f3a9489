/* states.c: copies of pages and of states, and where the states of a text are kept.
 *
 * Device thread. K and V of a text can be cut anywhere, a state cannot. So that a text that begins like another need
 * not be computed from its start, states are kept (checkpoints): where a sequence ends, where its text parts from the
 * pages that were listed when it came (the next text that parts there finds them), and on a coarse grid. The last two
 * stand behind whole pages, so prompts are cut there. A copy that fails costs nothing but computing.
 */
#include <assert.h>

#include "device/scheduler_priv.h"

#define GRID 2048 /* positions */

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
    uint32_t known = q->table.n_known * HALO_KV_PAGE_TOKENS, grid = (q->n_filled / GRID + 1) * GRID;
    if (!q->cache_prompt || !has_states(s))
        return UINT32_MAX;
    return known > q->n_filled && known < grid ? known : grid;
}

void halo_scheduler_checkpoint(struct halo_scheduler *s, const struct halo_sequence *q)
{
    uint32_t n = q->n_filled, to[HALO_KV_GROUPS_MAX];
    char reason[HALO_DEVICE_REASON];
    if (!q->cache_prompt || n == 0 || (n % GRID != 0 && n != q->table.n_known * HALO_KV_PAGE_TOKENS) ||
        !halo_kv_table_checkpoint(&q->table, &s->pool, n / HALO_KV_PAGE_TOKENS - 1, to))
        return;
    for (uint32_t group = 1; group < s->setup.plan->n_kv_groups; group++)
        if (to[group] != HALO_KV_NO_PAGE &&
            s->setup.ops->kv_copy(s->setup.device_model, group, page_of(s, q, group, 0), to[group], reason) < 0)
            halo_kv_side_detach(&s->pool.sides[group - 1], q->table.pages[n / HALO_KV_PAGE_TOKENS - 1]);
}
