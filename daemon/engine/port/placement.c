/* placement.c: see placement_priv.h. The placement itself is <model/placement.h>; this turns it into JSON. */
#include "port/placement_priv.h"

#include <assert.h>
#include <stdlib.h>

#define CURVE_POINTS 24

static void member(struct halo_json *w, const char *key, uint64_t value)
{
    halo_json_key(w, key);
    halo_json_u64(w, value);
}

static void write_parts(struct halo_json *w, const struct halo_placement *p)
{
    halo_json_object_begin(w);
    for (uint32_t placed = 0; placed < HALO_PLACED_KINDS; placed++)
        if (p->placed_bytes[placed] > 0)
            member(w, halo_placed_name((enum halo_placed)placed), p->placed_bytes[placed]);
    if (p->n_slots > 0)
        member(w, "slots", p->n_slots * p->slot_bytes);
    if (p->buffer_bytes > 0)
        member(w, "buffers", p->buffer_bytes);
    member(w, "kv", p->kv_bytes);
    member(w, "scratch", p->scratch_bytes);
    if (p->padding_bytes > 0)
        member(w, "padding", p->padding_bytes);
    halo_json_object_end(w);
}

static void write_layers(struct halo_json *w, const struct halo_placement *p)
{
    halo_json_array_begin(w);
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const struct halo_placement_layer *layer = &p->layers[i];
        uint32_t n_held = p->n_slots > 0 ? layer->n_slots : layer->n_expert;
        halo_json_object_begin(w);
        member(w, "memory_bytes", layer->resident_bytes + n_held * layer->expert_bytes);
        member(w, "disk_bytes", layer->stream_bytes + (layer->n_expert - n_held) * layer->expert_bytes);
        if (layer->n_expert > 0) {
            member(w, "slots", n_held);
            member(w, "experts", layer->n_expert);
            halo_json_key(w, "hit_rate");
            halo_json_fix3(w, layer->hit_rate);
        }
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
}

/* From the least budget that works to what holds everything, and beyond to the one asked for. */
static void write_curve(struct halo_port_placement *p, const struct halo_forecast *f,
                        const struct halo_profile *profile, const struct halo_placement_options *options)
{
    struct halo_placement_options o = *options;
    uint64_t whole = p->placement.budget_bytes;
    o.tiers = HALO_TIERS_AUTO;
    if (halo_placement_make(&f->model->plan, profile, UINT64_MAX, 0, &o, &p->other, NULL) == 0)
        whole = p->other.total_bytes;
    halo_json_array_begin(&p->curve);
    for (uint32_t i = 1; i <= CURVE_POINTS; i++) {
        uint64_t budget = whole / CURVE_POINTS * i;
        budget = i == CURVE_POINTS ? whole : budget;
        if (halo_placement_make(&f->model->plan, profile, budget, 0, &o, &p->other, NULL) < 0 || p->other.tok_s <= 0)
            continue;
        halo_json_object_begin(&p->curve);
        member(&p->curve, "budget_bytes", budget);
        halo_json_key(&p->curve, "tok_s");
        halo_json_fix3(&p->curve, p->other.tok_s);
        halo_json_key(&p->curve, "resident");
        halo_json_bool(&p->curve, p->other.fits);
        halo_json_object_end(&p->curve);
    }
    halo_json_array_end(&p->curve);
}

static void fill_speeds(const struct halo_placement *p, const struct halo_profile *profile,
                        struct halo_part_placement *ev)
{
    const struct halo_placement_terms *t = &p->terms;
    ev->has_memory_gb_s = profile->memory_bytes_s > 0;
    ev->memory_gb_s = profile->memory_bytes_s / 1e9;
    ev->has_disk_gb_s = profile->disk_bytes_s > 0;
    ev->disk_gb_s = profile->disk_bytes_s / 1e9;
    ev->has_memory_ms = ev->has_disk_ms = ev->has_latency_ms = ev->has_host_ms = ev->has_overlap_ms = p->tok_s > 0;
    ev->memory_ms = t->memory_s * 1e3;
    ev->disk_ms = t->disk_s * 1e3;
    ev->latency_ms = t->latency_s * 1e3;
    ev->host_ms = t->host_s * 1e3;
    ev->overlap_ms = t->overlap_s * 1e3;
    ev->has_tok_s = ev->has_limit_tok_s = p->tok_s > 0;
    ev->tok_s = p->tok_s;
    ev->limit_tok_s = p->limit_tok_s;
}

static void fill_texts(struct halo_port_placement *p, struct halo_part_placement *ev)
{
    for (uint32_t i = 0; i < p->placement.n_reasons; i++)
        p->reasons[i] = halo_str_of(p->placement.reasons[i]);
    for (uint32_t i = 0; i < p->placement.n_hints; i++)
        p->hints[i] = (struct halo_part_hint){.tok_s = p->placement.hints[i].tok_s,
                                              .text = halo_str_of(p->placement.hints[i].text)};
    ev->reasons = (struct halo_str_list){p->reasons, p->placement.n_reasons};
    ev->hints = (struct halo_part_hint_list){p->hints, p->placement.n_hints};
}

