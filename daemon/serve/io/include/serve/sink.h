/* sink.h: lines on their way into a stream.
 *
 * Lines are written into `pending` (a JSON writer that is also the buffer). flush() hands them to the kernel at once as
 * far as it takes them; the rest flies with uv_write() while `pending` fills again. The two buffers change places, so
 * nothing is copied. The caller watches halo_sink_bytes() and stops its sources. Threads: the loop's. The stream must
 * be closed before halo_sink_finish().
 */
#ifndef HALO_SERVE_SINK_H
#define HALO_SERVE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include <protocol/json_write.h>

struct halo_sink;
/* After a write ended: status 0 or a negative errno. Not called for a stream that is being closed. */
typedef void halo_sink_fn(struct halo_sink *sink, int status, void *ud);

struct halo_sink {
    uv_stream_t *stream; /* the caller's */
    struct halo_json pending;
    struct halo_json flying;
    uv_write_t write;
    bool busy; /* `flying` is with the stream */
    halo_sink_fn *on_written;
    void *ud;
};

void halo_sink_init(struct halo_sink *sink, uv_stream_t *stream, halo_sink_fn *on_written, void *ud);
void halo_sink_finish(struct halo_sink *sink);

/* Bytes that the kernel has not taken yet. */
size_t halo_sink_bytes(const struct halo_sink *sink);

/* 0 or a negative errno: the stream is broken. */
int halo_sink_flush(struct halo_sink *sink);

#endif
