/* test_port.c: the engine as its peer sees it, on the scripted device: replies, refusals, cancels, faults, ends. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include "child.h"

#define M "\"model\":\"fable-Q4_K_M\""

static void lacking(struct fake_control *control)
{
    control->lacks = true;
}

static void short_requests_have_their_replies(void **state)
{
    struct child c;
    child_start(&c, false, lacking);
    child_load(&c);
    child_send(&c, "{\"type\":\"hello\",\"id\":2}");
    child_send(&c, "{\"type\":\"ping\",\"id\":3}");
    child_send(&c, "{\"type\":\"models\",\"id\":4}");
    child_send(&c, "{\"type\":\"status\",\"id\":5}");
    child_send(&c, "{\"type\":\"stats\",\"id\":6}");
    child_send(&c, "{\"type\":\"diag\",\"id\":7}");
    child_send(&c, "{\"type\":\"reset\",\"id\":8," M "}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":9," M ",\"text\":\"Once upon <|im_end|>\",\"special\":true}");
    child_send(&c, "{\"type\":\"detokenize\",\"id\":10," M ",\"tokens\":[2126,699]}");
    child_send(&c, "{\"type\":\"plan\",\"id\":11," M "}");
    child_send(&c, "{\"type\":\"bench\",\"id\":12," M ",\"prefill\":40,\"decode\":5,\"batch\":3,\"repeat\":4}");
    static const enum halo_ev_type want[] = {HALO_EV_HELLO, HALO_EV_PONG, HALO_EV_MODELS, HALO_EV_STATUS,
                                             HALO_EV_STATS, HALO_EV_DIAG, HALO_EV_RESET,  HALO_EV_TOKENS,
                                             HALO_EV_TEXT,  HALO_EV_PLAN, HALO_EV_BENCH};
    for (int i = 0; i < 11; i++)
        assert_int_equal(child_wait(&c, i + 2)->terminal, want[i]);
    assert_non_null(strstr(c.requests[2].last, "batch_invariant"));
    assert_non_null(strstr(c.requests[4].last, "\"quant\":\"Q4_K_M\""));
    assert_non_null(strstr(c.requests[4].last, "\"loaded\":true"));
    assert_non_null(
        strstr(c.requests[7].last, "\"runtime\":\"/opt/fake/libfake.so\",\"runtime_version\":70000042,\"kernel\":\""));
    assert_non_null(
        strstr(c.requests[7].last, "{\"file\":\"/opt/fake/kernels.fake\",\"arch\":\"fake\",\"sha256\":\"0123abcd\"}"));
    assert_non_null(strstr(c.requests[7].last, "\"notices\":1,\"notice\":\"a seal goes without something\""));
    assert_non_null(strstr(c.requests[9].last, "4095"));
    assert_non_null(strstr(c.requests[10].last, "Once upon"));
    assert_non_null(strstr(c.requests[12].last, "\"repeat\":4"));
    assert_int_equal(child_end(&c), 0);
}

static void refusals_say_why(void **state)
{
    static const struct {
        const char *line;
        enum halo_error code;
        const char *says;
    } rows[] = {
        {"{\"type\":\"generate\",\"id\":%d,\"prompt\":\"a\",\"tokens\":[1]}", HALO_ERROR_BAD_REQUEST, "exactly one"},
        {"{\"type\":\"generate\",\"id\":%d}", HALO_ERROR_BAD_REQUEST, "exactly one"},
        {"{\"type\":\"generate\",\"id\":%d,\"prompt\":\"\"}", HALO_ERROR_BAD_REQUEST, "empty"},
        {"{\"type\":\"generate\",\"id\":%d,\"tokens\":[4096]}", HALO_ERROR_BAD_REQUEST, "tokens[0] is 4096"},
        {"{\"type\":\"generate\",\"id\":%d,\"prompt\":\"a\",\"logit_bias\":{\"4096\":1}}", HALO_ERROR_BAD_REQUEST,
         "4096"},
        {"{\"type\":\"generate\",\"id\":%d,\"prompt\":\"a\",\"max_token\":1}", HALO_ERROR_BAD_REQUEST, "max_token"},
        {"{\"type\":\"generate\",\"id\":%d,\"model\":\"nobody\",\"prompt\":\"a\"}", HALO_ERROR_NOT_FOUND, "nobody"},
        {"{\"type\":\"score\",\"id\":%d," M ",\"tokens\":[1,2],\"from\":2}", HALO_ERROR_BAD_REQUEST,
         "from is 2, the last position of the text is 1"},
        {"{\"type\":\"score\",\"id\":%d," M "}", HALO_ERROR_BAD_REQUEST, "exactly one"},
        {"{\"type\":\"bench\",\"id\":%d," M ",\"prefill\":2000}", HALO_ERROR_CONTEXT_OVERFLOW, "1024"},
        {"{\"type\":\"bench\",\"id\":%d," M ",\"prefill\":0,\"decode\":0}", HALO_ERROR_BAD_REQUEST,
         "nothing to measure"},
        {"{\"type\":\"bench\",\"id\":%d," M ",\"batch\":65}", HALO_ERROR_CONTEXT_OVERFLOW, "65"},
        {"{\"type\":\"load\",\"id\":%d,\"model\":\"absent\"}", HALO_ERROR_NOT_FOUND, "absent"},
        {"{\"type\":\"load\",\"id\":%d,\"model\":\"/dev/null\"}", HALO_ERROR_LOAD_FAILED, "null"},
        {"{\"type\":\"load\",\"id\":%d," M ",\"params\":{\"context\":77}}", HALO_ERROR_BAD_REQUEST, "context 1024"},
        {"{\"type\":\"load\",\"id\":%d,\"model\":\"x\",\"params\":{\"device\":\"hip\"}}", HALO_ERROR_UNSUPPORTED,
         "hip"},
        {"{\"type\":\"unload\",\"id\":%d,\"model\":\"absent\"}", HALO_ERROR_NOT_FOUND, "absent"},
        {"{\"type\":\"cancel\",\"id\":%d,\"target\":999}", HALO_ERROR_NOT_FOUND, "target"},
        {"{\"type\":\"plan\",\"id\":%d}", HALO_ERROR_BAD_REQUEST, "exactly one"},
        {"{\"type\":\"generate\",\"id\":%d,\"prompt\":\"a\",\"max_tokens\":2,\"resume\":{\"tokens\":[1,2,3],\"bytes_"
         "sent\":0,"
         "\"seed\":1,\"elapsed_ms\":1,\"started\":true}}",
         HALO_ERROR_BAD_REQUEST, "resume has 3"},
    };
    struct child c;
    child_start(&c, false, NULL);
    child_load(&c);
    for (int i = 0; i < (int)(sizeof(rows) / sizeof(rows[0])); i++) {
        char line[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(line, sizeof(line), rows[i].line, i + 2);
#pragma GCC diagnostic pop
        child_send(&c, "%s", line);
        struct child_request *request = child_wait(&c, i + 2);
        if (request->terminal != HALO_EV_ERROR || request->error != rows[i].code ||
            !strstr(request->message, rows[i].says))
            fail_msg("%s\ngave %s", line, request->last);
    }
    child_send(&c, "no json");
    child_send(&c, "{\"type\":\"ping\",\"id\":500}");
    child_wait(&c, 500); /* the connection goes on */
    assert_int_equal(c.n_unaddressed, 1);
    assert_non_null(strstr(c.last_unaddressed, "bad_json"));
    assert_int_equal(child_end(&c), 0);
}

