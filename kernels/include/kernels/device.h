/* device.h: what a device is: a const table of functions.
 *
 * Owner of everything below: the engine's device thread, unless a slot says otherwise. A device object is opened once;
 * models are added to and removed from it. Failures: 0, or a negative errno with a sentence in the caller's `char
 * *reason` of HALO_DEVICE_REASON bytes (the ABI knows no other room). HALO_DEVICE_E_LOST means the device is lost and
 * must be closed (sticky), -ENOMEM that it does not fit, -ENOTSUP that a type, op or shape has no kernel, -ETIME that
 * a deadline passed.
 */
#ifndef HALO_KERNELS_DEVICE_H
#define HALO_KERNELS_DEVICE_H

#include <errno.h>
#include <stdatomic.h>

#include <kernels/candidate.h>
#include <kernels/experts.h>
#include <kernels/plan.h>

#define HALO_DEVICE_ABI 18
#define HALO_DEVICE_GPUS_MAX 8
#define HALO_DEVICE_LAYOUT 64
#define HALO_DEVICE_REASON 256
#define HALO_DEVICE_NOTICE 160
/* No file, socket or allocation fails with this one, so that no other failure can be taken for the device's end. */
#define HALO_DEVICE_E_LOST (-ENOTRECOVERABLE)

enum halo_device_feature {
    HALO_DEVICE_BATCH_INVARIANT = 1 << 0, /* a row's logits do not depend on the rows beside it */
    HALO_DEVICE_HOST_MEMORY = 1 << 1, /* weights live in memory the host can write: the store reads straight into it */
    HALO_DEVICE_TOP = 1 << 2,         /* batches may ask for lists of the largest logits instead of rows */
    HALO_DEVICE_QUEUES = 1 << 3,      /* a run without outputs may return while it and the run before it go on */
    HALO_DEVICE_LAYERS = 1 << 4,      /* the matrices of dense layers may be streamed (experts.h) */
    HALO_DEVICE_STAGES = 1 << 5,      /* plans that take or leave values can run */
};

/* A GPU that a device computes on. */
struct halo_device_gpu {
    char name[64];
    char worker[128]; /* address of the hip-worker that has it; empty: it is this machine's */
    uint64_t memory_bytes, free_bytes;
};

/* What one of several GPUs gets of a plan. */
struct halo_device_share {
    uint16_t first_layer, last_layer; /* HALO_NONE: it has none */
    uint64_t weights_bytes, kv_bytes, scratch_bytes;
};

struct halo_device_info {
    char name[64];         /* "cpu", "hip" */
    char detail[192];      /* model of the processor, variant of the kernels, threads */
    uint32_t features;     /* enum halo_device_feature */
    uint64_t memory_bytes; /* total that models may use */
    uint64_t free_bytes;   /* now */
    uint32_t n_threads;
    uint32_t batch_rows; /* of a plan, with which prompts are fastest; 0: no matter */
    /* Times that a byte of a streamed expert crosses memory before a product reads it: once when the drive writes where
     * the device reads, twice more where the device repacks it. 0: the device streams none. */
    uint32_t miss_traffic;
    char runtime[192]; /* the library that reaches the device, its version in its own numbering; empty: none */
    int32_t runtime_version;
    char kernel_file[256], kernel_arch[64], kernel_sha256[65]; /* the device's code; empty: part of this program */
    /* What the bytes of kv_read mean and which arithmetic made them: they may be written to a device that says the
     * same, and to no other. */
    char kv_layout[HALO_DEVICE_LAYOUT];
    /* What the device had to do without since it was opened: how many times, and the last in a sentence. */
    uint32_t n_notices;
    char notice[HALO_DEVICE_NOTICE];
    uint32_t n_gpus;
    struct halo_device_gpu gpus[HALO_DEVICE_GPUS_MAX]; /* of several in the order in which a batch runs through them */
};

/* Where the bytes of one weight must be put. `data` is the exact place of the first byte. The aligned hull of
 * HALO_HULL_ALIGN around it belongs to this weight when `slack` is set; data is congruent to the weight's file offset
 * modulo 4096 then. */
