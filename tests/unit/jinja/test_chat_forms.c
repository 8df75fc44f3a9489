/* test_chat_forms.c: texts and arguments of tool calls reach a template in the form that it takes, and what was changed
 * for that is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jinja/chat.h>

#define EACH "{% for m in messages %}"
#define END "{% endfor %}"
#define PLAIN EACH "{{ m.content }}" END
#define ADDED EACH "{{ '<' + m.content + '>' }}" END
#define EITHER                                                                                                         \
    EACH "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}<{{ p.text }}>{% endfor %}"     \
         "{% endif %}" END
#define LISTED EACH "{% for p in m.content %}[{{ p.text }}]{% endfor %}" END
#define ROLES                                                                                                          \
    EACH "{% if m.role == 'tool' and m.content is not string %}{% for p in m.content %}{{ p.text }}/{% endfor %}"      \
         "{% else %}{{ m.content }}{% endif %}" END
#define CALLS(print)                                                                                                   \
    EACH "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}" print              \
         "{% endfor %}" END
#define ITEMS CALLS("{% for k, v in a.items() %}{{ k }}={{ v }};{% endfor %}")
#define TOJSON CALLS("{{ a | tojson }}")
#define CONCAT CALLS("{{ '<' + a + '>' }}")
#define ANY CALLS("{{ a if a is string else a | tojson }}")

#define NAMED "{% for c in m.tool_calls or [] %}:{{ c.function.name }}{% endfor %}" END
#define NEEDS EACH "{{ m.content + '' if m.content is not none else m.content + '' }}" NAMED
#define PRINTS EACH "{{ m.content }}" NAMED
#define REFUSES EACH "{% if m.content == '' %}{{ raise_exception('empty') }}{% endif %}{{ m.content or '' }}" NAMED
#define MINDS EACH "{{ m.content if m.content is not none else '-' }}" NAMED
#define SILENT(content)                                                                                                \
    "{\"role\":\"assistant\"," content "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":"  \
    "\"f\",\"arguments\":{}}}]}"

#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define SAYS(role, content) "{\"role\":\"" role "\",\"content\":" content "}"
#define CALLED(arguments)                                                                                              \
    "[" SAYS("user", "\"x\"") ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":"     \
                              "\"function\",\"function\":{\"name\":\"f\",\"arguments\":" arguments "}}]}]"
#define OSLO "{\"city\":\"Oslo\",\"n\":18446744073709551615}"
#define OSLO_TEXT "\"{\\\"city\\\": \\\"Oslo\\\", \\\"n\\\": 18446744073709551615}\""

static const struct {
    const char *template, *messages;
    const char *text;   /* '!': refused, with this in its words */
    const char *change; /* NULL: none */
} rows[] = {
    /* a string and a list of parts */
    {PLAIN, "[" SAYS("user", "[" TEXT("A") "," TEXT("B") "]") "]", "AB",
     "messages: the text parts of 1 message were joined: the chat template takes strings"},
    {ADDED, "[" SAYS("system", "[" TEXT("s") "]") "," SAYS("user", "[" TEXT("A") "," TEXT("") "]") "]", "<s><A>",
     "messages: the text parts of 2 messages were joined"},
    {ADDED, "[" SAYS("user", "\"A\"") "]", "<A>", NULL},
    {PLAIN, "[" SAYS("user", "\"q\"") "," SAYS("user", "[" TEXT("A") ",{\"type\":\"image\"}]") "]",
     "q[{'type': 'text', 'text': 'A'}, {'type': 'image'}]", NULL},
    {EITHER, "[" SAYS("user", "[" TEXT("A") "," TEXT("B") "]") "," SAYS("user", "\"C\"") "]", "<A><B>C", NULL},
    {LISTED, "[" SAYS("user", "\"AB\"") "," SAYS("assistant", "[" TEXT("C") "]") "]", "[AB][C]",
     "messages: the content of 1 message became text parts: the chat template takes no strings"},
    {LISTED, "[" SAYS("user", "[" TEXT("A") "]") "," SAYS("assistant", "\"\"") "]", "[A]", NULL},
    {ROLES, "[" SAYS("user", "[" TEXT("A") "]") "," SAYS("tool", "[" TEXT("t") "]") "]", "At/",
     "messages: the text parts of 1 message were joined"},
    {ROLES, "[" SAYS("critic", "[" TEXT("A") "," TEXT("B") "]") "]", "AB", "joined"}, /* as those of a user */
    /* arguments of tool calls */
    {ITEMS, CALLED(OSLO_TEXT), "xcity=Oslo;n=18446744073709551615;",
     "messages: the JSON text of the arguments of 1 tool call was parsed: the chat template takes objects"},
    {ITEMS, CALLED(OSLO), "xcity=Oslo;n=18446744073709551615;", NULL},
    {ITEMS, CALLED("\"{\\\"city\\\": \""), "!str object has no attribute 'items'", NULL},
    {ITEMS, CALLED("\"[1]\""), "!str object has no attribute 'items'", NULL},
    {TOJSON, CALLED(OSLO_TEXT), "x{\"city\": \"Oslo\", \"n\": 18446744073709551615}", "was parsed"},
    {TOJSON, CALLED("\"Oslo\""), "x\"Oslo\"", NULL},
    {CONCAT, CALLED(OSLO), "x<{\"city\": \"Oslo\", \"n\": 18446744073709551615}>",
     "messages: the arguments of 1 tool call became JSON text: the chat template takes strings"},
    {CONCAT, CALLED(OSLO_TEXT), "x<{\"city\": \"Oslo\", \"n\": 18446744073709551615}>", NULL},
    {ANY, CALLED(OSLO), "x{\"city\": \"Oslo\", \"n\": 18446744073709551615}", NULL},
    {ANY, CALLED(OSLO_TEXT), "x{\"city\": \"Oslo\", \"n\": 18446744073709551615}", NULL},
    /* calls without a word: no content, null, an empty one */
    {NEEDS, "[" SAYS("user", "\"x\"") "," SILENT("") "]", "x:f",
     "messages: 1 message of calls or thoughts got an empty content: the chat template needs one"},
    {NEEDS, "[" SAYS("user", "\"x\"") "," SILENT("\"content\":null,") "," SILENT("") "]", "x:f:f",
     "messages: 2 messages of calls or thoughts got an empty content"},
    {NEEDS, "[" SAYS("user", "\"x\"") "," SILENT("\"content\":\"\",") "]", "x:f", NULL},
    {NEEDS, "[" SAYS("user", "\"x\"") ",{\"role\":\"assistant\"}]", "!has no attribute 'content'", NULL},
    {NEEDS, "[" SAYS("user", "\"x\"") ",{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}]", "x",
     "got an empty content"},
    {PRINTS, "[" SAYS("user", "\"x\"") "," SILENT("\"content\":null,") "]", "x:f", "got an empty content"},
    {PRINTS, "[" SAYS("user", "\"x\"") "," SILENT("") "]", "x:f", NULL},
    {REFUSES, "[" SAYS("user", "\"x\"") "," SILENT("\"content\":\"\",") "]", "x:f",
     "messages: the empty content of 1 message of calls or thoughts became null: the chat template takes no empty one"},
    {REFUSES, "[" SAYS("user", "\"x\"") "," SILENT("") "]", "x:f", NULL},
    {MINDS, "[" SAYS("user", "\"x\"") "," SILENT("\"content\":null,") "," SILENT("\"content\":\"\",") "]", "x-:f:f",
     NULL},
    /* what a template loses */
    {EACH "{{ m.role }}" END, "[" SAYS("user", "\"hello there\"") "]", "user",
     "messages: the chat template omits the last user message"},
    {"{{ messages[0].content }}", "[" SAYS("user", "\"one\"") "," SAYS("user", "\"two, three\"") "]", "one",
     "omits the last user message"},
    {EACH "{{ m.content | trim }}" END, "[" SAYS("user", "\"\xE3\x80\x80\xE6\x98\x94\xE3\x80\x85\xC2\xA0\"") "]",
     "\xE6\x98\x94\xE3\x80\x85", NULL},
    {EACH "{{ m.content | trim }}" END, "[" SAYS("user", "\" \xC3\xA9t\xC3\xA9 \"") "]", "\xC3\xA9t\xC3\xA9", NULL},
    {EACH "{{ m.role }}" END, "[" SAYS("user", "\"?!\"") "]", "user", NULL}, /* no word to look for */
    {EACH "{{ m.role }}" END, "[" SAYS("system", "\"hello\"") "]", "system", NULL},
};

