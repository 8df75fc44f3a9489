/* info.c: `haloctl status`, `stats`, `diag`, `ping`: what the daemon says about itself. */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

#include <client/clock.h>
#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

#define PING_AGAIN_MS 50
#define PING_WAIT_MAX_S 86400

static void print_named(const char *title, bool has, struct halo_str text)
{
    if (has)
        halo_client_print_line(stdout, "%-10s %.*s", title, (int)text.len, text.at);
}

static void print_engine(const struct halo_part_engine_info *e)
{
    char pid[40] = "";
    if (e->has_pid)
        snprintf(pid, sizeof(pid), ", pid %lld", (long long)e->pid);
    halo_client_print_line(stdout, "%-10s %.*s%s, %lld restart%s", "engine", (int)e->state.len, e->state.at, pid,
                           (long long)e->restarts, e->restarts == 1 ? "" : "s");
    print_named("device", e->has_device, e->device);
    print_named("worker", e->has_worker, e->worker);
    print_named("phase", e->has_phase, e->phase);
    print_named("reason", e->has_reason, e->reason);
    print_named("doctor", e->has_doctor, e->doctor);
}

/* What the oldest read in flight is; NULL: there is none. Ends the line. */
static void print_reading(const char *reading)
{
    if (reading) {
        printf("; reads ");
        halo_client_show_line(stdout, reading, strlen(reading));
    }
    putchar('\n');
}

/* "experts    93.7 % of 31.2 GB found in memory; steps waited 1.0 s for the disk". */
static void print_experts(struct halo_raw raw)
{
    json_t *json = json_loadb(raw.at, raw.len, 0, NULL);
    double hit = (double)json_integer_value(json_object_get(json, "hit_bytes"));
    double used = hit + (double)json_integer_value(json_object_get(json, "miss_bytes"));
    const char *reading = json_string_value(json_object_get(json, "reads"));
    char size[32], disk[32];
    printf("%-10s %lld slots for %s of experts on disk", "experts",
           (long long)json_integer_value(json_object_get(json, "slots")),
           halo_ctl_bytes(json_integer_value(json_object_get(json, "disk_bytes")), disk));
    if (used > 0)
        printf("; %.1f %% of %s found in memory, steps waited %.1f s for the disk", 100 * hit / used,
               halo_ctl_bytes((int64_t)used, size), (double)json_integer_value(json_object_get(json, "wait_us")) / 1e6);
    print_reading(reading);
    json_decref(json);
}

/* "layers     20 of them are read from disk for each step: 10.4 GB; steps waited 1.0 s for the disk". */
static void print_layers(struct halo_raw raw)
{
    json_t *json = json_loadb(raw.at, raw.len, 0, NULL);
    const char *reading = json_string_value(json_object_get(json, "reads"));
    char each[32], all[32];
    printf("%-10s %lld of them are read from disk for each step: %s; %s read so far, steps waited %.1f s for the disk",
           "layers", (long long)json_integer_value(json_object_get(json, "layers")),
           halo_ctl_bytes(json_integer_value(json_object_get(json, "disk_bytes")), each),
           halo_ctl_bytes(json_integer_value(json_object_get(json, "read_bytes")), all),
           (double)json_integer_value(json_object_get(json, "wait_us")) / 1e6);
    print_reading(reading);
    json_decref(json);
}

static void print_model(const struct halo_part_model_info *m)
{
    char size[32], memory[64] = "", context[48] = "", requests[48] = "";
    if (m->has_memory_bytes)
        snprintf(memory, sizeof(memory), " in %s of memory", halo_ctl_bytes(m->memory_bytes, size));
    if (m->has_context)
        snprintf(context, sizeof(context), ", context %lld", (long long)m->context);
    if (m->has_sequences)
        snprintf(requests, sizeof(requests), ", %lld request%s", (long long)m->sequences, m->sequences == 1 ? "" : "s");
    halo_client_print_line(stdout, "%-10s %.*s, %s%s%s%s%s", "model", (int)m->name.len, m->name.at,
                           halo_ctl_bytes(m->bytes, size), memory, context, requests,
                           m->has_pinned && m->pinned ? ", pinned" : "");
    if (m->has_experts)
        print_experts(m->experts);
    if (m->has_streamed_layers)
        print_layers(m->streamed_layers);
    halo_ctl_print_stages(&m->stages);
}

