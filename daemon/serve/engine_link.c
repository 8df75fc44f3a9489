/* engine_link.c: the socket to the engine: lines in, lines out. */
#include <base/clock.h>
#include <base/log.h>

#include <serve/daemon.h>

#define READ_BYTES (64 << 10)

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct halo_engine_run *run = handle->data;
    char *at = NULL;
    size_t room = 0;
    if (halo_line_reserve(&run->reader, READ_BYTES, &at, &room) < 0)
        room = 0;
    *ret_buf = uv_buf_init(at, (unsigned)room);
}

static void take_lines(struct halo_engine_run *run)
{
    struct halo_engine *engine = run->engine;
    struct halo_fault fault;
    const char *line;
    size_t len;
    while (!run->cut) {
        int r = halo_line_next(&run->reader, &line, &len);
        if (r == HALO_LINE_E_MORE)
            return;
        if (r == HALO_LINE_E_TOO_LONG)
            halo_engine_fail(engine, "wrote a line of more than %u bytes", HALO_LIMIT_ANSWER_BYTES);
        else if (halo_deliver_line(engine->daemon, line, len, &fault) < 0)
            halo_engine_fail(engine, "wrote garbage: %s", fault.text);
    }
}

static void read_some(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_engine_run *run = stream->data;
    struct halo_engine *engine = run->engine;
    if (n == 0)
        return;
    if (n == UV_ENOBUFS) {
        uv_read_stop(stream); /* no memory: the watch timer tries again; asking at once would spin */
        run->starved = true;
        return;
    }
    if (n < 0) {
        uv_read_stop(stream);
        run->link_ended = true;
        halo_engine_run_ended(run);
        return;
    }
    if (engine->n_read_events == 0)
        engine->read_ns = halo_clock_ns();
    engine->heard_ns = halo_clock_ns();
    halo_line_commit(&run->reader, (size_t)n);
    take_lines(run);
}

static void written(struct halo_sink *sink, int status, void *ud)
{
    struct halo_engine_run *run = ud;
    if (status < 0)
        halo_log(HALO_LOG_DEBUG, "writing to engine %ld: %s", (long)run->process.pid, uv_strerror(status));
    /* A broken socket is also at its end of file, which is where it is handled. */
}

void halo_engine_run_open(struct halo_engine_run *run)
{
    halo_sink_init(&run->sink, (uv_stream_t *)&run->link, written, run);
}

int halo_engine_run_read(struct halo_engine_run *run)
{
    return uv_read_start((uv_stream_t *)&run->link, give_buffer, read_some);
}

struct halo_json *halo_engine_out(struct halo_engine *engine)
{
    struct halo_engine_run *run = engine->run;
    if (!run || run->cut || !run->spawned)
        return NULL;
    return &run->sink.pending;
}

void halo_engine_flush(struct halo_engine *engine)
{
    if (halo_engine_out(engine) && !engine->run->link_ended && !engine->run->exited) {
        int r = halo_sink_flush(&engine->run->sink);
        if (r < 0)
            written(&engine->run->sink, r, engine->run);
    }
}
