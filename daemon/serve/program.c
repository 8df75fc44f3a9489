/* program.c: halod as a program: settings, signals, the loop, the exit status. Runs once in a process. */
#include <serve/program.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <base/folder.h>
#include <base/log.h>
#include <listen/listen.h>

#include <serve/config.h>
#include <serve/daemon.h>
#include <serve/options.h>
#include <serve/paths.h>

#include "notify_priv.h"

#define EXIT_USAGE 2
#define N_SIGNALS 3

static const int end_signals[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

static_assert(HALO_CONFIG_SOCKET_BYTES == HALO_LISTEN_PATH_BYTES, "both are the length of sun_path");

static int settings(struct halo_config *config, const struct halo_options *options, struct halo_fault *fault)
{
    char path[PATH_MAX];
    int r = 0;
    if (options->config_path)
        r = halo_config_read(config, options->config_path, fault);
    else if (halo_paths_config(path, sizeof(path)) == 0 && access(path, F_OK) == 0)
        r = halo_config_read(config, path, fault);
    if (r == 0)
        r = halo_options_apply(options, config, fault);
    if (r < 0)
        return r;
    const char *emit = getenv("HALO_EMIT_TOKEN_IDS");
    if (emit && strcmp(emit, "1") == 0)
        config->emit_token_ids = true;
    halo_log_set_level(config->log_level);
    return halo_config_check(config, fault);
}

/* Made now, while somebody reads the log, and not at the first unload. */
static void make_state_folder(struct halo_config *config)
{
    int r = config->state_dir ? halo_folder_make(config->state_dir, 0700) : 0;
    if (r == 0)
        return;
    halo_log(HALO_LOG_WARN, "cached prefixes and profiles are not saved: the state folder %s cannot be made: %s",
             config->state_dir, strerror(-r));
    config->save_bytes = 0;
}

/* A connection takes a descriptor: the soft limit follows the configuration as far as the hard one lets it. */
static void raise_descriptors(int64_t connections)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)connections + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= want)
        return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > want ? want : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < want)
        halo_log(HALO_LOG_WARN, "only %llu descriptors for %lld connections", (unsigned long long)limit.rlim_cur,
                 (long long)connections);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct halo_daemon *daemon = handle->data;
    if (daemon->state == HALO_DAEMON_SERVING) {
        halo_daemon_stop(daemon);
        return;
    }
    halo_log(HALO_LOG_WARN, "second signal: exiting at once");
    halo_engine_kill(&daemon->engine);
    _exit(128 + signum);
}

static int passed_socket(int *ret_fd, struct halo_fault *fault)
{
    int fd, n = halo_notify_listen_fds(&fd);
    *ret_fd = n > 0 ? fd : -1;
    if (n < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, n, "cannot take the sockets of the service manager");
    if (n > 1)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "the service manager passed %d sockets, expected 1", n);
    return 0;
}

/* Handled from before the socket is there, for whoever can connect can also send them.
 * They do not keep the loop alive. */
static void signals_start(uv_signal_t signals[N_SIGNALS], uv_loop_t *loop, struct halo_daemon *daemon)
{
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(loop, &signals[i]);
        signals[i].data = daemon;
        uv_signal_start(&signals[i], on_signal, end_signals[i]);
        uv_unref((uv_handle_t *)&signals[i]);
    }
}

static void signals_close(uv_signal_t signals[N_SIGNALS])
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
}

static int serve(const struct halo_config *config, int passed_fd, struct halo_fault *fault)
{
    static struct halo_daemon daemon; /* large, and once in a process */
    uv_signal_t signals[N_SIGNALS];
    uv_loop_t loop;
    int r = uv_loop_init(&loop);
    if (r < 0)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "cannot make an event loop");
    signals_start(signals, &loop, &daemon);
    r = halo_daemon_init(&daemon, &loop, config, passed_fd, fault);
    if (r < 0) {
        signals_close(signals);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        return r;
    }
    halo_log(HALO_LOG_INFO, "halod %s serves %s", HALO_VERSION, daemon.clients.listen.path);
    halo_notify_ready();
    halo_daemon_start_engine(&daemon);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (daemon.engine_stuck)
        return halo_fault_set(fault, HALO_FAULT_DEVICE_HANG, "the engine could not be stopped");
    signals_close(signals);
    uv_run(&loop, UV_RUN_DEFAULT);
    halo_daemon_finish(&daemon);
    r = uv_loop_close(&loop);
    assert(r == 0); /* every handle was closed by its owner */
    return 0;
}

int halo_program_run(int argc, char **argv)
{
    struct halo_options options;
    struct halo_config config;
    struct halo_fault fault = {0};
    int passed_fd = -1;
    if (halo_options_parse(&options, argc, argv, &fault) != 0) {
        fprintf(stderr, "halod: %s\n", fault.text);
        return EXIT_USAGE;
    }
    if (options.help || options.version) {
        fputs(options.help ? halo_options_help : "halod " HALO_VERSION "\n", stdout);
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE fails with EFBIG */
    int r = halo_config_init(&config);
    if (r == 0)
        r = settings(&config, &options, &fault);
    int usage = r == -EINVAL;
    if (r == 0)
        r = passed_socket(&passed_fd, &fault);
    if (r == 0)
        r = halo_paths_complete(&config, &fault);
    if (r == 0) {
        usage = 0;
        raise_descriptors(config.connections);
        make_state_folder(&config);
        r = serve(&config, passed_fd, &fault);
    }
    if (r < 0)
        fprintf(stderr, "halod: %s\n", fault.text[0] != '\0' ? fault.text : strerror(-r));
    halo_config_finish(&config);
    return r == 0 ? EXIT_SUCCESS : usage ? EXIT_USAGE : EXIT_FAILURE;
}
