/* test_shrink.c: caches of streamed experts give memory back and take it again, through the whole engine on the CPU
 * device: when memory is short, and for another model. Replies that are under way have the ids of the resident model.
 * Compiled with HALO_TEST_HIP: on a GPU that shares memory with the host, over the runtime that $HALO_HIP_LIB names. An
 * emulated one is slow, so texts are short, and run alone.
 *
 * What the kernel says of memory is read from a folder of the test's. The linker puts this file in front of the
 * scheduler's step and the run of a layer, so that a reply stands still in its middle for as long as the test wants,
 * and takes pages of purgeable slots as the kernel does. Models: $HALO_SHARED/models, else ../shared/models; without
 * them two are made, with random weights. Argument: mkgguf.
 */
#include <assert.h>
#include <limits.h>
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

#if defined(HALO_TEST_HIP)
#include <hip/hip.h>
#define N_TEXTS 1
#define REPLY 3
#define STEPS 2 /* of a reply between two halts */
#else
#include <cpu/cpu.h>
#define N_TEXTS 2
#define REPLY 64
#define STEPS 16
#endif
#include <engine/expert_cache.h>
#include <engine/expert_trial.h>
#include <engine/pressure_watch.h>
#include <engine/scheduler.h>
#include <store/slab.h>

#include "child.h"

#define MODEL "fable-moe-Q4_K_M"
#define OTHER "tiny-gpt-oss"
#define STATUS_ID 500
#define ALL 32 /* slots for every expert: 4 layers of 8 */
#define LEAST (8 + 3 * 4)
#define TOTAL_KIB 1000000 /* its reserve is a sixteenth */
#define PLENTY_KIB 900000
#define SHORT_KIB 1000
#define LITTLE_KIB 50000 /* less than the reserve, but not short: nothing is given back or taken */
#define LAYERS 4

static char folder[4096], root[] = "/tmp/halo-test-shrink-XXXXXX", proc[64];
static struct halo_pressure_watch watch;
/* Everything at once: the test waits for what happens, not for a time. */
static const struct halo_pressure_rules rules = {.sample_ns = 1, .rise_ns = 1, .ease_ns = 1, .grow_ns = 1};
static int64_t next_id;
static int32_t want[N_TEXTS][REPLY]; /* the ids of the resident model */

static struct control {
    _Atomic uint32_t n_steps, limit;        /* steps that did something, and how many may */
    _Atomic uint32_t n_layers, layer_limit; /* runs of a streamed layer */
    _Atomic uint32_t n_purgeable;           /* slots that were made so */
    atomic_bool is_standing;                /* a layer waits for the limit to rise */
    atomic_bool is_guessing;                /* whether it pays or not */
    atomic_bool is_taking;                  /* the kernel takes what it may */
} * control;

void __real_halo_expert_cache_run(struct halo_expert_cache *cache, uint32_t layer, bool is_sweep);
void __wrap_halo_expert_cache_run(struct halo_expert_cache *cache, uint32_t layer, bool is_sweep);
void __wrap_halo_expert_cache_run(struct halo_expert_cache *cache, uint32_t layer, bool is_sweep)
{
    while (atomic_load(&control->n_layers) >= atomic_load(&control->layer_limit)) {
        atomic_store(&control->is_standing, true); /* the layer before this one has ended */
        usleep(1000);
    }
    atomic_fetch_add(&control->n_layers, 1);
    __real_halo_expert_cache_run(cache, layer, is_sweep);
}

/* The kernel takes a page from the middle of one slot, all of the next one, and leaves the third. */
int __real_halo_slabs_make_purgeable(struct halo_slabs *slabs, uint32_t slot);
int __wrap_halo_slabs_make_purgeable(struct halo_slabs *slabs, uint32_t slot);
int __wrap_halo_slabs_make_purgeable(struct halo_slabs *slabs, uint32_t slot)
{
    int r = __real_halo_slabs_make_purgeable(slabs, slot);
    uint32_t number = atomic_fetch_add(&control->n_purgeable, 1) % 3;
    uint8_t *at = halo_slabs_slot(slabs, slot);
    uint64_t n_bytes = halo_slabs_stride(slabs);
    if (r == 0 && atomic_load(&control->is_taking) && number < 2)
        r = number == 0 ? madvise(at + n_bytes / 8192 * 4096, 4096, MADV_DONTNEED)
                        : madvise(at, n_bytes, MADV_DONTNEED);
    return r;
}

