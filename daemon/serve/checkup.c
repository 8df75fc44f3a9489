/* checkup.c: the doctor as a child: started, read, killed at its deadline, never waited for. */
#include <serve/checkup.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/line.h>

#include <serve/daemon.h>
#include <serve/notify.h>

#define MS 1000000ull
#define LINE_BYTES 8192
#define READ_BYTES 4096
#define OUTPUT_BYTES (256u << 10) /* more than a report has: whoever writes more is no doctor */

struct halo_checkup_run {
    struct halo_checkup *checkup;
    uv_process_t process;
    uv_pipe_t out;
    unsigned n_handles; /* not yet closed */
    bool spawned, exited, ended, cut;
    size_t n_bytes;
    struct halo_line_reader reader;
    struct halo_checkup_finding found;
    char stage[8];
};

/* ---- what it found ---- */

static void conclude(struct halo_checkup *checkup, const struct halo_checkup_run *run)
{
    const char *device = checkup->daemon->config->device;
    checkup->done_ns = halo_clock_ns();
    checkup->found = run->found;
    /* An engine that chose for itself did not die of a GPU that is not there. */
    if (run->found.no_gpu && strcmp(device, "hip") != 0)
        checkup->found.rank = HALO_CHECKUP_NOTHING;
    if (checkup->found.rank == HALO_CHECKUP_NOTHING) {
        checkup->found.text[0] = '\0';
        halo_log(HALO_LOG_INFO, "halo-doctor: %zu findings, none that explains the engine's death", run->found.n_read);
        return;
    }
    halo_log(HALO_LOG_WARN, "halo-doctor on the engine's death: %s", checkup->found.text);
    halo_notify_doctor(checkup->found.text);
}

const char *halo_checkup_note(const struct halo_checkup *checkup, char *buf, size_t room)
{
    int n = 0;
    buf[0] = '\0';
    if (checkup->found.text[0] != '\0')
        n = snprintf(buf, room, " (halo-doctor: %s)", checkup->found.text);
    if (n < 0 || (size_t)n >= room)
        buf[0] = '\0'; /* rather nothing than half an advice */
    return buf;
}

/* ---- its end ---- */

static void handle_closed(uv_handle_t *handle)
{
    struct halo_checkup_run *run = handle->data;
    struct halo_checkup *checkup = run->checkup;
    if (--run->n_handles > 0)
        return;
    halo_line_finish(&run->reader);
    checkup->run = NULL;
    free(run);
    halo_shutdown_check(checkup->daemon);
}

static void close_once(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

/* The report is over for us. A process handle stays until its process was reaped. */
static void cut(struct halo_checkup_run *run)
{
    if (!run->cut) {
        run->cut = true;
        uv_timer_stop(&run->checkup->timer);
        conclude(run->checkup, run);
    }
    if (run->spawned && !run->exited)
        kill(-run->process.pid, SIGKILL);
    close_once((uv_handle_t *)&run->out);
    if (!run->spawned || run->exited)
        close_once((uv_handle_t *)&run->process);
}

static void exited(uv_process_t *process, int64_t status, int signal)
{
    struct halo_checkup_run *run = process->data;
    run->exited = true;
    if (run->ended || run->cut)
        cut(run);
}

static void time_over(uv_timer_t *timer)
{
    struct halo_checkup *checkup = timer->data;
    if (!checkup->run)
        return;
    if (!checkup->run->ended)
        halo_log(HALO_LOG_WARN, "halo-doctor did not end within %lld ms",
                 (long long)checkup->daemon->config->doctor_ms);
    cut(checkup->run);
}

/* ---- its output ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct halo_checkup_run *run = handle->data;
    char *at = NULL;
    size_t room = 0;
    if (halo_line_reserve(&run->reader, READ_BYTES, &at, &room) < 0)
        room = 0;
    *ret_buf = uv_buf_init(at, (unsigned)room);
}

static void read_output(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_checkup_run *run = stream->data;
    const char *line;
    size_t len;
    int r;
    if (n < 0) {
        run->ended = true;
        uv_read_stop(stream);
        if (run->exited)
            cut(run);
        return; /* one that closed its output and stays has until the deadline to go */
    }
    halo_line_commit(&run->reader, (size_t)n);
    while ((r = halo_line_next(&run->reader, &line, &len)) != HALO_LINE_E_MORE)
        if (r == 0)
            halo_checkup_take(&run->found, line, len, run->stage);
    run->n_bytes += (size_t)n;
    if (run->n_bytes > OUTPUT_BYTES) {
        halo_log(HALO_LOG_WARN, "halo-doctor says more than a report has; it is ended");
        cut(run);
    }
}

