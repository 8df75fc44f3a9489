/* test_models.c: several models in one engine under a budget: who goes for whom, who never goes, and what is refused
 * without anybody going. The files are copies of one model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "child.h"

#define N_NAMES 8
#define SETTINGS "\"context\":512,\"kv_tokens\":512"

static char dir[] = "/tmp/halo-test-models-XXXXXX";
static uint64_t budget_bytes; /* of the next child; 0: plenty */
static uint64_t one_bytes;    /* memory of one model */
static int64_t next_id;

static void small(struct fake_control *control)
{
    /* A sixteenth is left to the rest of the machine. */
    control->free_bytes = budget_bytes == 0 ? 0 : budget_bytes / 15 * 16 + 64;
}

static void name_files(void)
{
    char path[128];
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(path, sizeof(path), "%s/m%d.gguf", dir, i);
        child_copy_model(path);
    }
}

static int64_t send_load(struct child *c, int model, const char *params)
{
    child_send(c, "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s/m%d.gguf\",\"params\":{%s}}", (long long)++next_id,
               dir, model, params);
    return next_id;
}

static struct child_request *load(struct child *c, int model, const char *params)
{
    struct child_request *request = child_wait(c, send_load(c, model, params));
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("m%d: %s", model, request->last);
    return request;
}

static struct child_request *ask(struct child *c, const char *type, int model, const char *rest)
{
    child_send(c, "{\"type\":\"%s\",\"id\":%lld,\"model\":\"m%d\"%s}", type, (long long)++next_id, model, rest);
    return child_wait(c, next_id);
}

/* "0 2": the numbers of the models that are there. */
static const char *there(struct child *c)
{
    static char text[256];
    child_send(c, "{\"type\":\"status\",\"id\":%lld}", (long long)++next_id);
    const char *status = child_wait(c, next_id)->last;
    text[0] = '\0';
    for (int i = 0; i < N_NAMES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "\"name\":\"m%d\"", i);
        if (strstr(status, name))
            snprintf(text + strlen(text), 8, "%s%d", text[0] ? " " : "", i);
    }
    return text;
}

static void use(struct child *c, int model)
{
    assert_int_equal(ask(c, "tokenize", model, ",\"text\":\"a\"")->terminal, HALO_EV_TOKENS);
}

static void begin(struct child *c, bool link, double n_models)
{
    budget_bytes = (uint64_t)(n_models * (double)one_bytes);
    next_id = 0;
    child_start(c, link, small);
}

static void measure(void)
{
    struct child c;
    begin(&c, false, 0);
    load(&c, 0, SETTINGS);
    child_send(&c, "{\"type\":\"status\",\"id\":50}");
    const char *at = strstr(child_wait(&c, 50)->last, "\"memory_bytes\":");
    assert_non_null(at);
    one_bytes = strtoull(at + 15, NULL, 10);
    assert_true(one_bytes > 1000000);
    assert_int_equal(child_end(&c), 0);
}

static void the_least_recent_goes_aloud(void **state)
{
    struct child c;
    begin(&c, true, 2.5);
    load(&c, 0, SETTINGS);
    load(&c, 1, SETTINGS);
    use(&c, 0);
    struct child_request *request = load(&c, 2, SETTINGS);
    assert_int_equal(request->n_notices, 1);
    assert_non_null(strstr(request->notice, "model_evicted"));
    assert_non_null(strstr(request->notice, "model m1 is unloaded to make room for m2"));
    assert_string_equal(there(&c), "0 2");
    assert_int_equal(c.n_unaddressed, 1); /* what halod hears */
    assert_non_null(strstr(c.last_unaddressed, "\"type\":\"unloaded\",\"id\":null,\"model\":\"m1\""));
    assert_non_null(strstr(c.last_unaddressed, "\"reason\":\"room\""));
    load(&c, 3, SETTINGS);
    assert_string_equal(there(&c), "2 3");
    child_send(&c, "{\"type\":\"stats\",\"id\":900}");
    assert_non_null(strstr(child_wait(&c, 900)->last, "\"models_evicted\":2,"));
    assert_int_equal(child_end(&c), 0);
}

