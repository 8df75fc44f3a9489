/* loaded.h: the models that are in memory, remembered so that a new engine gets them back.
 *
 * An entry is the `load` line that worked, with what came of it filled in: context, size of the pool, pin and
 * keep-alive time. Loads belong to the daemon: who asked may be long gone. The order is that of their last use, the
 * longest ago first; a new engine that gets them in this order knows it too. One thread.
 */
#ifndef HALO_SERVE_LOADED_H
#define HALO_SERVE_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include <protocol/value.h>

struct halo_loaded_model {
    char *name;  /* as `loaded` said */
    char *print; /* device, context and files, in words: a reply can only go on where they are the same */
    char *line;  /* the load request; its id is replaced when it is sent again */
    size_t line_len;
    unsigned n_deaths; /* engines in a row that died while it came back */
    bool missing;      /* not yet in the engine that runs now */
    bool reloading;    /* its load is under way */
};

struct halo_loaded {
    struct halo_loaded_model *models; /* used least recently first */
    size_t n_models;
};

void halo_loaded_finish(struct halo_loaded *loaded);

/* Adds or replaces, as the one used last. -ENOMEM. */
int halo_loaded_put(struct halo_loaded *loaded, struct halo_str name, const char *print, const char *line,
                    size_t line_len);
/* It came back. -ENOMEM. */
int halo_loaded_set_print(struct halo_loaded_model *model, const char *print);
/* It is used; nothing happens if it is not there. */
void halo_loaded_touch(struct halo_loaded *loaded, struct halo_str name);
void halo_loaded_remove(struct halo_loaded *loaded, struct halo_str name);
/* By its name, or by a path: the last component without ".gguf" and the number of a part. */
struct halo_loaded_model *halo_loaded_find(const struct halo_loaded *loaded, struct halo_str name);

#endif
