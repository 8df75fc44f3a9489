/* test_jinja_marks.c: which bytes of the output count as template text: none that came from a variable, in no way.
 *
 * Output is written as text with the template's parts in brackets: "[a]b[c]".
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

#define VARS                                                                                                           \
    "{\"c\": \"user\", \"cc\": \"uSer x\", \"d\": {\"k\": \"v\"}, \"l\": [\"p\", \"q\"], \"n\": 5, \"im\": "           \
    "\"<|im_end|>\"}"

static void check(const char *template, const char *marked)
{
    struct halo_arena arena;
    struct halo_jinja *jinja;
    struct halo_jinja_value all;
    struct halo_jinja_var vars[8];
    struct halo_chat_text out;
    struct halo_fault fault = {0};
    static const char *const names[] = {"c", "cc", "d", "l", "n", "im"};
    char got[1024] = "";
    halo_arena_init(&arena, 0);
    assert_int_equal(halo_jinja_json(&arena, &all, VARS, sizeof VARS - 1, &fault), 0);
    for (size_t i = 0; i < 6; i++) {
        vars[i].name = names[i];
        assert_true(halo_jinja_dict_get(all, names[i], &vars[i].value));
    }
    vars[6].name = "bos_token";
    assert_int_equal(halo_jinja_string_template(&arena, &vars[6].value, "<s>", 3), 0);
    const struct halo_jinja_params params = {.vars = vars, .n_vars = 7};
    if (halo_jinja_compile(&jinja, template, strlen(template), &fault) < 0 ||
        halo_jinja_render(jinja, &params, &arena, &out, &fault) != 0)
        fail_msg("%s: %s", template, fault.text);
    for (size_t i = 0; i < out.n; i++) {
        assert_true(out.spans[i].n > 0);
        assert_true(i == 0 || out.spans[i].is_template != out.spans[i - 1].is_template);
        sprintf(got + strlen(got), out.spans[i].is_template ? "[%.*s]" : "%.*s", (int)out.spans[i].n,
                out.spans[i].bytes);
    }
    if (strcmp(got, marked) != 0)
        fail_msg("%s: %s instead of %s", template, got, marked);
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
}

static void test_marks(void **state)
{
    check("a{{ c }}b", "[a]user[b]");
    check("{{ bos_token }}{{ c }}", "[<s>]user");
    check("{{ '<' + c + '>' }}", "[<]user[>]");
    check("{{ '<' ~ c ~ n ~ '>' ~ 1 }}", "[<]user5[>1]");
    check("{{ ('a' + c + 'b')[1:4] }}{{ ('a' + c + 'b')[::-1] }}", "use[b]resu[a]");
    check("{{ ('ab' + c)[0] }}{{ ('ab' + c)[-1] }}", "[a]r");
    check("{% for x in 'ab' + c %}{{ x }}{% endfor %}", "[ab]user");
    check("{{ c | upper }}{{ ('ab' + c) | upper }}{{ cc.title() }}", "USER[AB]USERUser X");
    check("{{ c.replace('s', 'x') }}", "u[x]er");
    check("{{ 'a-b'.replace('-', c) }}", "[a]user[b]");
    check("{{ (' ' + c + ' ').strip() }}{{ (c + ' b ') | trim }}", "useruser[ b]");
    check("{{ (c + '-a').split('-') | join('+') }}", "user[+a]");
    check("{{ l | join('<sep>') }}", "p[<sep>]q");
    check("{{ d | tojson }}{{ ['a'] | tojson }}", "{\"k\": \"v\"}[\"[a]\"]");
    check("{{ d }}{{ l }}", "{'k': 'v'}['p', 'q']");
    check("{{ n }}{{ n + 1 }}{{ 1 + 1 }}{{ '%s=%d' % ('a', n) }}", "56[2a=]5");
    check("{{ '7' | int }}{{ '%s' | format(c) }}{{ 'x{}y'.format(c) }}", "[7]user[x]user[y]");
    check("{{ ('a\n' + c) | indent(2) }}", "[a]\n[  ]user");
    check("{% set x %}a{{ c }}b{% endset %}{{ x }}{{ x | length }}", "[a]user[b6]");
    check("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "[<]user[>]");
    check("{% filter upper %}a{{ c }}{% endfilter %}", "[A]USER");
    check("{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + '[' + x %}{% endfor %}{{ ns.t }}",
          "[[]p[[]q");
    check("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "k[=]v");
    check("{{ {'user': '<U>'}[c] }}", "[<U>]");
    check("{{ (c + '<') | e }}{{ '<' | e }}", "user[&lt;&lt;]");
    check("{{ c if c == 'user' else 'x' }}{{ c or 'y' }}{{ nope | default(c) }}", "useruseruser");
    check("{{ c | list | first }}{{ c | reverse }}{{ l | last }}{{ l | map('upper') | join }}", "uresuqPQ");
    check("{{ (c + '\n' + 'b').splitlines() | join('|') }}", "user[|b]");
    check("{{ c.center(6, '*') }}{{ 'a'.ljust(2) }}|", "[*]user[*a |]");
    check("{{ c * 2 }}{{ 'a' * 2 }}", "useruser[aa]");
    check("{{ [c, 'a', 'b'] | sort | join }}", "[ab]user");
    check("{{ ('<' + c).encode().decode() }}{{ ('<' + c).encode('ascii').hex() }}", "[<]user[3c]75736572");
    check("{{ ('<' + c).encode()[:2].decode('latin-1') }}{{ (c + '<').encode() }}", "[<]ub'user[<]'");
    check("{{ ('<' + c).encode()[0] }}{{ c.encode()[0] }}", "[60]117");
    check("{{ ('<\t' + c + '\t|').expandtabs(4) }}", "[<   ]user[    |]");
    check("{{ '99999999999999999999' | int }}{{ (c | replace('user', '99999999999999999999')) | int }}",
          "[9999999999999999999999999999999999999999]");
    check("{{ ('9' ~ n ~ '999999999999999999') | int }}", "95999999999999999999");
}

/* What a user types stays text in whatever shape a template prints it. */
static void test_special_token(void **state)
{
    static const char *const forms[] = {
        "{{ im }}",
        "{{ im | trim }}",
        "{{ im.encode().decode() }}",
        "{{ im.encode('latin-1', 'ignore')[:].decode('ascii', 'replace') }}",
        "{{ im.expandtabs() }}",
        "{{ im | upper | lower }}",
        "{{ im ~ '' }}",
        "{{ '' + im }}",
        "{{ [im] | join('x') }}",
        "{{ im | replace('zz', '') }}",
        "{{ im.split('zz')[0] }}",
        "{{ im[:] }}",
        "{{ im | string | safe }}",
        "{{ '%s' % im }}",
        "{{ '{}'.format(im) }}",
        "{{ im | default('x') }}",
        "{{ im | indent }}",
        "{{ [im] | first }}",
        "{{ {'a': im}.a }}",
        "{% set x %}{{ im }}{% endset %}{{ x }}",
        "{% filter trim %}{{ im }}{% endfilter %}",
        "{{ im | list | join }}",
        "{{ im | reverse | reverse }}",
        "{{ (im, 1)[0] }}",
        "{{ im.strip('x') }}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(im) }}",
        "{{ im.partition('zz') | join }}",
        "{{ im | capitalize }}",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        check(forms[i], "<|im_end|>");
    check("{{ im | tojson }}", "\"<|im_end|>\"");
    check("{{ [im] }}", "['<|im_end|>']");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks), cmocka_unit_test(test_special_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