static void a_long_prompt_is_refused_before_the_first_token(void **state)
{
    struct child c;
    child_start(&c, false, NULL);
    child_load(&c);
    char ids[8192] = "1";
    for (int i = 1; i < 1024; i++)
        strcat(ids, ",1");
    child_send(&c, "{\"type\":\"generate\",\"id\":2,\"tokens\":[%s]}", ids);
    child_send(&c, "{\"type\":\"generate\",\"id\":3,\"tokens\":[%s],\"ignore_eos\":true,\"max_tokens\":9}", ids + 2);
    assert_int_equal(child_wait(&c, 2)->error, HALO_ERROR_CONTEXT_OVERFLOW);
    assert_non_null(strstr(c.requests[2].message, "1024 tokens"));
    assert_int_equal(c.requests[2].n_started, 0);
    assert_int_equal(child_wait(&c, 3)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_non_null(strstr(c.requests[3].last, "\"tokens\":1,"));
    assert_int_equal(child_end(&c), 0);
}

static void cached_prefixes_are_told(void **state)
{
    static const struct {
        const char *fields, *says;
    } rows[] = {
        {"\"user\":1000", "\"prefill_tokens\":100,\"cached_tokens\":0"},
        {"\"user\":1000", "\"prefill_tokens\":1,\"cached_tokens\":99"},
        {"\"user\":1001", "\"prefill_tokens\":100,\"cached_tokens\":0"},
        {"\"user\":1000,\"cache_prompt\":false", "\"prefill_tokens\":100,\"cached_tokens\":0"},
        {"\"max_tokens\":9", "\"prefill_tokens\":100,\"cached_tokens\":0"}, /* nobody by name is a user too */
    };
    struct child c;
    child_start(&c, false, NULL);
    child_load(&c);
    char ids[1024] = "1";
    for (int i = 1; i < 100; i++)
        snprintf(ids + strlen(ids), 8, ",%d", i);
    for (int i = 0; i < 5; i++) {
        child_send(&c, "{\"type\":\"generate\",\"id\":%d,\"tokens\":[%s],\"ignore_eos\":true,%s}", i + 2, ids,
                   rows[i].fields);
        if (!strstr(child_wait(&c, i + 2)->last, rows[i].says))
            fail_msg("%s gave %s", rows[i].fields, c.requests[i + 2].last);
    }
    child_send(&c, "{\"type\":\"score\",\"id\":7," M ",\"tokens\":[%s],\"from\":99,\"user\":1001}", ids);
    child_wait(&c, 7);
    child_send(&c, "{\"type\":\"reset\",\"id\":8," M ",\"user\":1002}");
    assert_non_null(strstr(child_wait(&c, 8)->last, "\"freed_pages\":0"));
    child_send(&c, "{\"type\":\"reset\",\"id\":9," M ",\"user\":1001}");
    assert_null(strstr(child_wait(&c, 9)->last, "\"freed_pages\":0"));
    child_send(&c, "{\"type\":\"reset\",\"id\":10," M "}");
    assert_null(strstr(child_wait(&c, 10)->last, "\"freed_pages\":0"));
    child_send(&c, "{\"type\":\"reset\",\"id\":11," M "}");
    assert_non_null(strstr(child_wait(&c, 11)->last, "\"freed_pages\":0"));
    child_send(&c, "{\"type\":\"stats\",\"id\":12}");
    assert_non_null(strstr(child_wait(&c, 12)->last, "\"cached_tokens\":198,"));
    assert_int_equal(child_end(&c), 0);
}

static void a_reply_streams_or_comes_whole(void **state)
{
    struct child c;
    child_start(&c, false, NULL);
    child_load(&c);
    child_send(&c,
               "{\"type\":\"generate\",\"id\":2,\"prompt\":\"x\",\"seed\":5,\"max_tokens\":30,\"emit_token_ids\":true,"
               "\"ignore_eos\":true}");
    child_send(&c, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"x\",\"seed\":5,\"max_tokens\":30,\"stream\":false,"
                   "\"ignore_eos\":true}");
    struct child_request *streamed = child_wait(&c, 2), *whole = child_wait(&c, 3);
    assert_int_equal(streamed->n_ids, 30);
    assert_int_equal(whole->n_ids + whole->n_text, 0);
    struct halo_ev ev;
    struct halo_refusal refusal;
    assert_int_equal(halo_ev_decode(&ev, whole->last, strlen(whole->last), HALO_EV_STRICT, &refusal), 0);
    assert_int_equal(ev.done.text.len, streamed->n_text);
    assert_memory_equal(ev.done.text.at, streamed->text, streamed->n_text);
    halo_ev_finish(&ev);
    assert_int_equal(child_end(&c), 0);
}

static void requests_wait_for_a_load_and_share_its_failure(void **state)
{
    struct child c;
    child_start(&c, false, NULL);
    child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"/nowhere/x.gguf\"}");
    child_send(&c, "{\"type\":\"generate\",\"id\":2,\"model\":\"x\",\"prompt\":\"a\"}");
    child_send(&c, "{\"type\":\"load\",\"id\":3," M "}");
    child_send(&c, "{\"type\":\"load\",\"id\":4," M "}");
    child_send(&c, "{\"type\":\"generate\",\"id\":5," M ",\"prompt\":\"a\",\"max_tokens\":3,\"ignore_eos\":true}");
    assert_int_equal(child_wait(&c, 1)->error, HALO_ERROR_NOT_FOUND);
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_ERROR);
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_wait(&c, 5)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(child_end(&c), 0);
}

