/* paths.c: default places of socket, models, state, configuration and the engine program. */
#include <serve/paths.h>

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef HALO_LIBEXEC_DIR
#error "HALO_LIBEXEC_DIR comes from the build"
#endif

static const char *env_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

static int join(char *ret_path, size_t room, const char *a, const char *b)
{
    int n = snprintf(ret_path, room, "%s%s", a, b);
    return n >= 0 && (size_t)n < room ? 0 : -ENAMETOOLONG;
}

/* $NAME/tail if the variable is set, else $HOME/fallback/tail. */
static int user_path(char *ret_path, size_t room, const char *name, const char *fallback, const char *tail)
{
    const char *base = env_of(name), *home = env_of("HOME");
    char dir[PATH_MAX];
    if (base)
        return join(ret_path, room, base, tail);
    if (!home)
        return -ENOENT;
    int r = join(dir, sizeof(dir), home, fallback);
    return r < 0 ? r : join(ret_path, room, dir, tail);
}

/* systemd gives a list separated by colons; the first entry is ours. */
static int service_path(char *ret_path, size_t room, const char *name, const char *fallback, const char *tail)
{
    const char *list = env_of(name);
    char dir[PATH_MAX];
    if (!list)
        return join(ret_path, room, fallback, tail);
    size_t n = strcspn(list, ":");
    if (n >= sizeof(dir))
        return -ENAMETOOLONG;
    memcpy(dir, list, n);
    dir[n] = '\0';
    return join(ret_path, room, dir, tail);
}

static bool is_service(const char *systemd_variable)
{
    return geteuid() == 0 || env_of(systemd_variable);
}

int halo_paths_config(char *ret_path, size_t room)
{
    if (geteuid() == 0 || env_of("RUNTIME_DIRECTORY"))
        return join(ret_path, room, "/etc/halod/halod.conf", "");
    return user_path(ret_path, room, "XDG_CONFIG_HOME", "/.config", "/halod/halod.conf");
}

static int runtime_dir(char *ret_path, size_t room, struct halo_fault *fault)
{
    const char *base = env_of("XDG_RUNTIME_DIR");
    char guess[64];
    struct stat st;
    if (!base) {
        snprintf(guess, sizeof(guess), "/run/user/%u", (unsigned)geteuid());
        if (stat(guess, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
            return halo_fault_set(
                fault, HALO_FAULT_NOT_FOUND,
                "XDG_RUNTIME_DIR is not set and %s is not there: say where to listen with --socket PATH", guess);
        base = guess;
    }
    return join(ret_path, room, base, "/halod");
}

static int complete_socket(struct halo_config *config, struct halo_fault *fault)
{
    char dir[PATH_MAX], path[PATH_MAX];
    bool service = is_service("RUNTIME_DIRECTORY");
    int r = service ? service_path(dir, sizeof(dir), "RUNTIME_DIRECTORY", "/run/halod", "")
                    : runtime_dir(dir, sizeof(dir), fault);
    if (r < 0)
        return r;
    if (mkdir(dir, service ? 0755 : 0700) != 0 && errno != EEXIST)
        return halo_fault_errno(fault, HALO_FAULT_NOT_FOUND, -errno, "cannot make %s for the socket", dir);
    r = join(path, sizeof(path), dir, "/halod.sock");
    return r < 0 ? r : halo_config_set_string(&config->socket_path, path);
}

/* Beside halod's own file, or not at all. */
static int complete_doctor(struct halo_config *config)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *slash = n > 0 ? (path[n] = '\0', strrchr(path, '/')) : NULL;
    if (!slash || (size_t)(slash - path) + sizeof("/halo-doctor") > sizeof(path))
        return 0;
    strcpy(slash, "/halo-doctor");
    return access(path, X_OK) == 0 ? halo_config_set_string(&config->doctor_path, path) : 0;
}

/* Beside halod's own file, as in a build tree or a private prefix; else where the package installs it. */
static int complete_engine(struct halo_config *config)
{
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        if (slash) {
            *slash = '\0';
            static const char *const beside[] = {"/halod-engine", "/../engine/halod-engine"};
            for (size_t i = 0; i < 2; i++)
                if (join(path, sizeof(path), self, beside[i]) == 0 && access(path, X_OK) == 0)
                    return halo_config_set_string(&config->engine_path, path);
        }
    }
    return halo_config_set_string(&config->engine_path, HALO_LIBEXEC_DIR "/halod-engine");
}

int halo_paths_complete(struct halo_config *config, struct halo_fault *fault)
{
    char path[PATH_MAX];
    int r = 0;
    if (!config->socket_path)
        r = complete_socket(config, fault);
    if (r == 0 && config->n_model_dirs == 0) {
        r = is_service("STATE_DIRECTORY")
                ? service_path(path, sizeof(path), "STATE_DIRECTORY", "/var/lib/halod", "/models")
                : user_path(path, sizeof(path), "XDG_DATA_HOME", "/.local/share", "/halod/models");
        if (r < 0)
            return halo_fault_set(
                fault, HALO_FAULT_NOT_FOUND,
                "neither XDG_DATA_HOME nor HOME is set: say where the models are with --model-dir DIR");
        r = halo_config_add_model_dir(config, path);
    }
    if (r == 0 && !config->state_dir) {
        r = is_service("STATE_DIRECTORY") ? service_path(path, sizeof(path), "STATE_DIRECTORY", "/var/lib/halod", "")
                                          : user_path(path, sizeof(path), "XDG_STATE_HOME", "/.local/state", "/halod");
        if (r == 0)
            r = halo_config_set_string(&config->state_dir, path);
        else if (r == -ENOENT)
            r = 0; /* a daemon without a home serves; it saves nothing */
    }
    if (r == 0 && !config->engine_path)
        r = complete_engine(config);
    if (r == 0 && !config->doctor_path)
        r = complete_doctor(config);
    return r;
}
