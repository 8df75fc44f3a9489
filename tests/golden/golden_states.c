/* golden_states.c: the states of recurrent layers behind a prompt, against those of the reference.
 *
 * Each prompt runs twice: in batches as large as they can be, and in small ones with a checkpoint: the slot is copied
 * at the middle of the prompt, other tokens run over it, and the copy takes its place. Both must end at the recorded
 * numbers, and at the same bits. Skips aloud (77) without the shared folder.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "golden_data.h"
#include "golden_file.h"
#include "golden_host.h"

/* The recording rounds to six decimals; the reference itself is within 4e-5 of an evaluation in double. */
#define ELEMENT_BOUND 1e-4
#define SAMPLE 4 /* elements in the middle and at the end */
#define FIRST 8

static const char *const stems[] = {"tiny-lfm2moe",       "tiny-nemotron-h-moe", "tiny-nemotron-h-moe-latent",
                                    "tiny-granitehybrid", "tiny-falcon-h1",      "tiny-qwen35",
                                    "tiny-qwen35moe",     "tiny-qwen3next"};

/* The group of states of a plan; 0 when it has none. */
static uint32_t group_of(const struct halo_plan *plan)
{
    uint32_t group = plan->n_kv_groups - 1;
    while (group > 0 && plan->kv[group].state_width == 0)
        group--;
    return group;
}

/* All layers of the slot, freshly allocated. */
static float *slot_read(struct halo_golden_host *host, uint32_t slot)
{
    uint32_t group = group_of(&host->plan);
    char reason[HALO_DEVICE_REASON] = "";
    float *bytes = malloc(host->table->kv_page_bytes(host->device_model, group));
    if (bytes && host->table->kv_read(host->device_model, group, slot, bytes, reason) == 0)
        return bytes;
    fprintf(stderr, "slot %u: %s\n", slot, bytes ? reason : "no memory");
    free(bytes);
    return NULL;
}

static bool slot_copy(struct halo_golden_host *host, uint32_t from, uint32_t to)
{
    char reason[HALO_DEVICE_REASON] = "";
    return host->table->kv_copy(host->device_model, group_of(&host->plan), from, to, reason) == 0;
}

static void row_ignore(void *ud, uint32_t pos, const float *logits)
{
    (void)ud;
    (void)pos;
    (void)logits;
}

/* The slot behind the prompt; NULL after a failure that was told. */
static float *prompt_run(const char *path, const struct halo_golden_file *file, bool divided)
{
    const struct halo_golden_settings settings = {.kv = HALO_KV_F32};
    uint32_t n = file->n_prompt, half = n / 2;
    struct halo_fault fault = {0};
    struct halo_golden_host host;
    float *slot = NULL;
    int r = halo_golden_host_open(&host, path, &settings, &fault);

    if (r < 0) {
        fprintf(stderr, "%s: %s\n", path, fault.text);
        return NULL;
    }
    if (!divided) {
        r = halo_golden_host_feed(&host, file->tokens, 0, n, HALO_GOLDEN_ROWS, n, row_ignore, NULL, &fault);
    } else {
        uint32_t own = host.pages[0], kept = 0;
        r = halo_golden_host_feed(&host, file->tokens, 0, half, 5, n, row_ignore, NULL, &fault);
        if (r == 0 && slot_copy(&host, own, kept))
            r = halo_golden_host_feed(&host, file->tokens, half, n - half, 3, n, row_ignore, NULL, &fault);
        if (r == 0 && slot_copy(&host, kept, own))
            r = halo_golden_host_feed(&host, file->tokens + half, half, n - half, 7, n, row_ignore, NULL, &fault);
    }
    if (r < 0)
        fprintf(stderr, "%s: %s\n", path, fault.text);
    else
        slot = slot_read(&host, host.pages[0]);
    halo_golden_host_close(&host);
    return slot;
}

/* What the ops of a layer keep, in the order of the recording: of a convolution the rows of a channel together. */
struct part {
    uint32_t n;
    float *data;
};

static struct part part_take(const struct halo_plan *plan, const struct halo_op *op, const float *slot)
{
    const struct halo_state_part *state = op->kind == HALO_OP_CONV1D       ? &op->u.conv1d.state
                                          : op->kind == HALO_OP_DELTA_RULE ? &op->u.delta_rule.state
                                                                           : &op->u.ssm_scan.state;
    const float *from = slot + (size_t)state->kv_layer * plan->kv[state->kv_group].state_width + state->offset;
    uint32_t n_kept = op->kind == HALO_OP_CONV1D ? plan->weights[op->u.conv1d.weight].n_cols - 1 : 1;
    uint32_t width = op->kind == HALO_OP_CONV1D ? plan->values[op->u.conv1d.x].width
                     : op->kind == HALO_OP_DELTA_RULE
                         ? op->u.delta_rule.n_head_v * op->u.delta_rule.dim_v * op->u.delta_rule.dim_k
                         : op->u.ssm_scan.n_head * op->u.ssm_scan.head_dim * op->u.ssm_scan.n_state;
    struct part part = {n_kept * width, malloc((size_t)n_kept * width * sizeof(float))};
    for (uint32_t i = 0; part.data && i < part.n; i++)
        part.data[i] = from[(size_t)(i % n_kept) * width + i / n_kept];
    return part;
}

