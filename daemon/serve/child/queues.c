/* queues.c: whether the GPU's driver still has something of a dead process. */
#include <serve/child/queues.h>

#include <dirent.h>
#include <stdio.h>

#define PATH_BYTES 512

unsigned halo_queues_held(const char *proc_dir, pid_t pid)
{
    char path[PATH_BYTES];
    unsigned n = 0;
    if (pid <= 0 || snprintf(path, sizeof(path), "%s/%ld/queues", proc_dir, (long)pid) >= (int)sizeof(path))
        return 0;
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}
