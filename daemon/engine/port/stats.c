/* stats.c: the answer to stats: counters, histograms, what there is now, and how warm the drives are.
 *
 * Port thread. A drive's temperature is asked of the io thread, if that has nothing to do; a drive that does not answer
 * costs the answer a second and its temperature, no more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "port/port_priv.h"

#define HEAT_NS 1000000000ull
#define DAY_NS (86400ull * 1000000000)

static void write_histogram(struct halo_json *w, struct halo_histogram *histogram, enum halo_histogram_id id)
{
    const uint32_t *bounds = halo_histogram_bounds(id);
    halo_json_key(w, halo_histogram_name(id));
    halo_json_object_begin(w);
    halo_json_key(w, "bounds");
    halo_json_array_begin(w);
    for (int i = 0; i < HALO_HISTOGRAM_BOUNDS; i++)
        halo_json_u64(w, bounds[i]);
    halo_json_array_end(w);
    halo_json_key(w, "counts");
    halo_json_array_begin(w);
    for (int i = 0; i <= HALO_HISTOGRAM_BOUNDS; i++)
        halo_json_u64(w, atomic_load(&histogram->counts[i]));
    halo_json_array_end(w);
    halo_json_key(w, "sum");
    halo_json_u64(w, atomic_load(&histogram->sum));
    halo_json_key(w, "n");
    halo_json_u64(w, atomic_load(&histogram->n));
    halo_json_object_end(w);
}

static void put(struct halo_json *w, const char *key, uint64_t value)
{
    halo_json_key(w, key);
    halo_json_u64(w, value);
}

/* What there is now; all of it is 0 when nothing is open. */
static void write_now(struct halo_port *port, struct halo_json *w)
{
    put(w, "now_requests", port->n_jobs - 1); /* but this one */
    put(w, "now_sequences", halo_sequence_n_live());
    put(w, "now_kv_pages_held", atomic_load(&port->stats.n_held));
}

/* What the drives are made to read: for each token of streamed models, and in a day. The first day counts as a whole
 * one: a rate of an hour says little. */
static void write_wear(struct halo_port *port, struct halo_json *w)
{
    uint64_t rows = atomic_load(&port->stats.streamed_rows), up_ns = halo_clock_ns() - port->born_ns;
    double days = up_ns > DAY_NS ? (double)up_ns / (double)DAY_NS : 1;
    if (rows > 0)
        put(w, "disk_token_bytes",
            (atomic_load(&port->stats.expert_read_bytes) + atomic_load(&port->stats.layer_read_bytes)) / rows);
    put(w, "disk_day_bytes", (uint64_t)((double)atomic_load(&port->stats.disk_read_bytes) / days));
    if (port->has_celsius) {
        halo_json_key(w, "now_drive_celsius");
        halo_json_fix3(w, port->celsius);
    }
}

/* Of models that several GPUs divide. A client that reads them twice has the time of a step in each stage. */
static void write_stages(struct halo_port *port, struct halo_json *w)
{
    const struct halo_device_phase *phase = &port->device.phase;
    uint64_t n = atomic_load(&phase->n_divided_runs);
    char name[32];
    if (n == 0)
        return;
    put(w, "stage_steps", n);
    for (uint32_t i = 0; i < HALO_DEVICE_GPUS_MAX; i++) {
        uint64_t ns = atomic_load(&phase->divided_ns[i]);
        snprintf(name, sizeof(name), "stage_%u_us", i + 1);
        if (ns > 0)
            put(w, name, ns / 1000);
    }
}

static void answer(struct halo_port *port, struct halo_job *job)
{
    struct halo_json counters, histograms;
    struct halo_ev ev;
    halo_json_init(&counters);
    halo_json_init(&histograms);
    halo_json_object_begin(&counters);
    for (uint32_t i = 0; i < halo_stats_n_counters(); i++) {
        uint64_t value;
        const char *name = halo_stats_counter(&port->stats, i, &value);
        put(&counters, name, value);
    }
    write_wear(port, &counters);
    write_stages(port, &counters);
    write_now(port, &counters);
    halo_json_object_end(&counters);
    halo_json_object_begin(&histograms);
    for (int id = 0; id < HALO_N_HISTOGRAMS; id++)
        write_histogram(&histograms, &port->stats.histograms[id], (enum halo_histogram_id)id);
    halo_json_object_end(&histograms);
    if (counters.error < 0 || histograms.error < 0) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for an answer to `stats`");
    } else {
        halo_ev_init(&ev, HALO_EV_STATS, &job->msg.id);
        ev.stats.counters = (struct halo_raw){counters.at, counters.len};
        ev.stats.histograms = (struct halo_raw){histograms.at, histograms.len};
        halo_job_end(port, job, &ev);
    }
    halo_json_finish(&counters);
    halo_json_finish(&histograms);
}

/* ---- heat ---- */

/* The files of the models that are loaded. NULL: there are none, or no memory. */
static struct halo_heat *list_files(const struct halo_port *port)
{
    struct halo_heat *heat = calloc(1, sizeof(*heat));
    for (uint32_t i = 0; heat && i < port->n_instances; i++) {
        const struct halo_instance *instance = port->instances[i];
        if (instance->state == HALO_INSTANCE_LOADING || heat->n == HALO_MAX_LOADED)
            continue;
        char *path = strdup(instance->path);
        if (path)
            heat->files[heat->n++] = (struct halo_heat_file){path, instance->file_id.device};
    }
    if (heat && heat->n > 0)
        return heat;
    free(heat);
    return NULL;
}

void halo_port_stats(struct halo_port *port, struct halo_job *job)
{
    bool is_idle = atomic_load(&port->io.phase.activity) == HALO_ACTIVITY_IDLE;
    struct halo_heat *heat = is_idle && !port->heat ? list_files(port) : NULL;
    if (!heat) {
        answer(port, job);
        return;
    }
    heat->job = job;
    heat->asked_ns = halo_clock_ns();
    port->heat = heat;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &heat->note, HALO_NOTE_HEAT);
}

void halo_port_heat_done(struct halo_port *port, struct halo_heat *heat)
{
    struct halo_job *job = heat->job;
    port->heat = NULL;
    port->has_celsius = heat->has_celsius;
    port->celsius = heat->celsius;
    for (uint32_t i = 0; i < heat->n; i++)
        free(heat->files[i].path);
    free(heat);
    if (job)
        answer(port, job);
}

void halo_port_heat_expire(struct halo_port *port, uint64_t now_ns)
{
    struct halo_heat *heat = port->heat;
    if (!heat || !heat->job || now_ns - heat->asked_ns < HEAT_NS)
        return;
    struct halo_job *job = heat->job;
    heat->job = NULL;
    port->has_celsius = false;
    answer(port, job);
}
