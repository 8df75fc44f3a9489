/* keep.c: prefixes between a page pool and memory: a chunk on the way out, an image on the way in. Device thread. */
#include <engine/keep.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include <engine/load.h>

#define R_BYTES(save) halo_prefix_record_bytes(&(save)->key)

/* ---- out ---- */

int halo_save_begin(struct halo_save *save)
{
    struct halo_kv_pool *pool = &save->instance->scheduler.pool;
    uint64_t record = R_BYTES(save);
    save->chunk_bytes = record > HALO_SAVE_CHUNK_BYTES ? record : HALO_SAVE_CHUNK_BYTES;
    save->order = calloc(pool->n_pages + 1, sizeof(*save->order));
    save->index_of = calloc(pool->n_pages + 1, sizeof(*save->index_of));
    save->chunk = malloc(save->chunk_bytes);
    if (!save->order || !save->index_of || !save->chunk) {
        halo_save_end(save);
        return -ENOMEM;
    }
    if (pool->n_sides == 0) /* a file has pages of one group only, of which no text could be taken up again */
        save->n_order = halo_kv_pool_hold_listed(pool, save->order);
    return 0;
}

int halo_save_fill(struct halo_save *save, const struct halo_device_ops *ops)
{
    struct halo_instance *instance = save->instance;
    const struct halo_prefix *prefix = &instance->scheduler.pool.prefix;
    uint64_t record_bytes = R_BYTES(save), file_bytes = HALO_PREFIX_HEADER_BYTES + save->n_done * record_bytes;
    char reason[HALO_DEVICE_REASON] = "";
    save->n_chunk = 0;
    while (save->n_done < save->n_order && (save->n_chunk + 1) * record_bytes <= save->chunk_bytes) {
        uint32_t page = save->order[save->n_done];
        const struct halo_prefix_entry *entry = &prefix->entries[page];
        uint8_t *at = save->chunk + save->n_chunk * record_bytes;
        if (!entry->listed) {
            halo_fault_set(&save->fault, HALO_FAULT_CANCELLED, "they were dropped in the meantime");
            return 0;
        }
        if (file_bytes + record_bytes > save->most_bytes || halo_clock_ns() >= save->deadline_ns) {
            save->over = true;
            return 0;
        }
        int r = ops->kv_read(instance->device_model, 0, page, halo_prefix_record_page(at), reason);
        if (r < 0) {
            halo_fault_set(&save->fault, halo_load_fault_code(r), "a page could not be read: %s", reason);
            return r;
        }
        struct halo_prefix_record record = {
            .user = entry->user,
            .n_ids = entry->n_ids,
            .parent = entry->parent == HALO_PREFIX_NONE ? HALO_PREFIX_NONE : save->index_of[entry->parent]};
        memcpy(record.ids, entry->ids, entry->n_ids * sizeof(*record.ids));
        halo_prefix_record_put(at, save->save_id, save->n_done, &record);
        save->index_of[page] = save->n_done++;
        save->n_chunk++;
        file_bytes += record_bytes;
    }
    save->over = save->n_done == save->n_order;
    return 0;
}

void halo_save_end(struct halo_save *save)
{
    if (save->n_order > 0)
        halo_kv_pool_drop_listed(&save->instance->scheduler.pool, save->order, save->n_order);
    free(save->order);
    free(save->index_of);
    free(save->chunk);
    save->order = save->index_of = NULL;
    save->chunk = NULL;
    save->n_order = 0;
}

/* ---- in ---- */

static int restore_one(struct halo_instance *instance, const struct halo_device_ops *ops, const uint8_t *bytes,
                       const struct halo_prefix_record *record, const uint32_t *page_of, uint32_t *ret_page,
                       struct halo_fault *fault)
{
    struct halo_kv_pool *pool = &instance->scheduler.pool;
    char reason[HALO_DEVICE_REASON] = "";
    uint32_t parent = record->parent == HALO_PREFIX_NONE ? HALO_PREFIX_NONE : page_of[record->parent];
    bool is_new;
    uint32_t page = halo_kv_pool_list_free(pool, parent, record->user, record->ids, record->n_ids, &is_new);
    *ret_page = page;
    if (page == HALO_PREFIX_NONE || !is_new)
        return 0;
    int r = ops->kv_write(instance->device_model, 0, page, bytes, reason);
    if (r < 0)
        halo_fault_set(fault, halo_load_fault_code(r), "a page could not be written: %s", reason);
    return r; /* the device's own: whether it is lost depends on it */
}

int halo_keep_restore(struct halo_instance *instance, const struct halo_device_ops *ops,
                      const struct halo_prefix_key *key, const uint8_t *image, uint32_t n_records,
                      uint32_t *ret_n_pages, struct halo_fault *fault)
{
    struct halo_kv_pool *pool = &instance->scheduler.pool;
    uint32_t most = n_records < pool->n_free ? n_records : pool->n_free, n = 0;
    uint32_t *page_of = calloc(most + 1, sizeof(*page_of));
    int r = 0;
    if (!page_of) {
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u pages", most);
        r = -ENOMEM;
    }
    while (r == 0 && n < most) { /* so there is a free page for each */
        struct halo_prefix_record record;
        const uint8_t *bytes = halo_prefix_image_record(image, key, n, &record);
        r = restore_one(instance, ops, bytes, &record, page_of, &page_of[n], fault);
        assert(page_of[n] != HALO_PREFIX_NONE);
        n++;
    }
    if (n > 0)
        halo_kv_pool_drop_listed(pool, page_of, n);
    if (r < 0)
        halo_kv_pool_forget(pool, true, 0);
    free(page_of);
    *ret_n_pages = r < 0 ? 0 : n;
    return r;
}
