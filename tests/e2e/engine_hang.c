/* engine_hang.c: the real halod-engine, in which a thread hangs where hang.h says.
 *
 * Linked with the objects of halod-engine. The linker's --wrap puts this file in front of functions that the threads
 * call, and, in the place of HALO_INJECT, in front of the device.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <engine/phase.h>
#include <kernels/device.h>
#include <protocol/message.h>

#include "hang.h"

struct halo_batch_part;
struct halo_job;
struct halo_port;
struct halo_scheduler;
struct halo_text_worker;

const struct halo_device_ops *__wrap_halo_inject_wrap(const struct halo_device_ops *inner);
void __real_halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat);
void __wrap_halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat);
void __real_halo_commit_part(struct halo_scheduler *s, const struct halo_batch_part *part, uint64_t now_ns);
void __wrap_halo_commit_part(struct halo_scheduler *s, const struct halo_batch_part *part, uint64_t now_ns);
void __real_halo_text_job_tokenize(struct halo_text_worker *worker, struct halo_job *job);
void __wrap_halo_text_job_tokenize(struct halo_text_worker *worker, struct halo_job *job);
__attribute__((format(printf, 3, 4))) void __real_halo_phase_set(struct halo_phase *phase, enum halo_activity activity,
                                                                 const char *format, ...);
__attribute__((format(printf, 3, 4))) void __wrap_halo_phase_set(struct halo_phase *phase, enum halo_activity activity,
                                                                 const char *format, ...);

static struct hang_control *control; /* mapped before the sandbox closes */
static const struct halo_device_ops *below;
static struct halo_device_ops table;
static struct halo_device_model *fresh; /* made last and not run yet; device thread only */

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv(HANG_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        perror(HANG_VARIABLE);
        abort();
    }
    close(fd);
    control = at;
}

static void hang_in(enum hang where)
{
    int wanted = (int)where;
    if (!atomic_compare_exchange_strong(&control->where, &wanted, HANG_NOWHERE))
        return;
    for (;;)
        pause();
}

void __wrap_halo_port_heartbeat(struct halo_port *port, const struct halo_id *id, int64_t beat)
{
    hang_in(HANG_PORT);
    __real_halo_port_heartbeat(port, id, beat);
}

void __wrap_halo_commit_part(struct halo_scheduler *s, const struct halo_batch_part *part, uint64_t now_ns)
{
    hang_in(HANG_STEP);
    usleep((useconds_t)atomic_load(&control->commit_ms) * 1000);
    __real_halo_commit_part(s, part, now_ns);
}

void __wrap_halo_text_job_tokenize(struct halo_text_worker *worker, struct halo_job *job)
{
    hang_in(HANG_TEXT);
    __real_halo_text_job_tokenize(worker, job);
}

void __wrap_halo_phase_set(struct halo_phase *phase, enum halo_activity activity, const char *format, ...)
{
    static const char prefetch[] = "reading the weights of ";
    char what[HALO_PHASE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    __real_halo_phase_set(phase, activity, "%s", what);
    if (activity == HALO_ACTIVITY_FILE)
        hang_in(strncmp(what, prefetch, strlen(prefetch)) == 0 ? HANG_PREFETCH : HANG_IO);
}

static int model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                        char *reason)
{
    hang_in(HANG_MODEL);
    int r = below->model_create(device, plan, ret, reason);
    if (r == 0)
        fresh = *ret;
    return r;
}

static int run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
               char *reason)
{
    bool first = model == fresh;
    hang_in(first ? HANG_FIRST : batch->n_rows > batch->n_seqs ? HANG_PREFILL : HANG_DECODE);
    if (first)
        fresh = NULL;
    return below->run(model, batch, phase, reason);
}

const struct halo_device_ops *__wrap_halo_inject_wrap(const struct halo_device_ops *inner)
{
    below = inner;
    table = *inner;
    table.model_create = model_create;
    table.run = run;
    return &table;
}
