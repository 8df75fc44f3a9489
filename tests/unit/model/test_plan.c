/* test_plan.c: the plan of each family against its golden text, and what holds for every plan.
 *
 * HALO_UPDATE_PLANS=1 writes the texts anew: read the difference before committing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "toy_model.h"

static void plan_path(char *path, size_t n, const char *family)
{
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, n, "%s/tests/unit/model/plans/%s.txt", root ? root : ".", family);
}

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);

    assert_non_null(text);
    if (!file)
        fail_msg("%s is missing (HALO_UPDATE_PLANS=1 writes it)", path);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

static void golden_texts(void **state)
{
    for (uint32_t f = 0; halo_toy_family(f); f++) {
        struct halo_toy *toy = halo_toy_create(halo_toy_family(f));
        struct halo_model *model = halo_toy_accepted(toy);
        int n = halo_plan_print(&model->plan, NULL, 0);
        char *text = malloc((size_t)n + 1), path[4096];

        assert_true(n > 100 && text);
        assert_int_equal(halo_plan_print(&model->plan, text, (size_t)n + 1), n);
        plan_path(path, sizeof(path), halo_toy_family(f));
        if (getenv("HALO_UPDATE_PLANS")) {
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            assert_int_equal(fwrite(text, 1, (size_t)n, file), n);
            assert_int_equal(fclose(file), 0);
        }
        char *wanted = file_read(path);
        assert_string_equal(text, wanted);
        free(wanted);
        free(text);
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

static void print_is_cut_like_snprintf(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    struct halo_model *model = halo_toy_accepted(toy);
    int n = halo_plan_print(&model->plan, NULL, 0);
    char *whole = malloc((size_t)n + 1), *cut = malloc((size_t)n + 1);

    assert_true(whole && cut);
    halo_plan_print(&model->plan, whole, (size_t)n + 1);
    for (int size = 1; size <= n; size += 37) {
        memset(cut, 'x', (size_t)n + 1);
        assert_int_equal(halo_plan_print(&model->plan, cut, (size_t)size), n);
        assert_int_equal(strlen(cut), size - 1);
        assert_memory_equal(cut, whole, (size_t)size - 1);
        assert_int_equal(cut[size], 'x');
    }
    free(whole);
    free(cut);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* The weights that an op reads, in its order. */
static uint32_t weights_of(const struct halo_op *op, uint32_t ret[8])
{
    uint32_t n = 0;

    switch (op->kind) {
    case HALO_OP_EMBED: ret[n++] = op->u.embed.weight; break;
    case HALO_OP_RMSNORM:
        ret[n++] = op->u.rmsnorm.weight;
        ret[n++] = op->u.rmsnorm.bias;
        break;
    case HALO_OP_ATTEND: ret[n++] = op->u.attend.sinks; break;
    case HALO_OP_MATMUL:
        for (uint16_t i = 0; i < op->u.matmul.n; i++) {
            ret[n++] = op->u.matmul.weight[i];
            ret[n++] = op->u.matmul.bias[i];
        }
        break;
    case HALO_OP_QK_NORM:
        if (op->u.qk_norm.q_weight != HALO_WEIGHT_NONE)
            ret[n++] = op->u.qk_norm.q_weight;
        if (op->u.qk_norm.k_weight != HALO_WEIGHT_NONE)
            ret[n++] = op->u.qk_norm.k_weight;
        break;
    case HALO_OP_MOE_ROUTE: ret[n++] = op->u.moe_route.bias; break;
    case HALO_OP_MOE_MATMUL:
        for (uint16_t i = 0; i < op->u.moe_matmul.n; i++) {
            ret[n++] = op->u.moe_matmul.weight[i];
            ret[n++] = op->u.moe_matmul.bias[i];
        }
        break;
    case HALO_OP_STREAMS_MIX:
        ret[n++] = op->u.streams_mix.scale;
        ret[n++] = op->u.streams_mix.base;
        break;
    case HALO_OP_COMPRESS:
        ret[n++] = op->u.compress.bias;
        ret[n++] = op->u.compress.norm;
        break;
    case HALO_OP_ATTEND_BLOCKS: ret[n++] = op->u.attend_blocks.sinks; break;
    case HALO_OP_CONV1D:
        ret[n++] = op->u.conv1d.weight;
        ret[n++] = op->u.conv1d.bias;
        break;
    case HALO_OP_SSM_SCAN:
        ret[n++] = op->u.ssm_scan.a;
        ret[n++] = op->u.ssm_scan.d;
        ret[n++] = op->u.ssm_scan.dt_bias;
        break;
    case HALO_OP_LOGITS:
        ret[n++] = op->u.logits.weight;
        ret[n++] = op->u.logits.bias;
        break;
    case HALO_OP_DELTA_RULE:
        ret[n++] = op->u.delta_rule.a;
        ret[n++] = op->u.delta_rule.dt_bias;
        break;
    default: break;
    }
    uint32_t n_used = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ret[i] != HALO_WEIGHT_NONE)
            ret[n_used++] = ret[i];
    return n_used;
}

