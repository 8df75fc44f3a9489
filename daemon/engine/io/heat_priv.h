/* heat_priv.h: how warm the drives of the loaded models are, asked by the port and answered by the io thread. */
#ifndef HALO_ENGINE_HEAT_PRIV_H
#define HALO_ENGINE_HEAT_PRIV_H

#include <stdbool.h>

#include <engine/instance.h>

struct halo_heat_file {
    char *path;      /* malloc */
    uint64_t device; /* st_dev */
};

struct halo_heat {
    struct halo_note note;
    struct halo_job *job; /* the port's; NULL: answered without it */
    uint64_t asked_ns;    /* the port's */
    struct halo_heat_file files[HALO_MAX_LOADED];
    uint32_t n;
    double celsius;   /* out: of the hottest drive */
    bool has_celsius; /* out: a sensor told it */
};

#endif
