/* lookup_priv.h: which file a name means, asked by the port and answered by the io thread. */
#ifndef HALO_ENGINE_LOOKUP_PRIV_H
#define HALO_ENGINE_LOOKUP_PRIV_H

#include <base/fault.h>
#include <store/file_id.h>

#include <engine/note.h>

struct halo_lookup {
    struct halo_note note;
    struct halo_job *job;
    const char *name;        /* in: the request's own; a path if it has a slash */
    struct halo_file_id id;  /* out */
    struct halo_fault fault; /* out; code NONE: there is such a file */
};

#endif
