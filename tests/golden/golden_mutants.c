/* golden_mutants.c: proof that the gate can fail: each mutant is a plan with one feature wrong, and the gate must
 * refuse it.
 *
 * A wrong pairing or a forgotten norm gives fluent text; only the logits tell. Each model also runs unchanged and must
 * pass, so that a gate that refuses everything does not look like proof. In the tree: the mutants of one model; with
 * the shared folder: all.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "golden_mutants.h"

static bool pairing_flipped(struct halo_golden_host *host)
{
    for (uint32_t i = 0; i < host->plan.n_ropes; i++)
        host->ropes[i].pairing = host->ropes[i].pairing == HALO_ROPE_NORM ? HALO_ROPE_NEOX : HALO_ROPE_NORM;
    return host->plan.n_ropes > 0;
}

/* Plain frequencies of another base, without factors or scaling. */
static bool freqs_plain(struct halo_golden_host *host, double base)
{
    const struct halo_rope *rope = &host->model->plan.ropes[0];
    bool changed = false;

    for (uint32_t i = 0; i < rope->n_rot / 2; i++) {
        host->freqs[i] = pow(base, -2.0 * i / rope->n_rot);
        changed = changed || fabs(host->freqs[i] / rope->freqs[i] - 1) > 1e-6;
    }
    host->ropes[0].freqs = host->freqs;
    return changed;
}

static bool rope_factors_ignored(struct halo_golden_host *host)
{
    return freqs_plain(host, host->model->hparams.rope_base);
}

static bool rope_base_ignored(struct halo_golden_host *host)
{
    return freqs_plain(host, 10000);
}

static bool bias_ignored(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        for (uint16_t k = 0; host->ops[i].kind == HALO_OP_MATMUL && k < host->ops[i].u.matmul.n; k++) {
            changed = changed || host->ops[i].u.matmul.bias[k] != HALO_WEIGHT_NONE;
            host->ops[i].u.matmul.bias[k] = HALO_WEIGHT_NONE;
        }
    return changed;
}

/* The embedding as head although the file has one of its own. */
static bool head_tied(struct halo_golden_host *host)
{
    struct halo_op_logits *logits = &host->ops[host->plan.n_ops - 1].u.logits;
    bool changed = logits->weight != host->ops[0].u.embed.weight;

    logits->weight = host->ops[0].u.embed.weight;
    return changed;
}

static bool scale_by_key(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == HALO_OP_ATTEND) {
            host->ops[i].u.attend.scale = (float)(1 / sqrt((double)host->plan.kv[0].head_dim_k));
            changed = true;
        }
    return changed;
}

static bool scale_by_embedding(struct halo_golden_host *host)
{
    float scale = (float)(1 / sqrt((double)host->model->hparams.n_embd / host->model->hparams.n_head));
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == HALO_OP_ATTEND) {
            changed = changed || host->ops[i].u.attend.scale != scale;
            host->ops[i].u.attend.scale = scale;
        }
    return changed;
}

static bool normalise_flip(struct halo_op *op)
{
    op->u.moe_route.normalise = !op->u.moe_route.normalise;
    return true;
}

static bool choice_bias_drop(struct halo_op *op)
{
    bool had = op->u.moe_route.bias != HALO_WEIGHT_NONE;
    op->u.moe_route.bias = HALO_WEIGHT_NONE;
    return had;
}

static bool groups_drop(struct halo_op *op)
{
    bool had = op->u.moe_route.n_groups > 1;
    op->u.moe_route.n_groups = 0;
    return had;
}

static bool expert_scale_drop(struct halo_op *op)
{
    bool had = op->u.moe_route.scale != 1;
    op->u.moe_route.scale = 1;
    return had;
}

static bool gate_swap(struct halo_op *op)
{
    op->u.moe_route.gate = op->u.moe_route.gate == HALO_MOE_SOFTMAX ? HALO_MOE_SIGMOID : HALO_MOE_SOFTMAX;
    return true;
}

static bool shared_drop(struct halo_op *op)
{
    bool had = op->u.moe_sum.add != HALO_NONE;
    op->u.moe_sum.add = op->u.moe_sum.add_gate = HALO_NONE;
    return had;
}

