/* test_groups.c: one model of each kind of cache group through the whole engine, on the CPU device: what is promised of
 * a model that keeps every position holds where layers keep a window, a compressed row or a state. Whatever runs beside
 * a text, whoever cancels, pauses, makes room, dies or is restarted: its ids are those that it has alone.
 *
 * Models: $HALO_SHARED/models, else ../shared/models; without them the test is skipped (77).
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

#include <cpu/cpu.h>

#include "child.h"

#define N_TEXTS 8
#ifdef __SANITIZE_THREAD__
#define MANY 3 /* threads: it looks at what they share, for which fewer do */
#define N_MODELS 2
#else
#define MANY 8
#define N_MODELS (sizeof(models) / sizeof(models[0]))
#endif
#define REPLY 24

static const char *const models[] = {
    "tiny-gemma3",         /* a window */
    "tiny-lfm2moe",        /* states of convolutions */
    "tiny-gpt-oss",        /* a window, and sinks */
    "tiny-deepseek2",      /* compressed rows */
    "tiny-gemma4",         /* windows beside full layers of another shape */
    "tiny-gemma4-e",       /* layers that read what others have written */
    "tiny-qwen35",         /* states of delta rules */
    "tiny-falcon-h1",      /* states of scans, beside attention in each layer */
    "tiny-nemotron-h-moe", /* states of scans, in layers of one block each */
    "tiny-deepseek4",      /* blocks of several positions, beside a window */
};

static char folder[4096], state_dir[] = "/tmp/halo-test-groups-XXXXXX";
static const char *model;
static char prompts[N_TEXTS][2048];
static int32_t want[N_TEXTS][REPLY];
static int64_t next_id;

/* Texts of 60 to 200 ids; each begins like an earlier one, up to somewhere. */
static void make_prompts(void)
{
    int32_t ids[N_TEXTS][200];
    uint64_t draw = 1;
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        uint32_t n = 60 + t * 20, n_shared = t * 37 % 60 + t * 8;
        prompts[t][0] = '\0';
        for (uint32_t i = 0; i < n; i++) {
            draw = draw * 6364136223846793005u + 1442695040888963407u;
            ids[t][i] =
                t > 0 && i < n_shared && i < 60 + (t - 1) * 20 ? ids[t - 1][i] : (int32_t)(3 + (draw >> 33) % 200);
            snprintf(prompts[t] + strlen(prompts[t]), 8, "%s%d", i ? "," : "", ids[t][i]);
        }
    }
}

static void begin(struct child *c, uint32_t n_threads, uint32_t kv_tokens)
{
    child_threads = n_threads;
    child_start(c, true, NULL);
    next_id = 0;
    child_send(
        c,
        "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s\",\"params\":{\"context\":512,\"kv_tokens\":%u,\"kv\":\"f16\"}}",
        (long long)++next_id, model, kv_tokens);
    if (child_wait(c, next_id)->terminal != HALO_EV_LOADED)
        fail_msg("%s", c->requests[next_id].last);
}

static void send_ids(struct child *c, int64_t id, const char *ids, uint32_t text, const char *more)
{
    child_send(
        c,
        "{\"type\":\"generate\",\"id\":%lld,\"model\":\"%s\",\"tokens\":[%s],\"max_tokens\":%d,\"ignore_eos\":true,"
        "\"temperature\":0.8,\"seed\":%u,\"emit_token_ids\":true,\"user\":%u%s}",
        (long long)id, model, ids, REPLY, text, 1 + text % 2, more);
}

static void send_text(struct child *c, int64_t id, uint32_t text, const char *more)
{
    send_ids(c, id, prompts[text], text, more);
}

/* The text with its reply, as the next turn begins. */
static void send_next(struct child *c, int64_t id, uint32_t text, const char *more)
{
    char ids[sizeof(prompts[0]) + 8 * REPLY];
    snprintf(ids, sizeof(ids), "%s", prompts[text]);
    for (int i = 0; i < REPLY; i++)
        snprintf(ids + strlen(ids), 8, ",%d", want[text][i]);
    send_ids(c, id, ids, text, more);
}

static void expect_text(struct child *c, int64_t id, uint32_t text)
{
    struct child_request *request = child_wait(c, id);
    if (request->finish != HALO_WIRE_FINISH_LENGTH || request->n_ids != REPLY)
        fail_msg("%s: %s", model, request->last);
    if (memcmp(request->ids, want[text], sizeof(want[text])) != 0)
        fail_msg("%s: text %u has other ids than alone", model, text);
}

/* Fills `want`: one after the other, nothing taken over, nothing left. */
static void run_alone(void)
{
    struct child c;
    begin(&c, 1, 1024);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_text(&c, 100 + t, t, ",\"cache_prompt\":false");
        memcpy(want[t], child_wait(&c, 100 + t)->ids, sizeof(want[t]));
        assert_int_equal(c.requests[100 + t].n_ids, REPLY);
    }
    assert_int_equal(child_end(&c), 0);
}