static void lacking(struct fake_control *control)
{
    control->lacks = true;
}

/* What a load does otherwise than expected hears everybody who waits for it, whatever it is; nobody later. */
static void all_who_wait_hear_the_notices(void **state)
{
    static const char *const waiting[] = {
        "{\"type\":\"load\",\"id\":2,\"model\":\"m0\"}",
        "{\"type\":\"generate\",\"id\":3,\"model\":\"m0\",\"prompt\":\"a\",\"max_tokens\":1}",
        "{\"type\":\"score\",\"id\":4,\"model\":\"m0\",\"text\":\"a b\"}",
        "{\"type\":\"tokenize\",\"id\":5,\"model\":\"m0\",\"text\":\"a\"}",
        "{\"type\":\"detokenize\",\"id\":6,\"model\":\"m0\",\"tokens\":[5]}",
        "{\"type\":\"reset\",\"id\":7,\"model\":\"m0\"}",
    };
    struct child c;
    next_id = 0;
    child_start(&c, true, lacking);
    send_load(&c, 0, SETTINGS);
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        child_send(&c, "%s", waiting[i]);
    for (int64_t id = 1; id <= 7; id++) {
        struct child_request *request = child_wait(&c, id);
        assert_int_not_equal(request->terminal, HALO_EV_ERROR);
        if (request->n_notices != 1 || !strstr(request->notice, "\"code\":\"device_fallback\"") ||
            !strstr(request->notice, "a seal goes without something"))
            fail_msg("request %lld has %u notices: %s", (long long)id, request->n_notices, request->notice);
    }
    next_id = 7;
    assert_int_equal(load(&c, 0, SETTINGS)->n_notices, 0);
    assert_int_equal(child_end(&c), 0);
}

static void pinned_and_used_ones_stay(void **state)
{
    struct child c;
    begin(&c, true, 2.5);
    load(&c, 0, SETTINGS ",\"pin\":true,\"keep_alive_s\":1"); /* the pin is the stronger one */
    load(&c, 1, SETTINGS);
    load(&c, 2, SETTINGS);
    assert_string_equal(there(&c), "0 2");
    /* A load of a model that is there pins it and lets it go, and leaves alone what it does not name. */
    assert_non_null(strstr(load(&c, 2, "\"pin\":true")->last, "\"pinned\":true"));
    assert_non_null(strstr(load(&c, 2, "")->last, "\"pinned\":true"));
    struct child_request *refused = child_wait(&c, send_load(&c, 1, SETTINGS));
    assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(refused->message, "needs "));
    assert_string_equal(there(&c), "0 2");
    assert_null(strstr(load(&c, 0, "\"pin\":false,\"keep_alive_s\":0")->last, "\"pinned\":true"));
    /* One that somebody uses. */
    atomic_store(&c.control->run_us, 2000);
    child_send(&c, "{\"type\":\"generate\",\"id\":800,\"model\":\"m0\",\"tokens\":[5],\"ignore_eos\":true}");
    while (c.requests[800].n_started == 0)
        child_read(&c, 100);
    assert_int_equal(child_wait(&c, send_load(&c, 1, SETTINGS))->error, HALO_ERROR_OUT_OF_MEMORY);
    child_send(&c, "{\"type\":\"cancel\",\"id\":801,\"target\":800}");
    child_wait(&c, 800);
    load(&c, 1, SETTINGS);
    assert_string_equal(there(&c), "1 2");
    assert_int_equal(ask(&c, "unload", 2, "")->terminal, HALO_EV_UNLOADED); /* whoever asks is obeyed */
    assert_int_equal(child_end(&c), 0);
}

static void nobody_goes_for_what_cannot_fit(void **state)
{
    struct child c;
    begin(&c, true, 2.5);
    load(&c, 0, SETTINGS);
    load(&c, 1, SETTINGS);
    struct child_request *refused = child_wait(&c, send_load(&c, 2, "\"context\":512,\"kv_tokens\":2000000"));
    assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(refused->message, "with every idle model unloaded"));
    assert_non_null(strstr(refused->message, "load with a kv_tokens of at most"));
    assert_int_equal(refused->n_notices, 0);
    assert_string_equal(there(&c), "0 1");
    assert_int_equal(c.n_unaddressed, 0);
    assert_int_equal(child_end(&c), 0);
}

