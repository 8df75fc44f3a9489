/* host_memory.c: memory that the host has and may give to models (contract in host_memory.h).
 *
 * A group counts the pages of files that it has read among what it uses, although the kernel drops them when memory is
 * short; they are subtracted. The kernel's lists of such pages also have those that were freed with MADV_FREE, even
 * when somebody has used them again since: neither of a group nor of the machine may these count as available, so that
 * they can be taken when memory is short and nobody lives on them before. Source: the kernel's admin-guide,
 * cgroup-v2.rst and cgroup-v1/memory.rst, and proc(5).
 */
#include <common/host_memory.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

/* Names of a version's files and of entries of memory.stat. */
struct group_kind {
    const char *folder, *limits[2], *used; /* limits: the second one may be NULL */
    const char *lists[2];                  /* bytes on the kernel's lists of pages of files */
    const char *files, *shared;            /* bytes of files and of shared memory, which is counted with them */
};
/* Above memory.high nothing is refused, but everything that takes memory is slowed down. */
static const struct group_kind unified = {
    "", {"memory.max", "memory.high"}, "memory.current", {"inactive_file ", "active_file "}, "file ", "shmem "};
static const struct group_kind legacy = {"/memory",
                                         {"memory.limit_in_bytes", NULL},
                                         "memory.usage_in_bytes",
                                         {"total_inactive_file ", "total_active_file "},
                                         "total_cache ",
                                         "total_shmem "};

static FILE *open_in(const char *folder, const char *name)
{
    char path[PATH_BYTES + 64];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
}

/* False: there is no such file, or it holds no number ("max"). */
static bool read_number(const char *folder, const char *name, uint64_t *ret)
{
    unsigned long long n;
    FILE *file = open_in(folder, name);
    bool ok = file && fscanf(file, "%llu", &n) == 1;
    if (file)
        fclose(file);
    *ret = ok ? n : 0;
    return ok;
}

/* The lower one. False: there is none. */
static bool read_limit(const char *folder, const struct group_kind *kind, uint64_t *ret)
{
    uint64_t limit;
    *ret = UINT64_MAX;
    for (int i = 0; i < 2 && kind->limits[i]; i++)
        if (read_number(folder, kind->limits[i], &limit) && limit < *ret)
            *ret = limit;
    return *ret < UINT64_MAX;
}

/* True: the line has that name, and its number is added. */
static bool add_entry(const char *line, const char *name, uint64_t *sum)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0)
        return false;
    *sum += strtoull(line + n, NULL, 10);
    return true;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t cached_bytes(const char *folder, const struct group_kind *kind)
{
    char line[128];
    uint64_t listed = 0, files = 0, shared = 0;
    bool has_files = false;
    FILE *file = open_in(folder, "memory.stat");
    while (file && fgets(line, sizeof(line), file)) {
        add_entry(line, kind->lists[0], &listed);
        add_entry(line, kind->lists[1], &listed);
        has_files |= add_entry(line, kind->files, &files);
        add_entry(line, kind->shared, &shared);
    }
    if (file)
        fclose(file);
    return has_files && less(files, shared) < listed ? less(files, shared) : listed;
}

/* The group and its ancestors. */
static void limit_by(const char *groups, const struct group_kind *kind, const char *name, uint64_t *total,
                     uint64_t *free_bytes)
{
    char folder[PATH_BYTES];
    int n = snprintf(folder, sizeof(folder), "%s%s%s", groups, kind->folder, strcmp(name, "/") == 0 ? "" : name);
    size_t root = strlen(groups) + strlen(kind->folder);
    if (n < 0 || (size_t)n >= sizeof(folder))
        return;
    for (;;) {
        uint64_t limit, used;
        if (read_limit(folder, kind, &limit) && read_number(folder, kind->used, &used)) {
            uint64_t cached = cached_bytes(folder, kind);
            uint64_t left = less(limit, less(used, cached));
            *total = limit < *total ? limit : *total;
            *free_bytes = left < *free_bytes ? left : *free_bytes;
        }
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + root)
            return;
        *slash = '\0';
    }
}

static void read_meminfo(const char *proc, uint64_t *total, uint64_t *free_bytes)
{
    char line[128];
    uint64_t all = 0, available = 0, listed = 0, files = 0, shared = 0;
    FILE *file = open_in(proc, "meminfo");
    while (file && fgets(line, sizeof(line), file)) {
        add_entry(line, "MemTotal:", &all);
        add_entry(line, "MemAvailable:", &available);
        add_entry(line, "Active(file):", &listed);
        add_entry(line, "Inactive(file):", &listed);
        add_entry(line, "Cached:", &files);
        add_entry(line, "Buffers:", &files);
        add_entry(line, "Shmem:", &shared);
    }
    if (file)
        fclose(file);
    *total = all * 1024; /* the lines are in KiB */
    *free_bytes = less(available, less(listed, less(files, shared))) * 1024;
}

void halo_host_memory(const char *proc, const char *groups, uint64_t *ret_total, uint64_t *ret_free)
{
    char line[PATH_BYTES];
    *ret_total = *ret_free = 0;
    read_meminfo(proc, ret_total, ret_free);
    FILE *file = groups ? open_in(proc, "self/cgroup") : NULL;
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name || name[1] != '/')
            continue;
        *name++ = '\0';
        if (strcmp(line, "0:") == 0)
            limit_by(groups, &unified, name, ret_total, ret_free);
        else if (strcmp(controllers, ":memory") == 0)
            limit_by(groups, &legacy, name, ret_total, ret_free);
    }
    if (file)
        fclose(file);
}
