/* flow_priv.h: what becomes of a connection whose client is slow, sends no more, or is told to go. Pure.
 *
 * Above the high mark of output the connection is SLOW: its replies pause and its input is not read. Below the low mark
 * both continue. After the stall time its requests end, after another one it closes.
 */
#ifndef HALO_SERVE_CLIENT_FLOW_PRIV_H
#define HALO_SERVE_CLIENT_FLOW_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <serve/client/peer.h>
#include <serve/config.h>

enum halo_flow_step {
    HALO_FLOW_STAYS,
    HALO_FLOW_SLOW,
    HALO_FLOW_QUICK,
    HALO_FLOW_STALLED,  /* its requests end */
    HALO_FLOW_GIVE_UP,  /* closes: it stalled again */
    HALO_FLOW_OVERFLOW, /* closes: more output waits than a pause explains */
    HALO_FLOW_CLOSE,    /* closes: nothing is due any more, or it was told to go and its time is over */
};

/* After its output grew or shrank to `bytes`, or a request ended; `n_open` are left. */
enum halo_flow_step halo_flow_output(const struct halo_flow *flow, const struct halo_config *config, int64_t bytes,
                                     size_t n_open);
/* As time passes. */
enum halo_flow_step halo_flow_time(const struct halo_flow *flow, const struct halo_config *config, uint64_t now_ns);

bool halo_flow_may_move(enum halo_peer_state from, enum halo_peer_state to);
/* Aborts on a move that the table of moves lacks. */
void halo_flow_move(struct halo_flow *flow, enum halo_peer_state to);

#endif