static bool shared_gate_drop(struct halo_op *op)
{
    bool had = op->u.moe_sum.add_gate != HALO_NONE;
    op->u.moe_sum.add_gate = HALO_NONE;
    return had;
}

static bool experts_normalised_otherwise(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, normalise_flip);
}

static bool choice_bias_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, choice_bias_drop);
}

/* The bias of the choice counts for the logits, and so for the weights. */
static bool choice_bias_in_weights(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 1; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == HALO_OP_MOE_ROUTE && host->ops[i].u.moe_route.bias != HALO_WEIGHT_NONE) {
            host->ops[i - 1].u.matmul.bias[0] = host->ops[i].u.moe_route.bias;
            host->ops[i].u.moe_route.bias = HALO_WEIGHT_NONE;
            changed = true;
        }
    return changed;
}

static bool groups_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, groups_drop);
}

static bool expert_scale_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, expert_scale_drop);
}

static bool gate_swapped(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_ROUTE, gate_swap);
}

static bool shared_forgotten(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_SUM, shared_drop);
}

static bool shared_gate_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_SUM, shared_gate_drop);
}

static bool scales_ignored(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_weights; i++) {
        changed = changed || host->weights[i].scales;
        host->weights[i].scales = NULL;
    }
    return changed;
}

/* The scale of expert 0 for every expert. */
static bool scales_of_first(struct halo_golden_host *host)
{
    static float same[16][32];
    uint32_t n = 0;

    for (uint32_t i = 0; i < host->plan.n_weights; i++) {
        struct halo_weight *weight = &host->weights[i];
        if (!weight->scales || weight->n_experts == 1)
            continue;
        if (n == 16 || weight->n_experts > 32)
            return false;
        for (uint32_t e = 0; e < weight->n_experts; e++)
            same[n][e] = weight->scales[0];
        weight->scales = same[n++];
    }
    return n > 0;
}

/* A mutant that sets a number of every op of a kind to what leaves the computation as it is. */
#define NEUTRAL(name, KIND, member, neutral)                                                                           \
    static bool name##_in_op(struct halo_op *op)                                                                       \
    {                                                                                                                  \
        bool had = op->u.member != (neutral);                                                                          \
        op->u.member = (neutral);                                                                                      \
        return had;                                                                                                    \
    }                                                                                                                  \
    static bool name(struct halo_golden_host *host)                                                                    \
    {                                                                                                                  \
        return halo_golden_each_op(host, HALO_OP_##KIND, name##_in_op);                                                \
    }
NEUTRAL(sinks_forgotten, ATTEND, attend.sinks, HALO_WEIGHT_NONE)
NEUTRAL(cap_ignored, ATTEND, attend.cap, 0)
NEUTRAL(temperature_ignored, ATTEND, attend.temperature, 0)
NEUTRAL(logit_cap_ignored, LOGITS, logits.cap, 0)
NEUTRAL(logit_scale_ignored, LOGITS, logits.scale, 1)
NEUTRAL(embed_scale_ignored, EMBED, embed.scale, 1)
NEUTRAL(residual_scale_ignored, RMSNORM, rmsnorm.add_scale, 1)
NEUTRAL(stream_scale_ignored, RMSNORM, rmsnorm.x_scale, 0)
NEUTRAL(mean_kept, RMSNORM, rmsnorm.centre, false)
NEUTRAL(norm_bias_ignored, RMSNORM, rmsnorm.bias, HALO_WEIGHT_NONE)
NEUTRAL(activation_silu, GLU, glu.act, HALO_GLU_SILU)
NEUTRAL(expert_bias_ignored, MOE_MATMUL, moe_matmul.bias[0], HALO_WEIGHT_NONE)

/* Norms of heads without a weight: of V. */
static bool is_v_norm(const struct halo_golden_host *host, const struct halo_op *op)
{
    return op->kind == HALO_OP_QK_NORM && op->u.qk_norm.q_weight == HALO_WEIGHT_NONE;
}

static bool v_norm_dropped(struct halo_golden_host *host)
{
    return halo_golden_drop_ops(host, is_v_norm);
}

/* V that is K is taken when K is normed and rotated already: the copy moves behind the rotation, with V's norm. */
static bool v_copied_late(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i + 3 < host->plan.n_ops; i++) {
        struct halo_op *op = &host->ops[i], copy[2];
        if (op->kind != HALO_OP_CONCAT || op[3].kind != HALO_OP_ROPE)
            continue;
        memcpy(copy, op, sizeof(copy));
        memmove(op, op + 2, sizeof(copy));
        memcpy(op + 2, copy, sizeof(copy));
        i += 3;
        changed = true;
    }
    return changed;
}

