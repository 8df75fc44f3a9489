/* tier_sim_trace.c: choices of routers: uniform, by Zipf's law, or recorded. */
#include "tier_sim.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/rng.h>

static void *allocated(size_t n, size_t size)
{
    void *bytes = calloc(n > 0 ? n : 1, size);
    if (!bytes)
        abort();
    return bytes;
}

/* Shape of the layers with experts, which are alike. */
static void shape_of(struct halo_sim_trace *trace, const struct halo_placement *shape)
{
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layers[i].n_expert > 0) {
            trace->n_expert = shape->layers[i].n_expert;
            trace->n_used = shape->layers[i].n_used;
        }
    trace->n_layers = shape->n_layers;
}

void halo_sim_trace_create(struct halo_sim_trace *trace, const struct halo_placement *shape,
                           const struct halo_routing *routing, uint64_t seed)
{
    *trace = (struct halo_sim_trace){.kind = routing->kind, .exponent = routing->exponent, .seed = seed};
    assert(routing->kind != HALO_ROUTING_TRACE);
    shape_of(trace, shape);
    trace->rank_of = allocated((size_t)trace->n_layers * trace->n_expert, sizeof(*trace->rank_of));
    for (uint32_t layer = 0; layer < trace->n_layers; layer++) {
        uint32_t *rank_of = trace->rank_of + (size_t)layer * trace->n_expert;
        for (uint32_t i = 0; i < trace->n_expert; i++) { /* each layer has its own favourites */
            uint32_t k = (uint32_t)(halo_rng_uniform(seed, layer, i) * (i + 1));
            rank_of[i] = rank_of[k];
            rank_of[k] = i;
        }
    }
}

static bool is_among(const uint32_t *ids, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Draws without replacement are the largest of log(weight) + Gumbel noise, each expert its own. */
static void draw(const struct halo_sim_trace *trace, uint64_t token, uint32_t layer, uint32_t *ret_ids)
{
    double keys[HALO_MODEL_MAX_EXPERTS];
    uint64_t position = token * trace->n_layers + layer;
    double exponent = trace->kind == HALO_ROUTING_ZIPF ? trace->exponent : 0;
    for (uint32_t rank = 0; rank < trace->n_expert; rank++)
        keys[rank] = -exponent * log(rank + 1) - log(-log(halo_rng_uniform(trace->seed + 1, position, rank) + 0x1p-60));
    for (uint32_t i = 0; i < trace->n_used; i++) {
        uint32_t best = 0;
        for (uint32_t rank = 1; rank < trace->n_expert; rank++)
            best = keys[rank] > keys[best] ? rank : best;
        keys[best] = -INFINITY;
        ret_ids[i] = trace->rank_of[(size_t)layer * trace->n_expert + best];
    }
}

void halo_sim_trace_choose(const struct halo_sim_trace *trace, uint64_t token, uint32_t layer, uint32_t *ret_ids)
{
    if (trace->kind != HALO_ROUTING_TRACE) {
        draw(trace, token, layer, ret_ids);
        return;
    }
    size_t at = ((size_t)(token % trace->n_tokens) * trace->n_layers + layer) * trace->n_used;
    memcpy(ret_ids, trace->choices + at, trace->n_used * sizeof(*ret_ids));
}

/* ---- recorded ---- */

static void count_gains(struct halo_sim_trace *trace)
{
    trace->gains = allocated((size_t)trace->n_layers * trace->n_expert, sizeof(*trace->gains));
    for (uint32_t layer = 0; layer < trace->n_layers; layer++) {
        double shares[HALO_MODEL_MAX_EXPERTS] = {0};
        for (uint32_t token = 0; token < trace->n_tokens; token++)
            for (uint32_t i = 0; i < trace->n_used; i++)
                shares[trace->choices[((size_t)token * trace->n_layers + layer) * trace->n_used + i]] +=
                    1.0 / trace->n_tokens;
        halo_routing_gains(shares, trace->n_expert, trace->gains + (size_t)layer * trace->n_expert);
    }
}

/* One line: the layer that is due, and n_used different experts. */
static bool read_line(const struct halo_sim_trace *trace, const char *line, uint32_t layer, uint32_t *ret_ids)
{
    char *end;
    if (strtoul(line, &end, 10) != layer || end == line)
        return false;
    for (uint32_t i = 0; i < trace->n_used; i++) {
        const char *from = end;
        unsigned long id = strtoul(from, &end, 10);
        if (end == from || id >= trace->n_expert || is_among(ret_ids, i, (uint32_t)id))
            return false;
        ret_ids[i] = (uint32_t)id;
    }
    return end[strspn(end, " \n")] == '\0';
}

bool halo_sim_trace_read(struct halo_sim_trace *trace, const struct halo_placement *shape, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t n_line = 0, n_lines = 0, room = 0;
    *trace = (struct halo_sim_trace){.kind = HALO_ROUTING_TRACE};
    shape_of(trace, shape);
    if (!f) {
        fprintf(stderr, "tier_sim: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool good = true;
    while (good && getline(&line, &n_line, f) > 0) {
        if (n_lines == room) {
            room = room > 0 ? 2 * room : 1024;
            trace->choices = reallocarray(trace->choices, room * trace->n_used, sizeof(*trace->choices));
            if (!trace->choices)
                abort();
        }
        good = read_line(trace, line, (uint32_t)(n_lines % trace->n_layers), trace->choices + n_lines * trace->n_used);
        n_lines++;
    }
    free(line);
    fclose(f);
    if (!good || n_lines == 0 || n_lines % trace->n_layers != 0) {
        fprintf(stderr, "tier_sim: %s: line %zu is not \"LAYER ID ...\" of %u layers in turn, %u of %u experts each\n",
                path, n_lines, trace->n_layers, trace->n_used, trace->n_expert);
        halo_sim_trace_finish(trace);
        return false;
    }
    trace->n_tokens = (uint32_t)(n_lines / trace->n_layers);
    count_gains(trace);
    return true;
}

bool halo_sim_trace_write(const struct halo_sim_trace *trace, const char *path, uint32_t n_tokens)
{
    uint32_t ids[HALO_MODEL_MAX_EXPERTS];
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    for (uint32_t token = 0; token < n_tokens; token++)
        for (uint32_t layer = 0; layer < trace->n_layers; layer++) {
            halo_sim_trace_choose(trace, token, layer, ids);
            fprintf(f, "%u", layer);
            for (uint32_t i = 0; i < trace->n_used; i++)
                fprintf(f, " %u", ids[i]);
            fputc('\n', f);
        }
    return fclose(f) == 0;
}

struct halo_routing halo_sim_trace_routing(const struct halo_sim_trace *trace)
{
    return (struct halo_routing){
        .kind = trace->kind, .exponent = trace->exponent, .gains = trace->gains, .n_expert = trace->n_expert};
}

void halo_sim_trace_finish(struct halo_sim_trace *trace)
{
    free(trace->rank_of);
    free(trace->choices);
    free(trace->gains);
    *trace = (struct halo_sim_trace){0};
}
