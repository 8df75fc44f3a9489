/* run.c: one rendering of a template: its variables, its limits, its faults and its result.
 *
 * Runs on the caller's thread. Intermediate values live in the run's own arena and die with it; the result is copied to
 * the caller's. Every node that runs costs a step and so do bytes that are copied, which bounds time by the template's
 * own measure; the clock is looked at every few thousand steps besides. Fails with -ENOMEM or an enum
 * halo_jinja_outcome.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>

#include "jinja_priv.h"

#define DEFAULT_MAX_STEPS ((uint64_t)20000000)
#define DEFAULT_MAX_MEMORY_BYTES ((size_t)256 << 20)
#define SCRATCH_KEPT_BYTES ((size_t)16 << 20)
#define DEFAULT_MAX_OUTPUT_BYTES ((size_t)32 << 20)
#define DEFAULT_MAX_DEPTH 1200
#define DEFAULT_MAX_TIME_MS 2000
#define STEPS_PER_LOOK 4096

const char *halo_jinja_outcome_name(enum halo_jinja_outcome outcome)
{
    static const char *const names[] = {"none",     "raise_exception", "type_error", "undefined",
                                        "security", "runtime",         "limit"};
    return (unsigned)outcome < sizeof names / sizeof *names ? names[outcome] : "none";
}

/* ---- faults and limits ---- */

int halo_jinja_fail(struct halo_jinja_run *run, enum halo_jinja_outcome outcome, const char *format, ...)
{
    char text[sizeof run->fault->text];
    size_t line, column;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (outcome == HALO_JINJA_RAISED || !run->node) {
        halo_fault_set(run->fault, HALO_FAULT_BAD_REQUEST, "%s", text);
    } else {
        halo_jinja_place(&run->jinja->source, run->node->at, &line, &column);
        halo_fault_set(run->fault, HALO_FAULT_BAD_REQUEST, "template line %zu, column %zu: %s", line, column, text);
    }
    return outcome;
}

int halo_jinja_undefined_error(struct halo_jinja_run *run, struct halo_jinja_value value)
{
    const struct halo_jinja_hint *hint = value.object;
    int n = hint && hint->n_name < 80 ? (int)hint->n_name : 80;
    if (!hint)
        return halo_jinja_fail(run, HALO_JINJA_IS_UNDEFINED, "a value is undefined");
    if (hint->is_unsafe)
        return halo_jinja_fail(run, HALO_JINJA_SECURITY, "access to '%.*s' of a %s is refused", n, hint->name,
                               hint->owner);
    if (!hint->owner)
        return halo_jinja_fail(run, HALO_JINJA_IS_UNDEFINED, "'%.*s' is undefined", n, hint->name);
    return halo_jinja_fail(run, HALO_JINJA_IS_UNDEFINED, "%s has no %s '%.*s'", hint->owner,
                           hint->is_element ? "element" : "attribute", n, hint->name);
}

int halo_jinja_type_error(struct halo_jinja_run *run, const char *what, struct halo_jinja_value value)
{
    if (value.kind == HALO_JINJA_UNDEFINED && value.object)
        return halo_jinja_undefined_error(run, value);
    return halo_jinja_fail(run, HALO_JINJA_TYPE_ERROR, "%s: %s", what, halo_jinja_type_name(value));
}

int halo_jinja_steps(struct halo_jinja_run *run, uint64_t n)
{
    run->steps += n;
    if (run->steps < run->next_look)
        return 0;
    run->next_look = run->steps + STEPS_PER_LOOK;
    if (run->steps > run->limits.max_steps)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "takes more than %llu steps",
                               (unsigned long long)run->limits.max_steps);
    if (halo_clock_ns() > run->end_ns)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "takes more than %u ms", run->limits.max_time_ms);
    return 0;
}

int halo_jinja_enter(struct halo_jinja_run *run)
{
    if (++run->depth > run->limits.max_depth)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "nests more than %u levels deep", run->limits.max_depth);
    return halo_jinja_steps(run, 1);
}

int halo_jinja_no_memory(struct halo_jinja_run *run, size_t bytes)
{
    size_t left = run->arena.limit_bytes - run->arena.held_bytes;
    if (left > bytes && left - bytes > 4096) {
        halo_fault_set(run->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render a chat template");
        return -ENOMEM;
    }
    return halo_jinja_fail(run, HALO_JINJA_LIMIT, "needs more than %zu bytes", run->limits.max_memory_bytes);
}

int halo_jinja_alloc(struct halo_jinja_run *run, size_t n, size_t size, void *ret)
{
    size_t bytes;
    void *memory = __builtin_mul_overflow(n, size, &bytes) ? NULL : halo_arena_alloc(&run->arena, n, size);
    memcpy(ret, &memory, sizeof memory);
    if (memory)
        return bytes < 256 ? 0 : halo_jinja_steps(run, bytes / 64);
    return halo_jinja_no_memory(run, __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes);
}

/* ---- values of this run ---- */

int halo_jinja_new_list(struct halo_jinja_run *run, enum halo_jinja_kind kind, struct halo_jinja_value *ret)
{
    struct halo_jinja_list *list;
    int r = halo_jinja_alloc(run, 1, sizeof *list, &list);
    *ret = (struct halo_jinja_value){.kind = (uint8_t)kind, .list = list};
    return r;
}

int halo_jinja_new_dict(struct halo_jinja_run *run, struct halo_jinja_value *ret)
{
    struct halo_jinja_dict *dict;
    int r = halo_jinja_alloc(run, 1, sizeof *dict, &dict);
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_DICT, .dict = dict};
    return r;
}

int halo_jinja_push(struct halo_jinja_run *run, struct halo_jinja_value list, struct halo_jinja_value item)
{
    assert(halo_jinja_is_listlike(list));
    if (halo_jinja_list_add(&run->arena, list.list, item) < 0)
        return halo_jinja_no_memory(run, 2 * list.list->n * sizeof item);
    return halo_jinja_steps(run, 1);
}

int halo_jinja_put(struct halo_jinja_run *run, struct halo_jinja_value dict, struct halo_jinja_value key,
                   struct halo_jinja_value value)
{
    if (!halo_jinja_hashable(key))
        return halo_jinja_type_error(run, "can not be a key", key);
    if (halo_jinja_dict_set(&run->arena, dict.dict, key, value) < 0)
        return halo_jinja_no_memory(run, 4 * dict.dict->n * sizeof(struct halo_jinja_entry));
    return halo_jinja_steps(run, 1 + (key.kind == HALO_JINJA_STRING ? key.string->n / 64 : 0));
}

int halo_jinja_undefined(struct halo_jinja_run *run, struct halo_jinja_hint hint, struct halo_jinja_value *ret)
{
    struct halo_jinja_hint *copy;
    int r = halo_jinja_alloc(run, 1, sizeof *copy, &copy);
    if (r)
        return r;
    *copy = hint;
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_UNDEFINED, .object = copy};
    return 0;
}

/* ---- rendering ---- */

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
    struct halo_jinja_run run = {.jinja = jinja, .now = params->now, .fault = fault ? fault : &own_fault, .out = &out};
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
