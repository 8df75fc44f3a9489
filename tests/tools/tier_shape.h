/* tier_shape.h: plans of large models by their dimensions alone, for what reads sizes from a plan and nothing else.
 *
 * Such a plan has the weights of a model and the ops that say who reads them; no device can run it. One thread.
 */
#ifndef HALO_TIER_SHAPE_H
#define HALO_TIER_SHAPE_H

#include <kernels/plan.h>

struct halo_tier_shape {
    const char *name;
    uint32_t n_layers, n_embd, n_vocab;
    uint32_t n_attention; /* rows of all matrices of attention together */
    uint32_t n_head, n_head_kv, head_dim;
    uint32_t n_ff;    /* of layers without experts */
    uint32_t n_dense; /* leading layers without experts; n_layers where there are none */
    uint32_t n_expert, n_used, n_ff_expert, n_ff_shared;
    enum halo_type attention, ends; /* ends: embedding and output */
    enum halo_type ff, down[2];     /* gate and up; down of even and of odd layers */
    uint32_t n_context;
};

extern const struct halo_tier_shape halo_tier_qwen3_235b; /* Q4_K_M */
extern const struct halo_tier_shape halo_tier_gpt_oss_120b;
extern const struct halo_tier_shape halo_tier_llama_70b; /* Q4_K_M */

/* malloc'ed; aborts without memory. */
struct halo_plan *halo_tier_plan_create(const struct halo_tier_shape *shape);
void halo_tier_plan_destroy(struct halo_plan *plan);

#endif
