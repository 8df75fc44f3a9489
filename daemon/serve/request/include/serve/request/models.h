/* models.h: the models that are in memory, remembered so that a new engine gets them back.
 *
 * An entry is the `load` line that succeeded, with its results filled in: context, size of the pool, pin and keep-alive
 * time. Loads belong to the daemon: the client that asked may have disconnected. Entries are in the order of last use,
 * least recent first, and a new engine gets them in this order. One thread.
 */
#ifndef HALO_SERVE_REQUEST_MODELS_H
#define HALO_SERVE_REQUEST_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <protocol/value.h>

struct halo_known_model {
    char *name;  /* as `loaded` said */
    char *path;  /* its file, as `loaded` said; "": it did not */
    char *print; /* device, context and files, in words: a reply can only continue where they are the same */
    char *line;  /* the load request; its id is replaced when it is sent again */
    size_t line_len;
    uid_t owner;       /* who had it loaded: may pin and unload it */
    unsigned n_deaths; /* engines in a row that died while they loaded it again */
    bool missing;      /* not yet in the engine that runs now */
    bool reloading;    /* its load was sent */
};

struct halo_known_models {
    struct halo_known_model *models; /* least recently used first */
    size_t n_models;
};

void halo_known_models_finish(struct halo_known_models *known);

/* Adds or replaces, as the most recently used one; one that is there keeps its owner. -ENOMEM. */
int halo_known_models_put(struct halo_known_models *known, struct halo_str name, struct halo_str path, uid_t owner,
                          const char *print, const char *line, size_t line_len);
/* What it was loaded as this time. -ENOMEM. */
int halo_known_model_set_print(struct halo_known_model *model, const char *print);
/* Marks it as used now. Does nothing for an unknown name. */
void halo_known_models_touch(struct halo_known_models *known, struct halo_str name);
void halo_known_models_remove(struct halo_known_models *known, struct halo_str name);
/* By its name, with or without the ending of a file, or by the path of its file. NULL: unknown. */
struct halo_known_model *halo_known_models_find(const struct halo_known_models *known, struct halo_str name);

#endif
