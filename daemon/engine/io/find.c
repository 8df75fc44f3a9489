/* find.c: the file that a name means. The io thread. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io_priv.h"

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* DIR/NAME.gguf or DIR/NAME. */
static bool find_in(const char *dir, const char *name, char ret_path[HALO_MODEL_PATH_BYTES])
{
    static const char *const ends[] = {".gguf", ""};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        int n = snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s/%s%s", dir, name, ends[i]);
        if (n > 0 && n < HALO_MODEL_PATH_BYTES && is_file(ret_path))
            return true;
    }
    return false;
}

/* The first part of a split set. */
static bool find_split_in(const char *dir, const char *name, char ret_path[HALO_MODEL_PATH_BYTES])
{
    bool found = false;
    size_t n_name = strlen(name);
    DIR *stream = opendir(dir);
    for (struct dirent *entry; stream && !found && (entry = readdir(stream));) {
        char stem[HALO_MODEL_STEM_BYTES];
        if (strncmp(entry->d_name, name, n_name) != 0 || strncmp(entry->d_name + n_name, "-00001-of-", 10) != 0)
            continue;
        halo_model_stem(entry->d_name, strlen(entry->d_name), stem);
        int n = snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s/%s", dir, entry->d_name);
        found = strcmp(stem, name) == 0 && n > 0 && n < HALO_MODEL_PATH_BYTES && is_file(ret_path);
    }
    if (stream)
        closedir(stream);
    return found;
}

/* The sandbox answers as a file's mode does: says what it may have been. Any other obstacle the directory reader names,
 * better than we could. */
static int check_permission(const struct halo_io_config *config, const char *path, struct halo_fault *fault)
{
    int fd = config->models_only ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY) : -1;
    bool denied = config->models_only && fd < 0 && errno == EACCES;
    if (fd >= 0)
        close(fd);
    return !denied ? 0
                   : halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                    "%.100s: permission denied; the file's mode forbids it, or it lies outside the "
                                    "model directories (halod.conf: any_path)",
                                    path);
}

int halo_io_find(struct halo_io_thread *io, const char *name, char ret_path[HALO_MODEL_PATH_BYTES],
                 struct halo_fault *fault)
{
    const struct halo_io_config *config = &io->config;
    if (strchr(name, '/')) {
        snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s", name);
        return check_permission(config, ret_path, fault);
    }
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "looking for %s in folder %s", name, config->model_dirs[i]);
        if (find_in(config->model_dirs[i], name, ret_path) || find_split_in(config->model_dirs[i], name, ret_path))
            return check_permission(config, ret_path, fault);
    }
    if (config->own_paths && is_file(name)) {
        snprintf(ret_path, HALO_MODEL_PATH_BYTES, "%s", name);
        return 0;
    }
    return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "no model file %.100s(.gguf) in %s%.80s", name,
                          config->n_model_dirs == 1   ? ""
                          : config->n_model_dirs == 0 ? "any directory: none is configured"
                                                      : "any of the model directories, the first of which is ",
                          config->n_model_dirs > 0 ? config->model_dirs[0] : "");
}
