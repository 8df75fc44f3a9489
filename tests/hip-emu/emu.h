/* emu.h: what the files of the emulated HIP runtime share.
 *
 * One GPU. A stream is a thread with a queue; an event is done when the stream has reached it. Device memory is host
 * memory: each allocation its own, so that AddressSanitizer sees what lies beyond. Kernels are those of kernels.host
 * (host_abi.h), run on the stream's thread. Links nothing of kernels/cpu or kernels/hip.
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
    EMU_LOST = 719
};

/* script.c: counts the call of a function and does what the script says of it; the error to return, 0: go on. */
int emu_call(const char *function);
/* A "stall" of the script: work that is queued from now on never ends. */
bool emu_stalled(void);
/* Device lost: every call fails from now on. */
void emu_lose(void);
int emu_lost(void);

/* stream.c */
struct emu_stream;
struct emu_event;
typedef int emu_work(void *ud); /* runs on the stream's thread; frees ud */
struct emu_stream *emu_stream_create(void);
void emu_stream_destroy(struct emu_stream *stream);
/* False without memory. */
bool emu_stream_push(struct emu_stream *stream, emu_work *work, void *ud);
struct emu_event *emu_event_create(void);
void emu_event_destroy(struct emu_event *event);
bool emu_event_record(struct emu_event *event, struct emu_stream *stream);
bool emu_event_done(struct emu_event *event);

#endif
