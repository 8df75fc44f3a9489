/* test_pipeline.c: a plan divided over several CPU devices: where it is cut, what a stage costs, and that a stage which
 * holds other rows than the one before left ends the run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <pipeline/pipeline.h>

#include "cpu_fixture.h"

#define N_VOCAB 24
#define WIDTH 64
#define HEAD 32
#define LAYERS 4
#define ROWS 5

/* What happens between two stages, or to one of them. */
static struct {
    uint32_t left_bit;  /* of the rows that the first stage left, 1 + its number */
    bool other_token;   /* the second stage runs another token */
    uint32_t no_memory; /* 1 + the stage that gets none */
    uint32_t n_created, n_runs;
} trouble;

static struct halo_device_ops stage_ops;
static struct fixture f;

static int run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
               char *reason)
{
    struct halo_batch mine = *batch;
    int32_t token[ROWS];
    trouble.n_runs++;
    if (trouble.other_token && batch->taken) {
        memcpy(token, batch->token, batch->n_rows * sizeof(*token));
        token[batch->n_rows - 1] ^= 1;
        mine.token = token;
    }
    int r = halo_device_cpu()->run(model, &mine, phase, reason);
    if (!r && batch->left && trouble.left_bit > 0)
        ((uint32_t *)(void *)batch->left)[(trouble.left_bit - 1) / 32] ^= 1u << (trouble.left_bit - 1) % 32;
    return r;
}

static int model_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                        char *reason)
{
    if (++trouble.n_created == trouble.no_memory) {
        strcpy(reason, "no memory today");
        return -ENOMEM;
    }
    return halo_device_cpu()->model_create(device, plan, ret, reason);
}

static void op(uint16_t layer, struct halo_op op)
{
    op.layer = layer;
    fixture_op(&f, op);
}

static uint32_t matrix(uint32_t n_cols, uint32_t n_rows)
{
    return fixture_weight(&f, HALO_TYPE_Q8_0, HALO_WEIGHT_MATRIX, n_cols, n_rows, 1, 0.3);
}

/* Attention and its product, added to x; embedding and head are one weight. */
static int setup(void **state)
{
    (void)state;
    memset(&trouble, 0, sizeof(trouble));
    stage_ops = *halo_device_cpu();
    stage_ops.run = run;
    stage_ops.model_create = model_create;
    fixture_init(&f, N_VOCAB, ROWS, 64);
    fixture_kv(&f, HALO_KV_F32, LAYERS, 1, HEAD, HEAD);
    uint32_t table = matrix(WIDTH, N_VOCAB);
    uint16_t x = fixture_value(&f, WIDTH), y = fixture_value(&f, WIDTH), q = fixture_value(&f, HEAD),
             k = fixture_value(&f, HEAD), v = fixture_value(&f, HEAD);
    op(HALO_NONE, (struct halo_op){.kind = HALO_OP_EMBED, .u.embed = {table, x, 1}});
    for (uint16_t layer = 0; layer < LAYERS; layer++) {
        op(layer,
           (struct halo_op){.kind = HALO_OP_MATMUL,
                            .u.matmul = {.x = x,
                                         .n = 3,
                                         .weight = {matrix(WIDTH, HEAD), matrix(WIDTH, HEAD), matrix(WIDTH, HEAD)},
                                         .bias = {HALO_WEIGHT_NONE, HALO_WEIGHT_NONE, HALO_WEIGHT_NONE},
                                         .out = {q, k, v}}});
        op(layer, (struct halo_op){.kind = HALO_OP_KV_WRITE, .u.kv_write = {k, v, layer, 0}});
        op(layer, (struct halo_op){
                      .kind = HALO_OP_ATTEND,
                      .u.attend = {
                          .q = q, .out = q, .kv_layer = layer, .n_head = 1, .scale = 0.2f, .sinks = HALO_WEIGHT_NONE}});
        op(layer,
           (struct halo_op){
               .kind = HALO_OP_MATMUL,
               .u.matmul = {.x = q, .n = 1, .weight = {matrix(HEAD, WIDTH)}, .bias = {HALO_WEIGHT_NONE}, .out = {y}}});
        op(layer, (struct halo_op){.kind = HALO_OP_ADD, .u.add = {x, y}});
    }
    op(HALO_NONE, (struct halo_op){.kind = HALO_OP_LOGITS, .u.logits = {table, x, HALO_WEIGHT_NONE, 1, 0}});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_finish(&f);
    return 0;
}

