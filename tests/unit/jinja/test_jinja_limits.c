/* test_jinja_limits.c: what a hostile template or conversation cannot do: run on, grow, dig, wait, or change its
 * inputs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>
#include <jinja/jinja.h>

static int render(const char *template, const struct halo_jinja_limits *limits, struct halo_fault *fault)
{
    struct halo_arena arena;
    struct halo_jinja *jinja;
    struct halo_chat_text out;
    struct halo_jinja_value value;
    halo_arena_init(&arena, 0);
    assert_int_equal(halo_jinja_json(&arena, &value, "[1, [2], {\"k\": 3}]", 18, fault), 0);
    const struct halo_jinja_var var = {"x", value};
    const struct halo_jinja_params params = {.vars = &var, .n_vars = 1, .limits = *limits};
    if (halo_jinja_compile(&jinja, template, strlen(template), fault) < 0)
        fail_msg("%s: %s", template, fault->text);
    int r = halo_jinja_render(jinja, &params, &arena, &out, fault);
    assert_true(r == 0 || out.n == 0);
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
    return r;
}

static void check(const char *template, struct halo_jinja_limits limits, const char *sentence)
{
    struct halo_fault fault = {0};
    int r = render(template, &limits, &fault);
    if (r != HALO_JINJA_LIMIT || !strstr(fault.text, sentence))
        fail_msg("%s: %s (%s)", template, halo_jinja_outcome_name((enum halo_jinja_outcome)(r < 0 ? 0 : r)),
                 fault.text);
    assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
}

#define NESTED_LOOPS                                                                                                   \
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% "     \
    "endfor %}"
#define DOUBLING                                                                                                       \
    "{% set ns = namespace(s='0123456789') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"

static void test_steps(void **state)
{
    check(NESTED_LOOPS, (struct halo_jinja_limits){.max_steps = 100000, .max_time_ms = 60000},
          "more than 100000 steps");
    check("{{ 'a' * 999999999 }}", (struct halo_jinja_limits){.max_steps = 10000}, "more than 10000 steps");
    check("{{ ([1] * 9999999) | sort }}", (struct halo_jinja_limits){.max_steps = 10000}, "more than 10000 steps");
}

static void test_time(void **state)
{
    uint64_t start = halo_clock_ms();
    check(NESTED_LOOPS,
          (struct halo_jinja_limits){.max_steps = UINT64_MAX / 2, .max_time_ms = 30, .max_memory_bytes = SIZE_MAX / 4},
          "more than 30 ms");
    assert_true(halo_clock_ms() - start < 5000);
}

struct waiting {
    struct halo_turn turn;
    uint32_t n_checks, stop_at;
};

/* Others have the turn for longer than the template may take by itself. */
static int wait_once(struct halo_turn *turn)
{
    struct waiting *waiting = (struct waiting *)turn;
    if (++waiting->n_checks == 1)
        usleep(1100000);
    return waiting->n_checks == waiting->stop_at ? -ECANCELED : 0;
}

static void test_turn(void **state)
{
    for (uint32_t stop_at = 0; stop_at <= 2; stop_at += 2) {
        struct waiting waiting = {.turn.check = wait_once, .stop_at = stop_at};
        struct halo_fault fault = {0};
        struct halo_arena arena;
        struct halo_jinja *jinja;
        struct halo_chat_text out;
        const char *template = "{% for a in range(20000) %}{% endfor %}done";
        const struct halo_jinja_params params = {.limits.max_time_ms = 1000, .turn = &waiting.turn};
        halo_arena_init(&arena, 0);
        assert_int_equal(halo_jinja_compile(&jinja, template, strlen(template), &fault), 0);
        assert_int_equal(halo_jinja_render(jinja, &params, &arena, &out, &fault), stop_at ? -ECANCELED : 0);
        assert_int_equal(fault.code, HALO_FAULT_NONE);
        if (stop_at)
            assert_int_equal(waiting.n_checks, stop_at);
        else
            assert_true(waiting.n_checks >= 4);
        halo_jinja_destroy(jinja);
        halo_arena_finish(&arena);
    }
}

static void test_memory(void **state)
{
    check(DOUBLING, (struct halo_jinja_limits){.max_memory_bytes = 1 << 20}, "more than 1048576 bytes");
    check("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
          (struct halo_jinja_limits){.max_memory_bytes = 1 << 20}, "more than 1048576 bytes");
}

static void test_output(void **state)
{
    check("{% for i in range(999) %}0123456789{% endfor %}", (struct halo_jinja_limits){.max_output_bytes = 1000},
          "more than 1000 bytes");
    check(DOUBLING, (struct halo_jinja_limits){.max_output_bytes = 1000}, "makes a string of");
}

