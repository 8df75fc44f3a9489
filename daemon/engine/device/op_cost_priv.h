/* op_cost_priv.h: what the weights of one op cost in a decode step. Pure; any thread. */
#ifndef HALO_ENGINE_OP_COST_PRIV_H
#define HALO_ENGINE_OP_COST_PRIV_H

#include <kernels/plan.h>

struct halo_op_cost {
    uint64_t weight_bytes; /* read, as stored in the file; of experts only those used, of an embedding one row */
    uint64_t flops;        /* 2 for each weight */
};

struct halo_op_cost halo_op_cost_of(const struct halo_plan *plan, const struct halo_op *op);

#endif