/* Factors of weights whose names end so. */
static bool factors_ignored(struct halo_golden_host *host, const char *end)
{
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_weights; i++) {
        struct halo_weight *weight = &host->weights[i];
        size_t n = strlen(weight->name), n_end = strlen(end);
        if (!weight->scales || n < n_end || strcmp(weight->name + n - n_end, end) != 0)
            continue;
        weight->scales = NULL;
        changed = true;
    }
    return changed;
}

static bool router_unscaled(struct halo_golden_host *host)
{
    return factors_ignored(host, "ffn_gate_inp.scale");
}

static bool expert_factors_ignored(struct halo_golden_host *host)
{
    return factors_ignored(host, "ffn_down_exps.weight");
}

static bool addition_dropped(struct halo_op *op)
{
    bool has = op->u.rmsnorm.x == op->u.rmsnorm.out && op->u.rmsnorm.add != HALO_NONE;
    if (has)
        op->u.rmsnorm.add = HALO_NONE;
    return has;
}

static bool experts_forgotten(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_RMSNORM, addition_dropped);
}

static bool expert_halves_swap(struct halo_op *op)
{
    uint32_t first = op->u.moe_matmul.weight[0];
    if (op->u.moe_matmul.n != 2)
        return false;
    op->u.moe_matmul.weight[0] = op->u.moe_matmul.weight[1];
    op->u.moe_matmul.weight[1] = first;
    return true;
}

static bool gate_and_up_of_experts_swapped(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MOE_MATMUL, expert_halves_swap);
}

/* Layers without K and V of their own read the layer of their group before the last. */
static bool wrong_layer_shared(struct halo_golden_host *host)
{
    const struct halo_op *written = NULL;
    bool changed = false;

    for (uint32_t i = 0; i < host->plan.n_ops; i++) {
        struct halo_op *op = &host->ops[i];
        if (op->kind == HALO_OP_KV_WRITE)
            written = op;
        if (op->kind != HALO_OP_ATTEND || (written && written->layer == op->layer) || op->u.attend.kv_layer == 0)
            continue;
        op->u.attend.kv_layer--;
        changed = true;
    }
    return changed;
}

/* What a layer has of its own is the same for every layer: the first one's. */
static bool input_of_first_layer(struct halo_op *op)
{
    bool differs = op->u.concat.n_head == 1 && op->u.concat.a_first > 0;
    if (differs)
        op->u.concat.a_first = 0;
    return differs;
}

static bool inputs_mixed_up(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_CONCAT, input_of_first_layer);
}

static bool addition_to_itself(struct halo_op *op)
{
    bool differs = op->layer == HALO_NONE && op->u.add.x != op->u.add.add;
    op->u.add.add = differs ? op->u.add.x : op->u.add.add;
    return differs;
}

static bool token_inputs_ignored(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ADD, addition_to_itself);
}

static bool window_narrow(struct halo_op *op)
{
    bool has = op->u.attend.window > 1;
    op->u.attend.window -= has;
    return has;
}

static bool window_off_by_one(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_ATTEND, window_narrow);
}

static bool halves_swap(struct halo_op *op)
{
    uint32_t first = op->u.matmul.weight[0];
    if (op->u.matmul.n != 2)
        return false;
    op->u.matmul.weight[0] = op->u.matmul.weight[1];
    op->u.matmul.weight[1] = first;
    return true;
}

static bool gate_and_up_swapped(struct halo_golden_host *host)
{
    return halo_golden_each_op(host, HALO_OP_MATMUL, halves_swap);
}

/* Norms in place: behind a block, or over all of q and of k. */
static bool is_norm_in_place(const struct halo_golden_host *host, const struct halo_op *op)
{
    return op->kind == HALO_OP_RMSNORM && op->u.rmsnorm.x == op->u.rmsnorm.out;
}

static bool norms_in_place_dropped(struct halo_golden_host *host)
{
    return halo_golden_drop_ops(host, is_norm_in_place);
}

