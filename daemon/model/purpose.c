/* purpose.c: GGUF files that hold something else than a model that generates text, told by what they say of
 * themselves.
 *
 * The keys general.type and general.architecture, the keys of the architecture that only embedding models and rerankers
 * have, and the names of tensors. Pure, any thread. Fails with UNSUPPORTED and a sentence that says what the file is.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "purpose_priv.h"

#define POOLING_RANK 4
#define KEY_BYTES 128

enum purpose {
    PROJECTOR,
    ADAPTER,
    CONTROL_VECTOR,
    IMATRIX,
    EMBEDDING,
    ENCODER_DECODER,
    DIFFUSION,
    DRAFT,
    PICTURES,
    SOUND
};

static const char *const sentences[] = {
    [PROJECTOR] = "the file is a projector: it turns images or sound into rows for the model that it belongs to; load "
                  "that model, which reads text only here",
    [ADAPTER] =
        "the file is a LoRA adapter: it changes another model and is not a model itself; merge it into that model "
        "and load the result",
    [CONTROL_VECTOR] = "the file is a control vector: it steers another model and is not a model itself",
    [IMATRIX] = "the file is an importance matrix: quantizers read it, and it holds no model",
    [EMBEDDING] = "the file is an embedding model: it turns text into vectors and does not generate text, which is not "
                  "supported",
    [ENCODER_DECODER] = "the file is an encoder-decoder model, which is not supported; models that continue a text are",
    [DIFFUSION] = "the file is a diffusion model: it fills in a text instead of continuing it, which is not supported",
    [DRAFT] = "the file is a draft head: it proposes tokens for another model and is not a model itself",
    [PICTURES] = "the file is a model of images or video, not of text",
    [SOUND] = "the file is a model of sound, not of text",
};

struct word {
    const char *name;
    enum purpose purpose;
};

static const struct word types[] = {{"mmproj", PROJECTOR}, {"adapter", ADAPTER}, {"imatrix", IMATRIX}};

static const struct word architectures[] = {
    {"clip", PROJECTOR},
    {"mmproj", PROJECTOR},
    {"controlvector", CONTROL_VECTOR},
    {"imatrix", IMATRIX},
    {"bert", EMBEDDING},
    {"nomic-bert", EMBEDDING},
    {"nomic-bert-moe", EMBEDDING},
    {"jina-bert-v2", EMBEDDING},
    {"jina-bert-v3", EMBEDDING},
    {"neo-bert", EMBEDDING},
    {"modern-bert", EMBEDDING},
    {"eurobert", EMBEDDING},
    {"gemma-embedding", EMBEDDING},
    {"llama-embed", EMBEDDING},
    {"t5encoder", EMBEDDING},
    {"t5", ENCODER_DECODER},
    {"dream", DIFFUSION},
    {"llada", DIFFUSION},
    {"llada-moe", DIFFUSION},
    {"rnd1", DIFFUSION},
    {"eagle3", DRAFT},
    {"dflash", DRAFT},
    {"gemma4-assistant", DRAFT},
    {"flux", PICTURES},
    {"sd1", PICTURES},
    {"sdxl", PICTURES},
    {"sd3", PICTURES},
    {"wan", PICTURES},
    {"ltxv", PICTURES},
    {"hidream", PICTURES},
    {"qwen_image", PICTURES},
    {"lumina2", PICTURES},
    {"whisper", SOUND},
    {"wavtokenizer-dec", SOUND},
};

static bool spells(struct halo_span text, const char *name)
{
    return text.n == strlen(name) && memcmp(text.bytes, name, text.n) == 0;
}

/* 0, or the failure that the word stands for. */
static int word_check(const struct word *words, size_t n, struct halo_span text, struct halo_fault *fault)
{
    for (size_t i = 0; i < n; i++)
        if (spells(text, words[i].name))
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s", sentences[words[i].purpose]);
    return 0;
}

/* Embedding models and rerankers may have the architecture of the model that they were made of. */
static int pooling_check(const struct halo_gguf *gguf, struct halo_span arch, struct halo_fault *fault)
{
    char key[KEY_BYTES];
    uint64_t pooling = 0;
    if (arch.n + sizeof(".pooling_type") > sizeof(key))
        return 0;
    snprintf(key, sizeof(key), "%.*s.pooling_type", (int)arch.n, arch.bytes);
    if (halo_gguf_get_u64(gguf, key, &pooling, NULL) == 0 && pooling == POOLING_RANK)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "the file is a reranker or classifier (its pooling_type is %d): it scores text and "
                              "does not generate it, which is not supported",
                              POOLING_RANK);
    if (pooling != 0)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s", sentences[EMBEDDING]);
    return 0;
}

static int tensors_check(const struct halo_gguf *gguf, struct halo_fault *fault)
{
    uint64_t n_tensors = halo_gguf_n_tensors(gguf);
    if (n_tensors == 0 && halo_gguf_has(gguf, "tokenizer.ggml.tokens"))
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "the file holds a vocabulary and no weights");
    for (uint64_t i = 0; i < n_tensors; i++) {
        const char *name = halo_gguf_tensor(gguf, i)->name;
        if (strncmp(name, "cls.", 4) == 0)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "the file is a reranker or classifier (it has %s): it scores text and does not "
                                  "generate it, which is not supported",
                                  name);
    }
    return 0;
}

int halo_purpose_check(const struct halo_gguf *gguf, struct halo_fault *fault)
{
    struct halo_span type = {0}, arch = {0};
    int r = 0;
    /* Absent in old files; a type that is not known says nothing against a file whose tensors are those of a model. */
    if (halo_gguf_get_string(gguf, "general.type", &type, NULL) == 0)
        r = word_check(types, sizeof(types) / sizeof(types[0]), type, fault);
    if (r < 0)
        return r;
    if (halo_gguf_get_string(gguf, "general.architecture", &arch, NULL) == 0) {
        r = word_check(architectures, sizeof(architectures) / sizeof(architectures[0]), arch, fault);
        r = r < 0 ? r : pooling_check(gguf, arch, fault);
    }
    return r < 0 ? r : tensors_check(gguf, fault);
}
