/* test_tiers_hip.c: mixtures whose experts are streamed, and dense models whose layers are, through the whole engine
 * on the HIP device over the runtime that $HALO_HIP_LIB names, with memory shared with the host or its own
 * ($HALO_HIP_EMU_DISCRETE).
 *
 * Ids of a GPU depend on what runs beside, so a request that is compared with the resident model runs alone. An
 * emulated GPU is slow: texts are short. HALO_TEST_TYPES=few: one model of each kind, and faults with the mixture. What
 * goes wrong with reads is said by reads_control.h. Models: $HALO_SHARED/models, else ../shared/models; without them
 * the test is skipped (77).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include <engine/experts.h>
#include <hip/hip.h>

#include "child.h"
#include "reads_control.h"

#define N_TEXTS 2
#define REPLY 4
#define TOGETHER 8 /* sequences */
#define MIDDLE 30  /* reads of a dense model's step: those of four layers and more */
#define LONG 40    /* ids of a prompt that uses nearly all experts of a layer */

static const char *const models[] = {
    "tiny-gpt-oss",   /* MXFP4, biases of experts */
    "tiny-qwen3moe",  /* F16 */
    "tiny-deepseek2", /* a shared expert, a dense layer in front, products without a choice between the layers */
    "tiny-glm4moe",   /* groups of experts */
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))

/* Their layers stream. */
static const char *const dense[] = {
    "tiny-gemma3",  /* an odd number of layers: one is in either buffer by turns */
    "fable-Q4_K_M", /* several types of weights in one layer */
    "tiny-qwen35",  /* recurrent layers */
};
#define N_DENSE (sizeof(dense) / sizeof(dense[0]))

/* What the tests of faults run: a model of each kind. */
static const struct kind {
    const char *model, *what, *failures;
} kinds[] = {{"tiny-gpt-oss", "experts of layer ", "expert_failures"}, {"tiny-gemma3", "layer ", "layer_failures"}};

static char folder[4096];
static const char *model;
static int32_t want[N_TEXTS][REPLY];
static int64_t next_id;
static long budget; /* of the last streamed load */

static bool is_few(void)
{
    const char *types = getenv("HALO_TEST_TYPES");
    return types && strcmp(types, "few") == 0;
}

static void begin(struct child *c)
{
    memset(control, 0, sizeof(*control));
    child_start(c, true, NULL);
    next_id = 0;
}

static struct child_request *load(struct child *c, const char *name, const char *tiers, long bytes)
{
    child_send(c,
               "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":256,\"kv_tokens\":1024,"
               "\"tiers\":\"%s\",\"budget_bytes\":%ld}}",
               (long long)++next_id, name, tiers, bytes);
    return child_wait(c, next_id);
}

/* With as few slots as there can be. Returns their number; of a dense model 0. */
static long load_streamed(struct child *c)
{
    budget = 1;
    for (int i = 0; i < 5; i++) {
        struct child_request *request = load(c, model, "stream", budget);
        if (request->terminal == HALO_EV_LOADED)
            return child_number(request, "n_slots");
        if (request->error != HALO_ERROR_OUT_OF_MEMORY)
            fail_msg("%s", request->last);
        assert_int_equal(request->error, HALO_ERROR_OUT_OF_MEMORY);
        budget = child_number(request, "needed_bytes");
    }
    fail_msg("%s: not loaded even with %ld bytes", model, budget);
    return 0;
}

static void load_resident(struct child *c, const char *name)
{
    assert_int_equal(load(c, name, "memory", 1l << 30)->terminal, HALO_EV_LOADED);
}

/* Behind the ids of a reply that an engine before this one had sent, if any. */
static void send_text(struct child *c, int64_t id, const char *name, uint32_t text, const int32_t *had, uint32_t n_had)
{
    char ids[1024], rest[512] = "";
    child_prompt(ids, 10 + 14 * (int)text);
    if (n_had > 0)
        snprintf(rest, sizeof(rest),
                 ",\"resume\":{\"bytes_sent\":0,\"seed\":%u,\"elapsed_ms\":1,\"started\":true,\"tokens\":[", text);
    for (uint32_t i = 0; i < n_had; i++)
        snprintf(rest + strlen(rest), 16, "%d%s", had[i], i + 1 < n_had ? "," : "]}");
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld,\"model\":\"%s\",\"tokens\":[%s],\"max_tokens\":%d,"
               "\"ignore_eos\":true,\"temperature\":0.8,\"seed\":%u,\"emit_token_ids\":true,\"cache_prompt\":false%s}",
               (long long)id, name, ids, REPLY, text, rest);
}