static void slow_runs(struct fake_control *control)
{
    control->run_us = 5000;
}

static void an_unload_waits_for_its_users(void **state)
{
    struct child c;
    child_start(&c, false, slow_runs);
    child_load(&c);
    child_send(&c, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"a\",\"max_tokens\":40,\"ignore_eos\":true}");
    child_send(&c, "{\"type\":\"unload\",\"id\":3," M "}");
    child_send(&c, "{\"type\":\"generate\",\"id\":4," M ",\"prompt\":\"a\"}");
    assert_int_equal(child_wait(&c, 4)->error, HALO_ERROR_NOT_FOUND);
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_UNLOADED);
    assert_int_equal(c.requests[2].n_terminal, 1); /* it ended first */
    assert_int_equal(c.requests[2].finish, HALO_WIRE_FINISH_LENGTH);
    child_send(&c, "{\"type\":\"load\",\"id\":5," M "}");
    assert_int_equal(child_wait(&c, 5)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_end(&c), 0);
}

static void small_machine(struct fake_control *control)
{
    control->free_bytes = 14u << 20;
}
static void tiny_machine(struct fake_control *control)
{
    control->free_bytes = 1u << 20;
}

static void admission_has_the_numbers(void **state)
{
    struct child c;
    child_start(&c, false, small_machine);
    child_send(&c, "{\"type\":\"load\",\"id\":1," M ",\"params\":{\"kv\":\"f32\"}}");
    struct child_request *refused = child_wait(&c, 1);
    assert_int_equal(refused->error, HALO_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(refused->message, "8.0 MiB of KV cache"));
    const char *most = strstr(refused->message, "at most ");
    assert_non_null(most);
    child_send(&c, "{\"type\":\"load\",\"id\":2," M ",\"params\":{\"kv\":\"f32\",\"context\":%d}}", atoi(most + 8));
    struct child_request *loaded = child_wait(&c, 2); /* what it advised works, with a smaller pool, and says so */
    assert_int_equal(loaded->terminal, HALO_EV_LOADED);
    assert_true(loaded->n_notices >= 1); /* another may tell of a step down in reading */
    assert_non_null(strstr(loaded->last, "kv_tokens: "));
    child_send(&c, "{\"type\":\"load\",\"id\":3," M "}"); /* and again to whoever loads it later */
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_LOADED);
    assert_non_null(strstr(c.requests[3].last, "\"changes\":[\"kv_tokens: "));
    assert_int_equal(child_end(&c), 0);
    child_start(&c, false, tiny_machine);
    child_send(&c, "{\"type\":\"load\",\"id\":1," M "}");
    assert_non_null(strstr(child_wait(&c, 1)->message, "weights"));
    assert_int_equal(child_end(&c), 0);
}

