/* test_placement.c: what stays in memory under a budget, that nothing else would read less, and how fast it is: against
 * numbers worked by hand and against every other division of small plans. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <model/placement.h>
#include <model/streamed.h>
#include <tier_shape.h>

#include "toy_model.h"

#define GB 1000000000ull

static const struct halo_profile strix = {
    .memory_bytes_s = 215e9, .disk_bytes_s = 7e9, .disk_block_bytes = 1 << 20, .disk_depth = 16};

static struct halo_placement placed; /* of the last call; too large for a stack under ASan */

static int place(const struct halo_plan *plan, const struct halo_profile *profile, uint64_t budget_bytes,
                 struct halo_routing routing, struct halo_fault *fault)
{
    const struct halo_placement_options options = {.routing = routing};
    return halo_placement_make(plan, profile, budget_bytes, 0, &options, &placed, fault);
}

static const struct halo_routing uniform = {.kind = HALO_ROUTING_UNIFORM};
static const struct halo_routing published = {.kind = HALO_ROUTING_ZIPF, .exponent = HALO_ROUTING_ZIPF_PUBLISHED};

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

static uint64_t sum_of_parts(const struct halo_placement *p)
{
    uint64_t n = p->kv_bytes + p->scratch_bytes + p->padding_bytes + p->buffer_bytes + p->n_slots * p->slot_bytes;
    for (uint32_t i = 0; i < HALO_PLACED_KINDS; i++)
        n += p->placed_bytes[i];
    return n;
}

/* ---- what the bytes are for ---- */