static void expect_text(struct child *c, int64_t id, uint32_t text)
{
    send_text(c, id, model, text, NULL, 0);
    struct child_request *request = child_wait(c, id);
    if (request->finish != HALO_WIRE_FINISH_LENGTH || request->n_ids != REPLY)
        fail_msg("%s: %s", model, request->last);
    if (memcmp(request->ids, want[text], sizeof(want[text])) != 0)
        fail_msg("%s: text %u has other ids than the resident model's", model, text);
}

static void run_resident(uint32_t n_texts)
{
    struct child c;
    begin(&c);
    load_resident(&c, model);
    for (uint32_t t = 0; t < n_texts; t++) {
        send_text(&c, 100 + t, model, t, NULL, 0);
        memcpy(want[t], child_wait(&c, 100 + t)->ids, sizeof(want[t]));
        assert_int_equal(c.requests[100 + t].n_ids, REPLY);
    }
    assert_int_equal(atomic_load(&control->n_reads), 0);
    assert_int_equal(child_end(&c), 0);
}

/* One after the other; then together, one of them cancelled on its way; then one alone again. */
static void run_texts(struct child *c)
{
    for (uint32_t t = 0; t < N_TEXTS; t++)
        expect_text(c, 101 + t, t);
    for (uint32_t t = 0; t < N_TEXTS; t++)
        send_text(c, 200 + t, model, t, NULL, 0);
    while (c->requests[200].n_ids == 0 && c->requests[200].n_terminal == 0)
        if (!child_read(c, 50))
            fail_msg("%s: the engine has ended", model);
    child_send(c, "{\"type\":\"cancel\",\"id\":300,\"target\":200}");
    for (uint32_t t = 0; t < N_TEXTS; t++)
        child_wait(c, 200 + t);
    assert_int_equal(c->requests[201].n_ids, REPLY);
    expect_text(c, 400, 0);
}

static void run_streamed(void)
{
    struct child c;
    begin(&c);
    long n_slots = load_streamed(&c);
    run_texts(&c);
    child_send(&c, "{\"type\":\"stats\",\"id\":500}");
    struct child_request *stats = child_wait(&c, 500);
    print_message("%s: %ld slots, %ld bytes found, %ld read\n", model, n_slots, child_number(stats, "expert_hit_bytes"),
                  child_number(stats, "expert_miss_bytes"));
    assert_true(child_number(stats, "expert_miss_bytes") > 0 && child_number(stats, "expert_hit_bytes") > 0);
    assert_int_equal(child_number(stats, "expert_failures"), 0);
    child_send(&c, "{\"type\":\"status\",\"id\":501}");
    assert_int_equal(child_number(child_wait(&c, 501), "slots"), n_slots);
    assert_int_equal(child_end(&c), 0);
}

static void streamed_is_resident(void **state)
{
    for (size_t m = 0; m < (is_few() ? 1 : N_MODELS); m++) {
        model = models[m];
        run_resident(N_TEXTS);
        run_streamed();
    }
}

/* `plan` says that so many layers stream with the last budget. */
static void expect_plan(struct child *c, long n_layers)
{
    child_send(c,
               "{\"type\":\"plan\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":256,\"kv_tokens\":1024,"
               "\"budget_bytes\":%ld}}",
               (long long)++next_id, model, budget);
    struct child_request *plan = child_wait(c, next_id);
    assert_non_null(strstr(plan->last, "\"resident\":false,\"loadable\":true"));
    assert_int_equal(child_number(plan, "streamed_layers"), n_layers);
}

/* Every step reads every streamed layer once, however many rows it has. */
static void expect_layers_read(struct child *c, long disk)
{
    child_send(c, "{\"type\":\"stats\",\"id\":500}");
    struct child_request *stats = child_wait(c, 500);
    long n_steps = child_number(stats, "steps"), n_read = child_number(stats, "layer_read_bytes");
    print_message("%s: %ld steps, %ld bytes a step, %ld read\n", model, n_steps, disk, n_read);
    assert_in_range(n_read, n_steps * disk, (n_steps + 1) * disk); /* two layers are read ahead */
    assert_int_equal(child_number(stats, "layer_failures"), 0);
}

/* As many sequences as share their steps. */
static void run_together(struct child *c)
{
    for (int64_t i = 0; i < TOGETHER; i++)
        send_text(c, 600 + i, model, (uint32_t)i % N_TEXTS, NULL, 0);
    for (int64_t i = 0; i < TOGETHER; i++)
        assert_int_equal(child_wait(c, 600 + i)->n_ids, REPLY);
}

