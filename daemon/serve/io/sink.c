/* sink.c: two buffers that take turns in front of a stream. */
#include <serve/sink.h>

#include <assert.h>

#define KEEP_BYTES (64 << 10) /* a buffer grown beyond this is given back once it is empty */

void halo_sink_init(struct halo_sink *sink, uv_stream_t *stream, halo_sink_fn *on_written, void *ud)
{
    *sink = (struct halo_sink){.stream = stream, .on_written = on_written, .ud = ud};
    halo_json_init(&sink->pending);
    halo_json_init(&sink->flying);
    sink->write.data = sink;
}

void halo_sink_finish(struct halo_sink *sink)
{
    assert(!sink->busy);
    halo_json_finish(&sink->pending);
    halo_json_finish(&sink->flying);
}

size_t halo_sink_bytes(const struct halo_sink *sink)
{
    return sink->pending.len + (sink->busy ? uv_stream_get_write_queue_size(sink->stream) : 0);
}

static void empty(struct halo_json *buffer)
{
    if (buffer->cap > KEEP_BYTES) {
        halo_json_finish(buffer);
        halo_json_init(buffer);
    } else {
        halo_json_reset(buffer);
    }
}

static void written(uv_write_t *write, int status)
{
    struct halo_sink *sink = write->data;
    sink->busy = false;
    empty(&sink->flying);
    if (uv_is_closing((uv_handle_t *)sink->stream))
        return;
    if (status == 0)
        status = halo_sink_flush(sink);
    sink->on_written(sink, status, sink->ud);
}

int halo_sink_flush(struct halo_sink *sink)
{
    if (sink->busy || sink->pending.len == 0)
        return 0;
    uv_buf_t buf = uv_buf_init(sink->pending.at, (unsigned)sink->pending.len);
    int n = uv_try_write(sink->stream, &buf, 1);
    if (n < 0 && n != UV_EAGAIN)
        return n;
    size_t taken = n < 0 ? 0 : (size_t)n;
    if (taken == sink->pending.len) {
        empty(&sink->pending);
        return 0;
    }
    struct halo_json full = sink->pending;
    sink->pending = sink->flying;
    sink->flying = full;
    buf = uv_buf_init(full.at + taken, (unsigned)(full.len - taken));
    int r = uv_write(&sink->write, sink->stream, &buf, 1, written);
    if (r < 0)
        return r;
    sink->busy = true;
    return 0;
}
