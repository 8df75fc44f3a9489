/* placement_place.c: divides a budget: first what every token reads, then slots for experts, where each saves most.
 *
 * A byte that every token reads saves a byte of disk per token where it is resident; a byte of a slot saves as much as
 * the slot is probable to be of use, which is less. So experts get what the rest leaves, and each further slot goes to
 * the layer where it saves most. docs/TIERS.md proves that no other division reads less.
 */
#include "placement_priv.h"

#include <assert.h>
#include <string.h>

static uint64_t read_bytes(const struct halo_parts_layer *layer)
{
    return layer->expert_bytes + (uint64_t)layer->n_pieces * HALO_PLACEMENT_BLOCK;
}

static void describe(const struct halo_parts *parts, const struct halo_placement_options *o, struct halo_placement *ret)
{
    ret->n_layers = parts->n_layers;
    ret->kv_bytes = o->kv_bytes;
    ret->scratch_bytes = o->scratch_bytes;
    ret->padding_bytes = o->padding_bytes;
    ret->routing = o->routing;
    ret->routing.gains = NULL;
    ret->total_bytes = o->kv_bytes + o->scratch_bytes + o->padding_bytes;
    for (uint32_t placed = 0; placed < HALO_PLACED_EXPERTS; placed++) {
        ret->placed_bytes[placed] = parts->bytes[placed];
        ret->total_bytes += parts->bytes[placed];
    }
    for (uint32_t i = 0; i < parts->n_layers; i++) {
        const struct halo_parts_layer *layer = &parts->layers[i];
        ret->layers[i].hit_rate = 1;
        ret->layers[i].resident_bytes = layer->always_bytes;
        if (layer->n_expert == 0)
            continue;
        ret->layers[i].n_expert = layer->n_expert;
        ret->layers[i].n_used = layer->n_used;
        ret->layers[i].expert_bytes = layer->expert_bytes;
        ret->layers[i].first_bytes = layer->first_bytes;
        ret->layers[i].read_bytes = read_bytes(layer);
    }
}

/* ---- a mixture: slots ---- */

static uint32_t least_slots(const struct halo_placement_layer *layer, uint32_t spare)
{
    return layer->n_used + spare < layer->n_expert ? layer->n_used + spare : layer->n_expert;
}

/* What all layers keep, and room for all experts of one layer, which a prompt uses at once. */
static uint32_t least_slots_of_all(const struct halo_placement *p, uint32_t spare)
{
    uint32_t n = 0, widest = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        uint32_t least = least_slots(&p->layers[i], spare), more = p->layers[i].n_expert - least;
        n += least;
        widest = more > widest ? more : widest;
    }
    return n + widest;
}

/* The layer to which a further slot saves most; of equals the one with the fewest, so that equal layers share alike.
 * UINT32_MAX: every expert has a slot. */
static uint32_t next_layer(const struct halo_placement *p, const struct halo_shares *shares)
{
    uint32_t best = UINT32_MAX;
    double most = -1;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const struct halo_placement_layer *layer = &p->layers[i];
        if (layer->n_slots >= layer->n_expert)
            continue;
        double saves = halo_shares_gain(shares, i, layer->n_slots) * (double)layer->read_bytes;
        if (saves > most || (saves == most && layer->n_slots < p->layers[best].n_slots)) {
            best = i;
            most = saves;
        }
    }
    return best;
}

static void give_slots(struct halo_placement *p, uint32_t spare, const struct halo_shares *shares)
{
    uint32_t n_left = p->n_slots;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        struct halo_placement_layer *layer = &p->layers[i];
        layer->min_slots = layer->n_slots = least_slots(layer, spare);
        n_left -= layer->n_slots;
    }
    for (; n_left > 0; n_left--) {
        uint32_t best = next_layer(p, shares);
        if (best == UINT32_MAX) /* layers of few experts leave some of the least number empty */
            break;
        p->layers[best].n_slots++;
    }
    for (uint32_t i = 0; i < p->n_layers; i++) {
        struct halo_placement_layer *layer = &p->layers[i];
        double found = 0;
        for (uint32_t slot = 0; slot < layer->n_slots; slot++)
            found += halo_shares_gain(shares, i, slot);
        if (layer->n_expert > 0 && layer->n_slots < layer->n_expert)
            layer->hit_rate = found < layer->n_used ? found / layer->n_used : 1;
    }
}

static int refuse_experts(const struct halo_placement *p, uint32_t least, struct halo_fault *fault)
{
    char all[HALO_SIZE_TEXT], fixed[HALO_SIZE_TEXT], slot[HALO_SIZE_TEXT], budget[HALO_SIZE_TEXT];
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY,
                          "needs %s to stream its experts: %s that every token reads, KV cache and scratch included, "
                          "and the least of %u slots of %s; there are %s",
                          halo_placement_size((double)(p->total_bytes + least * p->slot_bytes), all),
                          halo_placement_size((double)p->total_bytes, fixed), least,
                          halo_placement_size((double)p->slot_bytes, slot),
                          halo_placement_size((double)p->budget_bytes, budget));
}

