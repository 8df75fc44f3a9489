/* reload.c: models come back after a restart. */
#include "reload_priv.h"

#include <stdio.h>
#include <string.h>

#include <base/log.h>
#include <protocol/envelope.h>

#include "dispatch_priv.h"
#include "link_priv.h"
#include "table_priv.h"

static void forget(struct halo_requests *requests, const char *name, const char *reason)
{
    halo_log(HALO_LOG_WARN, "model %s could not be reloaded: %s", name, reason);
    halo_known_models_remove(&requests->models, halo_str_of(name));
}

static int send_load(struct halo_requests *requests, const struct halo_known_model *model)
{
    struct halo_envelope env;
    struct halo_request *request = halo_request_create(requests, NULL, HALO_MSG_LOAD, NULL);
    if (!request)
        return -1;
    struct halo_id id = halo_id_of((int64_t)request->id);
    request->reload_model = strdup(model->name);
    if (!request->reload_model || halo_envelope_scan(model->line, model->line_len, &env) != 0 ||
        halo_envelope_rewrite(requests->link.out, model->line, &env, &id) < 0) {
        halo_request_destroy(requests, request);
        return -1;
    }
    request->phase = "loading";
    halo_request_move(requests, request, HALO_REQUEST_SENT);
    return 0;
}

/* One model at a time: when the engine dies, it is clear over which. */
static void load_next(struct halo_requests *requests)
{
    struct halo_known_models *known = &requests->models;
    char text[64];
    for (size_t i = 0; i < known->n_models;) {
        struct halo_known_model *model = &known->models[i];
        if (!model->missing) {
            i++;
        } else if (send_load(requests, model) == 0) {
            halo_log(HALO_LOG_INFO, "loading %s again", model->name);
            model->reloading = true;
            return;
        } else {
            forget(requests, model->name, "no memory for the request");
        }
    }
    halo_link_move(&requests->link, HALO_LINK_READY);
    halo_breaker_engine_ready(&requests->breaker, requests->now_ns);
    halo_log(HALO_LOG_INFO, "engine is ready (%zu model%s)", known->n_models, known->n_models == 1 ? "" : "s");
    snprintf(text, sizeof(text), "ready, %zu models in memory", known->n_models);
    requests->ops->status(requests->ud, text);
    halo_dispatch_waiting(requests);
}

void halo_reload_begin(struct halo_requests *requests)
{
    for (size_t i = 0; i < requests->models.n_models; i++)
        requests->models.models[i].missing = true;
    load_next(requests);
}

void halo_reload_ended(struct halo_requests *requests, struct halo_request *request, bool loaded, const char *reason)
{
    struct halo_known_model *model = halo_known_models_find(&requests->models, halo_str_of(request->reload_model));
    if (model) {
        model->missing = model->reloading = false;
        if (loaded)
            model->n_deaths = 0;
        else
            forget(requests, request->reload_model, reason);
    }
    load_next(requests);
}

void halo_reload_died(struct halo_requests *requests)
{
    struct halo_known_models *known = &requests->models;
    for (size_t i = 0; i < known->n_models; i++) {
        struct halo_known_model *model = &known->models[i];
        if (!model->reloading)
            continue;
        model->reloading = false;
        if ((int64_t)++model->n_deaths >= requests->config->request_deaths)
            forget(requests, model->name, "the engine died each time it was loaded");
        return; /* there is only one at a time */
    }
}
