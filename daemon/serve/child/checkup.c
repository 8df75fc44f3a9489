/* checkup.c: the doctor as a child: started, read, killed at its deadline, never waited for. */
#include <serve/child/checkup.h>

#include <stdio.h>
#include <string.h>

#include <base/clock.h>
#include <base/log.h>

#define MS 1000000ull
#define LINE_BYTES 8192
#define READ_BYTES 4096
#define OUTPUT_BYTES (256u << 10) /* more than a report has: whoever writes more is no doctor */

/* ---- its end ---- */

static void conclude(struct halo_checkup *checkup)
{
    checkup->done_ns = halo_clock_ns();
    checkup->last = checkup->reading;
    /* An engine that chose for itself did not die of a GPU that is not there. */
    if (checkup->last.no_gpu && strcmp(checkup->config->device, "hip") != 0)
        checkup->last.rank = HALO_CHECKUP_NOTHING;
    if (checkup->last.rank == HALO_CHECKUP_NOTHING) {
        checkup->last.text[0] = '\0';
        halo_log(HALO_LOG_INFO, "halo-doctor: %zu findings, none that explains the engine's death",
                 checkup->last.n_read);
        return;
    }
    halo_log(HALO_LOG_WARN, "halo-doctor on the engine's death: %s", checkup->last.text);
    checkup->found(checkup);
}

static void end(struct halo_checkup *checkup)
{
    if (!checkup->ended) {
        checkup->ended = true;
        uv_timer_stop(&checkup->timer);
        conclude(checkup);
    }
    halo_child_kill(checkup->child);
    halo_child_cut(checkup->child);
}

static void time_over(uv_timer_t *timer)
{
    struct halo_checkup *checkup = timer->data;
    if (!checkup->child)
        return;
    if (!checkup->child->link_ended)
        halo_log(HALO_LOG_WARN, "halo-doctor did not end within %lld ms", (long long)checkup->config->doctor_ms);
    end(checkup);
}

/* One that closed its output and stays has until the deadline to go; one that exited may have more in the pipe. */
static void child_ended(struct halo_child *child)
{
    if (child->exited && child->link_ended)
        end(child->ud);
}

static void child_gone(struct halo_child *child)
{
    struct halo_checkup *checkup = child->ud;
    checkup->child = NULL;
}

/* ---- its output ---- */

static void child_heard(struct halo_child *child, size_t n_bytes)
{
    struct halo_checkup *checkup = child->ud;
    checkup->n_bytes += n_bytes;
    if (checkup->n_bytes <= OUTPUT_BYTES)
        return;
    halo_log(HALO_LOG_WARN, "halo-doctor wrote more than %u bytes, too many for a report; killing it", OUTPUT_BYTES);
    end(checkup);
}

static void child_line(struct halo_child *child, const char *line, size_t len, bool whole)
{
    struct halo_checkup *checkup = child->ud;
    if (whole)
        halo_checkup_take(&checkup->reading, line, len, checkup->stage);
}

static const struct halo_child_ops child_ops = {
    .heard = child_heard,
    .line = child_line,
    .ended = child_ended,
    .gone = child_gone,
};

/* ---- its beginning ---- */

static void start(struct halo_checkup *checkup)
{
    const struct halo_config *config = checkup->config;
    char *args[] = {config->doctor_path, (char *)"--json",
                    (char *)"--quick",   config->hip_lib ? (char *)"--hip-lib" : NULL,
                    config->hip_lib,     NULL};
    const struct halo_child_spec spec = {
        .file = config->doctor_path,
        .args = args,
        .fd = 1,
        .line_bytes = LINE_BYTES,
        .read_bytes = READ_BYTES,
    };
    checkup->ended = false;
    checkup->n_bytes = 0;
    checkup->reading = (struct halo_checkup_finding){0};
    int r = halo_child_create(checkup->loop, &spec, &child_ops, checkup, &checkup->child);
    if (r == 0) {
        uv_timer_start(&checkup->timer, time_over, (uint64_t)config->doctor_ms, 0);
        return;
    }
    halo_log(HALO_LOG_WARN, "%s cannot be run: %s", config->doctor_path, uv_strerror(r));
    if (!checkup->child)
        return;
    checkup->done_ns = halo_clock_ns();
    checkup->ended = true; /* nothing is known, so nothing is said */
    end(checkup);
}

void halo_checkup_begin(struct halo_checkup *checkup, const struct halo_engine *engine)
{
    const struct halo_config *config = checkup->config;
    bool is_fresh = checkup->done_ns != 0 && halo_clock_ns() - checkup->done_ns < (uint64_t)HALO_CHECKUP_FRESH_MS * MS;
    if (checkup->child || is_fresh || config->doctor_ms == 0 || !config->doctor_path || !halo_engine_has_gpu(engine) ||
        halo_engine_pid(engine) == 0)
        return;
    snprintf(checkup->stage, sizeof(checkup->stage), "%s", halo_checkup_stage(engine->died_in, &engine->beat));
    start(checkup);
}

void halo_checkup_init(struct halo_checkup *checkup, uv_loop_t *loop, const struct halo_config *config,
                       void (*found)(struct halo_checkup *checkup), void *ud)
{
    *checkup = (struct halo_checkup){.loop = loop, .config = config, .found = found, .ud = ud};
    uv_timer_init(loop, &checkup->timer);
    checkup->timer.data = checkup;
}

void halo_checkup_stop(struct halo_checkup *checkup)
{
    if (checkup->child)
        end(checkup);
}

void halo_checkup_close(struct halo_checkup *checkup)
{
    uv_close((uv_handle_t *)&checkup->timer, NULL);
}
