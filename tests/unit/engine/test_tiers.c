/* test_tiers.c: mixtures whose experts are streamed from disk and dense models whose layers are, through the whole
 * engine on the CPU device. Whatever is read when, whoever runs beside, cancels, dies or is restarted: the ids are
 * those of the resident model. Reads that fail end the requests of their step with one clear error, and nobody else's.
 *
 * What goes wrong with reads is said by reads_control.h.
 * Models: $HALO_SHARED/models, else ../shared/models; without them one of each kind is made, with random weights.
 * Argument: mkgguf.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <engine/expert_trial.h>
#include <engine/experts.h>
#include <store/fetch.h>

#include "child.h"
#include "reads_control.h"

#define N_TEXTS 6
#define REPLY 20
#define PROMPT_MAX 160
#ifdef __SANITIZE_THREAD__
#define MANY 3 /* threads: it looks at what they share, for which fewer do */
#define N_MODELS 1
#define N_DENSE 1
#define IN_FULL false
#elif defined(__SANITIZE_ADDRESS__)
#define MANY 4
#define N_MODELS 3 /* it looks at memory: one model of each way in which experts lie in a file */
#define N_DENSE 1
#define IN_FULL false
#else
#define MANY 8
#define N_MODELS (sizeof(models) / sizeof(models[0]))
#define N_DENSE (sizeof(dense) / sizeof(dense[0]))
#define IN_FULL true
#endif

static const char *const models[] = {
    "fable-moe-Q4_K_M",    /* several types of weights in one layer */
    "tiny-gpt-oss",        /* MXFP4, biases of experts */
    "tiny-gemma4-moe",     /* gate and up in one tensor, factors of experts */
    "tiny-qwen35moe",      /* a shared expert, recurrent layers */
    "tiny-qwen3moe-nvfp4", /* scales in tensors of their own */
};

/* Their layers stream. */
static const char *const dense[] = {
    "tiny-gemma3",  /* windows; small, for all builds */
    "fable-Q4_K_M", /* several types of weights in one layer */
    "tiny-qwen35",  /* recurrent layers */
};

/* What the tests of faults run: a model of each kind. */
static const struct kind {
    const char *model, *file, *what, *failures;
    bool is_dense;
} kinds[] = {
    {"fable-moe-Q4_K_M", "fable-moe-Q4_K_M.gguf", "experts of layer ", "expert_failures", false},
    {"tiny-gemma3", "tiny-gemma3.gguf", "layer ", "layer_failures", true},
};
#define LAYER_MATRICES 7 /* of the dense one */
#define N_EXPERTS 8      /* of a layer of the mixture */
#define EIGHT_LAYERS "fable-Q4_K_M"

static char folder[4096], own_folder[] = "/tmp/halo-test-tiers-XXXXXX";
static size_t n_models = N_MODELS, n_dense = N_DENSE;
static const char *model;
static char prompts[N_TEXTS][2048];
static int32_t want[N_TEXTS][REPLY];
static int64_t next_id;

static void reset(void)
{
    memset(control, 0, sizeof(*control));
}

/* ---- requests ---- */

/* Reads what comes while something is waited for that is no answer. */
static void read_more(struct child *c)
{
    if (!child_read(c, 50))
        fail_msg("%s: the engine has ended", model);
}

static void make_prompts(void)
{
    uint64_t draw = 5;
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        prompts[t][0] = '\0';
        for (uint32_t i = 0; i < 10 + t * 30 && i < PROMPT_MAX; i++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            snprintf(prompts[t] + strlen(prompts[t]), 8, "%s%d", i ? "," : "", (int)(3 + (draw >> 33) % 200));
        }
    }
}

static struct child_request *load(struct child *c, const char *name, const char *more)
{
    child_send(c, "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":256,\"kv_tokens\":1024%s}}",
               (long long)++next_id, name, more);
    return child_wait(c, next_id);
}

