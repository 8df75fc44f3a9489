/* work.c: what a sane engine says of its jobs, one event at a time; what a mad one says; and what says nothing new. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "sim.h"
#include "table_priv.h"

#define VOCABULARY 50000

int32_t sim_token(const struct sim *sim, int story, unsigned pos)
{
    return (int32_t)(((unsigned)story * 7919u + pos * 104729u) % VOCABULARY);
}

double sim_logprob(unsigned pos)
{
    return -0.5 * (1 + pos % 7);
}

/* ---- the end of a job ---- */

struct sim_job sim_job_drop(struct sim *sim, size_t at)
{
    struct sim_engine *engine = &sim->engine;
    struct sim_job job = engine->jobs[at];
    engine->n_jobs--;
    memmove(&engine->jobs[at], &engine->jobs[at + 1], (engine->n_jobs - at) * sizeof(job));
    sim_engine_lets_go(sim, job.id);
    return job;
}

void sim_job_fail(struct sim *sim, size_t at, enum halo_error code)
{
    struct sim_job job = sim_job_drop(sim, at);
    if (job.story >= 0)
        sim->stories[job.story].said = code;
    sim_engine_says(sim, false,
                    "{\"type\":\"error\",\"id\":%" PRId64 ",\"code\":\"%s\",\"message\":\"m\",\"retryable\":false}",
                    job.id, halo_error_name(code));
}

static void end_job(struct sim *sim, size_t at, const char *reason)
{
    struct sim_job job = sim_job_drop(sim, at);
    sim_engine_says(sim, false,
                    "{\"type\":\"done\",\"id\":%" PRId64 ",\"finish_reason\":\"%s\",\"tokens\":%u,"
                    "\"prefill_tokens\":1,\"cached_tokens\":0}",
                    job.id, reason, job.type == HALO_MSG_GENERATE ? job.done : 0);
}

static void note_commit(struct sim *sim, struct sim_story *story)
{
    story->committed_here = true;
    sim->engine.n_idle = 0;
    sim->engine.is_on_trial = false;
    if (sim->engine.suspect == (int)(story - sim->stories))
        sim->engine.suspect = -1;
}

/* ---- replies and scores ---- */

static bool is_poisoned(struct sim *sim, struct sim_story *story, unsigned at)
{
    if (story->poison != (int)at || story->antidote == 0)
        return false;
    story->antidote--;
    sim_engine_dies(sim, "died of a request");
    return true;
}

static void begin(struct sim *sim, struct sim_job *job)
{
    struct sim_story *story = &sim->stories[job->story];
    job->started = true;
    story->began_with = job->model;
    story->version = sim->engine.models[job->model].in_memory;
    sim_engine_says(
        sim, false,
        "{\"type\":\"started\",\"id\":%" PRId64 ",\"model\":\"m%d\",\"prompt_tokens\":1,\"cached_tokens\":0,"
        "\"prompt_md5\":\"0\",\"effective_md5\":\"0\",\"newline_runs\":0,\"seed\":7,\"context\":64,\"changes\":[]}",
        job->id, job->model);
}

static void say_text(struct sim *sim, struct sim_job *job)
{
    struct sim_story *story = &sim->stories[job->story];
    char text[1024];
    memset(text, 'a' + job->texts % 26, sizeof(text));
    job->texts++;
    story->n_texts++;
    sim_engine_says(sim, false, "{\"type\":\"token\",\"id\":%" PRId64 ",\"text\":\"%.*s\"}", job->id,
                    (int)story->piece_bytes, text);
}

/* It works for a reader who is slow, and has read every order. */
static bool is_unheeded(const struct sim *sim, const struct sim_story *story)
{
    const struct sim_conn *conn = &sim->conns[story->conn];
    return story->open && conn->flow.state == HALO_PEER_SLOW && sim->engine.inbox_len == 0;
}

/* A record grows by powers of two from 64 ids on, at the cost of its user. */
static bool is_beyond_quota(const struct sim *sim, const struct sim_story *story)
{
    const struct halo_client *client = &sim->conns[story->conn].client;
    unsigned n = story->n_committed, more = n == 0 ? 64 : n;
    bool grows = n == 0 || (n >= 64 && (n & (n - 1)) == 0);
    return story->open && grows &&
           halo_quota_fits(&sim->quota, client->user, HALO_QUOTA_LINES, more * sizeof(int32_t)) != 0;
}

static void reply(struct sim *sim, size_t at)
{
    struct sim_job *job = &sim->engine.jobs[at];
    struct sim_story *story = &sim->stories[job->story];
    if (job->texts < job->done) {
        say_text(sim, job);
    } else if (!job->started) {
        begin(sim, job);
    } else if (job->done >= story->n) {
        end_job(sim, at, "length");
    } else if (!is_poisoned(sim, story, job->done)) {
        unsigned pos = job->done++;
        story->unkept = story->unkept || is_beyond_quota(sim, story);
        story->n_committed++;
        note_commit(sim, story);
        sim_engine_says(sim, false,
                        "{\"type\":\"committed\",\"id\":%" PRId64 ",\"tok_id\":%d,\"pos\":%u,\"t_ms\":1.000}", job->id,
                        sim_token(sim, job->story, pos), pos);
    }
}

