/* folders.c: folders of models that cannot be read. The io thread. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <base/log.h>
#include <base/utf8.h>

#include "io/io_priv.h"

/* What somebody wrote into a configuration that is none of a shell's. */
static const char *hint(const char *path)
{
    if (strstr(path, "/~"))
        return "; ~ is not expanded here, write the whole path";
    if (strstr(path, "/\"") || strstr(path, "/'"))
        return "; quotes are part of the name here";
    if (strstr(path, " #") || strstr(path, " ;"))
        return "; what follows a path is part of it, a comment has a line of its own";
    return "";
}

const char *halo_io_folder_fault(const char *path, char buffer[static HALO_IO_FOLDER_FAULT_BYTES])
{
    if (halo_utf8_valid_run(path, strlen(path)) != strlen(path))
        return "its path is not UTF-8, so no answer can name it";
    DIR *stream = opendir(path);
    if (stream) {
        closedir(stream);
        return NULL;
    }
    snprintf(buffer, HALO_IO_FOLDER_FAULT_BYTES, "%s%s", strerror(errno), hint(path));
    return buffer;
}

void halo_io_check_folders(struct halo_io_thread *io)
{
    char buffer[HALO_IO_FOLDER_FAULT_BYTES];
    for (size_t i = 0; i < io->config.n_model_dirs; i++) {
        const char *dir = io->config.model_dirs[i];
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading folder %s", dir);
        const char *fault = halo_io_folder_fault(dir, buffer);
        if (fault)
            halo_log(HALO_LOG_WARN, "the folder of models %s cannot be read: %s", dir, fault);
    }
}