/* With as little memory as does. Returns its bytes. */
static long load_least(struct child *c, const char *name, const char *tiers)
{
    long budget = 1;
    for (int i = 0; i < 5; i++) {
        char more[96];
        snprintf(more, sizeof(more), ",\"tiers\":\"%s\",\"budget_bytes\":%ld", tiers, budget);
        struct child_request *request = load(c, name, more);
        if (request->terminal == HALO_EV_LOADED)
            return budget;
        assert_int_equal(request->error, HALO_ERROR_OUT_OF_MEMORY);
        assert_true(budget > 1 || strstr(request->message, "raise budget_bytes of the load"));
        budget = child_number(request, "needed_bytes");
    }
    fail_msg("%s: not loaded even with %ld bytes", name, budget);
    return 0;
}

/* With as few slots as there can be. Returns their number; of a dense model two, for all of its layers. */
static long load_streamed(struct child *c, const char *name)
{
    load_least(c, name, "stream");
    assert_true(child_number(&c->requests[next_id], "disk") > 0);
    long n_layers = child_number(&c->requests[next_id], "n_layers");
    return n_layers > 0 ? 2 : child_number(&c->requests[next_id], "n_slots");
}

static void begin(struct child *c, uint32_t n_threads)
{
    reset();
    child_threads = n_threads;
    child_start(c, true, NULL);
    next_id = 0;
}

static void send_text(struct child *c, int64_t id, const char *name, uint32_t text, const char *more)
{
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld,\"model\":\"%s\",\"tokens\":[%s],\"max_tokens\":%d,"
               "\"ignore_eos\":true,\"temperature\":0.8,\"seed\":%u,\"emit_token_ids\":true,\"user\":1%s}",
               (long long)id, name, prompts[text], REPLY, text, more);
}

static void expect_text(struct child *c, int64_t id, uint32_t text)
{
    struct child_request *request = child_wait(c, id);
    if (request->finish != HALO_WIRE_FINISH_LENGTH || request->n_ids != REPLY)
        fail_msg("%s: %s", model, request->last);
    if (memcmp(request->ids, want[text], sizeof(want[text])) != 0)
        fail_msg("%s: text %u has other ids than the resident model's", model, text);
}

/* Fills `want` with the ids of the resident model. */
static void run_resident(void)
{
    struct child c;
    begin(&c, 1);
    struct child_request *request = load(&c, model, ",\"tiers\":\"memory\"");
    assert_int_equal(request->terminal, HALO_EV_LOADED);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_text(&c, 100 + t, model, t, ",\"cache_prompt\":false");
        memcpy(want[t], child_wait(&c, 100 + t)->ids, sizeof(want[t]));
        assert_int_equal(c.requests[100 + t].n_ids, REPLY);
    }
    assert_int_equal(atomic_load(&control->n_reads), 0);
    assert_int_equal(child_end(&c), 0);
}

/* What the counters say of experts. */
static void expect_experts_read(struct child *c, long n_slots)
{
    child_send(c, "{\"type\":\"stats\",\"id\":500}");
    struct child_request *stats = child_wait(c, 500);
    print_message("%s: %ld slots, %ld bytes found, %ld read, %ld guessed\n", model, n_slots,
                  child_number(stats, "expert_hit_bytes"), child_number(stats, "expert_miss_bytes"),
                  child_number(stats, "expert_guess_bytes"));
    assert_true(child_number(stats, "expert_miss_bytes") > 0 && child_number(stats, "expert_hit_bytes") > 0);
    long n_rows = child_number(stats, "streamed_rows"), n_read = child_number(stats, "expert_read_bytes");
    assert_true(n_rows > 0 && n_read >= child_number(stats, "expert_miss_bytes"));
    assert_int_equal(child_number(stats, "disk_token_bytes"), n_read / n_rows);
    assert_int_equal(child_number(stats, "expert_failures"), 0);
    child_send(c, "{\"type\":\"status\",\"id\":501}");
    struct child_request *status = child_wait(c, 501);
    assert_int_equal(child_number(status, "slots"), n_slots);
    assert_int_equal(child_number(status, "miss_bytes"), child_number(stats, "expert_miss_bytes"));
    assert_non_null(strstr(status->last, "\"hit_rate\":0."));
}

