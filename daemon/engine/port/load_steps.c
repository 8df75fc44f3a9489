/* load_steps.c: which thread runs which stage of a load. */
#include "port/port_priv.h"

static struct halo_mailbox *port_box(const struct halo_load_threads *threads)
{
    return &threads->port->box;
}

static struct halo_mailbox *io_box(const struct halo_load_threads *threads)
{
    return &threads->io->box;
}

static struct halo_mailbox *prefetch_box(const struct halo_load_threads *threads)
{
    return &threads->prefetch->box;
}

static struct halo_mailbox *device_box(const struct halo_load_threads *threads)
{
    return &threads->device->box;
}

const struct halo_load_step halo_load_steps[HALO_N_LOAD_STAGES] = {
    [HALO_LOAD_RESOLVE] = {io_box, halo_io_resolve},
    [HALO_LOAD_MATCH] = {port_box, halo_port_match},
    [HALO_LOAD_OPEN] = {io_box, halo_io_open},
    [HALO_LOAD_ADMIT] = {device_box, halo_device_admit},
    [HALO_LOAD_ROOM] = {port_box, halo_port_make_room},
    [HALO_LOAD_READ] = {prefetch_box, halo_prefetch_read},
    [HALO_LOAD_SEAL] = {device_box, halo_device_seal},
    [HALO_LOAD_PREFIXES] = {io_box, halo_io_take_prefixes},
    [HALO_LOAD_RESTORE] = {device_box, halo_device_restore},
    [HALO_LOAD_DONE] = {port_box, halo_port_load_done},
};
