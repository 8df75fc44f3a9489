/* load.h: a load on its way through the threads, from a name to a model that runs.
 *
 * A load has a stage, and each stage one thread and one function: the table that the port gives it says which
 * (halo_load_step). A thread that gets the note of a load calls halo_load_run(), which runs the function and hands the
 * load to the thread of the stage that follows. Whoever has the load owns it and its instance, but for the fields that
 * say otherwise.
 *
 *   RESOLVE (io)       which file is meant
 *   MATCH (port)       another load of that file is joined; else this one waits for its turn
 *   OPEN (io)          the file's directory becomes a plan
 *   ADMIT (device)     takes the memory, or asks for more
 *   ROOM (port)        waits for models that go to make room; then ADMIT again
 *   READ (prefetch)    brings the weights
 *   SEAL (device)      the model can run
 *   PREFIXES (io)      reads saved prefixes, if there is a place for them
 *   RESTORE (device)   ... and brings them into the page pool
 *   DONE (port)        tells those who wait
 *
 * From any stage a failure, with load->fault set, goes to DONE; from READ through SEAL, which gives the memory back.
 */
#ifndef HALO_ENGINE_LOAD_H
#define HALO_ENGINE_LOAD_H

#include <base/remarks.h>
#include <model/placement.h>
#include <store/reader.h>

#include <engine/budget.h>
#include <engine/instance.h>

enum halo_load_stage {
    HALO_LOAD_NEW,
    HALO_LOAD_RESOLVE,
    HALO_LOAD_MATCH,
    HALO_LOAD_OPEN,
    HALO_LOAD_ADMIT,
    HALO_LOAD_ROOM,
    HALO_LOAD_READ,
    HALO_LOAD_SEAL,
    HALO_LOAD_PREFIXES,
    HALO_LOAD_RESTORE,
    HALO_LOAD_DONE,
    HALO_N_LOAD_STAGES
};

struct halo_port;
struct halo_io_thread;
struct halo_prefetch_thread;
struct halo_device_thread;

/* Who can have a load. */
struct halo_load_threads {
    struct halo_port *port;
    struct halo_io_thread *io;
    struct halo_prefetch_thread *prefetch;
    struct halo_device_thread *device;
};

struct halo_load;

struct halo_load_step {
    struct halo_mailbox *(*box)(const struct halo_load_threads *threads); /* of the thread that runs it */
    /* Returns the stage that follows, or its own: then the load stays until halo_load_go(). */
    enum halo_load_stage (*run)(struct halo_load *load, const struct halo_load_threads *threads);
};

struct halo_load_route {
    struct halo_load_threads threads;
    const struct halo_load_step *steps; /* [HALO_N_LOAD_STAGES] */
};

struct halo_load_wish {
    uint32_t context;   /* 0: the model's */
    uint64_t kv_tokens; /* 0: 4 contexts, or what fits */
    enum halo_kv_type kv;
    enum halo_tiers tiers;
    uint64_t budget_bytes; /* that the model may take; 0: what there is room for */
};

#define HALO_LOAD_ASK UINT64_MAX

struct halo_load {
    struct halo_note note, progress_note;
    const struct halo_load_route *route;
    enum halo_load_stage stage; /* moves by halo_load_go() alone */
    struct halo_load *next;     /* the port's: in the queue of loads */
    struct halo_job *job;
    struct halo_instance *instance;
    struct halo_load_wish wish;
    uint64_t arrived_ns;
    atomic_bool cancel;
    bool queued; /* the port's: waits for its turn */

    /* RESOLVE: the file that is meant; the port's after that. */
    char *file_path; /* malloc */
    struct halo_file_id file_id;
    bool stem_is_own; /* no other file in the folders of models is called like this one */

    /* Between the device thread, which knows what fits, and the port, which knows who can go. ASK: the port has yet to
     * say; else nobody else will go, and this is what they hold. */
    uint64_t evictable_bytes;
    uint64_t need_bytes, room_bytes; /* out: the least that it can do with, and what there is */
    bool need_place;                 /* out: as many models as there can be are there */
    uint32_t n_rounds, n_shrinks;    /* the port's */
    uint32_t n_streamed;             /* the device thread's: layers whose experts or matrices are streamed */
    bool streams_layers;             /* ... matrices, of a dense model */
    /* OPEN: how its drive is read best, by the stored profile; 0: not known. */
    uint32_t read_block_bytes, read_depth;
    struct halo_fault profile_fault; /* why not: NOT_FOUND, or what is stored cannot be read or does not hold */

    /* progress, written by the prefetch thread */
    _Atomic uint64_t bytes_done, bytes_total;
    _Atomic uint32_t n_committed; /* tensors that are in place */
    atomic_bool progress_posted;
    uint64_t progress_ns; /* the prefetch thread's */

    /* Saved prefixes, read by the io thread: layout is the device's, empty when its pages cannot be written. */
    char layout[HALO_DEVICE_LAYOUT];
    uint64_t page_bytes[HALO_KV_GROUPS_MAX];
    uint8_t *image; /* malloc; NULL: none */
    uint32_t n_records, n_restored;
    struct halo_fault prefix_fault; /* why they are left alone; code NONE: no reason, or there are none */

    struct halo_fault fault; /* code NONE: going well */
    struct halo_reader_report report;
    char device_notice[HALO_DEVICE_NOTICE]; /* what the device had to do without; "": nothing */
    struct halo_remarks changes; /* what was done differently from the wish, or from what a file seems to say */
};

/* The thread that got the note: runs the stage's function and hands the load on. The load may be gone afterwards. */
void halo_load_run(struct halo_load *load);
/* Hands a load that stayed to this stage's thread. Aborts when the stage must not follow. */
void halo_load_go(struct halo_load *load, enum halo_load_stage stage);

/* The io thread: reads the directory of instance->path and builds the plan. On failure load->fault is set. */
void halo_load_parse(struct halo_load *load);

/* The device thread: 0, or UNSUPPORTED with the first op that the device cannot run. */
int halo_load_check_ops(const struct halo_plan *plan, const struct halo_device_ops *ops,
                        const struct halo_device *device, struct halo_fault *fault);

#define HALO_LOAD_E_ROOM 1 /* outcome: need_bytes are more than room_bytes, and the port was not asked yet */

/* The device thread: settles what is resident and the size of the KV pool by what there is room for, and takes the
 * memory, but for that of streamed experts. */
int halo_load_create(struct halo_load *load, const struct halo_device_ops *ops, struct halo_device *device,
                     const struct halo_room *room, struct halo_stats *stats);

/* The prefetch thread: brings the weights. `port` hears of progress, `phase` (may be NULL) ticks with it. */
int halo_load_read(struct halo_load *load, const struct halo_device_ops *ops, struct halo_mailbox *port,
                   struct halo_phase *phase);

/* The stages of the device thread. */
enum halo_load_stage halo_device_admit(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_device_seal(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_device_restore(struct halo_load *load, const struct halo_load_threads *threads);

/* What a device's negative errno means for a load: a lost device is told apart from a load that failed. */
enum halo_fault_code halo_load_fault_code(int error);

#endif
