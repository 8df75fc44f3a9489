/* port.c: the poll loop: bytes in, lines out, mail from the other threads, time.
 *
 * The main thread. It never waits for anything but poll: input is read when there is some, output written when there is
 * room, in pieces that a pipe takes without blocking. When the peer does not read, the output grows to a mark; then the
 * events of sequences stay in their rings and the sequences pause, and above a second mark no more input is taken.
 * Ends: the link's peer is gone: at once. A person's input is at its end: when everything asked for is answered.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>

#include "port/port_priv.h"

#define READ_BYTES 65536
#define WRITE_BYTES 4096        /* a pipe that polls writable takes PIPE_BUF without blocking */
#define LINK_WRITE_BYTES 262144 /* the link is non-blocking */
#define CONSUME_BYTES (4u << 20)
#define OUT_STOP_READING (16u << 20)
#define BEAT_NS 250000000u
#define EXIT_DEVICE_LOST 3

int halo_port_init(struct halo_port *port, const struct halo_port_config *config)
{
    port->config = *config;
    port->born_ns = halo_clock_ns();
    halo_line_init(&port->lines, config->link ? HALO_LIMIT_LINK_LINE_BYTES : HALO_LIMIT_LINE_BYTES);
    halo_json_init(&port->out);
    return halo_mailbox_init(&port->box, true);
}

/* ---- bytes ---- */

/* The last line of a person's input need not end in a newline. */
static void end_input(struct halo_port *port)
{
    port->eof = true;
    if (!port->config.link && halo_line_pending(&port->lines) > 0)
        halo_line_feed(&port->lines, "\n", 1);
}

static void read_input(struct halo_port *port)
{
    char *at;
    size_t room, len;
    const char *line;
    if (halo_line_reserve(&port->lines, READ_BYTES, &at, &room) < 0) {
        halo_log(HALO_LOG_ERROR, "no memory for input");
        _exit(EXIT_FAILURE);
    }
    ssize_t n = read(port->config.in_fd, at, room);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        halo_line_commit(&port->lines, (size_t)n);
    else
        end_input(port);
    for (;;) {
        int r = halo_line_next(&port->lines, &line, &len);
        if (r == HALO_LINE_E_MORE)
            return;
        if (r == HALO_LINE_E_TOO_LONG)
            halo_port_take_long_line(port);
        else
            halo_port_take_line(port, line, len);
    }
}

static void write_output(struct halo_port *port)
{
    size_t most = port->config.link ? LINK_WRITE_BYTES : WRITE_BYTES;
    size_t n = halo_port_unsent(port) < most ? halo_port_unsent(port) : most;
    ssize_t done = write(port->config.out_fd, port->out.at + port->n_sent, n);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (done < 0)
        _exit(EXIT_SUCCESS); /* nobody is there to read: as good as an end of input */
    port->n_sent += (size_t)done;
    if (halo_port_unsent(port) == 0 || port->n_sent >= CONSUME_BYTES) { /* seldom: what is left moves to the front */
        halo_json_consume(&port->out, port->n_sent);
        port->n_sent = 0;
    }
    if (halo_port_unsent(port) <= HALO_LIMIT_OUTPUT_LOW_BYTES)
        halo_port_resume_blocked(port);
}

/* Whole lines that are ready, as far as the peer takes them at once. */
static void write_all(struct halo_port *port)
{
    while (halo_port_unsent(port) > 0) {
        size_t before = halo_port_unsent(port);
        write_output(port);
        if (halo_port_unsent(port) >= before)
            return;
    }
}

/* ---- mail ---- */

static void text_done(struct halo_port *port, struct halo_job *job)
{
    if (job->other_prompt) {
        halo_job_end_error(port, job, HALO_ERROR_ENGINE_LOST, "%s", job->fault.text);
    } else if (job->fault.code != HALO_FAULT_NONE) {
        halo_job_end_fault(port, job, &job->fault);
    } else if (atomic_load(&job->cancel)) {
        halo_job_end_cancelled(port, job);
    } else if (job->sequence) {
        halo_port_submit(port, job);
    } else {
        halo_job_end(port, job, &job->ev);
    }
}

/* The device was opened, or could not be: those who wanted to know it can be answered. */
static void device_open(struct halo_port *port)
{
    struct halo_job *waiting = port->parked;
    port->parked = NULL;
    halo_job_wake(port, waiting);
}

