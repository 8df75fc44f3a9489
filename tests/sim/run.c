/* run.c: see run.h. */
#include "run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

#define SHOWN_BYTES 4096
#define LIFE_S 60 /* of a child's processor time; a life takes milliseconds */

void sim_fail(struct sim *sim, const char *rule, const char *format, ...)
{
    struct sim_report *report = sim->report;
    va_list args;
    va_start(args, format);
    vsnprintf(report->text, sizeof(report->text), format, args);
    va_end(args);
    snprintf(report->rule, sizeof(report->rule), "%s", rule);
    report->failed = true;
    _exit(1);
}

static void live(const struct sim_life *life, struct sim_report *report)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (!sim)
        abort();
    alarm(LIFE_S);
    sim_begin(sim, life->config, report);
    for (report->at = 0; report->at < life->n; report->at++)
        sim_do(sim, &life->events[report->at]);
    sim_end(sim);
    free(sim);
}

/* What halod logs, and what an assertion or a sanitizer says, is shown when the life fails. */
static void show(int fd)
{
    char text[SHOWN_BYTES];
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t n = pread(fd, text, sizeof(text), end > (off_t)sizeof(text) ? end - (off_t)sizeof(text) : 0);
    if (n > 0)
        fprintf(stderr, "%.*s", (int)n, text);
}

static void note_end(struct sim_report *report, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    if (report->failed)
        return;
    report->failed = true;
    if (WIFSIGNALED(status)) {
        snprintf(report->rule, sizeof(report->rule), "signal %d", WTERMSIG(status));
        snprintf(report->text, sizeof(report->text), "%s",
                 WTERMSIG(status) == SIGALRM ? "it does not come to an end" : strsignal(WTERMSIG(status)));
    } else {
        snprintf(report->rule, sizeof(report->rule), "exit %d", WEXITSTATUS(status));
        snprintf(report->text, sizeof(report->text), "exit status %d, of a sanitizer or a library",
                 WEXITSTATUS(status));
    }
}

int sim_run(const struct sim_life *life, bool quiet, struct sim_report *ret_report)
{
    int status = 0, r = 0;
    struct sim_report *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -errno;
    int log = memfd_create("sim-log", MFD_CLOEXEC);
    fflush(NULL);
    pid_t child = log < 0 ? -1 : fork();
    if (child == 0) {
        dup2(log, STDERR_FILENO);
        live(life, shared);
        exit(0);
    }
    if (child < 0)
        r = -errno;
    while (r == 0 && waitpid(child, &status, 0) < 0)
        r = errno == EINTR ? 0 : -errno;
    if (r == 0)
        note_end(shared, status);
    if (r == 0 && shared->failed && !quiet)
        show(log);
    *ret_report = *shared;
    if (log >= 0)
        close(log);
    munmap(shared, sizeof(*shared));
    return r;
}

/* ---- the shortest list ---- */

static struct sim_life without(const struct sim_life *life, size_t from, size_t n)
{
    struct sim_life less = {.config = life->config, .n = life->n - n};
    less.events = calloc(less.n + 1, sizeof(*less.events));
    if (!less.events)
        abort();
    memcpy(less.events, life->events, from * sizeof(*less.events));
    memcpy(less.events + from, life->events + from + n, (less.n - from) * sizeof(*less.events));
    return less;
}

/* Takes over `less` if it breaks the same rule. Returns whether it does, or a negative errno. */
static int try(struct sim_life *life, struct sim_life less, struct sim_report *report)
{
    struct sim_report now;
    int r = sim_run(&less, true, &now);
    if (r < 0 || !now.failed || strcmp(now.rule, report->rule) != 0) {
        sim_life_finish(&less);
        return r < 0 ? r : 0;
    }
    sim_life_finish(life);
    *life = less;
    *report = now;
    return 1;
}

/* Zeller, Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 2002; complements alone. */
int sim_minimise(struct sim_life *life, struct sim_report *report)
{
    int r;
    if (report->at + 1 < life->n &&
        (r = try(life, without(life, report->at + 1, life->n - report->at - 1), report)) < 0)
        return r;
    for (size_t part = (life->n + 1) / 2; part > 0; part = part > 1 ? (part + 1) / 2 : 0) {
        bool again = true;
        while (again) {
            again = false;
            for (size_t from = 0; from < life->n;) {
                size_t n = part < life->n - from ? part : life->n - from;
                r = try(life, without(life, from, n), report);
                if (r < 0)
                    return r;
                again = again || r > 0;
                from += r > 0 ? 0 : n;
            }
            again = again && part == 1;
        }
    }
    return 0;
}
