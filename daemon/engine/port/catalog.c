/* catalog.c: the answer to `models`: what the io thread found, and which of it is loaded. Port thread. */
#include <stdlib.h>
#include <string.h>

#include "port_priv.h"

void halo_port_models(struct halo_port *port, struct halo_job *job)
{
    job->catalog = halo_catalog_create();
    if (!job->catalog) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for the list of models");
        return;
    }
    job->catalog->job = job;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &job->catalog->note, HALO_NOTE_CATALOG);
}

static void describe(struct halo_port *port, const struct halo_catalog_entry *entry, struct halo_part_model_info *ret)
{
    *ret = (struct halo_part_model_info){.name = halo_str_of(entry->name),
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
    struct halo_instance *instance = halo_port_instance_at(port, entry->path);
    if (!instance || instance->state == HALO_INSTANCE_LOADING)
        return;
    ret->quant = halo_str_of(instance->model->quant);
    ret->has_quant = true;
    halo_port_fill_model(port, instance, ret);
}

void halo_port_catalog_done(struct halo_port *port, struct halo_catalog *catalog)
{
    struct halo_job *job = catalog->job;
    struct halo_part_model_info *models = calloc(catalog->n + 1, sizeof(*models));
    struct halo_ev ev;
    if (catalog->fault.code != HALO_FAULT_NONE) {
        halo_job_end_fault(port, job, &catalog->fault);
    } else if (!models) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for the list of models");
    } else {
        for (size_t i = 0; i < catalog->n; i++)
            describe(port, &catalog->entries[i], &models[i]);
        halo_ev_init(&ev, HALO_EV_MODELS, &job->msg.id);
        ev.models.models.at = models;
        ev.models.models.n = catalog->n;
        halo_job_end(port, job, &ev);
    }
    free(models);
}
