/* tier_sim.c: placements beside their simulated runs.
 *
 *   tier_sim            a table: predicted and simulated speed and hit rate of models on a Strix Halo box
 *   tier_sim --check    a small run of the same, which fails when a prediction is off by more than 15 %, when a result
 *                       beats what its bytes allow, or when a cache says that an expert is there which is not
 *   tier_sim --trace FILE MODEL BUDGET_GB    a recorded trace: lines "LAYER ID ID ...", the layers of a token in order
 *
 * Speeds of the box: 215 GB/s of memory and 6.5 GB/s of disk (docs/TIERS.md). What is simulated is in tier_sim.h.
 */
#include "tier_sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine/experts.h>
#include <tier_shape.h>

#define MOST_OFF 0.15

static const struct halo_profile strix = {.memory_bytes_s = 215e9,
                                          .disk_bytes_s = 6.5e9,
                                          .disk_block_bytes = 1 << 20,
                                          .disk_depth = 16,
                                          .disk_latency_s = (1 << 20) / 6.5e9 + 100e-6,
                                          .launch_s = 20e-6};

static const struct halo_routing uniform = {.kind = HALO_ROUTING_UNIFORM};
static const struct halo_routing zipf = {.kind = HALO_ROUTING_ZIPF, .exponent = HALO_ROUTING_ZIPF_PUBLISHED};

struct box {
    const struct halo_tier_shape *shape;
    double budget_gb;
    const struct halo_routing *routing;
    bool in_check;
};

static const struct box boxes[] = {
    {&halo_tier_qwen3_235b, 120, &zipf, true},   {&halo_tier_qwen3_235b, 120, &uniform, true},
    {&halo_tier_qwen3_235b, 80, &zipf, false},   {&halo_tier_qwen3_235b, 40, &zipf, false},
    {&halo_tier_gpt_oss_120b, 50, &zipf, true},  {&halo_tier_gpt_oss_120b, 50, &uniform, true},
    {&halo_tier_gpt_oss_120b, 30, &zipf, false}, {&halo_tier_llama_70b, 40, &uniform, true},
    {&halo_tier_llama_70b, 20, &uniform, false},
};

static struct halo_placement placed; /* of the last call: large */

static bool place(const struct halo_plan *plan, double budget_gb, const struct halo_routing *routing)
{
    const struct halo_placement_options options = {.routing = *routing, .spare_slots = HALO_EXPERTS_MARGIN};
    struct halo_fault fault = {0};
    if (halo_placement_make(plan, &strix, (uint64_t)(budget_gb * 1e9), 0, &options, &placed, &fault) == 0)
        return true;
    fprintf(stderr, "tier_sim: %s\n", fault.text);
    return false;
}

static struct halo_sim_setup setup_of(const struct halo_plan *plan, uint32_t warm, uint32_t measured)
{
    struct halo_plan_cost cost;
    halo_plan_cost(plan, plan->n_context / 2, 1, &cost);
    return (struct halo_sim_setup){.placement = &placed,
                                   .profile = &strix,
                                   .kv_bytes = cost.kv_bytes,
                                   .output_bytes = placed.placed_bytes[HALO_PLACED_OUTPUT],
                                   .warm = warm,
                                   .measured = measured};
}

/* Prints a row; false: the prediction is too far off, or the run is impossible. */
static bool compare(const char *name, double budget_gb, const char *routing, const struct halo_sim_result *sim)
{
    double ratio = placed.tok_s / sim->tok_s;
    bool good = fabs(ratio - 1) <= MOST_OFF && sim->tok_s <= sim->limit_tok_s * (1 + 1e-9) && sim->n_wrong == 0;
    printf("%-16s %5.0f GB  %-8s %6.2f %6.2f  %5.2f  %6.1f %% %6.1f %%  %6.2f%s\n", name, budget_gb, routing,
           placed.tok_s, sim->tok_s, ratio, 100 * placed.hit_rate, 100 * sim->hit_rate, sim->limit_tok_s,
           sim->n_wrong > 0 ? "  an expert was not where the cache said"
           : !good          ? "  off"
                            : "");
    return good;
}