static void every_weight_has_one_place(void **state)
{
    for (uint32_t i = 0; halo_toy_family(i); i++) {
        struct halo_toy *toy = halo_toy_create(halo_toy_family(i));
        struct halo_model *model = halo_toy_accepted(toy);
        struct halo_plan_cost cost;
        uint64_t bytes = 0, embed_row = 0, taps = 0, vectors = 0;
        assert_int_equal(place(&model->plan, NULL, UINT64_MAX, uniform, NULL), 0);
        assert_true(placed.fits);
        assert_int_equal(placed.total_bytes, sum_of_parts(&placed));
        for (uint32_t k = 0; k < HALO_PLACED_KINDS; k++)
            bytes += placed.placed_bytes[k];
        for (uint32_t w = 0; w < model->plan.n_weights; w++) {
            const struct halo_weight *weight = &model->plan.weights[w];
            bytes -= weight->n_bytes;
            vectors += weight->role == HALO_WEIGHT_VECTOR ? weight->n_bytes : 0;
        }
        assert_int_equal(bytes, 0);
        /* The same bytes as a step of the cost model, whose embedding counts a row even where it is the output, and
         * which counts of vectors only taps. */
        halo_plan_cost(&model->plan, model->plan.n_context / 2, 1, &cost);
        for (uint32_t o = 0; o < model->plan.n_ops; o++) {
            const struct halo_op *op = &model->plan.ops[o];
            if (op->kind == HALO_OP_CONV1D)
                taps += model->plan.weights[op->u.conv1d.weight].n_bytes;
            if (op->kind == HALO_OP_LOGITS && model->plan.weights[op->u.logits.weight].embed)
                embed_row = model->plan.weights[op->u.logits.weight].n_bytes / HALO_TOY_VOCAB;
        }
        assert_int_equal(placed.token_bytes, cost.weight_bytes + cost.kv_bytes - embed_row - taps + vectors);
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
}

static void parts_of_a_mixture(void **state)
{
    const uint64_t expert = 3 * 32 * 64 * 2;
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    struct halo_model *model = halo_toy_accepted(toy);
    assert_int_equal(place(&model->plan, NULL, UINT64_MAX, uniform, NULL), 0);
    assert_int_equal(placed.placed_bytes[HALO_PLACED_ATTENTION], 2 * (32 * 64 + 2 * 32 * 32 + 64 * 32) * 2);
    assert_int_equal(placed.placed_bytes[HALO_PLACED_ROUTERS], 2 * 32 * 4 * 4);
    assert_int_equal(placed.placed_bytes[HALO_PLACED_NORMS], (2 * (32 + 16 + 16 + 32) + 32) * 4);
    assert_int_equal(placed.placed_bytes[HALO_PLACED_EMBEDDING], 34 * 16);
    assert_int_equal(placed.placed_bytes[HALO_PLACED_EXPERTS], 2 * 4 * expert);
    assert_int_equal(placed.layers[1].n_expert, 4);
    assert_int_equal(placed.layers[1].n_used, 2);
    assert_int_equal(placed.layers[1].expert_bytes, expert);
    assert_int_equal(placed.layers[1].read_bytes, expert + 3 * 4096);
    assert_int_equal(placed.kv_bytes, 256 * 2 * 2 * (16 + 16) * 2);
    halo_model_destroy(model);
    halo_toy_destroy(toy);
}

/* ---- the figures of published models ---- */

static void table_of_235b(void **state)
{
    /* Gigabytes, and slots: what 5.0 GB of other weights and 6.3 GB of KV cache leave, by 12.25 MB. Routers that choose
     * alike
     * find what the slots hold of 12,032 experts, and a little more, as larger experts come first. */
    static const struct {
        uint64_t budget;
        uint32_t n_slots;
    } rows[] = {{120, 8869}, {80, 5605}, {40, 2342}};
    struct halo_plan *plan = halo_tier_plan_create(&halo_tier_qwen3_235b);
    struct halo_fault fault = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(place(plan, &strix, rows[i].budget * GB, uniform, &fault), 0);
        assert_false(placed.fits);
        assert_int_equal(placed.total_bytes, sum_of_parts(&placed));
        assert_in_range(placed.total_bytes, rows[i].budget * GB - placed.slot_bytes, rows[i].budget * GB);
        assert_int_equal(placed.n_slots, rows[i].n_slots);
        assert_true(near(placed.hit_rate, rows[i].n_slots / 12032.0, 0.07));
        double io = placed.terms.disk_s;
        assert_true(near(io, placed.miss_bytes / 7e9, 1e-9));
        assert_true(near(placed.miss_bytes, 94 * 8 * (1 - placed.hit_rate) * 11.44e6, 0.02));
        assert_true(placed.tok_s < placed.limit_tok_s);
    }
    /* Resident, it is what the bandwidth gives: 13.0 GB a token and half of 6.3 GB of KV cache. */
    assert_int_equal(place(plan, &strix, 200 * GB, uniform, &fault), 0);
    assert_true(placed.fits);
    assert_int_equal(placed.n_slots, 0);
    assert_true(near(placed.tok_s, 215e9 / (13.1e9 + 3.15e9), 0.01));
    /* One token's experts must fit and one layer's, which a prompt uses: 94 * 8 + 120 slots. */
    assert_int_equal(place(plan, &strix, 20 * GB, uniform, &fault), -ENOMEM);
    assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
    assert_non_null(strstr(fault.text, "872 slots of 12.3 MB"));
    assert_non_null(strstr(fault.text, "there are 20.00 GB"));
    halo_tier_plan_destroy(plan);
}

