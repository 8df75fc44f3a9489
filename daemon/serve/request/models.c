/* models.c: the list of models to bring back. A handful of entries, searched one by one. */
#include <serve/request/models.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/model_stem.h>

static void clear(struct halo_known_model *model)
{
    free(model->name);
    free(model->path);
    free(model->print);
    free(model->line);
    *model = (struct halo_known_model){0};
}

void halo_known_models_finish(struct halo_known_models *known)
{
    for (size_t i = 0; i < known->n_models; i++)
        clear(&known->models[i]);
    free(known->models);
    *known = (struct halo_known_models){0};
}

struct halo_known_model *halo_known_models_find(const struct halo_known_models *known, struct halo_str name)
{
    char stem[HALO_MODEL_STEM_BYTES] = "";
    if (!memchr(name.at, '/', name.len))
        halo_model_stem(name.at, name.len, stem);
    for (size_t i = 0; i < known->n_models; i++) {
        struct halo_known_model *model = &known->models[i];
        if (halo_str_is(name, model->name) || halo_str_is(name, model->path) || strcmp(model->name, stem) == 0)
            return model;
    }
    return NULL;
}

int halo_known_model_set_print(struct halo_known_model *model, const char *print)
{
    char *copy = strdup(print);
    if (!copy)
        return -ENOMEM;
    free(model->print);
    model->print = copy;
    return 0;
}

int halo_known_models_put(struct halo_known_models *known, struct halo_str name, struct halo_str path, uid_t owner,
                          const char *print, const char *line, size_t line_len)
{
    struct halo_known_model made = {.name = strndup(name.at, name.len),
                                    .path = strndup(path.at, path.len),
                                    .print = strdup(print),
                                    .line = malloc(line_len + 1),
                                    .line_len = line_len,
                                    .owner = owner};
    bool whole = made.name && made.path && made.print && made.line;
    struct halo_known_model *slot = halo_known_models_find(known, name);
    if (!slot) {
        struct halo_known_model *grown = realloc(known->models, (known->n_models + 1) * sizeof(*grown));
        if (grown)
            known->models = grown;
        if (!grown || !whole) {
            clear(&made);
            return -ENOMEM;
        }
        slot = &grown[known->n_models++];
        *slot = (struct halo_known_model){0};
    } else if (!whole) {
        clear(&made);
        return -ENOMEM;
    }
    memcpy(made.line, line, line_len);
    made.line[line_len] = '\0';
    if (slot->name)
        made.owner = slot->owner;
    clear(slot);
    *slot = made;
    halo_known_models_touch(known, name);
    return 0;
}

static void close_gap(struct halo_known_models *known, struct halo_known_model *at)
{
    size_t n_behind = known->n_models - (size_t)(at - known->models) - 1;
    memmove(at, at + 1, n_behind * sizeof(*at));
}

void halo_known_models_touch(struct halo_known_models *known, struct halo_str name)
{
    struct halo_known_model *model = halo_known_models_find(known, name);
    if (!model || model == &known->models[known->n_models - 1])
        return;
    struct halo_known_model moved = *model;
    close_gap(known, model);
    known->models[known->n_models - 1] = moved;
}

void halo_known_models_remove(struct halo_known_models *known, struct halo_str name)
{
    struct halo_known_model *model = halo_known_models_find(known, name);
    if (!model)
        return;
    clear(model);
    close_gap(known, model);
    known->n_models--;
}