static void expect_advice(struct child *c, int model, const char *params, const char *advice)
{
    struct child_request *refused = child_wait(c, send_load(c, model, params));
    assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
    if (!strstr(refused->message, advice))
        fail_msg("%s", refused->message);
}

/* A refusal says what would help: to unload another model only where there is one that has not been counted already. */
static void a_refusal_says_what_helps(void **state)
{
    struct child c;
    begin(&c, true, 0.5);
    expect_advice(&c, 0, SETTINGS, "are free; load a smaller model, or stop what else uses the device's memory");
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = one_bytes / 2;
    begin(&c, true, 0);
    expect_advice(&c, 0, SETTINGS, "are free; raise budget_bytes, all models together may take ");
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = one_bytes * 5 / 4;
    begin(&c, true, 0);
    load(&c, 0, SETTINGS ",\"pin\":true");
    expect_advice(&c, 1, SETTINGS, "are free; unload another model, those that are pinned or in use hold ");
    load(&c, 0, "\"pin\":false");
    expect_advice(&c, 1, "\"context\":512,\"kv_tokens\":1000000", "model unloaded; load with a kv_tokens of at most ");
    load(&c, 0, "\"pin\":true");
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = one_bytes * 9 / 4;
    begin(&c, true, 0);
    load(&c, 0, SETTINGS ",\"pin\":true");
    char large[64]; /* 4 KiB for each token */
    snprintf(large, sizeof(large), "\"context\":512,\"kv_tokens\":%llu",
             (unsigned long long)(one_bytes / 4096 * 3 / 2));
    expect_advice(&c, 1, large, ", or unload another model, those that are pinned or in use hold ");
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = 0;
}

/* Room for less than the default pool of its model. */
static void two_without_q4(struct fake_control *control)
{
    control->lacks_q4 = control->is_two = true;
    control->free_bytes = 16 << 20;
}

/* The sum over `stages`. */
static long staged(const struct child_request *request)
{
    const char *at = strstr(request->last, "\"stages\":");
    long sum = 0;
    for (int i = 0; i < 2; i++) {
        assert_non_null(at = strstr(at, "\"kv_bytes\":"));
        sum += atol(at += strlen("\"kv_bytes\":"));
    }
    return sum;
}

/* `plan` answers what a load with the same parameters would: the same sizes, or the same refusal. */
static void a_plan_is_what_a_load_does(void **state)
{
    static const char *const params[] = {"",
                                         "\"context\":100",
                                         "\"context\":65,\"kv_tokens\":67",
                                         "\"kv_tokens\":100",
                                         "\"device\":\"hip\"",
                                         "\"kv\":\"q4\""};
    struct child c;
    next_id = 0;
    child_start(&c, true, two_without_q4);
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        child_send(&c, "{\"type\":\"plan\",\"id\":%lld,\"model\":\"%s/m0.gguf\",\"params\":{%s}}", (long long)++next_id,
                   dir, params[i]);
        const struct child_request *plan = child_wait(&c, next_id);
        const struct child_request *load = child_wait(&c, send_load(&c, 0, params[i]));
        assert_int_equal(plan->error, load->error);
        if (i >= 3) {
            assert_true(load->error == HALO_ERROR_BAD_REQUEST || load->error == HALO_ERROR_UNSUPPORTED);
            assert_string_equal(plan->message, load->message);
            continue;
        }
        assert_int_equal(child_number(plan, "kv_tokens"), child_number(load, "kv_tokens"));
        assert_int_equal(child_number(plan, "kv_bytes"), child_number(load, "kv_bytes"));
        assert_int_equal(staged(plan), child_number(plan, "kv_bytes"));
        assert_int_equal(staged(load), child_number(load, "kv_bytes"));
        assert_int_equal(strstr(load->last, "as memory allows") != NULL, i == 0);
        assert_int_equal(ask(&c, "unload", 0, "")->terminal, HALO_EV_UNLOADED);
    }
    assert_int_equal(child_end(&c), 0);
}

