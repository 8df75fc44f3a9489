/* pressure_watch.h: what the kernel says of memory: PSI of this process's control group, or of the machine where the
 * group has none, and what is available.
 *
 * A trigger (10 % of 2 s, which needs no privilege on Linux 6.4 or later) makes the descriptor readable with POLLPRI.
 * Where the kernel refuses one, averages are read with each sample. The memory.events of the group whose limit is the
 * nearest wakes the watch when the group comes to its memory.high or memory.max (control groups of version 2), before
 * anybody stalls. Opened before the sandbox closes /proc for writing.
 * Reading takes some files of /proc and /sys, which never wait. One thread at a time.
 */
#ifndef HALO_ENGINE_PRESSURE_WATCH_H
#define HALO_ENGINE_PRESSURE_WATCH_H

#include <engine/pressure.h>

#define HALO_PRESSURE_PATH_BYTES 4352

struct halo_pressure_watch {
    const char *proc, *groups;           /* folders; outlive the watch */
    char path[HALO_PRESSURE_PATH_BYTES]; /* of the pressure file; "": this kernel has none */
    int fd;                              /* for poll(POLLPRI); -1: no trigger */
    int refused;                         /* why there is none: a negative errno; 0 */
    int events_fd;                       /* for poll(POLLPRI); -1: no group has a limit */
};

/* The folders are /proc and /sys/fs/cgroup, or a test's. Cannot fail: whatever is missing is not watched. */
void halo_pressure_watch_open(struct halo_pressure_watch *watch, const char *proc, const char *groups);
void halo_pressure_watch_close(struct halo_pressure_watch *watch);
/* After poll: whether the trigger fired. A trigger whose group is gone is closed. */
bool halo_pressure_watch_fired(struct halo_pressure_watch *watch, short revents);
/* After poll: whether the group came to its limit. A group that is gone is not watched any more. */
bool halo_pressure_watch_limited(struct halo_pressure_watch *watch, short revents);
/* All but is_triggered; now_ns is the caller's. */
void halo_pressure_watch_read(const struct halo_pressure_watch *watch, uint64_t now_ns,
                              struct halo_pressure_sample *ret);

#endif