/* Every step reads every streamed layer once, however many rows it has. */
static void expect_layers_read(struct child *c, long disk_bytes)
{
    child_send(c, "{\"type\":\"stats\",\"id\":500}");
    struct child_request *stats = child_wait(c, 500);
    long n_steps = child_number(stats, "steps"), n_read = child_number(stats, "layer_read_bytes");
    print_message("%s: %ld steps, %ld bytes a step, %ld read\n", model, n_steps, disk_bytes, n_read);
    assert_in_range(n_read, n_steps * disk_bytes, (n_steps + 1) * disk_bytes); /* two layers are read ahead */
    assert_int_equal(child_number(stats, "disk_token_bytes"), n_read / child_number(stats, "streamed_rows"));
    assert_int_equal(child_number(stats, "layer_failures"), 0);
    child_send(c, "{\"type\":\"status\",\"id\":501}");
    struct child_request *status = child_wait(c, 501);
    assert_non_null(strstr(status->last, "\"streamed_layers\":{"));
    assert_true(child_number(status, "read_bytes") >= n_read);
}

/* One after the other, then all at once, with some cancelled on their way. */
static void run_streamed(uint32_t n_threads, bool is_dense)
{
    struct child c;
    begin(&c, n_threads);
    long n_slots = load_streamed(&c, model), disk_bytes = child_number(&c.requests[next_id], "disk");
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_text(&c, 100 + t, model, t, ",\"cache_prompt\":false");
        expect_text(&c, 100 + t, t);
    }
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_text(&c, 200 + t, model, t, "");
        send_text(&c, 300 + t, model, t, ",\"cache_prompt\":false");
    }
    for (uint32_t t = 0; t < N_TEXTS; t += 2) {
        while (c.requests[200 + t].n_ids < 1 + t && c.requests[200 + t].n_terminal == 0)
            read_more(&c);
        child_send(&c, "{\"type\":\"cancel\",\"id\":%u,\"target\":%u}", 400 + t, 200 + t);
    }
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        expect_text(&c, 300 + t, t);
        struct child_request *request = child_wait(&c, 200 + t);
        assert_memory_equal(request->ids, want[t], request->n_ids * sizeof(want[t][0]));
    }
    if (is_dense)
        expect_layers_read(&c, disk_bytes);
    else
        expect_experts_read(&c, n_slots);
    assert_true(atomic_load(&control->n_reads) > 2 * (uint32_t)n_slots); /* slots were used again */
    assert_int_equal(child_end(&c), 0);
}

static void streamed_is_resident(void **state)
{
    for (size_t m = 0; m < n_models; m++) {
        model = models[m];
        run_resident();
        run_streamed(1, false);
        run_streamed(MANY, false);
    }
    for (size_t m = 0; m < n_dense; m++) {
        model = dense[m];
        run_resident();
        run_streamed(1, true);
        run_streamed(MANY, true);
    }
}

static void unload(struct child *c)
{
    child_send(c, "{\"type\":\"unload\",\"id\":%lld,\"model\":\"%s\"}", (long long)++next_id, model);
    assert_int_equal(child_wait(c, next_id)->terminal, HALO_EV_UNLOADED);
}

