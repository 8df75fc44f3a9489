/* profile.c: answers of profile: how fast this machine reads a model; and what a plan takes from a stored profile.
 *
 * Port thread. A profiling goes from thread to thread (engine/profile.h) and comes by here to have its record's text
 * made, and at its end. Its request may end before it: a cancel does not wait for a drive.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <base/clock.h>

#include "port/port_priv.h"

void halo_port_profile(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_profile *msg = &job->msg.profile;
    if (port->profiling) {
        struct halo_fault full;
        halo_fault_set(&full, HALO_FAULT_QUEUE_FULL,
                       "a profile is being measured, one at a time: a second one would make both too slow");
        halo_fault_number(&full, "limit", 1);
        halo_job_end_fault(port, job, &full);
        return;
    }
    struct halo_profiling *p = calloc(1, sizeof(*p));
    if (p)
        p->model = strdup(msg->model.at);
    if (!p || !p->model) {
        free(p);
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a profile");
        return;
    }
    p->job = job;
    p->stored = msg->stored;
    p->point_ns = (uint64_t)msg->point_ms * 1000000;
    halo_port_name_device(port, &p->here);
    p->stats = &port->stats;
    port->profiling = job->profiling = p;
    halo_job_move(job, HALO_JOB_IO);
    halo_note_post(&port->io.box, &p->note, HALO_NOTE_PROFILE);
}

void halo_port_name_device(struct halo_port *port, struct halo_profile *here)
{
    struct halo_device_info info;
    if (halo_device_thread_info(&port->device, &info, NULL) == 0)
        halo_profile_name_device(here, &info);
}

void halo_port_profile_cancel(struct halo_port *port, struct halo_job *job)
{
    atomic_store(&job->profiling->cancel, true);
    job->profiling->job = NULL;
    halo_job_end_cancelled(port, job);
}

void halo_port_profile_progress(struct halo_port *port, struct halo_profiling *p)
{
    char step[96];
    struct halo_ev ev;
    atomic_store(&p->progress_posted, false);
    uint64_t now_ns = halo_clock_ns();
    uint32_t block = atomic_load(&p->at_block), depth = atomic_load(&p->at_depth);
    if (!p->job || block == 0 || now_ns - p->shown_ns < 1000000000u / HALO_LIMIT_PROGRESS_PER_S)
        return;
    p->shown_ns = now_ns;
    snprintf(step, sizeof(step), "reads of %u KiB, %u at a time", block >> 10, depth);
    halo_ev_init(&ev, HALO_EV_PROGRESS, &p->job->msg.id);
    ev.progress.phase = HALO_WIRE_PHASE_PROFILE;
    ev.progress.done = atomic_load(&p->n_done);
    ev.progress.total = atomic_load(&p->n_total);
    ev.progress.has_step = true;
    ev.progress.step = halo_str_of(step);
    halo_port_put(port, &ev);
}

/* ---- the end ---- */

#define SET_NUL(part, name, number, scale)                                                                             \
    do {                                                                                                               \
        (part).has_##name = (number) > 0;                                                                              \
        (part).name = (number) * (scale);                                                                              \
    } while (0)

static void fill_disk(struct halo_ev_profile *ev, const struct halo_profile_record *record)
{
    const struct halo_profile *profile = &record->profile;
    bool measured = profile->disk_bytes_s > 0;
    SET_NUL(*ev, disk_gb_s, profile->disk_bytes_s, 1e-9);
    SET_NUL(*ev, disk_latency_us, profile->disk_latency_s, 1e6);
    ev->has_disk_block_bytes = ev->has_disk_depth = ev->has_span_bytes = ev->has_read_bytes = ev->has_io = measured;
    ev->disk_block_bytes = profile->disk_block_bytes;
    ev->disk_depth = profile->disk_depth;
    ev->span_bytes = (int64_t)record->span_bytes;
    ev->read_bytes = (int64_t)record->read_bytes;
    ev->io = halo_str_of(record->io);
    ev->has_disk_fault = record->fault[0] != '\0';
    ev->disk_fault = halo_str_of(record->fault);
}

