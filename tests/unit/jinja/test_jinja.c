/* test_jinja.c: the language, case by case: jinja/cases.jsonl holds templates with the text or the kind of failure that
 * the reference engine gives for them. The first line is the variables of all of them.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <jinja/jinja.h>

#define MIN_CASES 1000

static const struct tm frozen = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};

/* The variables: the object behind "vars" on the first line, whose numbers jansson cannot all hold. */
static struct halo_jinja_value read_vars(struct halo_arena *arena, const char *line, size_t n)
{
    struct halo_jinja_value vars;
    struct halo_fault fault = {0};
    static const char front[] = "{\"vars\": ";
    assert_memory_equal(line, front, sizeof front - 1);
    if (halo_jinja_json(arena, &vars, line + sizeof front - 1, n - sizeof front, &fault) < 0)
        fail_msg("%s", fault.text);
    return vars;
}

/* Makes every variable a global: `vars` is one dict, a prelude unpacks it. */
static int render(const char *template, struct halo_jinja_value all, struct halo_arena *arena,
                  struct halo_chat_text *ret, struct halo_fault *fault)
{
    static const char *const names[] = {"a",    "s",    "e", "d",  "n",   "t",  "f",    "i",     "neg",   "u",    "ws",
                                        "msgs", "nest", "q", "dq", "big", "fl", "html", "lines", "words", "mixed"};
    struct halo_jinja_var vars[sizeof names / sizeof *names];
    size_t n = 0;
    struct halo_jinja *jinja;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (halo_jinja_dict_get(all, names[i], &vars[n].value))
            vars[n++].name = names[i];
    assert_int_equal(n, sizeof names / sizeof *names);
    if (halo_jinja_compile(&jinja, template, strlen(template), fault) < 0)
        return -1;
    const struct halo_jinja_params params = {.vars = vars, .n_vars = n, .now = &frozen};
    int r = halo_jinja_render(jinja, &params, arena, ret, fault);
    assert_true(r >= 0);
    halo_jinja_destroy(jinja);
    return r;
}

static void check_case(const json_t *json, struct halo_jinja_value vars)
{
    struct halo_arena arena;
    struct halo_chat_text out;
    struct halo_fault fault = {0};
    const char *template = json_string_value(json_object_get(json, "template"));
    const char *kind = json_string_value(json_object_get(json, "kind")), *got = "rendered";
    const json_t *text = json_object_get(json, "text"), *error = json_object_get(json, "error");
    halo_arena_init(&arena, 0);
    int r = render(template, vars, &arena, &out, &fault);
    if (r)
        got = r < 0 ? "compile" : halo_jinja_outcome_name((enum halo_jinja_outcome)r);
    if (strcmp(got, kind ? kind : "rendered") != 0)
        fail_msg("%s: %s (%s) instead of %s", template, got, fault.text, kind ? kind : "rendered");
    if (r && strcmp(got, "raise_exception") != 0 && !strstr(fault.text, "template line "))
        fail_msg("%s: a fault without a place: %s", template, fault.text);
    if (error)
        assert_string_equal(fault.text, json_string_value(error));
    size_t at = 0, n = text ? json_string_length(text) : 0;
    for (size_t i = 0; r == 0 && i < out.n; at += out.spans[i++].n)
        if (out.spans[i].n > n - at || memcmp(out.spans[i].bytes, json_string_value(text) + at, out.spans[i].n) != 0)
            fail_msg("%s: instead of \"%s\": ...\"%.*s\"", template, json_string_value(text), (int)out.spans[i].n,
                     out.spans[i].bytes);
    assert_int_equal(at, n);
    halo_arena_finish(&arena);
}

static void test_cases(void **state)
{
    char path[4096], *line = NULL;
    size_t held = 0;
    ssize_t n;
    unsigned n_cases = 0;
    struct halo_arena arena;
    struct halo_jinja_value vars = halo_jinja_none();
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/unit/jinja/cases.jsonl", root ? root : ".");
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s cannot be read", path);
    halo_arena_init(&arena, 0);
    for (bool first = true; (n = getline(&line, &held, file)) > 0; first = false) {
        if (first) {
            char *copy = halo_arena_strndup(&arena, line, (size_t)n - 1);
            vars = read_vars(&arena, copy, (size_t)n - 1);
            continue;
        }
        json_t *json = json_loadb(line, (size_t)n, 0, NULL);
        assert_non_null(json);
        check_case(json, vars);
        json_decref(json);
        n_cases++;
    }
    assert_true(n_cases >= MIN_CASES);
    halo_arena_finish(&arena);
    free(line);
    fclose(file);
}

/* ---- places of faults ---- */

static void check_fault(const char *template, const char *place)
{
    struct halo_jinja *jinja;
    struct halo_fault fault = {0};
    struct halo_arena arena;
    struct halo_chat_text out;
    const struct halo_jinja_params params = {0};
    halo_arena_init(&arena, 0);
    if (halo_jinja_compile(&jinja, template, strlen(template), &fault) == 0) {
        assert_true(halo_jinja_render(jinja, &params, &arena, &out, &fault) > 0);
        halo_jinja_destroy(jinja);
    }
    if (strncmp(fault.text, place, strlen(place)) != 0)
        fail_msg("%s: \"%s\" instead of \"%s...\"", template, fault.text, place);
    halo_arena_finish(&arena);
}

static void test_places(void **state)
{
    check_fault("a\nb {{ 1 + }}", "template line 2, column 10: expected a value, found '}}'");
    check_fault("{% for x in y %}\n{% endif %}", "template line 2, column 4: expected a statement");
    check_fault("\n\n  {{ x.y }}", "template line 3, column 7: 'x' is undefined");
    check_fault("\xC3\xA9{{ [1] + 'a' }}", "template line 1, column 9: '+' cannot be applied to list and str");
    check_fault("{{ 'a' | nosuch }}", "template line 1, column 10: there is no filter 'nosuch'");
    check_fault("\xFF", "the template is not UTF-8 at byte 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
