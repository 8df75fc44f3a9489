/* waits.c: a ring of waits, a ring of staging bytes, and spare events. One thread. */
#include "waits_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <base/clock.h>

#define STAGING_ALIGN 256u

int halo_waits_init(struct halo_waits *w, uint32_t n_max, uint32_t staging_bytes)
{
    *w = (struct halo_waits){
        .ring = calloc(n_max, sizeof(*w->ring)),
        .events = calloc(n_max, sizeof(*w->events)),
        .n_max = n_max,
        .staging_bytes = staging_bytes,
    };
    return w->ring && w->events ? 0 : -ENOMEM;
}

void halo_waits_finish(struct halo_waits *w, const struct halo_worker_runtime *rt)
{
    for (uint32_t i = 0; i < w->n_events; i++)
        rt->api.EventDestroy(w->events[i]);
    for (uint32_t i = 0; i < w->n; i++)
        if (halo_waits_at(w, i)->owns_event)
            rt->api.EventDestroy(halo_waits_at(w, i)->event);
    if (w->staging)
        rt->api.HostFree(w->staging);
    free(w->ring);
    free(w->events);
    *w = (struct halo_waits){0};
}

struct halo_wait *halo_waits_at(struct halo_waits *w, uint32_t i)
{
    return &w->ring[(w->first + i) % w->n_max];
}

/* ---- staging ---- */

/* The piece must not be split by the end of the buffer. */
static bool fits(const struct halo_waits *w, uint32_t bytes, uint32_t *ret_at)
{
    if (w->staging_is_full)
        return false;
    *ret_at = w->staging_next;
    if (w->staging_next < w->staging_first)
        return bytes <= w->staging_first - w->staging_next;
    if (bytes <= w->staging_bytes - w->staging_next)
        return true;
    *ret_at = 0;
    return bytes <= w->staging_first;
}

int halo_waits_stage(struct halo_waits *w, const struct halo_worker_runtime *rt, uint32_t bytes, uint32_t *ret_at)
{
    bytes = (bytes + STAGING_ALIGN - 1) / STAGING_ALIGN * STAGING_ALIGN;
    assert(bytes > 0 && bytes <= w->staging_bytes);
    if (!w->staging) {
        void *p = NULL;
        int error = rt->api.HostMalloc(&p, w->staging_bytes, 0);
        if (error)
            return error;
        w->staging = p;
    }
    if (w->n == 0) {
        w->staging_first = w->staging_next = 0;
        w->staging_is_full = false;
    }
    if (!fits(w, bytes, ret_at))
        return HALO_WAITS_E_FULL;
    w->is_staged = true;
    w->staged_from = w->staging_next;
    w->staging_next = (*ret_at + bytes) % w->staging_bytes;
    w->staging_is_full = w->staging_next == w->staging_first;
    return 0;
}

void halo_waits_unstage(struct halo_waits *w)
{
    if (!w->is_staged)
        return;
    w->staging_next = w->staged_from;
    w->staging_is_full = false;
    w->is_staged = false;
}

/* ---- waits ---- */

static struct halo_wait *append(struct halo_waits *w, struct halo_wait wait)
{
    assert(w->n < w->n_max);
    struct halo_wait *at = halo_waits_at(w, w->n++);
    *at = wait;
    at->has_ended = false;
    at->holds_staging = w->is_staged;
    at->staging_end = w->staging_next;
    w->is_staged = false;
    at->began_ms = halo_clock_ms();
    w->n_answers += at->has_answer;
    return at;
}

int halo_waits_add(struct halo_waits *w, const struct halo_worker_runtime *rt, void *stream, struct halo_wait wait)
{
    int error = 0;
    wait.owns_event = true;
    if (w->n_events > 0)
        wait.event = w->events[--w->n_events];
    else
        error = rt->api.EventCreateWithFlags(&wait.event, HIP_EVENT_NO_TIMING);
    if (error)
        return error;
    error = rt->api.EventRecord(wait.event, stream);
    if (error) {
        w->events[w->n_events++] = wait.event;
        return error;
    }
    append(w, wait);
    return 0;
}

void halo_waits_add_event(struct halo_waits *w, struct halo_wait wait)
{
    append(w, wait);
}

static void end_wait(struct halo_waits *w, struct halo_wait *wait, int error)
{
    wait->has_ended = true;
    wait->error = error;
    if (error && !wait->has_answer && !w->silent_error) {
        w->silent_error = error;
        w->silent_h = wait->h;
    }
}

void halo_waits_ask(struct halo_waits *w, const struct halo_worker_runtime *rt, bool all)
{
    for (uint32_t i = w->n; i > 0; i--) {
        struct halo_wait *wait = halo_waits_at(w, i - 1);
        if (wait->has_ended || !wait->event || (!wait->has_answer && i > 1 && !all))
            continue;
        int error = rt->api.EventQuery(wait->event);
        if (error != HALO_WORKER_NOT_READY)
            end_wait(w, wait, error);
    }
}

bool halo_waits_has_copies(struct halo_waits *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (halo_waits_at(w, i)->holds_staging && !halo_waits_at(w, i)->has_ended)
            return true;
    return false;
}

static void release_wait(struct halo_waits *w, struct halo_wait *wait)
{
    if (wait->owns_event)
        w->events[w->n_events++] = wait->event;
    if (wait->holds_staging) {
        w->staging_first = wait->staging_end;
        w->staging_is_full = false;
    }
    w->first = (w->first + 1) % w->n_max;
    w->n--;
}

void halo_waits_retire(struct halo_waits *w)
{
    while (w->n > 0) {
        struct halo_wait *wait = halo_waits_at(w, 0);
        if (!wait->has_ended && wait->is_barrier)
            end_wait(w, wait, w->silent_error);
        if (!wait->has_ended || wait->has_answer)
            break;
        release_wait(w, wait);
    }
}

void halo_waits_drop_event(struct halo_waits *w, const void *event)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct halo_wait *wait = halo_waits_at(w, i);
        if (!wait->has_ended && wait->event == event)
            end_wait(w, wait, HALO_WORKER_INVALID_HANDLE);
    }
}