int __real_halo_scheduler_step(struct halo_scheduler *scheduler, struct halo_fault *fault);
int __wrap_halo_scheduler_step(struct halo_scheduler *scheduler, struct halo_fault *fault);
int __wrap_halo_scheduler_step(struct halo_scheduler *scheduler, struct halo_fault *fault)
{
    if (atomic_load(&control->n_steps) >= atomic_load(&control->limit))
        return HALO_SCHEDULER_IDLE;
    int r = __real_halo_scheduler_step(scheduler, fault);
    atomic_fetch_add(&control->n_steps, r != HALO_SCHEDULER_IDLE);
    return r;
}

bool __real_halo_expert_trial_is_on(const struct halo_expert_trial *trial);
bool __wrap_halo_expert_trial_is_on(const struct halo_expert_trial *trial);
bool __wrap_halo_expert_trial_is_on(const struct halo_expert_trial *trial)
{
    return atomic_load(&control->is_guessing) || __real_halo_expert_trial_is_on(trial);
}

/* ---- the kernel's files ---- */

/* A reader sees the old file or the new one. */
static void put(const char *name, const char *text)
{
    char path[128], fresh[160];
    snprintf(path, sizeof(path), "%s/%s", proc, name);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static void put_available(uint32_t kib)
{
    char text[128];
    snprintf(text, sizeof(text), "MemTotal: %d kB\nMemAvailable: %u kB\n", TOTAL_KIB, kib);
    put("meminfo", text);
}

static void put_stalls(double some, double full)
{
    char text[160];
    snprintf(text, sizeof(text),
             "some avg10=%.2f avg60=0.00 avg300=0.00 total=0\nfull avg10=%.2f avg60=0.00 avg300=0.00 total=0\n", some,
             full);
    put("pressure/memory", text);
}

/* ---- requests ---- */

static void begin(struct child *c)
{
    atomic_store(&control->n_steps, 0);
    atomic_store(&control->limit, UINT32_MAX);
    atomic_store(&control->n_layers, 0);
    atomic_store(&control->layer_limit, UINT32_MAX);
    atomic_store(&control->n_purgeable, 0);
    atomic_store(&control->is_standing, false);
    atomic_store(&control->is_guessing, false);
    atomic_store(&control->is_taking, false);
    put_available(PLENTY_KIB);
    put_stalls(0, 0);
    child_start(c, true, NULL);
    next_id = 1000;
}

static struct child_request *load(struct child *c, const char *name, const char *more)
{
    child_send(c, "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":256,\"kv_tokens\":256%s}%s",
               (long long)++next_id, name, more, "}");
    return child_wait(c, next_id);
}

static struct child_request *status(struct child *c)
{
    memset(&c->requests[STATUS_ID], 0, sizeof(c->requests[STATUS_ID])); /* the last one is answered */
    child_send(c, "{\"type\":\"status\",\"id\":%d}", STATUS_ID);
    return child_wait(c, STATUS_ID);
}

/* Asks until the number (or the text) is in the answer. */
static void wait_status(struct child *c, const char *text)
{
    for (int i = 0; i < 900; i++) {
        if (strstr(status(c)->last, text))
            return;
        usleep(i * 100);
    }
    fail_msg("no %s in %s", text, status(c)->last);
}

static void wait_slots(struct child *c, int n)
{
    char text[64];
    snprintf(text, sizeof(text), "\"experts\":{\"slots\":%d,", n);
    wait_status(c, text);
}

static void send_text(struct child *c, int64_t id, uint32_t seed)
{
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld,\"model\":\"" MODEL
               "\",\"tokens\":[5,17,%u,99,120],\"max_tokens\":%d,"
               "\"ignore_eos\":true,\"temperature\":0.8,\"seed\":%u,\"emit_token_ids\":true,\"cache_prompt\":false}",
               (long long)id, 30 + seed, REPLY, seed);
}

static void expect_ids(struct child *c, int64_t id, uint32_t seed)
{
    struct child_request *request = child_wait(c, id);
    if (request->finish != HALO_WIRE_FINISH_LENGTH || request->n_ids != REPLY)
        fail_msg("%s", request->last);
    assert_memory_equal(request->ids, want[seed], sizeof(want[seed]));
}

/* Fills `want`. */
static void run_resident(void **state)
{
    struct child c;
    begin(&c);
    assert_int_equal(load(&c, MODEL, ",\"tiers\":\"memory\"")->terminal, HALO_EV_LOADED);
    for (uint32_t i = 0; i < N_TEXTS; i++) {
        send_text(&c, 1 + i, i);
        assert_int_equal(child_wait(&c, 1 + i)->n_ids, REPLY);
        memcpy(want[i], c.requests[1 + i].ids, sizeof(want[i]));
    }
    assert_int_equal(child_end(&c), 0);
}

