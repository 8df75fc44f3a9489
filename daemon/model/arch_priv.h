/* arch_priv.h: what a model family is: two tables and one straight-line function.
 *
 * To add a family: docs/ADD-A-MODEL.md.
 */
#ifndef HALO_MODEL_ARCH_PRIV_H
#define HALO_MODEL_ARCH_PRIV_H

#include "hparams_priv.h"
#include "tensors_priv.h"

struct halo_builder;

struct halo_arch {
    const char *name; /* general.architecture */
    const struct halo_hparam *hparams;
    size_t n_hparams;
    const struct halo_tensor_spec *tensors;
    size_t n_tensors;
    /* Appends the whole program. Failures stay in the builder and are reported when it is finished. */
    void (*build)(struct halo_builder *builder);
};

#define HALO_ARCH(name, hparams, tensors, build)                                                                       \
    {                                                                                                                  \
        name, hparams, sizeof(hparams) / sizeof((hparams)[0]), tensors, sizeof(tensors) / sizeof((tensors)[0]), build  \
    }

extern const struct halo_arch halo_arch_bailingmoe2, halo_arch_cohere2, halo_arch_deepseek2, halo_arch_deepseek4,
    halo_arch_dots1, halo_arch_ernie4_5_moe, halo_arch_exaone4, halo_arch_falcon_h1, halo_arch_gemma2, halo_arch_gemma3,
    halo_arch_gemma4, halo_arch_glm4moe, halo_arch_gpt_oss, halo_arch_granite, halo_arch_granitehybrid,
    halo_arch_hunyuan_dense, halo_arch_lfm2moe, halo_arch_llama, halo_arch_minimax_m2, halo_arch_mistral3,
    halo_arch_nemotron_h, halo_arch_nemotron_h_moe, halo_arch_olmo2, halo_arch_phi3, halo_arch_qwen2,
    halo_arch_qwen2moe, halo_arch_qwen3, halo_arch_qwen35, halo_arch_qwen35moe, halo_arch_qwen3moe, halo_arch_qwen3next,
    halo_arch_qwen3vl, halo_arch_seed_oss, halo_arch_smollm3, halo_arch_starcoder2;

/* The family that the file names. LOAD_FAILED without the key, UNSUPPORTED for another name (tells it). */
int halo_arch_find(const struct halo_arch **ret, const struct halo_gguf *gguf, struct halo_fault *fault);

#endif
