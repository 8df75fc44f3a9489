/* test_jinja_json.c: the reader of JSON for templates, and dicts: what it takes, what it refuses, what comes out again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jinja/jinja.h>

/* Prints the value of `json` with `template`, which names it x. */
static void check(const char *json, const char *template, const char *text)
{
    struct halo_arena arena;
    struct halo_jinja *jinja;
    struct halo_jinja_var var = {.name = "x"};
    struct halo_chat_text out;
    struct halo_fault fault = {0};
    const struct halo_jinja_params params = {.vars = &var, .n_vars = 1};
    halo_arena_init(&arena, 0);
    if (halo_jinja_json(&arena, &var.value, json, strlen(json), &fault) < 0 ||
        halo_jinja_compile(&jinja, template, strlen(template), &fault) < 0 ||
        halo_jinja_render(jinja, &params, &arena, &out, &fault) != 0)
        fail_msg("%s: %s", json, fault.text);
    char got[1000];
    size_t n = 0;
    for (size_t i = 0; i < out.n; n += out.spans[i++].n) {
        assert_true(n + out.spans[i].n < sizeof got);
        memcpy(got + n, out.spans[i].bytes, out.spans[i].n);
    }
    if (n != strlen(text) || memcmp(got, text, n) != 0)
        fail_msg("%s: %.*s instead of %s", json, (int)n, got, text);
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
}

static void test_taken(void **state)
{
    static const char *const same[] = {"null",
                                       "true",
                                       "false",
                                       "0",
                                       "-1",
                                       "1.5",
                                       "-0.0",
                                       "1e+100",
                                       "1e-07",
                                       "\"\"",
                                       "\"a\"",
                                       "[]",
                                       "{}",
                                       "[1, [2, {\"a\": null}], \"b\"]",
                                       "{\"b\": 1, \"a\": {\"c\": [true]}}",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "123456789012345678901234567890",
                                       "\"\\\"\\\\\\n\\t\\r\\b\\f\\u0001\"",
                                       "\"\xC3\xA9\xF0\x9F\x99\x82\""};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check(same[i], "{{ x | tojson }}", same[i]);
    check(" \n[ 1 ,\t2 ]\r", "{{ x }}", "[1, 2]");
    check("\"\\u00e9\\ud83d\\ude42\\/\"", "{{ x }}", "\xC3\xA9\xF0\x9F\x99\x82/");
    check("[1.0, 1E2, 100]", "{{ x }}", "[1.0, 100.0, 100]");
    check("123456789012345678901234567890", "{{ x is number }}{{ x is integer }}{{ x }}",
          "TrueTrue123456789012345678901234567890");
}

static void test_refused(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "nul",
                                      "[1",
                                      "[1,]",
                                      "[,1]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "'a'",
                                      "\"a",
                                      "\"\\q\"",
                                      "\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "01",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "-",
                                      "+1",
                                      "NaN",
                                      "1 2",
                                      "[1] x",
                                      "\"\n\"",
                                      "{\"a\":1,\"a\":2}",
                                      "\"\\",
                                      "\xFF",
                                      "\"\xC3\"",
                                      "\"\xED\xA0\x80\"",
                                      "{\"a\" 1}",
                                      "[1 2]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct halo_arena arena;
        struct halo_jinja_value value;
        struct halo_fault fault = {0};
        halo_arena_init(&arena, 0);
        if (halo_jinja_json(&arena, &value, bad[i], strlen(bad[i]), &fault) == 0)
            fail_msg("it takes %s", bad[i]);
        assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
        assert_non_null(strstr(fault.text, "JSON at byte "));
        halo_arena_finish(&arena);
    }
}

static void test_depth(void **state)
{
    char text[1000];
    struct halo_arena arena;
    struct halo_jinja_value value;
    halo_arena_init(&arena, 0);
    for (size_t n = HALO_JINJA_JSON_MAX_DEPTH; n <= HALO_JINJA_JSON_MAX_DEPTH + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_int_equal(halo_jinja_json(&arena, &value, text, 2 * n, NULL) == 0, n == HALO_JINJA_JSON_MAX_DEPTH);
    }
    halo_arena_finish(&arena);
}

/* A dict past the size where it gets an index, and replaced values. */
static void test_dict(void **state)
{
    struct halo_arena arena;
    struct halo_jinja_value dict, value;
    static char keys[1000][8];
    halo_arena_init(&arena, 0);
    assert_int_equal(halo_jinja_dict(&arena, &dict), 0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1000; i++) {
            snprintf(keys[i], sizeof keys[i], "k%d", i);
            assert_int_equal(halo_jinja_dict_put(&arena, dict, keys[i], strlen(keys[i]), halo_jinja_int(i + round)), 0);
        }
    for (int i = 0; i < 1000; i++) {
        assert_true(halo_jinja_dict_get(dict, keys[i], &value));
        assert_int_equal(value.kind, HALO_JINJA_INT);
        assert_int_equal(value.integer, i + 1);
    }
    assert_false(halo_jinja_dict_get(dict, "k1000", &value));
    assert_false(halo_jinja_dict_get(value, "k", &value));
    halo_arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_taken), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_depth), cmocka_unit_test(test_dict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
