/* op_attend.c: out = softmax(q K^T * scale) V over the positions of each row's sequence that it sees (op.h).
 *
 * What is computed for a row, whatever runs beside it: its positions are cut into *splits* whose length depends on the
 * row's own position only; inside a split the pages are taken in order as an online softmax (lanes_priv.h); the splits
 * are merged in order.
 *
 * How it is spread: rows of one sequence that are beside each other form a *tile* of at most HALO_CPU_ATTEND_QUERIES
 * queries (rows times the q heads of one kv head), which shares each K and V page once brought to f32. An item is a
 * tile and a kv head, or, when there are few of those, one split of them, whose result waits in scratch for the merge.
 *
 * Device thread, items on all threads. Page numbers were checked when the run began.
 */
#include <math.h>
#include <string.h>

#include "device_priv.h"

struct attend {
    const struct halo_device_model *model;
    const struct halo_op_attend *u;
    const struct halo_kv_group *kv;
    uint32_t group, n_parts;   /* q heads of a kv head, and the parts they are taken in */
    uint32_t n_tiles, n_heads; /* n_heads: kv heads times parts */
    uint32_t k_stride, v_stride;
};

/* The queries of one item and their progress. */
struct item {
    const struct halo_cpu_row_tile *tile;
    const int32_t *pos; /* of the rows of the tile */
    const struct halo_batch_seq *seq;
    uint32_t kv_head, first_head, n_heads; /* q heads */
    float *q, *k, *v;                      /* [queries][k_stride], and a page of each */
    struct halo_cpu_softmax split, total;
};

/* Positions of a split for a row at `pos`: at most HALO_CPU_SPLITS_MAX splits, however long the sequence. */
static uint32_t split_length(int32_t pos)
{
    return HALO_CPU_SPLIT_MIN * ((uint32_t)pos / (HALO_CPU_SPLIT_MIN * HALO_CPU_SPLITS_MAX) + 1);
}

static float *softmax_init(struct halo_cpu_softmax *softmax, float *memory, uint32_t v_stride)
{
    softmax->max = memory;
    softmax->sum = memory + HALO_CPU_ATTEND_QUERIES;
    softmax->out = memory + 2 * HALO_CPU_ATTEND_QUERIES;
    return softmax->out + (size_t)HALO_CPU_ATTEND_QUERIES * v_stride;
}

static void softmax_clear(struct halo_cpu_softmax *softmax, uint32_t n_queries, uint32_t v_stride)
{
    for (uint32_t i = 0; i < n_queries; i++)
        softmax->max[i] = -INFINITY;
    memset(softmax->sum, 0, n_queries * sizeof(float));
    memset(softmax->out, 0, (size_t)n_queries * v_stride * sizeof(float));
}

/* The positions that a row at `pos` sees: from this one to its own. */
static uint32_t first_seen(const struct attend *a, int32_t pos)
{
    return a->u->window > 0 && (uint32_t)pos >= a->u->window ? (uint32_t)pos + 1 - a->u->window : 0;
}

static float temperature_at(const struct halo_op_attend *u, int32_t pos)
{
    if (!(u->temperature > 0))
        return 1;
    return (float)(1 + (double)u->temperature * log(1.0 + (uint32_t)pos / u->temperature_period));
}

/* Lays out the thread's scratch and gathers the queries, [row][head], padded with zeros. */
static struct item item_begin(const struct attend *a, const struct halo_cpu_row_tile *tile, uint32_t head,
                              uint32_t thread)
{
    const struct halo_device_model *model = a->model;
    const struct halo_batch *batch = model->batch;
    uint32_t part = head % a->n_parts, first = part * HALO_CPU_ATTEND_QUERIES, left = a->group - first;
    struct item item = {
        .tile = tile,
        .pos = batch->pos + tile->first_row,
        .seq = &batch->seqs[batch->seq[tile->first_row]],
        .kv_head = head / a->n_parts,
        .first_head = head / a->n_parts * a->group + first,
        .n_heads = left < HALO_CPU_ATTEND_QUERIES ? left : HALO_CPU_ATTEND_QUERIES,
    };
    item.q = (float *)(void *)(model->scratch.attend_thread + thread * model->scratch.attend_thread_bytes);
    item.k = item.q + (size_t)HALO_CPU_ATTEND_QUERIES * a->k_stride;
    item.v = item.k + (size_t)HALO_KV_PAGE_TOKENS * a->k_stride;
    softmax_init(&item.total,
                 softmax_init(&item.split, item.v + (size_t)HALO_KV_PAGE_TOKENS * a->v_stride, a->v_stride),
                 a->v_stride);
    uint32_t dim = a->kv->head_dim_k;
    float *q = item.q;
    for (uint32_t r = 0; r < tile->n_rows; r++) {
        const float *row = halo_cpu_row(model, a->u->q, tile->first_row + r) + (size_t)item.first_head * dim;
        float factor = temperature_at(a->u, item.pos[r]);
        for (uint32_t h = 0; h < item.n_heads; h++, q += a->k_stride) {
            for (uint32_t i = 0; i < dim; i++)
                q[i] = row[(size_t)h * dim + i] * factor;
            if (a->kv->type == HALO_KV_Q4)
                halo_cpu_rotate(dim, q);
            memset(q + dim, 0, (a->k_stride - dim) * sizeof(float));
        }
    }
    return item;
}

