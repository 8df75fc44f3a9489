/* child.c: see child.h. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <engine/engine.h>

/* cmocka.h wants these headers before it. */
#include <stddef.h>
#include <cmocka.h>

/* Read by ThreadSanitizer: the child ends by _exit, where a count of races would not reach its status. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "halt_on_error=1";
}

static char model_dir[4096];

const struct halo_device_ops *child_device;
const char *child_state_dir, *child_library;
uint64_t child_save_bytes = 64u << 20, child_save_ms = 20000, child_budget_bytes, child_checkpoint_bytes;
size_t child_stack_bytes;
struct halo_pressure_watch *child_watch;
const struct halo_pressure_rules *child_pressure;
uint32_t child_max_models, child_threads = 2;
const char *child_dirs[8];
size_t child_n_dirs;

static void run_engine(const struct child *child, int in_fd, int out_fd)
{
    static const char *own_dir[1] = {model_dir};
    fake_control = child->control;
    signal(SIGPIPE, SIG_IGN);
    pthread_attr_t attr;
    if (child_stack_bytes > 0 &&
        (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, child_stack_bytes) != 0 ||
         pthread_setattr_default_np(&attr) != 0))
        _exit(99);
    struct halo_engine_setup setup = {.in_fd = in_fd,
                                      .out_fd = out_fd,
                                      .link = child->link,
                                      .model_dirs = child_n_dirs > 0 ? child_dirs : own_dir,
                                      .n_model_dirs = child_n_dirs > 0 ? child_n_dirs : 1,
                                      .state_dir = child_state_dir,
                                      .save_bytes = child_save_bytes,
                                      .save_ms = child_save_ms,
                                      .budget_bytes = child_budget_bytes,
                                      .checkpoint_bytes = child_checkpoint_bytes,
                                      .max_models = child_max_models,
                                      .watch = child_watch,
                                      .pressure = child_pressure,
                                      .device_options = {.n_threads = child_threads, .library = child_library},
                                      .device = child_device ? child_device : fake_device()};
    _exit(halo_engine_run(&setup));
}

void child_start(struct child *child, bool link, void (*script)(struct fake_control *control))
{
    int in[2], out[2];
    memset(child, 0, sizeof(*child));
    snprintf(model_dir, sizeof(model_dir), "%s/tests/models",
             getenv("HALO_SOURCE_ROOT") ? getenv("HALO_SOURCE_ROOT") : ".");
    child->link = link;
    child->control = mmap(NULL, sizeof(*child->control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(child->control != MAP_FAILED);
    if (script)
        script(child->control);
    child->requests = calloc(CHILD_MAX, sizeof(*child->requests));
    assert_non_null(child->requests);
    halo_line_init(&child->lines, 64u << 20);
    if (link) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
        out[0] = in[0];
        out[1] = in[1];
    } else {
        int a[2];
        assert_int_equal(pipe2(a, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        in[0] = a[1];
        in[1] = a[0];
    }
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        close(in[0]);
        if (!link)
            close(out[0]);
        if (link)
            fcntl(in[1], F_SETFL, O_NONBLOCK);
        run_engine(child, in[1], out[1]);
    }
    close(in[1]);
    if (!link)
        close(out[1]);
    child->fd_in = in[0];
    child->fd_out = out[0];
}

void child_send(struct child *child, const char *format, ...)
{
    char *line;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&line, format, args);
    va_end(args);
    assert_true(n > 0);
    line[n] = '\n'; /* over the NUL */
    for (int at = 0; at <= n;) {
        struct pollfd wait = {.fd = child->fd_in, .events = POLLOUT};
        assert_true(poll(&wait, 1, CHILD_PATIENCE_MS) == 1);
        ssize_t done = write(child->fd_in, line + at, (size_t)(n + 1 - at > 4096 ? 4096 : n + 1 - at));
        assert_true(done > 0);
        at += (int)done;
    }
    free(line);
}

