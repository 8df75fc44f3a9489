/* instance.h: a model that is in memory, on its way in (load.h), or on its way out.
 *
 * Made by the port when a load begins and destroyed by it when the model is gone. The port counts its users (requests
 * that name it), so that the text workers may use the tokenizer and the device thread the weights without a lock: an
 * unload waits until nobody uses it.
 */
#ifndef HALO_ENGINE_LOADED_H
#define HALO_ENGINE_LOADED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/model_stem.h>
#include <base/remarks.h>
#include <kernels/device.h>
#include <model/model.h>
#include <store/file_id.h>

#include <engine/budget.h>
#include <engine/experts.h>
#include <engine/note.h>
#include <engine/scheduler.h>
#include <engine/sequence.h>
#include <engine/stages.h>
#include <engine/texts.h>

#define HALO_MAX_LOADED 64 /* models at once */
#define HALO_MAX_KNOWN 128 /* models at once and loads that wait */
#define HALO_MODEL_PATH_BYTES 4097
#define HALO_BATCH_OUTPUTS 64 /* rows of a step whose logits are wanted, at most */

enum halo_instance_state {
    HALO_INSTANCE_LOADING,
    HALO_INSTANCE_READY,
    HALO_INSTANCE_DRAINING, /* no new users; waits for those it has, and for its prefixes to be saved */
    HALO_INSTANCE_LEAVING,  /* the device thread gives its memory back */
    HALO_INSTANCE_GONE,
    HALO_N_INSTANCE_STATES
};

/* Why a model is unloaded; the order is that of the words on the wire. */
enum halo_unload_why { HALO_UNLOAD_ASKED, HALO_UNLOAD_IDLE, HALO_UNLOAD_ROOM };

/* Memory of a model's streamed experts, given back or taken again. */
struct halo_resize {
    struct halo_note note;
    bool grows;              /* in: take one slab again, or give back what halo_experts_want() says */
    bool is_taken;           /* between the threads: the memory is there, and its slots are to open */
    uint64_t done_bytes;     /* out; 0: nothing could be done */
    struct halo_fault fault; /* out: why no memory could be taken */
};

struct halo_instance {
    struct halo_note note;
    /* What requests call it: the file's stem, where no other file of the folders and no other model has it; else its
     * path. Until it is matched, what the load was asked for. */
    char name[HALO_MODEL_PATH_BYTES];

    _Atomic uint32_t n_benches; /* that were asked for; whoever creates one counts it */

    /* the port's */
    enum halo_instance_state state;
    bool matched; /* its file is known, and no other model is of the same one */
    uint32_t n_users;
    uint64_t keep_alive_ns, idle_since_ns;  /* keep_alive 0: for ever */
    struct halo_remarks changes;            /* of its load: for each `loaded` */
    bool pinned;                            /* goes only when asked to, whatever keep_alive says */
    enum halo_unload_why why;               /* DRAINING */
    bool to_save;                           /* DRAINING: its prefixes go to the disk before it goes */
    uint32_t n_saved;                       /* pages of them */
    struct halo_fault save_fault;           /* why they are not saved; code NONE: no reason, or there are none */
    struct halo_job *waiting;               /* requests that wait for the load */
    char experts_text[512];                 /* of the last answer that described it */
    struct halo_stages_shown *stages_shown; /* likewise, malloc; NULL: no answer had stages */
    struct halo_job *unloader;              /* the request that asked for the unload; NULL: none */
    bool resizing;                          /* `resize` is under way: it cannot go before that is over */
    struct halo_resize resize;              /* whoever has its note has it */

    /* set by the load, fixed from READY on */
    char path[HALO_MODEL_PATH_BYTES]; /* until it is matched, what the load was asked for */
    struct halo_file_id file_id;      /* of all parts, as they were opened */
    struct halo_model *model;
    struct halo_texts texts;
    struct halo_pieces pieces;
    uint64_t weights_bytes, kv_bytes, scratch_bytes; /* weights: resident ones */
    uint64_t slots_bytes;                            /* slots of streamed experts or layers, all of them */
    uint32_t n_slots;
    uint32_t n_streamed_layers; /* of a dense model */
    uint64_t streamed_bytes;    /* of the file: what shares the slots; 0: all is resident */
    uint64_t checkpoint_bytes;  /* of kv_bytes: slots of states that no sequence holds */
    uint32_t n_checkpoints;     /* as many in each group of states */
    uint32_t context, kv_tokens;
    struct halo_stages stages;

    /* the device thread's */
    struct halo_device_model *device_model;
    struct halo_experts *experts;  /* or streamed layers; NULL: all is resident */
    _Atomic uint64_t absent_bytes; /* of slots_bytes: given back. Any thread reads it */
    atomic_bool takes_memory;      /* the prefetch thread has `resize` */
    struct halo_scheduler scheduler;
    bool saving;          /* its pages are on their way to the disk: sequences stand still */
    uint64_t freed_bytes; /* set before UNLOAD_DONE */
};

/* Resident weights and the slots that are in memory now. READY or DRAINING; any thread. */
static inline uint64_t halo_instance_weights_bytes(const struct halo_instance *instance)
{
    return instance->weights_bytes + instance->slots_bytes - atomic_load(&instance->absent_bytes);
}

/* All memory that it takes. READY or DRAINING; any thread. */
static inline uint64_t halo_instance_bytes(const struct halo_instance *instance)
{
    return halo_instance_weights_bytes(instance) + instance->kv_bytes + instance->scratch_bytes;
}

/* Whether a sequence has states: it continues a text at a checkpoint alone. READY or DRAINING. */
static inline bool halo_instance_has_states(const struct halo_instance *instance)
{
    const struct halo_plan *plan = &instance->model->plan;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        if (plan->kv[group].state_width > 0)
            return true;
    return false;
}

/* Aborts when the table of moves has no such move. */
void halo_instance_move(struct halo_instance *instance, enum halo_instance_state to);

#endif
