/* golden_chunks.c: a row's logits do not depend on how the prompt was cut, on the number of threads, nor on the
 * kernels' variant: bit for bit.
 *
 * Feeds one recording whole, in chunks of 7, and token by token, with one thread and with three, with each variant that
 * the machine has, for each kind of KV cache, and compares all logits of all positions with memcmp. One model of the
 * tree; with the shared folder some of each family. Nor do they depend on the form of the file: an early one of
 * qwen3next gives the bits of today's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden_data.h"
#include "golden_early.h"
#include "golden_file.h"
#include "golden_host.h"

struct rows {
    float *logits; /* [n][n_vocab] */
    uint32_t n, n_vocab;
};

static void row_keep(void *ud, uint32_t pos, const float *logits)
{
    struct rows *rows = ud;
    memcpy(rows->logits + (size_t)pos * rows->n_vocab, logits, rows->n_vocab * sizeof(*logits));
    rows->n++;
}

struct cut {
    uint32_t chunk, n_threads;
    const char *variant;
};

/* All logits of the prompt, fed in chunks. NULL with the fault. Poisoned before, so that a row not written shows. */
static float *prompt_run(const char *path, const struct halo_golden_file *file, enum halo_kv_type kv,
                         const struct cut *cut, struct halo_fault *fault)
{
    const struct halo_golden_settings settings = {.kv = kv, .n_threads = cut->n_threads, .variant = cut->variant};
    size_t n_bytes = (size_t)file->n_prompt * file->n_vocab * sizeof(float);
    struct rows rows = {malloc(n_bytes), 0, file->n_vocab};
    struct halo_golden_host host;
    int r = -1;

    if (rows.logits && halo_golden_host_open(&host, path, &settings, fault) == 0) {
        memset(rows.logits, 0xff, n_bytes);
        r = halo_golden_host_feed(&host, file->tokens, 0, file->n_prompt, cut->chunk, 0, row_keep, &rows, fault);
        halo_golden_host_close(&host);
    }
    if (r == 0 && rows.n == file->n_prompt)
        return rows.logits;
    free(rows.logits);
    return NULL;
}

static void difference_tell(const char *what, const struct halo_golden_file *file, const float *whole, const float *cut)
{
    for (size_t k = 0; k < (size_t)file->n_prompt * file->n_vocab; k++)
        if (memcmp(&whole[k], &cut[k], sizeof(*whole)) != 0) {
            fprintf(stderr, "%s: position %zu, token %zu: %.9g, whole %.9g\n", what, k / file->n_vocab,
                    k % file->n_vocab, (double)cut[k], (double)whole[k]);
            return;
        }
}

static bool bits_same(const char *stem, const char *path, const struct halo_golden_file *file, enum halo_kv_type kv)
{
    static const struct cut whole_cut = {HALO_GOLDEN_ROWS, 1, NULL};
    static const struct cut cuts[] = {{7, 1, NULL},    {1, 1, NULL},        {HALO_GOLDEN_ROWS, 3, NULL},
                                      {7, 3, NULL},    {5, 2, "reference"}, {5, 2, "avx2"},
                                      {5, 2, "avx512"}};
    struct halo_fault fault = {0};
    float *whole = prompt_run(path, file, kv, &whole_cut, &fault);
    bool same = whole != NULL;

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]) && same; i++) {
        float *cut = prompt_run(path, file, kv, &cuts[i], &fault);
        char what[128];
        snprintf(what, sizeof(what), "%s kv %d, chunks of %u, %u threads, variant %s", stem, (int)kv, cuts[i].chunk,
                 cuts[i].n_threads, cuts[i].variant ? cuts[i].variant : "any");
        if (!cut && cuts[i].variant && fault.code == HALO_FAULT_UNSUPPORTED) {
            fprintf(stderr, "SKIPPED: %s: %s\n", what, fault.text);
            fault.code = HALO_FAULT_NONE;
            continue;
        }
        same = cut && memcmp(whole, cut, (size_t)file->n_prompt * file->n_vocab * sizeof(*whole)) == 0;
        if (cut && !same)
            difference_tell(what, file, whole, cut);
        free(cut);
    }
    if (fault.code)
        fprintf(stderr, "%s: %s\n", stem, fault.text);
    free(whole);
    return same;
}