static void test_depth(void **state)
{
    char *deep = calloc(1, 4000);
    check("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", (struct halo_jinja_limits){0}, "levels deep");
    check("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
          (struct halo_jinja_limits){0}, "levels deep");
    check("{% set ns = namespace(l=[]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson "
          "}}",
          (struct halo_jinja_limits){0}, "levels deep");
    check("{% set ns = namespace(a=[], b=[]) %}{% for i in range(5000) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}"
          "{% endfor %}{{ ns.a == ns.b }}",
          (struct halo_jinja_limits){0}, "levels deep");
    check("{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}", (struct halo_jinja_limits){0}, "levels deep");
    strcpy(deep, "{{ 1");
    for (size_t i = 0; i < 1500; i++)
        strcat(deep, "+1");
    strcat(deep, "}}");
    check(deep, (struct halo_jinja_limits){0}, "levels deep");
    free(deep);
}

/* Shared structure doubles at each level: 2^60 leaves that take no memory. */
static void test_sharing(void **state)
{
    static const char *const ends[] = {"{{ ns.l }}", "{{ ns.l | tojson }}", "{{ ns.l == ns.m }}", "{{ ns.l < ns.m }}"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char template[400];
        struct halo_fault fault = {0};
        snprintf(template, sizeof template,
                 "{%% set ns = namespace(l=[1], m=[1]) %%}{%% for i in range(60) %%}{%% set ns.l = [ns.l, ns.l] %%}"
                 "{%% set ns.m = [ns.m, ns.m] %%}{%% endfor %%}%s",
                 ends[i]);
        assert_int_equal(render(template, &(struct halo_jinja_limits){0}, &fault), HALO_JINJA_LIMIT);
    }
}

static void test_sandbox(void **state)
{
    static const char *const refused[] = {"{{ x.append(1) }}",
                                          "{{ x.pop() }}",
                                          "{{ x[2].update({}) }}",
                                          "{{ x[2].pop('k') }}",
                                          "{{ x.__class__.y }}",
                                          "{{ ''.__class__.__mro__ }}",
                                          "{{ x[2].setdefault('q', 1) }}"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct halo_fault fault = {0};
        int r = render(refused[i], &(struct halo_jinja_limits){0}, &fault);
        if (r != HALO_JINJA_SECURITY)
            fail_msg("%s: %d (%s)", refused[i], r, fault.text);
    }
}

static void test_compile_limits(void **state)
{
    struct halo_jinja *jinja;
    struct halo_fault fault = {0};
    static char text[100000];
    const size_t n = sizeof text;
    static const char *const openings[] = {"[", "(", "not ", "-", "{1:", "x[", "1 if ", "f("};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        size_t length = strlen(openings[i]), at = 2;
        memcpy(text, "{{", 2);
        while (at + length < n) {
            memcpy(text + at, openings[i], length);
            at += length;
        }
        assert_true(halo_jinja_compile(&jinja, text, at, &fault) < 0);
        assert_null(jinja);
    }
    size_t at = 0;
    static const char opening[] = "{% if 1 %}";
    for (; at + sizeof opening < n; at += sizeof opening - 1)
        memcpy(text + at, opening, sizeof opening - 1);
    assert_true(halo_jinja_compile(&jinja, text, at, &fault) < 0);
    assert_non_null(strstr(fault.text, "nests too deeply"));
    for (at = 0; at + 20 < n;) {
        char output[32];
        int n_output = snprintf(output, sizeof output, "{{ name%zu }}", at);
        memcpy(text + at, output, (size_t)n_output);
        at += (size_t)n_output;
    }
    assert_true(halo_jinja_compile(&jinja, text, at, &fault) < 0);
    assert_non_null(strstr(fault.text, "more than 4096 names"));
    char *blanks = calloc(1, HALO_JINJA_MAX_BYTES + 1);
    assert_non_null(blanks);
    memset(blanks, ' ', HALO_JINJA_MAX_BYTES + 1);
    assert_true(halo_jinja_compile(&jinja, blanks, HALO_JINJA_MAX_BYTES + 1, &fault) < 0);
    assert_int_equal(halo_jinja_compile(&jinja, blanks, HALO_JINJA_MAX_BYTES, &fault), 0);
    halo_jinja_destroy(jinja);
    halo_jinja_destroy(NULL);
    free(blanks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn),    cmocka_unit_test(test_steps),   cmocka_unit_test(test_time),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_output),  cmocka_unit_test(test_depth),
        cmocka_unit_test(test_sharing), cmocka_unit_test(test_sandbox), cmocka_unit_test(test_compile_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
