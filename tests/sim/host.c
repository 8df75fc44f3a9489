/* host.c: the loop around everything: time, what daemon.c does between its parts, and how a life begins and ends. */
#include <stdlib.h>
#include <string.h>

#include "flow_priv.h"
#include "owner.h"
#include "run.h"
#include "sim.h"
#include "table_priv.h"

#define START_MS 1000
#define CALM_ROUNDS 100000
#define CALM_MS 3600000   /* of the world's time */
#define MOST_TURNS 100000 /* timers within one pause */

/* Settings whose limits a few clients reach. The first row has the defaults of the policies and small limits. */
static const struct setting {
    int64_t open_requests, queued_requests, output_high, output_low, output_user, output_all, resume_all, resume_user;
    int64_t request_deaths, breaker_deaths, wait_ms, stall_ms;
    bool on_demand;
    unsigned poison_every;
} settings[] = {
    {8, 32, 4096, 1024, 16384, 65536, 65536, 16384, 3, 5, 30000, 5000, true, 24},
    {4, 16, 4096, 0, 8192, 16384, 8192, 4096, 3, 5, 2000, 500, true, 100},
    {12, 24, 8192, 4096, 65536, 131072, 131072, 65536, 2, 3, 30000, 1000, true, 50},
    {16, 64, 4096, 1024, 32768, 65536, 32768, 32768, 3, 5, 1000, 30000, false, 24},
    {8, 16, 4096, 1024, 16384, 65536, 65536, 16384, 1, 2, 10000, 5000, true, 400},
    {16, 128, 16384, 1024, 131072, 262144, 262144, 131072, 4, 8, 60000, 2000, true, 16},
};

/* ---- what halod asks of its owner ---- */

static const char *engine_state(void *ud)
{
    return "simulated";
}

static const char *death_note(void *ud, bool advise)
{
    return "";
}

static void breaker_closed(void *ud)
{
    struct sim *sim = ud;
    sim->engine.is_on_trial = true;
    sim->engine.n_mute = 0;
    if (sim->engine.state == HALO_ENGINE_DOWN)
        sim_engine_start(sim);
}

static void status(void *ud, const char *text)
{
}

static int draw_seed(void *ud, int64_t *ret_seed)
{
    struct sim *sim = ud;
    *ret_seed = sim->next_seed++;
    return 0;
}

static int64_t wall_s(void *ud)
{
    return 1700000000;
}

static const struct halo_requests_ops ops = {
    .query = owner_query,
    .engine_state = engine_state,
    .death_note = death_note,
    .breaker_closed = breaker_closed,
    .status = status,
    .draw_seed = draw_seed,
    .wall_s = wall_s,
};

/* ---- the loop ---- */

void sim_settle(struct sim *sim)
{
    if (sim->requests.dispatch_due)
        halo_requests_dispatch(&sim->requests, sim->now_ns);
    while (sim->requests.touched.first) {
        struct halo_client *client = HALO_LIST_ITEM(sim->requests.touched.first, struct halo_client, touch);
        sim_conn_flush(sim, HALO_LIST_ITEM(client, struct sim_conn, client));
    }
    sim_engine_flush(sim);
    if (!sim->requests.dispatch_due) /* else the next turn sends what now may be sent */
        sim_check(sim);
    else
        sim_settle(sim);
}

static uint64_t next_due(const struct sim *sim)
{
    uint64_t at_ns = sim_engine_due(sim);
    if (sim->requests.next_ns < at_ns)
        at_ns = sim->requests.next_ns;
    for (int i = 0; i < SIM_CONNS; i++) {
        uint64_t due_ns = sim_conn_due(sim, &sim->conns[i]);
        at_ns = due_ns < at_ns ? due_ns : at_ns;
    }
    return at_ns;
}

