/* profile.c: `haloctl profile`: how fast this machine reads a model, as a table. */
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <jansson.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

#define SIDE_MAX 16 /* different blocks or depths of a grid that are shown */

static const struct halo_ctl_option profile_options[] = {
    {.name = "stored",
     .kind = HALO_CTL_TRUE,
     .offset = offsetof(struct halo_msg_profile, stored),
     .has = HALO_CTL_NO_HAS,
     .help = "show what was measured before, measure nothing"},
    {.name = "point-ms",
     .kind = HALO_CTL_INTEGER,
     .offset = offsetof(struct halo_msg_profile, point_ms),
     .has = HALO_CTL_NO_HAS,
     .value_name = "N",
     .help = "time for each of 30 to 60 measurements of the drive (default 80)"},
    {.name = NULL},
};

/* ---- the grid ---- */

static size_t place_of(json_int_t *values, size_t *n, json_int_t value)
{
    size_t i = 0;
    while (i < *n && values[i] != value)
        i++;
    if (i == *n && *n < SIDE_MAX)
        values[(*n)++] = value;
    return i;
}

/* A row for each block size, a column for each depth. */
static void print_grid(struct halo_raw raw)
{
    json_int_t blocks[SIDE_MAX], depths[SIDE_MAX];
    double rates[SIDE_MAX][SIDE_MAX] = {{0}};
    size_t n_blocks = 0, n_depths = 0, i;
    json_t *grid = json_loadb(raw.at, raw.len, 0, NULL), *point;
    json_array_foreach(grid, i, point)
    {
        if (!json_is_object(point))
            continue;
        size_t block = place_of(blocks, &n_blocks, json_integer_value(json_object_get(point, "block_bytes")));
        size_t depth = place_of(depths, &n_depths, json_integer_value(json_object_get(point, "depth")));
        if (block < SIDE_MAX && depth < SIDE_MAX)
            rates[block][depth] = json_number_value(json_object_get(point, "gb_s"));
    }
    json_decref(grid);
    if (n_blocks == 0)
        return;
    printf("  GB/s with so many reads in flight:\n  %10s", "block");
    for (size_t d = 0; d < n_depths; d++)
        printf(" %7lld", (long long)depths[d]);
    putchar('\n');
    for (size_t b = 0; b < n_blocks; b++) {
        printf("  %6lld KiB", (long long)blocks[b] >> 10);
        for (size_t d = 0; d < n_depths; d++)
            if (rates[b][d] > 0)
                printf(" %7.2f", rates[b][d]);
            else
                printf(" %7s", "-");
        putchar('\n');
    }
}

/* ---- the rest ---- */

static void print_drive(const struct halo_ev_profile *p)
{
    char span[32], read[32];
    if (p->has_drive && p->drive.len > 0)
        halo_client_print_line(stdout, "  drive    %.*s", (int)p->drive.len, p->drive.at);
    if (p->has_drive_celsius)
        printf("  heat     %.0f degrees Celsius\n", p->drive_celsius);
    if (p->has_disk_fault)
        halo_client_print_line(stdout, "  disk     not measured: %.*s", (int)p->disk_fault.len, p->disk_fault.at);
    if (!p->has_disk_gb_s)
        return;
    printf("  disk     %.2f GB/s by reads of %lld KiB, %lld in flight", p->disk_gb_s,
           (long long)p->disk_block_bytes >> 10, (long long)p->disk_depth);
    if (p->has_disk_latency_us)
        printf("; one read alone takes %.0f us", p->disk_latency_us);
    printf("\n           %s read at random from %s", halo_ctl_bytes(p->read_bytes, read),
           halo_ctl_bytes(p->span_bytes, span));
    if (p->has_io)
        halo_client_print_line(stdout, " (%.*s)", (int)p->io.len, p->io.at);
    else
        putchar('\n');
    print_grid(p->grid);
}

static void print_profile(const struct halo_ev_profile *p)
{
    char when[64] = "";
    time_t seconds = (time_t)p->measured_s;
    struct tm local;
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof(when), ", measured %Y-%m-%d %H:%M", &local);
    halo_client_print_line(stdout, "%.*s on %.*s%s", (int)p->model.len, p->model.at, (int)p->device.len, p->device.at,
                           when);
    halo_client_print_line(stdout, "  machine  %.*s", (int)p->machine.len, p->machine.at);
    if (p->has_memory_gb_s)
        printf("  memory   %.1f GB/s\n", p->memory_gb_s);
    else
        puts("  memory   not measured: others used the device");
    if (p->has_copy_gb_s)
        printf("  copy     %.1f GB/s from the host's memory to the device's\n", p->copy_gb_s);
    if (p->has_launch_us)
        printf("  launch   %.1f us\n", p->launch_us);
    print_drive(p);
    if (p->shared)
        puts("  others used device or drive meanwhile: the figures may be too low");
    if (p->has_not_stored)
        halo_client_print_line(stdout, "  not kept: %.*s", (int)p->not_stored.len, p->not_stored.at);
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (!ctl->json && ev->type == HALO_EV_PROFILE)
        print_profile(&ev->profile);
}

int halo_ctl_profile(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_PROFILE);
    int at = halo_ctl_parse(ctl, argc, argv, profile_options, &msg.profile, "profile [OPTION...] MODEL|PATH");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &msg.profile.model))
        return HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_event, NULL);
}
