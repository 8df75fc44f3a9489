/* keep.c: prefixes between a page pool and memory: a chunk on the way out, an image on the way in. Device thread. */
#include <engine/keep.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include <engine/load.h>

#include "device/kv_keep_priv.h"

/* ---- out ---- */

int halo_save_begin(struct halo_save *save)
{
    struct halo_kv_pool *pool = &save->instance->scheduler.pool;
    uint64_t most = halo_prefix_record_bytes(&save->key, (1u << save->key.n_groups) - 1);
    save->file_bytes = HALO_PREFIX_HEADER_BYTES;
    save->chunk_bytes = most > HALO_SAVE_CHUNK_BYTES ? most : HALO_SAVE_CHUNK_BYTES;
    save->order = calloc(pool->n_pages + 1, sizeof(*save->order));
    save->index_of = calloc(pool->n_pages + 1, sizeof(*save->index_of));
    save->groups = calloc(pool->n_pages + 1, sizeof(*save->groups));
    save->chunk = malloc(save->chunk_bytes);
    if (!save->order || !save->index_of || !save->groups || !save->chunk) {
        halo_save_end(save);
        return -ENOMEM;
    }
    save->n_order = halo_kv_keep_hold(pool, save->order);
    struct halo_kv_keep_room room = {.most_bytes = save->most_bytes,
                                     .own_bytes = halo_prefix_record_bytes(&save->key, 0)};
    room.most_bytes -= room.most_bytes < HALO_PREFIX_HEADER_BYTES ? room.most_bytes : HALO_PREFIX_HEADER_BYTES;
    memcpy(room.group_bytes, save->key.page_bytes, sizeof(room.group_bytes));
    int r = halo_kv_keep_choose(pool, save->order, save->n_order, &room, save->groups);
    if (r < 0)
        halo_save_end(save);
    return r;
}

/* The next page with what goes with it. A negative errno of the device, save->fault is set. */
static int add_record(struct halo_save *save, const struct halo_device_ops *ops, uint32_t page)
{
    const struct halo_kv_pool *pool = &save->instance->scheduler.pool;
    const struct halo_prefix_entry *entry = &pool->prefix.entries[page];
    uint8_t *at = save->chunk + save->chunk_used;
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_prefix_record record = {.user = entry->user,
                                        .n_ids = entry->n_ids,
                                        .groups = save->groups[page],
                                        .worth = halo_kv_keep_worth(pool, page, save->groups[page]),
                                        .parent = entry->parent == HALO_PREFIX_NONE ? HALO_PREFIX_NONE
                                                                                    : save->index_of[entry->parent]};
    memcpy(record.ids, entry->ids, entry->n_ids * sizeof(*record.ids));
    halo_prefix_record_put(at, save->save_id, save->n_done, &record);
    for (uint32_t group = 0; group < save->key.n_groups; group++) {
        if (!(record.groups >> group & 1))
            continue;
        int r = ops->kv_read(save->instance->device_model, group, group == 0 ? page : pool->sides[group - 1].of[page],
                             halo_prefix_record_page(at, &save->key, group), reason);
        if (r < 0) {
            halo_fault_set(&save->fault, halo_load_fault_code(r), "a page could not be read: %s", reason);
            return r;
        }
    }
    uint64_t n_bytes = halo_prefix_record_bytes(&save->key, record.groups);
    save->chunk_used += n_bytes;
    save->file_bytes += n_bytes;
    save->index_of[page] = save->n_done++;
    save->n_chunk++;
    return 0;
}

int halo_save_fill(struct halo_save *save, const struct halo_device_ops *ops)
{
    const struct halo_kv_pool *pool = &save->instance->scheduler.pool;
    save->n_chunk = 0;
    save->chunk_used = 0;
    for (; save->n_next < save->n_order; save->n_next++) {
        uint32_t page = save->order[save->n_next];
        if (!pool->prefix.entries[page].listed) {
            halo_fault_set(&save->fault, HALO_FAULT_CANCELLED, "they were dropped in the meantime");
            return 0;
        }
        if (save->groups[page] == 0)
            continue;
        for (uint32_t s = 0; s < pool->n_sides; s++) /* a bench may have taken it */
            if (pool->sides[s].of[page] == HALO_KV_NO_PAGE)
                save->groups[page] &= (uint8_t) ~(2u << s);
        uint64_t n_bytes = halo_prefix_record_bytes(&save->key, save->groups[page]);
        if (save->file_bytes + n_bytes > save->most_bytes || halo_clock_ns() >= save->deadline_ns) {
            save->over = true;
            return 0;
        }
        if (save->chunk_used + n_bytes > save->chunk_bytes)
            return 0;
        int r = add_record(save, ops, page);
        if (r < 0)
            return r;
    }
    save->over = true;
    return 0;
}