/* All at once, twice each; the first of each pair is cancelled or paused on its way. Then what would follow each,
 * behind what is left of it and afresh. In a pool for one context they make room for each other, in a larger one more
 * stays. Returns how often one made room. */
static long run_crowd(uint32_t n_threads, uint32_t kv_tokens)
{
    struct child c;
    begin(&c, n_threads, kv_tokens);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_text(&c, 100 + t, t, "");
        send_text(&c, 200 + t, t, "");
    }
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        while (c.requests[100 + t].n_ids < 1 + t % 5 && c.requests[100 + t].n_terminal == 0)
            child_read(&c, 100);
        if (t % 2)
            child_send(&c, "{\"type\":\"cancel\",\"id\":%u,\"target\":%u}", 300 + t, 100 + t);
        else
            child_send(&c, "{\"type\":\"pause\",\"target\":%u}", 100 + t);
    }
    for (uint32_t t = 0; t < N_TEXTS; t++)
        expect_text(&c, 200 + t, t);
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        child_send(&c, "{\"type\":\"continue\",\"target\":%u}", 100 + t);
        struct child_request *request = child_wait(&c, 100 + t);
        if (t % 2 == 0)
            expect_text(&c, 100 + t, t);
        assert_memory_equal(request->ids, want[t], request->n_ids * sizeof(*request->ids));
    }
    long n_cached = 0;
    for (uint32_t t = 0; t < N_TEXTS; t++) {
        send_next(&c, 400 + t, t, "");
        n_cached += child_number(child_wait(&c, 400 + t), "cached_tokens");
        send_next(&c, 450 + t, t, ",\"cache_prompt\":false");
        assert_int_equal(c.requests[400 + t].n_ids, REPLY);
        assert_memory_equal(c.requests[400 + t].ids, child_wait(&c, 450 + t)->ids, sizeof(want[t]));
    }
    child_send(&c, "{\"type\":\"stats\",\"id\":500}");
    long n_preemptions = child_number(child_wait(&c, 500), "preemptions");
    assert_true(n_cached > 0 || kv_tokens <= 512);
    assert_int_equal(child_end(&c), 0);
    return n_preemptions;
}

static void each_text_is_what_it_is_alone(void **state)
{
    long n_preemptions = 0; /* of all runs: that of one depends on when requests come */
    for (size_t m = 0; m < N_MODELS; m++) {
        model = models[m];
        run_alone();
        n_preemptions += run_crowd(1, 512);
        n_preemptions += run_crowd(MANY, 512);
        run_crowd(MANY, 4096);
    }
    assert_true(n_preemptions > 0);
}

/* An engine that is killed in the middle of all of them: its successor goes on behind the ids that were sent. */
static void an_engine_that_dies(void **state)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct child c;
        int32_t had[N_TEXTS][REPLY];
        uint32_t n_had[N_TEXTS];
        model = models[m];
        run_alone();
        begin(&c, MANY, 1024);
        for (uint32_t t = 0; t < N_TEXTS; t++)
            send_text(&c, 100 + t, t, "");
        while (c.requests[100 + 3].n_ids < REPLY / 2)
            child_read(&c, 100);
        for (uint32_t t = 0; t < N_TEXTS; t++) {
            n_had[t] = c.requests[100 + t].n_ids;
            memcpy(had[t], c.requests[100 + t].ids, n_had[t] * sizeof(had[t][0]));
        }
        child_kill(&c);
        begin(&c, 1, 512);
        for (uint32_t t = 0; t < N_TEXTS; t++) {
            char more[512] = ",\"resume\":{\"tokens\":[";
            for (uint32_t i = 0; i < n_had[t]; i++)
                snprintf(more + strlen(more), 16, "%s%d", i ? "," : "", had[t][i]);
            snprintf(more + strlen(more), 96, "],\"bytes_sent\":0,\"seed\":%u,\"elapsed_ms\":1,\"started\":%s}", t,
                     n_had[t] ? "true" : "false");
            send_text(&c, 100 + t, t, more);
        }
        for (uint32_t t = 0; t < N_TEXTS; t++) {
            struct child_request *request = child_wait(&c, 100 + t);
            assert_int_equal(n_had[t] + request->n_ids, REPLY);
            assert_memory_equal(had[t], want[t], n_had[t] * sizeof(had[t][0]));
            assert_memory_equal(request->ids, want[t] + n_had[t], request->n_ids * sizeof(had[t][0]));
        }
        assert_int_equal(child_end(&c), 0);
    }
}