static void take_event(struct child *child, struct child_request *request, const struct halo_ev *ev, const char *line,
                       size_t len)
{
    if (request->n_terminal > 0)
        fail_msg("an event after the terminal one: %.*s", (int)len, line);
    switch (ev->type) {
    case HALO_EV_STARTED:
        request->n_started++;
        snprintf(request->started, sizeof(request->started), "%.*s", (int)len, line);
        break;
    case HALO_EV_PROGRESS: request->n_progress++; break;
    case HALO_EV_NOTICE:
        request->n_notices++;
        snprintf(request->notice, sizeof(request->notice), "%.*s", (int)len, line);
        break;
    case HALO_EV_SCORE_ROW: request->n_rows++; break;
    case HALO_EV_COMMITTED:
        assert_true(request->n_ids < 1200);
        request->ids[request->n_ids++] = (int32_t)ev->committed.tok_id;
        break;
    case HALO_EV_TOKEN:
        assert_true(request->n_text + ev->token.text.len < sizeof(request->text));
        memcpy(request->text + request->n_text, ev->token.text.at, ev->token.text.len);
        request->n_text += (uint32_t)ev->token.text.len;
        break;
    case HALO_EV_ERROR:
        request->error = ev->error.code;
        snprintf(request->message, sizeof(request->message), "%s", ev->error.message.at);
        break;
    case HALO_EV_DONE: request->finish = ev->done.finish_reason; break;
    default: break;
    }
    if (halo_ev_is_terminal(ev->type)) {
        request->n_terminal++;
        request->order = ++child->n_ended;
        request->terminal = ev->type;
        snprintf(request->last, sizeof(request->last), "%.*s", (int)len, line);
    }
}

static void take_line(struct child *child, const char *line, size_t len)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    if (halo_ev_decode(&ev, line, len, HALO_EV_STRICT, &refusal) != 0)
        fail_msg("no event: %s in %.*s", refusal.message, (int)len, line);
    if (ev.type == HALO_EV_HEARTBEAT) {
        for (size_t i = 0; i < ev.heartbeat.threads.n; i++) {
            const struct halo_part_thread_phase *said = &ev.heartbeat.threads.at[i];
            struct child_phase *phase = &child->phases[said->thread];
            phase->activity = said->activity;
            phase->ms = said->ms;
            snprintf(phase->what, sizeof(phase->what), "%s", said->phase.at);
        }
    } else if (ev.id.kind == HALO_ID_NONE) {
        child->n_unaddressed++;
        snprintf(child->last_unaddressed, sizeof(child->last_unaddressed), "%.*s", (int)len, line);
    } else {
        assert_int_equal(ev.id.kind, HALO_ID_INT);
        assert_true(ev.id.num > 0 && ev.id.num < CHILD_MAX);
        take_event(child, &child->requests[ev.id.num], &ev, line, len);
    }
    halo_ev_finish(&ev);
}

bool child_read(struct child *child, int timeout_ms)
{
    struct pollfd wait = {.fd = child->fd_out, .events = POLLIN};
    char *at;
    size_t room, len;
    const char *line;
    if (poll(&wait, 1, timeout_ms) <= 0)
        return true;
    assert_int_equal(halo_line_reserve(&child->lines, 65536, &at, &room), 0);
    ssize_t n = read(child->fd_out, at, room);
    if (n <= 0)
        return false;
    halo_line_commit(&child->lines, (size_t)n);
    while (halo_line_next(&child->lines, &line, &len) == 0)
        take_line(child, line, len);
    return true;
}

struct child_request *child_wait(struct child *child, int64_t id)
{
    struct child_request *request = &child->requests[id];
    uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS;
    while (request->n_terminal == 0) {
        if (halo_clock_ms() > until_ms || !child_read(child, 100))
            fail_msg("request %lld has no terminal event", (long long)id);
    }
    return request;
}

int child_end(struct child *child)
{
    int status = 0;
    uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS;
    if (child->link)
        shutdown(child->fd_in, SHUT_WR);
    else
        close(child->fd_in);
    while (child_read(child, 100))
        if (halo_clock_ms() > until_ms) {
            kill(child->pid, SIGKILL);
            fail_msg("the engine did not end with its input");
        }
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    close(child->fd_out);
    halo_line_finish(&child->lines);
    free(child->requests);
    child->n_closed = atomic_load(&child->control->n_closed);
    munmap(child->control, sizeof(*child->control));
    if (!WIFEXITED(status))
        fail_msg("the engine ended with wait status 0x%x", (unsigned)status);
    return WEXITSTATUS(status);
}

