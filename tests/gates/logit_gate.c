/* logit_gate.c: the program behind scripts/logit-gate: models on devices against recorded logits, as Markdown.
 *
 *   logit_gate --bounds FILE [--set NAME,…] [--device NAME,…] [--model STEM,…] [--hip-lib PATH] [--variant V]
 *              [--threads N] [--oracle V] [--layers] [--measure]
 *
 * A cell is a row of the table: model, device, type of the KV cache, prompts. All rows of the wanted sets that the
 * filters leave are required: one that cannot be run fails. A cell that fails is followed by its layers, so the report
 * says where the device begins to differ from the portable CPU kernels; --layers shows them for each cell.
 *
 * Exit status: 0 all cells keep their bounds, 1 one does not, 2 wrong usage, 3 nothing was checked.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "golden_gate.h"
#include "layers.h"

enum { EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3 };

/* The CPU's kernels give the same bits in each variant; a GPU multiplies in f16 and adds in another order. */
#define LEAST_CPU 0.999999
#define LEAST_GPU 0.999

struct options {
    const char *bounds, *sets, *devices, *models, *hip_library, *variant, *oracle;
    uint32_t n_threads;
    bool layers, measure;
};

struct tally {
    unsigned n_run, n_failed;
};

static const char *const kv_names[] = {
    [HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8", [HALO_KV_Q4] = "q4"};

/* Whether `word` is among the comma-separated words of `list`; NULL holds all. */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return !list;
}

static bool options_parse(struct options *ret, int argc, char **argv)
{
    static const struct option known[] = {{"bounds", required_argument, NULL, 'b'},
                                          {"set", required_argument, NULL, 's'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"model", required_argument, NULL, 'm'},
                                          {"hip-lib", required_argument, NULL, 'h'},
                                          {"variant", required_argument, NULL, 'v'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"oracle", required_argument, NULL, 'o'},
                                          {"layers", no_argument, NULL, 'l'},
                                          {"measure", no_argument, NULL, 'M'},
                                          {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 'b': ret->bounds = optarg; break;
        case 's': ret->sets = optarg; break;
        case 'd': ret->devices = optarg; break;
        case 'm': ret->models = optarg; break;
        case 'h': ret->hip_library = optarg; break;
        case 'v': ret->variant = optarg; break;
        case 't': ret->n_threads = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'o': ret->oracle = optarg; break;
        case 'l': ret->layers = true; break;
        case 'M': ret->measure = true; break;
        default: return false;
        }
    return optind == argc && ret->bounds;
}

/* The settings of a cell; false: a device or a type of cache that there is not. */
static bool settings_of(const struct options *options, const struct halo_bound *bound, struct halo_golden_settings *ret)
{
    bool is_hip = strcmp(bound->device, "hip") == 0;
    int kv = 0;

    while (kv < 4 && strcmp(kv_names[kv], bound->kv) != 0)
        kv++;
    *ret = (struct halo_golden_settings){.kv = (enum halo_kv_type)kv,
                                         .n_threads = options->n_threads,
                                         .variant = is_hip ? NULL : options->variant,
                                         .hip_library = is_hip ? options->hip_library : NULL};
    return kv < 4 && (is_hip || strcmp(bound->device, "cpu") == 0) && (!is_hip || options->hip_library);
}

static unsigned prompts_of(const char *list)
{
    unsigned prompts = 0;

    for (int i = 0; i < HALO_GOLDEN_PROMPTS; i++)
        prompts |= listed(list, halo_golden_prompts[i]) ? 1u << i : 0;
    return prompts;
}

static void layers_print(const struct halo_layers *layers, double least)
{
    printf("| up to layer | mean cosine | worst cosine | at position | not finite |  |\n|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < layers->n; i++) {
        const struct halo_layer *layer = &layers->at[i];
        printf("| %u | %.7f | %.7f | %u | %u of %u | %s |\n", i, layer->mean, layer->worst, layer->worst_pos,
               layer->n_broken, layer->n, i == layers->first ? "**differs**" : "");
    }
    if (layers->first < layers->n)
        printf("\nLayer %u is the first that differs (a cosine under %g, or a number that is not finite).\n\n",
               layers->first, least);
    else
        printf("\nNo layer differs (no cosine is under %g). If the cell fails, the fault is in what the device shares "
               "with the "
               "portable kernels: plan, weights, common code.\n\n",
               least);
}

/* The first prompt of the cell, layer by layer. */
static void layers_show(const struct options *options, const struct halo_golden_data *data,
                        const struct halo_bound *bound, const struct halo_golden_settings *settings)
{
    const struct halo_golden_settings oracle = {
        .kv = settings->kv, .n_threads = options->n_threads, .variant = options->oracle, .oracle = true};
    const struct halo_golden_model *model = halo_golden_data_find(data, bound->model);
    double least = settings->hip_library ? LEAST_GPU : LEAST_CPU;
    struct halo_golden_file file;
    struct halo_layers layers;
    struct halo_fault fault = {0};
    char path[HALO_GOLDEN_PATH];
    int i = 0;

    while (!(prompts_of(bound->prompts) & 1u << i))
        i++;
    printf("\n### %s, %s, kv %s: layer by layer\n\n", bound->model, bound->device, bound->kv);
    if (halo_golden_data_path(data, model, path, &fault) < 0 ||
        halo_golden_file_read(&file, data->recordings, bound->model, halo_golden_prompts[i], &fault) < 0) {
        printf("Not compared: %s\n\n", fault.text);
        return;
    }
    printf("%s, compared with the CPU device's kernels `%s`.\n\n", halo_golden_prompts[i], options->oracle);
    if (halo_layers_compare(&layers, path, settings, &oracle, file.tokens, file.n_prompt, least, &fault) < 0) {
        printf("Not compared: %s\n\n", fault.text);
    } else {
        layers_print(&layers, least);
        halo_layers_finish(&layers);
    }
    halo_golden_file_finish(&file);
}

static bool score_passes(const struct halo_bound *bound, const struct halo_golden_score *score)
{
    /* Written so that NaN fails. */
    return score->n_broken == 0 && score->mean <= bound->mean && score->max <= bound->worst &&
           (double)score->n_top1 / score->n >= bound->top1;
}

static void score_print(const struct options *options, const struct halo_bound *bound,
                        const struct halo_golden_score *score, bool passed)
{
    double top1 = (double)score->n_top1 / score->n;

    if (options->measure)
        printf("%s %s %s %s %s %.2e %.2e %.4f\n", bound->set, bound->model, bound->device, bound->kv, bound->prompts,
               score->mean, score->max, top1);
    else if (score->n_broken > 0)
        printf("| %s | %s | %s | %u | NaN | %.1e | NaN | %.1e | %.4f | %.3f | FAIL: %u positions with logits that are "
               "not finite |\n",
               bound->model, bound->device, bound->kv, score->n, bound->mean, bound->worst, top1, bound->top1,
               score->n_broken);
    else
        printf("| %s | %s | %s | %u | %.2e | %.1e | %.2e | %.1e | %.4f | %.3f | %s |\n", bound->model, bound->device,
               bound->kv, score->n, score->mean, bound->mean, score->max, bound->worst, top1, bound->top1,
               passed ? "ok" : "FAIL");
    fflush(stdout);
}

/* Whether the cell keeps its bounds. data: NULL when it is not there. */
static bool cell_run(const struct options *options, const struct halo_golden_data *data, const struct halo_bound *bound)
{
    const struct halo_golden_model *model = data ? halo_golden_data_find(data, bound->model) : NULL;
    struct halo_golden_settings settings;
    struct halo_golden_verdict verdict;
    struct halo_fault fault = {0};
    bool passed;

    if (!data)
        halo_fault_set(&fault, HALO_FAULT_NOT_FOUND, "its recordings are not on this machine");
    else if (!settings_of(options, bound, &settings))
        halo_fault_set(&fault, HALO_FAULT_UNSUPPORTED, "there is no such device (hip: give --hip-lib) or kv type");
    else if (!model)
        halo_fault_set(&fault, HALO_FAULT_NOT_FOUND, "the set of recordings has no such model");
    else
        halo_golden_gate_run(&verdict, data, model, prompts_of(bound->prompts), &settings, &fault);
    if (fault.code != HALO_FAULT_NONE) {
        printf("| %s | %s | %s | 0 | – | %.1e | – | %.1e | – | %.3f | FAIL: could not be run: %s |\n", bound->model,
               bound->device, bound->kv, bound->mean, bound->worst, bound->top1, fault.text);
        return false;
    }
    passed = score_passes(bound, &verdict.score);
    score_print(options, bound, &verdict.score, passed);
    halo_golden_gate_finish(&verdict);
    return passed;
}

static bool wanted(const struct options *options, const struct halo_bound *bound)
{
    return listed(options->sets, bound->set) && listed(options->devices, bound->device) &&
           listed(options->models, bound->model);
}

static bool data_of(const struct halo_bound *bound, struct halo_golden_data *ret)
{
    return strcmp(bound->set, "tree") == 0 ? halo_golden_data_in_tree(ret) : halo_golden_data_full(ret);
}

/* Models of the full set that have no row for a device. */
static unsigned unbounded_print_device(const struct options *options, const struct halo_bounds *bounds, const char *set,
                                       const char *device)
{
    struct halo_golden_data data;
    unsigned n = 0;

    if (!options->sets || !listed(options->sets, set) || !listed(options->devices, device))
        return 0;
    halo_golden_data_full(&data); /* the list is there without the files */
    for (size_t i = 0; i < data.n_list; i++) {
        const char *stem = data.list[i].stem;
        size_t k = 0;
        while (k < bounds->n && (strcmp(bounds->at[k].set, set) != 0 || strcmp(bounds->at[k].model, stem) != 0 ||
                                 strcmp(bounds->at[k].device, device) != 0))
            k++;
        if (k < bounds->n)
            continue;
        printf("| %s | %s | | 0 | – | – | – | – | – | – | FAIL: no row in the table of bounds |\n", stem, device);
        n++;
    }
    return n;
}

/* A model that has recordings and no bound would be passed over in silence. Returns how many there are. */
static unsigned unbounded_print(const struct options *options, const struct halo_bounds *bounds)
{
    if (options->models)
        return 0;
    return unbounded_print_device(options, bounds, "full", "cpu") +
           unbounded_print_device(options, bounds, "gpu", "hip");
}

/* A model that is asked for by name and has no cell would be passed over, too. Returns how many there are. */
static unsigned unknown_print(const struct options *options, const struct halo_bounds *bounds)
{
    unsigned n = 0;

    for (const char *at = options->models; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char stem[128];
        size_t k = 0;
        snprintf(stem, sizeof(stem), "%.*s", (int)strcspn(at, ","), at);
        while (k < bounds->n && !(wanted(options, &bounds->at[k]) && strcmp(bounds->at[k].model, stem) == 0))
            k++;
        if (k < bounds->n)
            continue;
        printf("| %s | | | 0 | – | – | – | – | – | – | FAIL: no row of the table of bounds fits |\n", stem);
        n++;
    }
    return n;
}

/* First the table, then the layers of what failed in it. */
static struct tally cells_run(const struct options *options, const struct halo_bounds *bounds, bool *failed)
{
    struct tally tally = {0};
    struct halo_golden_data data;

    if (!options->measure)
        printf("| model | device | kv | positions | mean KLD | bound | worst KLD | bound | top-1 | bound | verdict |\n"
               "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < bounds->n; i++) {
        if (!wanted(options, &bounds->at[i]))
            continue;
        tally.n_run++;
        failed[i] = !cell_run(options, data_of(&bounds->at[i], &data) ? &data : NULL, &bounds->at[i]);
        tally.n_failed += failed[i];
    }
    if (!options->measure && tally.n_run > 0)
        tally.n_failed += unbounded_print(options, bounds);
    if (tally.n_run > 0)
        tally.n_failed += unknown_print(options, bounds);
    for (size_t i = 0; i < bounds->n && !options->measure; i++) {
        struct halo_golden_settings settings;
        if (wanted(options, &bounds->at[i]) && (failed[i] || options->layers) && data_of(&bounds->at[i], &data) &&
            halo_golden_data_find(&data, bounds->at[i].model) && settings_of(options, &bounds->at[i], &settings))
            layers_show(options, &data, &bounds->at[i], &settings);
    }
    return tally;
}

int main(int argc, char **argv)
{
    struct options options = {.sets = "tree", .oracle = "reference"};
    struct halo_bounds bounds;
    struct tally tally = {0};

    if (!options_parse(&options, argc, argv)) {
        fprintf(stderr, "logit_gate: wrong usage; see scripts/logit-gate\n");
        return EXIT_USAGE;
    }
    if (!halo_bounds_read(&bounds, options.bounds))
        return EXIT_USAGE;
    bool *failed = calloc(bounds.n + 1, sizeof(*failed));
    if (failed)
        tally = cells_run(&options, &bounds, failed);
    free(failed);
    halo_bounds_finish(&bounds);
    if (tally.n_run == 0) {
        printf("\nNothing was checked.\n");
        return EXIT_NOTHING;
    }
    if (!options.measure)
        printf("\n%u cells, %u failed.\n", tally.n_run, tally.n_failed);
    return tally.n_failed > 0 ? EXIT_BROKEN : EXIT_SUCCESS;
}