static void fill(struct halo_ev_profile *ev, const struct halo_profiling *p)
{
    const struct halo_profile *profile = &p->record.profile;
    ev->model = halo_str_of(p->model);
    ev->machine = halo_str_of(profile->machine);
    ev->device = halo_str_of(profile->device);
    ev->has_kernels = profile->kernels[0] != '\0';
    ev->kernels = halo_str_of(profile->kernels);
    ev->file = halo_str_of(profile->file);
    ev->has_drive = profile->drive[0] != '\0';
    ev->drive = halo_str_of(profile->drive);
    ev->measured_s = profile->measured_s;
    SET_NUL(*ev, memory_gb_s, profile->memory_bytes_s, 1e-9);
    SET_NUL(*ev, copy_gb_s, profile->copy_bytes_s, 1e-9);
    SET_NUL(*ev, launch_us, profile->launch_s, 1e6);
    ev->has_drive_celsius = p->has_celsius;
    ev->drive_celsius = p->celsius;
    ev->shared = p->shared;
    ev->has_not_stored = p->store_fault.code != HALO_FAULT_NONE;
    ev->not_stored = halo_str_of(p->store_fault.text);
    fill_disk(ev, &p->record);
}

static void answer(struct halo_port *port, const struct halo_profiling *p)
{
    struct halo_json grid;
    struct halo_ev ev;
    halo_json_init(&grid);
    halo_profile_write_grid(&grid, &p->record);
    if (grid.error < 0) {
        halo_job_end_error(port, p->job, HALO_ERROR_OUT_OF_MEMORY, "no memory for an answer to `profile`");
    } else {
        halo_ev_init(&ev, HALO_EV_PROFILE, &p->job->msg.id);
        fill(&ev.profile, p);
        ev.profile.grid = (struct halo_raw){grid.at, grid.len};
        halo_job_end(port, p->job, &ev);
    }
    halo_json_finish(&grid);
}

static void end(struct halo_port *port, struct halo_profiling *p)
{
    bool found = p->fault.code == HALO_FAULT_NONE;
    if (p->stored && p->path[0] && !found)
        halo_profile_advise(&p->fault, p->model);
    if (found && p->stored &&
        !halo_profile_holds(&p->record.profile, &p->here, p->model, (int64_t)time(NULL), &p->fault))
        found = false;
    if (found)
        answer(port, p);
    else
        halo_job_end_fault(port, p->job, &p->fault);
}

/* Takes over what the figures hold for, and makes the record's text. Whether the io thread has it now. */
static bool write_record(struct halo_port *port, struct halo_profiling *p)
{
    struct halo_profile *profile = &p->record.profile;
    struct halo_json w;
    memcpy(profile->machine, p->here.machine, sizeof(profile->machine));
    memcpy(profile->device, p->here.device, sizeof(profile->device));
    memcpy(profile->kernels, p->here.kernels, sizeof(profile->kernels));
    memcpy(profile->file, p->here.file, sizeof(profile->file));
    memcpy(profile->drive, p->here.drive, sizeof(profile->drive));
    profile->measured_s = (int64_t)time(NULL);
    halo_json_init(&w);
    halo_profile_write(&w, &p->record);
    p->text = w.error == 0 ? malloc(w.len) : NULL;
    bool made = p->text != NULL;
    if (made) {
        memcpy(p->text, w.at, w.len);
        p->n_text = w.len;
        p->stage = HALO_PROFILING_STORE;
        halo_note_post(&port->io.box, &p->note, HALO_NOTE_PROFILE);
    } else {
        halo_fault_set(&p->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the record of a profile");
    }
    halo_json_finish(&w);
    return made;
}

void halo_port_profile_note(struct halo_port *port, struct halo_profiling *p)
{
    if (p->stage == HALO_PROFILING_WRITE && p->job && write_record(port, p))
        return;
    port->profiling = NULL;
    if (p->job) {
        p->job->profiling = NULL;
        end(port, p);
    }
    halo_profiling_destroy(p);
}

/* ---- for plans ---- */

void halo_port_use_profile(struct halo_port *port, struct halo_forecast *forecast, const char *model)
{
    struct halo_fault why = forecast->stored_fault;
    struct halo_ev ev;
    double memory_bytes_s = forecast->profile.memory_bytes_s;
    if (why.code == HALO_FAULT_NOT_FOUND)
        return;
    if (why.code == HALO_FAULT_NONE &&
        halo_profile_holds(&forecast->stored.profile, &forecast->here, model, (int64_t)time(NULL), &why)) {
        forecast->profile = forecast->stored.profile;
        if (forecast->profile.memory_bytes_s == 0)
            forecast->profile.memory_bytes_s = memory_bytes_s;
        return;
    }
    if (forecast->stored_fault.code != HALO_FAULT_NONE)
        halo_profile_advise(&why, model);
    halo_ev_init_notice(&ev, &forecast->job->msg.id, HALO_NOTICE_PROFILE_IGNORED, why.text);
    halo_port_put(port, &ev);
    halo_log(HALO_LOG_WARN, "plan: %s: %s", halo_notice_name(HALO_NOTICE_PROFILE_IGNORED), why.text);
}
