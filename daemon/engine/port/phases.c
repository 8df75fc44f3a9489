/* phases.c: the heartbeat: what each thread is doing and for how long it has made no progress.
 *
 * Port thread. Everything comes from atomics and from texts under a lock that no thread holds for long, so a heartbeat
 * never waits for a thread that hangs.
 */
#include <assert.h>
#include <string.h>

#include <base/clock.h>

#include "port/port_priv.h"

#define TEXT_BYTES (3 * HALO_PHASE_BYTES + 1) /* of what is not UTF-8, a byte becomes three */

static int64_t ms_since_progress(struct halo_phase_clock *clock, const uint64_t marks[4], uint64_t now_ns)
{
    if (clock->since_ns == 0 || memcmp(clock->marks, marks, sizeof(clock->marks)) != 0) {
        memcpy(clock->marks, marks, sizeof(clock->marks));
        clock->since_ns = now_ns;
    }
    return (int64_t)((now_ns - clock->since_ns) / 1000000);
}

/* Begins anew with each op, each step, and each kind of work. */
static void fill_device(struct halo_port *port, uint64_t now_ns, struct halo_part_thread_phase *ret)
{
    struct halo_device_thread *device = &port->device;
    const char *what = atomic_load(&device->phase.what);
    uint64_t marks[4] = {(uintptr_t)what, atomic_load(&device->phase.step), atomic_load(&port->stats.steps),
                         (uint64_t)atomic_load(&device->activity)};
    *ret = (struct halo_part_thread_phase){
        .thread = HALO_WIRE_THREAD_DEVICE,
        .phase = halo_str_of(what ? what : "starting"),
        .ms = ms_since_progress(&port->clocks[HALO_WIRE_THREAD_DEVICE], marks, now_ns),
        .activity = (enum halo_wire_activity)marks[3],
    };
}

static void fill_thread(struct halo_port *port, enum halo_wire_thread thread, struct halo_phase *phase, uint64_t now_ns,
                        char text[TEXT_BYTES], struct halo_part_thread_phase *ret)
{
    char what[HALO_PHASE_BYTES];
    uint64_t marks[4] = {atomic_load(&phase->mark)};
    halo_phase_text(phase, what);
    text[halo_text_sanitize(what, strlen(what), text)] = '\0'; /* names of files are any bytes */
    *ret = (struct halo_part_thread_phase){
        .thread = thread,
        .phase = halo_str_of(text),
        .ms = ms_since_progress(&port->clocks[thread], marks, now_ns),
        .activity = (enum halo_wire_activity)atomic_load(&phase->activity),
    };
}

void halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat)
{
    static_assert((int)HALO_WIRE_ACTIVITY_MODEL == (int)HALO_ACTIVITY_MODEL &&
                      (int)HALO_WIRE_ACTIVITY_FILE == (int)HALO_ACTIVITY_FILE,
                  "the words and the kinds have one order");
    static_assert(HALO_N_PHASES == HALO_WIRE_THREAD_PREFETCH + 1, "a phase for each thread");
    static const struct halo_id nobody = {0};
    uint64_t now_ns = halo_clock_ns();
    struct halo_part_thread_phase threads[HALO_N_PHASES];
    char text[TEXT_BYTES], io[TEXT_BYTES], prefetch[TEXT_BYTES];
    fill_device(port, now_ns, &threads[0]);
    fill_thread(port, HALO_WIRE_THREAD_TEXT, &port->text.phase, now_ns, text, &threads[1]);
    fill_thread(port, HALO_WIRE_THREAD_IO, &port->io.phase, now_ns, io, &threads[2]);
    fill_thread(port, HALO_WIRE_THREAD_PREFETCH, &port->prefetch.phase, now_ns, prefetch, &threads[3]);
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_HEARTBEAT, id ? id : &nobody);
    ev.heartbeat.beat = beat;
    ev.heartbeat.steps = (int64_t)atomic_load(&port->stats.steps);
    ev.heartbeat.running = atomic_load(&port->stats.n_running);
    ev.heartbeat.threads.at = threads;
    ev.heartbeat.threads.n = HALO_N_PHASES;
    halo_port_put(port, &ev);
}
