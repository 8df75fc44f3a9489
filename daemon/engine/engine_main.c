/* engine_main.c: the program halod-engine: flags, threads, and the port's loop on the main thread.
 *
 * It ends by _exit: the device thread may hang in a driver, and nothing here is worth waiting for.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <base/log.h>
#include <cpu/cpu.h>
#if HALO_HIP
#include <hip/hip.h>
#endif
#if HALO_INJECT
#include <inject/inject.h>
#endif
#include <pipeline/pipeline.h>
#include <protocol/standard_fds.h>
#include <sandbox/sandbox.h>
#include <store/fetch.h>
#include <store/reader.h>

#include <engine/engine.h>
#include <engine/pressure_watch.h>

#define EXIT_USAGE 2
#define EXIT_NO_WORKER 4  /* halod knows it (daemon/serve/child/engine.c) */
#define MAX_MODEL_DIRS 64 /* what halod takes */
#define SAVE_BYTES (256ull << 20)
#define SAVE_MS 2000
#define STREAMING_MODELS 4 /* that have a ring at the same time; more of them read with threads */
#define OOM_SCORE_MOST "1000"
#define CHECKPOINT_BYTES (1ull << 30)

struct options {
    struct halo_engine_setup engine;
    const char *model_dirs[MAX_MODEL_DIRS];
    const char *device;
    const char *remote, *remote_key; /* NULL: none */
    bool stdio, fd;
    bool no_sandbox;
};

static const char usage[] =
    "usage: halod-engine --stdio [options]\n"
    "Speaks the halod protocol, one JSON object a line, on standard input and output.\n"
    "\n"
    "      --stdio            serve standard input and output; ends when the input ends and all is answered\n"
    "      --fd N             serve the socket with this number (what halod does); ends with its peer\n"
    "      --model-dir DIR    where models are looked for by name; may be given several times\n"
    "      --models-only      read models from these folders and nowhere else\n"
    "      --no-sandbox       keep the right to open files, run programs and make sockets; for debuggers\n"
    "      --device D         auto (default), cpu or hip\n"
    "      --hip-lib PATH     the HIP runtime to use instead of the one that is found\n"
    "      --gpus N           divide the layers of each model over the first N GPUs (1 to 8)\n"
    "      --remote WORKERS   the GPU of a hip-worker, unix:PATH or HOST:PORT, or of several, separated by commas,\n"
    "                         whose GPUs share the layers of each model. --hip-lib is then the client library\n"
    "      --remote-key FILE  the key of these workers\n"
    "      --budget-bytes N   memory that all models together may take; default: what is free\n"
    "      --checkpoint-bytes N  memory of each model for checkpoints of recurrent states, beside those of its\n"
    "                         sequences; default: 1073741824\n"
    "      --state-dir DIR    where cached prefixes and profiles are saved and looked for (DIR/prefixes,\n"
    "                         DIR/profiles); default: nowhere\n"
    "      --save-bytes N     of saved prefixes, at most; default: 268435456\n"
    "      --save-ms N        what saving them may take when a model is unloaded; 0: they are not saved then;\n"
    "                         default: 2000\n"
    "      --threads N        threads of the cpu device; default: as many as the process may use\n"
    "      --variant V        kernels of the cpu device: reference, avx2, avx512; default: the best\n"
    "                         that the processor has\n"
    "      --log-level L      error, warn, info (default), debug\n"
    "      --version\n"
    "      --help\n";

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "halod-engine: %s%s%s; see halod-engine --help\n", what, value ? " " : "", value ? value : "");
    return EXIT_USAGE;
}

static bool parse_number(const char *text, long least, long most, long *ret)
{
    char *end;
    errno = 0;
    *ret = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *ret >= least && *ret <= most;
}

