/* reload.c: models come back after a restart. */
#include <serve/reload.h>

#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>
#include <protocol/envelope.h>

#include <serve/notify.h>

static void forget(struct halo_daemon *daemon, const char *name, const char *reason)
{
    halo_log(HALO_LOG_WARN, "model %s does not come back: %s", name, reason);
    halo_loaded_remove(&daemon->loaded, halo_str_of(name));
}

static int send_load(struct halo_daemon *daemon, struct halo_loaded_model *model)
{
    static const struct halo_id nobody = {HALO_ID_NONE, 0, {NULL, 0}};
    struct halo_json *out = halo_engine_out(&daemon->engine);
    struct halo_envelope env;
    struct halo_request *request = halo_request_create(&daemon->requests, HALO_MSG_LOAD, &nobody);
    if (!request)
        return -1;
    struct halo_id id = halo_id_of((int64_t)request->id);
    request->reload_model = strdup(model->name);
    if (!request->reload_model || !out || halo_envelope_scan(model->line, model->line_len, &env) != 0 ||
        halo_envelope_rewrite(out, model->line, &env, &id) < 0) {
        halo_request_destroy(&daemon->requests, request);
        return -1;
    }
    request->phase = "loading";
    halo_request_move(&daemon->requests, request, HALO_REQUEST_SENT);
    return 0;
}

/* One model at a time: when the engine dies, it is clear over which. */
static void load_next(struct halo_daemon *daemon)
{
    struct halo_loaded *loaded = &daemon->loaded;
    struct halo_engine *engine = &daemon->engine;
    if (engine->state != HALO_ENGINE_LOADING)
        return;
    for (size_t i = 0; i < loaded->n_models;) {
        struct halo_loaded_model *model = &loaded->models[i];
        if (!model->missing) {
            i++;
        } else if (send_load(daemon, model) == 0) {
            halo_log(HALO_LOG_INFO, "loading %s again", model->name);
            model->reloading = true;
            return;
        } else {
            forget(daemon, model->name, "no memory for the request");
        }
    }
    halo_engine_move(engine, HALO_ENGINE_READY);
    engine->ready_ns = halo_clock_ns();
    halo_log(HALO_LOG_INFO, "engine is ready (%zu models)", loaded->n_models);
    halo_notify_status("ready, %zu models in memory", loaded->n_models);
    halo_dispatch_waiting(daemon);
}

void halo_reload_begin(struct halo_daemon *daemon)
{
    for (size_t i = 0; i < daemon->loaded.n_models; i++)
        daemon->loaded.models[i].missing = true;
    load_next(daemon);
}

void halo_reload_ended(struct halo_daemon *daemon, struct halo_request *request, bool loaded, const char *reason)
{
    struct halo_loaded_model *model = halo_loaded_find(&daemon->loaded, halo_str_of(request->reload_model));
    if (model) {
        model->missing = model->reloading = false;
        if (loaded)
            model->n_deaths = 0;
        else
            forget(daemon, request->reload_model, reason);
    }
    load_next(daemon);
}

void halo_reload_died(struct halo_daemon *daemon)
{
    struct halo_loaded *loaded = &daemon->loaded;
    for (size_t i = 0; i < loaded->n_models; i++) {
        struct halo_loaded_model *model = &loaded->models[i];
        if (!model->reloading)
            continue;
        model->reloading = false;
        if ((int64_t)++model->n_deaths >= daemon->config->request_deaths)
            forget(daemon, model->name, "the engine died each time it was loaded");
        return; /* there is only one at a time */
    }
}
