/* placement.h: which bytes of a model stay in memory, which are read from disk for each token, and how fast that is.
 *
 * A pure function of a plan, of measured speeds and of a byte budget: no file, no clock, no allocation; any thread.
 * `plan` prints the result, `load` obeys it, tests/bench/tier_sim runs it over traces. docs/TIERS.md has the formulas,
 * their sources, and the proof that no other placement of this form reads fewer bytes from disk.
 */
#ifndef HALO_MODEL_PLACEMENT_H
#define HALO_MODEL_PLACEMENT_H

#include <model/model.h>

/* Speeds of one machine, measured for one model file. A speed of 0 is not known, and nothing that needs it is
 * predicted. */
struct halo_profile {
    /* What the figures hold for: others are refused. Empty: not told. */
    char machine[128];  /* board and processor */
    char device[64];    /* name of the device: "cpu", "hip" */
    char kernels[65];   /* SHA-256 of the device's kernel file, hex */
    char file[65];      /* fingerprint of the model's directory (halo_gguf_fingerprint) */
    char drive[128];    /* model and serial number of the drive that holds the file */
    int64_t measured_s; /* when: Unix time */

    double memory_bytes_s; /* reads of memory as the device sees it */
    double copy_bytes_s;   /* from the host's memory to the device's; 0: the device computes where the disk writes */
    double launch_s;       /* one launch and the wait for its end: what a layer costs whose router the host reads */

    /* Random reads of the file with O_DIRECT: the best point of the grid, above which more depth gains nothing. */
    double disk_bytes_s;
    uint32_t disk_block_bytes, disk_depth;
    double disk_latency_s; /* median time of one read of disk_block_bytes on an idle drive, nothing else in flight */
};

/* ---- how routers choose ---- */

enum halo_routing_kind {
    HALO_ROUTING_UNIFORM, /* every expert of a layer alike: random weights, and the lower bound of real models */
    HALO_ROUTING_ZIPF,    /* the expert of rank r has weight r^-exponent */
    HALO_ROUTING_TRACE,   /* counted in a recorded trace */
};

/* With this exponent a cache that keeps what was used last finds what published caches have found, within 0.09 in the
 * root mean square; docs/TIERS.md lists them. */
#define HALO_ROUTING_ZIPF_PUBLISHED 1.1

struct halo_routing {
    enum halo_routing_kind kind;
    double exponent; /* of ZIPF */
    /* Of TRACE: what each further slot of a layer is worth (halo_routing_gains), [n_layers][n_expert]. A layer without
     * experts has zeros. */
    const float *gains;
    uint32_t n_expert; /* row length of `gains` */
};

/* The probability that a token uses the expert of each rank, when routers follow Zipf's law and experts are drawn
 * without replacement: they add up to n_used. n_expert: at most HALO_MODEL_MAX_EXPERTS, more than n_used. */
void halo_routing_zipf_shares(uint32_t n_expert, uint32_t n_used, double exponent, double *ret_shares);

/* From the probabilities that a token uses each of the n experts of a layer, in any order, at most
 * HALO_MODEL_MAX_EXPERTS: ret_gains[s] is how many experts of a token more are found with s + 1 slots than with s, when
 * the layer keeps the experts that were used last. They add up to the experts that a token uses, and never rise. */
void halo_routing_gains(const double *shares, uint32_t n, float *ret_gains);

/* ---- what is asked for ---- */

enum halo_tiers {
    HALO_TIERS_AUTO,   /* all in memory when it fits, else streamed */
    HALO_TIERS_MEMORY, /* all in memory, or refused */
    HALO_TIERS_STREAM, /* a mixture's experts go through the cache though they might fit; other models as AUTO */
};

/* What the matrices of a layer of a dense model take of a device. */
struct halo_placement_matrices {
    uint64_t resident_bytes; /* that streaming them saves */
    uint64_t buffer_bytes;   /* of each of the two buffers */
};

struct halo_placement_options {
    enum halo_tiers tiers;
    struct halo_routing routing;
    uint64_t kv_bytes;      /* of the whole pool, as the device counts; 0: one sequence of `context`, by the plan */
    uint64_t scratch_bytes; /* activations and staging */
    uint64_t padding_bytes; /* that the device adds to all weights together */
    /* What the last three are when the experts have slots, and what a slot takes of memory. slot_bytes 0: as above, and
     * by the plan. */
    uint64_t streamed_kv_bytes, streamed_scratch_bytes, streamed_padding_bytes, slot_bytes;
    uint32_t least_slots; /* that the cache can do with; 0: by the plan */
    /* [HALO_MODEL_MAX_LAYERS] of a model without experts, as the device counts, which then takes streamed_scratch_bytes
     * of scratch when layers stream; NULL: by the plan. */
    const struct halo_placement_matrices *matrices;
    uint32_t spare_slots;  /* that every layer keeps beside those that one token uses */
    uint32_t miss_traffic; /* times that a missed byte crosses memory before the device reads it; 0: 1, the drive
                             * writes where the device reads */
};

