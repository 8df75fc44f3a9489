/* engine_spawn.c: one engine process: its arguments, its environment, its handles, its stderr.
 *
 * The child leads a process group of its own, so that one signal reaches whatever it started. It is told nothing of the
 * service manager's sockets: readiness and watchdog are the daemon's. It ends by itself when its socket does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/log.h>

#include <serve/daemon.h>

#define STDERR_LINE_BYTES 4096

extern char **environ;

static void handle_closed(uv_handle_t *handle)
{
    struct halo_engine_run *run = handle->data;
    struct halo_engine *engine = run->engine;
    if (--run->n_handles > 0)
        return;
    halo_sink_finish(&run->sink);
    halo_line_finish(&run->reader);
    halo_line_finish(&run->err_reader);
    engine->run = NULL;
    free(run);
    halo_engine_run_gone(engine);
}

/* A process handle must not be closed before its process was reaped: nobody would reap it. */
static bool may_close_process(const struct halo_engine_run *run)
{
    return run->has_process && (!run->spawned || run->exited);
}

static void close_once(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, handle_closed);
}

void halo_engine_run_cut(struct halo_engine_run *run)
{
    run->cut = true;
    close_once((uv_handle_t *)&run->link);
    close_once((uv_handle_t *)&run->err);
    if (may_close_process(run))
        close_once((uv_handle_t *)&run->process);
}

static void exited(uv_process_t *process, int64_t status, int signal)
{
    struct halo_engine_run *run = process->data;
    run->exited = true;
    run->exit_status = status;
    run->exit_signal = signal;
    if (run->cut)
        halo_engine_run_cut(run);
    else
        halo_engine_run_ended(run);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct halo_engine_run *run = handle->data;
    char *at = NULL;
    size_t room = 0;
    if (halo_line_reserve(&run->err_reader, STDERR_LINE_BYTES, &at, &room) < 0)
        room = 0;
    *ret_buf = uv_buf_init(at, (unsigned)room);
}

/* Under the journal the engine writes "<6>text", else "time level text"; its own stamp is not repeated. */
static void log_line(struct halo_engine_run *run, const char *line, size_t len)
{
    enum halo_log_level level = HALO_LOG_INFO;
    if (len >= 3 && line[0] == '<' && line[2] == '>') {
        level = line[1] <= '3'   ? HALO_LOG_ERROR
                : line[1] == '4' ? HALO_LOG_WARN
                : line[1] == '7' ? HALO_LOG_DEBUG
                                 : HALO_LOG_INFO;
        line += 3;
        len -= 3;
    }
    snprintf(run->last_words, sizeof(run->last_words), "%.*s", (int)(len > 1024 ? 1024 : len), line);
    halo_log(level, "engine: %.*s", (int)len, line);
}

static void read_stderr(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct halo_engine_run *run = stream->data;
    const char *line;
    size_t len;
    int r;
    if (n < 0)
        uv_read_stop(stream);
    run->starved = run->starved || n == UV_ENOBUFS;
    if (n <= 0)
        return;
    halo_line_commit(&run->err_reader, (size_t)n);
    while ((r = halo_line_next(&run->err_reader, &line, &len)) != HALO_LINE_E_MORE)
        log_line(run, line, len);
}

int halo_engine_run_read_stderr(struct halo_engine_run *run)
{
    return uv_read_start((uv_stream_t *)&run->err, give_buffer, read_stderr);
}

#define ARGS_MAX 24

struct arg_texts {
    char fd[16], threads[24], budget[24], save[24], save_ms[24];
};

