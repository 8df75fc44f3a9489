/* tier_sim.h: a placement run over a trace of a router's choices, on a clock of bytes.
 *
 * The placement and the cache of experts are the engine's own; only disk and device are simulated: a drive that reads
 * one burst after the other, and a device whose reads of memory slow down while the drive writes there. One thread.
 */
#ifndef HALO_TIER_SIM_H
#define HALO_TIER_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include <model/placement.h>

/* ---- tier_sim_trace.c: what the routers choose ---- */

struct halo_sim_trace {
    uint32_t n_layers, n_expert, n_used;
    enum halo_routing_kind kind;
    double exponent; /* of ZIPF */
    uint64_t seed;
    uint32_t *rank_of; /* of ZIPF: [n_layers][n_expert], the expert that has each rank */
    /* Of TRACE: the choices, [n_tokens][n_layers][n_used], and what slots are worth by them (halo_routing_gains). */
    uint32_t n_tokens;
    uint32_t *choices;
    float *gains;
};

void halo_sim_trace_create(struct halo_sim_trace *trace, const struct halo_placement *shape,
                           const struct halo_routing *routing, uint64_t seed);
/* A file of lines "LAYER ID ID ...", the layers of a token in order. False after a message: it has another shape. */
bool halo_sim_trace_read(struct halo_sim_trace *trace, const struct halo_placement *shape, const char *path);
/* Writes so many tokens in that form. False: errno. */
bool halo_sim_trace_write(const struct halo_sim_trace *trace, const char *path, uint32_t n_tokens);
void halo_sim_trace_finish(struct halo_sim_trace *trace);

/* The n_used different experts that a token uses in a layer. A recorded trace begins again behind its end. */
void halo_sim_trace_choose(const struct halo_sim_trace *trace, uint64_t token, uint32_t layer, uint32_t *ret_ids);
/* The routing of a placement that knows the trace. */
struct halo_routing halo_sim_trace_routing(const struct halo_sim_trace *trace);

/* ---- tier_sim_run.c: the clock ---- */

struct halo_sim_result {
    double tok_s;
    double limit_tok_s; /* of the bytes that were read: the larger of memory and disk alone */
    double hit_rate;    /* of bytes */
    uint64_t disk_bytes;
    uint64_t n_wrong; /* experts that the cache said were there, and that nobody had read into their slot */
};

struct halo_sim_setup {
    const struct halo_placement *placement;
    const struct halo_profile *profile;
    uint64_t kv_bytes;       /* read for a token */
    uint64_t output_bytes;   /* of matrices behind the layers */
    uint32_t warm, measured; /* tokens */
    bool lru;                /* a plain least-recently-used order over all slots instead of the engine's cache */
};

/* A mixture with slots. */
void halo_sim_run(const struct halo_sim_setup *setup, const struct halo_sim_trace *trace, struct halo_sim_result *ret);
/* A model whose layers stream through two buffers. */
void halo_sim_run_dense(const struct halo_sim_setup *setup, struct halo_sim_result *ret);

#endif