static void bad_weight(struct fake_control *control)
{
    control->refuse_weight = 5;
}
static void no_device(struct fake_control *control)
{
    control->open_error = -ENODEV;
}

static void what_the_device_refuses_is_told(void **state)
{
    struct child c;
    child_start(&c, false, bad_weight);
    child_send(&c, "{\"type\":\"load\",\"id\":1," M "}");
    assert_int_equal(child_wait(&c, 1)->error, HALO_ERROR_LOAD_FAILED);
    assert_non_null(strstr(c.requests[1].message, "does not like it"));
    c.control->refuse_weight = 0;
    child_send(&c, "{\"type\":\"load\",\"id\":2," M "}");
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_LOADED); /* nothing of the failed one is left */
    assert_int_equal(child_end(&c), 0);
    child_start(&c, false, no_device);
    child_send(&c, "{\"type\":\"load\",\"id\":1," M "}");
    child_send(&c, "{\"type\":\"hello\",\"id\":2}");
    child_send(&c, "{\"type\":\"status\",\"id\":3}");
    assert_int_equal(child_wait(&c, 1)->error, HALO_ERROR_UNSUPPORTED);
    assert_non_null(strstr(c.requests[1].message, "told not to open"));
    assert_null(strstr(child_wait(&c, 2)->last, "batch_invariant"));
    child_wait(&c, 3);
    assert_int_equal(child_end(&c), 0);
}