static void score(struct sim *sim, size_t at)
{
    struct sim_job *job = &sim->engine.jobs[at];
    struct sim_story *story = &sim->stories[job->story];
    unsigned pos = job->done, first = job->started ? 0 : pos;
    char logprob[32] = "null";
    if (pos >= story->n) {
        unsigned n = story->n - 1 - job->texts;
        struct sim_job ended = sim_job_drop(sim, at);
        char nll[32] = "null";
        if (n > 0)
            snprintf(nll, sizeof(nll), "%.9g", ended.nll / n);
        sim_engine_says(sim, false, "{\"type\":\"done\",\"id\":%" PRId64 ",\"tokens\":%u,\"nll\":%s}", ended.id,
                        story->n, nll);
        return;
    }
    if (is_poisoned(sim, story, pos))
        return;
    if (!job->started)
        job->texts = first; /* its first row */
    job->started = true;
    job->done++;
    story->n_scored++;
    if (pos + 1 < story->n) {
        job->nll -= sim_logprob(pos);
        snprintf(logprob, sizeof(logprob), "%.9g", sim_logprob(pos));
    }
    note_commit(sim, story);
    sim_engine_says(sim, false, "{\"type\":\"score_row\",\"id\":%" PRId64 ",\"pos\":%u,\"tok_id\":1,\"logprob\":%s}",
                    job->id, pos, logprob);
}

/* ---- one event ---- */

static const char *const answers[HALO_N_MSGS] = {
    [HALO_MSG_TOKENIZE] = "\"tokens\",\"tokens\":[1],\"pieces\":[\"a\"]",
    [HALO_MSG_DETOKENIZE] = "\"text\",\"text\":\"a\"",
    [HALO_MSG_STATUS] = "\"status\",\"models\":[],\"queue\":0,\"running\":0",
    [HALO_MSG_STATS] = "\"stats\",\"counters\":{},\"histograms\":{}",
    [HALO_MSG_MODELS] = "\"models\",\"models\":[]",
    [HALO_MSG_BENCH] = "\"bench\",\"model\":\"m\"",
    [HALO_MSG_PROFILE] = "\"profile\",\"model\":\"m\",\"grid\":[]",
    [HALO_MSG_RESET] = "\"reset\",\"freed_pages\":1",
    [HALO_MSG_DIAG] = "\"diag\",\"build\":{},\"device\":{},\"driver\":{},\"kernels\":[]",
};

static bool names_a_model(enum halo_msg_type type)
{
    return type == HALO_MSG_GENERATE || type == HALO_MSG_SCORE || type == HALO_MSG_TOKENIZE ||
           type == HALO_MSG_DETOKENIZE || type == HALO_MSG_BENCH || type == HALO_MSG_RESET;
}

/* Told to end, or late: it has ended when this returns true. */
static bool is_over(struct sim *sim, size_t at)
{
    struct sim_job *job = &sim->engine.jobs[at];
    if (job->cancelled)
        end_job(sim, at, "cancelled");
    else if (sim->now_ns >= job->deadline_ns && job->done == 0)
        sim_job_fail(sim, at, HALO_ERROR_DEADLINE);
    else if (sim->now_ns >= job->deadline_ns)
        end_job(sim, at, "deadline");
    else
        return false;
    return true;
}

void sim_work(struct sim *sim, size_t at)
{
    struct sim_job *job = &sim->engine.jobs[at];
    if (is_over(sim, at) || job->paused)
        return;
    if (job->type == HALO_MSG_LOAD)
        sim_job_load(sim, at);
    else if (job->type == HALO_MSG_UNLOAD)
        sim_job_unload(sim, at);
    else if (names_a_model(job->type) && !sim_job_finds_model(sim, at))
        return;
    else if (job->story < 0 && !answers[job->type])
        return; /* nobody's: an order to end it is on its way */
    else if ((job->type == HALO_MSG_GENERATE || job->type == HALO_MSG_SCORE) &&
             is_unheeded(sim, &sim->stories[job->story]))
        sim_fail(sim, "pause", "a reply goes on though its reader has been slow for long");
    else if (job->type == HALO_MSG_GENERATE)
        reply(sim, at);
    else if (job->type == HALO_MSG_SCORE)
        score(sim, at);
    else if (!answers[job->type])
        sim_fail(sim, "lines", "the engine got a %s", halo_msg_type_name(job->type));
    else {
        struct sim_job ended = sim_job_drop(sim, at);
        sim_engine_says(sim, false, "{\"id\":%" PRId64 ",\"type\":%s}", ended.id, answers[ended.type]);
    }
}

void sim_work_all(struct sim *sim)
{
    size_t n = sim->engine.n_jobs;
    for (size_t at = 0; n > 0 && at < sim->engine.n_jobs && sim_engine_works(sim); n--) {
        int64_t id = sim->engine.jobs[at].id;
        sim_work(sim, at);
        if (at < sim->engine.n_jobs && sim->engine.jobs[at].id == id)
            at++;
    }
}

/* ---- what is not work ---- */

void sim_mad(struct sim *sim, uint32_t how, uint32_t which)
{
    struct sim_engine *engine = &sim->engine;
    const struct sim_job *job = engine->n_jobs > 0 ? &engine->jobs[which % engine->n_jobs] : NULL;
    bool heard_of = job && halo_request_find(&sim->requests, (uint64_t)job->id);
    if (how % 5 == 0)
        sim_engine_says(sim, true, "{\"type\":\"token\"");
    else if (how % 5 == 1 || !heard_of)
        sim_engine_says(sim, true, "{\"type\":\"pong\",\"id\":%" PRIu64 "}", sim->requests.last_id + 1 + which);
    else if (how % 5 == 2)
        sim_engine_says(sim, true, "{\"type\":\"committed\",\"id\":%" PRId64 ",\"tok_id\":1,\"pos\":%u}", job->id,
                        job->done + 1);
    else if (how % 5 == 3)
        sim_engine_says(sim, true, "{\"type\":\"saved\",\"id\":%" PRId64 "}", job->id);
    else
        sim_engine_says(sim, true,
                        "{\"type\":\"score_row\",\"id\":%" PRId64 ",\"tok_id\":1,\"pos\":%u,\"logprob\":null}", job->id,
                        job->done + 7);
}
