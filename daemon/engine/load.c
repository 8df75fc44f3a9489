/* load.c: a load goes from stage to stage. Any thread that has the load. */
#include <engine/load.h>

#include <assert.h>
#include <errno.h>

#include <base/state.h>

#define BIT(stage) HALO_STATE_BIT(HALO_LOAD_##stage)
static const unsigned moves[HALO_N_LOAD_STAGES] = {
    [HALO_LOAD_NEW] = BIT(RESOLVE),
    [HALO_LOAD_RESOLVE] = BIT(MATCH) | BIT(DONE),
    [HALO_LOAD_MATCH] = BIT(OPEN) | BIT(DONE),
    [HALO_LOAD_OPEN] = BIT(ADMIT) | BIT(DONE),
    [HALO_LOAD_ADMIT] = BIT(ROOM) | BIT(READ) | BIT(DONE),
    [HALO_LOAD_ROOM] = BIT(ADMIT) | BIT(DONE),
    [HALO_LOAD_READ] = BIT(SEAL),
    [HALO_LOAD_SEAL] = BIT(PREFIXES) | BIT(DONE),
    [HALO_LOAD_PREFIXES] = BIT(RESTORE),
    [HALO_LOAD_RESTORE] = BIT(DONE),
    [HALO_LOAD_DONE] = 0,
};

void halo_load_go(struct halo_load *load, enum halo_load_stage stage)
{
    const struct halo_load_route *route = load->route;
    load->stage = (enum halo_load_stage)halo_state_move(moves, load->stage, stage);
    halo_note_post(route->steps[stage].box(&route->threads), &load->note, HALO_NOTE_LOAD);
}

void halo_load_run(struct halo_load *load)
{
    enum halo_load_stage stage = load->stage, next = load->route->steps[stage].run(load, &load->route->threads);
    if (next != stage) /* else it stays, or was the last one and the load is gone */
        halo_load_go(load, next);
}

enum halo_fault_code halo_load_fault_code(int error)
{
    switch (error) {
    case -ENOMEM: return HALO_FAULT_OUT_OF_MEMORY;
    case -ETIME: return HALO_FAULT_DEVICE_HANG;
    case HALO_DEVICE_E_LOST: return HALO_FAULT_DEVICE_FAULT;
    default: return HALO_FAULT_LOAD_FAILED;
    }
}
