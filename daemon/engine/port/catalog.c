/* catalog.c: the answer to `models`: what the io thread found, and which of it is loaded. Port thread. */
#include <stdlib.h>
#include <string.h>

#include "port/port_priv.h"

/* The models that are loaded go along: the io thread looks whether their paths still lead to their files. */
static int list_loaded(const struct halo_port *port, struct halo_catalog *catalog)
{
    catalog->loaded = halo_arena_alloc(&catalog->arena, port->n_instances, sizeof(*catalog->loaded));
    if (!catalog->loaded)
        return -1;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        const struct halo_instance *instance = port->instances[i];
        if (instance->state == HALO_INSTANCE_LOADING)
            continue;
        struct halo_catalog_loaded *loaded = &catalog->loaded[catalog->n_loaded++];
        loaded->path = halo_arena_strndup(&catalog->arena, instance->path, strlen(instance->path));
        loaded->id = instance->file_id;
        if (!loaded->path)
            return -1;
    }
    return 0;
}

void halo_port_models(struct halo_port *port, struct halo_job *job)
{
    job->catalog = halo_catalog_create();
    if (!job->catalog || list_loaded(port, job->catalog) < 0) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for the list of models");
        return;
    }
    job->catalog->job = job;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &job->catalog->note, HALO_NOTE_CATALOG);
}

/* A loaded model that still is, by its file. NULL: none. */
static struct halo_instance *loaded_of(const struct halo_port *port, const struct halo_file_id *id)
{
    struct halo_instance *instance = halo_port_instance_of(port, id);
    return instance && instance->state != HALO_INSTANCE_LOADING ? instance : NULL;
}

static void describe(struct halo_port *port, const struct halo_catalog_entry *entry, struct halo_part_model_info *ret)
{
    struct halo_instance *instance = loaded_of(port, &entry->id);
    if (instance) {
        halo_port_describe_instance(port, instance, ret);
        ret->path = halo_str_of(entry->path);
        return;
    }
    const struct halo_instance *namesake = halo_port_instance_named(port, halo_str_of(entry->name));
    *ret = (struct halo_part_model_info){.name = halo_str_of(namesake && namesake->matched ? entry->path : entry->name),
                                         .path = halo_str_of(entry->path),
                                         .bytes = (int64_t)entry->bytes,
                                         .has_arch = entry->arch[0] != '\0',
                                         .arch = halo_str_of(entry->arch),
                                         .has_quant = entry->quant[0] != '\0',
                                         .quant = halo_str_of(entry->quant),
                                         .has_params = entry->n_params > 0,
                                         .params = (int64_t)entry->n_params,
                                         .has_context = entry->context > 0,
                                         .context = (int64_t)entry->context,
                                         .has_fault = entry->fault[0] != '\0',
                                         .fault = halo_str_of(entry->fault)};
}

static bool is_listed(const struct halo_catalog *catalog, const struct halo_file_id *id)
{
    for (size_t i = 0; i < catalog->n; i++)
        if (halo_file_id_is_unwritten(&catalog->entries[i].id, id))
            return true;
    return false;
}

/* Loaded models whose files are in none of the folders, or not in them any more. Returns how many. */
static size_t describe_others(struct halo_port *port, const struct halo_catalog *catalog,
                              struct halo_part_model_info *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < catalog->n_loaded; i++) {
        struct halo_instance *instance = loaded_of(port, &catalog->loaded[i].id);
        if (!instance || is_listed(catalog, &catalog->loaded[i].id))
            continue;
        halo_port_describe_instance(port, instance, &ret[n]);
        ret[n++].replaced = catalog->loaded[i].replaced;
    }
    return n;
}

static void answer(struct halo_port *port, struct halo_job *job, struct halo_part_model_info *models,
                   struct halo_part_folder_info *folders)
{
    const struct halo_catalog *catalog = job->catalog;
    struct halo_ev ev;
    for (size_t i = 0; i < catalog->n; i++)
        describe(port, &catalog->entries[i], &models[i]);
    for (size_t i = 0; i < catalog->n_folders; i++)
        folders[i] = (struct halo_part_folder_info){halo_str_of(catalog->folders[i].path),
                                                    halo_str_of(catalog->folders[i].fault)};
    halo_ev_init(&ev, HALO_EV_MODELS, &job->msg.id);
    ev.models.models.at = models;
    ev.models.models.n = catalog->n + describe_others(port, catalog, models + catalog->n);
    ev.models.folders.at = folders;
    ev.models.folders.n = catalog->n_folders;
    halo_job_end(port, job, &ev);
}

void halo_port_catalog_done(struct halo_port *port, struct halo_catalog *catalog)
{
    struct halo_job *job = catalog->job;
    struct halo_part_model_info *models = calloc(catalog->n + catalog->n_loaded + 1, sizeof(*models));
    struct halo_part_folder_info *folders = calloc(catalog->n_folders + 1, sizeof(*folders));
    if (catalog->fault.code != HALO_FAULT_NONE)
        halo_job_end_fault(port, job, &catalog->fault);
    else if (!models || !folders)
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for the list of models");
    else
        answer(port, job, models, folders);
    free(models);
    free(folders);
}
