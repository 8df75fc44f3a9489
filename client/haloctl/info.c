/* info.c: `haloctl status`, `stats`, `diag`, `ping`: what the daemon says of itself. */
#include <stdio.h>

#include "ctl_priv.h"

static const struct halo_ctl_option no_options[] = {{NULL, 0, HALO_CTL_TRUE, 0, 0, NULL, NULL}};

static void print_raw(const char *title, struct halo_raw raw)
{
    if (raw.len > 0)
        printf("%-10s %.*s\n", title, (int)raw.len, raw.at);
}

static void print_str(const char *title, bool has, struct halo_str text)
{
    if (has)
        printf("%-10s %.*s\n", title, (int)text.len, text.at);
}

static void print_status(const struct halo_ev_status *s)
{
    if (s->has_engine) {
        const struct halo_part_engine_info *e = &s->engine;
        printf("%-10s %.*s", "engine", (int)e->state.len, e->state.at);
        if (e->has_pid)
            printf(", pid %lld", (long long)e->pid);
        printf(", %lld restarts\n", (long long)e->restarts);
        print_str("device", e->has_device, e->device);
        print_str("phase", e->has_phase, e->phase);
        print_str("reason", e->has_reason, e->reason);
        print_str("doctor", e->has_doctor, e->doctor);
    }
    printf("%-10s %lld running, %lld queued", "requests", (long long)s->running, (long long)s->queue);
    if (s->has_connections)
        printf(", %lld connections", (long long)s->connections);
    putchar('\n');
    for (size_t i = 0; i < s->models.n; i++) {
        const struct halo_part_model_info *m = &s->models.at[i];
        char size[32];
        printf("%-10s %.*s, %s", "model", (int)m->name.len, m->name.at, halo_ctl_bytes(m->bytes, size));
        if (m->has_context)
            printf(", context %lld", (long long)m->context);
        if (m->has_sequences)
            printf(", %lld sequences", (long long)m->sequences);
        putchar('\n');
    }
    if (s->has_memory)
        print_raw("memory", s->memory);
    if (s->has_uptime_ms)
        printf("%-10s %.1f s\n", "uptime", (double)s->uptime_ms / 1000);
    print_str("version", s->has_version, s->version);
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json)
        return;
    switch (ev->type) {
    case HALO_EV_STATUS: print_status(&ev->status); break;
    case HALO_EV_STATS:
        print_raw("counters", ev->stats.counters);
        print_raw("histograms", ev->stats.histograms);
        if (ev->stats.has_engine)
            print_raw("engine", ev->stats.engine);
        break;
    case HALO_EV_DIAG:
        print_raw("build", ev->diag.build);
        print_raw("device", ev->diag.device);
        print_raw("driver", ev->diag.driver);
        print_raw("kernels", ev->diag.kernels);
        break;
    case HALO_EV_PONG: printf("pong, up for %.1f s\n", (double)ev->pong.uptime_ms / 1000); break;
    default: break;
    }
}

static int ask(struct halo_ctl *ctl, int argc, char **argv, enum halo_msg_type type, const char *usage)
{
    struct halo_msg msg;
    halo_msg_init(&msg, type);
    int at = halo_ctl_parse(argc, argv, no_options, NULL, usage);
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc) {
        fprintf(stderr, "haloctl %s: takes no argument, got '%s'\n", argv[0], argv[at]);
        return HALO_CTL_USAGE;
    }
    return halo_ctl_run(ctl, &msg, on_event, NULL);
}

int halo_ctl_status(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_STATUS, "status");
}
int halo_ctl_stats(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_STATS, "stats");
}
int halo_ctl_diag(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_DIAG, "diag");
}
int halo_ctl_ping(struct halo_ctl *ctl, int argc, char **argv)
{
    return ask(ctl, argc, argv, HALO_MSG_PING, "ping");
}
