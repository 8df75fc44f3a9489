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

/* The folder of the group that this process is in, as its own hierarchy (version 2) has it. */
static bool find_group(const struct halo_pressure_watch *watch, char ret[HALO_PRESSURE_PATH_BYTES])
{
    char path[HALO_PRESSURE_PATH_BYTES], line[4096];
    bool found = false;
    snprintf(path, sizeof(path), "%s/self/cgroup", watch->proc);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        int n =
            snprintf(ret, HALO_PRESSURE_PATH_BYTES, "%s%s", watch->groups, strcmp(line + 3, "/") == 0 ? "" : line + 3);
        found = n > 0 && n < HALO_PRESSURE_PATH_BYTES;
    }
    if (file)
        fclose(file);
    return found;
}

/* False: it does not fit, or there is no such file. */
static bool find_file(const char *folder, const char *name, char ret[HALO_PRESSURE_PATH_BYTES])
{
    int n = snprintf(ret, HALO_PRESSURE_PATH_BYTES, "%s/%s", folder, name);
    bool found = n > 0 && n < HALO_PRESSURE_PATH_BYTES && access(ret, R_OK) == 0;
    if (!found)
        ret[0] = '\0';
    return found;
}

/* Whether the file has a number, and not "max". */
static bool has_limit(const char *folder, const char *name)
{
    char path[HALO_PRESSURE_PATH_BYTES];
    unsigned long long n;
    FILE *file = find_file(folder, name, path) ? fopen(path, "re") : NULL;
    bool found = file && fscanf(file, "%llu", &n) == 1;
    if (file)
        fclose(file);
    return found;
}

/* What happens to the nearest group with a limit, from this one up. */
static int open_events(const struct halo_pressure_watch *watch, const char *group)
{
    char folder[HALO_PRESSURE_PATH_BYTES], path[HALO_PRESSURE_PATH_BYTES], text[512];
    snprintf(folder, sizeof(folder), "%s", group);
    while (!has_limit(folder, "memory.max") && !has_limit(folder, "memory.high")) {
        char *slash = strrchr(folder, '/');
        if (!slash || slash <= folder + strlen(watch->groups))
            return -1;
        *slash = '\0';
    }
    int fd = find_file(folder, "memory.events", path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && pread(fd, text, sizeof(text), 0) < 0) { /* what has happened so far wakes nobody */
        close(fd);
        fd = -1;
    }
    return fd;
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
    char group[HALO_PRESSURE_PATH_BYTES];
    *watch = (struct halo_pressure_watch){.proc = proc, .groups = groups, .fd = -1, .events_fd = -1};
    bool found = find_group(watch, group);
    if (!found || !find_file(group, "memory.pressure", watch->path))
        find_file(proc, "pressure/memory", watch->path);
    if (found)
        watch->events_fd = open_events(watch, group);
    int fd = watch->path[0] ? open_trigger(watch->path) : -ENOENT;
    watch->fd = fd < 0 ? -1 : fd;
    watch->refused = fd < 0 ? fd : 0;
}

void halo_pressure_watch_close(struct halo_pressure_watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    if (watch->events_fd >= 0)
        close(watch->events_fd);
    watch->fd = watch->events_fd = -1;
}

bool halo_pressure_watch_fired(struct halo_pressure_watch *watch, short revents)
{
    if (watch->fd >= 0 && (revents & (POLLERR | POLLNVAL))) {
        close(watch->fd);
        watch->fd = -1;
        watch->refused = -ENODEV;
        return false;
    }
    return revents & POLLPRI;
}

bool halo_pressure_watch_limited(struct halo_pressure_watch *watch, short revents)
{
    char text[512];
    if (watch->events_fd < 0 || !(revents & (POLLPRI | POLLERR | POLLNVAL))) /* the kernel sets POLLERR with POLLPRI */
        return false;
    if (pread(watch->events_fd, text, sizeof(text), 0) >= 0) /* until then poll does not wait again */
        return true;
    close(watch->events_fd);
    watch->events_fd = -1;
    return false;
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