static void lose_the_device(struct child *c, bool link, int error)
{
    child_start(c, link, slow_runs);
    child_load(c);
    for (int i = 2; i < 8; i++)
        child_send(c, "{\"type\":\"generate\",\"id\":%d,\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true}", i);
    while (c->requests[7].n_text == 0)
        child_read(c, 100);
    c->control->fail_error = error;
    c->control->fail_run = c->control->n_runs + 3;
}

/* By hand: each request is told, and the exit status says it, whichever thread is quicker. */
static void a_lost_device_ends_everything_and_the_engine(void **state)
{
    for (int round = 0; round < 6; round++) {
        struct child c;
        lose_the_device(&c, false, round % 2 ? HALO_DEVICE_E_LOST : -ETIME);
        for (int i = 2; i < 8; i++) {
            enum halo_error error = child_wait(&c, i)->error;
            assert_true(error == HALO_ERROR_DEVICE_FAULT || error == HALO_ERROR_DEVICE_HANG);
            assert_non_null(strstr(c.requests[i].message, "device"));
        }
        assert_int_equal(child_end(&c), 3);
    }
}

/* Under halod nobody is told: everything that is open goes on in the next engine. */
/* An error of its files that happens to be one of the device's runs: it ends that step's requests and nothing else. */
static void an_error_of_a_run_is_not_the_end_of_the_device(void **state)
{
    struct child c;
    lose_the_device(&c, true, -EIO);
    for (int i = 2; i < 8; i++)
        assert_int_equal(child_wait(&c, i)->error, HALO_ERROR_DEVICE_FAULT);
    child_send(&c, "{\"type\":\"generate\",\"id\":8,\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true}");
    assert_int_equal(child_wait(&c, 8)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(child_end(&c), 0);
}

static void the_device_is_closed_at_the_end(void **state)
{
    for (int link = 0; link < 2; link++) {
        struct child c;
        child_start(&c, link, slow_runs);
        child_load(&c);
        child_send(&c, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"a\",\"max_tokens\":%d,\"ignore_eos\":true}",
                   link ? 900 : 3); /* with a link its end is the end of what runs, too */
        while (c.requests[2].n_text == 0)
            child_read(&c, 100);
        assert_int_equal(child_end(&c), 0);
        assert_int_equal(c.n_closed, 1);
    }
}

static void a_lost_device_leaves_replies_open_for_the_next_engine(void **state)
{
    for (int round = 0; round < 4; round++) {
        struct child c;
        lose_the_device(&c, true, round % 2 ? HALO_DEVICE_E_LOST : -ETIME);
        while (child_read(&c, 10000))
            ;
        for (int i = 2; i < 8; i++)
            assert_int_equal(c.requests[i].n_terminal, 0);
        assert_int_equal(child_end(&c), 3);
    }
}

/* halod may add to a line that is as long as a line may be. */
static void the_link_takes_longer_lines(void **state)
{
    struct child c;
    size_t n = HALO_LIMIT_LINE_BYTES + 1000;
    char *blanks = malloc(n + 1);
    assert_non_null(blanks);
    memset(blanks, ' ', n);
    blanks[n] = '\0';
    for (int link = 0; link < 2; link++) {
        child_start(&c, link, NULL);
        child_send(&c, "{\"type\":\"ping\",%s\"id\":2}", blanks);
        child_send(&c, "{\"type\":\"ping\",\"id\":3}");
        assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_PONG);
        assert_int_equal(c.requests[2].n_terminal, link);
        assert_int_equal(c.n_unaddressed, !link); /* line_too_long */
        assert_int_equal(child_end(&c), 0);
    }
    free(blanks);
}