/* Order of first use, every weight used, one embedding. */
static void weights_lie_in_order_of_use(void **state)
{
    for (uint32_t f = 0; halo_toy_family(f); f++) {
        struct halo_toy *toy = halo_toy_create(halo_toy_family(f));
        struct halo_model *model = halo_toy_accepted(toy);
        const struct halo_plan *plan = &model->plan;
        uint32_t n_seen = 0, n_embed = 0, n_tensors = 0, used[8];

        for (uint32_t i = 0; i < plan->n_ops; i++) {
            uint32_t n = weights_of(&plan->ops[i], used);
            for (uint32_t k = 0; k < n; k++) {
                assert_true(used[k] <= n_seen);
                n_seen += used[k] == n_seen;
            }
        }
        assert_int_equal(n_seen, plan->n_weights);
        for (uint32_t i = 0; i < plan->n_weights; i++) {
            const char *part = strchr(plan->weights[i].name, ':');
            n_tensors += !part || strcmp(part, ":q") == 0 || strcmp(part, ":gate") == 0 || strcmp(part, ":row") == 0 ||
                         strcmp(part, ":b") == 0 || strcmp(part, ":z") == 0; /* the first of a fused one */
            n_embed += plan->weights[i].embed;
        }
        for (uint32_t i = 0; i < toy->n_tensors; i++) /* those that are read by the host */
            n_tensors += strcmp(toy->tensors[i].name, "rope_freqs.weight") == 0 ||
                         strstr(toy->tensors[i].name, "layer_output_scale") != NULL ||
                         toy->tensors[i].type == HALO_TYPE_I32;
        assert_int_equal(n_tensors, toy->n_tensors);
        assert_int_equal(n_embed, strcmp(halo_toy_family(f), "gemma4-e") == 0 ? 2 : 1);
        assert_string_equal(plan->weights[0].name, "token_embd.weight");
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

/* The fields that the store reads by. */
static void weights_know_their_place(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    struct halo_model *model = halo_toy_accepted(toy);
    unsigned n_experts = 0;

    for (uint32_t i = 0; i < model->plan.n_weights; i++) {
        const struct halo_weight *weight = &model->plan.weights[i];
        const struct halo_gguf_tensor *tensor = halo_gguf_find_tensor(model->gguf, weight->name);
        assert_non_null(tensor);
        assert_int_equal(weight->offset, tensor->offset);
        assert_int_equal(weight->part, tensor->part);
        assert_int_equal(weight->n_bytes,
                         halo_type_row_bytes(weight->type, weight->n_cols) * weight->n_rows * weight->n_experts);
        assert_int_equal(weight->n_bytes, tensor->n_bytes);
        n_experts += weight->role == HALO_WEIGHT_EXPERTS && weight->n_experts == 4;
    }
    assert_int_equal(n_experts, 6);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* Gate and up of each expert in one tensor: two weights whose experts lie apart. */
static void experts_lie_apart_in_one_tensor(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    halo_toy_remove(toy, "blk.1.ffn_gate_exps.weight");
    halo_toy_remove(toy, "blk.1.ffn_up_exps.weight");
    halo_toy_add(toy, "blk.1.ffn_gate_up_exps.weight", HALO_TYPE_F16, 32, 128, 4);
    struct halo_model *model = halo_toy_accepted(toy);
    const struct halo_gguf_tensor *tensor = halo_gguf_find_tensor(model->gguf, "blk.1.ffn_gate_up_exps.weight");
    const uint64_t half = 64 * halo_type_row_bytes(HALO_TYPE_F16, 32);
    unsigned n_parts = 0;

    for (uint32_t i = 0; i < model->plan.n_weights; i++) {
        const struct halo_weight *weight = &model->plan.weights[i];
        bool up = strcmp(weight->name, "blk.1.ffn_gate_up_exps.weight:up") == 0;
        if (!up && strcmp(weight->name, "blk.1.ffn_gate_up_exps.weight:gate") != 0) {
            assert_int_equal(halo_weight_n_pieces(weight), 1);
            continue;
        }
        assert_int_equal(weight->offset, tensor->offset + (up ? half : 0));
        assert_int_equal(weight->expert_step, 2 * half);
        assert_int_equal(weight->n_bytes, 4 * half);
        assert_int_equal(halo_weight_n_pieces(weight), 4);
        n_parts++;
    }
    assert_int_equal(n_parts, 2);
    halo_model_destroy(model);
    halo_toy_add(toy, "blk.1.ffn_up_exps.weight", HALO_TYPE_F16, 32, 64, 4);
    halo_toy_refused(toy, HALO_FAULT_LOAD_FAILED, "blk.1.ffn_up_exps.weight appears twice",
                     "blk.1.ffn_gate_up_exps.weight contains it too");
    halo_toy_destroy(toy);
}

static void head_of_its_own(void **state)
{
    struct halo_toy *toy = halo_toy_create("llama");
    struct halo_model *model = halo_toy_accepted(toy);
    const struct halo_op *last = &model->plan.ops[model->plan.n_ops - 1];

    assert_int_equal(last->kind, HALO_OP_LOGITS);
    assert_int_equal(last->u.logits.weight, model->plan.ops[0].u.embed.weight); /* tied */
    halo_model_destroy(model);
    halo_toy_add(toy, "output.weight", HALO_TYPE_F16, 32, 16, 0);
    model = halo_toy_accepted(toy);
    last = &model->plan.ops[model->plan.n_ops - 1];
    assert_string_equal(model->plan.weights[last->u.logits.weight].name, "output.weight");
    assert_int_equal(last->u.logits.weight, model->plan.n_weights - 1);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* Layers with a window have a group of the cache that keeps only that, when others keep everything and sequences are
 * longer than the window. */
static void windows_have_a_group(void **state)
{
    static const struct {
        uint32_t window, pattern, n_groups;
    } rows[] = {{64, 2, 2}, {255, 2, 2}, {256, 2, 1}, {64, 1, 1}, {64, 3, 1}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("gemma3"); /* two layers, a context of 256 */
        halo_toy_set(toy, "attention.sliding_window", HALO_GGUF_U32, rows[i].window);
        halo_toy_set(toy, "attention.sliding_window_pattern", HALO_GGUF_U32, rows[i].pattern);
        struct halo_model *model = halo_toy_accepted(toy);
        const struct halo_plan *plan = &model->plan;
        assert_int_equal(plan->n_kv_groups, rows[i].n_groups);
        assert_int_equal(plan->kv[0].window, 0);
        assert_int_equal(plan->kv[0].n_layers, rows[i].n_groups == 2 ? 1 : 2);
        if (rows[i].n_groups == 2)
            assert_int_equal(plan->kv[1].window, rows[i].window);
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_texts),
        cmocka_unit_test(print_is_cut_like_snprintf),
        cmocka_unit_test(weights_lie_in_order_of_use),
        cmocka_unit_test(weights_know_their_place),
        cmocka_unit_test(experts_lie_apart_in_one_tensor),
        cmocka_unit_test(head_of_its_own),
        cmocka_unit_test(windows_have_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