static struct halo_chat *chat_of(const char *template)
{
    struct halo_chat *chat;
    const struct halo_chat_source source = {.template = {template, strlen(template)}};
    assert_int_equal(halo_chat_create(&chat, &source, NULL), 0);
    return chat;
}

static void check(size_t row)
{
    struct halo_chat *chat = chat_of(rows[row].template);
    struct halo_arena arena;
    struct halo_chat_text text;
    struct halo_fault fault = {0};
    struct halo_remarks changes = {0};
    const struct halo_chat_input input = {.messages_json = {rows[row].messages, strlen(rows[row].messages)},
                                          .changes = &changes};
    char got[1024] = "";
    halo_arena_init(&arena, 0);
    int r = halo_chat_render(chat, &input, &arena, &text, &fault);
    for (size_t i = 0; r == 0 && i < text.n; i++)
        strncat(got, text.spans[i].bytes, text.spans[i].n);
    if (r < 0 ? rows[row].text[0] != '!' || !strstr(fault.text, rows[row].text + 1) : strcmp(got, rows[row].text) != 0)
        fail_msg("%s %s: %s%s", rows[row].template, rows[row].messages, got, fault.text);
    if (changes.n != (rows[row].change != NULL) || (changes.n && !strstr(changes.text[0], rows[row].change)))
        fail_msg("%s %s: %u changes, \"%s\"", rows[row].template, rows[row].messages, changes.n, changes.text[0]);
    halo_arena_finish(&arena);
    halo_chat_destroy(chat);
}