/* ---- the answer ---- */

enum halo_placed {
    HALO_PLACED_ATTENTION,    /* and what stands in its place: convolutions, recurrent states */
    HALO_PLACED_FEED_FORWARD, /* of layers without experts */
    HALO_PLACED_NORMS,        /* vectors: norms, biases, factors */
    HALO_PLACED_ROUTERS,
    HALO_PLACED_SHARED,    /* experts that every token takes */
    HALO_PLACED_EMBEDDING, /* the matrix of logits too, where it is the same */
    HALO_PLACED_OUTPUT,
    HALO_PLACED_EXPERTS,
    HALO_PLACED_KINDS
};
const char *halo_placed_name(enum halo_placed placed); /* "shared_experts" */

struct halo_placement_layer {
    uint64_t resident_bytes;   /* of the layer's weights that every token reads */
    uint32_t n_expert, n_used; /* n_expert 0: none */
    uint64_t expert_bytes;     /* gate, up and down of one expert, as they lie in the file */
    uint64_t first_bytes;      /* of expert_bytes, what the first product reads */
    uint64_t read_bytes;       /* the same with the blocks at their ends: what a miss reads */
    uint32_t min_slots;        /* the cache never lets the layer have fewer; 0: nothing of the layer is cached */
    uint32_t n_slots;          /* where the cache's slots go in the long run, min_slots included */
    double hit_rate;           /* share of the layer's reads of experts that find one there */
    uint64_t stream_bytes;     /* matrices read for every token; 0: the layer is resident */
};

/* What a decoded token costs, seconds. */
struct halo_placement_terms {
    double memory_s;  /* bytes that the device reads, and those that the disk writes */
    double disk_s;    /* missed bytes at the disk's speed */
    double latency_s; /* the first byte of every burst of reads */
    double host_s;    /* launches that wait for a router */
    double overlap_s; /* of disk_s and latency_s, what passes while the device computes */
    double token_s;   /* memory + disk + latency + host - overlap */
};

#define HALO_PLACEMENT_REASONS 8
#define HALO_PLACEMENT_HINTS 4
#define HALO_PLACEMENT_TEXT 200

struct halo_placement_hint {
    double tok_s; /* with it */
    char text[HALO_PLACEMENT_TEXT];
};

struct halo_placement {
    bool fits;                                /* all of it is resident */
    uint32_t n_layers, n_streamed;            /* n_streamed: whole layers */
    uint64_t placed_bytes[HALO_PLACED_KINDS]; /* resident; of EXPERTS only when all of them are */
    uint64_t kv_bytes, scratch_bytes, padding_bytes;
    uint64_t buffer_bytes; /* the two buffers that streamed layers take turns in */
    uint64_t slot_bytes;   /* of a slot of the cache; any of its layers' experts fits. 0: no cache */
    uint32_t n_slots;      /* of all layers together */
    uint64_t total_bytes;  /* of all the above; at most the budget */
    uint64_t budget_bytes;
    struct halo_placement_layer layers[HALO_MODEL_MAX_LAYERS];

    /* Predictions, for one sequence in the middle of its context. 0: a speed is not known. */
    uint64_t token_bytes;        /* that the device reads for a token */
    double miss_bytes;           /* that the disk reads for a token */
    double hit_rate;             /* bytes of experts found in the cache, of those used; 1 without experts */
    struct halo_routing routing; /* that the hit rate was computed for; `gains` are not kept */
    struct halo_placement_terms terms;
    double tok_s;
    double limit_tok_s;     /* that no order of the same reads can exceed: the larger of memory_s and disk_s alone */
    uint64_t prefill_bytes; /* that the disk reads for a chunk of a prompt in which every expert is used */

    uint32_t n_reasons, n_hints;
    char reasons[HALO_PLACEMENT_REASONS][HALO_PLACEMENT_TEXT];
    struct halo_placement_hint hints[HALO_PLACEMENT_HINTS]; /* what would make it faster, the fastest first */
};

/* Places the model in budget_bytes for sequences of `context` positions (0: the plan's). `profile` NULL: nothing is
 * predicted. OUT_OF_MEMORY: the bytes that must be resident, or with HALO_TIERS_MEMORY all of them, exceed the budget;
 * the text has the numbers. */
int halo_placement_make(const struct halo_plan *plan, const struct halo_profile *profile, uint64_t budget_bytes,
                        uint32_t context, const struct halo_placement_options *options, struct halo_placement *ret,
                        struct halo_fault *fault);

#endif