/* Measured hit rates of docs/TIERS.md, of caches that hold several times the experts of a token. */
static void zipf_gives_the_published_hit_rates(void **state)
{
    static const struct {
        uint32_t n_expert, n_used;
        double held, hit_rate;
    } rows[] = {{256, 8, 0.098, 0.46}, {256, 8, 0.123, 0.51}, {256, 8, 0.147, 0.55}, {256, 8, 0.184, 0.60},
                {256, 8, 0.26, 0.72},  {64, 8, 0.375, 0.684}, {512, 4, 0.08, 0.55},  {512, 4, 0.17, 0.71}};
    const uint32_t n_layers = 60;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct halo_tier_shape shape = {.n_layers = n_layers,
                                              .n_embd = 256,
                                              .n_vocab = 256,
                                              .n_attention = 256,
                                              .n_head = 1,
                                              .n_head_kv = 1,
                                              .head_dim = 64,
                                              .n_expert = rows[i].n_expert,
                                              .n_used = rows[i].n_used,
                                              .n_ff_expert = 256,
                                              .attention = HALO_TYPE_F16,
                                              .ends = HALO_TYPE_F16,
                                              .ff = HALO_TYPE_F16,
                                              .down = {HALO_TYPE_F16, HALO_TYPE_F16},
                                              .n_context = 64};
        struct halo_plan *plan = halo_tier_plan_create(&shape);
        const struct halo_placement_options options = {.tiers = HALO_TIERS_STREAM, .routing = published};
        struct halo_fault fault = {0};
        assert_int_equal(halo_placement_make(plan, &strix, GB * 100, 0, &options, &placed, &fault), 0);
        uint64_t experts = placed.n_slots * placed.slot_bytes, fixed = placed.total_bytes - experts;
        uint64_t budget = fixed + (uint64_t)(rows[i].held * (double)experts);
        assert_int_equal(halo_placement_make(plan, &strix, budget, 0, &options, &placed, &fault), 0);
        assert_true(fabs(placed.hit_rate - rows[i].hit_rate) < 0.06);
        halo_tier_plan_destroy(plan);
    }
}

static void dense_layers_stream_interleaved(void **state)
{
    struct halo_plan *plan = halo_tier_plan_create(&halo_tier_llama_70b);
    struct halo_fault fault = {0};
    assert_int_equal(place(plan, &strix, 60 * GB, uniform, &fault), 0);
    assert_true(placed.fits);
    double resident = placed.tok_s;
    assert_true(near(resident, 215e9 / 41.6e9, 0.05));
    assert_int_equal(place(plan, &strix, 36 * GB, uniform, &fault), 0);
    assert_false(placed.fits);
    assert_int_equal(placed.total_bytes, sum_of_parts(&placed));
    assert_true(placed.total_bytes <= 36 * GB);
    assert_int_equal(placed.n_slots, 0);
    uint32_t n = 0, first = UINT32_MAX, last = 0;
    uint64_t streamed = 0;
    for (uint32_t i = 0; i < placed.n_layers; i++)
        if (placed.layers[i].stream_bytes > 0) {
            if (first != UINT32_MAX) /* as far apart as whole layers allow */
                assert_in_range(i - last, 80 / placed.n_streamed, 80 / placed.n_streamed + 1);
            first = first == UINT32_MAX ? i : first;
            last = i;
            n++;
            streamed += placed.layers[i].stream_bytes;
        }
    assert_int_equal(n, placed.n_streamed);
    assert_in_range(first + 80 - last, 80 / n, 80 / n + 1); /* from the last one to the next token's first */
    assert_true(near(placed.tok_s, 7e9 / (double)streamed, 1e-6));
    assert_true(placed.tok_s < resident / 3);
    /* Not even two buffers fit. */
    assert_int_equal(place(plan, &strix, 5 * GB, uniform, &fault), -ENOMEM);
    assert_non_null(strstr(fault.text, "even if every layer streams"));
    halo_tier_plan_destroy(plan);
}

/* Every layer of a model without experts can stream: its matrices are read by one product each. */
static void dense_layers_can_stream(void **state)
{
    bool all[HALO_MODEL_MAX_LAYERS];
    uint32_t n_dense = 0;
    memset(all, 1, sizeof(all));
    for (uint32_t i = 0; halo_toy_family(i); i++) {
        struct halo_toy *toy = halo_toy_create(halo_toy_family(i));
        struct halo_model *model = halo_toy_accepted(toy);
        if (halo_model_stream_experts(model, true) == 0) {
            uint32_t n_parts = 0;
            n_dense++;
            if (halo_model_stream_layers(model, all) != model->hparams.n_layers)
                fail_msg("%s: not every layer can stream", halo_toy_family(i));
            for (uint32_t k = 0; k < model->plan.n_weights; k++) {
                n_parts += model->plan.weights[k].streamed > 0;
                assert_false(model->plan.weights[k].streamed > 0 && model->plan.weights[k].embed);
            }
            assert_true(n_parts >= 2 * model->hparams.n_layers);
            assert_int_equal(halo_model_stream_experts(model, false), 0);
        }
        halo_model_destroy(model);
        halo_toy_destroy(toy);
    }
    assert_true(n_dense > 10);
}

