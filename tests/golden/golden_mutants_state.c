/* golden_mutants_state.c: features of layers with a state, each wrong in one way (contract in golden_mutants.h). */
#include "golden_mutants.h"

#include <math.h>

/* A convolution gives what it reads. */
bool halo_mutant_convolution_ignored(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == HALO_OP_CONV1D) {
            const struct halo_op_conv1d conv = host->ops[i].u.conv1d;
            const struct halo_op_glu copy = {conv.x, HALO_NONE, conv.out, conv.silu ? HALO_GLU_SILU : HALO_GLU_LINEAR};
            host->ops[i] = (struct halo_op){.kind = HALO_OP_GLU, .layer = host->ops[i].layer, .u.glu = copy};
            changed = true;
        }
    return changed;
}

static bool state_to_first(struct halo_op *op)
{
    bool changed = op->u.conv1d.state.kv_layer > 0;
    op->u.conv1d.state.kv_layer = 0;
    return changed;
}

/* Batches of a prompt begin with the state that another layer left. */
bool halo_mutant_states_shared(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_CONV1D, state_to_first);
}

static bool gate_drop(struct halo_op *op)
{
    bool changed = op->u.glu.act == HALO_GLU_LINEAR;
    if (changed)
        op->u.glu.gate = op->u.glu.up;
    op->u.glu.up = changed ? HALO_NONE : op->u.glu.up;
    return changed;
}

/* Products of two values are the second one. */
bool halo_mutant_gates_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_GLU, gate_drop);
}

static bool states_joined(struct halo_op *op)
{
    bool changed = op->u.delta_rule.state.kv_layer > 0;
    op->u.delta_rule.state.kv_layer = 0;
    return changed;
}

/* Every layer goes on from the state that the one before it left: what a state that is not reset does. */
bool halo_mutant_delta_states_shared(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_DELTA_RULE, states_joined);
}

static bool key_heads_swap(struct halo_op *op)
{
    op->u.delta_rule.grouped = !op->u.delta_rule.grouped;
    return true;
}

bool halo_mutant_key_heads_swapped(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_DELTA_RULE, key_heads_swap);
}

static bool gates_swap(struct halo_op *op)
{
    struct halo_op_delta_rule *rule = &op->u.delta_rule;
    uint16_t alpha = rule->alpha;
    uint32_t alpha_first = rule->alpha_first;
    rule->alpha = rule->beta;
    rule->alpha_first = rule->beta_first;
    rule->beta = alpha;
    rule->beta_first = alpha_first;
    return true;
}

bool halo_mutant_alpha_and_beta_swapped(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_DELTA_RULE, gates_swap);
}

static bool bias_replace(struct halo_op *op)
{
    op->u.delta_rule.dt_bias = op->u.delta_rule.a;
    return true;
}

bool halo_mutant_dt_bias_wrong(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_DELTA_RULE, bias_replace);
}

static bool convolution_linear(struct halo_op *op)
{
    bool changed = op->u.conv1d.silu;
    op->u.conv1d.silu = false;
    return changed;
}

bool halo_mutant_convolution_not_activated(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_CONV1D, convolution_linear);
}

/* Leaves out the products with a gate of this activation that work in place. */
static bool gate_dropped(struct halo_golden_host *host, enum halo_glu_act act)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < host->plan.n_ops; i++) {
        const struct halo_op *op = &host->ops[i];
        if (op->kind != HALO_OP_GLU || op->u.glu.act != act || op->u.glu.out != op->u.glu.up)
            host->ops[n++] = *op;
    }
    bool changed = n < host->plan.n_ops;
    host->plan.n_ops = n;
    return changed;
}

bool halo_mutant_attention_gate_forgotten(struct halo_golden_host *host)
{
    return gate_dropped(host, HALO_GLU_SIGMOID);
}

bool halo_mutant_z_gate_forgotten(struct halo_golden_host *host)
{
    return gate_dropped(host, HALO_GLU_SILU);
}

/* The whole head is rotated, not a part of it. */
bool halo_mutant_heads_rotated_whole(struct halo_golden_host *host)
{
    bool changed = host->ropes[0].n_rot < host->plan.kv[0].head_dim_k;
    static double freqs[HALO_MODEL_MAX_HEAD_DIM / 2];
    uint32_t n = host->plan.kv[0].head_dim_k;

    for (uint32_t i = 0; i < n / 2; i++)
        freqs[i] = pow((double)host->model->hparams.rope_base, -2.0 * i / n);
    host->ropes[0].n_rot = n;
    host->ropes[0].freqs = freqs;
    return changed;
}

static bool scan_to_first(struct halo_op *op)
{
    bool changed = op->u.ssm_scan.state.kv_layer > 0;
    op->u.ssm_scan.state.kv_layer = 0;
    return changed;
}

/* As halo_mutant_delta_states_shared. */
bool halo_mutant_scan_states_shared(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_SSM_SCAN, scan_to_first);
}

static bool scan_bias_replace(struct halo_op *op)
{
    op->u.ssm_scan.dt_bias = op->u.ssm_scan.a;
    return true;
}

bool halo_mutant_scan_dt_bias_wrong(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_SSM_SCAN, scan_bias_replace);
}

static bool scan_skip_replace(struct halo_op *op)
{
    op->u.ssm_scan.d = op->u.ssm_scan.a;
    return true;
}

/* What goes past the state has other factors. */
bool halo_mutant_scan_skip_wrong(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_SSM_SCAN, scan_skip_replace);
}

/* The groups are normed in front of the gate. */
bool halo_mutant_scan_normed_first(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i + 2 < host->plan.n_ops; i++) {
        struct halo_op gate = host->ops[i + 1];
        if (host->ops[i].kind != HALO_OP_SSM_SCAN || gate.kind != HALO_OP_GLU ||
            host->ops[i + 2].kind != HALO_OP_QK_NORM)
            continue;
        host->ops[i + 1] = host->ops[i + 2];
        host->ops[i + 2] = gate;
        changed = true;
    }
    return changed;
}

static bool convolution_unbiased(struct halo_op *op)
{
    bool changed = op->u.conv1d.bias != HALO_WEIGHT_NONE;
    op->u.conv1d.bias = HALO_WEIGHT_NONE;
    return changed;
}

bool halo_mutant_convolution_bias_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_CONV1D, convolution_unbiased);
}

/* Attention beside a state, or a shared expert beside a latent mixture: what an op of its own adds. */
static bool is_addition(const struct halo_golden_host *host, const struct halo_op *op)
{
    return op->kind == HALO_OP_ADD;
}

bool halo_mutant_additions_dropped(struct halo_golden_host *host)
{
    return halo_golden_drop_ops(host, is_addition);
}