/* halod has to know, or it would bring the model back after a death. */
static void a_model_that_nobody_uses_goes_aloud(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"fable-Q4_K_M\",\"params\":{\"keep_alive_s\":1}}");
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
    for (uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS; c.n_unaddressed == 0 && halo_clock_ms() < until_ms;)
        assert_true(child_read(&c, 100));
    assert_int_equal(c.n_unaddressed, 1);
    assert_non_null(strstr(c.last_unaddressed, "\"type\":\"unloaded\",\"id\":null,\"model\":\"fable-Q4_K_M\""));
    child_send(&c, "{\"type\":\"tokenize\",\"id\":2," M ",\"text\":\"a\"}");
    assert_int_equal(child_wait(&c, 2)->error, HALO_ERROR_NOT_FOUND);
    assert_int_equal(child_end(&c), 0);
}

/* Until a heartbeat says that a decode step has been lasting for longer than `ms`: what halod needs to know. */
static void wait_for_phase(struct child *c, int64_t ms)
{
    uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS;
    const struct child_phase *phase = &c->phases[HALO_WIRE_THREAD_DEVICE];
    while (phase->activity != HALO_WIRE_ACTIVITY_DECODE || phase->ms <= ms)
        assert_true(child_read(c, 100) && halo_clock_ms() < until_ms);
}

static void a_hung_device_hangs_nothing_else(void **state)
{
    struct child c;
    child_start(&c, true, slow_runs);
    child_load(&c);
    c.control->hang_run = c.control->n_runs + 4;
    child_send(&c, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"a\",\"ignore_eos\":true}");
    wait_for_phase(&c, 300);
    child_send(&c, "{\"type\":\"ping\",\"id\":3}");
    child_send(&c, "{\"type\":\"status\",\"id\":4}");
    child_send(&c, "{\"type\":\"heartbeat\",\"beat\":5}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":5," M ",\"text\":\"still here\"}");
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_PONG);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_STATUS);
    assert_int_equal(child_wait(&c, 5)->terminal, HALO_EV_TOKENS);
    wait_for_phase(&c, c.phases[HALO_WIRE_THREAD_DEVICE].ms + 100);
    assert_int_equal(c.requests[2].n_terminal, 0);
    assert_int_equal(child_end(&c), 0); /* the end of its peer is enough */
}