/* What the device says of layers counts, not what they take in the file; a refusal has the least number. */
static void layers_as_the_device_counts(void **state)
{
    static struct halo_placement_matrices matrices[HALO_MODEL_MAX_LAYERS];
    struct halo_plan *plan = halo_tier_plan_create(&halo_tier_llama_70b);
    struct halo_placement_options options = {.scratch_bytes = GB, .streamed_scratch_bytes = 2 * GB, .padding_bytes = 0};
    struct halo_fault fault = {0};
    assert_int_equal(halo_placement_make(plan, NULL, UINT64_MAX, 0, &options, &placed, &fault), 0);
    uint64_t whole = placed.total_bytes;
    for (uint32_t i = 0; i < placed.n_layers; i++)
        matrices[i] = (struct halo_placement_matrices){.resident_bytes = GB / 4, .buffer_bytes = GB / 2};
    options.matrices = matrices;
    assert_int_equal(halo_placement_make(plan, NULL, whole - 1, 0, &options, &placed, &fault), 0);
    assert_int_equal(placed.n_streamed, 9); /* a GB of scratch more, two buffers of half a GB, a byte */
    assert_int_equal(placed.buffer_bytes, GB);
    assert_int_equal(placed.scratch_bytes, 2 * GB);
    assert_int_equal(placed.total_bytes, whole + 2 * GB - 9 * (GB / 4));
    assert_int_equal(placed.total_bytes, sum_of_parts(&placed));
    uint64_t least = whole + 2 * GB - placed.n_layers * (GB / 4);
    assert_int_equal(halo_placement_make(plan, NULL, least, 0, &options, &placed, &fault), 0);
    assert_int_equal(placed.n_streamed, placed.n_layers);
    assert_int_equal(halo_placement_make(plan, NULL, least - 1, 0, &options, &placed, &fault), -ENOMEM);
    assert_string_equal(fault.numbers[0].name, "needed_bytes");
    assert_int_equal(fault.numbers[0].value, least);
    assert_non_null(strstr(fault.text, "of embedding and output"));
    halo_tier_plan_destroy(plan);
}

/* ---- by hand ---- */

/* Two layers of eight experts, two of which a token uses; sizes by hand. */
static const struct halo_tier_shape two_layers = {.n_layers = 2,
                                                  .n_embd = 256,
                                                  .n_vocab = 256,
                                                  .n_attention = 256,
                                                  .n_head = 1,
                                                  .n_head_kv = 1,
                                                  .head_dim = 64,
                                                  .n_expert = 8,
                                                  .n_used = 2,
                                                  .n_ff_expert = 256,
                                                  .attention = HALO_TYPE_F16,
                                                  .ends = HALO_TYPE_F16,
                                                  .ff = HALO_TYPE_F16,
                                                  .down = {HALO_TYPE_F16, HALO_TYPE_F16},
                                                  .n_context = 64};
#define TWO_MATRIX (256 * 256 * 2)
#define TWO_SLOT (3 * (TWO_MATRIX + 4096ull) + 4096) /* a matrix is 32 blocks */
#define TWO_ALWAYS (2 * (256 * 4 + TWO_MATRIX + 256 * 8 * 4) + TWO_MATRIX)
static const struct halo_placement_options two_options = {.routing = {.kind = HALO_ROUTING_UNIFORM},
                                                          .kv_bytes = 1000,
                                                          .scratch_bytes = 2000,
                                                          .padding_bytes = 3000,
                                                          .miss_traffic = 3};