enum {
    OPT_STDIO = 256,
    OPT_FD,
    OPT_MODEL_DIR,
    OPT_MODELS_ONLY,
    OPT_NO_SANDBOX,
    OPT_DEVICE,
    OPT_HIP_LIB,
    OPT_GPUS,
    OPT_REMOTE,
    OPT_REMOTE_KEY,
    OPT_THREADS,
    OPT_BUDGET,
    OPT_CHECKPOINTS,
    OPT_STATE_DIR,
    OPT_SAVE,
    OPT_SAVE_MS,
    OPT_VARIANT,
    OPT_LOG_LEVEL,
    OPT_VERSION,
    OPT_HELP
};

static const struct option long_options[] = {
    {"stdio", no_argument, NULL, OPT_STDIO},
    {"fd", required_argument, NULL, OPT_FD},
    {"state-dir", required_argument, NULL, OPT_STATE_DIR},
    {"save-bytes", required_argument, NULL, OPT_SAVE},
    {"save-ms", required_argument, NULL, OPT_SAVE_MS},
    {"budget-bytes", required_argument, NULL, OPT_BUDGET},
    {"checkpoint-bytes", required_argument, NULL, OPT_CHECKPOINTS},
    {"model-dir", required_argument, NULL, OPT_MODEL_DIR},
    {"models-only", no_argument, NULL, OPT_MODELS_ONLY},
    {"no-sandbox", no_argument, NULL, OPT_NO_SANDBOX},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"hip-lib", required_argument, NULL, OPT_HIP_LIB},
    {"gpus", required_argument, NULL, OPT_GPUS},
    {"remote", required_argument, NULL, OPT_REMOTE},
    {"remote-key", required_argument, NULL, OPT_REMOTE_KEY},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"variant", required_argument, NULL, OPT_VARIANT},
    {"log-level", required_argument, NULL, OPT_LOG_LEVEL},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

/* Answers name files by paths, which are of no use to others when they begin in this process's folder. NULL: too long,
 * or no memory. */
static char *absolute_path(const char *dir)
{
    char folder[PATH_MAX], *path = NULL;
    if (dir[0] == '/')
        return strdup(dir);
    while (strncmp(dir, "./", 2) == 0)
        dir += 2;
    bool fails = !getcwd(folder, sizeof(folder)) || asprintf(&path, "%s/%s", folder, dir) < 0;
    return fails ? NULL : path;
}

/* -1: go on; otherwise the exit status. */
static int take_option(struct options *o, int option)
{
    enum halo_log_level level;
    long number;
    switch (option) {
    case OPT_STDIO: o->stdio = true; return -1;
    case OPT_FD:
        if (!parse_number(optarg, 0, 1 << 20, &number) || fcntl((int)number, F_GETFD) < 0)
            return refuse("no open file descriptor", optarg);
        o->fd = o->engine.link = true;
        o->engine.in_fd = o->engine.out_fd = (int)number;
        return -1;
    case OPT_MODEL_DIR:
        if (o->engine.n_model_dirs == MAX_MODEL_DIRS)
            return refuse("too many folders of models; the limit is exceeded by", optarg);
        if (!(o->model_dirs[o->engine.n_model_dirs] = absolute_path(optarg)))
            return refuse("cannot make an absolute path of the folder of models", optarg);
        o->engine.n_model_dirs++;
        return -1;
    case OPT_MODELS_ONLY: o->engine.models_only = true; return -1;
    case OPT_NO_SANDBOX: o->no_sandbox = true; return -1;
    case OPT_DEVICE: o->device = optarg; return -1;
    case OPT_HIP_LIB: o->engine.device_options.library = optarg; return -1;
    case OPT_GPUS:
        if (!parse_number(optarg, 1, HALO_STAGES_MAX, &number))
            return refuse("--gpus wants a number from 1 to 8, not", optarg);
        o->engine.device_options.n_stages = (uint32_t)number;
        return -1;
    case OPT_REMOTE: o->remote = optarg; return -1;
    case OPT_REMOTE_KEY: o->remote_key = optarg; return -1;
    case OPT_THREADS:
        if (!parse_number(optarg, 0, 1024, &number))
            return refuse("--threads wants a number from 0 to 1024, not", optarg);
        o->engine.device_options.n_threads = (uint32_t)number;
        return -1;
    case OPT_BUDGET:
        if (!parse_number(optarg, 0, LONG_MAX, &number))
            return refuse("--budget-bytes wants a number of bytes, not", optarg);
        o->engine.budget_bytes = (uint64_t)number;
        return -1;
    case OPT_CHECKPOINTS:
        if (!parse_number(optarg, 0, LONG_MAX, &number))
            return refuse("--checkpoint-bytes wants a number of bytes, not", optarg);
        o->engine.checkpoint_bytes = (uint64_t)number;
        return -1;
    case OPT_STATE_DIR: o->engine.state_dir = optarg; return -1;
    case OPT_SAVE:
        if (!parse_number(optarg, 0, LONG_MAX, &number))
            return refuse("--save-bytes wants a number of bytes, not", optarg);
        o->engine.save_bytes = (uint64_t)number;
        return -1;
    case OPT_SAVE_MS:
        if (!parse_number(optarg, 0, 3600000, &number))
            return refuse("--save-ms wants a number from 0 to 3600000, not", optarg);
        o->engine.save_ms = (uint64_t)number;
        return -1;
    case OPT_VARIANT: o->engine.device_options.variant = optarg; return -1;
    case OPT_LOG_LEVEL:
        if (halo_log_level_parse(optarg, &level) < 0)
            return refuse("--log-level wants error, warn, info or debug, not", optarg);
        halo_log_set_level(level);
        return -1;
    case OPT_VERSION: puts("halod-engine " HALO_VERSION); return EXIT_SUCCESS;
    case OPT_HELP: fputs(usage, stdout); return EXIT_SUCCESS;
    default: return EXIT_USAGE; /* getopt has said what is wrong */
    }
}