/* All layers stream; then some of them, with the ids of the resident model too. */
static void layers_stream(void **state)
{
    for (size_t m = 0; m < (is_few() ? 1 : N_DENSE); m++) {
        struct child c;
        model = dense[m];
        run_resident(is_few() ? 1 : N_TEXTS);
        begin(&c);
        load_streamed(&c);
        long disk = child_number(&c.requests[next_id], "disk"), n = child_number(&c.requests[next_id], "n_layers");
        assert_true(n > 2);
        expect_plan(&c, n);
        expect_text(&c, 100, 0);
        if (!is_few()) {
            run_texts(&c);
            run_together(&c);
        }
        expect_layers_read(&c, disk);
        child_send(&c, "{\"type\":\"unload\",\"id\":501,\"model\":\"%s\"}", model);
        assert_int_equal(child_wait(&c, 501)->terminal, HALO_EV_UNLOADED);
        assert_int_equal(load(&c, model, "memory", budget)->error, HALO_ERROR_OUT_OF_MEMORY);
        budget = child_number(&c.requests[next_id], "needed_bytes") - 1;
        assert_int_equal(load(&c, model, "stream", budget)->terminal, HALO_EV_LOADED);
        assert_in_range(child_number(&c.requests[next_id], "n_layers"), 1, n - 1);
        expect_plan(&c, child_number(&c.requests[next_id], "n_layers"));
        if (!is_few())
            expect_text(&c, 502, 0);
        assert_int_equal(child_end(&c), 0);
    }
}

/* A prompt reads no expert twice, though there are fewer buffers and slots than it uses. What `plan` counts for the
 * device is what `load` takes. */
static void a_prompt_is_one_pass(void **state)
{
    struct child c;
    char ids[1024];
    model = models[0];
    begin(&c);
    long n_slots = load_streamed(&c), disk = child_number(&c.requests[next_id], "disk");
    long weights = child_number(&c.requests[next_id], "weights_bytes");
    assert_true(child_number(&c.requests[next_id], "slots") > 0 &&
                child_number(&c.requests[next_id], "slots") < weights);
    child_prompt(ids, LONG);
    child_send(&c, "{\"type\":\"generate\",\"id\":100,\"model\":\"%s\",\"tokens\":[%s],\"max_tokens\":1}", model, ids);
    assert_int_equal(child_wait(&c, 100)->terminal, HALO_EV_DONE);
    child_send(&c, "{\"type\":\"stats\",\"id\":101}");
    assert_int_equal(child_number(child_wait(&c, 101), "steps"), 1);
    assert_in_range(child_number(&c.requests[101], "expert_miss_bytes"), disk / 2, disk);
    assert_true(n_slots > 0);
    assert_int_equal(child_end(&c), 0);
}

/* An engine that is killed while it waits for experts: its successor goes on as that of the resident model would. */
static void an_engine_that_dies(void **state)
{
    struct child c;
    int32_t had[REPLY], rest[REPLY];
    model = models[0];
    run_resident(1);
    begin(&c);
    load_streamed(&c);
    send_text(&c, 100, model, 0, NULL, 0);
    while (c.requests[100].n_ids < REPLY / 2)
        assert_true(child_read(&c, 50));
    atomic_store(&control->is_stalled, true);
    while (atomic_load(&control->n_waits) == 0 && c.requests[100].n_terminal == 0)
        assert_true(child_read(&c, 50));
    uint32_t n_had = c.requests[100].n_ids < REPLY ? c.requests[100].n_ids : REPLY - 1;
    memcpy(had, c.requests[100].ids, sizeof(had));
    assert_memory_equal(had, want[0], n_had * sizeof(had[0]));
    child_kill(&c);
    for (int is_streamed = 0; is_streamed < 2; is_streamed++) {
        begin(&c);
        if (is_streamed)
            load_streamed(&c);
        else
            load_resident(&c, model);
        send_text(&c, 100, model, 0, had, n_had);
        struct child_request *request = child_wait(&c, 100);
        assert_int_equal(request->n_ids, REPLY - n_had);
        if (is_streamed)
            assert_memory_equal(request->ids, rest, request->n_ids * sizeof(rest[0]));
        memcpy(rest, request->ids, sizeof(rest));
        assert_int_equal(child_end(&c), 0);
    }
}

/* ---- reads that go wrong ---- */

