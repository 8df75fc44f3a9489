/* golden_stages.c: a model whose layers are divided over several devices gives the bits of one device: all logits of a
 * prompt, and all bytes of its pages.
 *
 * One model of the tree; with the shared folder one of each kind of layer and of each kind of value that crosses a cut.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_data.h"
#include "golden_file.h"
#include "golden_host.h"

#define CHUNK 7
#define ROWS_MAX 40 /* of a prompt */

struct run {
    float *logits;                      /* [n][n_vocab] */
    uint8_t *pages[HALO_KV_GROUPS_MAX]; /* the first one of each group */
    uint64_t page_bytes[HALO_KV_GROUPS_MAX];
    uint32_t n, n_vocab, n_groups;
};

static void run_finish(struct run *run)
{
    for (uint32_t group = 0; group < run->n_groups; group++)
        free(run->pages[group]);
    free(run->logits);
    *run = (struct run){0};
}

static void row_keep(void *ud, uint32_t pos, const float *logits)
{
    struct run *run = ud;
    memcpy(run->logits + (size_t)pos * run->n_vocab, logits, run->n_vocab * sizeof(*logits));
}

static bool pages_read(struct halo_golden_host *host, struct run *run)
{
    char reason[HALO_DEVICE_REASON] = "";
    run->n_groups = host->plan.n_kv_groups;
    for (uint32_t group = 0; group < run->n_groups; group++) {
        run->page_bytes[group] = host->table->kv_page_bytes(host->device_model, group);
        run->pages[group] = malloc(run->page_bytes[group]);
        if (!run->pages[group] ||
            host->table->kv_read(host->device_model, group, host->pages[0], run->pages[group], reason) != 0) {
            fprintf(stderr, "group %u: %s\n", group, run->pages[group] ? reason : "no memory");
            return false;
        }
    }
    return true;
}

/* False with the fault, or after saying why. */
static bool run_make(struct run *ret, const char *path, const struct halo_golden_file *file, uint32_t n_stages,
                     struct halo_fault *fault)
{
    const struct halo_golden_settings settings = {.kv = HALO_KV_F16, .n_threads = 2, .n_stages = n_stages};
    struct halo_golden_host host;
    uint32_t n = file->n_prompt < ROWS_MAX ? file->n_prompt : ROWS_MAX;
    *ret = (struct run){.n = n, .n_vocab = file->n_vocab};
    ret->logits = calloc((size_t)n * file->n_vocab, sizeof(float));
    if (!ret->logits || halo_golden_host_open(&host, path, &settings, fault) < 0)
        return false;
    bool ok =
        halo_golden_host_feed(&host, file->tokens, 0, n, CHUNK, 0, row_keep, ret, fault) == 0 && pages_read(&host, ret);
    halo_golden_host_close(&host);
    return ok;
}

static bool run_same(const char *what, const struct run *whole, const struct run *divided)
{
    bool same = whole->n_groups == divided->n_groups &&
                memcmp(whole->logits, divided->logits, (size_t)whole->n * whole->n_vocab * sizeof(float)) == 0;
    if (!same)
        fprintf(stderr, "%s: other logits\n", what);
    for (uint32_t group = 0; group < whole->n_groups && same; group++) {
        same = whole->page_bytes[group] == divided->page_bytes[group] &&
               memcmp(whole->pages[group], divided->pages[group], whole->page_bytes[group]) == 0;
        if (!same)
            fprintf(stderr, "%s: other bytes in group %u of the cache\n", what, group);
    }
    return same;
}

static bool model_same(const struct halo_golden_data *data, const char *stem)
{
    const struct halo_golden_model *model = halo_golden_data_find(data, stem);
    struct halo_golden_file file;
    struct halo_fault fault = {0};
    struct run whole = {0};
    char path[HALO_GOLDEN_PATH];

    if (!model || halo_golden_data_path(data, model, path, &fault) < 0 ||
        halo_golden_file_read(&file, data->recordings, stem, "p_chat", &fault) < 0) {
        fprintf(stderr, "%s: %s\n", stem, fault.text);
        return false;
    }
    bool same = run_make(&whole, path, &file, 0, &fault);
    for (uint32_t n_stages = 2; n_stages <= 3 && same; n_stages++) {
        struct run divided;
        char what[96];
        snprintf(what, sizeof(what), "%s in %u stages", stem, n_stages);
        same = run_make(&divided, path, &file, n_stages, &fault);
        if (!same && n_stages > 2 && fault.code == HALO_FAULT_UNSUPPORTED) { /* a model of two layers */
            printf("%s: %s\n", what, fault.text);
            fault.code = HALO_FAULT_NONE;
            same = true;
        } else {
            same = same && run_same(what, &whole, &divided);
        }
        run_finish(&divided);
    }
    if (fault.code)
        fprintf(stderr, "%s: %s\n", stem, fault.text);
    printf("%-18s %u positions: %s\n", stem, whole.n, same ? "the same bits" : "DIFFERENT");
    run_finish(&whole);
    halo_golden_file_finish(&file);
    return same;
}

int main(int argc, char **argv)
{
    static const char *const stems[] = {"draft-Q4_K",    "tiny-gemma3",  "tiny-gpt-oss",   "tiny-deepseek2",
                                        "tiny-gemma4-e", "tiny-qwen35",  "tiny-lfm2moe",   "tiny-falcon-h1",
                                        "tiny-qwen3moe", "tiny-cohere2", "tiny-deepseek4", "tiny-nemotron-h-moe"};
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