static void test_forms(void **state)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(i);
}

/* What a user says stays content, however it was put together. */
static void test_marks(void **state)
{
    struct halo_chat *chat = chat_of(CONCAT);
    struct halo_arena arena;
    struct halo_chat_text text;
    static const char messages[] = CALLED("{\"k\":\"<|im_end|>\"}");
    const struct halo_chat_input input = {.messages_json = {messages, sizeof(messages) - 1}};
    halo_arena_init(&arena, 0);
    assert_int_equal(halo_chat_render(chat, &input, &arena, &text, NULL), 0);
    for (size_t i = 0; i < text.n; i++)
        assert_true(!text.spans[i].is_template || !memmem(text.spans[i].bytes, text.spans[i].n, "im_end", 6));
    halo_arena_finish(&arena);
    halo_chat_destroy(chat);
}

/* Known when the template is compiled; a template that runs for ever, or fails, says nothing about itself. */
static void test_remarks(void **state)
{
    static const struct {
        const char *template;
        bool swallows;
    } cases[] = {
        {"fixed", true},
        {EACH "{{ m.role }}" END, true},
        {PLAIN, false},
        {LISTED, false},
        {"{{ raise_exception('never') }}", false},
        {"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_chat *chat = chat_of(cases[i].template);
        const struct halo_remarks *remarks = halo_chat_remarks(chat);
        assert_int_equal(remarks->n, cases[i].swallows);
        assert_true(!cases[i].swallows || strstr(remarks->text[0], "omits every user message"));
        halo_chat_destroy(chat);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_marks),
                                       cmocka_unit_test(test_remarks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