/* Streamed because that was asked for, though it fits; or by itself, when it does not fit the budget. */
static void who_streams(void **state)
{
    struct child c;
    char more[64];
    model = models[0];
    run_resident();
    begin(&c, 2);
    load(&c, models[1], "");
    load(&c, model, ",\"budget_bytes\":100000"); /* too little, whoever goes: so nobody does */
    assert_int_equal(c.requests[next_id].error, HALO_ERROR_OUT_OF_MEMORY);
    child_send(&c, "{\"type\":\"stats\",\"id\":99}");
    assert_int_equal(child_number(child_wait(&c, 99), "models_evicted"), 0);
    struct child_request *request = load(&c, model, "");
    assert_int_equal(request->terminal, HALO_EV_LOADED);
    assert_null(strstr(request->last, "n_slots"));
    request = load(&c, model, ",\"tiers\":\"stream\""); /* its experts are in memory */
    assert_int_equal(request->error, HALO_ERROR_BAD_REQUEST);
    assert_non_null(strstr(request->message, "tiers memory"));
    assert_int_equal(load(&c, model, ",\"tiers\":\"auto\"")->terminal, HALO_EV_LOADED);
    assert_int_equal(load(&c, model, ",\"device\":\"hip\"")->error, HALO_ERROR_UNSUPPORTED);
    unload(&c);
    request = load(&c, model, ",\"tiers\":\"stream\"");
    assert_int_equal(child_number(request, "n_slots"), 4 * 8); /* a slot for each expert */
    assert_int_equal(load(&c, model, ",\"tiers\":\"memory\"")->error, HALO_ERROR_BAD_REQUEST);
    assert_int_equal(load(&c, model, ",\"tiers\":\"stream\"")->terminal, HALO_EV_LOADED); /* as it is */
    send_text(&c, 100, model, 3, "");
    expect_text(&c, 100, 3);
    unload(&c);
    long resident = load_least(&c, model, "memory");
    assert_null(strstr(c.requests[next_id].last, "n_slots"));
    unload(&c);
    snprintf(more, sizeof(more), ",\"budget_bytes\":%ld", resident);
    assert_null(strstr(load(&c, model, more)->last, "n_slots"));
    unload(&c);
    snprintf(more, sizeof(more), ",\"budget_bytes\":%ld", resident - 1);
    request = load(&c, model, more);
    assert_int_equal(request->terminal, HALO_EV_LOADED);
    assert_in_range(child_number(request, "n_slots"), 8 + 3 * 4, 4 * 8);
    assert_non_null(strstr(request->last, "tiers: stream, because not all weights fit")); /* nothing is silent */
    assert_non_null(strstr(request->last, "; experts by "));
    send_text(&c, 101, model, 2, "");
    expect_text(&c, 101, 2);
    assert_int_equal(child_end(&c), 0);
}

/* `plan` calls loadable what `load` accepts, and names the context that does fit. */
static void plans_what_loads(void **state)
{
    struct child c;
    begin(&c, 1);
    for (size_t m = 0; m < n_models && m < 2; m++) {
        model = models[m];
        long budget = load_least(&c, model, "stream");
        unload(&c);
        for (long less = 0; less < 2; less++) {
            int64_t id = 90 + 4 * (int64_t)m + less;
            child_send(&c,
                       "{\"type\":\"plan\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":256,"
                       "\"kv_tokens\":1024,\"tiers\":\"stream\",\"budget_bytes\":%ld}}",
                       (long long)id, model, budget - less);
            struct child_request *plan = child_wait(&c, id);
            assert_int_equal(plan->terminal, HALO_EV_PLAN);
            assert_int_equal(strstr(plan->last, "\"loadable\":true") != NULL, less == 0);
            long context = child_number(plan, "context_max");
            assert_true(context > 0);
            child_send(&c,
                       "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":%ld,"
                       "\"kv_tokens\":%ld,\"tiers\":\"stream\",\"budget_bytes\":%ld}}",
                       (long long)id + 2, model, context, context, budget - less);
            assert_int_equal(child_wait(&c, id + 2)->terminal, HALO_EV_LOADED);
            unload(&c);
        }
    }
    assert_int_equal(child_end(&c), 0);
}

