/* emu.h: what the files of the emulated HIP runtime share.
 *
 * One GPU. A stream is a thread with a queue; an event is done when the stream has reached it. Device memory is host
 * memory, a separate allocation for each buffer, so that AddressSanitizer reports accesses beyond its end. Kernels are
 * those of kernels.host (host_abi.h), run on the stream's thread. Links nothing of kernels/cpu or kernels/hip.
 */
#ifndef HALO_TESTS_EMU_H
#define HALO_TESTS_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU_SUCCESS = 0,
    EMU_INVALID = 1,
    EMU_NO_MEMORY = 2,
    EMU_NO_BINARY = 209,
    EMU_NOT_FOUND = 500,
    EMU_NOT_READY = 600,
    EMU_LOST = 719,
    EMU_DROPPED = -1, /* of emu_call: succeed and do nothing */
    EMU_FLIPPED = -2  /* of emu_call for a copy: do it, with one bit wrong */
};

/* script.c: counts the call of a function and applies the script's entry for it. Returns the error that the call must
 * return, 0 to go on, or EMU_DROPPED or EMU_FLIPPED. */
int emu_call(const char *function);
int emu_call_of(const char *function, size_t n_bytes); /* of a copy */
/* A "stall" of the script: work that is queued after this call never completes. */
bool emu_stalled(void);
/* Device lost: every later call fails. */
void emu_lose(void);
int emu_lost(void);

/* A task: run once, or several times as part of a graph, then dropped. */
struct emu_task {
    int (*run)(void *ud); /* on the stream's thread; a non-zero result loses the device */
    void (*drop)(void *ud);
    void *ud;
};

/* graph.c. A replay holds the graph: emu_graph_run and emu_graph_release are its task. */
struct emu_graph;
struct emu_graph *emu_graph_create(void);
bool emu_graph_add(struct emu_graph *graph, struct emu_task task); /* false without memory: the caller keeps the task */
void emu_graph_hold(struct emu_graph *graph);
void emu_graph_release(void *graph);
int emu_graph_run(void *graph);

/* stream.c: NULL is the null stream, which is a stream of its own here: it does not wait for others. */
struct emu_stream;
struct emu_event;
struct emu_stream *emu_stream_create(void);
void emu_stream_destroy(struct emu_stream *stream);
/* Queues the task, or adds it to the graph that is being captured. False without memory: the task was dropped. */
bool emu_stream_push(struct emu_stream *stream, struct emu_task task);
/* Whether no stream has work that is queued or running. */
bool emu_streams_idle(void);
bool emu_stream_idle(struct emu_stream *stream);
/* Begins a capture (false when one is active, or without memory); ends it (NULL when there was none). */
bool emu_stream_capture(struct emu_stream *stream);
struct emu_graph *emu_stream_captured(struct emu_stream *stream);
bool emu_stream_capturing(struct emu_stream *stream);
struct emu_event *emu_event_create(void);
void emu_event_destroy(struct emu_event *event);
bool emu_event_record(struct emu_event *event, struct emu_stream *stream);
bool emu_event_done(struct emu_event *event);
/* What is queued after this waits for the event's last record; an event that was never recorded is not waited for. */
bool emu_event_wait(struct emu_event *event, struct emu_stream *stream);
/* Between the two; EMU_NOT_READY, or EMU_INVALID of one that was never recorded. */
int emu_event_elapsed(struct emu_event *start, struct emu_event *end, float *ret_ms);

#endif