/* Five slots in each layer: five of eight experts are found. */
static void terms_by_hand(void **state)
{
    const double matrix = TWO_MATRIX, expert = 3 * matrix, read = expert + 3 * 4096;
    const struct halo_profile profile = {.memory_bytes_s = 1e9,
                                         .disk_bytes_s = 1e8,
                                         .disk_block_bytes = 100000,
                                         .disk_latency_s = 0.0015,
                                         .launch_s = 0.0001};
    struct halo_plan *plan = halo_tier_plan_create(&two_layers);
    const struct halo_placement_options options = two_options;
    struct halo_fault fault = {0};
    double always = TWO_ALWAYS, token = 512 + always + 2 * 2 * expert;
    double kv = 2 * 32 * 2 * 64 * 2;
    const uint64_t slot = TWO_SLOT;
    uint64_t fixed = (uint64_t)(always + matrix) + 6000;
    assert_int_equal(halo_placement_make(plan, &profile, fixed + 10 * slot, 0, &options, &placed, &fault), 0);
    assert_int_equal(placed.slot_bytes, slot);
    assert_int_equal(placed.n_slots, 10);
    assert_int_equal(placed.layers[0].n_slots, 5);
    assert_int_equal(placed.layers[0].min_slots, 2);
    assert_int_equal(placed.layers[1].n_slots, 5);
    assert_true(near(placed.hit_rate, 0.625, 1e-12));
    assert_true(near(placed.token_bytes, token + kv, 1e-12));
    assert_true(near(placed.miss_bytes, 1.5 * read, 1e-12));
    assert_true(near(placed.terms.memory_s, (token + kv + 3 * 1.5 * read) / 1e9, 1e-12));
    assert_true(near(placed.terms.disk_s, 1.5 * read / 1e8, 1e-12));
    /* A miss with probability 39/64; the first byte takes what 1.5 ms have beyond a block of 1 ms. */
    assert_true(near(placed.terms.latency_s, 2 * 39 / 64.0 * 0.0005, 1e-9));
    /* The drive is slower than all else: what is left when the last matrix has come is to repack and to compute it. One
     * miss: what passes meanwhile is the other expert, and gate and up of this one. Two: gate and up of both, and down
     * of the first. */
    double one = 5 * matrix + 2 * read * 2 / 3, two = 5 * matrix + 2 * read * 5 / 3;
    assert_true(near(placed.terms.overlap_s, 2 * (30 / 64.0 * one + 9 / 64.0 * two) / 1e9, 1e-9));
    assert_true(near(placed.terms.host_s, 2 * 0.0001, 1e-12));
    assert_true(near(placed.tok_s,
                     1 / (placed.terms.memory_s + placed.terms.disk_s + placed.terms.latency_s + placed.terms.host_s -
                          placed.terms.overlap_s),
                     1e-12));
    assert_true(near(placed.limit_tok_s, 1e8 / (1.5 * read), 1e-9));
    assert_int_equal(placed.prefill_bytes, 6 * (uint64_t)read);
    /* Slots of the drive's block and copies at half its speed: the copies count. */
    struct halo_profile copied = profile;
    copied.copy_bytes_s = 5e7;
    assert_int_equal(halo_placement_make(plan, &copied, fixed + 10 * slot, 0, &options, &placed, &fault), 0);
    assert_true(near(placed.terms.disk_s, 1.5 * read / 5e7, 1e-12));
    /* A slot less is too few for a token. */
    assert_int_equal(halo_placement_make(plan, &profile, fixed + 10 * slot - 1, 0, &options, &placed, &fault), -ENOMEM);
    halo_tier_plan_destroy(plan);
}