/* The numbers that it names do. */
static void what_a_refusal_advises_works(void **state)
{
    static const struct {
        const char *asked, *advice;
        int context;    /* of the second load; 0: what was advised */
        bool kv_tokens; /* names it, as advised */
    } cases[] = {
        {"\"context\":1024", "load with a context of at most ", 0, false},
        {"\"context\":512,\"kv_tokens\":100000", "load with a kv_tokens of at most ", 512, true},
        {"\"context\":1024,\"kv_tokens\":1024", "load with a context and kv_tokens of at most ", 0, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct child c;
        char params[96];
        begin(&c, true, 1.1);
        struct child_request *refused = child_wait(&c, send_load(&c, 0, cases[i].asked));
        assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
        const char *at = strstr(refused->message, cases[i].advice);
        if (!at)
            fail_msg("%s", refused->message);
        int advised = atoi(at + strlen(cases[i].advice));
        int n = snprintf(params, sizeof(params), "\"context\":%d", cases[i].context ? cases[i].context : advised);
        if (cases[i].kv_tokens)
            snprintf(params + n, sizeof(params) - (size_t)n, ",\"kv_tokens\":%d", advised);
        load(&c, 0, params);
        assert_int_equal(child_end(&c), 0);
    }
}

static void several_go_for_a_large_one(void **state)
{
    struct child c;
    begin(&c, true, 3.5);
    for (int i = 0; i < 3; i++)
        load(&c, i, SETTINGS);
    /* 4 KiB for each token: the pool alone is one and a half of them. */
    char params[96];
    snprintf(params, sizeof(params), "\"context\":512,\"kv_tokens\":%llu",
             (unsigned long long)(one_bytes / 4096 * 3 / 2));
    assert_int_equal(load(&c, 3, params)->n_notices, 2);
    assert_string_equal(there(&c), "2 3");
    assert_int_equal(child_end(&c), 0);
}

/* One at a time; those behind hear that they wait, and who waits for one of them as well. */
static void loads_wait_for_each_other(void **state)
{
    struct child c;
    begin(&c, true, 1.5);
    int64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = send_load(&c, i, SETTINGS);
    child_send(&c, "{\"type\":\"generate\",\"id\":700,\"model\":\"m3\",\"tokens\":[5],\"max_tokens\":2,"
                   "\"ignore_eos\":true}");
    child_send(&c, "{\"type\":\"cancel\",\"id\":701,\"target\":%lld}", (long long)ids[2]);
    for (int i = 0; i < 4; i++)
        child_wait(&c, ids[i]);
    assert_int_equal(c.requests[ids[2]].finish, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(child_wait(&c, 700)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(c.requests[ids[3]].terminal, HALO_EV_LOADED);
    assert_true(c.requests[ids[3]].n_progress >= 1);
    assert_true(c.requests[700].n_notices >= 1); /* m1, or m0, went for it */
    assert_string_equal(there(&c), "3");
    assert_int_equal(child_end(&c), 0);
}

/* A request that comes while its model is on the way out waits until it is gone; a load brings it again. */
static void a_load_waits_for_the_end_of_an_unload(void **state)
{
    struct child c;
    begin(&c, true, 0);
    load(&c, 0, SETTINGS);
    atomic_store(&c.control->run_us, 2000);
    child_send(&c, "{\"type\":\"generate\",\"id\":800,\"model\":\"m0\",\"tokens\":[5],\"max_tokens\":60,"
                   "\"ignore_eos\":true}");
    child_send(&c, "{\"type\":\"unload\",\"id\":801,\"model\":\"m0\"}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":802,\"model\":\"m0\",\"text\":\"a\"}");
    int64_t again = send_load(&c, 0, SETTINGS);
    assert_int_equal(child_wait(&c, 800)->finish, HALO_WIRE_FINISH_LENGTH); /* it drains */
    assert_int_equal(child_wait(&c, 801)->terminal, HALO_EV_UNLOADED);
    assert_int_equal(child_wait(&c, 802)->terminal, HALO_EV_TOKENS); /* of the model that came again */
    assert_int_equal(child_wait(&c, again)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_end(&c), 0);
}

/* Waits until `status` says so: the device thread may not be free to look at the first. */
static void expect_budget(struct child *c, uint64_t least, uint64_t most)
{
    for (;;) {
        child_send(c, "{\"type\":\"status\",\"id\":%lld}", (long long)++next_id);
        const char *at = strstr(child_wait(c, next_id)->last, "\"budget\":");
        assert_non_null(at);
        uint64_t budget = strtoull(at + 9, NULL, 10);
        if (budget >= least && budget < most)
            return;
        assert_true(next_id < 900);
        usleep(20000);
    }
}

static void short_of_memory(struct fake_control *control)
{
    small(control);
    atomic_store(&control->others_bytes, control->free_bytes);
}

/* A budget that nobody has set is what is free now, not what was when the engine started: memory that others give back
 * is used, with and without models, and status tells. */
static void the_budget_follows_what_is_free(void **state)
{
    struct child c;
    budget_bytes = (uint64_t)(3.5 * (double)one_bytes);
    next_id = 0;
    child_start(&c, true, short_of_memory);
    struct child_request *refused = child_wait(&c, send_load(&c, 0, SETTINGS));
    assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(refused->message, "0 bytes are free"));
    expect_budget(&c, 0, one_bytes);
    atomic_store(&c.control->others_bytes, 2 * one_bytes);
    expect_budget(&c, one_bytes, 2 * one_bytes);
    load(&c, 0, SETTINGS);
    atomic_store(&c.control->others_bytes, 0);
    expect_budget(&c, 2 * one_bytes, 4 * one_bytes);
    load(&c, 1, SETTINGS);
    assert_string_equal(there(&c), "0 1"); /* neither goes for the other */
    atomic_store(&c.control->others_bytes, 2 * one_bytes);
    load(&c, 2, SETTINGS); /* what others take is not free, whatever the budget was */
    assert_string_equal(there(&c), "2");
    assert_int_equal(ask(&c, "unload", 2, "")->terminal, HALO_EV_UNLOADED);
    expect_budget(&c, one_bytes, 2 * one_bytes);
    assert_int_equal(child_end(&c), 0);
}

/* There are places for so many models, however small they are; and whose place it was is told with the limit. */
static void places_are_made_too(void **state)
{
    struct child c;
    child_max_models = 4;
    begin(&c, true, 0);
    for (int i = 0; i < 6; i++)
        load(&c, i, SETTINGS);
    assert_non_null(strstr(c.requests[next_id].notice, "; at most 4 models are loaded at once"));
    assert_string_equal(there(&c), "2 3 4 5");
    for (int i = 2; i < 6; i++)
        load(&c, i, "\"pin\":true");
    assert_int_equal(child_wait(&c, send_load(&c, 6, SETTINGS))->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(
        strstr(c.requests[next_id].message, "4 models are loaded, which is the limit, and each of them is"));
    child_max_models = 0;
    assert_int_equal(child_end(&c), 0);
}

static int start(void **state)
{
    name_files();
    measure();
    return 0;
}

static int finish(void **state)
{
    char path[128];
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(path, sizeof(path), "%s/m%d.gguf", dir, i);
        unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recent_goes_aloud),
        cmocka_unit_test(all_who_wait_hear_the_notices),
        cmocka_unit_test(pinned_and_used_ones_stay),
        cmocka_unit_test(nobody_goes_for_what_cannot_fit),
        cmocka_unit_test(several_go_for_a_large_one),
        cmocka_unit_test(loads_wait_for_each_other),
        cmocka_unit_test(a_load_waits_for_the_end_of_an_unload),
        cmocka_unit_test(the_budget_follows_what_is_free),
        cmocka_unit_test(places_are_made_too),
        cmocka_unit_test(a_refusal_says_what_helps),
        cmocka_unit_test(a_plan_is_what_a_load_does),
        cmocka_unit_test(what_a_refusal_advises_works),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