static bool run_box(const struct box *box, bool check)
{
    struct halo_plan *plan = halo_tier_plan_create(box->shape);
    struct halo_sim_result sim = {0};
    bool good = place(plan, box->budget_gb, box->routing);
    if (good && placed.n_slots > 0) {
        struct halo_sim_trace trace;
        struct halo_sim_setup setup = setup_of(plan, check ? 200 : 1000, check ? 100 : 1000);
        halo_sim_trace_create(&trace, &placed, box->routing, 1);
        halo_sim_run(&setup, &trace, &sim);
        halo_sim_trace_finish(&trace);
    } else if (good) {
        struct halo_sim_setup setup = setup_of(plan, 2, 10);
        halo_sim_run_dense(&setup, &sim);
    }
    const char *routing = placed.n_streamed > 0                     ? "dense"
                          : box->routing->kind == HALO_ROUTING_ZIPF ? "zipf 1.1"
                                                                    : "uniform";
    good = good && compare(box->shape->name, box->budget_gb, routing, &sim);
    halo_tier_plan_destroy(plan);
    return good;
}

static void print_head(void)
{
    puts("model            budget    routing    predicted, simulated tok/s; their ratio; hit rate of both; limit");
}

/* ---- a recorded trace ---- */

static bool run_trace(const char *path, const struct halo_tier_shape *shape, double budget_gb, uint32_t measured)
{
    struct halo_plan *plan = halo_tier_plan_create(shape);
    struct halo_sim_trace trace;
    struct halo_sim_result sim = {0};
    bool good = place(plan, budget_gb, &uniform) && halo_sim_trace_read(&trace, &placed, path);
    if (good) {
        struct halo_routing routing = halo_sim_trace_routing(&trace);
        good = place(plan, budget_gb, &routing);
        struct halo_sim_setup setup = setup_of(plan, trace.n_tokens, measured > 0 ? measured : trace.n_tokens);
        if (good && placed.n_slots > 0) {
            halo_sim_run(&setup, &trace, &sim);
            good = compare(shape->name, budget_gb, "trace", &sim);
        }
        halo_sim_trace_finish(&trace);
    }
    halo_tier_plan_destroy(plan);
    return good;
}

/* ---- checks ---- */

static uint32_t n_failed;

static void expect(bool holds, const char *what)
{
    printf("%s - %s\n", holds ? "ok" : "not ok", what);
    n_failed += !holds;
}

static const struct halo_tier_shape small = {.name = "small",
                                             .n_layers = 16,
                                             .n_embd = 256,
                                             .n_vocab = 256,
                                             .n_attention = 256,
                                             .n_head = 1,
                                             .n_head_kv = 1,
                                             .head_dim = 64,
                                             .n_expert = 16,
                                             .n_used = 4,
                                             .n_ff_expert = 256,
                                             .attention = HALO_TYPE_F16,
                                             .ends = HALO_TYPE_F16,
                                             .ff = HALO_TYPE_F16,
                                             .down = {HALO_TYPE_F16, HALO_TYPE_F16},
                                             .n_context = 64};

/* Tokens that use disjoint experts in turn: token t takes t % n_sets * n_used and those behind it. */
static struct halo_sim_trace cyclic(uint32_t n_sets)
{
    struct halo_sim_trace trace = {.kind = HALO_ROUTING_TRACE,
                                   .n_layers = small.n_layers,
                                   .n_expert = small.n_expert,
                                   .n_used = small.n_used,
                                   .n_tokens = n_sets};
    trace.choices = calloc((size_t)n_sets * small.n_layers * small.n_used, sizeof(*trace.choices));
    if (!trace.choices)
        abort();
    for (uint32_t token = 0, at = 0; token < n_sets; token++)
        for (uint32_t layer = 0; layer < small.n_layers; layer++)
            for (uint32_t i = 0; i < small.n_used; i++)
                trace.choices[at++] = token * small.n_used + i;
    return trace;
}

static double hit_rate(const struct halo_plan *plan, const struct halo_sim_trace *trace, uint32_t n_slots, bool lru)
{
    struct halo_sim_setup setup = setup_of(plan, 50, 200);
    struct halo_sim_result sim;
    setup.lru = lru;
    placed.n_slots = n_slots;
    halo_sim_run(&setup, trace, &sim);
    n_failed += sim.n_wrong > 0;
    return sim.hit_rate;
}