static void options_by_hand(void **state)
{
    const struct halo_profile profile = {.memory_bytes_s = 1e9, .disk_bytes_s = 1e8};
    const uint64_t slot = TWO_SLOT, fixed = TWO_ALWAYS + TWO_MATRIX + 6000;
    struct halo_plan *plan = halo_tier_plan_create(&two_layers);
    struct halo_placement_options options = two_options, device = two_options;
    struct halo_fault fault = {0};
    /* The device has its own KV pool, scratch, padding and slots for streamed experts. */
    device.streamed_kv_bytes = 900;
    device.streamed_scratch_bytes = 2500;
    device.streamed_padding_bytes = 100;
    device.slot_bytes = slot + 4096;
    uint64_t other = fixed - 6000 + 3500;
    assert_int_equal(halo_placement_make(plan, &profile, other + 12 * device.slot_bytes, 0, &device, &placed, &fault),
                     0);
    assert_int_equal(placed.n_slots, 12);
    assert_int_equal(placed.slot_bytes, slot + 4096);
    assert_int_equal(placed.scratch_bytes, 2500);
    assert_int_equal(placed.total_bytes, other + 12 * device.slot_bytes);
    assert_int_equal(placed.total_bytes, sum_of_parts(&placed));
    device.least_slots = 13;
    assert_int_equal(halo_placement_make(plan, &profile, other + 12 * device.slot_bytes, 0, &device, &placed, &fault),
                     -ENOMEM);
    assert_non_null(strstr(fault.text, "least of 13 slots"));
    device.least_slots = 17; /* more than there are experts */
    device.tiers = HALO_TIERS_STREAM;
    assert_int_equal(halo_placement_make(plan, &profile, other + 17 * device.slot_bytes, 0, &device, &placed, &fault),
                     0);
    assert_int_equal(placed.n_slots, 17);
    assert_true(placed.layers[0].n_slots == 8 && placed.layers[1].n_slots == 8);
    /* Everything fits; asked to stream, every expert gets a slot. */
    options.tiers = HALO_TIERS_STREAM;
    assert_int_equal(halo_placement_make(plan, &profile, GB, 0, &options, &placed, &fault), 0);
    assert_int_equal(placed.n_slots, 16);
    assert_true(placed.hit_rate == 1 && placed.miss_bytes == 0);
    options.tiers = HALO_TIERS_MEMORY;
    assert_int_equal(halo_placement_make(plan, &profile, fixed + 15 * slot, 0, &options, &placed, &fault), -ENOMEM);
    assert_non_null(strstr(fault.text, "tiers \"auto\""));
    halo_tier_plan_destroy(plan);
}

/* ---- nothing else is better ---- */

#define SMALL_LAYERS 3
#define SMALL_EXPERTS 4

/* Experts of a token that are not among those used last, by bisection: each stays for the same age. */
static double not_found(const double *share, uint32_t n_slots)
{
    double low = 0, high = 1e6, missed = 0;
    for (uint32_t round = 0; round < 200; round++) {
        double age = (low + high) / 2, slots = 0;
        missed = 0;
        for (uint32_t i = 0; i < SMALL_EXPERTS; i++) {
            slots += 1 - pow(1 - share[i], age);
            missed += share[i] * pow(1 - share[i], age);
        }
        *(slots < n_slots ? &low : &high) = age;
    }
    return n_slots < SMALL_EXPERTS ? missed : 0;
}

/* Bytes that a token reads from disk when the layers have so many slots. */
static double missed(const struct halo_placement *p, const double *share, const uint32_t *n_slots)
{
    double bytes = 0;
    for (uint32_t layer = 0; layer < SMALL_LAYERS; layer++)
        bytes += not_found(share + layer * SMALL_EXPERTS, n_slots[layer]) * (double)p->layers[layer].read_bytes;
    return bytes;
}

/* Probabilities below 1 that add up to 2. */
static void draw_shares(double *share, uint32_t *seed)
{
    for (uint32_t layer = 0; layer < SMALL_LAYERS; layer++) {
        double *of = share + layer * SMALL_EXPERTS, sum = 0, value = 1;
        for (uint32_t i = 0; i < SMALL_EXPERTS; i++) {
            *seed = *seed * 1664525 + 1013904223;
            of[i] = value;
            sum += value;
            value *= 0.7 + 0.3 * (double)(*seed >> 8) / (1 << 24);
        }
        for (uint32_t i = 0; i < SMALL_EXPERTS; i++)
            of[i] *= 2 / sum;
    }
}

