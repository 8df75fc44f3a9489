/* input.c: what changes from batch to batch: tokens, positions, pages, tiles, tables of rotations.
 *
 * A set of inputs is one buffer of pinned memory, laid out by the number of rows, pages last, so that one copy moves
 * all of it to a discrete GPU. Cosines and sines are computed here, in double: sinf on the GPU is inaccurate for large
 * angles. Only so many sequences take part in a batch that the page numbers of long contexts take little memory. Device
 * thread.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "run_priv.h"

#define TURNS 16 /* frequencies at a time: a line of the table */

static uint64_t align16(uint64_t n)
{
    return (n + 15) & ~15ull;
}

static uint32_t pages_per_sequence(const struct halo_plan *plan)
{
    return (plan->n_context + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS;
}

uint32_t halo_hip_table_find(const struct halo_plan *plan, uint32_t rope, uint32_t ratio)
{
    const struct halo_hip_tables tables = halo_hip_tables_of(plan);
    uint32_t i = 0;
    while (i < tables.n && (tables.table[i].rope != rope || tables.table[i].ratio != ratio))
        i++;
    return i < tables.n ? i : HALO_HIP_TABLES_MAX;
}

struct halo_hip_tables halo_hip_tables_of(const struct halo_plan *plan)
{
    struct halo_hip_tables ret = {0};
    for (; ret.n < plan->n_ropes && ret.n < HALO_HIP_ROPES_MAX; ret.n++) {
        ret.table[ret.n].rope = ret.n;
        ret.table[ret.n].ratio = 1;
    }
    for (const struct halo_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        const struct halo_op_compress *u = &op->u.compress;
        uint32_t i = 0;
        if (op->kind != HALO_OP_COMPRESS)
            continue;
        while (i < ret.n && (ret.table[i].rope != u->rope || ret.table[i].ratio != u->ratio))
            i++;
        if (i < ret.n || ret.n == HALO_HIP_TABLES_MAX)
            continue;
        ret.table[ret.n].rope = u->rope;
        ret.table[ret.n++].ratio = u->ratio;
    }
    return ret;
}

/* Offsets in a set for n_rows rows. */
struct offsets {
    uint64_t token, pos, page_first, output, tile, state_run, rope[HALO_HIP_TABLES_MAX], pages;
};

static bool has_states(const struct halo_plan *plan)
{
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        if (plan->kv[group].state_width > 0)
            return true;
    return false;
}

static struct offsets offsets_of(const struct halo_plan *plan, const struct halo_hip_tables *tables, uint64_t n_rows)
{
    struct offsets at = {0};
    uint64_t word = align16(n_rows * 4);
    uint64_t n_outputs = plan->max_outputs;
    at.pos = word;
    at.page_first = 2 * word;
    at.output = 3 * word;
    at.tile = at.output + align16(n_outputs * 4);
    at.state_run = at.tile + align16(n_rows * sizeof(struct halo_prefill_tile));
    at.pages = at.state_run + (has_states(plan) ? align16(n_rows * sizeof(struct halo_state_run)) : 0);
    for (uint32_t i = 0; i < tables->n; i++) {
        at.rope[i] = at.pages;
        at.pages += align16(n_rows * plan->ropes[tables->table[i].rope].n_rot * sizeof(float));
    }
    return at;
}

uint64_t halo_hip_input_bytes(const struct halo_plan *plan)
{
    const struct halo_hip_tables tables = halo_hip_tables_of(plan);
    return offsets_of(plan, &tables, plan->max_rows).pages +
           (uint64_t)plan->n_kv_groups * halo_hip_most_sequences(plan) * pages_per_sequence(plan) * sizeof(uint32_t);
}

/* The row before r that belongs to the same sequence, or r itself. */
static uint32_t same_sequence(const struct halo_batch *batch, uint32_t r)
{
    for (uint32_t i = r; i-- > 0;)
        if (batch->seq[i] == batch->seq[r])
            return i;
    return r;
}

/* The pages that every sequence with a row has in a group, once each. Returns their number, the same in each group. */
static uint32_t fill_pages(struct halo_hip_run *run, uint32_t group, uint32_t *page_first, uint32_t *pages)
{
    const struct halo_plan *plan = run->model->plan;
    const struct halo_batch *batch = run->batch;
    uint32_t n = 0, most = pages_per_sequence(plan);
    run->apart = true;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        uint32_t before = same_sequence(batch, r);
        if (before < r) {
            run->apart = false;
            page_first[r] = page_first[before];
            continue;
        }
        const struct halo_batch_seq *seq = &batch->seqs[batch->seq[r]];
        uint32_t n_pages = seq->n_pages < most ? seq->n_pages : most;
        memcpy(pages + n, seq->pages[group], n_pages * sizeof(*pages));
        page_first[r] = n;
        n += n_pages;
    }
    return n;
}

