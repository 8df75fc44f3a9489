/* model_text.c: what a model is called and how it is quantized. Pure; any thread; the file's text is made safe to show.
 */
#include <stdio.h>
#include <string.h>

#include <base/model_stem.h>
#include <base/utf8.h>

#include <model/model.h>

#include "model_text_priv.h"

/* Copies the valid front part without control characters, cut between characters. */
static void text_copy(char *ret, size_t n, const char *bytes, size_t n_bytes)
{
    size_t fit = halo_utf8_valid_run(bytes, n_bytes < n - 1 ? n_bytes : n - 1);

    for (size_t i = 0; i < fit; i++)
        ret[i] = (unsigned char)bytes[i] < ' ' || bytes[i] == 0x7f ? ' ' : bytes[i];
    ret[fit] = '\0';
}

void halo_model_name(const struct halo_gguf *gguf, const char *path, char *ret, size_t n)
{
    struct halo_span name = {NULL, 0};
    char stem[HALO_MODEL_STEM_BYTES];

    ret[0] = '\0';
    if (halo_gguf_get_string(gguf, "general.name", &name, NULL) == 0 && name.n > 0)
        text_copy(ret, n, name.bytes, name.n);
    if (ret[0])
        return;
    text_copy(ret, n, stem, halo_model_stem(path, strlen(path), stem));
}

/* Numbers of general.file_type. Source: the file-type table of the GGUF format. */
static const char *file_type_name(uint64_t file_type)
{
    static const char *const names[] = {
        [0] = "F32",     [1] = "F16",     [2] = "Q4_0",     [3] = "Q4_1",    [7] = "Q8_0",     [8] = "Q5_0",
        [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S",  [12] = "Q3_K_M", [13] = "Q3_K_L",  [14] = "Q4_K_S",
        [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",  [18] = "Q6_K",   [19] = "IQ2_XXS", [20] = "IQ2_XS",
        [21] = "Q2_K_S", [22] = "IQ3_XS", [23] = "IQ3_XXS", [24] = "IQ1_S",  [25] = "IQ4_NL",  [26] = "IQ3_S",
        [27] = "IQ3_M",  [28] = "IQ2_S",  [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",   [32] = "BF16",
        [36] = "TQ1_0",  [37] = "TQ2_0",  [38] = "MXFP4",   [39] = "NVFP4",  [40] = "Q1_0",    [41] = "Q2_0",
    };
    return file_type < sizeof(names) / sizeof(names[0]) ? names[file_type] : NULL;
}

void halo_model_quant(const struct halo_gguf *gguf, char *ret, size_t n)
{
    uint64_t file_type = 0, bytes[HALO_TYPE_END] = {0};
    const char *name = NULL;
    uint32_t most = HALO_TYPE_F32;

    if (halo_gguf_get_u64(gguf, "general.file_type", &file_type, NULL) == 0)
        name = file_type_name(file_type);
    if (!name) {
        for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
            const struct halo_gguf_tensor *tensor = halo_gguf_tensor(gguf, i);
            bytes[tensor->type] += tensor->n_bytes;
        }
        for (uint32_t type = 0; type < HALO_TYPE_END; type++)
            if (bytes[type] > bytes[most])
                most = type;
        name = halo_type_info(most).name;
    }
    snprintf(ret, n, "%s", name);
}

uint64_t halo_model_count_params(const struct halo_gguf *gguf)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
        const struct halo_gguf_tensor *tensor = halo_gguf_tensor(gguf, i);
        uint64_t n = 1;
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            n *= tensor->dims[d];
        sum += n;
    }
    return sum;
}