static void check_cliffs(void)
{
    struct halo_plan *plan = halo_tier_plan_create(&small);
    const uint32_t token = small.n_layers * small.n_used; /* slots that one token uses: 64 */
    const struct halo_placement_options options = {.tiers = HALO_TIERS_STREAM, .spare_slots = HALO_EXPERTS_MARGIN};
    struct halo_fault fault = {0};
    struct halo_sim_trace same = cyclic(1), turns = cyclic(2), random;
    if (halo_placement_make(plan, &strix, UINT32_MAX, 0, &options, &placed, &fault) < 0)
        abort();
    uint64_t fixed = placed.total_bytes - placed.n_slots * placed.slot_bytes, slot = placed.slot_bytes;
    halo_sim_trace_create(&random, &placed, &uniform, 3);
    expect(hit_rate(plan, &same, token, true) == 1, "least recently used: a token's experts fit, all are found");
    expect(hit_rate(plan, &same, token - 1, true) == 0, "least recently used: one slot fewer, nothing is found");
    double common = hit_rate(plan, &random, token, true);
    expect(common > 0.05 && common < 0.26,
           "least recently used: a slot for each expert of a token finds at most what two tokens have in common");
    expect(hit_rate(plan, &turns, 2 * token - 8, true) == 0,
           "least recently used: two tokens in turn, eight slots too few for both, nothing is found");
    double found = hit_rate(plan, &turns, 2 * token - 8, false);
    printf("# the engine's cache: %.1f %%\n", 100 * found);
    expect(found > 0.5, "the engine's cache finds most of them");
    struct halo_placement other;
    expect(halo_placement_make(plan, &strix, fixed + token * slot, 0, &options, &other, &fault) < 0,
           "a placement with fewer slots than a token and a layer use is refused");
    halo_sim_trace_finish(&same);
    halo_sim_trace_finish(&turns);
    halo_sim_trace_finish(&random);
    halo_tier_plan_destroy(plan);
}

/* A trace by Zipf's law goes through a file. */
static void check_recorded(void)
{
    struct halo_tier_shape shape = small;
    char path[] = "/tmp/halo-tier-sim.XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        abort();
    close(fd);
    shape.n_expert = 64;
    struct halo_plan *plan = halo_tier_plan_create(&shape);
    struct halo_sim_trace trace;
    bool good = place(plan, 1, &zipf);
    double experts = (double)placed.placed_bytes[HALO_PLACED_EXPERTS], all = (double)placed.total_bytes;
    halo_sim_trace_create(&trace, &placed, &zipf, 7);
    good = good && halo_sim_trace_write(&trace, path, 400);
    expect(good && run_trace(path, &shape, (all - 0.5 * experts) / 1e9, 0), "a recorded trace is as fast as predicted");
    FILE *f = fopen(path, "a");
    if (f) {
        fputs("3 1 2 3 4\n", f);
        fclose(f);
    }
    expect(f && !run_trace(path, &shape, (all - 0.5 * experts) / 1e9, 0), "a trace that is out of order is refused");
    unlink(path);
    halo_sim_trace_finish(&trace);
    halo_tier_plan_destroy(plan);
}

static int check(void)
{
    uint32_t n = 0;
    print_head();
    for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
        if (boxes[i].in_check) {
            n++;
            expect(run_box(&boxes[i], true), "predicted within 15 % of the simulated run, which its bytes allow");
        }
    check_cliffs();
    check_recorded();
    return n_failed == 0 && n > 0 ? 0 : 1;
}

static const struct halo_tier_shape *shape_named(const char *name)
{
    for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
        if (strcmp(boxes[i].shape->name, name) == 0)
            return boxes[i].shape;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return check();
    if (argc == 5 && strcmp(argv[1], "--trace") == 0 && shape_named(argv[3])) {
        print_head();
        return run_trace(argv[2], shape_named(argv[3]), strtod(argv[4], NULL), 0) ? 0 : 1;
    }
    if (argc != 1) {
        fputs("usage: tier_sim [--check | --trace FILE MODEL BUDGET_GB]\n", stderr);
        return 2;
    }
    print_head();
    bool good = true;
    for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
        good &= run_box(&boxes[i], false);
    return good ? 0 : 1;
}
