/* progress.c: a progress bar on a terminal (in a pipe there is none); durations for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <protocol/utf8.h>

#include <client/show.h>

#include "ctl_priv.h"

#define BAR_CELLS 30
#define COLUMNS 80 /* of a terminal that does not say how many it has */

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

bool halo_ctl_obeys_sequences(void)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0;
}

/* In place of the bar that stands there, cut where the line of the terminal ends: a bar that wraps cannot be erased. */
static void show_bar(const char *bar)
{
    struct winsize size;
    bool has_size = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    size_t n = strlen(bar), columns = has_size ? size.ws_col - 1 : COLUMNS - 1;
    fputs("\r\033[K", stderr);
    halo_client_show_line(stderr, bar, halo_utf8_whole(bar, n < columns ? n : columns));
    fflush(stderr);
}

void halo_ctl_progress(struct halo_ctl *ctl, const struct halo_ev_progress *progress)
{
    if (!ctl->err_is_tty || ctl->quiet || ctl->json || ctl->mid_line || !halo_ctl_obeys_sequences())
        return;
    ctl->bar_shown = true;
    double share = progress->total > 0 ? (double)progress->done / (double)progress->total : 0;
    int filled = (int)(share * BAR_CELLS);
    char cells[BAR_CELLS + 1], done[32], total[32], bar[256];
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)(filled < 0 ? 0 : filled > BAR_CELLS ? BAR_CELLS : filled));
    cells[BAR_CELLS] = '\0';
    if (progress->phase == HALO_WIRE_PHASE_QUEUE)
        snprintf(bar, sizeof(bar), "queued, %lld before this one", (long long)progress->total);
    else if (progress->phase == HALO_WIRE_PHASE_PROFILE)
        snprintf(bar, sizeof(bar), "measuring the drive [%s] %3.0f %%  %.*s", cells, share * 100,
                 (int)(progress->has_step ? progress->step.len : 0), progress->has_step ? progress->step.at : "");
    else if (progress->phase == HALO_WIRE_PHASE_LOAD)
        snprintf(bar, sizeof(bar), "loading [%s] %3.0f %%  %s of %s", cells, share * 100,
                 halo_ctl_bytes(progress->done, done), halo_ctl_bytes(progress->total, total));
    else
        snprintf(bar, sizeof(bar), "reading the prompt [%s] %3.0f %%  %lld of %lld tokens", cells, share * 100,
                 (long long)progress->done, (long long)progress->total);
    show_bar(bar);
}

void halo_ctl_progress_clear(struct halo_ctl *ctl)
{
    /* Only where a bar stands: the line may be the reply's. */
    if (ctl->bar_shown)
        fputs("\r\033[K", stderr);
    ctl->bar_shown = false;
}