/* ---- tests ---- */

/* A step that takes long gives memory back before it has ended. */
static void in_mid_step(void **state)
{
    struct child c;
    begin(&c);
    assert_int_equal(child_number(load(&c, MODEL, ",\"tiers\":\"stream\""), "n_slots"), ALL);
    atomic_store(&control->layer_limit, LAYERS * STEPS + 1);
    send_text(&c, 1, 0);
    while (!atomic_load(&control->is_standing))
        usleep(1000);
    uint32_t n_steps = atomic_load(&control->n_steps);
    put_available(SHORT_KIB);
    wait_status(&c, "\"level\":\"no_loads\"");
    wait_slots(&c, ALL);                                              /* no layer has ended since */
    atomic_store(&control->layer_limit, LAYERS * STEPS + LAYERS - 1); /* the last one does not begin */
    wait_slots(&c, LEAST);
    assert_int_equal(atomic_load(&control->n_steps), n_steps);
    put_available(PLENTY_KIB);
    atomic_store(&control->layer_limit, UINT32_MAX);
    expect_ids(&c, 1, 0);
    wait_slots(&c, ALL);
    assert_int_equal(child_end(&c), 0);
}

#if defined(HALO_TEST_HIP)

/* The runtime has no memory for a slab: the cache stays as it is, and grows when there is some. */
static void memory_that_does_not_come(void **state)
{
    struct child c;
    if (getenv("HALO_HIP_CUDA_INTEGRATED")) {
        print_message("skipped: only the emulated runtime can be told to have no memory\n");
        skip();
    }
    begin(&c);
    assert_int_equal(child_number(load(&c, MODEL, ",\"tiers\":\"stream\""), "n_slots"), ALL);
    long bytes = child_number(status(&c), "slots_bytes") / ALL * (ALL - LEAST);
    put_available(SHORT_KIB);
    wait_slots(&c, LEAST);
    assert_int_equal(child_number(status(&c), "absent_bytes"), bytes);
    put("script", "hipHostMalloc:*:oom");
    put_available(PLENTY_KIB);
    wait_status(&c, "\"level\":\"calm\"");
    put_available(LITTLE_KIB); /* enough was tried */
    send_text(&c, 1, 0);
    expect_ids(&c, 1, 0);
    assert_int_equal(child_number(status(&c), "absent_bytes"), bytes);
    put("script", "");
    put_available(PLENTY_KIB);
    wait_slots(&c, ALL);
    child_send(&c, "{\"type\":\"stats\",\"id\":2}");
    assert_int_equal(child_number(child_wait(&c, 2), "expert_given_bytes"), bytes);
    assert_int_equal(child_number(&c.requests[2], "expert_taken_bytes"), bytes);
    assert_int_equal(child_end(&c), 0);
}

#else

/* Lets the replies go on, and waits until they stand still again. */
static void run_steps(struct child *c, uint32_t n)
{
    uint32_t limit = atomic_load(&control->n_steps) + n;
    atomic_store(&control->limit, limit);
    while (atomic_load(&control->n_steps) < limit)
        status(c); /* wakes the device thread */
}

/* In the middle of two replies the cache shrinks to its least, and in their middle it grows again. */
static void in_mid_stream(void **state)
{
    struct child c;
    begin(&c);
    assert_int_equal(child_number(load(&c, MODEL, ",\"tiers\":\"stream\",\"pin\":true"), "n_slots"), ALL);
    atomic_store(&control->limit, 0);
    send_text(&c, 1, 0);
    send_text(&c, 2, 1);
    run_steps(&c, STEPS);
    wait_slots(&c, ALL);
    for (int round = 0; round < 2; round++) {
        put_available(SHORT_KIB);
        wait_slots(&c, LEAST);
        run_steps(&c, STEPS / 2);
        put_available(PLENTY_KIB);
        wait_slots(&c, ALL);
        wait_status(&c, "\"level\":\"calm\"");
        run_steps(&c, STEPS / 2);
    }
    atomic_store(&control->limit, UINT32_MAX);
    status(&c);
    expect_ids(&c, 1, 0);
    expect_ids(&c, 2, 1);
    assert_true(c.requests[1].n_notices > 0);
    assert_non_null(strstr(c.requests[2].notice, "\"code\":\"memory_pressure\""));
    child_send(&c, "{\"type\":\"stats\",\"id\":3}");
    long given = child_number(child_wait(&c, 3), "expert_given_bytes");
    assert_int_equal(given, 2 * (ALL - LEAST) * (child_number(status(&c), "slots_bytes") / ALL));
    assert_int_equal(child_number(&c.requests[3], "expert_taken_bytes"), given);
    assert_int_equal(child_end(&c), 0);
}