/* A dense model streams when it does not fit, and only the layers that there is no room for: `plan` says the same. */
static void as_few_layers_as_do(void **state)
{
    struct child c;
    char more[96];
    long n_before = 0;
    if (!IN_FULL)
        skip(); /* sums of bytes, which are those of the plain build */
    model = EIGHT_LAYERS;
    run_resident();
    begin(&c, 2);
    assert_null(strstr(load(&c, model, ",\"tiers\":\"stream\"")->last, "n_layers")); /* it fits */
    assert_int_equal(load(&c, model, ",\"tiers\":\"stream\"")->terminal, HALO_EV_LOADED);
    unload(&c);
    long all = load_least(&c, model, "stream");
    assert_int_equal(child_number(&c.requests[next_id], "n_layers"), 8);
    unload(&c);
    load(&c, model, ",\"budget_bytes\":500000"); /* not even the embedding fits */
    assert_non_null(strstr(c.requests[next_id].message, "embedding, output, norms, two buffers "));
    assert_true(child_number(&c.requests[next_id], "needed_bytes") > 500000);
    long resident = load_least(&c, model, "memory");
    unload(&c);
    snprintf(more, sizeof(more), ",\"tiers\":\"memory\",\"budget_bytes\":%ld", resident - 1);
    assert_int_equal(load(&c, model, more)->error, HALO_ERROR_OUT_OF_MEMORY);
    snprintf(more, sizeof(more), ",\"budget_bytes\":%ld", all - 1);
    assert_int_equal(load(&c, model, more)->error, HALO_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < 4; i++) {
        long budget = i == 0 ? resident - 1 : i == 3 ? all : all + (resident - all) * (3 - i) / 4;
        child_send(&c,
                   "{\"type\":\"plan\",\"id\":%d,\"model\":\"%s\",\"params\":{\"context\":256,\"kv_tokens\":1024,"
                   "\"budget_bytes\":%ld}}",
                   90 + i, model, budget);
        struct child_request *plan = child_wait(&c, 90 + i);
        assert_non_null(strstr(plan->last, "\"resident\":false,\"loadable\":true"));
        snprintf(more, sizeof(more), ",\"budget_bytes\":%ld", budget);
        struct child_request *request = load(&c, model, more);
        long n_layers = child_number(request, "n_layers");
        assert_int_equal(n_layers, child_number(plan, "streamed_layers"));
        assert_in_range(n_layers, n_before + 1, 8);
        assert_int_equal(child_number(request, "buffers"), child_number(plan, "buffers"));
        assert_non_null(strstr(request->last, "tiers: stream, because not all weights fit: each step reads "));
        assert_non_null(strstr(request->last, "; layers by "));
        n_before = n_layers;
        send_text(&c, 100 + i, model, 2, "");
        expect_text(&c, 100 + i, 2);
        unload(&c);
    }
    assert_int_equal(child_end(&c), 0);
}

/* Where another model has to go first, the layers are chosen when it has gone. */
static void layers_beside_a_model(void **state)
{
    struct child c;
    if (!IN_FULL)
        skip(); /* sums of bytes, which are those of the plain build */
    model = EIGHT_LAYERS;
    run_resident();
    begin(&c, 2);
    long all = load_least(&c, model, "stream");
    unload(&c);
    child_send(&c, "{\"type\":\"load\",\"id\":98,\"model\":\"%s\",\"params\":{\"kv_tokens\":2000000000}}", model);
    assert_int_equal(child_wait(&c, 98)->error, HALO_ERROR_OUT_OF_MEMORY); /* even if every layer streams */
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = (uint64_t)all;
    begin(&c, 2);
    assert_int_equal(load(&c, "tiny-llama", "")->terminal, HALO_EV_LOADED);
    assert_int_equal(load(&c, model, "")->terminal, HALO_EV_LOADED);
    assert_int_equal(child_number(&c.requests[next_id], "n_layers"), 8);
    child_send(&c, "{\"type\":\"stats\",\"id\":99}");
    assert_int_equal(child_number(child_wait(&c, 99), "models_evicted"), 1);
    send_text(&c, 100, model, 1, "");
    expect_text(&c, 100, 1);
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = 0;
}

/* Runs a prompt of n ids. Returns the bytes that were read for it by this counter. */
static long read_for_prompt(struct child *c, int n, const char *counter, long *ret_steps)
{
    static char ids[16 * 1000];
    child_prompt(ids, n);
    child_send(c, "{\"type\":\"generate\",\"id\":100,\"model\":\"%s\",\"tokens\":[%s],\"max_tokens\":1}", model, ids);
    if (child_wait(c, 100)->terminal != HALO_EV_DONE)
        fail_msg("%s", c->requests[100].last);
    child_send(c, "{\"type\":\"stats\",\"id\":101}");
    *ret_steps = child_number(child_wait(c, 101), "steps");
    return child_number(&c->requests[101], counter);
}

/* A piece of a prompt reads no expert twice, though the cache holds fewer than it uses; and where the activations have
 * room a prompt is one piece. */
static void a_prompt_is_one_pass(void **state)
{
    struct child c;
    long n_steps;
    model = models[0];
    begin(&c, 2);
    assert_true(load_streamed(&c, model) < 4 * 8);
    long disk = child_number(&c.requests[next_id], "disk"),
         n_read = read_for_prompt(&c, 250, "expert_miss_bytes", &n_steps);
    assert_int_equal(n_steps, 1);
    assert_true(n_read > disk / 2 && n_read <= disk);
    assert_true(child_number(&c.requests[101], "expert_read_bytes") <= disk); /* nor does what is read ahead */
    assert_int_equal(child_end(&c), 0);
    begin(&c, 2);
    child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s\",\"params\":{\"context\":1024,\"tiers\":\"stream\"}}",
               model);
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
    n_read = read_for_prompt(&c, 900, "expert_miss_bytes", &n_steps);
    assert_int_equal(n_steps, 1);
    assert_true(n_read <= disk);
    assert_int_equal(child_end(&c), 0);
}