/* The norm of q and k on the other side of the rotation. */
static bool qk_norm_moved(struct halo_golden_host *host)
{
    bool changed = false;

    for (uint32_t i = 0; i + 1 < host->plan.n_ops; i++) {
        struct halo_op *op = &host->ops[i], first = *op;
        if ((op[0].kind != HALO_OP_QK_NORM || op[1].kind != HALO_OP_ROPE) &&
            (op[0].kind != HALO_OP_ROPE || op[1].kind != HALO_OP_QK_NORM))
            continue;
        op[0] = op[1];
        op[1] = first;
        changed = true;
        i++;
    }
    return changed;
}

/* One layer more whose q and k are not rotated. */
static bool rotation_dropped_once(struct halo_golden_host *host)
{
    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if (host->ops[i].kind == HALO_OP_ROPE) {
            memmove(&host->ops[i], &host->ops[i + 1], (host->plan.n_ops - i - 1) * sizeof(*host->ops));
            host->plan.n_ops--;
            return true;
        }
    return false;
}

static bool one_base(struct halo_golden_host *host)
{
    if (host->plan.n_ropes < 2)
        return false;
    host->ropes[1] = host->ropes[0];
    return true;
}

static bool magnitude_ignored(struct halo_golden_host *host)
{
    bool changed = host->ropes[0].scale != 1;
    host->ropes[0].scale = 1;
    return changed;
}

