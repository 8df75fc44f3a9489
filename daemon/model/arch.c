/* arch.c: the list of model families. */
#include <string.h>

#include "arch_priv.h"

static const struct halo_arch *const families[] = {
    &halo_arch_bailingmoe2, &halo_arch_cohere2,        &halo_arch_deepseek2,     &halo_arch_deepseek4,
    &halo_arch_dots1,       &halo_arch_ernie4_5_moe,   &halo_arch_exaone4,       &halo_arch_falcon_h1,
    &halo_arch_gemma2,      &halo_arch_gemma3,         &halo_arch_gemma4,        &halo_arch_glm4moe,
    &halo_arch_gpt_oss,     &halo_arch_granite,        &halo_arch_granitehybrid, &halo_arch_hunyuan_dense,
    &halo_arch_lfm2moe,     &halo_arch_llama,          &halo_arch_minimax_m2,    &halo_arch_mistral3,
    &halo_arch_nemotron_h,  &halo_arch_nemotron_h_moe, &halo_arch_olmo2,         &halo_arch_phi3,
    &halo_arch_qwen2,       &halo_arch_qwen2moe,       &halo_arch_qwen3,         &halo_arch_qwen35,
    &halo_arch_qwen35moe,   &halo_arch_qwen3moe,       &halo_arch_qwen3next,     &halo_arch_qwen3vl,
    &halo_arch_seed_oss,    &halo_arch_smollm3,        &halo_arch_starcoder2,
};
#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

/* A text from the file made fit for a terminal: printable ASCII only. Returns `buffer`. */
static const char *show(struct halo_span text, char *buffer, size_t n_room)
{
    size_t n = 0;
    for (; n < text.n && n < n_room - 1; n++)
        buffer[n] = text.bytes[n] >= ' ' && text.bytes[n] <= '~' ? text.bytes[n] : '?';
    buffer[n] = '\0';
    return buffer;
}

int halo_arch_find(const struct halo_arch **ret, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_span name;
    char shown[40];
    int r = halo_gguf_get_string(gguf, "general.architecture", &name, fault);

    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "general.architecture is missing");
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strlen(families[i]->name) == name.n && memcmp(families[i]->name, name.bytes, name.n) == 0) {
            *ret = families[i];
            return 0;
        }
    return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                          "architecture \"%s\" is not supported; docs/MODELS.md lists the %zu that are",
                          show(name, shown, sizeof(shown)), N_FAMILIES);
}