/* The K or V rows of a page of the item's sequence and kv head `head`. */
static const uint8_t *stored_rows(const struct attend *a, const struct item *item, uint32_t index, bool value,
                                  uint32_t head)
{
    return halo_cpu_kv_rows(a->model, a->u->kv_group, a->u->kv_layer, item->seq->pages[a->u->kv_group][index], value,
                            head);
}

/* Where this thread will most likely read after page `index`: the next page, or the first page of the head it will
 * claim next. */
static const uint8_t *rows_ahead(const struct attend *a, const struct item *item, uint32_t index, bool value)
{
    uint32_t last = (uint32_t)item->pos[item->tile->n_rows - 1] / HALO_KV_PAGE_TOKENS;
    uint32_t next_head = item->kv_head + a->model->device->n_threads;
    if (index < last)
        return stored_rows(a, item, index + 1, value, item->kv_head);
    uint32_t first = first_seen(a, item->pos[0]) / HALO_KV_PAGE_TOKENS;
    return next_head < a->kv->n_head_kv ? stored_rows(a, item, first, value, next_head) : NULL;
}

/* K or V rows as f32: in place where they are stored so, else brought into `buffer`. */
static const float *page_rows(const struct attend *a, const struct item *item, uint32_t index, bool value,
                              uint32_t n_pos, float *buffer)
{
    const struct halo_kv_group *kv = a->kv;
    uint32_t dim = value ? kv->head_dim_v : kv->head_dim_k;
    const uint8_t *rows = stored_rows(a, item, index, value, item->kv_head);
    if (kv->type == HALO_KV_F32 && dim % HALO_CPU_LANES_WIDTH == 0)
        return (const float *)(const void *)rows;
    a->model->device->lanes->kv_load(kv->type, dim, n_pos, rows, rows_ahead(a, item, index, value), buffer);
    return buffer;
}

/* V of a latent group: the first elements of the page's rows of K. */
static const float *latent_values(const struct attend *a, const struct item *item, const float *k, uint32_t n_pos)
{
    uint32_t dim = a->kv->head_dim_v;
    for (uint32_t i = 0; i < n_pos; i++) {
        float *v = item->v + (size_t)i * a->v_stride;
        memcpy(v, k + (size_t)i * a->k_stride, dim * sizeof(*v));
        memset(v + dim, 0, (a->v_stride - dim) * sizeof(*v));
    }
    return item->v;
}

/* Shows `tile` to n_rows rows from `row` on. */
static void attend_rows(const struct attend *a, const struct item *item, const struct halo_cpu_tile *tile, uint32_t row,
                        uint32_t n_rows)
{
    uint32_t first = row * item->n_heads;
    struct halo_cpu_softmax softmax = {item->split.max + first, item->split.sum + first,
                                       item->split.out + (size_t)first * a->v_stride};
    a->model->device->lanes->attend(tile, n_rows * item->n_heads, item->q + (size_t)first * a->k_stride, a->u->scale,
                                    a->u->cap, &softmax);
}

/* The part of begin .. end - 1 that a row sees: from *ret on, so many positions. */
static uint32_t seen_of(const struct attend *a, const struct item *item, uint32_t row, uint32_t begin, uint32_t end,
                        uint32_t *ret)
{
    uint32_t from = first_seen(a, item->pos[row]), to = (uint32_t)item->pos[row] + 1;
    *ret = from > begin ? from : begin;
    to = to < end ? to : end;
    return to > *ret ? to - *ret : 0;
}