/* The rows of each sequence, which stand beside each other where the plan has states. */
static void fill_sequences(struct halo_hip_run *run, struct halo_state_run *runs)
{
    const struct halo_batch *batch = run->batch;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        if (r == 0 || batch->seq[r] != batch->seq[r - 1])
            runs[run->n_seqs++] = (struct halo_state_run){.first = r};
        runs[run->n_seqs - 1].n_rows++;
    }
}

/* Of a group of states: the slots of the sequences. */
static uint32_t fill_slots(const struct halo_hip_run *run, uint32_t group, const struct halo_state_run *runs,
                           uint32_t *slots)
{
    for (uint32_t s = 0; s < run->n_seqs; s++)
        slots[s] = run->batch->seqs[run->batch->seq[runs[s].first]].pages[group][0];
    return run->n_seqs;
}

/* Runs of rows of one sequence at consecutive positions, cut into tiles. */
static void fill_tiles(struct halo_hip_run *run, struct halo_prefill_tile *tile)
{
    run->tiles = tile;
    const struct halo_batch *batch = run->batch;
    for (uint32_t r = 0, n; r < batch->n_rows; r += n) {
        for (n = 1; r + n < batch->n_rows && n < HALO_PREFILL_ROWS; n++)
            if (batch->seq[r + n] != batch->seq[r] || batch->pos[r + n] != batch->pos[r] + (int32_t)n)
                break;
        tile[run->n_tiles++] = (struct halo_prefill_tile){r, n};
    }
}

struct turn {
    double cos, sin;
};

static struct turn turn_of(uint32_t pos, double freq)
{
    double angle = pos * freq;
    return (struct turn){cos(angle), sin(angle)};
}

/* Frequencies first .. first + n - 1 of all rows. A turn is that of a page and that of the position in it: of a long
 * chunk each is computed once. A row has the same numbers in every batch. */
static void fill_turns(const struct halo_rope *rope, uint32_t ratio, const struct halo_batch *batch, uint32_t first,
                       uint32_t n, float *table)
{
    struct turn page[TURNS], within[HALO_KV_PAGE_TOKENS][TURNS];
    bool known[HALO_KV_PAGE_TOKENS] = {false};
    uint32_t page_now = UINT32_MAX;
    for (uint32_t r = 0; r < batch->n_rows; r++, table += rope->n_rot) {
        if (((uint32_t)batch->pos[r] + 1) % ratio != 0)
            continue;
        uint32_t pos = (uint32_t)batch->pos[r] + 1 - ratio, at = pos % HALO_KV_PAGE_TOKENS, at_page = pos - at;
        for (uint32_t i = 0; i < n && at_page != page_now; i++)
            page[i] = turn_of(at_page, rope->freqs[first + i]);
        for (uint32_t i = 0; i < n && !known[at]; i++)
            within[at][i] = turn_of(at, rope->freqs[first + i]);
        page_now = at_page;
        known[at] = true;
        for (uint32_t i = 0; i < n; i++) {
            const struct turn a = page[i], b = within[at][i];
            table[first + i] = (float)((a.cos * b.cos - a.sin * b.sin) * (double)rope->scale);
            table[rope->n_rot / 2 + first + i] = (float)((a.sin * b.cos + a.cos * b.sin) * (double)rope->scale);
        }
    }
}