static void open_stages(uint32_t n)
{
    fixture_close(&f);
    f.device_ops = n > 0 ? halo_device_pipeline() : halo_device_cpu();
    f.stage_ops = &stage_ops;
    f.n_stages = n;
    fixture_open(&f, "reference", 1);
}

static const int32_t tokens[ROWS] = {3, 1, 4, 1, 5};

static void stages_give_the_bits_of_one_device(void **state)
{
    float whole[ROWS * N_VOCAB], divided[ROWS * N_VOCAB];
    (void)state;
    open_stages(0);
    fixture_run(&f, 1, tokens, ROWS, 0, whole);
    for (uint32_t n = 1; n <= LAYERS; n++) {
        trouble.n_runs = 0;
        open_stages(n);
        fixture_run(&f, 1, tokens, ROWS, 0, divided);
        assert_int_equal(trouble.n_runs, n);
        assert_memory_equal(whole, divided, sizeof(whole));
    }
}

/* A page that was read, written elsewhere and copied back continues the sequence as if nothing had happened. */
static void pages_move_with_the_layers_of_all_stages(void **state)
{
    const struct halo_device_ops *ops = halo_device_pipeline();
    char reason[HALO_DEVICE_REASON] = "";
    float first[N_VOCAB], again[N_VOCAB];
    uint32_t n_pages;
    (void)state;
    open_stages(3);
    uint32_t page = fixture_pages(&f, 1, &n_pages)[0], other = fixture_pages(&f, 2, &n_pages)[0];
    fixture_run(&f, 1, tokens, ROWS - 1, 0, NULL);
    fixture_run(&f, 1, tokens + ROWS - 1, 1, ROWS - 1, first);
    uint64_t n_bytes = ops->kv_page_bytes(f.model, 0);
    assert_int_equal(n_bytes, halo_kv_page_bytes(&f.plan.kv[0]));
    uint8_t *bytes = malloc(n_bytes), *zeros = calloc(1, n_bytes);
    assert_true(bytes && zeros);
    assert_int_equal(ops->kv_read(f.model, 0, page, bytes, reason), 0);
    assert_int_equal(ops->kv_write(f.model, 0, page, zeros, reason), 0);
    assert_int_equal(ops->kv_write(f.model, 0, other, bytes, reason), 0);
    assert_int_equal(ops->kv_copy(f.model, 0, other, page, reason), 0);
    fixture_run(&f, 1, tokens + ROWS - 1, 1, ROWS - 1, again);
    assert_memory_equal(first, again, sizeof(first));
    free(bytes);
    free(zeros);
}

/* Runs one batch, which ends with this reason. */
static void run_is_refused(const char *words)
{
    int32_t pos[ROWS];
    uint32_t seq[ROWS] = {0}, output[1] = {ROWS - 1};
    _Alignas(64) float logits[N_VOCAB];
    struct halo_batch_seq of = {0};
    char reason[HALO_DEVICE_REASON] = "";
    for (int32_t r = 0; r < ROWS; r++)
        pos[r] = r;
    of.pages[0] = fixture_pages(&f, 1, &of.n_pages);
    const struct halo_batch batch = {.n_rows = ROWS,
                                     .token = tokens,
                                     .pos = pos,
                                     .seq = seq,
                                     .n_seqs = 1,
                                     .seqs = &of,
                                     .n_outputs = 1,
                                     .output = output,
                                     .logits = logits};
    assert_int_equal(f.device_ops->run(f.model, &batch, NULL, reason), HALO_DEVICE_E_LOST);
    if (!strstr(reason, words))
        fail_msg("the run says: %s", reason);
}

