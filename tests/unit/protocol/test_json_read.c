/* test_json_read.c: a line is read as the JSON library would read it: made up objects, thousands of them, come out of a
 * message as the library's own reader has them, and what it refuses is refused for the same reason.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/message.h>

#define BEFORE                                                                                                         \
    "{\"type\":\"template\",\"id\":7,\"model\":\"m\","                                                                 \
    "\"messages\":[{\"role\":\"u\",\"content\":\"\"}],\"template_vars\":"

/* What becomes of `vars` on its way through a message; NULL: refused. */
static json_t *through_a_message(const char *vars, size_t n, struct halo_refusal *refusal)
{
    size_t n_line = strlen(BEFORE) + n + 1;
    char *line = malloc(n_line); /* not a byte more: a reader that runs past the end is seen */
    struct halo_msg msg;
    struct halo_json w;
    json_t *all, *ret;

    assert_non_null(line);
    memcpy(line, BEFORE, strlen(BEFORE));
    memcpy(line + strlen(BEFORE), vars, n);
    line[n_line - 1] = '}';
    if (halo_msg_decode(&msg, line, n_line, HALO_ROLE_CLIENT, refusal) != 0) {
        free(line);
        return NULL;
    }
    free(line);
    halo_json_init(&w);
    assert_int_equal(halo_msg_encode(&w, &msg), 0);
    halo_msg_finish(&msg);
    all = json_loadb(w.at, w.len - 1, 0, NULL);
    assert_non_null(all);
    halo_json_finish(&w);
    ret = json_incref(json_object_get(all, "template_vars"));
    json_decref(all);
    return ret;
}

enum { READ, TWICE, TOO_LARGE, OTHERWISE };

static int compare(const char *vars, size_t n)
{
    struct halo_refusal refusal;
    json_error_t error;
    json_t *want = json_loadb(vars, n, JSON_REJECT_DUPLICATES, &error), *have = through_a_message(vars, n, &refusal);
    int outcome = READ;

    if (!have)
        outcome = strstr(refusal.message, "appears twice") ? TWICE
                  : strstr(refusal.message, "too large")   ? TOO_LARGE
                                                           : OTHERWISE;
    if (want ? !have || !json_equal(want, have)
             : outcome != (json_error_code(&error) == json_error_duplicate_key ? TWICE : TOO_LARGE))
        fail_msg("%.*s: %s instead of %s", (int)n, vars, have ? "something else" : refusal.message,
                 want ? "the same" : error.text);
    json_decref(want);
    json_decref(have);
    return outcome;
}

static void single_values(void **state)
{
    static const struct {
        const char *text;
        int outcome;
    } cases[] = {
        {"0", READ},
        {"-0", READ},
        {"-0.0", READ},
        {"1e5", READ},
        {"1E-5", READ},
        {"-1.25e+2", READ},
        {"0.1", READ},
        {"9223372036854775807", READ},
        {"-9223372036854775808", READ},
        {"1.7976931348623157e308", READ},
        {"1.7976931348623159e308", TOO_LARGE},
        {"-1e309", TOO_LARGE},
        {"1e-400", READ},
        {"5e-324", READ},
        {"2.2250738585072011e-308", READ},
        {"123456789012345678901234567890.0", READ},
        {"\"\"", READ},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", READ},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", READ},
        {"\"\\\\\"", READ},
        {"\"\\\\u0041\"", READ},
        {"[]", READ},
        {"[ ]", READ},
        {"{ }", READ},
        {"[[],{},[{}]]", READ},
        {"{\"a\":1,\"A\":2}", READ},
        {"{\"a\":1,\"\\u0061\":2}", TWICE},
        {"{\"\":1,\"\":2}", TWICE},
        {"[{\"a\":1},{\"a\":1}]", READ},
        {"{\"a\":{\"a\":{\"a\":1}}}", READ},
        {"{\"\\n\":1,\"n\":2}", READ},
        {"[true,false,null]", READ},
        {" [ 1 ,\t2 , {\t\"a\" : [ ] } ] ", READ},
    };
    char long_text[2000];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char vars[200];
        int n = snprintf(vars, sizeof vars, "{\"x\":%s}", cases[i].text);

        assert_int_equal(compare(vars, (size_t)n), cases[i].outcome);
    }
    for (int n_escaped = 1; n_escaped < 300; n_escaped++) { /* around what is put on the stack */
        int n = snprintf(long_text, sizeof long_text, "{\"");

        for (int part = 0; part < 2; part++) {
            for (int i = 0; i < n_escaped; i++)
                n += snprintf(long_text + n, sizeof long_text - (size_t)n, i % 2 ? "x" : "\\n");
            n += snprintf(long_text + n, sizeof long_text - (size_t)n, part ? "\"}" : "\":\"");
        }
        assert_int_equal(compare(long_text, (size_t)n), READ);
    }
}

/* ---- made up ---- */

static uint64_t drawn = 88172645463325252u;

static unsigned draw(unsigned n)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return (unsigned)(drawn >> 33) % n;
}

static size_t make_up(char text[4096])
{
    static const char *const leaves[] = {"1",
                                         "-0",
                                         "0",
                                         "1e5",
                                         "-1.25E+2",
                                         "9223372036854775807",
                                         "1e-400",
                                         "0.1",
                                         "\"a\"",
                                         "\"\\u0061\"",
                                         "\"\\ud83d\\ude00\"",
                                         "\"\\n\\\"\\\\\"",
                                         "\"\303\251\"",
                                         "null",
                                         "true",
                                         "false",
                                         "[]",
                                         "{}",
                                         "12345.678",
                                         "-9223372036854775808"};
    char closing[16];
    int depth = 1;
    bool first = true;
    size_t n = (size_t)sprintf(text, "{");

    closing[0] = '}';
    for (unsigned left = draw(40); left > 0 && n < 3800; left--) {
        n += (size_t)sprintf(text + n, "%s%s", first ? "" : ",", draw(4) ? "" : " ");
        if (closing[depth - 1] == '}')
            n += (size_t)sprintf(text + n, "\"%s%u\"%s", draw(5) ? "k" : "\\u006b", draw(60), draw(3) ? ":" : " :\t");
        first = depth < 12 && draw(4) == 0;
        if (first) {
            closing[depth] = draw(2) ? '}' : ']';
            text[n++] = closing[depth++] == '}' ? '{' : '[';
        } else {
            n += (size_t)sprintf(text + n, "%s", draw(500) ? leaves[draw(sizeof leaves / sizeof *leaves)] : "1e999");
        }
        while (depth > 1 && draw(5) == 0) {
            text[n++] = closing[--depth];
            first = false;
        }
    }
    while (depth > 0)
        text[n++] = closing[--depth];
    return n;
}

static void made_up_objects(void **state)
{
    int n_outcomes[4] = {0};
    char text[4096];

    for (int i = 0; i < 20000; i++) {
        size_t n = make_up(text);

        n_outcomes[compare(text, n)]++;
    }
    assert_true(n_outcomes[READ] > 2000 && n_outcomes[TWICE] > 500 && n_outcomes[TOO_LARGE] > 50);
    assert_int_equal(n_outcomes[OTHERWISE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_values),
        cmocka_unit_test(made_up_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