void sim_pass(struct sim *sim, uint64_t ms)
{
    uint64_t end_ns = sim->now_ns + ms * SIM_MS, due_ns;
    unsigned n = 0;
    while ((due_ns = next_due(sim)) <= end_ns) {
        if (n++ == MOST_TURNS)
            sim_fail(sim, "time", "the same timers are due again and again");
        if (due_ns > sim->now_ns)
            sim->now_ns = due_ns;
        if (sim->requests.next_ns <= sim->now_ns) {
            halo_requests_expire(&sim->requests, sim->now_ns);
            sim_settle(sim);
        }
        for (int i = 0; i < SIM_CONNS; i++)
            if (sim_conn_due(sim, &sim->conns[i]) <= sim->now_ns)
                sim_conn_tick(sim, &sim->conns[i]);
        if (sim_engine_due(sim) <= sim->now_ns)
            sim_engine_tick(sim);
    }
    sim->now_ns = end_ns;
}

/* ---- a life ---- */

void sim_begin(struct sim *sim, unsigned config, struct sim_report *report)
{
    const struct setting *setting = &settings[config % (sizeof(settings) / sizeof(settings[0]))];
    sim->report = report;
    sim->now_ns = START_MS * SIM_MS;
    sim->restart_ns = UINT64_MAX;
    halo_log_set_level(HALO_LOG_ERROR);
    if (halo_config_init(&sim->config) < 0)
        abort();
    sim->config.open_requests = setting->open_requests;
    sim->config.queued_requests = setting->queued_requests;
    sim->config.output_high_bytes = setting->output_high;
    sim->config.output_low_bytes = setting->output_low;
    sim->config.output_user_bytes = setting->output_user;
    sim->config.output_bytes = setting->output_all;
    sim->config.resume_bytes = setting->resume_all;
    sim->config.resume_user_bytes = setting->resume_user;
    sim->config.request_deaths = setting->request_deaths;
    sim->config.breaker_deaths = setting->breaker_deaths;
    sim->config.wait_ms = setting->wait_ms;
    sim->config.stall_ms = setting->stall_ms;
    sim->config.on_demand = setting->on_demand;
    sim->poison_every = setting->poison_every;
    sim->config.connections = SIM_CONNS;
    sim->config.step_ms = 20000;
    halo_quota_init(&sim->quota, &sim->config, 999);
    halo_requests_init(&sim->requests, &sim->config, &sim->quota, &sim->counters, &ops, sim, sim->now_ns);
    halo_json_init(&sim->engine.out);
    sim->engine.at_ns = sim->engine.watch_ns = UINT64_MAX;
    sim->engine.suspect = -1;
    sim_engine_start(sim);
}

static bool is_over(const struct sim *sim)
{
    return sim->requests.all.n == 0 && sim->requests.link.state == HALO_LINK_READY;
}

void sim_calm(struct sim *sim)
{
    uint64_t end_ns = sim->now_ns + CALM_MS * SIM_MS;
    unsigned round = 0;
    sim->engine.silent_until_ns = sim->engine.stuck_since_ns = 0;
    for (int i = 0; i < SIM_CONNS; i++) {
        sim->conns[i].reads = true;
        sim_read(sim, i, SIZE_MAX);
    }
    for (size_t i = 0; i < sim->n_stories; i++)
        if (sim->stories[i].open && sim->stories[i].endless)
            sim->stories[i].n = sim->stories[i].n_committed + 1;
    for (; !is_over(sim); round++) {
        if (round == CALM_ROUNDS || sim->now_ns > end_ns)
            sim_fail(sim, "for_ever",
                     "nothing is in the way, and %zu requests do not end; the oldest is a %s, state %d",
                     sim->requests.all.n, halo_msg_type_name(halo_request_first(&sim->requests)->type),
                     halo_request_first(&sim->requests)->state);
        sim_engine_hears(sim, UINT32_MAX);
        sim_work_all(sim);
        sim_pass(sim, sim_engine_works(sim) ? 1 : (next_due(sim) - sim->now_ns) / SIM_MS + 1);
    }
    for (int kind = 0; kind < HALO_N_QUOTA_KINDS; kind++)
        if (kind != HALO_QUOTA_CONNECTIONS && sim->quota.used[kind] != 0)
            sim_fail(sim, "quota", "nothing is open, and %lld of kind %d are charged", (long long)sim->quota.used[kind],
                     kind);
}