/* Any one bit, and the first and the last one too. */
static void a_bit_that_changes_on_the_way_is_noticed(void **state)
{
    const uint32_t n_bits = ROWS * WIDTH * 32;
    (void)state;
    open_stages(2);
    for (uint32_t bit = 0; bit < n_bits; bit += n_bits - 1 - bit < 997 && bit + 1 < n_bits ? n_bits - 1 - bit : 997) {
        trouble.left_bit = 1 + bit;
        run_is_refused("stage 2 holds other activations than stage 1 sent");
    }
}

static void a_stage_that_runs_another_token_is_noticed(void **state)
{
    (void)state;
    open_stages(2);
    trouble.other_token = true;
    run_is_refused("stage 2 ran other tokens, positions or sequences than stage 1");
}

static void a_stage_without_memory_is_named_with_its_numbers(void **state)
{
    const struct halo_device_ops *ops = halo_device_pipeline();
    const struct halo_device_options options = {.n_threads = 1, .stage = &stage_ops, .n_stages = 3};
    struct halo_device *device;
    struct halo_device_model *model;
    char reason[HALO_DEVICE_REASON] = "";
    (void)state;
    trouble.no_memory = 2;
    assert_int_equal(ops->open(&device, &options, reason), 0);
    assert_int_equal(ops->model_create(device, &f.plan, &model, reason), -ENOMEM);
    if (!strstr(reason, "stage 2 of 3 (layers 1 to ") || !strstr(reason, " MiB free: no memory today"))
        fail_msg("the refusal says: %s", reason);
    ops->close(device);
}

/* Four layers have three places between them; more devices than that are too many. */
static void a_plan_with_too_few_layers_is_refused(void **state)
{
    const struct halo_device_ops *ops = halo_device_pipeline();
    const struct halo_device_options options = {.n_threads = 1, .stage = &stage_ops, .n_stages = LAYERS + 1};
    struct halo_device *device;
    char reason[HALO_DEVICE_REASON] = "";
    (void)state;
    assert_int_equal(ops->open(&device, &options, reason), 0);
    assert_int_equal(ops->supports(device, &f.plan, 0, reason), -ENOTSUP);
    if (!strstr(reason, "can be divided in 3 places between its layers, 5 devices need 4"))
        fail_msg("the refusal says: %s", reason);
    ops->close(device);
    const struct halo_device_options many = {.stage = &stage_ops, .n_stages = HALO_STAGES_MAX + 1};
    assert_int_equal(ops->open(&device, &many, reason), -EINVAL);
}

/* A layer of the cache that layers of both sides use stays in one stage: no cut is in front of layer 2. */
static void no_cut_divides_a_layer_of_the_cache(void **state)
{
    const struct halo_device_ops *ops = halo_device_pipeline();
    const struct halo_device_options options = {.n_threads = 1, .stage = &stage_ops, .n_stages = LAYERS};
    struct halo_device *device;
    char reason[HALO_DEVICE_REASON] = "";
    float whole[ROWS * N_VOCAB], divided[ROWS * N_VOCAB];
    (void)state;
    for (uint32_t i = 0; i < f.plan.n_ops; i++)
        if (f.ops[i].kind == HALO_OP_ATTEND && f.ops[i].layer == 2)
            f.ops[i].u.attend.kv_layer = 1;
    assert_int_equal(ops->open(&device, &options, reason), 0);
    assert_int_equal(ops->supports(device, &f.plan, 0, reason), -ENOTSUP);
    ops->close(device);
    open_stages(0);
    fixture_run(&f, 1, tokens, ROWS, 0, whole);
    open_stages(3);
    fixture_run(&f, 1, tokens, ROWS, 0, divided);
    assert_memory_equal(whole, divided, sizeof(whole));
}

/* The estimates of the stages are those of one device, but for the second copy of the table and more scratch. */
static void an_estimate_is_the_sum_of_the_stages(void **state)
{
    struct halo_device *one, *two;
    const struct halo_device_options options = {.n_threads = 1, .stage = &stage_ops, .n_stages = 2};
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t whole[3], divided[3];
    (void)state;
    assert_int_equal(halo_device_cpu()->open(&one, &options, reason), 0);
    assert_int_equal(halo_device_pipeline()->open(&two, &options, reason), 0);
    halo_device_cpu()->estimate(one, &f.plan, &whole[0], &whole[1], &whole[2]);
    halo_device_pipeline()->estimate(two, &f.plan, &divided[0], &divided[1], &divided[2]);
    assert_in_range(divided[0], whole[0] + f.weights[0].n_bytes, whole[0] + 4 * 4096);
    assert_int_equal(divided[1], whole[1]);
    assert_true(divided[2] > whole[2]);
    halo_device_cpu()->close(one);
    halo_device_pipeline()->close(two);
}

