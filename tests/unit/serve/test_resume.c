/* test_resume.c: the line that another engine gets, byte for byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "resume_priv.h"

static const uint64_t started_ns = 1000000000, now_ns = 1012345000;

static void expect(const struct halo_request *request, int64_t left_ms, const char *wanted)
{
    struct halo_json out;
    struct halo_refusal refusal;
    struct halo_msg msg;
    halo_json_init(&out);
    halo_json_i64(&out, 5); /* what stands there already stays */
    assert_int_equal(halo_json_line_end(&out), 0);
    assert_int_equal(halo_resume_append(&out, request, left_ms, now_ns), 0);
    assert_int_equal(out.len, strlen(wanted) + 3);
    assert_memory_equal(out.at + 2, wanted, strlen(wanted));
    assert_int_equal(halo_msg_decode(&msg, out.at + 2, out.len - 3, HALO_ROLE_LINK, &refusal), 0);
    halo_msg_finish(&msg);
    halo_json_finish(&out);
}

static void lines(void **state)
{
    int32_t ids[] = {318, 411};
    char generate[] = "{\"type\":\"generate\",\"id\":7,\"prompt\":\"a\\n\\u00e9\",\"seed\":9}";
    char score[] = "{\"type\":\"score\",\"id\":7,\"model\":\"m\",\"text\":\"t\"}";
    struct halo_request request = {.id = 7, .type = HALO_MSG_GENERATE, .line = generate, .line_len = strlen(generate)};
    expect(&request, INT64_MAX, generate);
    request.deadline_ms = 500;
    expect(&request, 123, "{\"type\":\"generate\",\"id\":7,\"prompt\":\"a\\n\\u00e9\",\"seed\":9,\"deadline_ms\":123}");
    request.started_ns = started_ns;
    request.seed = 9;
    request.tokens = ids;
    request.n_tokens = 2;
    request.text_bytes = 10;
    expect(&request, 123,
           "{\"type\":\"generate\",\"id\":7,\"prompt\":\"a\\n\\u00e9\",\"seed\":9,\"deadline_ms\":123,\"resume\":"
           "{\"tokens\":[318,411],\"bytes_sent\":10,\"seed\":9,\"elapsed_ms\":12.345,\"started\":true}}");
    request.loop_told = true;
    expect(&request, 123,
           "{\"type\":\"generate\",\"id\":7,\"prompt\":\"a\\n\\u00e9\",\"seed\":9,\"deadline_ms\":123,\"resume\":"
           "{\"tokens\":[318,411],\"bytes_sent\":10,\"seed\":9,\"elapsed_ms\":12.345,\"started\":true,"
           "\"loop_told\":true}}");
    struct halo_request scoring = {.id = 7, .type = HALO_MSG_SCORE, .line = score, .line_len = strlen(score)};
    expect(&scoring, INT64_MAX, score);
    scoring.score.next = 3;
    expect(&scoring, INT64_MAX, "{\"type\":\"score\",\"id\":7,\"model\":\"m\",\"text\":\"t\",\"from\":3}");
}

/* Without memory nothing of the line stays behind, however far it got. */
static void no_memory(void **state)
{
    char line[] = "{\"type\":\"generate\",\"id\":7,\"prompt\":\"a\"}", room[256];
    int32_t ids[] = {1, 2, 3};
    struct halo_request request = {.id = 7,
                                   .type = HALO_MSG_GENERATE,
                                   .line = line,
                                   .line_len = strlen(line),
                                   .started_ns = started_ns,
                                   .tokens = ids,
                                   .n_tokens = 3,
                                   .deadline_ms = 5};
    size_t size = 0;
    int r = -ENOSPC;
    for (; r == -ENOSPC && size < sizeof(room); size++) {
        struct halo_json out;
        halo_json_init_fixed(&out, room, size);
        r = halo_resume_append(&out, &request, 5, now_ns);
        assert_true(r == 0 || out.len == 0);
    }
    assert_int_equal(r, 0);
    assert_true(size > 100);
}

static void what_can_continue(void **state)
{
    struct halo_known_models models = {0};
    struct halo_request request = {.type = HALO_MSG_GENERATE};
    char text[512];
    assert_int_equal(halo_known_models_put(&models, halo_str_of("m"), halo_str_of(""), 7, "on x, files 1", "l", 1), 0);
    request.record_lost = true;
    assert_true(halo_resume_possible(&models, &request, text, sizeof(text))); /* nothing was sent: it begins again */
    request.started_ns = 1;
    assert_false(halo_resume_possible(&models, &request, text, sizeof(text)));
    assert_non_null(strstr(text, "no memory"));
    request.record_lost = false;
    assert_true(halo_resume_possible(&models, &request, text, sizeof(text))); /* a file given by path */
    request.model = (char *)"m";
    request.print = (char *)"on x, files 1";
    assert_true(halo_resume_possible(&models, &request, text, sizeof(text)));
    request.print = (char *)"on x, files 2";
    assert_false(halo_resume_possible(&models, &request, text, sizeof(text)));
    assert_string_equal(text, "model m was reloaded on x, files 1, but the reply began on x, files 2");
    request.model = (char *)"n";
    assert_false(halo_resume_possible(&models, &request, text, sizeof(text)));
    assert_string_equal(text, "model n was not reloaded");
    halo_known_models_finish(&models);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(no_memory),
                                       cmocka_unit_test(what_can_continue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
