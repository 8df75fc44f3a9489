/* test_chat.c: conversations by a model's template: what they print and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jinja/chat.h>

#define LOOP "{% for message in messages %}"
#define BODY "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
#define TAIL "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

static struct halo_chat *chat_make(const char *plain, const char *tool_use)
{
    struct halo_chat *chat;
    struct halo_chat_source source = {0};
    if (plain)
        source.template = (struct halo_span){plain, strlen(plain)};
    if (tool_use)
        source.tool_template = (struct halo_span){tool_use, strlen(tool_use)};
    assert_int_equal(halo_chat_create(&chat, &source, NULL), 0);
    return chat;
}

/* A chat that has only this template (NULL: none). */
static struct halo_chat *chat_of(const char *template)
{
    return chat_make(template, NULL);
}

static char *render(const struct halo_chat *chat, const struct halo_chat_message *messages, size_t n,
                    bool add_generation_prompt)
{
    struct halo_arena arena;
    struct halo_chat_text text;
    struct halo_fault fault = {0};
    const struct halo_chat_input input = {
        .messages = messages, .n_messages = n, .add_generation_prompt = add_generation_prompt};
    char *joined = calloc(4096, 1);
    halo_arena_init(&arena, 0);
    if (halo_chat_render(chat, &input, &arena, &text, &fault) < 0)
        fail_msg("%s", fault.text);
    for (size_t i = 0; i < text.n; i++)
        strncat(joined, text.spans[i].bytes, text.spans[i].n);
    halo_arena_finish(&arena);
    return joined;
}

static void check_render(const char *template, const char *first_role, bool add_generation_prompt, const char *wanted)
{
    struct halo_chat *chat = chat_of(template);
    const struct halo_chat_message messages[] = {{first_role, "A\n\nb", 4}, {"assistant", "", 0}, {"user", "c", 1}};
    char *got = render(chat, messages, 3, add_generation_prompt);
    assert_string_equal(got, wanted);
    free(got);
    halo_chat_destroy(chat);
}

#define REST "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
#define FROM(role) "<|im_start|>" role "\nA\n\nb<|im_end|>\n" REST
#define ASK "<|im_start|>assistant\n"

static void test_forms(void **state)
{
    (void)state;
    check_render(LOOP BODY TAIL, "user", true, FROM("user") ASK);
    check_render(LOOP BODY TAIL, "system", false, FROM("system"));
    check_render(
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" LOOP BODY
            TAIL,
        "user", true, FROM("user") ASK);
    check_render(LOOP BODY, "user", true, FROM("user")); /* this one knows no generation prompt */
    static const char with_system[] =
        LOOP "{% if loop.first and messages[0]['role'] != 'system' %}"
             "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}" BODY TAIL;
    check_render(with_system, "user", true,
                 "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" FROM("user") ASK);
    check_render(with_system, "system", true, FROM("system") ASK);
}

static void test_unsupported(void **state)
{
    (void)state;
    static const struct {
        const char *template, *says;
        bool problem;
    } others[] = {
        {NULL, "has no chat template", false},
        {"a\n{% endfor %}", "template line 2, column 4", true},
        {"{% include 'x' %}", "cannot be used", true},
        {"{{ x | nosuch }}", "there is no filter 'nosuch'", true},
    };
    const struct halo_chat_message message = {"user", "a", 1};
    const struct halo_chat_input input = {.messages = &message, .n_messages = 1, .add_generation_prompt = true};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct halo_chat *chat = chat_of(others[i].template);
        struct halo_arena arena;
        struct halo_chat_text text;
        struct halo_fault fault = {0};
        halo_arena_init(&arena, 0);
        assert_true(halo_chat_render(chat, &input, &arena, &text, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_UNSUPPORTED);
        assert_non_null(strstr(fault.text, "`prompt`")); /* what to do instead, not cut off */
        assert_non_null(strstr(fault.text, others[i].says));
        assert_int_equal(halo_chat_problem(chat) != NULL, others[i].problem);
        halo_arena_finish(&arena);
        halo_chat_destroy(chat);
    }
}