static void take_note(struct halo_port *port, struct halo_note *note)
{
    struct halo_sequence *sequence;
    switch (note->what) {
    case HALO_NOTE_EVENTS:
        sequence = HALO_NOTE_ITEM(note, struct halo_sequence, events_note);
        atomic_store(&sequence->events_posted, false); /* before looking: what comes later posts again */
        halo_port_take_events(port, sequence->job);
        break;
    case HALO_NOTE_SEQUENCE_DONE:
        sequence = HALO_NOTE_ITEM(note, struct halo_sequence, note);
        sequence->job->finished = true;
        halo_port_take_events(port, sequence->job);
        break;
    case HALO_NOTE_TEXT_DONE: text_done(port, HALO_NOTE_ITEM(note, struct halo_job, note)); break;
    case HALO_NOTE_LOAD_PROGRESS:
        halo_port_load_progress(port, HALO_NOTE_ITEM(note, struct halo_load, progress_note));
        break;
    case HALO_NOTE_LOAD: halo_load_run(HALO_NOTE_ITEM(note, struct halo_load, note)); break;
    case HALO_NOTE_LOOKUP_DONE: halo_port_lookup_done(port, HALO_NOTE_ITEM(note, struct halo_lookup, note)); break;
    case HALO_NOTE_CATALOG_DONE: halo_port_catalog_done(port, HALO_NOTE_ITEM(note, struct halo_catalog, note)); break;
    case HALO_NOTE_UNLOAD_DONE: halo_port_unload_done(port, HALO_NOTE_ITEM(note, struct halo_instance, note)); break;
    case HALO_NOTE_BENCH_PROGRESS:
        halo_port_bench_progress(port, HALO_NOTE_ITEM(note, struct halo_bench, progress_note));
        break;
    case HALO_NOTE_BENCH_DONE: halo_port_bench_done(port, HALO_NOTE_ITEM(note, struct halo_bench, note)); break;
    case HALO_NOTE_FORECAST_DONE:
        halo_port_forecast_done(port, HALO_NOTE_ITEM(note, struct halo_forecast, note));
        break;
    case HALO_NOTE_HEAT_DONE: halo_port_heat_done(port, HALO_NOTE_ITEM(note, struct halo_heat, note)); break;
    case HALO_NOTE_PROFILE_PROGRESS:
        halo_port_profile_progress(port, HALO_NOTE_ITEM(note, struct halo_profiling, progress_note));
        break;
    case HALO_NOTE_PROFILE: halo_port_profile_note(port, HALO_NOTE_ITEM(note, struct halo_profiling, note)); break;
    case HALO_NOTE_RESET_DONE: halo_port_reset_done(port, HALO_NOTE_ITEM(note, struct halo_reset, note)); break;
    case HALO_NOTE_LOOK_DONE: halo_port_answer_status(port, HALO_NOTE_ITEM(note, struct halo_look, note)->job); break;
    case HALO_NOTE_SAVE_DONE: halo_port_save_done(port, HALO_NOTE_ITEM(note, struct halo_save, note)); break;
    case HALO_NOTE_RESIZE_DONE: halo_port_resize_done(port, HALO_NOTE_ITEM(note, struct halo_resize, note)); break;
    case HALO_NOTE_DEVICE_OPEN: device_open(port); break;
    default: assert(!"no note for the port");
    }
}

static void take_mail(struct halo_port *port)
{
    struct halo_mail *mail = halo_mailbox_drain(&port->box);
    while (mail) {
        struct halo_note *note = halo_note_of(mail);
        mail = mail->next; /* before the note's object goes */
        take_note(port, note);
    }
}

/* ---- time ---- */

static void expire_parked(struct halo_port *port, uint64_t now_ns)
{
    for (struct halo_job *job = port->jobs, *next; job; job = next) {
        next = job->next;
        const struct halo_msg_generate *msg = &job->msg.generate;
        if (job->state != HALO_JOB_PARKED || job->msg.type != HALO_MSG_GENERATE || !msg->has_deadline_ms)
            continue;
        if ((now_ns - job->arrived_ns) / 1000000 < (uint64_t)msg->deadline_ms)
            continue;
        halo_job_unpark(port, job);
        struct halo_fault late;
        halo_fault_set(&late, HALO_FAULT_DEADLINE, "the deadline of %lld ms passed while the model was loading",
                       (long long)msg->deadline_ms);
        halo_fault_number(&late, "deadline_ms", (uint64_t)msg->deadline_ms);
        halo_job_end_fault(port, job, &late);
    }
}

static void tick(struct halo_port *port, enum halo_memory_call call)
{
    uint64_t now_ns = halo_clock_ns();
    if (port->config.link && now_ns - port->beat_ns >= BEAT_NS) {
        port->beat_ns = now_ns;
        halo_port_heartbeat(port, NULL, (int64_t)port->n_beats++);
    }
    halo_port_expire_models(port, now_ns);
    expire_parked(port, now_ns);
    halo_port_heat_expire(port, now_ns);
    halo_port_watch_memory(port, now_ns, call);
}

/* What the mail and the time made possible. */
static void settle(struct halo_port *port)
{
    halo_port_dispatch_ready(port);
    halo_port_unload_unused(port);
    halo_port_save_next(port);
    halo_port_room_made(port);
}

static bool is_over(const struct halo_port *port)
{
    if (port->lost)
        return true;
    if (atomic_load(&port->device.lost) && port->n_jobs == 0 && halo_port_unsent(port) == 0)
        return true;
    if (!port->eof)
        return false;
    return port->config.link || (port->n_jobs == 0 && halo_port_unsent(port) == 0);
}

int halo_port_run(struct halo_port *port)
{
    halo_port_watch_memory(port, halo_clock_ns(), HALO_MEMORY_TIME);
    while (!is_over(port)) {
        bool reading = !port->eof && halo_port_unsent(port) < OUT_STOP_READING;
        struct pollfd fds[5] = {
            {.fd = port->box.event_fd, .events = POLLIN},
            {.fd = reading ? port->config.in_fd : -1, .events = POLLIN},
            {.fd = halo_port_unsent(port) > 0 ? port->config.out_fd : -1, .events = POLLOUT},
            {.fd = port->watch ? port->watch->fd : -1, .events = POLLPRI},
            {.fd = port->watch ? port->watch->events_fd : -1, .events = POLLPRI},
        };
        if (poll(fds, 5, (int)(BEAT_NS / 1000000)) < 0 && errno != EINTR) {
            halo_log(HALO_LOG_ERROR, "poll: %s", strerror(errno));
            return EXIT_FAILURE;
        }
        if (fds[1].revents)
            read_input(port);
        if (port->eof && port->config.link)
            break; /* halod is gone */
        take_mail(port);
        tick(port, halo_port_memory_call(port, fds[3].revents, fds[4].revents));
        settle(port);
        if (halo_port_unsent(port) > 0 && (port->config.link || fds[2].revents))
            write_output(port);
    }
    if (port->lost) /* what was committed is not to be computed again */
        write_all(port);
    return atomic_load(&port->device.lost) ? EXIT_DEVICE_LOST : EXIT_SUCCESS;
}
