/* tensors.c: names and dimensions of the tensors of a decoder. Tables and pure functions, any thread. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tensors_priv.h"

static const char *const patterns[] = {
#define X(id, name) name,
    HALO_TENSOR_LIST(X)
#undef X
};
_Static_assert(sizeof(patterns) / sizeof(patterns[0]) == HALO_TENSOR_COUNT, "one pattern for each tensor");

const char *halo_tensors_pattern(enum halo_tensor_id id)
{
    assert(id < HALO_TENSOR_COUNT);
    return patterns[id];
}

bool halo_tensors_layered(enum halo_tensor_id id)
{
    return strncmp(halo_tensors_pattern(id), "blk.", 4) == 0;
}

uint64_t halo_tensors_extent(enum halo_extent extent, const struct halo_hparams *h)
{
    switch (extent) {
#define X(id, expression)                                                                                              \
    case HALO_EXTENT_##id: return expression;
        HALO_EXTENT_LIST(X)
#undef X
    }
    assert(!"extent of no tensor");
    return 0;
}

enum halo_tensor_id halo_tensors_bias(enum halo_tensor_id id)
{
    switch (id) {
    case HALO_TENSOR_ATTN_Q: return HALO_TENSOR_ATTN_Q_BIAS;
    case HALO_TENSOR_ATTN_K: return HALO_TENSOR_ATTN_K_BIAS;
    case HALO_TENSOR_ATTN_V: return HALO_TENSOR_ATTN_V_BIAS;
    case HALO_TENSOR_ATTN_OUTPUT: return HALO_TENSOR_ATTN_OUTPUT_BIAS;
    case HALO_TENSOR_FFN_GATE: return HALO_TENSOR_FFN_GATE_BIAS;
    case HALO_TENSOR_FFN_UP: return HALO_TENSOR_FFN_UP_BIAS;
    case HALO_TENSOR_FFN_DOWN: return HALO_TENSOR_FFN_DOWN_BIAS;
    case HALO_TENSOR_ATTN_NORM: return HALO_TENSOR_ATTN_NORM_BIAS;
    case HALO_TENSOR_SSM_CONV1D: return HALO_TENSOR_SSM_CONV1D_BIAS;
    case HALO_TENSOR_FFN_NORM: return HALO_TENSOR_FFN_NORM_BIAS;
    case HALO_TENSOR_OUTPUT_NORM: return HALO_TENSOR_OUTPUT_NORM_BIAS;
    case HALO_TENSOR_FFN_GATE_INP: return HALO_TENSOR_FFN_GATE_INP_BIAS;
    case HALO_TENSOR_FFN_GATE_EXPS: return HALO_TENSOR_FFN_GATE_EXPS_BIAS;
    case HALO_TENSOR_FFN_UP_EXPS: return HALO_TENSOR_FFN_UP_EXPS_BIAS;
    case HALO_TENSOR_FFN_DOWN_EXPS: return HALO_TENSOR_FFN_DOWN_EXPS_BIAS;
    default: return HALO_TENSOR_NONE;
    }
}

bool halo_tensors_part(enum halo_tensor_id id, const struct halo_hparams *h, struct halo_tensor_part *ret)
{
    uint64_t q = halo_tensors_extent(HALO_EXTENT_Q, h), k = halo_tensors_extent(HALO_EXTENT_K, h);
    switch (id) {
    case HALO_TENSOR_ATTN_Q: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV, 0, ":q"}; return true;
    case HALO_TENSOR_ATTN_K: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV, q, ":k"}; return true;
    case HALO_TENSOR_ATTN_V: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV, q + k, ":v"}; return true;
    case HALO_TENSOR_ATTN_Q_BIAS: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV_BIAS, 0, ":q"}; return true;
    case HALO_TENSOR_ATTN_K_BIAS: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV_BIAS, q, ":k"}; return true;
    case HALO_TENSOR_ATTN_V_BIAS: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_QKV_BIAS, q + k, ":v"}; return true;
    case HALO_TENSOR_FFN_GATE: *ret = (struct halo_tensor_part){HALO_TENSOR_FFN_GATE_UP, 0, ":gate"}; return true;
    case HALO_TENSOR_FFN_UP: *ret = (struct halo_tensor_part){HALO_TENSOR_FFN_GATE_UP, h->n_ff, ":up"}; return true;
    case HALO_TENSOR_FFN_GATE_EXPS:
        *ret = (struct halo_tensor_part){HALO_TENSOR_FFN_GATE_UP_EXPS, 0, ":gate"};
        return true;
    case HALO_TENSOR_FFN_UP_EXPS:
        *ret = (struct halo_tensor_part){HALO_TENSOR_FFN_GATE_UP_EXPS, h->n_ff_expert, ":up"};
        return true;
    case HALO_TENSOR_ATTN_KV_A_ROW: *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_KV_A, 0, ":row"}; return true;
    case HALO_TENSOR_ATTN_KV_A_ROT:
        *ret = (struct halo_tensor_part){HALO_TENSOR_ATTN_KV_A, h->n_kv_lora, ":rot"};
        return true;
    case HALO_TENSOR_SSM_IN_Z: *ret = (struct halo_tensor_part){HALO_TENSOR_SSM_IN, 0, ":z"}; return true;
    case HALO_TENSOR_SSM_IN_XBC:
        *ret = (struct halo_tensor_part){HALO_TENSOR_SSM_IN, h->n_ssm_inner, ":xbc"};
        return true;
    case HALO_TENSOR_SSM_IN_DT:
        *ret = (struct halo_tensor_part){HALO_TENSOR_SSM_IN,
                                         h->n_ssm_inner + halo_tensors_extent(HALO_EXTENT_SSM_ROW, h), ":dt"};
        return true;
    case HALO_TENSOR_SHORTCONV_IN_B: *ret = (struct halo_tensor_part){HALO_TENSOR_SHORTCONV_IN, 0, ":b"}; return true;
    case HALO_TENSOR_SHORTCONV_IN_C:
        *ret = (struct halo_tensor_part){HALO_TENSOR_SHORTCONV_IN, h->n_embd, ":c"};
        return true;
    case HALO_TENSOR_SHORTCONV_IN_X:
        *ret = (struct halo_tensor_part){HALO_TENSOR_SHORTCONV_IN, 2ull * h->n_embd, ":x"};
        return true;
    default: return false;
    }
}

bool halo_tensors_is_whole(enum halo_tensor_id id)
{
    return id == HALO_TENSOR_ATTN_QKV || id == HALO_TENSOR_ATTN_QKV_BIAS || id == HALO_TENSOR_FFN_GATE_UP ||
           id == HALO_TENSOR_FFN_GATE_UP_EXPS || id == HALO_TENSOR_ATTN_KV_A || id == HALO_TENSOR_SHORTCONV_IN ||
           id == HALO_TENSOR_SSM_IN;
}

void halo_tensors_name(enum halo_tensor_id id, uint32_t layer, char ret[HALO_GGUF_MAX_NAME + 1])
{
    const char *pattern = halo_tensors_pattern(id);
    const char *hole = strstr(pattern, "%u");
    int n = hole ? snprintf(ret, HALO_GGUF_MAX_NAME + 1, "%.*s%u%s", (int)(hole - pattern), pattern, layer, hole + 2)
                 : snprintf(ret, HALO_GGUF_MAX_NAME + 1, "%s", pattern);
    assert(n > 0 && n <= HALO_GGUF_MAX_NAME);
}

bool halo_tensors_when_attention(const struct halo_hparams *hparams, uint32_t layer)
{
    return hparams->by_layer.n_head_kv[layer] > 0;
}

bool halo_tensors_when_ffn(const struct halo_hparams *hparams, uint32_t layer)
{
    return !hparams->one_block || hparams->by_layer.n_ff[layer] > 0;
}

bool halo_tensors_when_state(const struct halo_hparams *hparams, uint32_t layer)
{
    return !halo_tensors_when_attention(hparams, layer) &&
           !(hparams->one_block && halo_tensors_when_ffn(hparams, layer));
}

bool halo_tensors_when_dense(const struct halo_hparams *hparams, uint32_t layer)
{
    return halo_tensors_when_ffn(hparams, layer) && (hparams->n_expert == 0 || layer < hparams->n_dense);
}

bool halo_tensors_when_moe(const struct halo_hparams *hparams, uint32_t layer)
{
    return halo_tensors_when_ffn(hparams, layer) && !halo_tensors_when_dense(hparams, layer);
}

bool halo_tensors_when_latent(const struct halo_hparams *hparams, uint32_t layer)
{
    return halo_tensors_when_moe(hparams, layer) && hparams->n_expert_latent > 0;
}

bool halo_tensors_when_shared(const struct halo_hparams *hparams, uint32_t layer)
{
    return halo_tensors_when_moe(hparams, layer) && hparams->n_ff_shared > 0;
}