static bool near(const char *what, double is, double should, double bound)
{
    if (fabs(is - should) <= bound) /* false for a NaN */
        return true;
    fprintf(stderr, "%s is %.9g, recorded %.9g\n", what, is, should);
    return false;
}

static bool sample_near(const json_t *object, const char *key, const struct part *part, uint32_t first, uint32_t n)
{
    const json_t *array = json_object_get(object, key);
    bool right = json_array_size(array) == n && first + n <= part->n;
    for (uint32_t i = 0; right && i < n; i++)
        right = near(key, (double)part->data[first + i], json_number_value(json_array_get(array, i)), ELEMENT_BOUND);
    return right;
}

static bool part_near(const json_t *object, const struct part *part)
{
    double squares = 0, sum = 0, max = 0;
    for (uint32_t i = 0; i < part->n; i++) {
        double x = (double)part->data[i];
        squares += x * x;
        sum += x;
        max = fmax(max, fabs(x));
    }
    double norm = json_number_value(json_object_get(object, "norm"));
    return near("norm", sqrt(squares), norm, ELEMENT_BOUND * (1 + norm)) &&
           near("sum", sum, json_number_value(json_object_get(object, "sum")), ELEMENT_BOUND * (1 + part->n / 20.0)) &&
           near("max_abs", max, json_number_value(json_object_get(object, "max_abs")), ELEMENT_BOUND) &&
           sample_near(object, "first", part, 0, FIRST) && sample_near(object, "middle", part, part->n / 2, SAMPLE) &&
           sample_near(object, "last", part, part->n - SAMPLE, SAMPLE);
}

/* Compares every recorded part of every layer; *n counts them. */
static bool layers_near(const struct halo_plan *plan, const json_t *root, const float *slot, uint32_t *n)
{
    const json_t *layers = json_object_get(root, "layers");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        json_int_t number = json_integer_value(json_object_get(layer, "layer"));
        for (uint32_t k = 0; k < plan->n_ops; k++) {
            const struct halo_op *op = &plan->ops[k];
            const char *key = op->kind == HALO_OP_CONV1D                                       ? "conv"
                              : op->kind == HALO_OP_SSM_SCAN || op->kind == HALO_OP_DELTA_RULE ? "ssm"
                                                                                               : NULL;
            if (!key || op->layer != number)
                continue;
            struct part part = part_take(plan, op, slot);
            bool right = part.data && part_near(json_object_get(layer, key), &part);
            free(part.data);
            if (!right) {
                fprintf(stderr, "layer %d: %s differs\n", (int)number, key);
                return false;
            }
            ++*n;
        }
    }
    return *n > 0;
}

static bool prompt_right(const struct halo_golden_data *data, const char *stem, const char *path, const char *prompt)
{
    char recording[HALO_GOLDEN_PATH + 64];
    struct halo_golden_file file;
    struct halo_model *model = NULL;
    struct halo_fault fault = {0};
    json_error_t error;
    uint32_t n = 0;

    snprintf(recording, sizeof(recording), "%s/state/%s.%s.state.json", data->recordings, stem, prompt);
    json_t *root = json_load_file(recording, 0, &error);
    if (!root || halo_golden_file_read(&file, data->recordings, stem, prompt, &fault) < 0) {
        fprintf(stderr, "%s: %s\n", recording, root ? fault.text : error.text);
        json_decref(root);
        return false;
    }
    float *whole = prompt_run(path, &file, false), *divided = prompt_run(path, &file, true);
    bool right = whole && divided && halo_model_create(&model, path, NULL, &fault) == 0;
    if (right) {
        const struct halo_kv_group *kv = &model->plan.kv[group_of(&model->plan)];
        right = layers_near(&model->plan, root, whole, &n);
        if (right && memcmp(whole, divided, (size_t)kv->n_layers * kv->state_width * sizeof(float)) != 0) {
            fprintf(stderr, "%s: the checkpoint continues with other bits\n", stem);
            right = false;
        }
    }
    printf("%-28s %-10s %2u states %s\n", stem, prompt, n, right ? "right" : "WRONG");
    halo_model_destroy(model);
    halo_golden_file_finish(&file);
    json_decref(root);
    free(whole);
    free(divided);
    return right;
}

int main(void)
{
    static const char *const prompts[] = {"p_short", "p_unicode", "p_long"};
    struct halo_golden_data data;
    unsigned n_run = 0, n_wrong = 0;

    if (!halo_golden_data_full(&data))
        return 77;
    for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++) {
        const struct halo_golden_model *model = halo_golden_data_find(&data, stems[i]);
        struct halo_fault fault = {0};
        char path[HALO_GOLDEN_PATH];
        if (!model || halo_golden_data_path(&data, model, path, &fault) < 0) {
            fprintf(stderr, "%s: %s\n", stems[i], model ? fault.text : "not among the models");
            n_wrong++;
            continue;
        }
        for (size_t k = 0; k < sizeof(prompts) / sizeof(prompts[0]); k++, n_run++)
            n_wrong += !prompt_right(&data, stems[i], path, prompts[k]);
    }
    printf("%u run, %u wrong\n", n_run, n_wrong);
    return n_run == 0 || n_wrong > 0;
}
