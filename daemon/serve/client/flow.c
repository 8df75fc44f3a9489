/* flow.c: slow readers, half-open connections, and when a connection is over. */
#include "flow_priv.h"

#include <base/state.h>
#include <protocol/limits.h>

#define BIT(state) HALO_STATE_BIT(HALO_PEER_##state)
#define HARD_FACTOR 64 /* high marks, and one answer: what arrives after a pause is one step's worth or an answer */

static const unsigned moves[HALO_N_PEER_STATES] = {
    [HALO_PEER_OPEN] = BIT(SLOW) | BIT(HALF) | BIT(CLOSED),
    [HALO_PEER_SLOW] = BIT(OPEN) | BIT(HALF) | BIT(CLOSED),
    [HALO_PEER_HALF] = BIT(SLOW) | BIT(CLOSED),
    [HALO_PEER_CLOSED] = 0,
};

bool halo_flow_may_move(enum halo_peer_state from, enum halo_peer_state to)
{
    return halo_state_may_move(moves, from, to);
}

void halo_flow_move(struct halo_flow *flow, enum halo_peer_state to)
{
    flow->state = halo_state_move(moves, flow->state, to);
}

/* Nothing more will come from the client and nothing more is due to it. */
static bool is_over(const struct halo_flow *flow, int64_t bytes, size_t n_open)
{
    return bytes == 0 && (flow->doomed || (flow->state == HALO_PEER_HALF && n_open == 0));
}

enum halo_flow_step halo_flow_output(const struct halo_flow *flow, const struct halo_config *config, int64_t bytes,
                                     size_t n_open)
{
    if (flow->state == HALO_PEER_CLOSED)
        return HALO_FLOW_STAYS;
    if (bytes > config->output_high_bytes * HARD_FACTOR + HALO_LIMIT_ANSWER_BYTES)
        return HALO_FLOW_OVERFLOW;
    if (flow->state != HALO_PEER_SLOW && bytes > config->output_high_bytes)
        return HALO_FLOW_SLOW;
    if (flow->state == HALO_PEER_SLOW && bytes <= config->output_low_bytes)
        return HALO_FLOW_QUICK;
    return is_over(flow, bytes, n_open) ? HALO_FLOW_CLOSE : HALO_FLOW_STAYS;
}

enum halo_flow_step halo_flow_time(const struct halo_flow *flow, const struct halo_config *config, uint64_t now_ns)
{
    bool overdue = now_ns - flow->since_ns >= (uint64_t)config->stall_ms * 1000000;
    if (!overdue || (!flow->doomed && flow->state != HALO_PEER_SLOW))
        return HALO_FLOW_STAYS;
    if (flow->doomed)
        return HALO_FLOW_CLOSE;
    return flow->stalled ? HALO_FLOW_GIVE_UP : HALO_FLOW_STALLED;
}