struct halo_device_slot {
    void *data;
    bool slack;
};

/* A sequence that takes part in a batch. pages[g][i] is the page of group g that has positions i*32 .. i*32+31. In a
 * group with a window those that no row of the batch sees may be HALO_KV_NO_PAGE. Of a group of states pages[g][0] is
 * the sequence's slot, and the others mean nothing; its rows stand beside each other in the batch and go on, position
 * by position, exactly where the last ones ended. */
struct halo_batch_seq {
    const uint32_t *pages[HALO_KV_GROUPS_MAX];
    uint32_t n_pages; /* of each group */
};

/* What the memory of a stage held, in numbers that other stages compare with theirs (digest.h). */
struct halo_hop_digests {
    uint64_t rows;  /* tokens, positions and sequences of the batch */
    uint64_t taken; /* before the first op */
    uint64_t left;  /* after the last one */
};

struct halo_batch {
    uint32_t n_rows;      /* <= plan->max_rows */
    const int32_t *token; /* [n_rows] */
    const int32_t *pos;   /* [n_rows] position in the sequence; rows of one sequence ascend */
    const uint32_t *seq;  /* [n_rows] index into seqs */
    uint32_t n_seqs;
    const struct halo_batch_seq *seqs;
    uint32_t n_outputs;     /* <= plan->max_outputs */
    const uint32_t *output; /* [n_outputs] row indices, ascending */
    float *logits;          /* [n_outputs][n_vocab], host memory of the caller, 64-byte aligned */
    /* With HALO_DEVICE_TOP: 0, or how many of the largest logits each output is to have as a list,
     * <= HALO_CANDIDATES_MAX. Rows come then only for outputs that `whole` says; the others are not touched. A list
     * falls, the lowest id first on a tie. An id of -1 ends one of fewer logits, and begins that of a row with a NaN or
     * an infinity. */
    uint32_t n_top;
    const bool *whole;          /* [n_outputs] */
    struct halo_candidate *top; /* [n_outputs][n_top] */
    /* Of a stage (plan->takes, plan->leaves), whose runs return at their end: the rows of each value [n_rows][width],
     * one value after the other, in the host's memory. */
    const float *taken;
    float *left;                      /* in place on return */
    struct halo_hop_digests *digests; /* likewise */
};

/* The phase is published before each step that could hang: a short text and a counter, read by the heartbeat on another
 * thread. */
struct halo_device_phase {
    _Atomic uint64_t step;
    _Atomic(const char *) what; /* static or plan-lifetime text: "run", "upload", ... */
    _Atomic uint32_t op;        /* index into the plan's ops while running */
    /* Of plans that several GPUs divide: runs with rows that ended well, and what each GPU took of all of them, the way
     * of the rows to it and from it included. Any thread reads them. */
    _Atomic uint64_t n_divided_runs, divided_ns[HALO_DEVICE_GPUS_MAX];
};

/* What work costs beside the bytes that a device reads. 0: it does not cost anything, or was not measured. */
struct halo_device_costs {
    double copy_bytes_s; /* from the host's memory to the device's, where these are two */
    double launch_s;     /* one launch and the wait for its end */
};

struct halo_device; /* a device's own state */
struct halo_device_model;

struct halo_device_ops;

struct halo_device_options {
    uint32_t n_threads;  /* 0: as many as the process may use */
    const char *variant; /* NULL, or a forced kernel variant for tests: "reference", "avx2", "avx512" */
    const char *library; /* hip: path of libamdhip64.so, or NULL */
    uint32_t gpu;        /* hip: 0: the first that has kernels; else 1 + its number in the runtime */
    /* pipeline: the device of a stage, and how many there are; stage i of a HIP device has GPU i. */
    const struct halo_device_ops *stage;
    uint32_t n_stages;
};