static void fill(struct halo_port_placement *p, const struct halo_forecast *f, const struct halo_profile *profile,
                 struct halo_part_placement *ev)
{
    const struct halo_placement *placement = &p->placement;
    write_parts(&p->parts, placement);
    write_layers(&p->layers, placement);
    ev->resident = placement->fits;
    ev->loadable = placement->fits || (placement->n_slots > 0 && f->streamed.slot_bytes > 0) ||
                   (placement->n_streamed > 0 && f->layers.n_layers > 0);
    ev->total_bytes = (int64_t)placement->total_bytes;
    ev->parts = (struct halo_raw){p->parts.at, p->parts.len};
    ev->layers = (struct halo_raw){p->layers.at, p->layers.len};
    ev->slots = placement->n_slots;
    ev->slot_bytes = (int64_t)placement->slot_bytes;
    for (uint32_t i = 0; i < placement->n_layers; i++)
        ev->experts += placement->layers[i].n_expert;
    ev->streamed_layers = placement->n_streamed;
    ev->hit_rate = placement->hit_rate;
    ev->routing = placement->routing.kind == HALO_ROUTING_ZIPF ? HALO_WIRE_ROUTING_ZIPF : HALO_WIRE_ROUTING_UNIFORM;
    ev->has_exponent = placement->routing.kind == HALO_ROUTING_ZIPF;
    ev->exponent = placement->routing.exponent;
    ev->token_bytes = (int64_t)placement->token_bytes;
    ev->miss_bytes = placement->miss_bytes;
    ev->prefill_bytes = (int64_t)placement->prefill_bytes;
    fill_speeds(placement, profile, ev);
    fill_texts(p, ev);
}

/* What the device adds to the weights of the file, to align or to repack them. */
static uint64_t padding_of(const struct halo_budget *budget, const struct halo_plan *plan)
{
    uint64_t in_file = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        in_file += plan->weights[i].n_bytes;
    return budget->weights_bytes > in_file ? budget->weights_bytes - in_file : 0;
}

int halo_port_placement_fill(const struct halo_forecast *f, const struct halo_msg_plan *msg, uint64_t kv_bytes,
                             struct halo_ev_plan *ev, struct halo_port_placement **ret)
{
    static_assert((int)HALO_WIRE_TIERS_AUTO == (int)HALO_TIERS_AUTO &&
                      (int)HALO_WIRE_TIERS_MEMORY == (int)HALO_TIERS_MEMORY &&
                      (int)HALO_WIRE_TIERS_STREAM == (int)HALO_TIERS_STREAM,
                  "the words and the tiers have one order");
    struct halo_port_placement *p = *ret = calloc(1, sizeof(*p));
    struct halo_profile profile = f->profile;
    bool is_dense = f->layers.n_layers > 0;
    struct halo_placement_options options = f->streamed;
    if (!p)
        return -ENOMEM;
    options.tiers = (enum halo_tiers)msg->params.tiers;
    options.routing = msg->routing == HALO_WIRE_ROUTING_ZIPF
                          ? (struct halo_routing){.kind = HALO_ROUTING_ZIPF, .exponent = HALO_ROUTING_ZIPF_PUBLISHED}
                          : (struct halo_routing){.kind = HALO_ROUTING_UNIFORM};
    options.kv_bytes = is_dense ? f->layers.kv_bytes : kv_bytes;
    options.matrices = is_dense ? f->layers.matrices : NULL;
    if (is_dense)
        options.streamed_scratch_bytes = f->layers.scratch_bytes;
    options.scratch_bytes = f->budget.scratch_bytes;
    options.padding_bytes = padding_of(&f->budget, &f->model->plan);
    halo_json_init(&p->parts);
    halo_json_init(&p->layers);
    halo_json_init(&p->curve);
    profile.memory_bytes_s = msg->has_memory_gb_s ? msg->memory_gb_s * 1e9 : profile.memory_bytes_s;
    profile.disk_bytes_s = msg->has_disk_gb_s ? msg->disk_gb_s * 1e9 : profile.disk_bytes_s;
    if (halo_placement_make(&f->model->plan, &profile, f->budget_bytes, 0, &options, &p->placement, &p->fault) < 0)
        return 0;
    fill(p, f, &profile, &ev->placement);
    if (msg->curve) {
        write_curve(p, f, &profile, &options);
        ev->placement.has_curve = true;
        ev->placement.curve = (struct halo_raw){p->curve.at, p->curve.len};
    }
    ev->has_placement = true;
    return p->parts.error < 0 || p->layers.error < 0 || p->curve.error < 0 ? -ENOMEM : 0;
}

void halo_port_placement_finish(struct halo_port_placement *p)
{
    if (!p)
        return;
    halo_json_finish(&p->parts);
    halo_json_finish(&p->layers);
    halo_json_finish(&p->curve);
    free(p);
}
