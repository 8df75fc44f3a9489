/* golden_logits.c: the reference-logit gate over a list of models, as a table. The rule: golden_gate.h.
 *
 *   golden_logits [--in-tree] [--kv f32|f16|q8|q4] [--variant reference|avx2|avx512] [--threads N] [--prompts a,b]
 * [--models a,b] [--hip-lib PATH] [--stages N]
 *
 * With --hip-lib the HIP device runs the models, over that runtime; with --stages the layers are divided over N
 * devices.
 *
 * Exit status: 0 all passed, 1 a figure over its bound or nothing run, 77 the data or the variant is not on this
 * machine.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

#include "golden_gate.h"

#define EXIT_SKIP 77

struct options {
    bool in_tree;
    struct halo_golden_settings settings;
    unsigned prompts;
    const char *models; /* comma-separated stems; NULL: all */
};

static const char *const kv_names[] = {
    [HALO_KV_F32] = "f32", [HALO_KV_F16] = "f16", [HALO_KV_Q8] = "q8", [HALO_KV_Q4] = "q4"};

/* Whether `word` is one of the comma-separated words of `list`. */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static bool options_parse(struct options *ret, int argc, char **argv)
{
    static const struct option known[] = {{"in-tree", no_argument, NULL, 'i'},
                                          {"kv", required_argument, NULL, 'k'},
                                          {"variant", required_argument, NULL, 'v'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"prompts", required_argument, NULL, 'p'},
                                          {"models", required_argument, NULL, 'm'},
                                          {"hip-lib", required_argument, NULL, 'h'},
                                          {"stages", required_argument, NULL, 's'},
                                          {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        bool good = c != '?';
        if (c == 'i') {
            ret->in_tree = true;
        } else if (c == 'k') {
            good = false;
            for (int kv = 0; kv < 4; kv++)
                if (strcmp(kv_names[kv], optarg) == 0) {
                    ret->settings.kv = (enum halo_kv_type)kv;
                    good = true;
                }
        } else if (c == 'v') {
            ret->settings.variant = optarg;
        } else if (c == 't') {
            ret->settings.n_threads = (uint32_t)strtoul(optarg, NULL, 10);
        } else if (c == 'p') {
            for (int i = 0; i < HALO_GOLDEN_PROMPTS; i++)
                ret->prompts |= listed(optarg, halo_golden_prompts[i]) ? 1u << i : 0;
            good = ret->prompts != 0;
        } else if (c == 'm') {
            ret->models = optarg;
        } else if (c == 'h') {
            ret->settings.hip_library = optarg;
        } else if (c == 's') {
            ret->settings.n_stages = (uint32_t)strtoul(optarg, NULL, 10);
        }
        if (!good)
            return false;
    }
    if (ret->prompts == 0) /* the tree holds two recordings: short and chat */
        ret->prompts = ret->in_tree ? 1u << 0 | 1u << 3 : (1u << HALO_GOLDEN_PROMPTS) - 1;
    return optind == argc;
}

struct greedy {
    int32_t next;
    uint32_t n_vocab;
};

static void greedy_row(void *ud, uint32_t pos, const float *logits)
{
    struct greedy *greedy = ud;

    greedy->next = 0;
    for (uint32_t i = 1; i < greedy->n_vocab; i++)
        if (logits[i] > logits[greedy->next])
            greedy->next = (int32_t)i;
}

/* A public model with known greedy ids: ", there was a little girl named Lily." */
static int stories_run(const struct halo_golden_data *data, const struct halo_golden_settings *settings,
                       bool *ret_passed, struct halo_fault *fault)
{
    static const int32_t prompt[] = {1, 403, 407, 261, 378};
    static const int32_t wanted[] = {432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338};
    static const uint32_t n_prompt = sizeof(prompt) / sizeof(prompt[0]), n_wanted = sizeof(wanted) / sizeof(wanted[0]);
    const struct halo_golden_model model = {"stories260K", false, false};
    struct halo_golden_host host;
    struct greedy greedy = {0, 0};
    char path[HALO_GOLDEN_PATH];
    uint32_t n_same = 0;
    int r;

    if ((r = halo_golden_data_path(data, &model, path, fault)) < 0)
        return r;
    if ((r = halo_golden_host_open(&host, path, settings, fault)) < 0)
        return r;
    greedy.n_vocab = host.plan.n_vocab;
    r = halo_golden_host_feed(&host, prompt, 0, n_prompt, n_prompt, n_prompt - 1, greedy_row, &greedy, fault);
    while (r == 0 && n_same < n_wanted && greedy.next == wanted[n_same]) {
        n_same++;
        r = halo_golden_host_feed(&host, &greedy.next, n_prompt + n_same - 1, 1, 1, 0, greedy_row, &greedy, fault);
    }
    halo_golden_host_close(&host);
    if (r < 0)
        return r;
    *ret_passed = n_same == n_wanted;
    printf("%-18s %-4s greedy: %u of %u ids %s\n", model.stem, kv_names[settings->kv], n_same, n_wanted,
           *ret_passed ? "" : "FAILED");
    return 0;
}

static void verdict_print(const struct halo_golden_model *model, enum halo_kv_type kv,
                          const struct halo_golden_verdict *verdict)
{
    const struct halo_golden_score *score = &verdict->score;

    printf("%-18s %-4s %5u %9.2e %9.2e %9.2e %6.4f %8.1e  %s %9.2e %6.2f  %s", model->stem, kv_names[kv], score->n,
           score->mean, score->median, score->max, (double)score->n_top1 / score->n, score->max_abs_logit,
           model->experts ? "median" : "mean  ", verdict->peer_figure,
           verdict->peer_figure > 0 ? verdict->figure / verdict->peer_figure : 0.0, verdict->passed ? "ok" : "FAILED");
    if (!verdict->passed)
        printf(" (bound %.2e, not finite %u, greedy wrong %u of %u)", verdict->bound, score->n_broken,
               score->n_greedy_wrong, score->n_greedy);
    printf("\n");
    fflush(stdout);
}

static int fail(const char *what, const struct halo_fault *fault)
{
    fprintf(stderr, "%s: %s: %s\n", what, halo_fault_name(fault->code), fault->text);
    return 1;
}

/* A forced variant that the machine lacks is a skip, said aloud; it shows at the first model. */
static int refused(const struct options *options, const char *what, const struct halo_fault *fault)
{
    if (!options->settings.variant || fault->code != HALO_FAULT_UNSUPPORTED)
        return fail(what, fault);
    fprintf(stderr, "SKIPPED: variant %s: %s\n", options->settings.variant, fault->text);
    return EXIT_SKIP;
}

static int models_run(const struct options *options, const struct halo_golden_data *data)
{
    struct halo_fault fault = {0};
    unsigned n_run = 0, n_failed = 0;
    bool passed = false;

    printf("%-18s %-4s %5s %9s %9s %9s %6s %8s  %-6s %9s %6s\n", "model", "kv", "rows", "mean", "median", "max",
           "top-1", "logit", "judge", "peer", "ratio");
    for (size_t i = 0; i < data->n_list; i++) {
        const struct halo_golden_model *model = &data->list[i];
        struct halo_golden_verdict verdict;
        if (options->models && !listed(options->models, model->stem))
            continue;
        if (halo_golden_gate_run(&verdict, data, model, options->prompts, &options->settings, &fault) < 0)
            return refused(options, model->stem, &fault);
        verdict_print(model, options->settings.kv, &verdict);
        n_run++;
        n_failed += !verdict.passed;
        halo_golden_gate_finish(&verdict);
    }
    if (!options->in_tree && (!options->models || listed(options->models, "stories260K"))) {
        if (stories_run(data, &options->settings, &passed, &fault) < 0)
            return refused(options, "stories260K", &fault);
        n_run++;
        n_failed += !passed;
    }
    if (n_run == 0)
        fprintf(stderr, "nothing was run\n");
    return n_run == 0 || n_failed > 0;
}

int main(int argc, char **argv)
{
    struct options options = {.settings = {.kv = HALO_KV_F32}};
    struct halo_golden_data data;
    uint64_t start = halo_clock_ms();
    int r;

    if (!options_parse(&options, argc, argv)) {
        fprintf(stderr, "usage: golden_logits [--in-tree] [--kv f32|f16|q8|q4] [--variant V] [--threads N] [--prompts "
                        "a,b] [--models a,b] [--hip-lib PATH]\n");
        return 1;
    }
    if (options.in_tree && !halo_golden_data_in_tree(&data)) {
        fprintf(stderr, "the recordings of the tree are missing (HALO_SOURCE_ROOT)\n");
        return 1;
    }
    if (!options.in_tree && !halo_golden_data_full(&data))
        return EXIT_SKIP;
    r = models_run(&options, &data);
    printf("%llu ms\n", (unsigned long long)(halo_clock_ms() - start));
    return r;
}
