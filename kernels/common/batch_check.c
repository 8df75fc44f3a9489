/* batch_check.c: whether a batch fits its plan (contract in check.h). */
#include <common/check.h>

#include <errno.h>

#include <common/reason.h>

static int check_row(const struct halo_plan *plan, const struct halo_batch *batch, uint32_t r, char *reason)
{
    if (batch->token[r] < 0 || (uint32_t)batch->token[r] >= plan->n_vocab)
        return halo_reason(reason, -EINVAL, "row %u: token %d is outside the vocabulary of %u", r, batch->token[r],
                           plan->n_vocab);
    if (batch->seq[r] >= batch->n_seqs)
        return halo_reason(reason, -EINVAL, "row %u: sequence %u of %u", r, batch->seq[r], batch->n_seqs);
    if (batch->pos[r] < 0 || (uint32_t)batch->pos[r] >= plan->n_context)
        return halo_reason(reason, -EINVAL, "row %u: position %d is outside the context of %u", r, batch->pos[r],
                           plan->n_context);
    if ((uint32_t)batch->pos[r] / HALO_KV_PAGE_TOKENS >= batch->seqs[batch->seq[r]].n_pages)
        return halo_reason(reason, -EINVAL, "row %u: position %d has no page, the sequence has %u", r, batch->pos[r],
                           batch->seqs[batch->seq[r]].n_pages);
    if (r > 0 && batch->seq[r] == batch->seq[r - 1] && batch->pos[r] <= batch->pos[r - 1])
        return halo_reason(reason, -EINVAL, "row %u: position %d after %d", r, batch->pos[r], batch->pos[r - 1]);
    return 0;
}

static int check_pages(const struct halo_kv_group *kv, const struct halo_batch_seq *seq, uint32_t group, uint32_t s,
                       char *reason)
{
    for (uint32_t i = 0; i < (kv->state_width > 0 ? 1 : seq->n_pages); i++) {
        uint32_t page = seq->pages[group][i];
        if (page >= kv->n_pages && (kv->window == 0 || page != HALO_KV_NO_PAGE))
            return halo_reason(reason, -EINVAL, "sequence %u: page %u of a pool of %u", s, page, kv->n_pages);
    }
    return 0;
}

/* Of a group with a window: the row has every page that it sees. */
static int check_window(const struct halo_kv_group *kv, const struct halo_batch *batch, uint32_t group, uint32_t r,
                        char *reason)
{
    const uint32_t *pages = batch->seqs[batch->seq[r]].pages[group];
    uint32_t pos = (uint32_t)batch->pos[r];
    for (uint32_t i = halo_kv_first_page(kv->window, pos); i <= pos / HALO_KV_PAGE_TOKENS; i++)
        if (pages[i] == HALO_KV_NO_PAGE)
            return halo_reason(reason, -EINVAL, "row %u: position %u sees page %u of group %u, which was released", r,
                               pos, i, group);
    return 0;
}

static bool has_states(const struct halo_plan *plan)
{
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        if (plan->kv[group].state_width > 0)
            return true;
    return false;
}

/* With a group of states: the rows of a sequence stand beside each other and no position is left out. */
static int check_order(const struct halo_batch *batch, uint32_t r, char *reason)
{
    if (r > 0 && batch->seq[r] == batch->seq[r - 1])
        return batch->pos[r] == batch->pos[r - 1] + 1
                   ? 0
                   : halo_reason(reason, -EINVAL, "row %u: position %d after %d, a state takes every position", r,
                                 batch->pos[r], batch->pos[r - 1]);
    for (uint32_t i = 0; i < r; i++)
        if (batch->seq[i] == batch->seq[r])
            return halo_reason(reason, -EINVAL, "row %u: sequence %u is also at row %u, with another one between them",
                               r, batch->seq[r], i);
    return 0;
}

int halo_batch_check(const struct halo_plan *plan, const struct halo_batch *batch, char *reason)
{
    if (batch->n_rows > plan->max_rows || batch->n_outputs > plan->max_outputs)
        return halo_reason(reason, -EINVAL, "a batch of %u rows and %u outputs, the plan allows %u and %u",
                           batch->n_rows, batch->n_outputs, plan->max_rows, plan->max_outputs);
    if ((plan->takes.n > 0 && !batch->taken) || (plan->leaves.n > 0 && !batch->left))
        return halo_reason(reason, -EINVAL, "the batch has no memory for the rows that the stage %s",
                           plan->takes.n > 0 && !batch->taken ? "takes" : "leaves");
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        int error = check_row(plan, batch, r, reason);
        if (error)
            return error;
    }
    for (uint32_t s = 0; s < batch->n_seqs; s++)
        for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
            int error = check_pages(&plan->kv[group], &batch->seqs[s], group, s, reason);
            if (error)
                return error;
        }
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        for (uint32_t r = 0; r < batch->n_rows && plan->kv[group].window > 0; r++) {
            int error = check_window(&plan->kv[group], batch, group, r, reason);
            if (error)
                return error;
        }
    for (uint32_t r = 0; r < batch->n_rows && has_states(plan); r++) {
        int error = check_order(batch, r, reason);
        if (error)
            return error;
    }
    for (uint32_t i = 0; i < batch->n_outputs; i++) {
        if (batch->output[i] >= batch->n_rows)
            return halo_reason(reason, -EINVAL, "output %u: row %u of %u", i, batch->output[i], batch->n_rows);
        if (i > 0 && batch->output[i] <= batch->output[i - 1])
            return halo_reason(reason, -EINVAL, "output %u: row %u after %u", i, batch->output[i],
                               batch->output[i - 1]);
    }
    return 0;
}

int halo_page_check(const struct halo_plan *plan, uint32_t group, uint32_t page, char *reason)
{
    if (group >= plan->n_kv_groups)
        return halo_reason(reason, -EINVAL, "group %u of the cache does not exist; the number of groups is %u", group,
                           plan->n_kv_groups);
    uint32_t n_pages = plan->kv[group].n_pages;
    return page < n_pages ? 0 : halo_reason(reason, -EINVAL, "page %u of a pool of %u", page, n_pages);
}
