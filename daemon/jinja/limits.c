/* limits.c: the faults of a rendering, and what it may take of steps, memory, depth and time.
 *
 * Runs on the caller's thread. Fails as a run does (jinja_priv.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <base/clock.h>

#include "jinja_priv.h"

#define STEPS_PER_LOOK 4096 /* between two looks at the clock */

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
    uint64_t before_ns = halo_clock_ns();
    if (before_ns > run->end_ns)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "takes more than %u ms", run->limits.max_time_ms);
    int r = halo_turn_check(run->turn);
    if (r == 0 && run->turn)
        run->end_ns += halo_clock_ns() - before_ns; /* the time of others is not the template's */
    return r;
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