/* One page of positions: rows that see all of it together, others their part of it. */
static void attend_page(const struct attend *a, const struct item *item, uint32_t index)
{
    uint32_t begin = index * HALO_KV_PAGE_TOKENS, end = begin + HALO_KV_PAGE_TOKENS, n_rows = item->tile->n_rows;
    uint32_t n_pos = (uint32_t)item->pos[n_rows - 1] + 1 - begin, from = 0;
    n_pos = n_pos < HALO_KV_PAGE_TOKENS ? n_pos : HALO_KV_PAGE_TOKENS;
    const float *k = page_rows(a, item, index, false, n_pos, item->k);
    const float *v = a->kv->latent ? latent_values(a, item, k, n_pos) : page_rows(a, item, index, true, n_pos, item->v);
    for (uint32_t row = 0, n = 1; row < n_rows; row += n, n = 1) {
        struct halo_cpu_tile tile = {.k_stride = a->k_stride, .v_stride = a->v_stride};
        tile.n_pos = seen_of(a, item, row, begin, end, &from);
        if (tile.n_pos == 0)
            continue;
        tile.k = k + (size_t)(from - begin) * a->k_stride;
        tile.v = v + (size_t)(from - begin) * a->v_stride;
        while (tile.n_pos == HALO_KV_PAGE_TOKENS && row + n < n_rows &&
               seen_of(a, item, row + n, begin, end, &from) == HALO_KV_PAGE_TOKENS)
            n++;
        attend_rows(a, item, &tile, row, n);
    }
}

/* Rows of a tile beside each other. */
struct span {
    uint32_t first, end;
};

/* The rows that see something of split `index`: not those in front of it, nor those whose window begins behind it. */
static struct span rows_of_split(const struct attend *a, const struct item *item, uint32_t index)
{
    uint32_t begin = index * item->tile->split;
    struct span span = {0, item->tile->n_rows};
    while (span.first < span.end && (uint32_t)item->pos[span.first] < begin)
        span.first++;
    while (span.end > span.first && first_seen(a, item->pos[span.end - 1]) >= begin + item->tile->split)
        span.end--;
    return span;
}

/* Fills item->split with split `index` of every row that sees some of it. Returns those rows. */
static struct span attend_split(const struct attend *a, struct item *item, uint32_t index)
{
    uint32_t n_rows = item->tile->n_rows, begin = index * item->tile->split, end = begin + item->tile->split;
    struct span span = rows_of_split(a, item, index);
    softmax_clear(&item->split, n_rows * item->n_heads, a->v_stride);
    if (span.first == span.end)
        return span;
    uint32_t last = (uint32_t)item->pos[span.end - 1] + 1, seen = first_seen(a, item->pos[span.first]);
    begin = seen > begin ? seen / HALO_KV_PAGE_TOKENS * HALO_KV_PAGE_TOKENS : begin;
    end = end < last ? end : last;
    for (uint32_t pos = begin; pos < end; pos += HALO_KV_PAGE_TOKENS)
        attend_page(a, item, pos / HALO_KV_PAGE_TOKENS);
    return span;
}

/* total = total followed by split, for some rows. */
static void merge_rows(const struct attend *a, struct item *item, struct span rows)
{
    uint32_t first = rows.first * item->n_heads, n_queries = rows.end * item->n_heads;
    struct halo_cpu_softmax from = {item->split.max + first, item->split.sum + first,
                                    item->split.out + (size_t)first * a->v_stride};
    struct halo_cpu_softmax into = {item->total.max + first, item->total.sum + first,
                                    item->total.out + (size_t)first * a->v_stride};
    a->model->device->lanes->merge(n_queries - first, a->v_stride, &from, &into);
}

static void item_finish(const struct attend *a, const struct item *item)
{
    uint32_t dim = a->kv->head_dim_v, n_queries = item->tile->n_rows * item->n_heads;
    const struct halo_cpu_lanes *lanes = a->model->device->lanes;
    const float *sinks = halo_cpu_vector(a->model, a->u->sinks);
    for (uint32_t i = 0; i < n_queries; i++) {
        uint32_t head = item->first_head + i % item->n_heads;
        float *out = halo_cpu_row(a->model, a->u->out, item->tile->first_row + i / item->n_heads) + (size_t)head * dim;
        float sink = 0;
        if (sinks) /* beyond the range of a float the sink is all there is, and the quotient 0 */
            lanes->exp(1, &sinks[head], item->total.max[i], &sink);
        lanes->divide(dim, item->total.out + (size_t)i * a->v_stride, item->total.sum[i] + sink, out);
        if (a->kv->type == HALO_KV_Q4)
            halo_cpu_rotate(dim, out);
    }
}

