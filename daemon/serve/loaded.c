/* loaded.c: the list of models to bring back. A handful of entries, searched one by one. */
#include <serve/loaded.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/model_stem.h>

static void clear(struct halo_loaded_model *model)
{
    free(model->name);
    free(model->print);
    free(model->line);
    *model = (struct halo_loaded_model){0};
}

void halo_loaded_finish(struct halo_loaded *loaded)
{
    for (size_t i = 0; i < loaded->n_models; i++)
        clear(&loaded->models[i]);
    free(loaded->models);
    *loaded = (struct halo_loaded){0};
}

struct halo_loaded_model *halo_loaded_find(const struct halo_loaded *loaded, struct halo_str name)
{
    char stem[HALO_MODEL_STEM_BYTES];
    halo_model_stem(name.at, name.len, stem);
    for (size_t i = 0; i < loaded->n_models; i++)
        if (halo_str_is(name, loaded->models[i].name) || strcmp(loaded->models[i].name, stem) == 0)
            return &loaded->models[i];
    return NULL;
}

int halo_loaded_set_print(struct halo_loaded_model *model, const char *print)
{
    char *copy = strdup(print);
    if (!copy)
        return -ENOMEM;
    free(model->print);
    model->print = copy;
    return 0;
}

int halo_loaded_put(struct halo_loaded *loaded, struct halo_str name, const char *print, const char *line,
                    size_t line_len)
{
    struct halo_loaded_model made = {
        .name = strndup(name.at, name.len), .print = strdup(print), .line = malloc(line_len + 1), .line_len = line_len};
    bool whole = made.name && made.print && made.line;
    struct halo_loaded_model *slot = halo_loaded_find(loaded, name);
    if (!slot) {
        struct halo_loaded_model *grown = realloc(loaded->models, (loaded->n_models + 1) * sizeof(*grown));
        if (grown)
            loaded->models = grown;
        if (!grown || !whole) {
            clear(&made);
            return -ENOMEM;
        }
        slot = &grown[loaded->n_models++];
        *slot = (struct halo_loaded_model){0};
    } else if (!whole) {
        clear(&made);
        return -ENOMEM;
    }
    memcpy(made.line, line, line_len);
    made.line[line_len] = '\0';
    clear(slot);
    *slot = made;
    halo_loaded_touch(loaded, name);
    return 0;
}

static void close_gap(struct halo_loaded *loaded, struct halo_loaded_model *at)
{
    size_t n_behind = loaded->n_models - (size_t)(at - loaded->models) - 1;
    memmove(at, at + 1, n_behind * sizeof(*at));
}

void halo_loaded_touch(struct halo_loaded *loaded, struct halo_str name)
{
    struct halo_loaded_model *model = halo_loaded_find(loaded, name);
    if (!model || model == &loaded->models[loaded->n_models - 1])
        return;
    struct halo_loaded_model moved = *model;
    close_gap(loaded, model);
    loaded->models[loaded->n_models - 1] = moved;
}

void halo_loaded_remove(struct halo_loaded *loaded, struct halo_str name)
{
    struct halo_loaded_model *model = halo_loaded_find(loaded, name);
    if (!model)
        return;
    clear(model);
    close_gap(loaded, model);
    loaded->n_models--;
}