/* At the rows' positions, or at the first ones of the blocks of `ratio` that they end; other rows have no use of it. */
static void fill_rope(const struct halo_rope *rope, uint32_t ratio, const struct halo_batch *batch, float *table)
{
    uint32_t n = rope->n_rot / 2;
    for (uint32_t first = 0; first < n; first += TURNS)
        fill_turns(rope, ratio, batch, first, n - first < TURNS ? n - first : TURNS, table);
}

/* Pages and slots of all groups. A graph keeps the addresses that it was recorded with: where those of a group lie must
 * not depend on how many pages the sequences have. Batches of more rows than graphs take are packed. */
static void fill_groups(struct halo_hip_run *run, uint8_t *host, uint8_t *device, const struct offsets *at)
{
    const struct halo_plan *plan = run->model->plan;
    uint32_t n_rows = run->batch->n_rows, apart = n_rows <= HALO_HIP_GRAPH_ROWS ? n_rows * pages_per_sequence(plan) : 0;
    struct halo_hip_inputs *in = &run->in;
    struct halo_state_run *runs = (struct halo_state_run *)(void *)(host + at->state_run);
    if (has_states(plan))
        fill_sequences(run, runs);
    in->state_run = (const struct halo_state_run *)(const void *)(device + at->state_run);
    in->n_bytes = at->pages;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        uint32_t *pages = (uint32_t *)(void *)(host + in->n_bytes), n;
        in->pages[group] = (const uint32_t *)(const void *)(device + in->n_bytes);
        if (plan->kv[group].state_width > 0)
            n = fill_slots(run, group, runs, pages);
        else
            n = fill_pages(run, group, (uint32_t *)(void *)(host + at->page_first), pages);
        bool is_last = group + 1 == plan->n_kv_groups;
        in->n_bytes += sizeof(uint32_t) * (uint64_t)(is_last || apart == 0 ? n : apart);
    }
}

void halo_hip_input_fill(struct halo_hip_run *run, uint8_t *host, uint8_t *device)
{
    const struct halo_plan *plan = run->model->plan;
    const struct halo_batch *batch = run->batch;
    struct halo_hip_inputs *in = &run->in;
    const struct halo_hip_tables *tables = &run->model->tables;
    const struct offsets at = offsets_of(plan, tables, batch->n_rows);
    memcpy(host + at.token, batch->token, batch->n_rows * sizeof(int32_t));
    memcpy(host + at.pos, batch->pos, batch->n_rows * sizeof(int32_t));
    if (batch->n_outputs > 0)
        memcpy(host + at.output, batch->output, batch->n_outputs * sizeof(uint32_t));
    fill_tiles(run, (struct halo_prefill_tile *)(void *)(host + at.tile));
    for (uint32_t i = 0; i < tables->n; i++) {
        fill_rope(&plan->ropes[tables->table[i].rope], tables->table[i].ratio, batch,
                  (float *)(void *)(host + at.rope[i]));
        in->rope[i] = (const float *)(const void *)(device + at.rope[i]);
    }
    fill_groups(run, host, device, &at);
    for (uint32_t r = 0; r < batch->n_rows; r++)
        run->n_positions = (uint32_t)batch->pos[r] >= run->n_positions ? (uint32_t)batch->pos[r] + 1 : run->n_positions;
    uint32_t n_longest = HALO_HIP_CEIL(run->n_positions, HALO_KV_PAGE_TOKENS);
    while (run->level + 1 < HALO_HIP_LEVELS && n_longest > 1u << 2 * run->level)
        run->level++;
    in->token = (const int32_t *)(const void *)(device + at.token);
    in->pos = (const int32_t *)(const void *)(device + at.pos);
    in->page_first = (const uint32_t *)(const void *)(device + at.page_first);
    in->output = (const uint32_t *)(const void *)(device + at.output);
    in->tile = (const struct halo_prefill_tile *)(const void *)(device + at.tile);
    assert(in->n_bytes <= halo_hip_input_bytes(plan));
}