static void a_peer_that_does_not_read_pauses_its_sequences(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_load(&c);
    for (int i = 2; i < 18; i++)
        child_send(
            &c, "{\"type\":\"generate\",\"id\":%d,\"tokens\":[5],\"seed\":3,\"ignore_eos\":true,\"logprobs\":20}", i);
    uint32_t before, now = 0;
    uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS;
    do { /* the device falls silent: nothing is computed for somebody who does not read */
        before = now;
        usleep(300000);
        now = atomic_load(&c.control->n_runs);
    } while ((now != before || now == 0) && halo_clock_ms() < until_ms);
    assert_int_equal(now, before);
    for (int i = 2; i < 18; i++)
        assert_int_equal(child_wait(&c, i)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(c.requests[17].n_ids, 1023);
    for (int i = 3; i < 18; i++) /* and nothing was lost on the way */
        assert_memory_equal(c.requests[i].ids, c.requests[2].ids, 1023 * sizeof(int32_t));
    assert_true(atomic_load(&c.control->n_runs) > now);
    assert_int_equal(child_end(&c), 0);
}

/* The same request again, as halod sends it after a death, for every point at which it could have died. */
static void a_resume_continues_the_stream(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_load(&c);
    static const char body[] =
        "\"prompt\":\"Once\",\"seed\":9,\"max_tokens\":40,\"emit_token_ids\":true,\"ignore_eos\":true,"
        "\"repeat_penalty\":1.2,\"stop\":[\"zzzzzz\"]";
    child_send(&c, "{\"type\":\"generate\",\"id\":2,%s}", body);
    struct child_request *whole = child_wait(&c, 2);
    assert_int_equal(whole->n_ids, 40);
    for (int cut = 0; cut <= 40; cut += 8) {
        char ids[1024] = "";
        for (int i = 0; i < cut; i++)
            snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%d", i ? "," : "", whole->ids[i]);
        int id = 10 + cut;
        child_send(&c,
                   "{\"type\":\"generate\",\"id\":%d,%s,\"resume\":{\"tokens\":[%s],\"bytes_sent\":0,\"seed\":9,"
                   "\"elapsed_ms\":12.5,\"started\":%s}}",
                   id, body, ids, cut ? "true" : "false");
        struct child_request *rest = child_wait(&c, id);
        assert_int_equal(rest->finish, HALO_WIRE_FINISH_LENGTH);
        assert_int_equal(rest->n_started, cut ? 0 : 1);
        assert_int_equal(rest->n_ids, 40 - cut);
        assert_memory_equal(rest->ids, whole->ids + cut, rest->n_ids * sizeof(int32_t));
        assert_int_equal(rest->n_text, whole->n_text);
        assert_memory_equal(rest->text, whole->text, rest->n_text);
        assert_non_null(strstr(rest->last, "\"tokens\":40,"));
    }
    assert_int_equal(child_end(&c), 0);
}

/* It has no sequence yet, but its client has tokens from the engine that died: `done` counts them. */
static void a_resumed_reply_is_cancelled_before_it_goes_on(void **state)
{
    struct child c;
    child_start(&c, true, slow_runs);
    child_load(&c);
    for (int id = 10; id < 30; id++) {
        child_send(&c,
                   "{\"type\":\"generate\",\"id\":%d,\"prompt\":\"Once\",\"max_tokens\":400,\"ignore_eos\":true,"
                   "\"resume\":{\"tokens\":[3,4,5],\"bytes_sent\":0,\"seed\":9,\"elapsed_ms\":1,\"started\":true}}\n"
                   "{\"type\":\"cancel\",\"id\":%d,\"target\":%d}",
                   id, id + 100, id);
        struct child_request *request = child_wait(&c, id);
        assert_int_equal(request->finish, HALO_WIRE_FINISH_CANCELLED);
        const char *tokens = strstr(request->last, "\"tokens\":");
        assert_non_null(tokens);
        assert_true(atoi(tokens + strlen("\"tokens\":")) >= 3);
    }
    assert_int_equal(child_end(&c), 0);
}

static void pause_and_continue_change_when_not_what(void **state)
{
    struct child c;
    child_start(&c, true, slow_runs);
    child_load(&c);
    static const char body[] =
        "\"prompt\":\"Once\",\"seed\":9,\"max_tokens\":30,\"emit_token_ids\":true,\"ignore_eos\":true";
    child_send(&c, "{\"type\":\"generate\",\"id\":2,%s}", body);
    while (c.requests[2].n_ids < 5)
        child_read(&c, 100);
    child_send(&c, "{\"type\":\"pause\",\"target\":2}");
    child_send(&c, "{\"type\":\"generate\",\"id\":3,%s}", body);
    child_wait(&c, 3);
    assert_int_equal(c.requests[2].n_terminal, 0);
    assert_true(c.requests[2].n_ids < 30);
    child_send(&c, "{\"type\":\"continue\",\"target\":2}");
    child_wait(&c, 2);
    assert_memory_equal(c.requests[2].ids, c.requests[3].ids, 30 * sizeof(int32_t));
    assert_int_equal(child_end(&c), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_requests_have_their_replies),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(a_long_prompt_is_refused_before_the_first_token),
        cmocka_unit_test(cached_prefixes_are_told),
        cmocka_unit_test(a_reply_streams_or_comes_whole),
        cmocka_unit_test(requests_wait_for_a_load_and_share_its_failure),
        cmocka_unit_test(an_unload_waits_for_its_users),
        cmocka_unit_test(admission_has_the_numbers),
        cmocka_unit_test(what_the_device_refuses_is_told),
        cmocka_unit_test(a_lost_device_ends_everything_and_the_engine),
        cmocka_unit_test(a_lost_device_leaves_replies_open_for_the_next_engine),
        cmocka_unit_test(an_error_of_a_run_is_not_the_end_of_the_device),
        cmocka_unit_test(the_device_is_closed_at_the_end),
        cmocka_unit_test(the_link_takes_longer_lines),
        cmocka_unit_test(a_model_that_nobody_uses_goes_aloud),
        cmocka_unit_test(a_hung_device_hangs_nothing_else),
        cmocka_unit_test(a_peer_that_does_not_read_pauses_its_sequences),
        cmocka_unit_test(a_resume_continues_the_stream),
        cmocka_unit_test(a_resumed_reply_is_cancelled_before_it_goes_on),
        cmocka_unit_test(pause_and_continue_change_when_not_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
