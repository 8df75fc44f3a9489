/* models.c: the memory of the scripted engine: room for SIM_ROOM models, loads one at a time, evictions. */
#include <inttypes.h>

#include "sim.h"

#define LOAD_STEPS 3

static bool is_used(const struct sim_engine *engine, int model)
{
    for (size_t i = 0; i < engine->n_jobs; i++)
        if (engine->jobs[i].running && engine->jobs[i].model == model)
            return true;
    return false;
}

static bool has_job_for(const struct sim_engine *engine, enum halo_msg_type type, int model)
{
    for (size_t i = 0; i < engine->n_jobs; i++)
        if (engine->jobs[i].type == type && engine->jobs[i].model == model)
            return true;
    return false;
}

static unsigned n_loaded(const struct sim_engine *engine)
{
    unsigned n = 0;
    for (int i = 0; i < SIM_MODELS; i++)
        n += engine->models[i].loaded;
    return n;
}

static void unload_by_itself(struct sim *sim, int model, const char *reason)
{
    sim->engine.models[model].loaded = sim->engine.models[model].pinned = false;
    sim_engine_says(sim, false,
                    "{\"type\":\"unloaded\",\"id\":null,\"model\":\"m%d\",\"freed_bytes\":1,\"reason\":\"%s\"}", model,
                    reason);
}

/* The model that goes to make room; -1: none can. */
static int find_victim(const struct sim_engine *engine)
{
    int victim = -1;
    for (int i = 0; i < SIM_MODELS; i++) {
        const struct sim_model *model = &engine->models[i];
        if (model->loaded && !model->pinned && !is_used(engine, i) &&
            (victim < 0 || model->used < engine->models[victim].used))
            victim = i;
    }
    return victim;
}

/* A load that fails ends those that wait for the model with its reason. */
static void fail_load(struct sim *sim, size_t at, enum halo_error code)
{
    struct sim_engine *engine = &sim->engine;
    int model = engine->jobs[at].model;
    sim_job_fail(sim, at, code);
    for (size_t i = 0; i < engine->n_jobs;) {
        const struct sim_job *job = &engine->jobs[i];
        if (job->model == model && !job->running && job->type != HALO_MSG_LOAD && job->type != HALO_MSG_UNLOAD)
            sim_job_fail(sim, i, code);
        else
            i++;
    }
}

static void finish_load(struct sim *sim, size_t at)
{
    struct sim_job job = sim_job_drop(sim, at);
    struct sim_model *model = &sim->engine.models[job.model];
    model->pinned = job.pin || (model->loaded && model->pinned);
    if (!model->loaded)
        model->in_memory = model->on_disk;
    model->loaded = true;
    model->used = ++sim->engine.clock;
    sim_engine_says(sim, false,
                    "{\"type\":\"loaded\",\"id\":%" PRId64
                    ",\"model\":\"m%d\",\"arch\":\"a\",\"device\":\"d\",\"context\":64,"
                    "\"kv_tokens\":128,\"weights_bytes\":1,\"kv_bytes\":1,\"load_ms\":1,\"gb_s\":1,\"tiers\":{},"
                    "\"stamp\":\"v%d\",\"pinned\":%s}",
                    job.id, job.model, model->in_memory, model->pinned ? "true" : "false");
}

static bool is_first_load(const struct sim_engine *engine, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (engine->jobs[i].type == HALO_MSG_LOAD)
            return false;
    return true;
}

void sim_job_load(struct sim *sim, size_t at)
{
    struct sim_engine *engine = &sim->engine;
    struct sim_job *job = &engine->jobs[at];
    struct sim_model *model = &engine->models[job->model];
    int victim;
    if (!is_first_load(engine, at))
        return;
    if (model->loaded) {
        finish_load(sim, at);
    } else if (job->done++ < LOAD_STEPS) {
        sim_engine_says(sim, false,
                        "{\"type\":\"progress\",\"id\":%" PRId64 ",\"phase\":\"load\",\"done\":%u,\"total\":3}",
                        job->id, job->done);
    } else if (model->cursed) {
        sim_engine_dies(sim, "died of a model");
    } else if (model->broken) {
        fail_load(sim, at, HALO_ERROR_LOAD_FAILED);
    } else if (n_loaded(engine) < SIM_ROOM) {
        finish_load(sim, at);
    } else if ((victim = find_victim(engine)) >= 0) {
        unload_by_itself(sim, victim, "room");
    } else {
        fail_load(sim, at, HALO_ERROR_OUT_OF_MEMORY);
    }
}

void sim_job_unload(struct sim *sim, size_t at)
{
    struct sim_engine *engine = &sim->engine;
    int model = engine->jobs[at].model;
    if (is_used(engine, model))
        return;
    if (!engine->models[model].loaded) {
        sim_job_fail(sim, at, HALO_ERROR_NOT_FOUND);
        return;
    }
    struct sim_job job = sim_job_drop(sim, at);
    engine->models[model].loaded = engine->models[model].pinned = false;
    sim_engine_says(sim, false, "{\"type\":\"unloaded\",\"id\":%" PRId64 ",\"model\":\"m%d\",\"freed_bytes\":1}",
                    job.id, model);
}

/* The one model that is loaded, for a request that names none; -1: not one. */
static int only_model(const struct sim_engine *engine)
{
    int only = -1;
    for (int i = 0; i < SIM_MODELS; i++)
        if (engine->models[i].loaded)
            only = only < 0 ? i : SIM_MODELS;
    return only == SIM_MODELS ? -1 : only;
}

bool sim_job_finds_model(struct sim *sim, size_t at)
{
    struct sim_engine *engine = &sim->engine;
    struct sim_job *job = &engine->jobs[at];
    if (job->running)
        return true;
    if (job->model < 0)
        job->model = only_model(engine);
    if (job->model >= 0 &&
        (has_job_for(engine, HALO_MSG_LOAD, job->model) || has_job_for(engine, HALO_MSG_UNLOAD, job->model)))
        return false;
    if (job->model < 0 || !engine->models[job->model].loaded) {
        sim_job_fail(sim, at, HALO_ERROR_NOT_FOUND);
        return false;
    }
    job->running = true;
    engine->models[job->model].used = ++engine->clock;
    return true;
}

void sim_unload_idle(struct sim *sim, uint32_t which)
{
    struct sim_engine *engine = &sim->engine;
    int model = (int)(which % SIM_MODELS);
    if (engine->models[model].loaded && !engine->models[model].pinned && !is_used(engine, model))
        unload_by_itself(sim, model, "idle");
}