static void no_other_division_reads_less(void **state)
{
    struct halo_tier_shape shape = {.n_layers = SMALL_LAYERS,
                                    .n_embd = 256,
                                    .n_vocab = 256,
                                    .n_attention = 256,
                                    .n_head = 1,
                                    .n_head_kv = 1,
                                    .head_dim = 64,
                                    .n_expert = SMALL_EXPERTS,
                                    .n_used = 2,
                                    .n_ff_expert = 256,
                                    .attention = HALO_TYPE_F16,
                                    .ends = HALO_TYPE_F16,
                                    .ff = HALO_TYPE_Q4_K,
                                    .down = {HALO_TYPE_F16, HALO_TYPE_Q4_K},
                                    .n_context = 64};
    struct halo_plan *plan = halo_tier_plan_create(&shape);
    struct halo_fault fault = {0};
    double share[SMALL_LAYERS * SMALL_EXPERTS];
    float gains[SMALL_LAYERS * SMALL_EXPERTS];
    uint32_t seed = 1, n_compared = 0;
    for (uint32_t round = 0; round < 200; round++) {
        draw_shares(share, &seed);
        for (uint32_t i = 0; i < SMALL_LAYERS; i++)
            halo_routing_gains(share + i * SMALL_EXPERTS, SMALL_EXPERTS, gains + i * SMALL_EXPERTS);
        const struct halo_routing traced = {.kind = HALO_ROUTING_TRACE, .gains = gains, .n_expert = SMALL_EXPERTS};
        assert_int_equal(place(plan, &strix, GB, uniform, &fault), 0);
        uint64_t fixed = placed.total_bytes - placed.placed_bytes[HALO_PLACED_EXPERTS];
        const struct halo_placement_options options = {
            .tiers = HALO_TIERS_STREAM, .routing = traced, .kv_bytes = placed.kv_bytes};
        assert_int_equal(halo_placement_make(plan, &strix, GB, 0, &options, &placed, &fault), 0);
        uint64_t slot = placed.slot_bytes;
        for (uint32_t n_slots = 2 * SMALL_LAYERS + 2; n_slots < SMALL_LAYERS * SMALL_EXPERTS; n_slots++) {
            assert_int_equal(halo_placement_make(plan, &strix, fixed + n_slots * slot, 0, &options, &placed, &fault),
                             0);
            assert_int_equal(placed.n_slots, n_slots);
            uint32_t mine[SMALL_LAYERS], other[SMALL_LAYERS];
            for (uint32_t i = 0; i < SMALL_LAYERS; i++)
                mine[i] = placed.layers[i].n_slots;
            assert_true(near(placed.miss_bytes, missed(&placed, share, mine), 1e-5));
            for (uint32_t code = 0; code < 27; code++) { /* 2 to 4 slots in each layer */
                for (uint32_t i = 0, c = code; i < SMALL_LAYERS; i++, c /= 3)
                    other[i] = 2 + c % 3;
                if (other[0] + other[1] + other[2] != n_slots)
                    continue;
                /* Without latencies the time is a rising function of these bytes alone: fewer are never slower. */
                assert_true(missed(&placed, share, other) >= placed.miss_bytes * (1 - 1e-5));
                n_compared++;
            }
        }
    }
    assert_true(n_compared > 4000);
    halo_tier_plan_destroy(plan);
}

/* Every set of layers of a small dense model whose layers are alike. */
static void no_other_layers_stream_less(void **state)
{
    const struct halo_tier_shape shape = {.n_layers = 9,
                                          .n_dense = 9,
                                          .n_embd = 256,
                                          .n_vocab = 256,
                                          .n_attention = 256,
                                          .n_head = 1,
                                          .n_head_kv = 1,
                                          .head_dim = 64,
                                          .n_ff = 512,
                                          .attention = HALO_TYPE_F16,
                                          .ends = HALO_TYPE_F16,
                                          .ff = HALO_TYPE_F16,
                                          .down = {HALO_TYPE_F16, HALO_TYPE_F16},
                                          .n_context = 64};
    struct halo_plan *plan = halo_tier_plan_create(&shape);
    struct halo_fault fault = {0};
    assert_int_equal(place(plan, &strix, GB, uniform, &fault), 0);
    const uint64_t whole = placed.total_bytes, layer = (256 + 3 * 512) * 256 * 2, buffers = 2 * (layer + 4 * 4096);
    uint32_t n_refused = 0;
    for (uint64_t budget = whole - 9 * layer; budget < whole; budget += layer / 3) {
        uint64_t least = UINT64_MAX;
        for (uint32_t set = 1; set < 1 << 9; set++) {
            uint64_t streamed = (uint64_t)__builtin_popcount(set) * layer;
            if (whole - streamed + buffers <= budget && streamed < least)
                least = streamed;
        }
        int r = place(plan, &strix, budget, uniform, &fault);
        assert_int_equal(r, least == UINT64_MAX ? -ENOMEM : 0);
        if (r == 0)
            assert_int_equal(placed.miss_bytes, least);
        else
            n_refused++;
    }
    assert_true(n_refused > 0);
    halo_tier_plan_destroy(plan);
}

