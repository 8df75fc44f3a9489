/* pressure_watch.c: see pressure_watch.h. Source: the kernel's accounting/psi.rst and admin-guide/cgroup-v2.rst. */
#include <engine/pressure_watch.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <common/host_memory.h>

#define TRIGGER "some 200000 2000000" /* us of us; a window of 2 s needs no privilege */

/* The pressure file of the group that this process is in, as its own hierarchy (version 2) has it. */
static bool find_group(struct halo_pressure_watch *watch)
{
    char path[HALO_PRESSURE_PATH_BYTES], line[4096];
    bool found = false;
    snprintf(path, sizeof(path), "%s/self/cgroup", watch->proc);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        int n = snprintf(watch->path, sizeof(watch->path), "%s%s/memory.pressure", watch->groups,
                         strcmp(line + 3, "/") == 0 ? "" : line + 3);
        found = n > 0 && (size_t)n < sizeof(watch->path) && access(watch->path, R_OK) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

/* Any other file system would take the trigger for text. */
static bool has_triggers(int fd)
{
    struct statfs facts;
    return fstatfs(fd, &facts) == 0 && (facts.f_type == PROC_SUPER_MAGIC || facts.f_type == CGROUP2_SUPER_MAGIC);
}

static int open_trigger(const char *path)
{
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = !has_triggers(fd) ? -ENOTSUP : write(fd, TRIGGER, sizeof(TRIGGER)) < 0 ? -errno : fd;
    if (r < 0)
        close(fd);
    return r;
}

void halo_pressure_watch_open(struct halo_pressure_watch *watch, const char *proc, const char *groups)
{
    *watch = (struct halo_pressure_watch){.proc = proc, .groups = groups, .fd = -1};
    if (!find_group(watch)) {
        snprintf(watch->path, sizeof(watch->path), "%s/pressure/memory", proc);
        if (access(watch->path, R_OK) < 0)
            watch->path[0] = '\0';
    }
    int fd = watch->path[0] ? open_trigger(watch->path) : -ENOENT;
    watch->fd = fd < 0 ? -1 : fd;
    watch->refused = fd < 0 ? fd : 0;
}

void halo_pressure_watch_close(struct halo_pressure_watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
}

bool halo_pressure_watch_fired(struct halo_pressure_watch *watch, short revents)
{
    if (watch->fd >= 0 && (revents & (POLLERR | POLLNVAL))) {
        halo_pressure_watch_close(watch);
        watch->refused = -ENODEV;
        return false;
    }
    return revents & POLLPRI;
}

void halo_pressure_watch_read(const struct halo_pressure_watch *watch, uint64_t now_ns,
                              struct halo_pressure_sample *ret)
{
    char line[256];
    double value;
    *ret = (struct halo_pressure_sample){.now_ns = now_ns};
    halo_host_memory(watch->proc, watch->groups, &ret->total_bytes, &ret->available_bytes);
    FILE *file = watch->path[0] ? fopen(watch->path, "re") : NULL;
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "some avg10=%lf", &value) == 1)
            ret->some = value;
        else if (sscanf(line, "full avg10=%lf", &value) == 1)
            ret->full = value;
    if (file)
        fclose(file);
}