/* Tools, variables and messages in JSON reach the template; what it refuses is a BAD_REQUEST in its own words. */
static void test_input(void **state)
{
    (void)state;
    static const struct {
        const char *messages, *tools, *vars, *wanted;
    } cases[] = {
        {"[{\"role\": \"user\", \"content\": [{\"text\": \"p\"}]}]", "[{\"name\": \"f\"}]", "{\"think\": false}",
         "p|f|False|"},
        {"[{\"role\": \"x\", \"content\": [{}]}]", "", "", "||u|"},
        {"[]", "", "", "!no messages"},
        {"{}", "", "", "!`messages` is not a list"},
        {"[1", "", "", "!`messages`: JSON at byte 2"},
        {"[{}]", "[", "", "!`tools`: JSON"},
        {"[{}]", "", "[]", "!`template_vars` is not an object"},
        {"[{}]", "", "{\"tools\": 1}", "!`template_vars` cannot set `tools`"},
        {"[{}]", "", "", "!template line 1, column "},
    };
    struct halo_chat *chat =
        chat_of("{% if not messages %}{{ raise_exception('no messages') }}{% endif %}{{ messages[0].content[0].text }}|"
                "{{ tools[0].name if tools else '' }}|{{ think if think is defined else 'u' }}|");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct halo_arena arena;
        struct halo_chat_text text;
        struct halo_fault fault = {0};
        const struct halo_chat_input input = {.messages_json = {cases[i].messages, strlen(cases[i].messages)},
                                              .tools_json = {cases[i].tools, strlen(cases[i].tools)},
                                              .vars_json = {cases[i].vars, strlen(cases[i].vars)}};
        char got[256] = "";
        halo_arena_init(&arena, 0);
        int r = halo_chat_render(chat, &input, &arena, &text, &fault);
        for (size_t j = 0; r == 0 && j < text.n; j++)
            strncat(got, text.spans[j].bytes, text.spans[j].n);
        assert_true(r == 0 || fault.code == HALO_FAULT_BAD_REQUEST);
        if (r ? cases[i].wanted[0] != '!' || strncmp(fault.text, cases[i].wanted + 1, strlen(cases[i].wanted + 1)) != 0
              : strcmp(got, cases[i].wanted) != 0)
            fail_msg("%s %s %s: %d %s%s", cases[i].messages, cases[i].tools, cases[i].vars, r, got, fault.text);
        halo_arena_finish(&arena);
    }
    halo_chat_destroy(chat);
}

/* With tools the template for tools, where the file has one. One that does not parse spoils nothing else. */
static void test_tool_use(void **state)
{
    (void)state;
    static const struct {
        const char *plain, *tool_use, *tools, *wanted;
    } cases[] = {
        {"plain", "with", "[{}]", "with"}, {"plain", "with", "[]", "plain"},
        {"plain", "with", "", "plain"},    {"plain", NULL, "[{}]", "plain"},
        {NULL, "with", "[{}]", "with"},    {NULL, "with", "", "!no chat template for conversations without tools"},
        {"plain", "{{", "", "plain"},      {"plain", "{{", "[{}]", "!cannot be used"},
        {"{{", "with", "[{}]", "with"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct halo_chat *chat = chat_make(cases[i].plain, cases[i].tool_use);
        struct halo_arena arena;
        struct halo_chat_text text;
        struct halo_fault fault = {0};
        const struct halo_chat_input input = {.messages_json = {"[{}]", 4},
                                              .tools_json = {cases[i].tools, strlen(cases[i].tools)}};
        bool broken =
            (cases[i].plain && cases[i].plain[0] == '{') || (cases[i].tool_use && cases[i].tool_use[0] == '{');
        assert_int_equal(halo_chat_problem(chat) != NULL, broken);
        halo_arena_init(&arena, 0);
        if (halo_chat_render(chat, &input, &arena, &text, &fault) == 0) {
            assert_int_equal(text.n, 1);
            assert_int_equal(text.spans[0].n, strlen(cases[i].wanted));
            assert_memory_equal(text.spans[0].bytes, cases[i].wanted, text.spans[0].n);
        } else {
            assert_int_equal(fault.code, HALO_FAULT_UNSUPPORTED);
            assert_int_equal(cases[i].wanted[0], '!');
            assert_non_null(strstr(fault.text, cases[i].wanted + 1));
        }
        halo_arena_finish(&arena);
        halo_chat_destroy(chat);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_tool_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
