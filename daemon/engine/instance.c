/* instance.c: states of models. The port's thread. */
#include <engine/instance.h>

#include <assert.h>

#include <base/state.h>

#define BIT(state) HALO_STATE_BIT(HALO_INSTANCE_##state)
static const unsigned moves[HALO_N_INSTANCE_STATES] = {
    [HALO_INSTANCE_LOADING] = BIT(READY) | BIT(GONE),
    [HALO_INSTANCE_READY] = BIT(DRAINING),
    [HALO_INSTANCE_DRAINING] = BIT(LEAVING),
    [HALO_INSTANCE_LEAVING] = BIT(GONE),
    [HALO_INSTANCE_GONE] = 0,
};

void halo_instance_move(struct halo_instance *instance, enum halo_instance_state to)
{
    assert(instance->state < HALO_N_INSTANCE_STATES && to < HALO_N_INSTANCE_STATES);
    assert(halo_state_may_move(moves, instance->state, to));
    instance->state = to;
}
