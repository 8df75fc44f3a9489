/* device_priv.h: what the files of the HIP device share.
 *
 * A *device* owns the runtime, one stream and the functions of one code object. A *model* owns four regions of memory:
 * weights, KV pages, scratch, and pinned memory for inputs and logits; where experts are streamed, a fifth one has
 * their slots (experts_priv.h). On an integrated GPU weights lie in host memory that the GPU reads in place; on a
 * discrete one they are packed on the host and copied. Everything runs in the order of the one stream.
 *
 * Device thread, apart from probe, describe, supports and estimate (any thread) and weight_slot and weight_commit
 * (loading).
 */
#ifndef HALO_HIP_DEVICE_PRIV_H
#define HALO_HIP_DEVICE_PRIV_H

#include <pthread.h>

#include <common/reason.h>
#include <common/workers.h>
#include <hip/api.h>
#include <kernels/device.h>

#include "experts_priv.h"
#include "gfx/args.h"
#include "gfx/layout.h"
#include "program_priv.h"
#include "region_priv.h"
#include "variant_priv.h"

#define HALO_HIP_ALIGN 256
#define HALO_HIP_PAGE_BYTES 4096
#define HALO_HIP_PCI_BYTES 24
#define HALO_HIP_STAGING_BYTES (8u << 20)
#define HALO_HIP_PACK_COPY_BYTES (2 * HALO_HIP_STAGING_BYTES) /* of rows that are packed over themselves */
#define HALO_HIP_GEMV_ROWS_MAX 8                              /* rows of a batch that the GEMV kernels take together */
#define HALO_HIP_ROUTER_ROWS_MAX 32                           /* whose routers share a launch with their product */
#define HALO_HIP_ITEMS_MAX 256                                /* rows times splits when there are several splits */
#define HALO_HIP_GRAPH_ROWS 8                                 /* batches of so many rows have graphs */
#define HALO_HIP_SLACK_MIN (256 * 1024)           /* of the file's bytes: a weight that direct reads bring */
#define HALO_HIP_POOL_AHEAD ((uint64_t)512 << 20) /* read at 2 GB/s while 1 GB is packed */
#define HALO_HIP_PACKERS_MAX 8                    /* threads that pack the rows of a weight, the caller included */
#define HALO_HIP_PREFILL_MIN_ROWS 4               /* of a tile that prefill attention takes, */
#define HALO_HIP_PREFILL_ABOVE_TILES 33           /* where decode attention has matrix tiles */
#define HALO_HIP_LEVELS 5                         /* of the length of contexts: up to 1, 4, 16, 64 pages and more */

struct halo_device {
    struct halo_hip_api api;
    struct halo_hip_properties properties;
    char pci[HALO_HIP_PCI_BYTES]; /* "0000:c1:00.0"; empty: the runtime does not say */
    char name[128], kernels_path[256], kernels_sha256[65];
    char worker[128]; /* the hip-worker whose GPU it is; empty: it is this machine's */
    void *stream, *module, *event;
    void *functions[HALO_HIP_VARIANTS_MAX];     /* NULL: this code object has no such kernel */
    uint32_t n_resident[HALO_HIP_VARIANTS_MAX]; /* blocks of it that the GPU holds at once */
    bool seen[HALO_HIP_VARIANTS_MAX];           /* was launched once and finished */
    uint32_t deadline_ms;
    int index, runtime_version;
    bool is_one_of_several; /* the process uses other GPUs beside it: calls choose it first */
    struct halo_device_model *models;
    /* Once set, everything fails with HALO_DEVICE_E_LOST and this sentence. */
    atomic_int lost;
    char lost_reason[HALO_DEVICE_REASON];
    pthread_mutex_t notice_lock; /* of the two below */
    uint32_t n_notices;
    char notice[HALO_DEVICE_NOTICE];
};

struct halo_hip_weight {
    const struct halo_weight *info;
    uint64_t at;   /* of the packed form in the region of weights; streamed: in a slot */
    uint64_t data; /* of the file's bytes in the region that the host writes */
    bool slack;
    uint64_t slot; /* on a discrete GPU: of its slot in the pool (file_pool.c) */
    bool has_slot;
    uint64_t expert_bytes; /* packed; streamed: from one slot to the next */
    atomic_bool committed;
};

/* file_pool.c */
struct halo_hip_pool {
    pthread_mutex_t lock;            /* of everything below, and of the weights' slots */
    struct halo_hip_weight *weights; /* [n_weights] */
    uint32_t n_weights;
    uint32_t *order; /* [n_weights], a ring: those with a slot and what lies between them, the oldest first */
    uint32_t first, n;
    uint64_t head, n_bytes; /* behind the newest slot; of the pool */
};

#define HALO_HIP_ACTS 2 /* buffers for activation rows (forms.c) */