/* Every layer once and in order, and no byte that the estimate does not have. */
static void shares_are_the_layers_and_bytes_of_the_plan(void **state)
{
    enum { N = 3 };
    const struct halo_device_ops *ops = halo_device_pipeline();
    const struct halo_device_options options = {.n_threads = 1, .stage = &stage_ops, .n_stages = N};
    struct halo_device_share share[HALO_DEVICE_GPUS_MAX], sum = {0};
    struct halo_device_info info;
    struct halo_device *device;
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t whole[3];
    (void)state;
    assert_int_equal(ops->open(&device, &options, reason), 0);
    assert_int_equal(ops->divide(device, &f.plan, share), 0);
    ops->estimate(device, &f.plan, &whole[0], &whole[1], &whole[2]);
    ops->describe(device, &info);
    assert_int_equal(info.n_gpus, N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(share[i].first_layer, i > 0 ? share[i - 1].last_layer + 1 : 0);
        assert_true(share[i].last_layer >= share[i].first_layer);
        assert_true(share[i].weights_bytes > 0 && share[i].kv_bytes > 0);
        sum.weights_bytes += share[i].weights_bytes;
        sum.kv_bytes += share[i].kv_bytes;
        sum.scratch_bytes += share[i].scratch_bytes;
        assert_string_equal(info.gpus[i].name, "cpu");
        assert_true(info.gpus[i].memory_bytes > 0 && info.gpus[i].free_bytes <= info.gpus[i].memory_bytes);
    }
    assert_int_equal(share[N - 1].last_layer, LAYERS - 1);
    assert_true(sum.weights_bytes == whole[0] && sum.kv_bytes == whole[1] && sum.scratch_bytes == whole[2]);
    ops->close(device);
}

static void the_time_of_each_stage_is_counted(void **state)
{
    enum { N = 2, RUNS = 3 };
    const int32_t pos[1] = {0};
    const uint32_t pages[1] = {0}, rows[1] = {0};
    const struct halo_batch_seq seq = {.pages = {pages}, .n_pages = 1};
    const struct halo_batch batch = {.n_rows = 1, .token = tokens, .pos = pos, .seq = rows, .n_seqs = 1, .seqs = &seq};
    struct halo_device_phase phase = {0};
    char reason[HALO_DEVICE_REASON] = "";
    uint64_t before_ns[N] = {0};
    (void)state;
    open_stages(N);
    for (uint32_t run = 1; run <= RUNS; run++) {
        assert_int_equal(f.device_ops->run(f.model, &batch, &phase, reason), 0);
        assert_int_equal(phase.n_divided_runs, run);
        for (uint32_t i = 0; i < N; i++) {
            assert_true(phase.divided_ns[i] > before_ns[i]);
            before_ns[i] = phase.divided_ns[i];
        }
        assert_int_equal(phase.divided_ns[N], 0);
    }
    trouble.left_bit = 1;
    assert_int_equal(f.device_ops->run(f.model, &batch, &phase, reason), HALO_DEVICE_E_LOST);
    assert_int_equal(phase.n_divided_runs, RUNS); /* a run that fails does not count */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(stages_give_the_bits_of_one_device),
        TEST(pages_move_with_the_layers_of_all_stages),
        TEST(a_bit_that_changes_on_the_way_is_noticed),
        TEST(a_stage_that_runs_another_token_is_noticed),
        TEST(a_stage_without_memory_is_named_with_its_numbers),
        TEST(a_plan_with_too_few_layers_is_refused),
        TEST(no_cut_divides_a_layer_of_the_cache),
        TEST(an_estimate_is_the_sum_of_the_stages),
        TEST(shares_are_the_layers_and_bytes_of_the_plan),
        TEST(the_time_of_each_stage_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
