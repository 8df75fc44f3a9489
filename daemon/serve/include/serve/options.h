/* options.h: halod's command line.
 *
 * Parsing only: strings point into argv. A bad line is HALO_OPTIONS_E_USAGE with the reason in `fault` (exit status 2).
 */
#ifndef HALO_SERVE_OPTIONS_H
#define HALO_SERVE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <base/fault.h>

#include <serve/config.h>

#define HALO_OPTIONS_MODEL_DIRS HALO_CONFIG_MODEL_DIRS
#define HALO_OPTIONS_E_USAGE 1

struct halo_options {
    const char *config_path;
    const char *socket_path;
    const char *model_dirs[HALO_OPTIONS_MODEL_DIRS];
    size_t n_model_dirs;
    const char *state_dir;
    const char *device;
    const char *engine_path;
    const char *hip_lib;
    const char *log_level;
    bool help, version;
};

int halo_options_parse(struct halo_options *ret_options, int argc, char **argv, struct halo_fault *fault);

/* Puts the flags over the configuration. Model directories given as flags replace those of the file. */
int halo_options_apply(const struct halo_options *options, struct halo_config *config, struct halo_fault *fault);

extern const char halo_options_help[];

#endif