/* Device addresses of everything that a run writes. */
struct halo_hip_scratch {
    float **values; /* host array [n_values] of device addresses */
    uint8_t *act[HALO_HIP_ACTS];
    float *squares[HALO_HIP_ACTS]; /* of the units of one row there */
    uint16_t *half;
    float *half_scale, *partial, *gathered, *logits;
    float *scales;      /* of weights with factors that their packed rows do not have, one after the other */
    uint32_t *counters; /* of attention's splits: zero between launches */
    uint64_t n_counters;
    struct halo_candidate *left; /* entries that the launches of `top` leave for the next one */
    struct halo_candidate *top;
    uint64_t *digests; /* of a stage (hop.c) */
    uint32_t *moe_slot;
    struct halo_moe_tile *moe_tile;
    int32_t *expert_tables; /* of all ops that choose experts by token, one after the other */
    uint32_t *block_order;  /* scores of compressed blocks */
    uint8_t *input;         /* a discrete GPU's copy of the inputs */
    uint32_t *places;       /* a discrete GPU's table of streamed experts */
};

/* One of the two sets of inputs: the host fills one while the GPU may still read the other. */
struct halo_hip_input {
    uint8_t *host, *device;
    void *event; /* of the last run that read it */
    bool busy;
};

/* Steps of one class, recorded (graph.c). */
struct halo_hip_graph {
    void *exec[2];    /* for each set of inputs; NULL: none */
    bool warm;        /* a step of this class was launched once */
    uint64_t took_ns; /* how long the host waited for the last one; 0: for none yet */
};

struct halo_device_model {
    struct halo_device *device;
    struct halo_device_model *next;
    const struct halo_plan *plan;
    struct halo_hip_weight *weights;       /* [n_weights] */
    uint64_t kv_first[HALO_KV_GROUPS_MAX]; /* where each group begins in its region */
    struct halo_hip_region weight_region, file_region, kv_region, scratch_region, pinned_region, staging_region;
    struct halo_hip_scratch scratch;
    struct halo_hip_tables tables; /* of rotations */
    struct halo_hip_input input[2];
    uint32_t set;                                 /* of inputs, that the last run filled */
    float *logits_host, *logits_device;           /* pinned; where the GPU sees it */
    struct halo_candidate *top_host, *top_device; /* [n_outputs][n_top] */
    float *taken, *left;                          /* of a stage: pinned rows that it takes and leaves */
    uint64_t *digests;                            /* likewise, its digests */
    void *staging_event[2];
    bool staging_busy[2];
    uint32_t staging_next;        /* the buffer that is filled next */
    struct halo_workers *packers; /* pack the rows of large weights; until the model is sealed, or always */
    pthread_mutex_t commit_lock;
    struct halo_hip_pool pool; /* slots in file_region */
    uint32_t *pool_order;
    struct halo_hip_experts experts;
    struct halo_hip_program program;                                    /* made by the seal */
    struct halo_hip_graph graphs[HALO_HIP_GRAPH_ROWS][HALO_HIP_LEVELS]; /* [rows - 1][level] */
    uint32_t n_rows;                                                    /* of the last run */
    bool sealed;
};

/* lost.c. Converts a HIP error into a number and a sentence "what: error"; a sticky one marks the device as lost. */
int halo_hip_check(struct halo_device *device, int hip_error, const char *what, char *reason);
/* Marks the device as lost for the reason given, and returns `error`. */
int halo_hip_lose(struct halo_device *device, int error, const char *reason);
/* Makes the GPU the thread's where the process uses several. */
int halo_hip_choose(struct halo_device *device, char *reason);
/* The address of the hip-worker that has this GPU of the runtime; empty: it is this machine's. */
void halo_hip_worker_name(const struct halo_hip_api *api, int gpu, char *ret, size_t n);
/* HALO_DEVICE_E_LOST with the sentence when the device is lost, else 0 and the GPU is the thread's. */
int halo_hip_usable(struct halo_device *device, char *reason);
/* Counts something that the device does without, and keeps the sentence for its description. Any thread. */
__attribute__((format(printf, 2, 3))) void halo_hip_notice(struct halo_device *device, const char *format, ...);

/* wait.c: polls the event until it is done. -ETIME after the device's deadline, after which the device is lost: what
 * was running may never end. */
int halo_hip_wait(struct halo_device *device, void *event, const char *what, char *reason);
/* The same for one of many waits that take about as long as each other: *took_ns is how long the last one took, 0
 * before the first, and then this one. */
int halo_hip_wait_like(struct halo_device *device, void *event, uint64_t *took_ns, const char *what, char *reason);
/* Whether to poll without pauses after waited_ns of a wait that is expected to take expected_ns. */
bool halo_hip_wait_is_close(uint64_t waited_ns, uint64_t expected_ns);
/* Records the device's event and waits for it, that is for all work queued so far. */
int halo_hip_drain(struct halo_device *device, const char *what, char *reason);