static int place_experts(const struct halo_parts *parts, const struct halo_placement_options *o,
                         struct halo_placement *p, struct halo_fault *fault)
{
    struct halo_shares shares;
    uint64_t n_expert = 0;
    const struct halo_placement_layer *some = NULL;
    p->slot_bytes = o->slot_bytes;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        n_expert += p->layers[i].n_expert;
        some = p->layers[i].n_expert > 0 ? &p->layers[i] : some;
        if (o->slot_bytes == 0 && parts->layers[i].n_expert > 0 &&
            parts->layers[i].slot_bytes + HALO_PLACEMENT_BLOCK > p->slot_bytes)
            p->slot_bytes = parts->layers[i].slot_bytes + HALO_PLACEMENT_BLOCK;
    }
    if (o->slot_bytes > 0) {
        p->total_bytes -= p->kv_bytes + p->scratch_bytes + p->padding_bytes;
        p->kv_bytes = o->streamed_kv_bytes;
        p->scratch_bytes = o->streamed_scratch_bytes;
        p->padding_bytes = o->streamed_padding_bytes;
        p->total_bytes += p->kv_bytes + p->scratch_bytes + p->padding_bytes;
    }
    uint64_t left = p->budget_bytes > p->total_bytes ? p->budget_bytes - p->total_bytes : 0;
    uint64_t n_slots = left / p->slot_bytes;
    uint32_t least = o->least_slots > 0 ? o->least_slots : least_slots_of_all(p, o->spare_slots);
    uint64_t most = n_expert > least ? n_expert : least;
    if (n_slots < least)
        return refuse_experts(p, least, fault);
    p->n_slots = (uint32_t)(n_slots < most ? n_slots : most);
    p->total_bytes += p->n_slots * p->slot_bytes;
    halo_shares_init(&shares, &o->routing, some->n_expert, some->n_used);
    give_slots(p, o->spare_slots, &shares);
    return 0;
}

/* ---- a dense model: every so many layers one is read again for each token ---- */

/* Layer number `index` of n_streamed that are spread evenly over the n layers that can stream, `turn` layers later. */
static uint32_t spread(uint32_t index, uint32_t n_streamed, uint32_t n, uint32_t turn)
{
    return (uint32_t)(((uint64_t)index * n / n_streamed + turn) % n);
}

/* The bytes of a layer's matrices that streaming saves, and those of a buffer for them. */
static struct halo_placement_matrices matrices_of(const struct halo_parts *parts,
                                                  const struct halo_placement_options *o, uint32_t layer)
{
    const struct halo_parts_layer *l = &parts->layers[layer];
    if (o->matrices)
        return o->matrices[layer];
    return (struct halo_placement_matrices){l->matrix_bytes, l->matrix_bytes + l->n_matrices * HALO_PLACEMENT_BLOCK};
}

struct choice {
    uint32_t n_streamed, turn;
    uint64_t stream_bytes; /* of the file */
    uint64_t saved_bytes, buffer_bytes;
};

static struct choice choice_of(const struct halo_parts *parts, const struct halo_placement_options *o,
                               const uint32_t *layers, uint32_t n, uint32_t n_streamed, uint32_t turn)
{
    struct choice choice = {.n_streamed = n_streamed, .turn = turn};
    for (uint32_t i = 0; i < n_streamed; i++) {
        uint32_t layer = layers[spread(i, n_streamed, n, turn)];
        struct halo_placement_matrices matrices = matrices_of(parts, o, layer);
        choice.stream_bytes += parts->layers[layer].matrix_bytes;
        choice.saved_bytes += matrices.resident_bytes;
        if (2 * matrices.buffer_bytes > choice.buffer_bytes)
            choice.buffer_bytes = 2 * matrices.buffer_bytes;
    }
    return choice;
}

/* The fewest streamed bytes that leave room for the rest and for two buffers. False: there is no room. */
static bool choose_layers(const struct halo_parts *parts, const struct halo_placement_options *o,
                          const uint32_t *layers, uint32_t n, const struct halo_placement *p, struct choice *ret)
{
    bool found = false;
    for (uint32_t n_streamed = 1; n_streamed <= n && !found; n_streamed++)
        for (uint32_t turn = 0; turn < n; turn++) {
            struct choice choice = choice_of(parts, o, layers, n, n_streamed, turn);
            if (p->total_bytes - choice.saved_bytes + choice.buffer_bytes > p->budget_bytes ||
                (found && choice.stream_bytes >= ret->stream_bytes))
                continue;
            *ret = choice;
            found = true;
        }
    return found;
}