/* However long a prompt and however many sequences: a step reads the streamed layers once. */
static void a_step_reads_layers_once(void **state)
{
    struct child c;
    long n_steps;
    if (!IN_FULL)
        skip(); /* sums of bytes, which are those of the plain build */
    model = EIGHT_LAYERS;
    begin(&c, 2);
    load_streamed(&c, model);
    long disk = child_number(&c.requests[next_id], "disk");
    long n_read = read_for_prompt(&c, 250, "layer_read_bytes", &n_steps);
    assert_int_equal(n_steps, 1);
    assert_in_range(n_read, disk, 2 * disk - 1); /* and what is read ahead */
    assert_int_equal(child_end(&c), 0);
}

/* The ids of a reply of `model`, with guesses where it streams. */
static void guessed_ids(bool streamed, bool gives_up, int32_t *ret)
{
    struct child c;
    begin(&c, 2);
    assert_int_equal(load(&c, model, streamed ? ",\"tiers\":\"stream\"" : "")->terminal, HALO_EV_LOADED);
    atomic_store(&control->is_guessing, true);
    atomic_store(&control->gives_up, gives_up);
    child_send(&c,
               "{\"type\":\"generate\",\"id\":100,\"model\":\"%s\",\"tokens\":[7,9],\"max_tokens\":%d,"
               "\"ignore_eos\":true,\"seed\":3,\"emit_token_ids\":true}",
               model, REPLY);
    struct child_request *request = child_wait(&c, 100);
    if (request->n_ids != REPLY)
        fail_msg("%s: %s", model, request->last);
    memcpy(ret, request->ids, REPLY * sizeof(*ret));
    child_send(&c, "{\"type\":\"stats\",\"id\":101}");
    if ((child_number(child_wait(&c, 101), "expert_guess_bytes") > 0) != streamed)
        fail_msg("%s: %s", model, c.requests[101].last);
    assert_int_equal(child_end(&c), 0);
}

/* Guesses fill slots that are free: they bring experts sooner, and no other ids. */
static void guesses_change_nothing(void **state)
{
    int32_t ids[2][REPLY];
    for (size_t m = 0; m < n_models; m++) {
        model = models[m];
        for (int streamed = 0; streamed < 2; streamed++)
            guessed_ids(streamed, false, ids[streamed]);
        assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
    }
}

/* An expert whose reads were given up is chosen before they are over: it is read again, and nothing else fails. */
static void a_guess_given_up(void **state)
{
    int32_t ids[2][REPLY];
    model = models[0];
    for (int streamed = 0; streamed < 2; streamed++)
        guessed_ids(streamed, streamed, ids[streamed]);
    assert_true(atomic_load(&control->n_given_up) > 0);
    assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
}

/* An engine that is killed while it waits for experts: its successor goes on behind the ids that were sent. */
static void an_engine_that_dies(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    int32_t had[N_TEXTS][REPLY];
    uint32_t n_had[N_TEXTS];
    model = kind->model;
    run_resident();
    begin(&c, 2);
    load_streamed(&c, model);
    for (uint32_t t = 0; t < N_TEXTS; t++)
        send_text(&c, 100 + t, model, t, "");
    while (c.requests[100].n_ids < REPLY / 2)
        read_more(&c);
    atomic_store(&control->is_stalled, true);
    while (atomic_load(&control->n_waits) == 0)
        read_more(&c);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        n_had[t] = c.requests[100 + t].n_ids;
        memcpy(had[t], c.requests[100 + t].ids, n_had[t] * sizeof(had[t][0]));
    }
    child_kill(&c);
    begin(&c, 1);
    load_streamed(&c, model);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        char more[512] = ",\"resume\":{\"tokens\":[";
        for (uint32_t i = 0; i < n_had[t]; i++)
            snprintf(more + strlen(more), 16, "%s%d", i ? "," : "", had[t][i]);
        snprintf(more + strlen(more), 96, "],\"bytes_sent\":0,\"seed\":%u,\"elapsed_ms\":1,\"started\":%s}", t,
                 n_had[t] ? "true" : "false");
        send_text(&c, 100 + t, model, t, more);
    }
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        struct child_request *request = child_wait(&c, 100 + t);
        assert_int_equal(n_had[t] + request->n_ids, REPLY);
        assert_memory_equal(had[t], want[t], n_had[t] * sizeof(had[t][0]));
        assert_memory_equal(request->ids, want[t] + n_had[t], request->n_ids * sizeof(had[t][0]));
    }
    assert_int_equal(child_end(&c), 0);
}