/* The kernel takes slots by itself: what was in them is read again, the cache does without them and gets them back. */
static void slots_that_the_kernel_takes(void **state)
{
    struct child c;
    begin(&c);
    put_available(LITTLE_KIB);
    atomic_store(&control->is_taking, true);
    assert_int_equal(child_number(load(&c, MODEL, ",\"tiers\":\"stream\""), "n_slots"), ALL);
    for (uint32_t i = 0; i < 2; i++) {
        send_text(&c, 1 + i, i);
        expect_ids(&c, 1 + i, i);
    }
    child_send(&c, "{\"type\":\"stats\",\"id\":3}");
    assert_true(child_number(child_wait(&c, 3), "expert_purged_bytes") > 0);
    assert_true(child_number(&c.requests[3], "expert_given_bytes") > 0); /* without being asked */
    assert_null(strstr(status(&c)->last, "\"experts\":{\"slots\":32,"));
    atomic_store(&control->is_taking, false);
    put_available(PLENTY_KIB);
    wait_slots(&c, ALL);
    child_send(&c, "{\"type\":\"stats\",\"id\":4}");
    long gone = child_number(child_wait(&c, 4), "expert_purged_bytes");
    gone += child_number(&c.requests[4], "expert_given_bytes");
    assert_int_equal(child_number(&c.requests[4], "expert_taken_bytes"), gone);
    send_text(&c, 5, 0);
    expect_ids(&c, 5, 0);
    assert_int_equal(child_end(&c), 0);
}

/* Stalls cost a slab at a time, and no load is refused for them; short memory refuses loads for which nobody can go. */
static void in_this_order(void **state)
{
    struct child c;
    begin(&c);
    load(&c, MODEL, ",\"tiers\":\"stream\",\"pin\":true");
    put_stalls(12, 0);
    wait_status(&c, "\"level\":\"no_guesses\"");
    wait_slots(&c, LEAST);
    wait_status(&c, "\"level\":\"no_guesses\"");
    struct child_request *request = load(&c, OTHER, ",\"pin\":true");
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    child_send(&c, "{\"type\":\"unload\",\"id\":1,\"model\":\"" OTHER "\"}");
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_UNLOADED);
    put_available(SHORT_KIB);
    wait_status(&c, "\"level\":\"no_loads\"");
    request = load(&c, OTHER, "");
    assert_int_equal(request->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(request->message, "memory is short"));
    assert_int_equal(load(&c, MODEL, ",\"pin\":false")->terminal, HALO_EV_LOADED); /* it is there */
    assert_int_equal(load(&c, OTHER, "")->terminal, HALO_EV_LOADED);               /* now somebody could go */
    put_available(PLENTY_KIB);
    put_stalls(0, 0);
    wait_status(&c, "\"level\":\"calm\"");
    wait_slots(&c, ALL);
    assert_int_equal(child_end(&c), 0);
}

/* The bytes that a model takes at least. */
static long least_of(struct child *c, const char *name)
{
    long budget = 1;
    for (int i = 0; i < 5; i++) {
        char more[96];
        snprintf(more, sizeof(more), ",\"tiers\":\"memory\",\"budget_bytes\":%ld", budget);
        struct child_request *request = load(c, name, more);
        if (request->terminal == HALO_EV_LOADED)
            return budget;
        budget = child_number(request, "needed_bytes");
    }
    fail_msg("%s: not loaded even with %ld bytes", name, budget);
    return 0;
}

/* Bytes that were read on a guess until now, after one more reply. */
static long guess_more(struct child *c, int64_t id)
{
    send_text(c, id, 0);
    expect_ids(c, id, 0);
    child_send(c, "{\"type\":\"stats\",\"id\":%lld}", (long long)id + 1);
    return child_number(child_wait(c, id + 1), "expert_guess_bytes");
}

/* While memory is scarce nothing is read on a guess, for a model that was loaded before or during the shortage. */
static void no_guesses(void **state)
{
    struct child c;
    begin(&c);
    atomic_store(&control->is_guessing, true);
    load(&c, MODEL, ",\"tiers\":\"stream\"");
    long before = guess_more(&c, 1);
    assert_true(before > 0);
    put_stalls(12, 0);
    wait_status(&c, "\"level\":\"no_guesses\"");
    wait_slots(&c, LEAST);
    assert_int_equal(guess_more(&c, 3), before);
    child_send(&c, "{\"type\":\"unload\",\"id\":5,\"model\":\"" MODEL "\"}");
    assert_int_equal(child_wait(&c, 5)->terminal, HALO_EV_UNLOADED);
    assert_int_equal(load(&c, MODEL, ",\"tiers\":\"stream\"")->terminal, HALO_EV_LOADED);
    assert_int_equal(guess_more(&c, 6), before);
    wait_slots(&c, LEAST);
    put_stalls(0, 0);
    wait_status(&c, "\"level\":\"calm\"");
    wait_slots(&c, ALL); /* some are empty */
    assert_true(guess_more(&c, 8) > before);
    assert_int_equal(child_end(&c), 0);
}