/* ---- sentences ---- */

static const char *found(const char *fragment)
{
    for (uint32_t i = 0; i < placed.n_reasons; i++)
        if (strstr(placed.reasons[i], fragment))
            return placed.reasons[i];
    for (uint32_t i = 0; i < placed.n_hints; i++)
        if (strstr(placed.hints[i].text, fragment))
            return placed.hints[i].text;
    return NULL;
}

static void reasons_and_hints(void **state)
{
    struct halo_plan *plan = halo_tier_plan_create(&halo_tier_qwen3_235b);
    struct halo_fault fault = {0};
    assert_int_equal(place(plan, &strix, 118 * GB, published, &fault), 0);
    double streamed = placed.tok_s;
    assert_non_null(found("weights that every token reads stay in memory"));
    assert_non_null(found("for 12032 experts"));
    assert_non_null(found("Zipf's law with exponent 1.1"));
    assert_non_null(found("GB of memory"));
    assert_non_null(found("the disk is the bound"));
    assert_true(placed.n_hints >= 2);
    for (uint32_t i = 1; i < placed.n_hints; i++)
        assert_true(placed.hints[i].tok_s <= placed.hints[i - 1].tok_s);
    /* The smaller file that fits: what a placement of it says. */
    assert_non_null(found("a file in Q3_K"));
    assert_non_null(found("fits whole"));
    assert_non_null(found("GB more memory hold all of it"));
    assert_non_null(found("a second one beside it"));
    for (uint32_t i = 0; i < placed.n_hints; i++)
        assert_true(placed.hints[i].tok_s >= 1.05 * streamed);
    /* Nothing is promised without the speeds. */
    assert_int_equal(place(plan, NULL, 118 * GB, published, &fault), 0);
    assert_true(placed.tok_s == 0 && placed.n_hints == 0);
    assert_non_null(found("bandwidth is not known"));
    struct halo_profile no_disk = strix;
    no_disk.disk_bytes_s = 0;
    assert_int_equal(place(plan, &no_disk, 118 * GB, uniform, &fault), 0);
    assert_true(placed.tok_s == 0);
    assert_non_null(found("`haloctl profile` measures it"));
    assert_non_null(found("the worst case"));
    /* A model that fits needs no disk. */
    assert_int_equal(place(plan, &no_disk, 200 * GB, uniform, &fault), 0);
    assert_true(placed.tok_s > 0 && placed.n_hints == 0);
    assert_non_null(found("nothing is read from disk"));
    halo_tier_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_has_one_place),
        cmocka_unit_test(parts_of_a_mixture),
        cmocka_unit_test(table_of_235b),
        cmocka_unit_test(zipf_gives_the_published_hit_rates),
        cmocka_unit_test(dense_layers_stream_interleaved),
        cmocka_unit_test(dense_layers_can_stream),
        cmocka_unit_test(layers_as_the_device_counts),
        cmocka_unit_test(terms_by_hand),
        cmocka_unit_test(options_by_hand),
        cmocka_unit_test(no_other_division_reads_less),
        cmocka_unit_test(no_other_layers_stream_less),
        cmocka_unit_test(reasons_and_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