static const struct halo_golden_mutant mutants[] = {
    {"fable-Q4_K_M", "unchanged", NULL},
    {"fable-Q4_K_M", "adjacent pairs", pairing_flipped},
    {"fable-Q4_K_M", "Q/K norm dropped", halo_mutant_qk_norm_dropped},
    {"tiny-llama", "unchanged", NULL},
    {"tiny-llama", "half-split pairs", pairing_flipped},
    {"tiny-llama3", "unchanged", NULL},
    {"tiny-llama3", "rope factors ignored", rope_factors_ignored},
    {"tiny-llama3", "own head ignored", head_tied},
    {"tiny-llama-moe", "unchanged", NULL},
    {"tiny-llama-moe", "experts not renormalised", experts_normalised_otherwise},
    {"tiny-mistral-spm", "unchanged", NULL},
    {"tiny-mistral-spm", "rope base ignored", rope_base_ignored},
    {"tiny-qwen2", "unchanged", NULL},
    {"tiny-qwen2", "biases ignored", bias_ignored},
    {"tiny-qwen2", "adjacent pairs", pairing_flipped},
    {"tiny-qwen2", "rope base ignored", rope_base_ignored},
    {"tiny-qwen3", "unchanged", NULL},
    {"tiny-qwen3", "Q/K norm dropped", halo_mutant_qk_norm_dropped},
    {"tiny-qwen3", "scale by embedding / heads", scale_by_embedding},
    {"tiny-qwen3moe", "unchanged", NULL},
    {"tiny-qwen3moe", "experts not renormalised", experts_normalised_otherwise},
    {"tiny-qwen3moe", "adjacent pairs", pairing_flipped},
    {"tiny-qwen3moe-nvfp4", "unchanged", NULL},
    {"tiny-qwen3moe-nvfp4", "scales ignored", scales_ignored},
    {"tiny-qwen3moe-nvfp4", "scale of the first expert", scales_of_first},
    {"tiny-qwen2moe", "unchanged", NULL},
    {"tiny-qwen2moe", "experts renormalised", experts_normalised_otherwise},
    {"tiny-qwen2moe", "shared expert forgotten", shared_forgotten},
    {"tiny-qwen2moe", "shared expert not gated", shared_gate_ignored},
    {"tiny-qwen2moe", "biases ignored", bias_ignored},
    {"tiny-glm4moe", "unchanged", NULL},
    {"tiny-glm4moe", "choice bias ignored", choice_bias_ignored},
    {"tiny-glm4moe", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-glm4moe", "softmax scores", gate_swapped},
    {"tiny-glm4moe", "expert scale ignored", expert_scale_ignored},
    {"tiny-glm4moe", "shared expert forgotten", shared_forgotten},
    {"tiny-glm4moe", "Q/K norm dropped", halo_mutant_qk_norm_dropped},
    {"tiny-glm4moe-air", "unchanged", NULL},
    {"tiny-glm4moe-air", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-dots1", "unchanged", NULL},
    {"tiny-dots1", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-dots1", "shared experts forgotten", shared_forgotten},
    {"tiny-bailingmoe2", "unchanged", NULL},
    {"tiny-bailingmoe2", "expert groups ignored", groups_ignored},
    {"tiny-bailingmoe2", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-ernie4_5-moe", "unchanged", NULL},
    {"tiny-ernie4_5-moe", "choice bias ignored", choice_bias_ignored},
    {"tiny-ernie4_5-moe", "sigmoid scores", gate_swapped},
    {"tiny-ernie4_5-moe", "half-split pairs", pairing_flipped},
    {"tiny-granite", "unchanged", NULL},
    {"tiny-granite", "embedding scale ignored", embed_scale_ignored},
    {"tiny-granite", "residual scale ignored", residual_scale_ignored},
    {"tiny-granite", "attention scale ignored", scale_by_embedding},
    {"tiny-granite", "logit scale ignored", logit_scale_ignored},
    {"tiny-olmo2", "unchanged", NULL},
    {"tiny-olmo2", "norms in place dropped", norms_in_place_dropped},
    {"tiny-olmo2", "adjacent pairs", pairing_flipped},
    {"tiny-starcoder2", "unchanged", NULL},
    {"tiny-starcoder2", "biases ignored", bias_ignored},
    {"tiny-starcoder2", "biases of norms ignored", norm_bias_ignored},
    {"tiny-starcoder2", "SiLU", activation_silu},
    {"tiny-smollm3", "unchanged", NULL},
    {"tiny-smollm3", "one more layer unrotated", rotation_dropped_once},
    {"tiny-seed-oss", "unchanged", NULL},
    {"tiny-seed-oss", "biases ignored", bias_ignored},
    {"tiny-hunyuan-dense", "unchanged", NULL},
    {"tiny-hunyuan-dense", "Q/K norm before rotation", qk_norm_moved},
    {"tiny-qwen3vl", "unchanged", NULL},
    {"tiny-qwen3vl", "Q/K norm dropped", halo_mutant_qk_norm_dropped},
    {"tiny-mistral3", "unchanged", NULL},
    {"tiny-mistral3", "temperature ignored", temperature_ignored, HALO_GOLDEN_LONG},
    {"tiny-mistral3", "YaRN ignored", rope_factors_ignored},
    {"tiny-phi3", "unchanged", NULL},
    {"tiny-phi3", "gate and up swapped", gate_and_up_swapped},
    {"tiny-phi3-longrope", "unchanged", NULL},
    {"tiny-phi3-longrope", "factors ignored", rope_factors_ignored},
    {"tiny-phi3-longrope", "magnitude ignored", magnitude_ignored},
    {"tiny-gemma2", "unchanged", NULL},
    {"tiny-gemma2", "attention cap ignored", cap_ignored},
    {"tiny-gemma2", "logit cap ignored", logit_cap_ignored},
    {"tiny-gemma2", "embedding scale ignored", embed_scale_ignored},
    {"tiny-gemma2", "SiLU", activation_silu},
    {"tiny-gemma2", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-gemma3", "unchanged", NULL},
    {"tiny-gemma3", "one base for all layers", one_base},
    {"tiny-gemma3", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-gemma3-pat", "unchanged", NULL},
    {"tiny-gemma3-pat", "norms in place dropped", norms_in_place_dropped},
    {"tiny-gemma3-pat", "logit cap ignored", logit_cap_ignored},
    {"tiny-gemma4", "unchanged", NULL},
    {"tiny-gemma4", "all pairs rotated", rope_factors_ignored},
    {"tiny-gemma4", "scale by key", scale_by_key},
    {"tiny-gemma4", "norm of V dropped", v_norm_dropped},
    {"tiny-gemma4", "V is the rotated K", v_copied_late},
    {"tiny-gemma4", "factors behind layers ignored", stream_scale_ignored},
    {"tiny-gemma4", "embedding scale ignored", embed_scale_ignored},
    {"tiny-gemma4", "logit cap ignored", logit_cap_ignored},
    {"tiny-gemma4", "SiLU", activation_silu},
    {"tiny-gemma4", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-gemma4-e", "unchanged", NULL},
    {"tiny-gemma4-e", "the wrong layer is shared", wrong_layer_shared},
    {"tiny-gemma4-e", "inputs of layers mixed up", inputs_mixed_up},
    {"tiny-gemma4-e", "inputs of tokens ignored", token_inputs_ignored},
    {"tiny-gemma4-e", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-gemma4-moe", "unchanged", NULL},
    {"tiny-gemma4-moe", "router not scaled", router_unscaled},
    {"tiny-gemma4-moe", "factors of experts ignored", expert_factors_ignored},
    {"tiny-gemma4-moe", "experts forgotten", experts_forgotten},
    {"tiny-gemma4-moe", "gate and up swapped", gate_and_up_of_experts_swapped},
    {"tiny-gemma4-moe", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-cohere2", "unchanged", NULL},
    {"tiny-cohere2", "mean kept", mean_kept},
    {"tiny-cohere2", "one more layer unrotated", rotation_dropped_once},
    {"tiny-cohere2", "logit scale ignored", logit_scale_ignored},
    {"tiny-cohere2", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-exaone4", "unchanged", NULL},
    {"tiny-exaone4", "Q/K norm behind rotation", qk_norm_moved},
    {"tiny-exaone4", "norms in place dropped", norms_in_place_dropped},
    {"tiny-gpt-oss", "unchanged", NULL},
    {"tiny-gpt-oss", "sinks forgotten", sinks_forgotten},
    {"tiny-gpt-oss", "window off by one", window_off_by_one, HALO_GOLDEN_LONG},
    {"tiny-gpt-oss", "YaRN ignored", rope_factors_ignored},
    {"tiny-gpt-oss", "magnitude ignored", magnitude_ignored},
    {"tiny-gpt-oss", "limits ignored", activation_silu},
    {"tiny-gpt-oss", "biases ignored", bias_ignored},
    {"tiny-gpt-oss", "biases of experts ignored", expert_bias_ignored},
    {"tiny-deepseek2", "unchanged", NULL},
    {"tiny-deepseek2", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-deepseek2", "expert groups ignored", groups_ignored},
    {"tiny-deepseek2", "half-split pairs", pairing_flipped},
    {"tiny-deepseek2", "norms of low ranks dropped", norms_in_place_dropped},
    {"tiny-deepseek2-lite", "unchanged", NULL},
    {"tiny-deepseek2-lite", "YaRN ignored", rope_factors_ignored},
    {"tiny-deepseek2-lite", "scale without YaRN's growth", scale_by_key},
    {"tiny-deepseek2-lite", "experts renormalised", experts_normalised_otherwise},
    {"tiny-glm4-flash", "unchanged", NULL},
    {"tiny-glm4-flash", "scale by the cache's row", scale_by_key},
    {"tiny-glm4-flash", "one more layer unrotated", rotation_dropped_once},
    {"tiny-glm4-flash", "shared expert forgotten", shared_forgotten},
    {"tiny-nemotron-h-moe", "unchanged", NULL},
    {"tiny-nemotron-h-moe", "one state for all layers", halo_mutant_scan_states_shared, HALO_GOLDEN_LONG},
    {"tiny-nemotron-h-moe", "other dt bias", halo_mutant_scan_dt_bias_wrong},
    {"tiny-nemotron-h-moe", "other factors past the state", halo_mutant_scan_skip_wrong},
    {"tiny-nemotron-h-moe", "norm in front of the gate", halo_mutant_scan_normed_first},
    {"tiny-nemotron-h-moe", "convolution not activated", halo_mutant_convolution_not_activated},
    {"tiny-nemotron-h-moe", "convolution without bias", halo_mutant_convolution_bias_ignored},
    {"tiny-nemotron-h-moe", "SiLU", activation_silu},
    {"tiny-nemotron-h-moe", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-nemotron-h-moe", "shared expert forgotten", shared_forgotten},
    {"tiny-nemotron-h-moe-latent", "unchanged", NULL},
    {"tiny-nemotron-h-moe-latent", "shared expert forgotten", halo_mutant_additions_dropped},
    {"tiny-nemotron-h-moe-latent", "one state for all layers", halo_mutant_scan_states_shared, HALO_GOLDEN_LONG},
    {"tiny-granitehybrid", "unchanged", NULL},
    {"tiny-granitehybrid", "one state for all layers", halo_mutant_scan_states_shared, HALO_GOLDEN_LONG},
    {"tiny-granitehybrid", "norm in front of the gate", halo_mutant_scan_normed_first},
    {"tiny-granitehybrid", "residual scale ignored", residual_scale_ignored},
    {"tiny-granitehybrid", "shared expert forgotten", shared_forgotten},
    {"tiny-falcon-h1", "unchanged", NULL},
    {"tiny-falcon-h1", "one state for all layers", halo_mutant_scan_states_shared, HALO_GOLDEN_LONG},
    {"tiny-falcon-h1", "attention left out", halo_mutant_additions_dropped},
    {"tiny-falcon-h1", "convolution without bias", halo_mutant_convolution_bias_ignored},
    {"tiny-falcon-h1", "adjacent pairs", pairing_flipped},
    {"tiny-lfm2moe", "unchanged", NULL},
    {"tiny-lfm2moe", "convolution left out", halo_mutant_convolution_ignored},
    {"tiny-lfm2moe", "one state for all layers", halo_mutant_states_shared, HALO_GOLDEN_LONG},
    {"tiny-lfm2moe", "gates left out", halo_mutant_gates_ignored},
    {"tiny-lfm2moe", "Q/K norm dropped", halo_mutant_qk_norm_dropped},
    {"tiny-lfm2moe", "adjacent pairs", pairing_flipped},
    {"tiny-lfm2moe", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-qwen35", "unchanged", NULL},
    {"tiny-qwen35", "one state for all layers", halo_mutant_delta_states_shared, HALO_GOLDEN_LONG},
    {"tiny-qwen35", "heads of keys side by side", halo_mutant_key_heads_swapped},
    {"tiny-qwen35", "alpha and beta swapped", halo_mutant_alpha_and_beta_swapped},
    {"tiny-qwen35", "bias of alpha replaced", halo_mutant_dt_bias_wrong},
    {"tiny-qwen35", "convolution not activated", halo_mutant_convolution_not_activated},
    {"tiny-qwen35", "convolution left out", halo_mutant_convolution_ignored},
    {"tiny-qwen35", "gate of attention forgotten", halo_mutant_attention_gate_forgotten},
    {"tiny-qwen35", "gate z forgotten", halo_mutant_z_gate_forgotten},
    {"tiny-qwen35", "norms of heads dropped", halo_mutant_qk_norm_dropped},
    {"tiny-qwen35", "heads rotated whole", halo_mutant_heads_rotated_whole},
    {"tiny-qwen35", "adjacent pairs", pairing_flipped},
    {"tiny-qwen35moe", "unchanged", NULL},
    {"tiny-qwen35moe", "heads of keys side by side", halo_mutant_key_heads_swapped},
    {"tiny-qwen35moe", "shared expert not gated", shared_gate_ignored},
    {"tiny-qwen35moe", "experts not renormalised", experts_normalised_otherwise},
    {"tiny-qwen35moe", "heads rotated whole", halo_mutant_heads_rotated_whole},
    {"tiny-qwen3next", "unchanged", NULL},
    {"tiny-qwen3next", "one state for all layers", halo_mutant_delta_states_shared, HALO_GOLDEN_LONG},
    {"tiny-qwen3next", "heads of keys in turn", halo_mutant_key_heads_swapped},
    {"tiny-qwen3next", "alpha and beta swapped", halo_mutant_alpha_and_beta_swapped},
    {"tiny-qwen3next", "gate of attention forgotten", halo_mutant_attention_gate_forgotten},
    {"tiny-qwen3next", "shared expert forgotten", shared_forgotten},
    {"tiny-minimax-m2", "unchanged", NULL},
    {"tiny-minimax-m2", "choice bias in the weights", choice_bias_in_weights},
    {"tiny-minimax-m2", "experts not renormalised", experts_normalised_otherwise},
    {"tiny-minimax-m2", "adjacent pairs", pairing_flipped},
};

int main(int argc, char **argv)
{
    return halo_golden_mutants_run(argc, argv, mutants, sizeof(mutants) / sizeof(mutants[0]));
}