/* memory.c: what models may take in total and now; and the driver's counters of one GPU, false unless all of them can
 * be read. The folder is /sys, or a test's. */
bool halo_hip_driver_memory(const char *sysfs, const char *pci, uint64_t *ret_total, uint64_t *ret_free);
void halo_hip_memory(const struct halo_device *device, uint64_t *ret_total, uint64_t *ret_free);

/* module.c: loads kernels.<arch> and finds its functions. */
int halo_hip_module_load(struct halo_device *device, char *reason);
/* The variant's index in the table when its kernel exists, or -1. */
int halo_hip_kernel_find(const struct halo_device *device, uint32_t op, uint32_t type, uint32_t rows);

/* file_pool.c. bytes: of a pool that never starves a load which asks in the order of part and file offset, and `ahead`
 * bytes more; never more than all weights take. */
uint64_t halo_hip_pool_bytes(const struct halo_plan *plan, uint64_t ahead);
void halo_hip_pool_init(struct halo_hip_pool *pool, struct halo_hip_weight *weights, uint32_t *order,
                        uint32_t n_weights, uint64_t n_bytes);
void halo_hip_pool_finish(struct halo_hip_pool *pool);
/* Fills in slot, data and slack of the weight, unless it has a slot. 0, or -EAGAIN: older ones occupy the pool. */
int halo_hip_pool_take(struct halo_hip_pool *pool, uint32_t index);
/* Its bytes are no longer needed. Once for a weight. */
void halo_hip_pool_give_back(struct halo_hip_pool *pool, uint32_t index);

/* weight.c: places the weights; returns the bytes of their region, or UINT64_MAX. With NULL it only counts. */
uint64_t halo_hip_weights_place(const struct halo_plan *plan, bool integrated, struct halo_hip_weight *weights);
int halo_hip_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret);
int halo_hip_weight_commit(struct halo_device_model *model, uint32_t index, char *reason);
/* Packs the part of a fresh expert that belongs to the weight into its slot, or queues the copy. Device thread. */
int halo_hip_weight_bring_expert(struct halo_device_model *model, uint32_t index, const struct halo_expert *expert,
                                 uint32_t part, char *reason);

/* scratch.c: the same for the scratch: offsets from `base`, which may be 0 to count. */
uint64_t halo_hip_scratch_carve(const struct halo_plan *plan, bool integrated, uint8_t *base,
                                struct halo_hip_scratch *scratch);
/* How many numbers of the ops in front of this one are in scratch.expert_tables; of this one. */
uint64_t halo_hip_tables_before(const struct halo_plan *plan, uint32_t op);
uint64_t halo_hip_table_size(const struct halo_plan *plan, uint32_t op);
/* How many factors of the weights in front of this one are in scratch.scales. */
uint64_t halo_hip_scales_before(const struct halo_plan *plan, uint32_t weight);

/* model.c */
void halo_hip_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                       uint64_t *ret_kv, uint64_t *ret_scratch);
int halo_hip_model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                          char *reason);
void halo_hip_model_destroy(struct halo_device_model *model);
int halo_hip_model_seal(struct halo_device_model *model, char *reason);

/* cache.c: where each group begins in the region of the cache. Returns the bytes of all, or UINT64_MAX when that
 * overflows. */
uint64_t halo_hip_groups_place(const struct halo_plan *plan, uint64_t first[HALO_KV_GROUPS_MAX]);
int halo_hip_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                     char *reason);
uint64_t halo_hip_kv_page_bytes(const struct halo_device_model *model, uint32_t group);
int halo_hip_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason);
int halo_hip_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason);

/* graph.c: records the graphs of a model whose weights are in place; fails only when the device was lost meanwhile. */
int halo_hip_graphs_record(struct halo_device_model *model, char *reason);
void halo_hip_graphs_drop(struct halo_device_model *model);

/* supports.c */
int halo_hip_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason);

/* run.c */
int halo_hip_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                 char *reason);
int halo_hip_peek(struct halo_device_model *model, uint16_t value, uint32_t row, float *ret, char *reason);

/* bandwidth.c: bytes per second of a copy within the GPU's memory, reads and writes counted; 0: not measured. */
double halo_hip_measure_bandwidth(struct halo_device *device);
void halo_hip_measure_costs(struct halo_device *device, struct halo_device_costs *ret);

/* The upper half of what stands for a matrix of a streamed layer while launches are compiled; the lower one is its
 * number. No count is as large, and as a float it is no number: nothing else in arguments looks like it. */
#define HALO_HIP_STREAMED_MATRIX 0xfff5a7e5ull