/* All splits of a tile and head, one after the other. The last tiles have most to do and go first. */
static void whole_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct attend *a = arg;
    const struct halo_cpu_row_tile *tile = &a->model->scratch.tiles[a->n_tiles - 1 - index / a->n_heads];
    struct item item = item_begin(a, tile, index % a->n_heads, thread);
    softmax_clear(&item.total, tile->n_rows * item.n_heads, a->v_stride);
    for (uint32_t s = first_seen(a, item.pos[0]) / tile->split; s < tile->n_splits; s++)
        merge_rows(a, &item, attend_split(a, &item, s));
    item_finish(a, &item);
}

/* One split of a tile and head, left in its partial. */
static void split_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct attend *a = arg;
    const struct halo_cpu_scratch *scratch = &a->model->scratch;
    const struct halo_cpu_row_tile *tile = scratch->tiles;
    while (index >= tile->first_item + tile->n_splits * a->n_heads)
        tile++;
    uint32_t local = index - tile->first_item;
    struct item item = item_begin(a, tile, local / tile->n_splits, thread);
    softmax_init(&item.split, scratch->partial + (size_t)index * scratch->partial_floats, a->v_stride);
    attend_split(a, &item, local % tile->n_splits);
}

/* Merges the partials of a tile and head. */
static void merge_item(void *arg, uint32_t index, uint32_t thread)
{
    const struct attend *a = arg;
    const struct halo_cpu_scratch *scratch = &a->model->scratch;
    const struct halo_cpu_row_tile *tile = &scratch->tiles[index / a->n_heads];
    uint32_t head = index % a->n_heads, first = tile->first_item + head * tile->n_splits;
    struct item item = item_begin(a, tile, head, thread);
    softmax_clear(&item.total, tile->n_rows * item.n_heads, a->v_stride);
    for (uint32_t s = 0; s < tile->n_splits; s++) {
        softmax_init(&item.split, scratch->partial + (size_t)(first + s) * scratch->partial_floats, a->v_stride);
        merge_rows(a, &item, rows_of_split(a, &item, s));
    }
    item_finish(a, &item);
}

/* Cuts the batch into tiles and returns how many items their splits are. */
static uint32_t make_tiles(struct attend *a)
{
    const struct halo_batch *batch = a->model->batch;
    uint32_t tile_rows = HALO_CPU_ATTEND_QUERIES / a->group, n_items = 0;
    tile_rows = tile_rows > 0 ? tile_rows : 1;
    for (uint32_t row = 0; row < batch->n_rows; a->n_tiles++) {
        struct halo_cpu_row_tile *tile = &a->model->scratch.tiles[a->n_tiles];
        *tile =
            (struct halo_cpu_row_tile){.first_row = row, .split = split_length(batch->pos[row]), .first_item = n_items};
        for (; row < batch->n_rows && tile->n_rows < tile_rows; row++, tile->n_rows++)
            if (batch->seq[row] != batch->seq[tile->first_row] || split_length(batch->pos[row]) != tile->split)
                break;
        tile->n_splits = (uint32_t)batch->pos[row - 1] / tile->split + 1;
        n_items += tile->n_splits * a->n_heads;
    }
    return n_items;
}

void halo_cpu_op_attend(struct halo_device_model *model, const struct halo_op *op)
{
    const struct halo_kv_group *kv = &model->plan->kv[op->u.attend.kv_group];
    uint32_t group = op->u.attend.n_head / kv->n_head_kv;
    struct attend a = {
        .model = model,
        .u = &op->u.attend,
        .kv = kv,
        .group = group,
        .n_parts = (group + HALO_CPU_ATTEND_QUERIES - 1) / HALO_CPU_ATTEND_QUERIES,
        .k_stride = halo_cpu_stride(kv->head_dim_k),
        .v_stride = halo_cpu_stride(kv->head_dim_v),
    };
    a.n_heads = kv->n_head_kv * a.n_parts;
    uint32_t n_splits = make_tiles(&a), n_whole = a.n_tiles * a.n_heads;
    /* The cut changes no number. Splits pay when the threads would otherwise have few items each. */
    bool by_split = n_whole < HALO_CPU_SPLIT_BELOW * model->device->n_threads && n_splits > n_whole &&
                    n_splits <= model->scratch.n_partials;
    if (by_split) {
        halo_workers_run(model->device->workers, n_splits, split_item, &a);
        halo_workers_run(model->device->workers, n_whole, merge_item, &a);
    } else {
        halo_workers_run(model->device->workers, n_whole, whole_item, &a);
    }
}