/* ---- reads that go wrong ---- */

/* If a read does not happen, other ids come: what the tests above see is not for nothing. */
static void a_forgotten_read_shows(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    uint32_t n_other = 0;
    model = kind->model;
    run_resident();
    for (int which = 1; which <= 4; which++) {
        begin(&c, 2);
        load_streamed(&c, model);
        atomic_store(&control->forget_after, which * 3);
        send_text(&c, 100, model, 4, "");
        struct child_request *request = child_wait(&c, 100);
        assert_int_equal(atomic_load(&control->forget_after), 0);
        n_other += request->n_ids != REPLY || memcmp(request->ids, want[4], sizeof(want[4])) != 0;
        assert_int_equal(child_end(&c), 0);
    }
    assert_int_equal(n_other, 4);
}

static void expect_unreadable(struct child *c, int64_t id, const struct kind *kind, const char *what)
{
    struct child_request *request = child_wait(c, id);
    assert_int_equal(request->n_terminal, 1);
    if (request->terminal != HALO_EV_ERROR || request->error != HALO_ERROR_LOAD_FAILED)
        fail_msg("not the error that was expected: %s", request->last);
    if (!strstr(request->message, kind->what) || !strstr(request->message, what))
        fail_msg("%s", request->message);
}

/* The n-th read fails: one error, with the file; the other model's request goes on, and the next one is right. */
static void an_io_error(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    model = kind->model;
    run_resident();
    for (int n = 1; n <= 61; n += 20) {
        begin(&c, 2);
        load_streamed(&c, model);
        assert_int_equal(load(&c, models[1], "")->terminal, HALO_EV_LOADED);
        send_text(&c, 100, models[1], 0, "");
        /* Of a layer that is read ahead a failure counts only if it is not there in its turn. */
        atomic_store(&control->stays_broken, true);
        atomic_store(&control->fail_after, n);
        send_text(&c, 101, model, 5, "");
        expect_unreadable(&c, 101, kind, kind->file);
        atomic_store(&control->stays_broken, false);
        atomic_store(&control->fail_after, 0);
        assert_int_equal(child_wait(&c, 100)->finish, HALO_WIRE_FINISH_LENGTH);
        for (uint32_t t = 0; t < N_TEXTS; t += 3) {
            send_text(&c, 102 + t, model, t, "");
            expect_text(&c, 102 + t, t);
        }
        child_send(&c, "{\"type\":\"stats\",\"id\":500}");
        assert_int_equal(child_number(child_wait(&c, 500), kind->failures), 1);
        assert_int_equal(child_end(&c), 0);
    }
}

/* The drive does not answer: an error when the deadline has passed, no hang, and when it answers again all is well. */
static void a_stalled_drive(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    char phase[64];
    model = kind->model;
    run_resident();
    begin(&c, 2);
    load_streamed(&c, model);
    atomic_store(&control->is_stalled, true);
    send_text(&c, 100, model, 1, "");
    while (atomic_load(&control->n_waits) == 0)
        read_more(&c);
    child_send(&c, "{\"type\":\"status\",\"id\":99}"); /* who waits for what */
    snprintf(phase, sizeof(phase), "\"phase\":\"reading %s0\"", kind->what);
    assert_non_null(strstr(child_wait(&c, 99)->last, phase));
    /* The layer that the step waits for, and the one behind it. */
    assert_int_equal(atomic_load(&control->n_reads), 2 * (kind->is_dense ? LAYER_MATRICES : N_EXPERTS * 3));
    atomic_store(&control->late_ns, (uint64_t)(HALO_EXPERTS_STALL_MS + 1000) * 1000000);
    expect_unreadable(&c, 100, kind, "has not answered for 30 s");
    atomic_store(&control->is_stalled, false);
    send_text(&c, 101, model, 1, ""); /* what arrives late is what it was to be */
    expect_text(&c, 101, 1);
    send_text(&c, 102, model, 4, "");
    expect_text(&c, 102, 4);
    assert_int_equal(child_end(&c), 0);
}

