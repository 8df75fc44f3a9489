/* test_json_write.c: structure, strings, numbers and errors of the JSON writer. */
#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/json_write.h>

static void expect_text(const struct halo_json *w, const char *wanted)
{
    assert_int_equal(w->error, 0);
    assert_int_equal(w->len, strlen(wanted));
    assert_memory_equal(w->at, wanted, w->len);
}

static void structure(void **state)
{
    struct halo_json w;

    halo_json_init(&w);
    halo_json_object_begin(&w);
    halo_json_key(&w, "a");
    halo_json_array_begin(&w);
    halo_json_i64(&w, INT64_MIN);
    halo_json_u64(&w, UINT64_MAX);
    halo_json_object_begin(&w);
    halo_json_object_end(&w);
    halo_json_array_begin(&w);
    halo_json_array_end(&w);
    halo_json_array_end(&w);
    halo_json_key_n(&w, "b\"c", 3);
    halo_json_bool(&w, true);
    halo_json_key(&w, "d");
    halo_json_null(&w);
    halo_json_key(&w, "e");
    halo_json_str(&w, NULL);
    halo_json_key(&w, "f");
    halo_json_raw(&w, "{\"x\":\r\n1}", 9);
    halo_json_key(&w, "g");
    halo_json_raw(&w, NULL, 0);
    halo_json_object_end(&w);
    assert_int_equal(halo_json_line_end(&w), 0);
    halo_json_bool(&w, false);
    assert_int_equal(halo_json_line_end(&w), 0);
    expect_text(&w, "{\"a\":[-9223372036854775808,18446744073709551615,{},[]],\"b\\\"c\":true,\"d\":null,"
                    "\"e\":null,\"f\":{\"x\":  1},\"g\":null}\nfalse\n");
    halo_json_consume(&w, w.len - 6);
    expect_text(&w, "false\n");
    halo_json_reset(&w);
    assert_int_equal(w.len, 0);
    halo_json_finish(&w);
    halo_json_finish(NULL);
}

/* What `in` becomes between the quotes. */
static void expect_quoted(const char *in, size_t n_in, const char *wanted)
{
    struct halo_json w;

    halo_json_init(&w);
    halo_json_str_n(&w, in, n_in);
    assert_int_equal(w.error, 0);
    assert_int_equal(w.len, strlen(wanted) + 2);
    assert_memory_equal(w.at + 1, wanted, w.len - 2);
    halo_json_finish(&w);
}

