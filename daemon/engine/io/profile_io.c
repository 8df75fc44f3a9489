/* profile_io.c: what a profile holds for, and where it is kept; how warm drives are. The io thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <store/gguf.h>

#include "io/io_priv.h"

/* The drives under the file, whatever links lead to it. */
static void find_drives(const struct halo_gguf *gguf, const char *path, struct halo_drives *ret)
{
    struct stat facts;
    char *real = realpath(path, NULL);
    *ret = (struct halo_drives){0};
    if (fstat(halo_gguf_part_fd(gguf, 0), &facts) == 0)
        halo_drives_of("", facts.st_dev, real ? real : path, ret);
    free(real);
}

/* What is not the device's. */
static void describe(const struct halo_gguf *gguf, const struct halo_drives *drives, struct halo_profile *ret)
{
    halo_machine_text("", ret->machine, sizeof(ret->machine));
    snprintf(ret->file, sizeof(ret->file), "%s", halo_gguf_fingerprint(gguf));
    snprintf(ret->drive, sizeof(ret->drive), "%s", drives->text);
}

int halo_io_stored_profile(struct halo_io_thread *io, const struct halo_gguf *gguf, const char *path,
                           struct halo_profile *here, struct halo_profile_record *ret, struct halo_fault *fault)
{
    struct halo_drives drives;
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the profile of %s", path);
    find_drives(gguf, path, &drives);
    describe(gguf, &drives, here);
    return halo_profile_load(io->config.state_dir, path, here->device, ret, fault);
}

/* ---- heat ---- */

void halo_io_heat(struct halo_io_thread *io, struct halo_heat *heat)
{
    for (uint32_t i = 0; i < heat->n; i++) {
        struct halo_drives drives;
        double celsius;
        char *real = realpath(heat->files[i].path, NULL);
        halo_drives_of("", heat->files[i].device, real ? real : heat->files[i].path, &drives);
        free(real);
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the temperature of %s", drives.label);
        if (!halo_drives_celsius("", &drives, &celsius) || (heat->has_celsius && celsius <= heat->celsius))
            continue;
        heat->celsius = celsius;
        heat->has_celsius = true;
    }
}

/* ---- stages ---- */

static int open_file(struct halo_io_thread *io, struct halo_profiling *p)
{
    struct halo_io_file file;
    int r = halo_io_find(io, p->model, &file, &p->fault);
    if (r < 0)
        return r;
    snprintf(p->path, sizeof(p->path), "%s", file.path);
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", p->path);
    r = halo_gguf_open(&p->gguf, p->path, &p->fault);
    if (r < 0)
        return r;
    find_drives(p->gguf, p->path, &p->drives);
    describe(p->gguf, &p->drives, &p->here);
    return p->stored ? halo_profile_load(io->config.state_dir, p->path, p->here.device, &p->record, &p->fault) : 0;
}

static void feel(struct halo_io_thread *io, struct halo_profiling *p)
{
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the temperature of %s", p->drives.label);
    p->has_celsius = halo_drives_celsius("", &p->drives, &p->celsius);
}

static void pass(struct halo_profiling *p, struct halo_mailbox *to, enum halo_profiling_stage stage)
{
    p->stage = stage;
    halo_note_post(to, &p->note, HALO_NOTE_PROFILE);
}

void halo_io_profile(struct halo_io_thread *io, struct halo_profiling *p)
{
    int r = 0;
    switch (p->stage) {
    case HALO_PROFILING_OPEN:
        r = open_file(io, p);
        pass(p, r < 0 ? io->port : io->device, r < 0 ? HALO_PROFILING_DONE : HALO_PROFILING_MEMORY);
        return;
    case HALO_PROFILING_COOL:
        feel(io, p);
        pass(p, io->port, p->stored ? HALO_PROFILING_DONE : HALO_PROFILING_WRITE);
        return;
    default:
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "keeping the profile of %s", p->model);
        halo_profile_store(io->config.state_dir, p->path, p->here.device, p->text, p->n_text, &p->store_fault);
        pass(p, io->port, HALO_PROFILING_DONE);
    }
}
