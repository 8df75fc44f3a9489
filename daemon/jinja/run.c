/* run.c: one rendering of a template: its variables, its limits, its faults and its result.
 *
 * Runs on the caller's thread. Intermediate values live in the run's own arena and die with it; the result is copied to
 * the caller's. Every node that runs costs a step and so do bytes that are copied, which bounds time by the template's
 * own measure; the clock is looked at every few thousand steps besides. Fails with -ENOMEM, what the
 * turn's check returned, or an enum halo_jinja_outcome.
 */
#include <assert.h>
#include <string.h>

#include <base/clock.h>

#include "jinja_priv.h"

#define DEFAULT_MAX_STEPS ((uint64_t)20000000)
#define DEFAULT_MAX_MEMORY_BYTES ((size_t)256 << 20)
#define SCRATCH_KEPT_BYTES ((size_t)16 << 20)
#define DEFAULT_MAX_OUTPUT_BYTES ((size_t)32 << 20)
#define DEFAULT_MAX_DEPTH 1200
#define DEFAULT_MAX_TIME_MS 2000

const char *halo_jinja_outcome_name(enum halo_jinja_outcome outcome)
{
    static const char *const names[] = {"none",     "raise_exception", "type_error", "undefined",
                                        "security", "runtime",         "limit"};
    return (unsigned)outcome < sizeof names / sizeof *names ? names[outcome] : "none";
}

static int set_roots(struct halo_jinja_run *run, const struct halo_jinja_params *params)
{
    const struct halo_jinja *jinja = run->jinja;
    int r = halo_jinja_alloc(run, jinja->n_names, sizeof *run->roots, &run->roots);
    if (r)
        return r;
    for (size_t i = 0; i < jinja->n_names; i++) {
        const struct halo_jinja_native *native = halo_jinja_global(jinja->names[i].bytes, jinja->names[i].n);
        run->roots[i] =
            native ? (struct halo_jinja_value){.kind = HALO_JINJA_FUNCTION, .object = (void *)(uintptr_t)native}
                   : halo_jinja_missing();
    }
    for (size_t i = 0; i < params->n_vars; i++) {
        ptrdiff_t id = halo_jinja_name_find(jinja, params->vars[i].name, strlen(params->vars[i].name));
        if (id >= 0)
            run->roots[id] = params->vars[i].value;
    }
    return 0;
}

/* The output as spans in the caller's arena. */
static int copy_out(struct halo_jinja_run *run, const struct halo_jinja_text *out, struct halo_arena *arena,
                    struct halo_chat_text *ret)
{
    char *bytes = halo_arena_strndup(arena, out->n ? out->bytes : "", out->n);
    struct halo_chat_span *spans = halo_arena_alloc(arena, out->n_marks + 1, sizeof *spans);
    if (!bytes || !spans)
        return halo_fault_set(run->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a rendered conversation");
    for (size_t i = 0, from = 0; i < out->n_marks; from = out->marks[i++].end)
        spans[i] = (struct halo_chat_span){bytes + from, out->marks[i].end - from, out->marks[i].is_template};
    *ret = (struct halo_chat_text){spans, out->n_marks};
    return 0;
}

static void set_limits(struct halo_jinja_run *run, const struct halo_jinja_limits *given)
{
    struct halo_jinja_limits *limits = &run->limits;
    *limits = *given;
    if (!limits->max_steps)
        limits->max_steps = DEFAULT_MAX_STEPS;
    if (!limits->max_memory_bytes)
        limits->max_memory_bytes = DEFAULT_MAX_MEMORY_BYTES;
    if (!limits->max_output_bytes)
        limits->max_output_bytes = DEFAULT_MAX_OUTPUT_BYTES;
    if (!limits->max_depth || limits->max_depth > DEFAULT_MAX_DEPTH)
        limits->max_depth = DEFAULT_MAX_DEPTH; /* the stack of a thread holds no more */
    if (!limits->max_time_ms)
        limits->max_time_ms = DEFAULT_MAX_TIME_MS;
    run->end_ns = halo_clock_ns() + (uint64_t)limits->max_time_ms * 1000000;
}

int halo_jinja_render(const struct halo_jinja *jinja, const struct halo_jinja_params *params, struct halo_arena *arena,
                      struct halo_chat_text *ret, struct halo_fault *fault)
{
    struct halo_fault own_fault;
    struct halo_jinja_text out = {0};
    struct halo_jinja_run run = {.jinja = jinja,
                                 .now = params->now,
                                 .fault = fault ? fault : &own_fault,
                                 .turn = params->turn,
                                 .out = &out,
                                 .builtins = &halo_jinja_builtins};
    *ret = (struct halo_chat_text){0};
    set_limits(&run, &params->limits);
    if (params->scratch)
        run.arena = *params->scratch;
    run.arena.limit_bytes = run.limits.max_memory_bytes;
    struct halo_jinja_scope root = {0};
    int r = set_roots(&run, params);
    if (r == 0)
        r = halo_jinja_exec(&run, &root, jinja->body);
    if (r == 0)
        r = copy_out(&run, &out, arena, ret);
    assert(r < HALO_JINJA_FLOW_BREAK);
    halo_arena_reset(&run.arena, params->scratch ? SCRATCH_KEPT_BYTES : 0);
    if (params->scratch) {
        run.arena.limit_bytes = params->scratch->limit_bytes;
        *params->scratch = run.arena;
    }
    return r;
}
