/* test_detect.c: each detector against its made-up replies, and that each has one it must see, one it must let pass and
 * one it must not judge. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <detect/detect.h>

static void test_cases(void **state)
{
    int n_wrong = 0;
    for (size_t i = 0; i < halo_n_detect_cases; i++) {
        const struct halo_detect_case *test = &halo_detect_cases[i];
        struct halo_finding finding;
        int r = halo_detect_try(test, &finding);
        if (r != 0)
            n_wrong += printf("%s, %s: %s instead of %s (%s)\n", test->detector, test->name,
                              halo_verdict_name(finding.verdict), halo_verdict_name(test->verdict), finding.detail) > 0;
        assert_int_equal(finding.verdict == HALO_VERDICT_OK, finding.detail[0] == '\0');
    }
    assert_int_equal(n_wrong, 0);
    assert_true(halo_n_detect_cases > 60);
}

static void test_every_detector_is_proven(void **state)
{
    for (size_t i = 0; i < halo_n_detectors; i++) {
        size_t n[4] = {0};
        for (size_t j = 0; j < halo_n_detect_cases; j++)
            if (strcmp(halo_detect_cases[j].detector, halo_detectors[i].name) == 0)
                n[halo_detect_cases[j].verdict]++;
        if (n[HALO_VERDICT_OK] == 0 || n[HALO_VERDICT_SKIP] == 0 || n[HALO_VERDICT_WARN] + n[HALO_VERDICT_FAIL] == 0)
            fail_msg("%s is not proven", halo_detectors[i].name);
    }
    assert_true(halo_n_detectors >= 19);
}

/* Nothing at all is nothing to judge: SKIP, whoever looks. */
static void test_nothing(void **state)
{
    const struct halo_detect_reply nothing = {.text = "", .end = HALO_DETECT_OPEN};
    for (size_t i = 0; i < halo_n_detectors; i++) {
        struct halo_finding finding = {HALO_VERDICT_OK, ""};
        halo_detectors[i].look(&nothing, &finding);
        if (finding.verdict != HALO_VERDICT_SKIP)
            fail_msg("%s says %s of nothing", halo_detectors[i].name, halo_verdict_name(finding.verdict));
    }
}

/* The end token is not part of what is judged. */
static void test_end_token(void **state)
{
    int32_t ids[25];
    struct halo_finding finding = {HALO_VERDICT_OK, ""};
    for (int i = 0; i < 25; i++)
        ids[i] = i == 24 ? 4095 : i % 2;
    struct halo_detect_reply reply = {.ids = ids, .n_ids = 25, .text = "", .end = HALO_DETECT_STOP};
    for (size_t i = 0; i < halo_n_detectors; i++)
        if (strcmp(halo_detectors[i].name, "period") == 0)
            halo_detectors[i].look(&reply, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_FAIL);
    assert_non_null(strstr(finding.detail, "from id 0 on a cycle of 2 ids, 12.0 times"));
}

static void test_nan(void **state)
{
    const int32_t ids[] = {1, 2, 3};
    const double logprobs[] = {-1, NAN, -1};
    const struct halo_detect_reply reply = {.ids = ids, .n_ids = 3, .logprobs = logprobs, .text = "abc", .n_text = 3};
    struct halo_finding finding = {HALO_VERDICT_OK, ""};
    for (size_t i = 0; i < halo_n_detectors; i++)
        if (strcmp(halo_detectors[i].name, "numbers") == 0)
            halo_detectors[i].look(&reply, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_FAIL);
    assert_non_null(strstr(finding.detail, "id 1"));
}

static void test_parity(void **state)
{
    const int32_t a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 9, 5, 6};
    struct halo_finding finding;
    halo_detect_parity(a, 6, a, 6, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_OK);
    halo_detect_parity(a, 6, b, 6, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_FAIL);
    assert_string_equal(finding.detail, "first mismatch at 3: 2 3 4 5 6 against 2 3 9 5 6");
    halo_detect_parity(a, 6, a, 4, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_FAIL);
    assert_non_null(strstr(finding.detail, "equal for 4 ids"));
    halo_detect_parity(a, 6, a, 0, &finding);
    assert_int_equal(finding.verdict, HALO_VERDICT_SKIP);
}

static enum halo_verdict toolcall_verdict(const char *text, size_t n)
{
    const int32_t ids[] = {1, 2, 3};
    const struct halo_detect_reply reply = {.ids = ids, .n_ids = 3, .text = text, .n_text = n, .end = HALO_DETECT_STOP};
    struct halo_finding finding = {HALO_VERDICT_OK, ""};
    for (size_t i = 0; i < halo_n_detectors; i++)
        if (strcmp(halo_detectors[i].name, "toolcall_shape") == 0)
            halo_detectors[i].look(&reply, &finding);
    return finding.verdict;
}

/* A call's JSON is strict: what a parser of the client would refuse is a broken call. */
static void test_call_grammar(void **state)
{
    static const struct {
        const char *value;
        bool good;
    } values[] = {
        {"0", true},
        {"-0", true},
        {"01", false},
        {"1.", false},
        {".5", false},
        {"1.5e-3", true},
        {"1e", false},
        {"+1", false},
        {"true", true},
        {"True", false},
        {"null", true},
        {"nul", false},
        {"NaN", false},
        {"[]", true},
        {"[1, 2]", true},
        {"[1, ]", false},
        {"[1 2]", false},
        {"{\"a\": {}}", true},
        {"{\"a\": 1,}", false},
        {"{\"a\" 1}", false},
        {"{a: 1}", false},
        {"\"\\n\\u00e9\"", true},
        {"\"\\x\"", false},
        {"\"\\u12g4\"", false},
        {"\"a\nb\"", false},
        {"\"\\ud83d\\ude00\"", true},
        {"\"\\ud83d\"", false},
        {"\"\\ude00\"", false},
        {"'a'", false},
        {"[}", false},
        {"", false},
        {"\"\xC3\xA9\"", true},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[200];
        int n = snprintf(text, sizeof(text), "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": %s}}</tool_call>",
                         values[i].value);
        assert_true(toolcall_verdict(text, (size_t)n) == (values[i].good ? HALO_VERDICT_OK : HALO_VERDICT_FAIL));
    }
}

/* Lists within lists: 62 levels stand inside the call's two objects. */
static void test_call_depth(void **state)
{
    for (size_t depth = 61; depth <= 64; depth++) {
        char text[400];
        int n = snprintf(text, sizeof(text), "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": ");
        for (size_t i = 0; i < 2 * depth; i++)
            text[n++] = i < depth ? '[' : ']';
        n += snprintf(text + n, sizeof(text) - (size_t)n, "}}</tool_call>");
        assert_true(toolcall_verdict(text, (size_t)n) == (depth <= 62 ? HALO_VERDICT_OK : HALO_VERDICT_FAIL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),        cmocka_unit_test(test_every_detector_is_proven),
        cmocka_unit_test(test_nothing),      cmocka_unit_test(test_end_token),
        cmocka_unit_test(test_nan),          cmocka_unit_test(test_parity),
        cmocka_unit_test(test_call_grammar), cmocka_unit_test(test_call_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