/* If a read does not happen, other ids come: what the tests above see is not for nothing. */
static void a_forgotten_read_shows(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    if (is_few() && kind != kinds)
        skip();
    model = kind->model;
    run_resident(1);
    begin(&c);
    load_streamed(&c);
    atomic_store(&control->forget_after, 3);
    send_text(&c, 100, model, 0, NULL, 0);
    struct child_request *request = child_wait(&c, 100);
    assert_int_equal(atomic_load(&control->forget_after), 0);
    assert_true(request->n_ids != REPLY || memcmp(request->ids, want[0], sizeof(want[0])) != 0);
    assert_int_equal(child_end(&c), 0);
}

static void expect_unreadable(struct child *c, int64_t id, const struct kind *kind, const char *what)
{
    struct child_request *request = child_wait(c, id);
    if (request->n_terminal != 1 || request->error != HALO_ERROR_LOAD_FAILED ||
        strncmp(request->message, kind->what, strlen(kind->what)) != 0 || !strstr(request->message, what))
        fail_msg("not the error that was expected: %s", request->last);
}

/* A read fails: one error, with the file; the other model's request goes on, and the next one is right. */
static void an_io_error(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    char file[64];
    if (is_few() && kind != kinds)
        skip();
    model = kind->model;
    run_resident(1);
    begin(&c);
    snprintf(file, sizeof(file), "%s.gguf", model);
    load_streamed(&c);
    load_resident(&c, models[1]);
    send_text(&c, 100, models[1], 0, NULL, 0);
    /* Of a layer that is read ahead a failure counts only if it is not there in its turn. */
    atomic_store(&control->stays_broken, true);
    atomic_store(&control->fail_after, 2);
    send_text(&c, 101, model, 0, NULL, 0);
    expect_unreadable(&c, 101, kind, file);
    atomic_store(&control->stays_broken, false);
    atomic_store(&control->fail_after, 0);
    assert_int_equal(child_wait(&c, 100)->finish, HALO_WIRE_FINISH_LENGTH);
    expect_text(&c, 102, 0);
    if (kind != kinds) { /* a layer in the middle, behind which others are read ahead */
        atomic_store(&control->is_bad_block, true);
        atomic_store(&control->fail_after, MIDDLE);
        send_text(&c, 103, model, 0, NULL, 0);
        expect_unreadable(&c, 103, kind, file);
        atomic_store(&control->is_bad_block, false);
        atomic_store(&control->bad_end, 0);
        expect_text(&c, 104, 0);
    }
    child_send(&c, "{\"type\":\"stats\",\"id\":500}");
    assert_int_equal(child_number(child_wait(&c, 500), kind->failures), kind == kinds ? 1 : 2);
    assert_int_equal(child_end(&c), 0);
}

/* The drive does not answer: an error when the deadline has passed, no hang, and when it answers again all is well,
 * also with the buffers that late reads had. */
static void a_stalled_drive(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    if (is_few() && kind != kinds)
        skip();
    model = kind->model;
    run_resident(N_TEXTS);
    begin(&c);
    load_streamed(&c);
    atomic_store(&control->is_stalled, true);
    send_text(&c, 100, model, 1, NULL, 0);
    while (atomic_load(&control->n_waits) == 0)
        assert_true(child_read(&c, 50));
    atomic_store(&control->late_ns, (uint64_t)(HALO_EXPERTS_STALL_MS + 1000) * 1000000);
    expect_unreadable(&c, 100, kind, "has not answered for 30 s");
    atomic_store(&control->is_stalled, false);
    expect_text(&c, 101, 1);
    expect_text(&c, 102, 0);
    assert_int_equal(child_end(&c), 0);
}

static int start(void **state)
{
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    child_device = halo_device_hip();
    child_library = getenv("HALO_HIP_LIB");
    child_dirs[child_n_dirs++] = folder;
    return control != MAP_FAILED ? 0 : 1;
}

int main(void)
{
    if (!child_find_models(folder, sizeof(folder)))
        return 77;
#define EACH_KIND(test)                                                                                                \
    cmocka_unit_test_prestate(test, (void *)(uintptr_t)&kinds[0]),                                                     \
        cmocka_unit_test_prestate(test, (void *)(uintptr_t)&kinds[1])
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_is_resident),
        cmocka_unit_test(layers_stream),
        cmocka_unit_test(a_prompt_is_one_pass),
        cmocka_unit_test(an_engine_that_dies),
        EACH_KIND(a_forgotten_read_shows),
        EACH_KIND(an_io_error),
        EACH_KIND(a_stalled_drive),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