static void strings(void **state)
{
    expect_quoted("", 0, "");
    expect_quoted("a\"b\\c/", 6, "a\\\"b\\\\c/");
    expect_quoted("\n\r\t\b\f\0\x1f\x7f", 8, "\\n\\r\\t\\b\\f\\u0000\\u001f\\u007f");
    expect_quoted("\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x8A", 9, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\xA6\x8A");
    /* The first and last characters of each length, and the edges of the surrogates. */
    expect_quoted("\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF", 10, "\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF");
    expect_quoted("\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 14,
                  "\xED\x9F\xBF\xEE\x80\x80\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
}

#define FFFD "\xEF\xBF\xBD"

static void broken_utf8_is_replaced(void **state)
{
    expect_quoted("\x80", 1, FFFD);
    expect_quoted("a\xFFz", 3, "a" FFFD "z");
    expect_quoted("\xC0\xAF", 2, FFFD FFFD);          /* overlong */
    expect_quoted("\xE0\x80\x80", 3, FFFD FFFD FFFD); /* overlong */
    expect_quoted("\xED\xA0\x80", 3, FFFD FFFD FFFD); /* surrogate */
    expect_quoted("\xF4\x90\x80\x80", 4, FFFD FFFD FFFD FFFD);
    expect_quoted("\xE2\x82", 2, FFFD);              /* cut short at the end */
    expect_quoted("\xF0\x9F\xA6\"", 4, FFFD "\\\""); /* cut short by a quote */
    expect_quoted("\xF0\x90\x80\xC3\xA9", 5, FFFD "\xC3\xA9");
}

/* Every byte string comes out as a line that the JSON library reads, without a raw newline. */
static void any_bytes_give_json(void **state)
{
    uint32_t seed = 1;

    for (int round = 0; round < 2000; round++) {
        char bytes[24];
        struct halo_json w;
        json_t *json;

        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (char)(seed >> 24 | (round % 2 ? 0x80 : 0));
        }
        halo_json_init(&w);
        halo_json_array_begin(&w);
        halo_json_str_n(&w, bytes, sizeof bytes);
        halo_json_array_end(&w);
        assert_null(memchr(w.at, '\n', w.len));
        json = json_loadb(w.at, w.len, JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        json_decref(json);
        halo_json_finish(&w);
    }
}

static const char *f64_text(double value)
{
    static char text[HALO_JSON_NUMBER_BYTES + 1];

    text[halo_json_format_f64(text, value)] = '\0';
    return text;
}

static const char *sig9_text(double value)
{
    static char text[HALO_JSON_NUMBER_BYTES + 1];

    text[halo_json_format_sig9(text, value)] = '\0';
    return text;
}

static const char *fix3_text(double value)
{
    static char text[HALO_JSON_NUMBER_BYTES + 1];

    text[halo_json_format_fix3(text, value)] = '\0';
    return text;
}

static void number_texts(void **state)
{
    assert_string_equal(f64_text(0), "0");
    assert_string_equal(f64_text(-0.0), "-0.0");
    assert_string_equal(f64_text(0.8), "0.8");
    assert_string_equal(f64_text(-0.05), "-0.05");
    assert_string_equal(f64_text(12.345), "12.345");
    assert_string_equal(f64_text(1e300), "1e+300");
    assert_string_equal(f64_text(1.0 / 3), "0.3333333333333333");
    assert_string_equal(f64_text(DBL_MAX), "1.7976931348623157e+308");
    assert_string_equal(f64_text(5e-324), "4.94065645841247e-324");
    assert_string_equal(f64_text(9007199254740993.0), "9007199254740992");
    assert_string_equal(f64_text(NAN), "null");
    assert_string_equal(f64_text(-INFINITY), "null");
    assert_string_equal(sig9_text(0.1f), "0.100000001");
    assert_string_equal(sig9_text(-0.0), "0");
    assert_string_equal(sig9_text(INFINITY), "null");
    assert_string_equal(fix3_text(0), "0.000");
    assert_string_equal(fix3_text(12.34567), "12.346");
    assert_string_equal(fix3_text(-1.5), "-1.500");
    assert_string_equal(fix3_text(-0.0001), "0.000");
    assert_string_equal(fix3_text(999999999999.125), "999999999999.125");
    assert_string_equal(fix3_text(1e12), "1000000000000");
    assert_string_equal(fix3_text(NAN), "null");
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state ^ *state >> 29;
}

/* Doubles of all magnitudes: the text reads back as the same double and none of 1 to 16 digits that does is shorter. */
static void shortest_reads_back(void **state)
{
    uint64_t seed = 7;

    for (int i = 0; i < 200000; i++) {
        uint64_t bits = draw(&seed);
        double value;
        char printed[40];
        size_t n;

        if (i % 2)
            value = (double)(int64_t)(bits >> 20) / (i % 4 == 1 ? 1e3 : 1e6);
        else
            memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        n = strlen(f64_text(value));
        assert_true(strtod(f64_text(value), NULL) == value);
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(printed, sizeof printed, "%.*g", digits, value);
            if (strtod(printed, NULL) == value)
                break;
        }
        if (!strchr(printed, 'e'))
            assert_true(n <= strlen(printed));
    }
}

/* The integer path and printf agree to the digit, ties and powers of ten included. */
static void sig9_is_printf(void **state)
{
    uint64_t seed = 99;

    for (int i = 0; i < 300000; i++) {
        uint64_t bits = draw(&seed);
        double value = -(double)(bits >> 11) / 9007199254740992.0 * pow(10, (int)(i % 14) - 5);
        char printed[40];

        if (i % 3 == 0)
            value = (float)value;
        if (i % 7 == 0)
            value = round(value * 1e3) / 1e3;
        if (i % 11 == 0)
            value = ((double)(bits % 2000000000) + 0.5) / 1e5; /* near ties in the tenth digit */
        if (i % 13 == 0)
            value = nextafter(pow(10, (int)(bits % 14) - 5), i % 2 ? 0 : 1e9);
        snprintf(printed, sizeof printed, "%.9g", value);
        assert_string_equal(sig9_text(value), value == 0 ? "0" : printed);
    }
}

static void locale_plays_no_part(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "ps_AF.UTF-8"};
    bool found = false;

    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found)
        skip();
    assert_string_equal(f64_text(1.0 / 3), "0.3333333333333333");
    assert_string_equal(sig9_text(1.5e-9), "1.5e-09");
    setlocale(LC_NUMERIC, "C");
}

static void fixed_buffer_fills_up(void **state)
{
    char buf[16];
    struct halo_json w;
    struct halo_json_mark mark;

    halo_json_init_fixed(&w, buf, sizeof buf);
    halo_json_array_begin(&w);
    halo_json_i64(&w, 12345);
    mark = halo_json_mark(&w);
    halo_json_str(&w, "this does not fit");
    assert_int_equal(w.error, -ENOSPC);
    halo_json_i64(&w, 1); /* sticky */
    halo_json_array_end(&w);
    assert_int_equal(halo_json_line_end(&w), -ENOSPC);
    assert_true(w.len <= sizeof buf);
    halo_json_rollback(&w, mark);
    halo_json_i64(&w, 6);
    halo_json_array_end(&w);
    assert_int_equal(halo_json_line_end(&w), 0);
    expect_text(&w, "[12345,6]\n");
    assert_int_equal(halo_json_reserve(&w, 100), -ENOSPC);
}

static void growing_keeps_the_text(void **state)
{
    struct halo_json w;

    halo_json_init(&w);
    assert_int_equal(halo_json_reserve(&w, 10), 0);
    halo_json_array_begin(&w);
    for (int i = 0; i < 10000; i++)
        halo_json_i64(&w, i);
    halo_json_array_end(&w);
    assert_int_equal(halo_json_line_end(&w), 0);
    assert_int_equal(w.len, 10 + 90 * 2 + 900 * 3 + 9000 * 4 + 9999 + 3);
    assert_memory_equal(w.at + w.len - 7, ",9999]\n", 7);
    halo_json_finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(strings),
        cmocka_unit_test(broken_utf8_is_replaced),
        cmocka_unit_test(any_bytes_give_json),
        cmocka_unit_test(number_texts),
        cmocka_unit_test(shortest_reads_back),
        cmocka_unit_test(sig9_is_printf),
        cmocka_unit_test(locale_plays_no_part),
        cmocka_unit_test(fixed_buffer_fills_up),
        cmocka_unit_test(growing_keeps_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
