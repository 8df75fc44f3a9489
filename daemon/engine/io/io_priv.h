/* io_priv.h: the io thread: everything that reads or writes files and folders, weights apart.
 *
 *   io.c            the thread's loop
 *   find.c          the file that a name means
 *   catalog.c       the folders of models
 *   load_parse.c    a model file's directory; the stages of a load that are here
 *   prefix_disk.c   files of saved prefixes
 *
 * One thread, one piece of work at a time, in order of arrival. It may hang in a folder whose server is gone: nothing
 * but requests for files waits for it.
 */
#ifndef HALO_ENGINE_IO_PRIV_H
#define HALO_ENGINE_IO_PRIV_H

#include <pthread.h>

#include <engine/catalog.h>
#include <engine/keep.h>
#include <engine/load.h>

struct halo_catalog_cache;

struct halo_io_config {
    const char *const *model_dirs;
    size_t n_model_dirs;
    bool own_paths;        /* a name may be a path of the process's own: there is no daemon in between */
    bool models_only;      /* the sandbox lets no other folder be read */
    const char *state_dir; /* where prefixes outlive the process; NULL: nowhere */
    uint64_t save_bytes;   /* of them, at most; 0: none */
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

/* find.c: the file that a name or path means. NOT_FOUND (says where it looked). */
int halo_io_find(struct halo_io_thread *io, const char *name, char ret_path[HALO_MODEL_PATH_BYTES],
                 struct halo_fault *fault);

/* catalog.c */
void halo_io_fill_catalog(struct halo_io_thread *io, struct halo_catalog *catalog);

/* load_parse.c: the stages OPEN and PREFIXES. */
enum halo_load_stage halo_io_open(struct halo_load *load, const struct halo_load_threads *threads);
enum halo_load_stage halo_io_take_prefixes(struct halo_load *load, const struct halo_load_threads *threads);

#endif
