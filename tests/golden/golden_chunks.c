/* golden_chunks.c: a row's logits do not depend on how the prompt was cut, nor on the number of threads: bit for bit.
 *
 * Feeds one recording whole, in chunks of 7, and token by token, with one thread and with three, for each kind of KV cache, and compares
 * all logits of all positions with memcmp. One model of the tree; with the shared folder also one of each family.
 */
#include "golden_data.h"
#include "golden_file.h"
#include "golden_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* All logits of the prompt, fed in chunks. NULL with the fault. Poisoned before, so that a row not written shows. */
static float *prompt_run(const char *path, const struct halo_golden_file *file, enum halo_kv_type kv, uint32_t chunk, uint32_t n_threads,
                         struct halo_fault *fault)
{
    const struct halo_golden_settings settings = {.kv = kv, .n_threads = n_threads};
    size_t n_bytes = (size_t)file->n_prompt * file->n_vocab * sizeof(float);
    struct rows rows = {malloc(n_bytes), 0, file->n_vocab};
    struct halo_golden_host host;
    int r = -1;

    if (rows.logits && halo_golden_host_open(&host, path, &settings, fault) == 0) {
        memset(rows.logits, 0xff, n_bytes);
        r = halo_golden_host_feed(&host, file->tokens, 0, file->n_prompt, chunk, 0, row_keep, &rows, fault);
        halo_golden_host_close(&host);
    }
    if (r == 0 && rows.n == file->n_prompt)
        return rows.logits;
    free(rows.logits);
    return NULL;
}

static bool bits_same(const char *stem, const char *path, const struct halo_golden_file *file, enum halo_kv_type kv)
{
    static const struct { uint32_t chunk, n_threads; } cuts[] = {{7, 1}, {1, 1}, {HALO_GOLDEN_ROWS, 3}, {7, 3}};
    size_t n = (size_t)file->n_prompt * file->n_vocab;
    struct halo_fault fault = {0};
    float *whole = prompt_run(path, file, kv, HALO_GOLDEN_ROWS, 1, &fault);
    bool same = whole != NULL;

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]) && same; i++) {
        float *cut = prompt_run(path, file, kv, cuts[i].chunk, cuts[i].n_threads, &fault);
        same = cut && memcmp(whole, cut, n * sizeof(*whole)) == 0;
        for (size_t k = 0; cut && !same && k < n; k++)
            if (memcmp(&whole[k], &cut[k], sizeof(*whole)) != 0) {
                fprintf(stderr, "%s kv %d, chunks of %u, %u threads: position %zu, token %zu: %.9g, whole %.9g\n", stem, (int)kv,
                        cuts[i].chunk, cuts[i].n_threads, k / file->n_vocab, k % file->n_vocab, (double)cut[k], (double)whole[k]);
                break;
            }
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
    for (int kv = HALO_KV_F32; kv <= HALO_KV_Q8; kv++)
        same = bits_same(stem, path, &file, (enum halo_kv_type)kv) && same;
    printf("%-18s %u positions, kv f32, f16, q8: %s\n", stem, file.n_prompt, same ? "the same bits" : "DIFFERENT");
    halo_golden_file_finish(&file);
    return same;
}

int main(int argc, char **argv)
{
    static const char *const stems[] = {"draft-BF16", "draft-Q5_1", "draft-IQ4_XS", "fable-moe-Q4_K_M", "tiny-llama3", "tiny-qwen2", "tiny-qwen3moe"};
    struct halo_golden_data data;
    unsigned n_wrong = 0;

    if (argc == 2 && strcmp(argv[1], "--in-tree") == 0)
        return !(halo_golden_data_in_tree(&data) && model_same(&data, "fable-Q4_K_M"));
    if (!halo_golden_data_full(&data))
        return 77;
    for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
        n_wrong += !model_same(&data, stems[i]);
    return n_wrong > 0;
}
