/* child.c: one child process: started, read, written to, killed, reaped. */
#include <serve/child/child.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <base/log.h>

#define ERR_LINE_BYTES 4096
#define MAX_FD 3

/* ---- the end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct halo_child *child = handle->data;
    if (--child->n_handles > 0)
        return;
    halo_sink_finish(&child->sink);
    halo_line_finish(&child->reader);
    halo_line_finish(&child->err_reader);
    child->ops->gone(child);
    free(child);
}

static void close_once(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

/* A process handle must not be closed before its process was reaped: nobody would reap it. */
static bool may_close_process(const struct halo_child *child)
{
    return child->has_process && (!child->spawned || child->exited);
}

void halo_child_cut(struct halo_child *child)
{
    child->cut = true;
    close_once((uv_handle_t *)&child->link);
    close_once((uv_handle_t *)&child->err);
    if (may_close_process(child))
        close_once((uv_handle_t *)&child->process);
}

static void exited(uv_process_t *process, int64_t status, int signal)
{
    struct halo_child *child = process->data;
    child->exited = true;
    child->exit_status = status;
    child->exit_signal = signal;
    if (child->cut)
        halo_child_cut(child);
    else
        child->ops->ended(child);
}

void halo_child_kill(struct halo_child *child)
{
    if (child->spawned && !child->exited)
        kill(-child->process.pid, SIGKILL);
}

/* ---- its lines ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct halo_child *child = handle->data;
    bool is_err = handle == (uv_handle_t *)&child->err;
    char *at = NULL;
    size_t room = 0;
    if (halo_line_reserve(is_err ? &child->err_reader : &child->reader, is_err ? ERR_LINE_BYTES : child->read_bytes,
                          &at, &room) < 0)
        room = 0;
    *ret_buf = uv_buf_init(at, (unsigned)room);
}

static void read_err(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_child *child = stream->data;
    const char *line;
    size_t len;
    if (n < 0)
        uv_read_stop(stream);
    child->starved = child->starved || n == UV_ENOBUFS;
    if (n <= 0)
        return;
    halo_line_commit(&child->err_reader, (size_t)n);
    while (halo_line_next(&child->err_reader, &line, &len) != HALO_LINE_E_MORE)
        child->ops->err_line(child, line, len);
}

static void read_link(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_child *child = stream->data;
    const char *line;
    size_t len;
    int r;
    if (n == 0)
        return;
    if (n < 0) {
        uv_read_stop(stream);
        child->starved = child->starved || n == UV_ENOBUFS; /* asking again at once would spin */
        child->link_ended = n != UV_ENOBUFS;
        if (child->link_ended)
            child->ops->ended(child);
        return;
    }
    halo_line_commit(&child->reader, (size_t)n);
    child->ops->heard(child, (size_t)n);
    while (!child->cut && (r = halo_line_next(&child->reader, &line, &len)) != HALO_LINE_E_MORE)
        child->ops->line(child, line, len, r == 0);
}

static int read_start(uv_pipe_t *pipe, uv_read_cb read)
{
    int r = uv_read_start((uv_stream_t *)pipe, give_buffer, read);
    return r == UV_EALREADY ? 0 : r;
}

int halo_child_read(struct halo_child *child)
{
    child->starved = false;
    int r = child->ops->err_line ? read_start(&child->err, read_err) : 0;
    return r < 0 ? r : read_start(&child->link, read_link);
}

static void written(struct halo_sink *sink, int status, void *ud)
{
    struct halo_child *child = ud;
    if (status < 0) /* a broken socket is also at its end of file, which is where it is handled */
        halo_log(HALO_LOG_DEBUG, "writing to child %ld: %s", (long)child->process.pid, uv_strerror(status));
}

struct halo_json *halo_child_out(struct halo_child *child)
{
    return child->cut || !child->spawned ? NULL : &child->sink.pending;
}

void halo_child_flush(struct halo_child *child)
{
    if (!halo_child_out(child) || child->link_ended || child->exited)
        return;
    int r = halo_sink_flush(&child->sink);
    if (r < 0)
        written(&child->sink, r, child);
}

/* ---- the beginning ---- */

static int spawn(struct halo_child *child, uv_loop_t *loop, const struct halo_child_spec *spec)
{
    uv_stdio_container_t stdio[MAX_FD + 1] = {{.flags = UV_IGNORE}, {.flags = UV_IGNORE}, {.flags = UV_IGNORE}};
    uv_process_options_t options = {
        .exit_cb = exited,
        .file = spec->file,
        .args = spec->args,
        .env = spec->env,
        .flags = UV_PROCESS_DETACHED, /* a session, and so a process group, of its own */
        .stdio_count = spec->fd > 2 ? spec->fd + 1 : 3,
        .stdio = stdio,
    };
    if (child->ops->err_line)
        stdio[2] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                          .data.stream = (uv_stream_t *)&child->err};
    stdio[spec->fd] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE |
                                                      (spec->duplex ? (unsigned)UV_READABLE_PIPE : 0),
                                             .data.stream = (uv_stream_t *)&child->link};
    child->has_process = true;
    child->n_handles++;
    int r = uv_spawn(loop, &child->process, &options);
    child->spawned = r == 0;
    return r;
}

int halo_child_create(uv_loop_t *loop, const struct halo_child_spec *spec, const struct halo_child_ops *ops, void *ud,
                      struct halo_child **ret_child)
{
    struct halo_child *child = calloc(1, sizeof(*child));
    *ret_child = child;
    if (!child)
        return -ENOMEM;
    child->ops = ops;
    child->ud = ud;
    child->read_bytes = spec->read_bytes;
    uv_pipe_init(loop, &child->link, 0);
    uv_pipe_init(loop, &child->err, 0);
    child->link.data = child->err.data = child->process.data = child;
    child->n_handles = 2;
    halo_line_init(&child->reader, spec->line_bytes);
    halo_line_init(&child->err_reader, ERR_LINE_BYTES);
    halo_sink_init(&child->sink, (uv_stream_t *)&child->link, written, child);
    int r = spec->args ? spawn(child, loop, spec) : -ENOMEM;
    return r < 0 ? r : halo_child_read(child);
}
