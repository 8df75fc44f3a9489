/* catalog_priv.h: the model files that there are, as a request sees them.
 *
 * Made by the port, filled by the io thread from the folders of models, read and destroyed by the port. Text lives in
 * the catalog's arena and is UTF-8, with replacement characters where a name or a file has other bytes.
 */
#ifndef HALO_ENGINE_CATALOG_PRIV_H
#define HALO_ENGINE_CATALOG_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>

#include <base/arena.h>
#include <base/fault.h>
#include <store/file_id.h>

#include <engine/note.h>

struct halo_catalog_entry {
    const char *name, *path;
    struct halo_file_id id;
    uint64_t bytes;             /* all parts; of the one file when it cannot be read */
    uint64_t n_params, context; /* 0: not known */
    const char *arch, *quant;   /* "": not known */
    const char *fault;          /* why it cannot be used; "": usable as far as its directory tells */
};

/* A folder of models that cannot be read. */
struct halo_catalog_folder {
    const char *path, *fault;
};

/* A loaded model: whether its path still leads to the file that it was loaded from. */
struct halo_catalog_loaded {
    const char *path; /* in, as the next; the catalog's */
    struct halo_file_id id;
    bool replaced; /* out */
};

struct halo_catalog {
    struct halo_note note;
    struct halo_job *job;
    atomic_bool cancel; /* the port's wish */
    struct halo_arena arena;
    struct halo_catalog_entry *entries; /* by name */
    size_t n;
    struct halo_catalog_folder *folders;
    size_t n_folders;
    struct halo_catalog_loaded *loaded;
    size_t n_loaded;
    struct halo_fault fault; /* code NONE: whole */
};

/* NULL: no memory. */
struct halo_catalog *halo_catalog_create(void);
void halo_catalog_destroy(struct halo_catalog *catalog);

#endif