void sim_end(struct sim *sim)
{
    sim_calm(sim);
    sim->requests.accepts = false; /* SIGTERM */
    for (int i = 0; i < SIM_CONNS; i++) {
        sim_ask(sim, i, (uint32_t)i, (uint32_t)i);
        sim_leave(sim, i);
    }
    halo_requests_engine_left(&sim->requests);
    halo_requests_end_all(&sim->requests, HALO_ERROR_SHUTTING_DOWN, "the end", sim->now_ns);
    sim->report->n_requests = sim->n_stories;
    sim->report->counters = sim->counters;
    halo_requests_finish(&sim->requests);
    halo_quota_finish(&sim->quota);
    halo_config_finish(&sim->config);
    halo_json_finish(&sim->engine.out);
    free(sim->engine.inbox);
    free(sim->stories);
}

/* ---- events ---- */

/* An event of a request that is over, as it may cross an order to end it. */
static void speak_late(struct sim *sim, uint32_t which)
{
    const struct sim_sent *sent = &sim->sent[which % SIM_SENT];
    if (sent->id > 0 && !halo_request_find(&sim->requests, (uint64_t)sent->id))
        sim_engine_says(sim, false, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":1,\"pos\":%u}", (long long)sent->id,
                        which);
}

static void wait_for(struct sim *sim, const struct sim_event *event)
{
    if (event->b % 64 == 0)
        sim_pass(sim, event->a % 40000);
    else if (event->b % 8 == 0)
        sim_pass(sim, event->a % 1000);
    else
        sim_pass(sim, event->a % 20);
}

static void curse(struct sim *sim, const struct sim_event *event)
{
    struct sim_model *model = &sim->engine.models[event->a % SIM_MODELS];
    model->cursed = event->b % 8 == 0;
    model->broken = event->b % 8 == 1;
}

static void engine_does(struct sim *sim, const struct sim_event *event)
{
    struct sim_engine *engine = &sim->engine;
    if (event->kind == SIM_die)
        sim_engine_dies(sim, "was killed");
    if (!sim_engine_works(sim))
        return;
    switch (event->kind) {
    case SIM_hear: sim_engine_hears(sim, event->a % 16 == 0 ? UINT32_MAX : event->a % 4); return;
    case SIM_step:
        if (engine->n_jobs > 0)
            sim_work(sim, event->a % engine->n_jobs);
        return;
    case SIM_round: sim_work_all(sim); return;
    case SIM_silent: engine->silent_until_ns = sim->now_ns + event->a % 30000 * SIM_MS; return;
    case SIM_stuck: engine->stuck_since_ns = sim->now_ns; return;
    case SIM_mad: sim_mad(sim, event->a, event->b); return;
    case SIM_late: speak_late(sim, event->a); return;
    case SIM_unload: sim_unload_idle(sim, event->a); return;
    default: return;
    }
}

void sim_do(struct sim *sim, const struct sim_event *event)
{
    int slot = (int)(event->a % SIM_CONNS);
    struct sim_conn *conn = &sim->conns[slot];
    switch (event->kind) {
    case SIM_pass: wait_for(sim, event); return;
    case SIM_connect: sim_connect(sim, slot, event->b); return;
    case SIM_leave: sim_leave(sim, slot); return;
    case SIM_half: sim_half(sim, slot); return;
    case SIM_ask: sim_ask(sim, slot, event->b, event->c); return;
    case SIM_cancel: sim_cancel(sim, slot, event->b); return;
    case SIM_habit:
        conn->reads = event->b % 3 == 0;
        if (conn->reads)
            sim_read(sim, slot, SIZE_MAX);
        return;
    case SIM_read: sim_read(sim, slot, event->b % 2048); return;
    case SIM_swap: sim->engine.models[event->a % SIM_MODELS].on_disk++; return;
    case SIM_curse: curse(sim, event); return;
    case SIM_breaker:
        if (sim->requests.breaker.open)
            sim_ask(sim, slot, 11 + (event->b & 0xff00), event->c);
        return;
    case SIM_calm: sim_calm(sim); return;
    default: engine_does(sim, event); return;
    }
}