static void copy_file(const char *from, const char *to)
{
    char buffer[65536];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, buffer, sizeof(buffer))) > 0)
        assert_int_equal(write(out, buffer, (size_t)n), n);
    assert_int_equal(n, 0);
    close(in);
    close(out);
}

/* The file is cut, or written to, under a loaded model: never a wrong id. A file that is replaced is nobody's business:
 * the model has the old one. */
static void files_that_change(void **state)
{
    const struct kind *kind = *state;
    struct child c;
    char path[128], original[8192], byte = 0;
    struct stat facts;
    model = kind->model;
    run_resident();
    snprintf(original, sizeof(original), "%s/%s.gguf", folder, model);
    snprintf(path, sizeof(path), "%s/copy.gguf", own_folder);
    for (int what = 0; what < 3; what++) {
        copy_file(original, path);
        assert_int_equal(stat(path, &facts), 0);
        begin(&c, 2);
        load_streamed(&c, "copy");
        send_text(&c, 100, "copy", 1, "");
        expect_text(&c, 100, 1);
        if (what == 0) {
            assert_int_equal(truncate(path, facts.st_size / 2), 0);
        } else if (what == 1) {
            int fd = open(path, O_RDWR | O_CLOEXEC);
            assert_int_equal(pwrite(fd, &byte, 1, facts.st_size / 2), 1);
            close(fd);
        } else {
            assert_int_equal(unlink(path), 0);
            copy_file(original, path);
        }
        send_text(&c, 101, "copy", 5, "");
        if (what < 2)
            expect_unreadable(&c, 101, kind, "copy.gguf");
        else
            expect_text(&c, 101, 5);
        assert_int_equal(child_end(&c), 0);
    }
    assert_int_equal(unlink(path), 0);
}

static int start(void **state)
{
    make_prompts();
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    child_device = halo_device_cpu();
    child_dirs[child_n_dirs++] = folder;
    if (strcmp(folder, own_folder) != 0)
        child_dirs[child_n_dirs++] = own_folder;
    return control != MAP_FAILED ? 0 : 1;
}

static int finish(void **state)
{
    return child_remove_folder(own_folder);
}

int main(int argc, char **argv)
{
    bool is_made;
    assert(argc == 2);
    if (!mkdtemp(own_folder) || !child_find_or_make_models(argv[1], own_folder, folder, sizeof(folder), &is_made))
        return 1;
    if (is_made)
        n_models = n_dense = 1;
#ifdef __SANITIZE_THREAD__ /* every model has the same threads */
    n_models = n_dense = 1;
#define EACH_KIND(test) cmocka_unit_test_prestate(test, (void *)(uintptr_t)&kinds[0])
#else
#define EACH_KIND(test)                                                                                                \
    cmocka_unit_test_prestate(test, (void *)(uintptr_t)&kinds[0]),                                                     \
        cmocka_unit_test_prestate(test, (void *)(uintptr_t)&kinds[1])
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_is_resident),
        cmocka_unit_test(who_streams),
        cmocka_unit_test(plans_what_loads),
        cmocka_unit_test(as_few_layers_as_do),
        cmocka_unit_test(layers_beside_a_model),
        cmocka_unit_test(a_prompt_is_one_pass),
        cmocka_unit_test(a_step_reads_layers_once),
        cmocka_unit_test(guesses_change_nothing),
        cmocka_unit_test(a_guess_given_up),
        EACH_KIND(an_engine_that_dies),
        EACH_KIND(a_forgotten_read_shows),
        EACH_KIND(an_io_error),
        EACH_KIND(a_stalled_drive),
        EACH_KIND(files_that_change),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