static bool model_same(const struct halo_golden_data *data, const char *stem)
{
    const struct halo_golden_model *model = halo_golden_data_find(data, stem);
    struct halo_golden_file file;
    struct halo_fault fault = {0};
    char path[HALO_GOLDEN_PATH];
    bool same = true;

    if (!model || halo_golden_data_path(data, model, path, &fault) < 0 ||
        halo_golden_file_read(&file, data->recordings, stem, "p_chat", &fault) < 0) {
        fprintf(stderr, "%s: %s\n", stem, fault.text);
        return false;
    }
    const int coarsest = strcmp(stem, "tiny-deepseek4") == 0 ? HALO_KV_Q8 : HALO_KV_Q4; /* it has no q4 */
    for (int kv = HALO_KV_F32; kv <= coarsest; kv++)
        same = bits_same(stem, path, &file, (enum halo_kv_type)kv) && same;
    printf("%-18s %u positions, kv f32, f16, q8%s: %s\n", stem, file.n_prompt, coarsest == HALO_KV_Q4 ? ", q4" : "",
           same ? "the same bits" : "DIFFERENT");
    halo_golden_file_finish(&file);
    return same;
}

static bool early_form_same(const struct halo_golden_data *data)
{
    static const struct cut cut = {7, 2, NULL};
    const struct halo_golden_model *model = halo_golden_data_find(data, "tiny-qwen3next");
    struct halo_golden_file file;
    struct halo_fault fault = {0};
    char path[HALO_GOLDEN_PATH], early[] = "/tmp/halo-golden-early-XXXXXX";
    float *now = NULL, *then = NULL;
    int fd = mkstemp(early);

    if (fd >= 0 && close(fd) == 0 && halo_golden_data_path(data, model, path, &fault) == 0 &&
        halo_golden_early_write(path, early, &fault) == 0 &&
        halo_golden_file_read(&file, data->recordings, model->stem, "p_chat", &fault) == 0) {
        now = prompt_run(path, &file, HALO_KV_F16, &cut, &fault);
        then = prompt_run(early, &file, HALO_KV_F16, &cut, &fault);
    }
    unlink(early);
    bool same = now && then && memcmp(now, then, (size_t)file.n_prompt * file.n_vocab * sizeof(*now)) == 0;
    if (now && then && !same)
        difference_tell("early form", &file, now, then);
    printf("%-18s in its early form: %s\n", model->stem, same ? "the same bits" : "DIFFERENT");
    if (fault.code)
        fprintf(stderr, "%s\n", fault.text);
    if (now || then)
        halo_golden_file_finish(&file);
    free(now);
    free(then);
    return same;
}

int main(int argc, char **argv)
{
    static const char *const stems[] = {
        "draft-BF16",      "draft-Q5_1",    "draft-IQ2_XS",     "draft-NVFP4",
        "draft-TQ1_0",     "draft-IQ4_XS",  "fable-moe-Q4_K_M", "tiny-llama3",
        "tiny-qwen2",      "tiny-qwen3moe", "tiny-bailingmoe2", "tiny-gemma2",
        "tiny-starcoder2", "tiny-mistral3", "tiny-gpt-oss",     "tiny-nemotron-h-moe-latent",
        "tiny-lfm2moe",    "tiny-gemma4-e", "tiny-gemma4-moe",  "tiny-qwen35",
        "tiny-qwen3next",  "tiny-deepseek4"};
    struct halo_golden_data data;
    unsigned n_wrong = 0;

    if (argc == 2 && strcmp(argv[1], "--in-tree") == 0)
        return !(halo_golden_data_in_tree(&data) && model_same(&data, "fable-Q4_K_M"));
    if (!halo_golden_data_full(&data))
        return 77;
    for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
        n_wrong += !model_same(&data, stems[i]);
    n_wrong += !early_form_same(&data);
    return n_wrong > 0;
}