/* ---- its beginning ---- */

static int spawn(struct halo_checkup_run *run)
{
    const struct halo_config *config = run->checkup->daemon->config;
    char *args[] = {config->doctor_path, (char *)"--json",
                    (char *)"--quick",   config->hip_lib ? (char *)"--hip-lib" : NULL,
                    config->hip_lib,     NULL};
    uv_stdio_container_t stdio[3] = {
        [0] = {.flags = UV_IGNORE},
        [1] = {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->out},
        [2] = {.flags = UV_IGNORE},
    };
    uv_process_options_t options = {
        .exit_cb = exited,
        .file = config->doctor_path,
        .args = args,
        .flags = UV_PROCESS_DETACHED, /* a group of its own, so that its children can be killed with it */
        .stdio_count = 3,
        .stdio = stdio,
    };
    return uv_spawn(run->checkup->daemon->loop, &run->process, &options);
}

bool halo_checkup_concerns(const struct halo_engine *engine)
{
    if (strcmp(engine->daemon->config->device, "cpu") == 0)
        return false;
    for (size_t i = 0; i < engine->n_features; i++)
        if (strcmp(engine->features[i], "batch_invariant") == 0)
            return false; /* only the cpu device is */
    return true;
}

static void start(struct halo_checkup *checkup, const char *stage)
{
    const struct halo_config *config = checkup->daemon->config;
    struct halo_checkup_run *run = calloc(1, sizeof(*run));
    if (!run)
        return;
    checkup->run = run;
    run->checkup = checkup;
    snprintf(run->stage, sizeof(run->stage), "%s", stage);
    halo_line_init(&run->reader, LINE_BYTES);
    uv_pipe_init(checkup->daemon->loop, &run->out, 0);
    run->out.data = run->process.data = run;
    run->n_handles = 2;
    int r = spawn(run);
    run->spawned = r == 0;
    if (r == 0)
        r = uv_read_start((uv_stream_t *)&run->out, give_buffer, read_output);
    if (r == 0) {
        uv_timer_start(&checkup->timer, time_over, (uint64_t)config->doctor_ms, 0);
        return;
    }
    halo_log(HALO_LOG_WARN, "%s cannot be run: %s", config->doctor_path, uv_strerror(r));
    checkup->done_ns = halo_clock_ns();
    run->cut = true; /* nothing is known, so nothing is said */
    cut(run);
}

void halo_checkup_begin(struct halo_checkup *checkup, const struct halo_engine *engine)
{
    const struct halo_daemon *daemon = checkup->daemon;
    bool is_fresh = checkup->done_ns != 0 && halo_clock_ns() - checkup->done_ns < (uint64_t)HALO_CHECKUP_FRESH_MS * MS;
    if (checkup->run || is_fresh || daemon->state != HALO_DAEMON_SERVING || daemon->config->doctor_ms == 0 ||
        !daemon->config->doctor_path || !halo_checkup_concerns(engine) || !engine->run || !engine->run->spawned)
        return;
    start(checkup, halo_checkup_stage(engine));
}

void halo_checkup_init(struct halo_checkup *checkup, struct halo_daemon *daemon)
{
    *checkup = (struct halo_checkup){.daemon = daemon};
    uv_timer_init(daemon->loop, &checkup->timer);
    checkup->timer.data = checkup;
}

void halo_checkup_stop(struct halo_checkup *checkup)
{
    if (checkup->run)
        cut(checkup->run);
}

void halo_checkup_close(struct halo_checkup *checkup)
{
    uv_close((uv_handle_t *)&checkup->timer, NULL);
}
