/* golden_mutants_blocks.c: the mutants of residual streams and compressed blocks. */
#include "golden_mutants.h"

static bool window_alone(struct halo_op *op)
{
    const struct halo_op_attend_blocks u = op->u.attend_blocks;
    op->kind = HALO_OP_ATTEND;
    op->u.attend = (struct halo_op_attend){.q = u.q,
                                           .out = u.out,
                                           .kv_layer = u.kv_layer,
                                           .n_head = u.n_head,
                                           .scale = u.scale,
                                           .kv_group = u.kv_group,
                                           .window = u.window,
                                           .sinks = u.sinks};
    return true;
}

static bool blocks_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ATTEND_BLOCKS, window_alone);
}

static bool see_all(struct halo_op *op)
{
    bool changed = op->u.attend_blocks.chosen != HALO_NONE;
    op->u.attend_blocks.chosen = HALO_NONE;
    return changed;
}

static bool choice_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ATTEND_BLOCKS, see_all);
}

static bool narrow(struct halo_op *op)
{
    op->u.attend_blocks.window--;
    return true;
}

static bool window_off_by_one(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ATTEND_BLOCKS, narrow);
}

static bool no_sinks(struct halo_op *op)
{
    op->u.attend_blocks.sinks = HALO_WEIGHT_NONE;
    return true;
}

static bool sinks_forgotten(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ATTEND_BLOCKS, no_sinks);
}

/* Blocks are rotated as the layers without them are. */
static bool plain_rope(struct halo_op *op)
{
    op->u.compress.rope = 0;
    return true;
}

static bool blocks_rotated_otherwise(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_COMPRESS, plain_rope);
}

/* The first layer of states for all: the blocks of one layer go on in those of another. */
static bool first_state(struct halo_op *op)
{
    bool changed = op->u.compress.state.kv_layer != 0;
    op->u.compress.state.kv_layer = 0;
    return changed;
}

static bool states_shared(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_COMPRESS, first_state);
}

static bool once(struct halo_op *op)
{
    bool changed = op->u.streams_mix.iterations > 1;
    op->u.streams_mix.iterations = changed ? 1 : op->u.streams_mix.iterations;
    return changed;
}

static bool one_iteration(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_STREAMS_MIX, once);
}

static bool unlimited(struct halo_op *op)
{
    bool changed = op->u.glu.limit > 0;
    op->u.glu.limit = 0;
    return changed;
}

static bool limits_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_GLU, unlimited);
}

static bool by_score(struct halo_op *op)
{
    bool changed = op->u.moe_route.table != NULL;
    op->u.moe_route.table = NULL;
    return changed;
}

static bool table_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, by_score);
}

/* What attention gives stays rotated. */
static bool is_rotation_back(const struct halo_golden_host *host, const struct halo_op *op)
{
    return op->kind == HALO_OP_ROPE && host->plan.ropes[op->u.rope.rope].freqs[0] < 0;
}

static bool rotation_not_undone(struct halo_golden_host *host)
{
    return halo_golden_drop_ops(host, is_rotation_back);
}

static const struct halo_golden_mutant mutants[] = {
    {"tiny-deepseek4", "unchanged", NULL},
    {"tiny-deepseek4", "unchanged, long", NULL, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "window alone", blocks_ignored, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "every block seen", choice_ignored, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "blocks rotated by other base", blocks_rotated_otherwise, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "one state for all layers", states_shared, HALO_GOLDEN_LONG},
    {"tiny-deepseek4", "sinks forgotten", sinks_forgotten},
    {"tiny-deepseek4", "rotation not undone", rotation_not_undone},
    {"tiny-deepseek4", "norm of q dropped", halo_mutant_qk_norm_dropped},
    {"tiny-deepseek4", "one Sinkhorn iteration", one_iteration},
    {"tiny-deepseek4", "limits ignored", limits_ignored},
    {"tiny-deepseek4", "table of experts ignored", table_ignored},
};

int main(int argc, char **argv)
{
    return halo_golden_mutants_run(argc, argv, mutants, sizeof(mutants) / sizeof(mutants[0]));
}
