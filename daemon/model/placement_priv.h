/* placement_priv.h: what the files of the placement share. Pure; any thread. */
#ifndef HALO_MODEL_PLACEMENT_PRIV_H
#define HALO_MODEL_PLACEMENT_PRIV_H

#include <base/size.h>
#include <model/placement.h>

/* Ends of a read by whole blocks of the drive. */
#define HALO_PLACEMENT_BLOCK 4096

/* "4.99 GB", "12.3 MB": two budgets of a refusal may be close together. */
static inline const char *halo_placement_size(double bytes, char ret[static HALO_SIZE_TEXT])
{
    return halo_size_decimal(bytes, 2, ret);
}

/* ---- placement_parts.c: what a plan's weights are for ---- */

struct halo_parts_layer {
    uint32_t n_expert, n_used, n_pieces; /* n_pieces: weights that an expert is made of */
    uint64_t expert_bytes;
    uint64_t slot_bytes;               /* for one expert, wherever its pieces lie in the file */
    uint64_t first_bytes;              /* of expert_bytes, what the first product over the chosen experts reads */
    uint64_t always_bytes;             /* of the layer's other weights */
    uint64_t matrix_bytes, n_matrices; /* that can stream (halo_weight_stream_layer) */
    uint64_t ff_bytes;                 /* of matrix_bytes, the feed-forward */
};

struct halo_parts {
    uint64_t bytes[HALO_PLACED_KINDS]; /* in the file; of EXPERTS all of them */
    uint64_t always_bytes;             /* that every token reads, experts left out */
    uint64_t expert_bytes;             /* of the experts that a token uses */
    uint32_t n_layers;
    struct halo_parts_layer layers[HALO_MODEL_MAX_LAYERS];
};

/* The parts of the plan as its file has them (`type` HALO_TYPE_END), or as they would be if every matrix of a type with
 * more bits had this one. */
void halo_parts_of(const struct halo_plan *plan, enum halo_type type, struct halo_parts *ret);

/* ---- placement_routing.c: how often an expert is in its slot ---- */

/* What slots are worth in each layer. */
struct halo_shares {
    const struct halo_routing *routing;
    uint32_t n_expert;
    float gains[HALO_MODEL_MAX_EXPERTS]; /* of every layer, unless a trace has them */
};
void halo_shares_init(struct halo_shares *shares, const struct halo_routing *routing, uint32_t n_expert,
                      uint32_t n_used);
/* Experts of a token that the layer finds with one slot more than n_slots, beyond those that it finds with n_slots. */
double halo_shares_gain(const struct halo_shares *shares, uint32_t layer, uint32_t n_slots);

/* The probability that exactly n_missed of n_used experts are not in their slots, when each is there with probability
 * hit_rate. */
double halo_shares_missing(uint32_t n_used, double hit_rate, uint32_t n_missed);

/* ---- placement_cost.c: what a token costs ---- */

/* Fills the predictions of `ret` from its layers and bytes. */
void halo_placement_predict(const struct halo_plan *plan, const struct halo_parts *parts,
                            const struct halo_profile *profile, uint32_t context,
                            const struct halo_placement_options *options, struct halo_placement *ret);

/* ---- placement_place.c: the division of the budget ---- */

/* The placement and its predictions without reasons and hints; options with every default filled in. */
int halo_placement_place(const struct halo_plan *plan, const struct halo_parts *parts,
                         const struct halo_profile *profile, uint64_t budget_bytes, uint32_t context,
                         const struct halo_placement_options *options, struct halo_placement *ret,
                         struct halo_fault *fault);

/* ---- placement_text.c: why, and what would be faster ---- */

void halo_placement_explain(const struct halo_plan *plan, const struct halo_parts *parts,
                            const struct halo_profile *profile, uint32_t context,
                            const struct halo_placement_options *options, struct halo_placement *ret);

#endif
