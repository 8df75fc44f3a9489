/* options.c: the command line of hip-worker. */
#include "options_priv.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/log.h>

#define EXIT_USAGE 2
#define BLOB_BYTES ((uint64_t)64 << 30)

static const char usage[] =
    "usage: hip-worker [OPTION]...\n"
    "Runs HIP calls of remote clients on this machine's GPU. By default it serves the Unix socket\n"
    "$XDG_RUNTIME_DIR/hip-worker.sock, for this user alone.\n"
    "\n"
    "      --socket PATH       serve this Unix socket\n"
    "      --listen HOST:PORT  serve TCP, without --socket nothing else; without --key-file only on a loopback "
    "address\n"
    "                          and for this user alone\n"
    "      --key-file FILE     encrypt TCP, for clients that have the same key: 64 hexadecimal digits, mode 0600\n"
    "      --hip-lib PATH      the HIP runtime (default: the system's libamdhip64.so)\n"
    "      --blobs DIR         keep what clients upload in this folder, so that the next load need not send it again\n"
    "      --blob-bytes N      at most so many bytes of it for each key (64 GiB)\n"
    "      --max-sessions N    clients at once (16)\n"
    "      --memory-mib N      device memory of one client (all)\n"
    "      --staging-mib N     pinned memory for the copies of one client (64)\n"
    "      --deadline-ms N     end a session whose GPU work takes longer (0: never)\n"
    "      --no-sandbox        keep the right to open files, run programs and make sockets; for debuggers\n"
    "      --log-level LEVEL   error, warn, info (default) or debug\n"
    "      --version           print the version\n"
    "      --help              print this text\n";

enum {
    OPT_SOCKET,
    OPT_LISTEN,
    OPT_KEY_FILE,
    OPT_HIP_LIB,
    OPT_BLOBS,
    OPT_BLOB_BYTES,
    OPT_MAX_SESSIONS,
    OPT_MEMORY,
    OPT_STAGING,
    OPT_DEADLINE,
    OPT_NO_SANDBOX,
    OPT_LOG_LEVEL,
    OPT_SESSION,
    OPT_VERSION,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"key-file", required_argument, NULL, OPT_KEY_FILE},
    {"hip-lib", required_argument, NULL, OPT_HIP_LIB},
    {"blobs", required_argument, NULL, OPT_BLOBS},
    {"blob-bytes", required_argument, NULL, OPT_BLOB_BYTES},
    {"max-sessions", required_argument, NULL, OPT_MAX_SESSIONS},
    {"memory-mib", required_argument, NULL, OPT_MEMORY},
    {"staging-mib", required_argument, NULL, OPT_STAGING},
    {"deadline-ms", required_argument, NULL, OPT_DEADLINE},
    {"no-sandbox", no_argument, NULL, OPT_NO_SANDBOX},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"session", required_argument, NULL, OPT_SESSION}, /* from the supervisor to its child */
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int refuse(const char *what, const char *text)
{
    fprintf(stderr, "hip-worker: %s%s%s\nTry 'hip-worker --help'.\n", what, text ? ": " : "", text ? text : "");
    return EXIT_USAGE;
}

/* -1 and the number, or the exit status. */
static int take_number(uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(optarg, &end, 10);
    if (errno == 0 && *optarg >= '0' && *optarg <= '9' && *end == '\0' && *ret >= least && *ret <= most)
        return -1;
    fprintf(stderr, "hip-worker: '%s' is no number from %llu to %llu\n", optarg, (unsigned long long)least,
            (unsigned long long)most);
    return EXIT_USAGE;
}

static int take_socket(struct halo_worker_options *o, const char *path)
{
    if (snprintf(o->socket, sizeof(o->socket), "%s", path) >= (int)sizeof(o->socket))
        return refuse("a socket's path has at most 107 bytes", path);
    return -1;
}

static int take_option(struct halo_worker_options *o, int option)
{
    enum halo_log_level level;
    uint64_t n = 0;
    int status = -1;
    switch (option) {
    case OPT_SOCKET: return take_socket(o, optarg);
    case OPT_LISTEN: o->listen = optarg; return -1;
    case OPT_KEY_FILE: o->key_file = optarg; return -1;
    case OPT_HIP_LIB: o->hip_lib = optarg; return -1;
    case OPT_BLOBS: o->blobs = optarg; return -1;
    case OPT_BLOB_BYTES: return take_number(HALO_REMOTE_DATA_MAX, (uint64_t)1 << 60, &o->blob_bytes);
    case OPT_MAX_SESSIONS:
        status = take_number(1, 1024, &n);
        o->n_sessions = (uint32_t)n;
        return status;
    case OPT_MEMORY:
        status = take_number(1, (uint64_t)1 << 40, &n);
        o->limits.memory_bytes = n << 20;
        return status;
    case OPT_STAGING:
        status = take_number(1, 1024, &n);
        o->limits.staging_bytes = (uint32_t)n << 20;
        return status;
    case OPT_DEADLINE:
        status = take_number(0, 3600000, &n);
        o->limits.deadline_ms = (uint32_t)n;
        return status;
    case OPT_SESSION:
        status = take_number(3, 1024, &n);
        o->session_fd = (int)n;
        return status;
    case OPT_NO_SANDBOX: o->no_sandbox = true; return -1;
    case OPT_LOG_LEVEL:
        if (halo_log_level_parse(optarg, &level) < 0)
            return refuse("unknown log level", optarg);
        halo_log_set_level(level);
        return -1;
    case OPT_VERSION: puts("hip-worker " HALO_VERSION); return 0;
    case OPT_HELP: fputs(usage, stdout); return 0;
    default: return refuse("wrong option", NULL);
    }
}

int halo_worker_options_parse(struct halo_worker_options *ret, int argc, char **argv)
{
    const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
    char path[512];
    int option, status;
    *ret = (struct halo_worker_options){
        .limits = HALO_SESSION_LIMITS_DEFAULT, .blob_bytes = BLOB_BYTES, .n_sessions = 16, .session_fd = -1};
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if ((status = take_option(ret, option)) >= 0)
            return status;
    if (optind < argc)
        return refuse("unexpected argument", argv[optind]);
    if (ret->session_fd >= 0 || ret->socket[0] || ret->listen)
        return -1;
    if (!runtime_dir || !*runtime_dir)
        return refuse("XDG_RUNTIME_DIR is not set: give --socket or --listen", NULL);
    snprintf(path, sizeof(path), "%s/hip-worker.sock", runtime_dir);
    return take_socket(ret, path);
}
