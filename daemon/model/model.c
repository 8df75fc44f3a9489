/* model.c: from a path to a checked model with its plan.
 *
 * Runs on the io thread; the result does not change afterwards. The directory, tokenizer and template are objects of
 * their own; everything else (tables of the binder, the plan, rotary frequencies) lies in the model's arena, which is
 * sealed at the end.
 */
#include <model/model.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "arch_priv.h"
#include "bind_priv.h"
#include "model_text_priv.h"
#include "plan_builder_priv.h"
#include "purpose_priv.h"
#include "rope_priv.h"

#define DEFAULT_ROWS 256
#define DEFAULT_OUTPUTS 64
#define DEFAULT_CONTEXTS 4 /* of the KV pool */

/* A model of HALO_MODEL_MAX_LAYERS layers needs about 4 MiB; more means an error of ours. */
#define ARENA_LIMIT (64u << 20)

/* Sizes of the cache and of a batch. */
static int plan_dimension(struct halo_plan *plan, const struct halo_hparams *h, const struct halo_model_params *params,
                          struct halo_fault *fault)
{
    uint32_t context = params->context ? params->context : h->n_context_train;
    uint64_t kv_tokens = params->kv_tokens, n_pages;

    if (context > h->n_context_train)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "context %" PRIu32 " is more than the %" PRIu32
                              " positions that the model was trained for",
                              context, h->n_context_train);
    if (params->max_rows > HALO_MODEL_MAX_ROWS)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "batches of %" PRIu32 " rows, at most %d are allowed",
                              params->max_rows, HALO_MODEL_MAX_ROWS);
    if (kv_tokens == 0) /* sequences share no page */
        kv_tokens = DEFAULT_CONTEXTS * (((uint64_t)context + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS) *
                    HALO_KV_PAGE_TOKENS;
    else if (kv_tokens < context)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "kv_tokens %" PRIu64 " is less than the context of %" PRIu32, kv_tokens, context);
    n_pages = kv_tokens / HALO_KV_PAGE_TOKENS + (kv_tokens % HALO_KV_PAGE_TOKENS != 0);
    plan->n_kv_groups = 1;
    plan->kv[0] = (struct halo_kv_group){.type = params->kv,
                                         .n_layers = h->n_layers,
                                         .n_head_kv = h->n_head_kv,
                                         .head_dim_k = h->head_dim_k,
                                         .head_dim_v = h->head_dim_v,
                                         .n_pages = (uint32_t)n_pages,
                                         .latent = h->mla_dim_k > 0};
    if (n_pages > INT32_MAX || n_pages > INT64_MAX / halo_kv_page_bytes(&plan->kv[0]))
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "a KV cache of %" PRIu64 " positions is beyond any memory",
                              kv_tokens);
    plan->n_vocab = h->n_vocab;
    plan->n_context = context;
    plan->max_rows = params->max_rows ? params->max_rows : DEFAULT_ROWS;
    plan->max_outputs = params->max_outputs ? params->max_outputs : DEFAULT_OUTPUTS;
    if (plan->max_outputs > plan->max_rows)
        plan->max_outputs = plan->max_rows;
    return 0;
}

static int plan_make(struct halo_model *model, const struct halo_arch *arch, const struct halo_model_params *params,
                     struct halo_fault *fault)
{
    struct halo_binding binding;
    struct halo_builder builder;
    int r;

    r = halo_hparams_read(&model->hparams, model->gguf, arch->name, arch->hparams, arch->n_hparams, params->context,
                          fault);
    if (r < 0)
        return r;
    if ((r = plan_dimension(&model->plan, &model->hparams, params, fault)) < 0)
        return r;
    model->hparams.n_context = model->plan.n_context;
    if ((r = halo_binding_make(&binding, &model->arena, model->gguf, arch, &model->hparams, fault)) < 0)
        return r;
    halo_builder_init(&builder, &model->arena, &model->hparams, &binding, fault);
    arch->build(&builder);
    if ((r = halo_builder_finish(&builder, &model->plan)) < 0)
        return r;
    for (uint32_t i = 0; i < model->plan.n_kv_groups; i++)
        if (model->plan.kv[i].n_pages > INT64_MAX / halo_kv_page_bytes(&model->plan.kv[i]))
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                                  "a KV cache of %" PRIu32 " pages of group %" PRIu32 " is beyond any memory",
                                  model->plan.kv[i].n_pages, i);
    return 0;
}

static void nextn_remark(struct halo_model *model)
{
    const struct halo_hparams *h = &model->hparams;

    if (h->n_nextn == 1)
        halo_remarks_add(&model->remarks, "layer %" PRIu32 " predicts a further token (nextn) and is left out",
                         h->n_layers);
    else if (h->n_nextn > 1)
        halo_remarks_add(&model->remarks,
                         "layers %" PRIu32 " to %" PRIu32 " predict further tokens (nextn) and are left out",
                         h->n_layers, h->n_layers + h->n_nextn - 1);
}

static void sizes_count(struct halo_model *model)
{
    model->n_params = halo_model_count_params(model->gguf);
    for (uint32_t i = 0; i < model->plan.n_weights; i++)
        model->weights_bytes += model->plan.weights[i].n_bytes;
}

int halo_model_create(struct halo_model **ret, const char *path, const struct halo_model_params *params,
                      struct halo_fault *fault)
{
    static const struct halo_model_params defaults = {.kv = HALO_KV_F16};
    struct halo_model *model = calloc(1, sizeof(*model));
    const struct halo_arch *arch = NULL;
    int r;

    *ret = NULL;
    if (!model)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a model");
    halo_arena_init(&model->arena, ARENA_LIMIT);
    if ((r = halo_gguf_open(&model->gguf, path, fault)) < 0)
        goto fail;
    if ((r = halo_purpose_check(model->gguf, fault)) < 0 || (r = halo_arch_find(&arch, model->gguf, fault)) < 0)
        goto named;
    model->arch = arch->name;
    halo_model_name(model->gguf, path, model->name, sizeof(model->name));
    halo_model_quant(model->gguf, model->quant, sizeof(model->quant));
    if ((r = plan_make(model, arch, params ? params : &defaults, fault)) < 0)
        goto named;
    halo_rope_remark(&model->hparams, model->arch, &model->remarks);
    nextn_remark(model);
    sizes_count(model);
    halo_arena_seal(&model->arena);
    *ret = model;
    return 0;
named: /* what is wrong with a file is said with its name; what is wrong with a request is not the file's */
    if (fault && fault->code != HALO_FAULT_BAD_REQUEST)
        halo_gguf_name_fault(model->gguf, fault);
fail:
    halo_model_destroy(model);
    return r;
}

void halo_model_destroy(struct halo_model *model)
{
    if (!model)
        return;
    halo_gguf_close(model->gguf);
    halo_arena_finish(&model->arena);
    free(model);
}
