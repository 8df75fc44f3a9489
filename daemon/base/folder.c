/* folder.c: mkdir -p. */
#include <base/folder.h>

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static int make_one(const char *path, mode_t mode)
{
    struct stat facts;
    if (mkdir(path, mode) == 0)
        return 0;
    int error = errno;
    if (stat(path, &facts) == 0) /* mkdir reports EROFS or EACCES for one that exists, too */
        return S_ISDIR(facts.st_mode) ? 0 : -ENOTDIR;
    return -error;
}

int halo_folder_make(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part))
        return len == 0 ? -ENOENT : -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (char *at = part + 1; *at != '\0'; at++) {
        if (*at != '/' || at[-1] == '/')
            continue;
        *at = '\0';
        int r = make_one(part, mode);
        *at = '/';
        if (r < 0)
            return r;
    }
    return make_one(part, mode);
}