static int parse_options(struct options *o, int argc, char **argv)
{
    int option, status;
    *o = (struct options){.engine = {.in_fd = STDIN_FILENO,
                                     .out_fd = STDOUT_FILENO,
                                     .checkpoint_bytes = CHECKPOINT_BYTES,
                                     .save_bytes = SAVE_BYTES,
                                     .save_ms = SAVE_MS},
                          .device = "auto"};
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if ((status = take_option(o, option)) >= 0)
            return status;
    if (optind < argc)
        return refuse("unexpected argument", argv[optind]);
    if (o->stdio == o->fd)
        return refuse("give one of --stdio and --fd N", NULL);
    if (o->remote && strcmp(o->device, "cpu") == 0)
        return refuse("--remote is for --device hip, not", o->device);
    if (o->engine.device_options.n_stages > 1 && strcmp(o->device, "cpu") == 0)
        return refuse("--gpus is for --device hip, not", o->device);
    o->engine.model_dirs = o->model_dirs;
    return -1;
}

/* The sandbox refuses connections, so this is before it. -1: go on; otherwise the exit status. */
static int reach_worker(struct options *o)
{
    if (!o->remote)
        return -1;
#if HALO_HIP
    char reason[HALO_DEVICE_REASON];
    struct halo_device_options *device = &o->engine.device_options;
    uint32_t n_gpus = 0;
    o->device = "hip";
    if (!device->library)
        device->library = halo_hip_remote_library();
    if (halo_hip_remote_connect(device->library, o->remote, o->remote_key, &n_gpus, reason) == 0) {
        if (strchr(o->remote, ',') && device->n_stages == 0)
            device->n_stages = n_gpus < HALO_STAGES_MAX ? n_gpus : HALO_STAGES_MAX;
        return -1;
    }
    halo_log(HALO_LOG_ERROR, "%s", reason);
    return EXIT_NO_WORKER;
#else
    return refuse("this build has no hip device for --remote", o->remote);
#endif
}

