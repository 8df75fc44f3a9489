/* progress.c: a progress bar on a terminal (in a pipe there is none); durations for people. */
#include <stdio.h>
#include <string.h>

#include "ctl_priv.h"

#define BAR_CELLS 30

const char *halo_ctl_duration(int64_t ms, char buf[static 32])
{
    int64_t s = ms / 1000;
    if (s < 60)
        snprintf(buf, 32, "%.1f s", (double)ms / 1000);
    else if (s < 3600)
        snprintf(buf, 32, "%d min %d s", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        snprintf(buf, 32, "%d h %d min", (int)(s / 3600), (int)(s / 60 % 60));
    else
        snprintf(buf, 32, "%lld day%s %d h", (long long)(s / 86400), s < 172800 ? "" : "s", (int)(s / 3600 % 24));
    return buf;
}

void halo_ctl_progress(struct halo_ctl *ctl, const struct halo_ev_progress *progress)
{
    if (!ctl->err_is_tty || ctl->quiet || ctl->json || ctl->mid_line)
        return;
    ctl->bar_shown = true;
    if (progress->phase == HALO_WIRE_PHASE_QUEUE) {
        fprintf(stderr, "\r\033[Kqueued, %lld before this one", (long long)progress->total);
        fflush(stderr);
        return;
    }
    double share = progress->total > 0 ? (double)progress->done / (double)progress->total : 0;
    int filled = (int)(share * BAR_CELLS);
    char cells[BAR_CELLS + 1], done[32], total[32];
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)(filled < 0 ? 0 : filled > BAR_CELLS ? BAR_CELLS : filled));
    cells[BAR_CELLS] = '\0';
    if (progress->phase == HALO_WIRE_PHASE_PROFILE)
        fprintf(stderr, "\r\033[Kmeasuring the drive [%s] %3.0f %%  %.*s", cells, share * 100,
                (int)(progress->has_step ? progress->step.len : 0), progress->has_step ? progress->step.at : "");
    else if (progress->phase == HALO_WIRE_PHASE_LOAD)
        fprintf(stderr, "\r\033[Kloading [%s] %3.0f %%  %s of %s", cells, share * 100,
                halo_ctl_bytes(progress->done, done), halo_ctl_bytes(progress->total, total));
    else
        fprintf(stderr, "\r\033[Kreading the prompt [%s] %3.0f %%  %lld of %lld tokens", cells, share * 100,
                (long long)progress->done, (long long)progress->total);
    fflush(stderr);
}

void halo_ctl_progress_clear(struct halo_ctl *ctl)
{
    /* Only where a bar stands: the line may be the reply's. */
    if (ctl->bar_shown)
        fputs("\r\033[K", stderr);
    ctl->bar_shown = false;
}
