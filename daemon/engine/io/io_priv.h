/* io_priv.h: the io thread: everything that reads or writes files and folders, weights apart.
 *
 *   io.c            the thread's loop
 *   find.c          the file that a name means
 *   folders.c       folders that cannot be read
 *   catalog.c       the folders of models
 *   load_parse.c    a model file's directory; the stages of a load that are here
 *   prefix_disk.c   files of saved prefixes
 *   profile_io.c    what a profile holds for; stages of a profiling that are here
 *   profile_file.c  files of profiles
 *   state_file.c    small files in the state folder
 *   drive.c         the drives that a file lies on
 *
 * One thread, one piece of work at a time, in order of arrival. It may hang in a folder whose server is gone: nothing
 * but requests for files waits for it.
 */
#ifndef HALO_ENGINE_IO_PRIV_H
#define HALO_ENGINE_IO_PRIV_H

#include <pthread.h>

#include <engine/keep.h>
#include <engine/load.h>
#include <engine/profile.h>

#include "io/catalog_priv.h"
#include "io/heat_priv.h"
#include "io/lookup_priv.h"

struct halo_catalog_cache;

#define HALO_IO_FOLDER_FAULT_BYTES 256

struct halo_io_config {
    const char *const *model_dirs;
    size_t n_model_dirs;
    bool own_paths;        /* a name may be a path of the process's own: there is no daemon in between */
    bool models_only;      /* the sandbox lets no other folder be read */
    const char *state_dir; /* where prefixes and profiles outlive the process; NULL: nowhere */
    uint64_t save_bytes;   /* of prefixes, at most; 0: none */
};

struct halo_io_thread {
    pthread_t thread;
    struct halo_mailbox box;
    struct halo_mailbox *port, *device;
    struct halo_io_config config;
    struct halo_phase phase;
    struct halo_catalog_cache *cache; /* what is known about files; the thread's, for the life of the process */
};

/* Starts it. 0 or a negative errno. It ends with the process. */
int halo_io_thread_start(struct halo_io_thread *io);

/* ---- the thread's own ---- */

/* A file, and an absolute path to it. */
struct halo_io_file {
    char path[HALO_MODEL_PATH_BYTES];
    struct halo_file_id id;
};

/* find.c: the file that a name or path means. NOT_FOUND (says where it looked), BAD_REQUEST (several files have the
 * name, or a relative path), LOAD_FAILED (permissions). */
int halo_io_find(struct halo_io_thread *io, const char *name, struct halo_io_file *ret, struct halo_fault *fault);
/* The same for what is a path even without a slash. */
int halo_io_find_path(struct halo_io_thread *io, const char *path, struct halo_io_file *ret, struct halo_fault *fault);
void halo_io_look_up(struct halo_io_thread *io, struct halo_lookup *lookup);

/* catalog.c */
void halo_io_fill_catalog(struct halo_io_thread *io, struct halo_catalog *catalog);

/* profile_io.c: the stages OPEN, COOL and STORE of a profiling; it goes to the thread that follows. */
void halo_io_profile(struct halo_io_thread *io, struct halo_profiling *profiling);
void halo_io_heat(struct halo_io_thread *io, struct halo_heat *heat);
/* What a profile of this model would hold for: `here` comes with the device, or without one. And the one that is
 * stored. NOT_FOUND: none is; LOAD_FAILED: it cannot be read. */
int halo_io_stored_profile(struct halo_io_thread *io, const struct halo_gguf *gguf, const char *path,
                           struct halo_profile *here, struct halo_profile_record *ret, struct halo_fault *fault);

/* folders.c: why a folder of models cannot be read; NULL: it can. */
const char *halo_io_folder_fault(const char *path, char buffer[static HALO_IO_FOLDER_FAULT_BYTES]);
/* Warns of each that cannot be read. */
void halo_io_check_folders(struct halo_io_thread *io);

/* load_parse.c: the stages RESOLVE, OPEN and PREFIXES. */
enum halo_load_stage halo_io_resolve(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_io_open(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_io_take_prefixes(struct halo_load *load, const struct halo_load_threads *threads);

#endif