void halo_save_end(struct halo_save *save)
{
    if (save->n_order > 0)
        halo_kv_keep_drop(&save->instance->scheduler.pool, save->order, save->n_order);
    free(save->order);
    free(save->index_of);
    free(save->groups);
    free(save->chunk);
    save->order = save->index_of = NULL;
    save->groups = save->chunk = NULL;
    save->n_order = 0;
}

/* ---- in ---- */

/* A record in the pool; held until all are there. */
struct restored {
    uint32_t page;
    uint32_t groups; /* bit g: it holds what is attached to the page in group g */
};

static int write_page(struct halo_instance *instance, const struct halo_device_ops *ops, uint32_t group, uint32_t page,
                      const uint8_t *bytes, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON] = "";
    int r = ops->kv_write(instance->device_model, group, page, bytes, reason);
    if (r < 0)
        halo_fault_set(fault, halo_load_fault_code(r), "a page could not be written: %s", reason);
    return r; /* the device's own: whether it is lost depends on it */
}

static int restore_one(struct halo_instance *instance, const struct halo_device_ops *ops,
                       const struct halo_prefix_record *record, struct restored *done, struct restored *ret,
                       struct halo_fault *fault)
{
    struct halo_kv_pool *pool = &instance->scheduler.pool;
    uint32_t parent = record->parent == HALO_PREFIX_NONE ? HALO_PREFIX_NONE : done[record->parent].page;
    bool is_new;
    *ret =
        (struct restored){.page = halo_kv_keep_list(pool, parent, record->user, record->ids, record->n_ids, &is_new)};
    assert(ret->page != HALO_PREFIX_NONE); /* there is a free page for each */
    int r = is_new ? write_page(instance, ops, 0, ret->page, record->pages[0], fault) : 0;
    for (uint32_t group = 1; r == 0 && group <= pool->n_sides; group++) {
        uint32_t page = record->pages[group]
                            ? halo_kv_keep_attach(pool, group, ret->page, (enum halo_kv_worth)record->worth)
                            : HALO_KV_NO_PAGE;
        if (page == HALO_KV_NO_PAGE)
            continue;
        ret->groups |= 1u << group;
        r = write_page(instance, ops, group, page, record->pages[group], fault);
    }
    return r;
}

/* The last first, so that what was used last is evicted last. */
static void drop_restored(struct halo_kv_pool *pool, const struct restored *done, uint32_t n)
{
    while (n-- > 0) {
        for (uint32_t s = 0; s < pool->n_sides; s++)
            if (done[n].groups >> (s + 1) & 1)
                halo_kv_side_drop(&pool->sides[s], pool->sides[s].of[done[n].page]);
        halo_kv_keep_drop(pool, &done[n].page, 1);
    }
}

int halo_keep_restore(struct halo_instance *instance, const struct halo_device_ops *ops,
                      const struct halo_prefix_key *key, const uint8_t *image, uint32_t n_records,
                      uint32_t *ret_n_pages, struct halo_fault *fault)
{
    struct halo_kv_pool *pool = &instance->scheduler.pool;
    uint32_t most = n_records < pool->n_free ? n_records : pool->n_free, n = 0;
    struct restored *done = calloc(most + 1, sizeof(*done));
    uint64_t at = HALO_PREFIX_HEADER_BYTES;
    int r = 0;
    if (!done) {
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u pages", most);
        r = -ENOMEM;
    }
    while (r == 0 && n < most) {
        struct halo_prefix_record record;
        at = halo_prefix_image_next(image, key, at, &record);
        r = restore_one(instance, ops, &record, done, &done[n], fault);
        n++;
    }
    drop_restored(pool, done, n);
    if (r < 0)
        halo_kv_pool_forget(pool, true, 0);
    free(done);
    *ret_n_pages = r < 0 ? 0 : n;
    return r;
}
