/* engine_args.c: what an engine is started with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_priv.h"

extern char **environ;

static void set_args(struct halo_engine_args *self, const struct halo_config *config)
{
    char **args = self->args;
    size_t n = 0;
    args[n++] = config->engine_path;
    args[n++] = (char *)"--fd";
    args[n++] = self->fd;
    args[n++] = (char *)"--device";
    args[n++] = config->device;
    args[n++] = (char *)"--log-level";
    args[n++] = (char *)halo_log_level_word(config->log_level);
    if (config->hip_lib) {
        args[n++] = (char *)"--hip-lib";
        args[n++] = config->hip_lib;
    }
    if (config->gpus > 1) {
        args[n++] = (char *)"--gpus";
        args[n++] = self->gpus;
    }
    if (config->remote) {
        args[n++] = (char *)"--remote";
        args[n++] = config->remote;
    }
    if (config->remote_key) {
        args[n++] = (char *)"--remote-key";
        args[n++] = config->remote_key;
    }
    if (config->threads > 0) {
        args[n++] = (char *)"--threads";
        args[n++] = self->threads;
    }
    if (config->budget_bytes > 0) {
        args[n++] = (char *)"--budget-bytes";
        args[n++] = self->budget;
    }
    args[n++] = (char *)"--checkpoint-bytes";
    args[n++] = self->checkpoints;
    if (config->state_dir) { /* profiles go there even where no prefixes do */
        args[n++] = (char *)"--state-dir";
        args[n++] = config->state_dir;
        args[n++] = (char *)"--save-bytes";
        args[n++] = self->save;
        args[n++] = (char *)"--save-ms";
        args[n++] = self->save_ms;
    }
    if (!config->any_path)
        args[n++] = (char *)"--models-only";
    if (!config->sandbox)
        args[n++] = (char *)"--no-sandbox";
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        args[n++] = (char *)"--model-dir";
        args[n++] = config->model_dirs[i];
    }
}

/* The strings stay environ's. NULL: out of memory. */
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

void halo_engine_args_init(struct halo_engine_args *self, const struct halo_config *config)
{
    *self = (struct halo_engine_args){
        .env = make_env(),
        .args = calloc(HALO_ENGINE_ARGS_MAX + 2 * config->n_model_dirs, sizeof(*self->args)),
    };
    if (!self->args || !self->env) {
        halo_engine_args_finish(self);
        return;
    }
    snprintf(self->fd, sizeof(self->fd), "%d", HALO_ENGINE_FD);
    snprintf(self->gpus, sizeof(self->gpus), "%lld", (long long)config->gpus);
    snprintf(self->threads, sizeof(self->threads), "%lld", (long long)config->threads);
    snprintf(self->save, sizeof(self->save), "%lld", halo_config_saves(config) ? (long long)config->save_bytes : 0ll);
    snprintf(self->save_ms, sizeof(self->save_ms), "%lld", (long long)config->save_ms);
    snprintf(self->checkpoints, sizeof(self->checkpoints), "%lld", (long long)config->checkpoint_bytes);
    snprintf(self->budget, sizeof(self->budget), "%lld", (long long)config->budget_bytes);
    set_args(self, config);
}

void halo_engine_args_finish(struct halo_engine_args *self)
{
    free(self->args);
    free(self->env);
    self->args = self->env = NULL;
}
