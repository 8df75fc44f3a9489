/* loaded.c: the list of models to bring back. A handful of entries, searched one by one. */
#include <serve/loaded.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void clear(struct halo_loaded_model *model)
{
    free(model->name);
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

struct halo_loaded_model *halo_loaded_find(struct halo_loaded *loaded, struct halo_str name)
{
    for (size_t i = 0; i < loaded->n_models; i++)
        if (halo_str_is(name, loaded->models[i].name))
            return &loaded->models[i];
    return NULL;
}

int halo_loaded_put(struct halo_loaded *loaded, struct halo_str name, const char *line, size_t line_len)
{
    struct halo_loaded_model made = {
        .name = strndup(name.at, name.len), .line = malloc(line_len + 1), .line_len = line_len};
    struct halo_loaded_model *slot = halo_loaded_find(loaded, name);
    if (slot == NULL) {
        struct halo_loaded_model *grown = realloc(loaded->models, (loaded->n_models + 1) * sizeof(*grown));
        if (grown != NULL)
            loaded->models = grown;
        if (grown == NULL || made.name == NULL || made.line == NULL) {
            clear(&made);
            return -ENOMEM;
        }
        slot = &grown[loaded->n_models++];
        *slot = (struct halo_loaded_model){0};
    } else if (made.name == NULL || made.line == NULL) {
        clear(&made);
        return -ENOMEM;
    }
    memcpy(made.line, line, line_len);
    made.line[line_len] = '\0';
    clear(slot);
    *slot = made;
    return 0;
}

void halo_loaded_remove(struct halo_loaded *loaded, struct halo_str name)
{
    struct halo_loaded_model *model = halo_loaded_find(loaded, name);
    if (model == NULL)
        return;
    clear(model);
    *model = loaded->models[--loaded->n_models];
}
