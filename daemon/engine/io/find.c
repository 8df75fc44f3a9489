/* find.c: the file that a name means. The io thread.
 *
 * A name with a slash is a path. Any other is looked for in all folders of models; when it is the name of several
 * files, none of them is meant, whatever the order of the folders. Hidden files have no name: `models` does not list
 * them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/io_priv.h"

#define CHOICES 4 /* files of one name that are told */

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
                                    "folders of models (halod.conf: any_path)",
                                    path);
}

/* ---- paths ---- */

int halo_io_find_path(struct halo_io_thread *io, const char *path, struct halo_io_file *ret, struct halo_fault *fault)
{
    char folder[HALO_MODEL_PATH_BYTES] = "";
    if (path[0] != '/' && !io->config.own_paths)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "%.150s is relative to a folder that the daemon does not know; send an absolute path",
                              path);
    if (path[0] != '/' && !getcwd(folder, sizeof(folder)))
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "the current folder of %.100s", path);
    int n = snprintf(ret->path, sizeof(ret->path), "%s%s%s", folder, folder[0] ? "/" : "", path);
    if (n >= (int)sizeof(ret->path))
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "a path has at most %zu bytes", sizeof(ret->path) - 1);
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "looking at %s", ret->path);
    int r = halo_gguf_id_at(ret->path, &ret->id);
    if (r == 0 || r == -EACCES) {
        int denied = check_permission(&io->config, ret->path, fault);
        if (denied < 0)
            return denied;
    }
    if (r == -ENOENT || r == -ENOTDIR)
        return halo_fault_errno(fault, HALO_FAULT_NOT_FOUND, r, "%.150s", ret->path);
    if (r == -EISDIR) /* a folder, a device, a pipe */
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%.150s is not a regular file", ret->path);
    return r < 0 ? halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, r, "%.150s", ret->path) : 0;
}

/* ---- names ---- */

struct choices {
    struct halo_io_file *file; /* the first one */
    char more[CHOICES - 1][120];
    unsigned n; /* different files */
    struct halo_file_id ids[CHOICES];
};

/* A file with several names, or in several folders by links, counts once. */
static void consider(struct choices *choices, const struct halo_io_file *file)
{
    unsigned known = choices->n < CHOICES ? choices->n : CHOICES;
    for (unsigned i = 0; i < known; i++)
        if (halo_file_id_is_same(&choices->ids[i], &file->id))
            return;
    if (choices->n == 0)
        *choices->file = *file;
    else if (choices->n < CHOICES)
        snprintf(choices->more[choices->n - 1], sizeof(choices->more[0]), "%.119s", file->path);
    if (choices->n < CHOICES)
        choices->ids[choices->n] = file->id;
    choices->n++;
}

static void consider_path(struct choices *choices, const char *dir, const char *name, const char *end)
{
    struct halo_io_file file;
    int n = snprintf(file.path, sizeof(file.path), "%s/%s%s", dir, name, end);
    if (n > 0 && n < (int)sizeof(file.path) && halo_gguf_id_at(file.path, &file.id) == 0)
        consider(choices, &file);
}

/* The parts of a split set of this name: the first one, or `any`, up to one. */
static void find_parts(struct choices *choices, const char *dir, const char *name, bool any)
{
    size_t n_name = strlen(name);
    DIR *stream = opendir(dir);
    for (struct dirent *entry; stream && !(any && choices->n > 0) && (entry = readdir(stream));) {
        char stem[HALO_MODEL_STEM_BYTES];
        const char *tail = entry->d_name + n_name;
        if (strncmp(entry->d_name, name, n_name) != 0 || strncmp(tail, any ? "-" : "-00001-of-", any ? 1 : 10) != 0)
            continue;
        halo_model_stem(entry->d_name, strlen(entry->d_name), stem);
        if (strcmp(stem, name) == 0)
            consider_path(choices, dir, entry->d_name, "");
    }
    if (stream)
        closedir(stream);
}

/* DIR/NAME.gguf or DIR/NAME, and the first part of a split set. */
static void find_in(struct choices *choices, const char *dir, const char *name)
{
    consider_path(choices, dir, name, ".gguf");
    consider_path(choices, dir, name, "");
    find_parts(choices, dir, name, false);
}

static int refuse_choices(const struct choices *choices, const char *name, struct halo_fault *fault)
{
    char more[sizeof(choices->more)] = "";
    size_t n = 0;
    for (unsigned i = 0; i + 1 < choices->n && i < CHOICES - 1 && n < sizeof(more); i++)
        n += (size_t)snprintf(more + n, sizeof(more) - n, ", %s", choices->more[i]);
    return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%u files are called %.60s; name one by its path: %s%s",
                          choices->n, name, choices->file->path, more);
}

int halo_io_find(struct halo_io_thread *io, const char *name, struct halo_io_file *ret, struct halo_fault *fault)
{
    const struct halo_io_config *config = &io->config;
    struct choices choices = {.file = ret};
    if (strchr(name, '/'))
        return halo_io_find_path(io, name, ret, fault);
    size_t n_dirs = name[0] == '.' ? 0 : config->n_model_dirs;
    for (size_t i = 0; i < n_dirs; i++) {
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "looking for %s in folder %s", name, config->model_dirs[i]);
        find_in(&choices, config->model_dirs[i], name);
    }
    /* The load of a set without its first part says that it is missing. */
    for (size_t i = 0; choices.n == 0 && i < n_dirs; i++)
        find_parts(&choices, config->model_dirs[i], name, true);
    if (choices.n > 1)
        return refuse_choices(&choices, name, fault);
    if (choices.n == 1)
        return check_permission(config, ret->path, fault);
    if (config->own_paths && access(name, F_OK) == 0)
        return halo_io_find_path(io, name, ret, fault);
    if (name[0] == '.')
        return halo_fault_set(fault, HALO_FAULT_NOT_FOUND,
                              "no model is called %.100s: a hidden file is loaded by its path alone", name);
    return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "no model file %.100s(.gguf) in %s%.80s", name,
                          config->n_model_dirs == 1   ? ""
                          : config->n_model_dirs == 0 ? "any folder: none is configured"
                                                      : "any of the folders of models, the first of which is ",
                          config->n_model_dirs > 0 ? config->model_dirs[0] : "");
}

void halo_io_look_up(struct halo_io_thread *io, struct halo_lookup *lookup)
{
    struct halo_io_file file;
    if (halo_io_find(io, lookup->name, &file, &lookup->fault) == 0)
        lookup->id = file.id;
}
