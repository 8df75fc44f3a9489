/* options.c: halod's command line, parsed and put over the configuration. */
#include <serve/options.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>

const char halo_options_help[] =
    "usage: halod [options]\n"
    "\n"
    "Keeps language models in memory and answers requests, one JSON object a line, over a Unix socket.\n"
    "\n"
    "  --config FILE        settings; else /etc/halod/halod.conf (root), $XDG_CONFIG_HOME/halod/halod.conf\n"
    "  --socket PATH        where to listen; else /run/halod/halod.sock (root), $XDG_RUNTIME_DIR/halod/halod.sock\n"
    "  --model-dir DIR      directory of GGUF files, repeatable; else /var/lib/halod/models (root),\n"
    "                       $XDG_DATA_HOME/halod/models\n"
    "  --state-dir DIR      folder for what outlives the daemon: cached prefixes and profiles\n"
    "  --device KIND        auto, cpu or hip\n"
    "  --engine PATH        the engine program; else halod-engine beside halod\n"
    "  --hip-lib PATH       the HIP runtime library\n"
    "  --log-level LEVEL    error, warn, info or debug\n"
    "  --version            print the version\n"
    "  --help               print this\n"
    "\n"
    "Exit status: 0 after SIGTERM, SIGINT or SIGHUP, 1 failure, 2 wrong usage, 128+N killed by a second signal N.\n";

enum flag {
    FLAG_CONFIG = 256,
    FLAG_SOCKET,
    FLAG_MODEL_DIR,
    FLAG_STATE_DIR,
    FLAG_DEVICE,
    FLAG_ENGINE,
    FLAG_HIP_LIB,
    FLAG_LOG_LEVEL,
    FLAG_VERSION,
    FLAG_HELP,
};

static const struct option flags[] = {
    {"config", required_argument, NULL, FLAG_CONFIG},
    {"socket", required_argument, NULL, FLAG_SOCKET},
    {"model-dir", required_argument, NULL, FLAG_MODEL_DIR},
    {"state-dir", required_argument, NULL, FLAG_STATE_DIR},
    {"device", required_argument, NULL, FLAG_DEVICE},
    {"engine", required_argument, NULL, FLAG_ENGINE},
    {"hip-lib", required_argument, NULL, FLAG_HIP_LIB},
    {"log-level", required_argument, NULL, FLAG_LOG_LEVEL},
    {"version", no_argument, NULL, FLAG_VERSION},
    {"help", no_argument, NULL, FLAG_HELP},
    {0},
};

static int usage(struct halo_fault *fault, const char *reason, const char *what)
{
    halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s '%.128s' (halod --help lists the options)", reason, what);
    return HALO_OPTIONS_E_USAGE;
}

static int take(struct halo_options *options, int flag, const char *value, struct halo_fault *fault)
{
    switch (flag) {
    case FLAG_MODEL_DIR:
        if (options->n_model_dirs == HALO_OPTIONS_MODEL_DIRS)
            return usage(fault, "too many --model-dir: no room for", value);
        options->model_dirs[options->n_model_dirs++] = value;
        break;
    case FLAG_CONFIG: options->config_path = value; break;
    case FLAG_SOCKET: options->socket_path = value; break;
    case FLAG_STATE_DIR: options->state_dir = value; break;
    case FLAG_DEVICE: options->device = value; break;
    case FLAG_ENGINE: options->engine_path = value; break;
    case FLAG_HIP_LIB: options->hip_lib = value; break;
    case FLAG_LOG_LEVEL: options->log_level = value; break;
    case FLAG_VERSION: options->version = true; break;
    case FLAG_HELP: options->help = true; break;
    default: return -EINVAL;
    }
    return 0;
}

int halo_options_parse(struct halo_options *ret_options, int argc, char **argv, struct halo_fault *fault)
{
    *ret_options = (struct halo_options){0};
    optind = 0; /* getopt starts afresh: tests parse more than one line */
    opterr = 0;
    for (;;) {
        int index = 0, flag = getopt_long(argc, argv, ":", flags, &index);
        if (flag == -1)
            break;
        if (flag == ':')
            return usage(fault, "no value for", argv[optind - 1]);
        if (flag == '?')
            return usage(fault, "unknown option", argv[optind - 1]);
        if (optarg && *optarg == '\0') {
            char name[32];
            snprintf(name, sizeof(name), "--%s", flags[index].name);
            return usage(fault, "empty value for", name);
        }
        int r = take(ret_options, flag, optarg, fault);
        if (r != 0)
            return r;
    }
    if (optind < argc)
        return usage(fault, "unexpected argument", argv[optind]);
    return 0;
}

int halo_options_apply(const struct halo_options *options, struct halo_config *config, struct halo_fault *fault)
{
    const struct {
        const char *section, *key, *value;
    } set[] = {
        {"daemon", "socket", options->socket_path},  {"daemon", "state_dir", options->state_dir},
        {"daemon", "log_level", options->log_level}, {"engine", "path", options->engine_path},
        {"engine", "device", options->device},       {"engine", "hip_lib", options->hip_lib},
    };
    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        if (!set[i].value)
            continue;
        int r = halo_config_set(config, set[i].section, set[i].key, set[i].value, fault);
        if (r < 0)
            return r;
    }
    if (options->n_model_dirs > 0)
        halo_config_clear_model_dirs(config);
    for (size_t i = 0; i < options->n_model_dirs; i++) {
        int r = halo_config_add_model_dir(config, options->model_dirs[i]);
        if (r < 0)
            return r;
    }
    return 0;
}
