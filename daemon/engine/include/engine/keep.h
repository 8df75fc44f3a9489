/* keep.h: cached prefixes on their way out of a page pool, to be saved, and back into one.
 *
 * Saved is what a model has when it goes, and at the end what all have. A save goes model by model, in chunks: the
 * device thread copies pages into the chunk, the io thread writes it to disk, until all are out, the deadline has
 * come or no more bytes are allowed: then what is there is the file. While it lasts the pages are held, the model's
 * sequences do not move, and the model is held by the port. Pages go in the order of their last use, the latest first,
 * but behind those that they follow. With a page go the pages and slots of other groups that a text can be continued
 * from (kv_keep_priv.h).
 */
#ifndef HALO_ENGINE_KEEP_H
#define HALO_ENGINE_KEEP_H

#include <engine/instance.h>
#include <engine/prefix_disk.h>

#define HALO_SAVE_CHUNK_BYTES (8u << 20)

struct halo_save {
    struct halo_note note;
    struct halo_job *job; /* NULL: the model is being unloaded */
    struct halo_instance *instance;
    uint64_t deadline_ns;
    uint64_t most_bytes, all_bytes; /* of this file; of all files together */
    struct halo_prefix_key key;
    char stamp[HALO_GGUF_STAMP_BYTES];
    uint8_t save_id[HALO_PREFIX_SAVE_BYTES];
    char coming[HALO_PREFIX_NAME_BYTES]; /* the file of the model that is next to be loaded: stays. "": none */

    /* the device thread's */
    uint32_t *order, *index_of; /* pages to go, held; by page: its index in the file */
    uint8_t *groups;            /* by page: bit g: what it has of group g goes; 0: it stays */
    uint32_t n_order, n_next;   /* of order: looked at */
    uint32_t n_done;            /* records */
    uint8_t *chunk;
    uint64_t chunk_bytes, chunk_used, file_bytes; /* room; of it filled; of the file so far, this chunk included */
    uint32_t n_chunk;                             /* records in it */
    bool over;                                    /* the chunk is the last one */

    /* the io thread's */
    struct halo_prefix_writer writer;

    struct halo_fault fault; /* code NONE: going well. The file is not there then */
};

/* Device thread. Begins: lists and holds the pages. -ENOMEM. */
int halo_save_begin(struct halo_save *save);
/* Fills the chunk; sets `over` when it is the last one. A negative errno of the device, save->fault is set. */
int halo_save_fill(struct halo_save *save, const struct halo_device_ops *ops);
/* Lets go of what begin took. */
void halo_save_end(struct halo_save *save);

/* The io thread: the chunk goes to disk; when it is the last one, the file gets its name. Sets save->fault. */
void halo_save_write(struct halo_save *save, const char *state_dir);

/* Device thread: lists the records of a checked image, as idle pages, as far as the pool has free ones. Returns how
 * many pages came; on a failure of the device none, and the fault is set. */
int halo_keep_restore(struct halo_instance *instance, const struct halo_device_ops *ops,
                      const struct halo_prefix_key *key, const uint8_t *image, uint32_t n_records,
                      uint32_t *ret_n_pages, struct halo_fault *fault);

#endif