static char **make_args(const struct halo_config *config, struct arg_texts *texts)
{
    char **args = calloc(ARGS_MAX + 2 * config->n_model_dirs, sizeof(*args));
    size_t n = 0;
    if (!args)
        return NULL;
    snprintf(texts->fd, sizeof(texts->fd), "%d", HALO_ENGINE_FD);
    snprintf(texts->threads, sizeof(texts->threads), "%lld", (long long)config->threads);
    snprintf(texts->save, sizeof(texts->save), "%lld", (long long)config->save_bytes);
    snprintf(texts->save_ms, sizeof(texts->save_ms), "%lld", (long long)config->save_ms);
    snprintf(texts->budget, sizeof(texts->budget), "%lld", (long long)config->budget_bytes);
    args[n++] = config->engine_path;
    args[n++] = (char *)"--fd";
    args[n++] = texts->fd;
    args[n++] = (char *)"--device";
    args[n++] = config->device;
    if (config->hip_lib) {
        args[n++] = (char *)"--hip-lib";
        args[n++] = config->hip_lib;
    }
    if (config->threads > 0) {
        args[n++] = (char *)"--threads";
        args[n++] = texts->threads;
    }
    if (config->budget_bytes > 0) {
        args[n++] = (char *)"--budget-bytes";
        args[n++] = texts->budget;
    }
    if (halo_daemon_saves(config)) {
        args[n++] = (char *)"--state-dir";
        args[n++] = config->state_dir;
        args[n++] = (char *)"--save-bytes";
        args[n++] = texts->save;
        args[n++] = (char *)"--save-ms";
        args[n++] = texts->save_ms;
    }
    if (!config->any_path)
        args[n++] = (char *)"--models-only";
    if (!config->sandbox)
        args[n++] = (char *)"--no-sandbox";
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        args[n++] = (char *)"--model-dir";
        args[n++] = config->model_dirs[i];
    }
    return args;
}

/* The environment without what is between the service manager and the daemon. The strings stay environ's. */
static char **make_env(void)
{
    static const char *const hidden[] = {"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "FDSTORE="};
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 1, sizeof(*env));
    for (size_t i = 0; env && i < n; i++) {
        bool hide = false;
        for (size_t j = 0; j < sizeof(hidden) / sizeof(hidden[0]); j++)
            hide = hide || strncmp(environ[i], hidden[j], strlen(hidden[j])) == 0;
        if (!hide)
            env[kept++] = environ[i];
    }
    return env;
}

static int spawn(struct halo_engine_run *run)
{
    struct halo_daemon *daemon = run->engine->daemon;
    struct arg_texts texts;
    char **args = make_args(daemon->config, &texts), **env = make_env();
    uv_stdio_container_t stdio[HALO_ENGINE_FD + 1] = {
        [0] = {.flags = UV_IGNORE},
        [1] = {.flags = UV_IGNORE},
        [2] = {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->err},
        [HALO_ENGINE_FD] = {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
                            .data.stream = (uv_stream_t *)&run->link},
    };
    uv_process_options_t options = {
        .exit_cb = exited,
        .file = daemon->config->engine_path,
        .args = args,
        .env = env,
        .flags = UV_PROCESS_DETACHED, /* a session, and so a process group, of its own */
        .stdio_count = HALO_ENGINE_FD + 1,
        .stdio = stdio,
    };
    int r = -ENOMEM;
    if (args && env) {
        run->has_process = true;
        run->n_handles++;
        r = uv_spawn(daemon->loop, &run->process, &options);
    }
    free(args);
    free(env);
    run->spawned = r == 0;
    return r;
}

int halo_engine_run_create(struct halo_engine *engine, struct halo_engine_run **ret_run)
{
    uv_loop_t *loop = engine->daemon->loop;
    struct halo_engine_run *run = calloc(1, sizeof(*run));
    *ret_run = run;
    if (!run)
        return -ENOMEM;
    run->engine = engine;
    uv_pipe_init(loop, &run->link, 0);
    uv_pipe_init(loop, &run->err, 0);
    run->link.data = run->err.data = run->process.data = run;
    run->n_handles = 2;
    halo_line_init(&run->reader, HALO_LIMIT_ANSWER_BYTES);
    halo_line_init(&run->err_reader, STDERR_LINE_BYTES);
    int r = spawn(run);
    halo_engine_run_open(run);
    if (r == 0)
        r = halo_engine_run_read_stderr(run);
    return r == 0 ? halo_engine_run_read(run) : r;
}