static void enter_sandbox(const struct options *o)
{
    const struct halo_engine_setup *engine = &o->engine;
    struct halo_sandbox sandbox = {
        .program = "halod-engine",
        .model_dirs = engine->model_dirs,
        .n_model_dirs = engine->n_model_dirs,
        .state_dir = engine->state_dir,
        .hip_lib = engine->device_options.library,
        .gpu = strcmp(o->device, "cpu") != 0 && !o->remote,
        .models_only = engine->models_only,
    };
    if (o->no_sandbox)
        return;
    /* A ring could open what the sandbox refuses, so the only ones are made now and can do nothing but read. Where
     * there is none the reader says so with each load, and a model that streams once. */
    halo_reader_prepare();
    halo_fetch_prepare(STREAMING_MODELS);
    halo_sandbox_enter(&sandbox);
}

/* What the build has of GPUs; NULL: nothing. */
static const struct halo_device_ops *gpu_device(void)
{
#if HALO_HIP
    return halo_device_hip();
#else
    return NULL;
#endif
}

/* The table of the wanted device. NULL: none, and it was said. */
static const struct halo_device_ops *pick_device(const char *name, const struct halo_device_options *options)
{
    const struct halo_device_ops *gpu = gpu_device();
    char reason[HALO_DEVICE_REASON];
    if (strcmp(name, "cpu") == 0)
        return halo_device_cpu();
    if (strcmp(name, "auto") == 0)
        return gpu && gpu->probe(options, reason) == 0 ? gpu : halo_device_cpu();
    if (strcmp(name, "hip") != 0)
        fprintf(stderr, "halod-engine: --device wants auto, cpu or hip, not %s\n", name);
    else if (!gpu)
        fputs("halod-engine: this build has no hip device; use --device cpu\n", stderr);
    else
        return gpu; /* why it does not open is told by whoever opens it */
    return NULL;
}

/* The device that divides models over several GPUs, where that is wanted. NULL: there is no GPU, and it was said. */
static const struct halo_device_ops *divide_device(const struct halo_device_ops *device,
                                                   struct halo_device_options *options)
{
    if (!device || options->n_stages <= 1)
        return device;
    if (device == halo_device_cpu()) {
        fprintf(stderr, "halod-engine: --gpus %u, but there is no GPU that can be used\n", options->n_stages);
        return NULL;
    }
    options->stage = device;
    return halo_device_pipeline();
}

/* The weights are here, and another engine can take this one's place: of all processes it is the one to end. Raising
 * the score needs no privilege. */
static void offer_to_oom_killer(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, OOM_SCORE_MOST, strlen(OOM_SCORE_MOST)) < 0)
        halo_log(HALO_LOG_WARN,
                 "oom_score_adj cannot be set (%s): the kernel may end another process in the engine's place",
                 strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* halod is the parent and reads stderr: lines carry priorities. The engine ends at the end of the socket, but a stopped
 * process does not see it: the kernel kills it. */
static void follow_parent(void)
{
    halo_log_set_prefix();
    offer_to_oom_killer();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int main(int argc, char **argv)
{
    static struct options options; /* the engine's threads keep pointers into it */
    static struct halo_pressure_watch watch;
    if (halo_standard_fds_open() < 0)
        return EXIT_USAGE;
    int status = parse_options(&options, argc, argv);
    if (status >= 0)
        return status;
    signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE fails with EFBIG */
    if (options.fd)
        follow_parent();
#if HALO_HIP
    halo_hip_limit_queues();
#endif
    halo_pressure_watch_open(&watch, "/proc", "/sys/fs/cgroup"); /* before /proc cannot be written any more */
    options.engine.watch = &watch;
    status = reach_worker(&options);
    if (status >= 0)
        _exit(status);
    enter_sandbox(&options); /* before the first thread, a GPU's own ones too */
    options.engine.device =
        divide_device(pick_device(options.device, &options.engine.device_options), &options.engine.device_options);
    if (!options.engine.device)
        return EXIT_USAGE;
#if HALO_INJECT
    options.engine.device = halo_inject_wrap(options.engine.device);
#endif
    signal(SIGPIPE, SIG_IGN);
    int fd = options.engine.in_fd;
    if (options.engine.link && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
        return refuse("the descriptor cannot be made non-blocking", NULL);
    _exit(halo_engine_run(&options.engine));
}