/* Saved by one engine, continued by the next: nothing of what was saved is computed again. */
static void prefixes_outlive_the_engine(void **state)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct child c;
        model = models[m];
        run_alone();
        child_state_dir = state_dir;
        begin(&c, 2, 2048);
        send_text(&c, 100, 7, "");
        expect_text(&c, 100, 7);
        child_send(&c, "{\"type\":\"save\",\"id\":101,\"deadline_ms\":60000}");
        assert_true(child_number(child_wait(&c, 101), "pages") > 0);
        assert_int_equal(child_end(&c), 0);
        begin(&c, 2, 2048);
        assert_true(child_number(&c.requests[1], "prefix_pages") > 0);
        send_next(&c, 100, 7, "");
        assert_int_equal(child_number(child_wait(&c, 100), "prefill_tokens"), 1);
        send_next(&c, 101, 7, ",\"cache_prompt\":false");
        assert_memory_equal(c.requests[100].ids, child_wait(&c, 101)->ids, sizeof(want[7]));
        child_state_dir = NULL;
        assert_int_equal(child_end(&c), 0);
    }
}

/* The sum of a score behind a text that is there is that of a score of all, to the last digit. */
static void a_score_behind_a_reply(void **state)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct child c;
        char sums[2][64] = {"", ""};
        model = models[m];
        for (int warm = 0; warm < 2; warm++) {
            begin(&c, warm ? MANY : 1, 1024);
            if (warm) {
                send_text(&c, 99, 6, "");
                child_wait(&c, 99);
            }
            child_send(&c, "{\"type\":\"score\",\"id\":100,\"model\":\"%s\",\"tokens\":[%s],\"from\":150,\"user\":1}",
                       model, prompts[6]);
            const char *at = strstr(child_wait(&c, 100)->last, "\"nll\":");
            assert_non_null(at);
            snprintf(sums[warm], sizeof(sums[warm]), "%.40s", at);
            assert_int_equal(child_end(&c), 0);
        }
        assert_string_equal(sums[0], sums[1]);
    }
}

/* ---- conversations ---- */

/* How many tokens the conversation has without the generation prompt. */
static uint32_t count_stable(struct child *c, const char *messages)
{
    child_send(c,
               "{\"type\":\"template\",\"id\":%lld,\"model\":\"%s\",\"messages\":[%s],\"add_generation_prompt\":false}",
               (long long)++next_id, model, messages);
    const char *at = strstr(child_wait(c, next_id)->last, "\"tokens\":[");
    assert_non_null(at);
    uint32_t n = 1;
    for (; *at != ']'; at++)
        n += *at == ',';
    return n;
}

/* The client keeps only a part of each reply, as one that drops the thoughts of the model: what the next turn repeats
 * ends in front of the generation prompt, and only what follows is computed. */
static void a_turn_computes_the_turn(void **state)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct child c;
        char messages[4096];
        uint32_t n_stable = 0;
        model = models[m];
        begin(&c, 2, 2048);
        snprintf(messages, sizeof(messages),
                 "{\"role\":\"user\",\"content\":\"Tell me about the fox and the old king.\"}");
        for (int turn = 0; turn < 4; turn++) {
            child_send(&c,
                       "{\"type\":\"generate\",\"id\":%lld,\"model\":\"%s\",\"messages\":[%s],\"max_tokens\":9,"
                       "\"ignore_eos\":true,\"seed\":%d}",
                       (long long)++next_id, model, messages, turn);
            struct child_request *reply = child_wait(&c, next_id);
            if (reply->terminal != HALO_EV_DONE)
                fail_msg("%s", reply->last);
            uint32_t n_cached = (uint32_t)child_number(reply, "cached_tokens");
            if (turn > 0 && n_cached < n_stable)
                fail_msg("%s: turn %d takes up %u tokens of %u", model, turn, n_cached, n_stable);
            n_stable = count_stable(&c, messages);
            snprintf(messages + strlen(messages), 256,
                     ",{\"role\":\"assistant\",\"content\":\"Yes, number %d.\"},{\"role\":\"user\",\"content\":\"And "
                     "what did "
                     "the king say on day %d?\"}",
                     turn, turn);
        }
        assert_int_equal(child_end(&c), 0);
    }
}

static int start(void **state)
{
    make_prompts();
    child_device = halo_device_cpu();
    child_dirs[child_n_dirs++] = folder;
    return mkdtemp(state_dir) ? 0 : 1;
}

static int finish(void **state)
{
    return child_remove_folder(state_dir);
}

int main(void)
{
    if (!child_find_models(folder, sizeof(folder)))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_what_it_is_alone), cmocka_unit_test(an_engine_that_dies),
        cmocka_unit_test(prefixes_outlive_the_engine),   cmocka_unit_test(a_score_behind_a_reply),
        cmocka_unit_test(a_turn_computes_the_turn),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
