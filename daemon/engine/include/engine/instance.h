/* instance.h: a model that is in memory, coming, or going, and the load that brings it.
 *
 * A `halo_instance` is made by the port when a load begins and destroyed by it when the model is gone. The port counts
 * its users (requests that name it), so that the text thread may use the tokenizer and the device thread the weights
 * without a lock: an unload waits until nobody uses it. A `halo_load` travels: text thread (directory, plan), device
 * thread (admission, memory), prefetch thread (bytes), device thread (seal), port.
 */
#ifndef HALO_ENGINE_LOADED_H
#define HALO_ENGINE_LOADED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/model_stem.h>
#include <kernels/device.h>
#include <model/model.h>
#include <store/reader.h>

#include <engine/note.h>
#include <engine/scheduler.h>
#include <engine/sequence.h>
#include <engine/texts.h>

#define HALO_MAX_LOADED 16 /* models at once */
#define HALO_MAX_KNOWN 64  /* models at once and loads that wait */
#define HALO_MODEL_PATH_BYTES 4097
#define HALO_BATCH_ROWS 256   /* rows of a step, at most */
#define HALO_BATCH_OUTPUTS 64 /* rows of a step whose logits are wanted, at most */

enum halo_instance_state {
    HALO_INSTANCE_LOADING,
    HALO_INSTANCE_READY,
    HALO_INSTANCE_DRAINING,
    HALO_INSTANCE_GONE,
    HALO_N_INSTANCE_STATES
};

/* Why a model goes; the order is that of the words on the wire. */
enum halo_unload_why { HALO_UNLOAD_ASKED, HALO_UNLOAD_IDLE, HALO_UNLOAD_ROOM };

struct halo_instance {
    struct halo_note note;
    char name[HALO_MODEL_STEM_BYTES]; /* what requests call it: the file's stem */

    /* the port's */
    enum halo_instance_state state;
    uint32_t n_users;
    uint64_t keep_alive_ns, idle_since_ns; /* keep_alive 0: for ever */
    bool pinned;                           /* goes only when asked to, whatever keep_alive says */
    enum halo_unload_why why;              /* DRAINING */
    bool to_save;                          /* DRAINING: its prefixes go to the disk before it goes */
    uint32_t n_saved;                      /* pages of them */
    struct halo_fault save_fault;          /* why they are not saved; code NONE: no reason, or there are none */
    struct halo_job *waiting;              /* requests that wait for the load */
    struct halo_job *unloader;             /* the request that asked for the unload; NULL: none */

    /* set by the load, fixed from READY on */
    char path[HALO_MODEL_PATH_BYTES];
    struct halo_model *model;
    struct halo_texts texts;
    struct halo_pieces pieces;
    uint64_t weights_bytes, kv_bytes, scratch_bytes;
    uint32_t context, kv_tokens;

    /* the device thread's */
    struct halo_device_model *device_model;
    struct halo_scheduler scheduler;
    bool saving;          /* its pages are on their way to the disk: sequences stand still */
    uint64_t freed_bytes; /* set before UNLOAD_DONE */
};

/* All memory that it takes. READY or DRAINING. */
static inline uint64_t halo_instance_bytes(const struct halo_instance *instance)
{
    return instance->weights_bytes + instance->kv_bytes + instance->scratch_bytes;
}

/* Aborts when the table of moves has no such move. */
void halo_instance_move(struct halo_instance *instance, enum halo_instance_state to);

struct halo_load_wish {
    uint32_t context;   /* 0: the model's */
    uint64_t kv_tokens; /* 0: 4 contexts, or what fits */
    enum halo_kv_type kv;
};

#define HALO_LOAD_CHANGES 4
#define HALO_LOAD_CHANGE_BYTES 256

#define HALO_LOAD_ASK UINT64_MAX

struct halo_load {
    struct halo_note note, progress_note;
    struct halo_load *next; /* the port's: in the queue of loads */
    struct halo_job *job;
    struct halo_instance *instance;
    struct halo_load_wish wish;
    uint64_t arrived_ns;
    atomic_bool cancel;

    /* Between the device thread, which knows what fits, and the port, which knows who can go. ASK: the port has yet to
     * say; else nobody else will go, and this is what they hold. */
    uint64_t evictable_bytes;
    uint64_t need_bytes, room_bytes; /* out: the least that it can do with, and what there is */
    bool need_place;                 /* out: as many models as there can be are there */
    uint32_t n_rounds;               /* the port's */

    /* progress, written by the prefetch thread */
    _Atomic uint64_t bytes_done, bytes_total;
    _Atomic uint32_t n_committed; /* tensors that are in place */
    atomic_bool progress_posted;
    uint64_t progress_ns; /* the prefetch thread's */

    /* Saved prefixes, read by the text thread: layout is the device's, empty when its pages cannot be written. */
    char layout[HALO_DEVICE_LAYOUT];
    uint64_t page_bytes;
    uint8_t *image; /* malloc; NULL: none */
    uint32_t n_records, n_restored;
    struct halo_fault prefix_fault; /* why they are left alone; code NONE: no reason, or there are none */

    struct halo_fault fault; /* code NONE: going well */
    struct halo_reader_report report;
    char changes[HALO_LOAD_CHANGES][HALO_LOAD_CHANGE_BYTES]; /* what was done differently from the wish */
    uint32_t n_changes;
};

/* Text thread: reads the directory and builds the plan into load->loaded. On failure load->fault is set. */
void halo_load_parse(struct halo_load *load);

/* What a device's negative errno means for a load: a lost device is told apart from a load that failed. */
enum halo_fault_code halo_load_fault_code(int error);

/* What limits a load. */
struct halo_room {
    uint64_t bytes;        /* that it may take now */
    uint64_t held_bytes;   /* by the models that are there */
    uint64_t free_bytes;   /* of the device */
    uint64_t budget_bytes; /* of all models; 0: nobody has set one */
};

#define HALO_LOAD_E_ROOM 1 /* outcome: need_bytes are more than room_bytes, and the port was not asked yet */

/* Device thread: settles the size of the KV pool by what there is room for, and takes the memory. */
int halo_load_create(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room);

/* Prefetch thread: brings the weights. `port` hears of progress. */
int halo_load_read(struct halo_load *load, const struct halo_device_ops *ops, struct halo_mailbox *port);

/* What a plan takes on a device, and how large its pool may be. Pure. */
struct halo_budget {
    uint64_t weights_bytes, kv_bytes, scratch_bytes; /* scratch includes the engine's own (logits, sampler) */
    uint64_t page_bytes;                             /* KV bytes of one page as the device counts */
    uint32_t max_pages;                              /* that fit into free_bytes beside weights and scratch */
};
void halo_budget_of(const struct halo_device_ops *ops, const struct halo_device *device, const struct halo_plan *plan,
                    uint64_t free_bytes, struct halo_budget *ret);

/* The largest context, at most `limit`, with which n_sequences whole sequences have their KV cache in what is free:
 * what the sentence "load with a context of at most N" says. 0 when not even one page each fits. Whole pages, unless it
 * is `limit` itself. */
uint32_t halo_budget_fit_context(const struct halo_budget *budget, uint32_t n_sequences, uint32_t limit);

/* What models may take of a device now: free memory less a reserve for the rest of the machine. */
uint64_t halo_budget_free_bytes(const struct halo_device_info *info);

/* "5.1 GiB", "300 KiB". */
#define HALO_SIZE_TEXT 24
const char *halo_size_text(uint64_t bytes, char buffer[HALO_SIZE_TEXT]);

#endif