/* Device address of a weight's packed form, or what stands for it; NULL while only kernels are looked up (program.c),
 * as all addresses are then. */
static inline uint8_t *halo_hip_weight(const struct halo_device_model *model, uint32_t weight)
{
    if (!model->weights)
        return NULL;
    bool streamed = model->plan->weights[weight].streamed > 0;
    if (streamed && model->plan->weights[weight].role == HALO_WEIGHT_MATRIX)
        return (uint8_t *)(uintptr_t)(HALO_HIP_STREAMED_MATRIX << 32 | weight);
    return (streamed ? model->experts.slots.base : model->weight_region.device) + model->weights[weight].at;
}

/* The places of the experts of a weight; NULL: they are not streamed. */
static inline const uint32_t *halo_hip_places(const struct halo_device_model *model, uint32_t weight)
{
    const struct halo_hip_experts *experts = &model->experts;
    uint32_t layer = model->plan->weights[weight].streamed;
    return layer > 0 && experts->place_device ? experts->place_device + (uint64_t)(layer - 1) * experts->n_expert
                                              : NULL;
}

static inline uint64_t halo_hip_expert_bytes(const struct halo_device_model *model, uint32_t weight)
{
    return model->weights ? model->weights[weight].expert_bytes : 0;
}

static inline const float *halo_hip_vector(const struct halo_device_model *model, uint32_t weight)
{
    return weight == HALO_WEIGHT_NONE ? NULL : (const float *)(const void *)halo_hip_weight(model, weight);
}

/* Whether the factors of a weight multiply what its products give; packed rows of NVFP4 hold theirs, and vectors are
 * multiplied by them. */
static inline bool halo_hip_scaled(const struct halo_weight *w)
{
    return w->scales && w->role != HALO_WEIGHT_VECTOR && w->type != HALO_TYPE_NVFP4;
}

/* Row 0 of a value. */
static inline float *halo_hip_value(const struct halo_device_model *model, uint16_t value)
{
    return value == HALO_NONE || !model->scratch.values ? NULL : model->scratch.values[value];
}

/* Bytes of one page of a layer, or of its part of a slot of states. A page of fewer rows is as many times smaller, and
 * ends where the next one is aligned. */
static inline uint64_t halo_hip_kv_page(const struct halo_kv_group *kv)
{
    if (kv->state_width > 0)
        return kv->state_width * sizeof(float);
    uint64_t n_bytes =
        halo_hip_kv_layer_page_bytes(kv->type, kv->n_head_kv, kv->head_dim_k, kv->latent ? 0 : kv->head_dim_v);
    return kv->stride > 1 ? (n_bytes / HALO_KV_PAGE_TOKENS * halo_kv_page_rows(kv) + 15) / 16 * 16 : n_bytes;
}

/* From one page of a layer, or slot, to the next, and from one layer to the next (cache.c). */
static inline uint64_t halo_hip_kv_page_stride(const struct halo_kv_group *kv)
{
    return halo_hip_kv_page(kv) * (kv->state_width > 0 ? kv->n_layers : 1);
}

static inline uint64_t halo_hip_kv_layer_stride(const struct halo_kv_group *kv)
{
    return halo_hip_kv_page(kv) * (kv->state_width > 0 ? 1 : kv->n_pages);
}

/* Page 0 of a layer of a group. */
static inline uint8_t *halo_hip_kv_layer(const struct halo_device_model *model, uint32_t group, uint32_t layer)
{
    uint8_t *base = model->kv_region.device;
    return base ? base + model->kv_first[group] + layer * halo_hip_kv_layer_stride(&model->plan->kv[group]) : NULL;
}

/* Splits of a context in decode attention, at most, and levels of the length of contexts that a plan can have. */
static inline uint32_t halo_hip_most_splits(uint32_t level)
{
    uint32_t n_pages = 1u << 2 * level;
    return n_pages < HALO_SPLITS_MAX ? n_pages : HALO_SPLITS_MAX;
}

static inline uint32_t halo_hip_n_levels(const struct halo_plan *plan)
{
    uint32_t n_pages = HALO_HIP_CEIL(plan->n_context, HALO_KV_PAGE_TOKENS), n = 1;
    while (n < HALO_HIP_LEVELS && n_pages > 1u << 2 * (n - 1))
        n++;
    return n;
}

static inline uint32_t halo_hip_moe_tiles(uint32_t n_slots, uint32_t n_experts)
{
    return n_slots / HALO_GEMM_ROWS + (n_experts < n_slots ? n_experts : n_slots);
}

/* Whether products with this type read activation rows (quantized) instead of floats. */
static inline bool halo_hip_quantized(uint32_t type)
{
    return halo_hip_planes(type) != 0;
}

#endif
