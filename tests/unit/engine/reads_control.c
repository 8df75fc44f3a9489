/* reads_control.c: see reads_control.h. */
#include "reads_control.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include <engine/expert_trial.h>
#include <store/fetch.h>

#define KEPT_MAX 256

struct reads_control *control;

int __real_halo_fetch_submit(struct halo_fetch *fetch, const struct halo_fetch_read *reads, uint32_t n);
int __wrap_halo_fetch_submit(struct halo_fetch *fetch, const struct halo_fetch_read *reads, uint32_t n);
uint32_t __real_halo_fetch_reap(struct halo_fetch *fetch, struct halo_fetch_done *ret, uint32_t max, uint64_t wait_us);
uint32_t __wrap_halo_fetch_reap(struct halo_fetch *fetch, struct halo_fetch_done *ret, uint32_t max, uint64_t wait_us);
uint64_t __real_halo_clock_ns(void);
uint64_t __wrap_halo_clock_ns(void);

static bool is_due(_Atomic int *after)
{
    return atomic_load(after) > 0 && atomic_fetch_sub(after, 1) == 1;
}

int __wrap_halo_fetch_submit(struct halo_fetch *fetch, const struct halo_fetch_read *reads, uint32_t n)
{
    static _Alignas(4096) uint8_t elsewhere[4 << 20];
    if (atomic_load(&control->gives_up))
        halo_fetch_pause_ahead(fetch, true);
    for (uint32_t i = 0; i < n; i++) {
        struct halo_fetch_read read = reads[i];
        atomic_fetch_add(&control->n_reads, 1);
        if (is_due(&control->forget_after)) {
            assert(read.n_bytes + 3 * 4096 <= sizeof(elsewhere));
            read.dest = elsewhere + 4096 + read.offset % 4096;
        }
        int r = __real_halo_fetch_submit(fetch, &read, 1);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_bad(const struct halo_fetch_done *done)
{
    return done->offset + done->n_bytes == atomic_load(&control->bad_end);
}

/* Takes the ends of cancelled reads away from ret[0..n), and adds one where nothing else comes. How many there are. */
static uint32_t keep_given_up(struct halo_fetch_done *ret, uint32_t n, bool is_waiting)
{
    static struct halo_fetch_done kept[KEPT_MAX];
    static uint32_t n_kept;
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ret[i].error == -ECANCELED && n_kept < KEPT_MAX)
            kept[n_kept++] = ret[i];
        else
            ret[n_left++] = ret[i];
    if (n_left > 0 || n_kept == 0 || !is_waiting)
        return n_left;
    ret[0] = kept[--n_kept];
    atomic_fetch_add(&control->n_given_up, 1);
    return 1;
}

uint32_t __wrap_halo_fetch_reap(struct halo_fetch *fetch, struct halo_fetch_done *ret, uint32_t max, uint64_t wait_us)
{
    if (atomic_load(&control->is_stalled)) {
        atomic_fetch_add(&control->n_waits, wait_us > 0);
        usleep((useconds_t)(wait_us < 2000 ? wait_us : 2000));
        return 0;
    }
    uint32_t n = __real_halo_fetch_reap(fetch, ret, max, wait_us);
    if (atomic_load(&control->gives_up))
        n = keep_given_up(ret, n, wait_us > 0);
    for (uint32_t i = 0; i < n; i++)
        if (is_due(&control->fail_after) || is_bad(&ret[i])) {
            atomic_store(&control->fail_after, atomic_load(&control->stays_broken));
            if (atomic_load(&control->is_bad_block))
                atomic_store(&control->bad_end, ret[i].offset + ret[i].n_bytes);
            ret[i].error = -EIO;
            ret[i].failed_at = ret[i].offset;
        }
    return n;
}

uint64_t __wrap_halo_clock_ns(void)
{
    return __real_halo_clock_ns() + (control ? atomic_load(&control->late_ns) : 0);
}

bool __real_halo_expert_trial_is_on(const struct halo_expert_trial *trial);
bool __wrap_halo_expert_trial_is_on(const struct halo_expert_trial *trial);
bool __wrap_halo_expert_trial_is_on(const struct halo_expert_trial *trial)
{
    return atomic_load(&control->is_guessing) || __real_halo_expert_trial_is_on(trial);
}