struct halo_device_ops {
    uint32_t abi, size; /* HALO_DEVICE_ABI, sizeof(struct halo_device_ops) */
    const char *name;
    /* Whether this machine has the device. No side effects. Any thread. */
    int (*probe)(const struct halo_device_options *options, char *reason);
    int (*open)(struct halo_device **ret, const struct halo_device_options *options, char *reason);
    void (*close)(struct halo_device *device);                                        /* all models must be gone */
    void (*describe)(const struct halo_device *device, struct halo_device_info *ret); /* any thread */
    /* Whether op `index` of the plan can run: 0 or -ENOTSUP with the reason. Any thread. */
    int (*supports)(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason);
    /* Bytes the device will take for weights (repacked, those that are not streamed), KV pool and scratch. Pure; any
     * thread. */
    void (*estimate)(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                     uint64_t *ret_kv, uint64_t *ret_scratch);
    /* Optional: several GPUs divide each plan. What each of info.gpus gets of this one: 0, -ENOTSUP when it cannot be
     * divided, or -ENOMEM. Any thread. */
    int (*divide)(const struct halo_device *device, const struct halo_plan *plan,
                  struct halo_device_share ret[HALO_DEVICE_GPUS_MAX]);
    /* Allocates all memory of a model in few large regions. The plan must outlive the model. */
    int (*model_create)(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                        char *reason);
    void (*model_destroy)(struct halo_device_model *model);
    /* The slot of weight `index`, which is not streamed. Any thread between create and seal. -EAGAIN: a device that
     * reads its weights through memory that it uses again has none left until another weight is committed. It never
     * says so while every weight with a slot is committed, nor for ever when slots are asked for in the order of part
     * and file offset. A weight keeps its slot until it is committed. */
    int (*weight_slot)(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret);
    /* The bytes are in place: repack them. One thread at a time for a weight, several weights at once; touches nothing
     * else. */
    int (*weight_commit)(struct halo_device_model *model, uint32_t index, char *reason);
    /* All weights are committed, and of a plan with streamed ones the source is known; the first run is allowed. */
    int (*model_seal)(struct halo_device_model *model, char *reason);
    /* Runs the whole plan for the batch, logits of the wanted rows in place on return. Allocates nothing. */
    int (*run)(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
               char *reason);
    /* Copies one page of a group to another, all layers (copy-on-write). */
    int (*kv_copy)(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page, char *reason);
    /* Optional, all three or none: one page of a group, all layers, as kv_page_bytes bytes of the host's memory, and
     * back. Not while a run is under way; on return the bytes are there. Any bytes can be written: only the readers of
     * the page give them a meaning. */
    uint64_t (*kv_page_bytes)(const struct halo_device_model *model, uint32_t group);
    int (*kv_read)(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason);
    int (*kv_write)(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason);
    /* Optional (NULL when absent): the value of width f32 per row after op `index` of the last run, row `row`. For
     * gates and tests. */
    int (*peek)(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason);
    /* Optional: sustained read bandwidth of weights, bytes per second, measured now over ~100 ms. */
    double (*measure_bandwidth)(struct halo_device *device);
    /* Optional: measured now over ~100 ms, with buffers that are given back. */
    void (*measure_costs)(struct halo_device *device, struct halo_device_costs *ret);
    /* Optional, both or none: the device can run plans with streamed weights. Bytes of one expert of this weight in the
     * device's layout (pure; any thread), and where the model gets its experts from, before the seal. */
    uint64_t (*expert_bytes)(const struct halo_device *device, const struct halo_weight *weight);
    void (*set_experts)(struct halo_device_model *model, const struct halo_expert_source *source);
    /* Optional: the slots of streamed experts are the device's memory; without it they are the source's, in the host's.
     * Once between create and set_experts. */
    int (*take_slots)(struct halo_device_model *model, struct halo_expert_slots *slots, char *reason);
    /* Optional, both or none: the slots lie in several slabs of the host's memory, if take_slots() says so. The memory
     * of one slab, whose slots nobody uses, goes back to the system (a failure leaves it as it was), and is taken
     * again, maybe elsewhere. The thread of run(), between two runs; the first one from release() of the source, too.
     * Both wait for the work that is queued. */
    int (*give_slab)(struct halo_device_model *model, uint32_t slab, char *reason);
    int (*take_slab)(struct halo_device_model *model, uint32_t slab, uint8_t **ret_host, char *reason);
};

#endif
