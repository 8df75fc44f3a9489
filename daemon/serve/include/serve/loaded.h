/* loaded.h: the models that are in memory, remembered so that a new engine gets them back.
 *
 * An entry is the `load` line that worked. Loads belong to the daemon: who asked may be long gone. One thread.
 */
#ifndef HALO_SERVE_LOADED_H
#define HALO_SERVE_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include <protocol/value.h>

#define HALO_LOADED_DEATHS 2 /* engines that may die while a model comes back before it is forgotten */

struct halo_loaded_model {
    char *name; /* as `loaded` said */
    char *line; /* the load request; its id is replaced when it is sent again */
    size_t line_len;
    unsigned n_deaths;
    bool missing;   /* not yet in the engine that runs now */
    bool reloading; /* its load is under way */
};

struct halo_loaded {
    struct halo_loaded_model *models;
    size_t n_models;
};

void halo_loaded_finish(struct halo_loaded *loaded);

/* Adds or replaces. -ENOMEM. */
int halo_loaded_put(struct halo_loaded *loaded, struct halo_str name, const char *line, size_t line_len);
void halo_loaded_remove(struct halo_loaded *loaded, struct halo_str name);
struct halo_loaded_model *halo_loaded_find(struct halo_loaded *loaded, struct halo_str name);

#endif