/* Another model is loaded: the cache shrinks, though its model is in use, and nobody is unloaded. */
static void for_another_model(void **state)
{
    struct child c;
    char wish[96];
    begin(&c);
    long other = least_of(&c, OTHER), memory = LONG_MAX, slot = 0, most;
    child_send(&c, "{\"type\":\"unload\",\"id\":1,\"model\":\"" OTHER "\"}");
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_UNLOADED);
    int64_t id = 2;
    do { /* the less it may take, the shorter its chunks */
        most = memory;
        snprintf(wish, sizeof(wish), ",\"tiers\":\"stream\",\"budget_bytes\":%ld", most);
        assert_int_equal(child_number(load(&c, MODEL, wish), "n_slots"), ALL);
        memory = child_number(status(&c), "memory_bytes");
        slot = child_number(&c.requests[STATUS_ID], "slots_bytes") / ALL;
        child_send(&c, "{\"type\":\"unload\",\"id\":%lld,\"model\":\"" MODEL "\"}", (long long)id);
        assert_int_equal(child_wait(&c, id++)->terminal, HALO_EV_UNLOADED);
    } while (memory + other - slot < most);
    assert_int_equal(child_end(&c), 0);

    child_budget_bytes = (uint64_t)(memory + other - slot); /* a slot too few */
    begin(&c);
    assert_int_equal(child_number(load(&c, MODEL, wish), "n_slots"), ALL);
    struct child_request *request;
    atomic_store(&control->limit, 0);
    send_text(&c, 1, 0);
    run_steps(&c, STEPS);
    request = load(&c, OTHER, ",\"tiers\":\"memory\"");
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    if (!strstr(request->notice, "\"code\":\"experts_shrunk\""))
        fail_msg("%s", request->notice);
    wait_slots(&c, ALL - 2); /* a slab */
    run_steps(&c, STEPS);
    child_send(&c, "{\"type\":\"stats\",\"id\":3}");
    assert_int_equal(child_number(child_wait(&c, 3), "models_evicted"), 0);
    wait_slots(&c, ALL - 2); /* the budget is spent */
    child_send(&c, "{\"type\":\"unload\",\"id\":4,\"model\":\"" OTHER "\"}");
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_UNLOADED);
    wait_slots(&c, ALL);
    atomic_store(&control->limit, UINT32_MAX);
    status(&c);
    expect_ids(&c, 1, 0);
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = 0;
}

#endif

static int start(void **state)
{
    char path[96];
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (control == MAP_FAILED)
        return 1;
    snprintf(proc, sizeof(proc), "%s/proc", root);
    snprintf(path, sizeof(path), "%s/pressure", proc);
    if (mkdir(proc, 0700) < 0 || mkdir(path, 0700) < 0)
        return 1;
    put_stalls(0, 0);
    halo_pressure_watch_open(&watch, proc, root);
    child_watch = &watch;
    child_pressure = &rules;
#if defined(HALO_TEST_HIP)
    char script[96];
    snprintf(script, sizeof(script), "@%s/script", proc);
    setenv("HALO_HIP_EMU_SCRIPT", script, 1);
    child_device = halo_device_hip();
    child_library = getenv("HALO_HIP_LIB");
#else
    child_device = halo_device_cpu();
#endif
    child_dirs[child_n_dirs++] = folder;
    return 0;
}

static int finish(void **state)
{
    halo_pressure_watch_close(&watch);
    return child_remove_folder(root);
}

int main(int argc, char **argv)
{
    bool is_made;
    assert(argc == 2);
    if (!mkdtemp(root) || !child_find_or_make_models(argv[1], root, folder, sizeof(folder), &is_made))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_resident),
        cmocka_unit_test(in_mid_step),
#if defined(HALO_TEST_HIP)
        cmocka_unit_test(memory_that_does_not_come),
#else
        cmocka_unit_test(in_mid_stream),
        cmocka_unit_test(slots_that_the_kernel_takes),
        cmocka_unit_test(in_this_order),
        cmocka_unit_test(no_guesses),
        cmocka_unit_test(for_another_model),
#endif
    };
    return cmocka_run_group_tests(tests, start, finish);
}