static int refuse_layers(const struct halo_parts *parts, const struct halo_placement_options *o, const uint32_t *layers,
                         uint32_t n, const struct halo_placement *p, struct halo_fault *fault)
{
    struct choice all = choice_of(parts, o, layers, n, n, 0);
    uint64_t fixed_bytes = p->total_bytes - all.saved_bytes;
    char need[HALO_SIZE_TEXT], fixed[HALO_SIZE_TEXT], embedding[HALO_SIZE_TEXT], buffers[HALO_SIZE_TEXT],
        budget[HALO_SIZE_TEXT];
    int r = halo_fault_set(
        fault, HALO_FAULT_OUT_OF_MEMORY,
        "needs %s even if every layer streams: %s always stay in memory (KV cache, scratch, norms, %s of embedding and "
        "output), and two buffers for a layer take %s; there are %s",
        halo_placement_size((double)(fixed_bytes + all.buffer_bytes), need),
        halo_placement_size((double)fixed_bytes, fixed),
        halo_placement_size((double)(p->placed_bytes[HALO_PLACED_EMBEDDING] + p->placed_bytes[HALO_PLACED_OUTPUT]),
                            embedding),
        halo_placement_size((double)all.buffer_bytes, buffers), halo_placement_size((double)p->budget_bytes, budget));
    if (fault) {
        halo_fault_number(fault, "needed_bytes", fixed_bytes + all.buffer_bytes);
        halo_fault_number(fault, "free_bytes", p->budget_bytes);
    }
    return r;
}

static int place_layers(const struct halo_parts *parts, const struct halo_placement_options *o,
                        struct halo_placement *p, struct halo_fault *fault)
{
    uint32_t layers[HALO_MODEL_MAX_LAYERS], n = 0;
    struct choice choice = {0};
    for (uint32_t i = 0; i < parts->n_layers; i++)
        if (parts->layers[i].matrix_bytes > 0)
            layers[n++] = i;
    if (o->matrices) {
        p->total_bytes += o->streamed_scratch_bytes - p->scratch_bytes;
        p->scratch_bytes = o->streamed_scratch_bytes;
    }
    if (!choose_layers(parts, o, layers, n, p, &choice))
        return refuse_layers(parts, o, layers, n, p, fault);
    for (uint32_t i = 0; i < choice.n_streamed; i++) {
        uint32_t layer = layers[spread(i, choice.n_streamed, n, choice.turn)];
        uint64_t feed_forward = parts->layers[layer].ff_bytes;
        p->layers[layer].stream_bytes = parts->layers[layer].matrix_bytes;
        p->layers[layer].resident_bytes -= parts->layers[layer].matrix_bytes;
        p->placed_bytes[HALO_PLACED_FEED_FORWARD] -= feed_forward;
        p->placed_bytes[HALO_PLACED_ATTENTION] -= parts->layers[layer].matrix_bytes - feed_forward;
    }
    p->n_streamed = choice.n_streamed;
    p->buffer_bytes = choice.buffer_bytes;
    p->padding_bytes += choice.stream_bytes - choice.saved_bytes;
    p->total_bytes += choice.buffer_bytes - choice.saved_bytes;
    return 0;
}

/* ---- both ---- */

int halo_placement_place(const struct halo_plan *plan, const struct halo_parts *parts,
                         const struct halo_profile *profile, uint64_t budget_bytes, uint32_t context,
                         const struct halo_placement_options *options, struct halo_placement *ret,
                         struct halo_fault *fault)
{
    uint64_t expert_bytes = parts->bytes[HALO_PLACED_EXPERTS];
    int r = 0;
    memset(ret, 0, sizeof(*ret));
    ret->budget_bytes = budget_bytes;
    describe(parts, options, ret);
    uint64_t whole_bytes = ret->total_bytes + expert_bytes;
    bool fits = whole_bytes <= budget_bytes;
    if (!fits && options->tiers == HALO_TIERS_MEMORY) {
        char whole[HALO_SIZE_TEXT], budget[HALO_SIZE_TEXT];
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY,
                              "takes %s and there are %s; with tiers \"auto\" what does not fit is read from disk",
                              halo_placement_size((double)whole_bytes, whole),
                              halo_placement_size((double)budget_bytes, budget));
    }
    if (fits && (options->tiers != HALO_TIERS_STREAM || expert_bytes == 0)) {
        ret->fits = true;
        ret->placed_bytes[HALO_PLACED_EXPERTS] = expert_bytes;
        ret->total_bytes = whole_bytes;
    } else {
        r = expert_bytes > 0 ? place_experts(parts, options, ret, fault) : place_layers(parts, options, ret, fault);
    }
    if (r == 0)
        halo_placement_predict(plan, parts, profile, context, options, ret);
    return r;
}