/* An object of names and bytes: "models 26.4 MB, budget 24.0 GB". */
static void print_memory(struct halo_raw raw)
{
    json_t *json = json_loadb(raw.at, raw.len, 0, NULL), *value;
    const char *key, *comma = "";
    char size[32];
    printf("%-10s ", "memory");
    json_object_foreach(json, key, value)
    {
        printf("%s", comma);
        halo_client_show_line(stdout, key, strlen(key));
        printf(" %s", halo_ctl_bytes(json_integer_value(value), size));
        comma = ", ";
    }
    putchar('\n');
    json_decref(json);
}

static void print_status(const struct halo_ev_status *s)
{
    char uptime[32];
    if (s->has_engine)
        print_engine(&s->engine);
    printf("%-10s %lld running, %lld queued", "requests", (long long)s->running, (long long)s->queue);
    if (s->has_connections)
        printf(", %lld connection%s", (long long)s->connections, s->connections == 1 ? "" : "s");
    putchar('\n');
    for (size_t i = 0; i < s->models.n; i++)
        print_model(&s->models.at[i]);
    if (s->has_memory)
        print_memory(s->memory);
    if (s->has_uptime_ms)
        printf("%-10s %s\n", "uptime", halo_ctl_duration(s->uptime_ms, uptime));
    print_named("version", s->has_version, s->version);
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    char uptime[32];
    if (ctl->json)
        return;
    switch (ev->type) {
    case HALO_EV_STATUS: print_status(&ev->status); break;
    case HALO_EV_STATS:
        halo_ctl_print_facts("counters", ev->stats.counters);
        halo_ctl_print_facts("histograms", ev->stats.histograms);
        if (ev->stats.has_engine)
            halo_ctl_print_facts("engine", ev->stats.engine);
        break;
    case HALO_EV_DIAG:
        halo_ctl_print_facts("build", ev->diag.build);
        halo_ctl_print_facts("device", ev->diag.device);
        halo_ctl_print_facts("driver", ev->diag.driver);
        halo_ctl_print_facts("kernels", ev->diag.kernels);
        break;
    case HALO_EV_PONG: printf("pong, up for %s\n", halo_ctl_duration(ev->pong.uptime_ms, uptime)); break;
    default: break;
    }
}

static int ask(struct halo_ctl *ctl, int argc, char **argv, enum halo_msg_type type)
{
    struct halo_msg msg;
    halo_msg_init(&msg, type);
    int at = halo_ctl_parse(ctl, argc, argv, NULL, NULL, argv[0]);
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc) {
        halo_client_say("%s: takes no argument, got '%s'", argv[0], argv[at]);
        return HALO_CTL_USAGE;
    }
    return halo_ctl_run(ctl, &msg, on_event, NULL);
}

int halo_ctl_status(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_STATUS);
}

int halo_ctl_stats(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_STATS);
}

int halo_ctl_diag(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_DIAG);
}

/* ---- ping ---- */

struct ping_options {
    double wait_s;
    bool has_wait;
};

static const struct halo_ctl_option ping_options[] = {
    {.name = "wait",
     .letter = 'w',
     .kind = HALO_CTL_NUMBER,
     .offset = offsetof(struct ping_options, wait_s),
     .has = offsetof(struct ping_options, has_wait),
     .value_name = "SECONDS",
     .help = "wait up to SECONDS for a daemon that is starting"},
    {.name = NULL},
};

int halo_ctl_ping(struct halo_ctl *ctl, int argc, char **argv)
{
    struct ping_options options = {0};
    struct halo_msg msg;
    char tried[1024];
    halo_msg_init(&msg, HALO_MSG_PING);
    int at = halo_ctl_parse(ctl, argc, argv, ping_options, &options, "ping [--wait SECONDS]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc || options.wait_s < 0 || options.wait_s > PING_WAIT_MAX_S) {
        if (at < argc)
            halo_client_say("ping: takes no argument, got '%s'", argv[at]);
        else
            halo_client_say("ping: --wait is a number of seconds from 0 to %d", PING_WAIT_MAX_S);
        return HALO_CTL_USAGE;
    }
    if (!options.has_wait)
        return halo_ctl_run(ctl, &msg, on_event, NULL);
    ctl->until_ms = halo_client_now_ms() + (int64_t)(options.wait_s * 1000);
    while (!halo_ctl_try_connect(ctl, tried, sizeof(tried)) && !halo_ctl_interrupts() &&
           halo_client_now_ms() < ctl->until_ms)
        poll(NULL, 0, PING_AGAIN_MS);
    return halo_ctl_interrupts() ? HALO_CTL_INTERRUPTED : halo_ctl_run(ctl, &msg, on_event, NULL);
}
