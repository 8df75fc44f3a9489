/* test_jinja_memory.c: every allocation of compiling and rendering fails once; each time the caller hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <jinja/jinja.h>

#include "fail_alloc.h"

static const char template[] =
    "{% macro m(x, y='d') %}{{ x }}{{ y }}{{ varargs }}{% endmacro %}{% set ns = namespace(s='', l=[]) %}"
    "{% for i in range(300) %}{% set ns.s = ns.s + 'text' ~ i %}{% set ns.l = ns.l + [i] %}{{ m(i, 1, 2) }}{% endfor %}"
    "{{ ns.s | upper | replace('T', '<t>') }}{{ ns.l | tojson(indent=2) }}{{ ns.l | sort(reverse=true) }}"
    "{{ ns.s.split('t') | unique | list }}{{ {'a': ns.l, 'b': 'c'} }}{% filter trim %}{{ v }}{% endfilter %}";

/* 0, or a negative errno; the fault says so. */
static int whole(struct halo_fault *fault)
{
    struct halo_arena arena;
    struct halo_jinja *jinja = NULL;
    struct halo_jinja_var var = {.name = "v"};
    struct halo_chat_text out;
    const struct halo_jinja_params params = {.vars = &var, .n_vars = 1};
    halo_arena_init(&arena, 0);
    int r = halo_jinja_compile(&jinja, template, sizeof template - 1, fault);
    if (r == 0)
        r = halo_jinja_json(&arena, &var.value, "{\"k\": [1, \"s\", 2.5]}", 20, fault);
    if (r == 0)
        r = halo_jinja_render(jinja, &params, &arena, &out, fault);
    assert_true(r <= 0);
    assert_true(r < 0 || out.n > 0);
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
    return r;
}

static void test_failing(void **state)
{
    uint64_t n = 0;
    for (bool failed = true; failed; n++) {
        struct halo_fault fault = {0};
        halo_fail_alloc_arm(n);
        int r = whole(&fault);
        failed = halo_fail_alloc_disarm();
        assert_int_equal(r < 0, failed);
        assert_int_equal(fault.code, failed ? HALO_FAULT_OUT_OF_MEMORY : HALO_FAULT_NONE);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
}

/* What a rendering was given for its way it leaves behind: the next one like it takes nothing from the system. */
static void test_scratch(void **state)
{
    struct halo_arena arena, scratch;
    struct halo_jinja *jinja;
    struct halo_chat_text out;
    const struct halo_jinja_var var = {.name = "v", .value = halo_jinja_int(7)};
    const struct halo_jinja_params params = {.vars = &var, .n_vars = 1, .scratch = &scratch};
    size_t n[3] = {0};
    halo_arena_init(&arena, 0);
    halo_arena_init(&scratch, 0);
    assert_int_equal(halo_jinja_compile(&jinja, template, sizeof template - 1, NULL), 0);
    for (int round = 0; round < 3; round++) {
        if (round)
            halo_fail_alloc_arm(0);
        assert_int_equal(halo_jinja_render(jinja, &params, &arena, &out, NULL), 0);
        for (size_t i = 0; i < out.n; i++)
            n[round] += out.spans[i].n;
        halo_arena_reset(&arena, SIZE_MAX);
        assert_int_equal(scratch.used_bytes, 0);
        assert_int_equal(scratch.limit_bytes, 0);
        assert_true(scratch.held_bytes > 0);
    }
    assert_false(halo_fail_alloc_disarm());
    assert_true(n[0] > 1000 && n[1] == n[0] && n[2] == n[0]);
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
    halo_arena_finish(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failing), cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