void child_kill(struct child *child)
{
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    close(child->fd_in);
    if (!child->link)
        close(child->fd_out);
    halo_line_finish(&child->lines);
    free(child->requests);
    munmap(child->control, sizeof(*child->control));
}

void child_load(struct child *child)
{
    child_send(child, "{\"type\":\"load\",\"id\":1,\"model\":\"fable-Q4_K_M\"}");
    struct child_request *load = child_wait(child, 1);
    if (load->terminal != HALO_EV_LOADED)
        fail_msg("%s", load->last);
}

struct child_request *child_stats_at_rest(struct child *child, int64_t *id)
{
    struct child_request *stats = NULL;
    for (int i = 0; i < 500; i++) {
        child_send(child, "{\"type\":\"stats\",\"id\":%lld}", (long long)++*id);
        stats = child_wait(child, *id);
        if (strstr(stats->last, "\"now_kv_pages_held\":0}"))
            break;
    }
    return stats;
}

long child_number(const struct child_request *request, const char *key)
{
    char field[64];
    snprintf(field, sizeof(field), "\"%s\":", key);
    const char *at = strstr(request->last, field);
    return at ? strtol(at + strlen(field), NULL, 10) : 0;
}

void child_prompt(char *ret, int n_ids)
{
    *ret = '\0';
    for (int i = 0; i < n_ids; i++)
        ret += snprintf(ret, 16, "%s%d", i ? "," : "", 1 + i * 7 % 4000);
}

static bool find_models(char *ret, size_t n)
{
    const char *shared = getenv("HALO_SHARED"), *root = getenv("HALO_SOURCE_ROOT");
    if (shared)
        snprintf(ret, n, "%s/models", shared);
    else
        snprintf(ret, n, "%s/../shared/models", root ? root : ".");
    return access(ret, R_OK) == 0;
}

bool child_find_models(char *ret, size_t n)
{
    if (find_models(ret, n))
        return true;
    fprintf(stderr, "skipped: the reference models are not at %s (HALO_SHARED)\n", ret);
    return false;
}

static bool make_model(const char *mkgguf, const char *folder, const char *name, const char *options)
{
    char command[8192];
    snprintf(command, sizeof(command), "'%s' %s -o '%s/%s.gguf' >/dev/null", mkgguf, options, folder, name);
    return system(command) == 0;
}

#define TINY "--embd 64 --heads 4 --heads-kv 2 --head-dim 16 --ff 128 --vocab 2048 --type Q8_0"
#define SMALL "--embd 256 --heads 4 --heads-kv 2 --head-dim 64 --ff 512 --vocab 4096 --type Q4_K_M"

bool child_find_or_make_models(const char *mkgguf, const char *made, char *ret, size_t n, bool *ret_is_made)
{
    *ret_is_made = false;
    if (find_models(ret, n))
        return true;
    fprintf(stderr, "models of random weights, because the reference models are not at %s (HALO_SHARED)\n", ret);
    snprintf(ret, n, "%s", made);
    *ret_is_made = true;
    return make_model(mkgguf, made, "fable-moe-Q4_K_M",
                      "--arch qwen3moe --layers 4 --experts 8 --experts-used 2 --ff-expert 256 " SMALL) &&
           make_model(mkgguf, made, "fable-Q4_K_M", "--arch qwen3 --layers 8 " SMALL) &&
           make_model(mkgguf, made, "tiny-gemma3", "--arch qwen3 --seed 4 --layers 6 " TINY) &&
           make_model(mkgguf, made, "tiny-llama", "--arch llama --seed 3 --layers 2 " TINY) &&
           make_model(mkgguf, made, "tiny-gpt-oss",
                      "--arch qwen3moe --seed 2 --layers 4 --experts 8 --experts-used 2 --ff-expert 64 " TINY);
}

int child_remove_folder(const char *path)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", path);
    return system(command);
}

void child_copy_model(const char *to)
{
    char path[4096];
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, sizeof(path), "%s/tests/models/fable-Q4_K_M.gguf", root ? root : ".");
    int from_fd = open(path, O_RDONLY), to_fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(from_fd >= 0 && to_fd >= 0);
    ssize_t n;
    while ((n = sendfile(to_fd, from_fd, NULL, 1u << 20)) > 0)
        ;
    assert_int_equal(n, 0);
    close(from_fd);
    close(to_fd);
}
