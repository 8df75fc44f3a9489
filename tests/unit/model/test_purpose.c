/* test_purpose.c: files that hold something else than a model that generates text are called what they are, before
 * anything else of them is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "toy_model.h"

static void types(void **state)
{
    static const struct {
        const char *type, *says;
    } rows[] = {
        {"mmproj", "the file is a projector"},
        {"adapter", "the file is a LoRA adapter"},
        {"imatrix", "the file is an importance matrix"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_set_text(toy, "general.type", rows[i].type);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, rows[i].says, NULL);
        halo_toy_set_text(toy, "general.type", "model");
        halo_model_destroy(halo_toy_accepted(toy));
        halo_toy_set_text(toy, "general.type", "unheard of");
        halo_model_destroy(halo_toy_accepted(toy));
        halo_toy_destroy(toy);
    }
}

static void architectures(void **state)
{
    static const struct {
        const char *arch, *says;
    } rows[] = {
        {"clip", "the file is a projector"},
        {"controlvector", "the file is a control vector"},
        {"bert", "the file is an embedding model"},
        {"nomic-bert-moe", "the file is an embedding model"},
        {"gemma-embedding", "the file is an embedding model"},
        {"t5", "the file is an encoder-decoder model"},
        {"llada", "the file is a diffusion model"},
        {"eagle3", "the file is a draft head"},
        {"flux", "the file is a model of images or video"},
        {"whisper", "the file is a model of sound"},
        {"berts", "architecture \"berts\" is not supported"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_set_text(toy, "general.architecture", rows[i].arch);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, rows[i].says, NULL);
        halo_toy_destroy(toy);
    }
}

/* They are made of models that generate, and keep the architecture. */
static void embeddings_and_rerankers(void **state)
{
    static const char *const heads[] = {"cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"};
    static const char *const poolings[] = {[1] = "the file is an embedding model",
                                           "the file is an embedding model",
                                           "the file is an embedding model",
                                           "the file is a reranker or classifier"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_add(toy, heads[i], HALO_TYPE_F32, 32, 0, 0);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "the file is a reranker or classifier (it has cls.", heads[i]);
        halo_toy_destroy(toy);
    }
    for (int i = 1; i <= 4; i++) {
        struct halo_toy *toy = halo_toy_create("qwen3");
        halo_toy_set(toy, "pooling_type", HALO_GGUF_U32, i);
        halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, poolings[i], NULL);
        halo_toy_set(toy, "pooling_type", HALO_GGUF_U32, 0); /* none: an ordinary model */
        halo_model_destroy(halo_toy_accepted(toy));
        halo_toy_destroy(toy);
    }
}

static void vocabulary_only(void **state)
{
    struct halo_toy *toy = halo_toy_create("qwen3");
    toy->n_tensors = 0;
    halo_toy_refused(toy, HALO_FAULT_UNSUPPORTED, "the file holds a vocabulary and no weights", NULL);
    halo_toy_destroy(toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(architectures),
        cmocka_unit_test(embeddings_and_rerankers),
        cmocka_unit_test(vocabulary_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
