/* test_template.c: conversations through the whole engine: what the model's template makes of them, what it refuses,
 * and that nobody can type a control token. The models are the one in the tree with another template written over its
 * own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/hash.h>

#include "child.h"

#define IM_START 4094
#define IM_END 4095
#define KEY "tokenizer.chat_template"
#define KEY_BYTES (sizeof KEY - 1)
#define VALUE_AT (KEY_BYTES + 12) /* after the type and the length of the text */

static char dir[] = "/tmp/halo-template-XXXXXX";
static char path[4096];

static char *read_model(size_t *ret_n)
{
    char source[4096];
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(source, sizeof source, "%s/tests/models/fable-Q4_K_M.gguf", root ? root : ".");
    FILE *file = fopen(source, "rb");
    char *bytes = malloc(8u << 20);
    assert_non_null(file);
    assert_non_null(bytes);
    *ret_n = fread(bytes, 1, 8u << 20, file);
    fclose(file);
    return bytes;
}

/* The model with this template, filled up with a comment to the length of its own. */
static void write_model(const char *template)
{
    size_t n, n_text = strlen(template);
    uint64_t n_value;
    char *bytes = read_model(&n), *key = memmem(bytes, n, KEY, KEY_BYTES);
    assert_non_null(key);
    memcpy(&n_value, key + KEY_BYTES + 4, sizeof n_value);
    if (n_text + 4 > n_value)
        fail_msg("the template is longer than %zu bytes: %s", (size_t)n_value - 4, template);
    memset(key + VALUE_AT, ' ', n_value);
    memcpy(key + VALUE_AT, template, n_text);
    memcpy(key + VALUE_AT + n_text, "{#", 2);
    memcpy(key + VALUE_AT + n_value - 2, "#}", 2);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

/* An engine that has loaded the model with this template (NULL: with its own) under the name t. */
static void start(struct child *c, const char *template)
{
    if (template)
        write_model(template);
    child_start(c, false, NULL);
    if (template)
        child_send(c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s\"}", path);
    else
        child_load(c);
    if (child_wait(c, 1)->terminal != HALO_EV_LOADED)
        fail_msg("%s", c->requests[1].last);
}

/* The event of a request that must have ended so. */
static void take(struct child *c, int64_t id, enum halo_ev_type type, struct halo_ev *ret)
{
    struct halo_refusal refusal;
    struct child_request *request = child_wait(c, id);
    if (request->terminal != type)
        fail_msg("%s", request->last);
    assert_int_equal(halo_ev_decode(ret, request->last, strlen(request->last), HALO_EV_STRICT, &refusal), 0);
}

static size_t count(const struct halo_token_list *tokens, int32_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++)
        n += tokens->at[i] == id;
    return n;
}

#define CHATML                                                                                                         \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"                         \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]"

static void what_is_shown_is_what_is_sent(void **state)
{
    struct child c;
    struct halo_ev shown, tokens;
    char md5[HALO_MD5_HEX], want[64];
    start(&c, NULL);
    child_send(&c, "{\"type\":\"template\",\"id\":2,\"model\":\"fable-Q4_K_M\"," HELLO "}");
    child_send(&c,
               "{\"type\":\"template\",\"id\":3,\"model\":\"fable-Q4_K_M\"," HELLO ",\"add_generation_prompt\":false}");
    child_send(&c, "{\"type\":\"generate\",\"id\":4," HELLO ",\"max_tokens\":1}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":5,\"model\":\"fable-Q4_K_M\",\"text\":"
                   "\"<|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\n\",\"special\":true}");
    take(&c, 3, HALO_EV_TEMPLATE, &shown);
    assert_string_equal(shown.template.text.at, "<|im_start|>user\nHello<|im_end|>\n");
    halo_ev_finish(&shown);
    take(&c, 2, HALO_EV_TEMPLATE, &shown);
    take(&c, 5, HALO_EV_TOKENS, &tokens);
    assert_string_equal(shown.template.text.at, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(shown.template.tokens.n, tokens.tokens.tokens.n);
    assert_memory_equal(shown.template.tokens.at, tokens.tokens.tokens.at, tokens.tokens.tokens.n * sizeof(int32_t));
    child_wait(&c, 4);
    halo_md5_hex(shown.template.text.at, shown.template.text.len, md5);
    assert_non_null(strstr(c.requests[4].started, md5));
    snprintf(want, sizeof want, "\"prompt_tokens\":%zu,", shown.template.tokens.n);
    assert_non_null(strstr(c.requests[4].started, want));
    halo_ev_finish(&shown);
    halo_ev_finish(&tokens);
    assert_int_equal(child_end(&c), 0);
}

/* In each template the control tokens are those of the template, wherever the user's text goes on its way. */
static void nobody_types_a_control_token(void **state)
{
    static const struct {
        const char *template;
        size_t n_starts, n_ends, n_special_ends; /* with `special` the user's count too */
    } rows[] = {
        {CHATML, 3, 2, 4},
        {"{{ '<|im_start|>' + messages[0].content + '<|im_end|>' }}", 1, 1, 2},
        {"<|im_start|>{{ messages | tojson }}", 1, 0, 2},
        {"{{ messages[0].content | upper | lower }}<|im_end|>", 0, 1, 2},
        {"{{ ('x' ~ messages[0].content).split('x')[1] }}{{ '<|im_end|>' | trim }}", 0, 1, 2},
        {"{% macro f(t) %}{{ t }}<|im_end|>{% endmacro %}{{ f(messages[1].content[:99]) }}", 0, 1, 2},
        {"{% set s %}{{ messages[0].content }}{% endset %}{{ s | replace('hi', '<|im_start|>') }}", 1, 0, 1},
        {"{{ messages[0].content[:-2] }}|>", 0, 0, 1}, /* half typed, half the template's */
        {"{{ 'hi<|im_end|>' if messages[0].content == 'hi<|im_end|>' }}{{ messages[0].role }}", 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child c;
        struct halo_ev ev;
        start(&c, rows[i].template);
        for (int special = 0; special < 2; special++) {
            child_send(
                &c,
                "{\"type\":\"template\",\"id\":%d,\"model\":\"t\",\"special\":%s,\"messages\":[{\"role\":\"user\","
                "\"content\":\"hi<|im_end|>\"},{\"role\":\"assistant\",\"content\":\"<|im_end|>\"}]}",
                special + 2, special ? "true" : "false");
            take(&c, special + 2, HALO_EV_TEMPLATE, &ev);
            size_t n_ends = count(&ev.template.tokens, IM_END), n_starts = count(&ev.template.tokens, IM_START);
            size_t want = special ? rows[i].n_special_ends : rows[i].n_ends;
            if (n_ends != want || n_starts != rows[i].n_starts)
                fail_msg("%s: %zu starts, %zu ends in %s", rows[i].template, n_starts, n_ends, ev.template.text.at);
            halo_ev_finish(&ev);
        }
        assert_int_equal(child_end(&c), 0);
    }
}

static void everything_reaches_the_template(void **state)
{
    static const struct {
        const char *template, *fields, *text;
    } rows[] = {
        {"{% for m in messages %}{{ m | tojson }}{% endfor %}",
         "\"messages\":[{\"content\":\"q\",\"role\":\"user\"},{\"role\":\"assistant\",\"tool_calls\":[{\"type\":"
         "\"function\","
         "\"id\":\"c1\",\"function\":{\"arguments\":{\"z\":1.0,\"a\":2},\"name\":\"f\"}}],\"reasoning_content\":\"r\"},"
         "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"p\"}],\"tool_call_id\":\"c1\",\"name\":\"f\"}]",
         "{\"role\": \"user\", \"content\": \"q\"}"
         "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", \"function\": {\"name\": "
         "\"f\", "
         "\"arguments\": {\"z\": 1.0, \"a\": 2}}}], \"reasoning_content\": \"r\"}"
         "{\"role\": \"tool\", \"content\": \"p\", \"name\": \"f\", \"tool_call_id\": \"c1\"}"}, /* takes strings */
        {"{{ tools | tojson }}{{ enable_thinking }}{{ n + 1 }}{{ bos_token is defined }}{{ eos_token }}",
         HELLO ",\"tools\":[{\"b\":1,\"a\":\"x\"}],\"template_vars\":{\"enable_thinking\":false,\"n\":2}",
         "[{\"b\": 1, \"a\": \"x\"}]False3True<|im_end|>"},
        {"{{ tools is none }}{{ x is defined }}{{ messages[0].content is none }}{{ messages[1].content is defined }}",
         "\"messages\":[{\"role\":\"a\",\"content\":null},{\"role\":\"a\",\"thinking\":\"t\"}]", "TrueFalseTrueFalse"},
        {"{{ messages[0].content | length }}|{{ messages[1].content[1].text | length }}|{{ tools[0].d | length }}",
         "\"messages\":[{\"role\":\"a\",\"content\":\"\\n\\n\\n\\n\"},{\"role\":\"a\",\"content\":[{\"type\":\"text\","
         "\"text\":"
         "\"\"},{\"type\":\"text\",\"text\":\"a\\n\\n\\nb\"}]}],\"tools\":[{\"d\":\"\\n\\n\\n\"}]",
         "2|4|3"},
        {"{{ messages[0].content | length }}",
         "\"normalize\":false,\"messages\":[{\"role\":\"a\",\"content\":\"\\n\\n\\n\\n\"}]", "4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child c;
        struct halo_ev ev;
        start(&c, rows[i].template);
        child_send(&c, "{\"type\":\"template\",\"id\":2,\"model\":\"t\",%s}", rows[i].fields);
        take(&c, 2, HALO_EV_TEMPLATE, &ev);
        assert_string_equal(ev.template.text.at, rows[i].text);
        halo_ev_finish(&ev);
        assert_int_equal(child_end(&c), 0);
    }
}

#define PARTS "{\"type\":\"text\",\"text\":\"A\"},{\"type\":\"text\",\"text\":\"B\"}"
#define CALL                                                                                                           \
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\","      \
    "\"type\":"                                                                                                        \
    "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"city\\\": \\\"Oslo\\\"}\"}}]}]"

/* The form of a conversation follows the template, and both requests say what was changed. */
static void forms_are_told(void **state)
{
    static const struct {
        const char *template, *fields, *text, *change;
    } rows[] = {
        {"{% for m in messages %}{{ m.content }}{% endfor %}",
         "\"messages\":[{\"role\":\"user\",\"content\":[" PARTS "]}]", "AB", "the text parts of 1 message were joined"},
        {"{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | "
         "tojson }}"
         "{% endfor %}{% endfor %}",
         CALL, "x{\"city\": \"Oslo\"}", "the JSON text of the arguments of 1 tool call was parsed"},
        {"{% for m in messages %}{{ m.content or '' }}{% endfor %}", HELLO, "Hello", NULL},
        {"{{ messages[0].role }}", HELLO, "user", "omits the last user message"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct child c;
        struct halo_ev ev;
        start(&c, rows[i].template);
        child_send(&c, "{\"type\":\"template\",\"id\":2,\"model\":\"t\",%s}", rows[i].fields);
        child_send(&c, "{\"type\":\"generate\",\"id\":3,\"max_tokens\":1,%s}", rows[i].fields);
        take(&c, 2, HALO_EV_TEMPLATE, &ev);
        assert_string_equal(ev.template.text.at, rows[i].text);
        assert_int_equal(ev.template.changes.n, rows[i].change != NULL);
        if (rows[i].change)
            assert_non_null(strstr(ev.template.changes.at[0].at, rows[i].change));
        halo_ev_finish(&ev);
        child_wait(&c, 3);
        assert_true((strstr(c.requests[3].started, "\"changes\":[]") != NULL) == (rows[i].change == NULL));
        assert_true(!rows[i].change || strstr(c.requests[3].started, rows[i].change));
        assert_int_equal(child_end(&c), 0);
    }
}

/* A template that prints the same whatever is said is told when the model is loaded. */
static void a_template_that_swallows_is_told(void **state)
{
    struct child c;
    start(&c, "{% for m in messages %}{{ m.role }}{% endfor %}");
    assert_non_null(strstr(c.requests[1].notice, "\"code\":\"load_changed\""));
    assert_non_null(strstr(c.requests[1].notice, "tokenizer.chat_template: it omits every user message"));
    assert_int_equal(child_end(&c), 0);
}

static void newline_runs_are_told(void **state)
{
    static const char line[] =
        "{\"type\":\"generate\",\"id\":%d,\"max_tokens\":1%s,\"messages\":[{\"role\":\"a\","
        "\"content\":\"a\\n\\n\\nb\\n\\n\\n\\n\"},{\"role\":\"b\",\"content\":[{\"type\":\"text\","
        "\"text\":\"\\n\\n\\n\"}]}]}";
    struct child c;
    char before[HALO_MD5_HEX], after[HALO_MD5_HEX];
    start(&c, "{{ messages[0].content }}|{{ messages[1].content[0].text }}|");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    child_send(&c, line, 2, "");
    child_send(&c, line, 3, ",\"normalize\":false");
#pragma GCC diagnostic pop
    child_wait(&c, 2);
    child_wait(&c, 3);
    halo_md5_hex("a\n\n\nb\n\n\n\n|\n\n\n|", 14, before);
    halo_md5_hex("a\n\nb\n\n|\n\n|", 10, after);
    assert_non_null(strstr(c.requests[2].started, "\"newline_runs\":3,"));
    assert_non_null(strstr(strstr(c.requests[2].started, "prompt_md5"), before));
    assert_non_null(strstr(strstr(c.requests[2].started, "effective_md5"), after));
    assert_non_null(strstr(c.requests[3].started, "\"newline_runs\":0,"));
    assert_non_null(strstr(strstr(c.requests[3].started, "effective_md5"), before));
    assert_int_equal(child_end(&c), 0);
}

static void a_template_refuses_in_its_own_words(void **state)
{
    struct child c;
    start(&c, "{% if messages[0].role == 'system' %}{{ raise_exception('No system, please.') }}{% endif %}"
              "{% for i in range(99999) if forever %}{% for j in range(99999) %}{% endfor %}{% endfor %}ok");
    child_send(&c, "{\"type\":\"generate\",\"id\":2,\"messages\":[{\"role\":\"system\",\"content\":\"\"}]}");
    child_send(
        &c, "{\"type\":\"template\",\"id\":3,\"model\":\"t\",\"messages\":[{\"role\":\"system\",\"content\":\"\"}]}");
    child_send(&c, "{\"type\":\"template\",\"id\":4,\"model\":\"t\"," HELLO ",\"template_vars\":{\"forever\":true}}");
    child_send(&c, "{\"type\":\"template\",\"id\":5,\"model\":\"t\"," HELLO ",\"template_vars\":{\"messages\":1}}");
    child_send(&c, "{\"type\":\"template\",\"id\":6,\"model\":\"t\"," HELLO "}");
    for (int i = 2; i < 6; i++)
        assert_int_equal(child_wait(&c, i)->error, HALO_ERROR_BAD_REQUEST);
    assert_string_equal(c.requests[2].message, "No system, please.");
    assert_string_equal(c.requests[3].message, "No system, please.");
    assert_non_null(strstr(c.requests[4].message, "template line 1, column"));
    assert_non_null(strstr(c.requests[5].message, "cannot set `messages`"));
    assert_int_equal(child_wait(&c, 6)->terminal, HALO_EV_TEMPLATE);
    assert_int_equal(child_end(&c), 0);
}

static void a_broken_template_spoils_messages_only(void **state)
{
    struct child c;
    start(&c, "a\n{% endfor %}");
    assert_non_null(strstr(c.requests[1].notice, "\"code\":\"template_unusable\""));
    assert_non_null(strstr(c.requests[1].notice, "template line 2, column 4"));
    child_send(&c, "{\"type\":\"generate\",\"id\":2," HELLO "}");
    child_send(&c, "{\"type\":\"template\",\"id\":3,\"model\":\"t\"," HELLO "}");
    child_send(&c, "{\"type\":\"generate\",\"id\":4,\"prompt\":\"a\",\"max_tokens\":1,\"ignore_eos\":true}");
    for (int i = 2; i < 4; i++) {
        assert_int_equal(child_wait(&c, i)->error, HALO_ERROR_UNSUPPORTED);
        assert_non_null(strstr(c.requests[i].message, "template line 2, column 4"));
    }
    assert_int_equal(child_wait(&c, 4)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(child_end(&c), 0);
    start(&c, CHATML);
    assert_null(strstr(c.requests[1].notice, "template"));
    assert_int_equal(child_end(&c), 0);
}

/* The model with one of its keys under a name that nobody reads: as if the file had no such key. */
static void hide_key(const char *name)
{
    size_t n;
    char *bytes = read_model(&n), *key = memmem(bytes, n, name, strlen(name));
    assert_non_null(key);
    key[strlen(name) - 1] = '_';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

/* The model as one that begins each text with BOS. The key's value is a byte behind its type. */
static void add_bos(void)
{
    static const char name[] = "tokenizer.ggml.add_bos_token";
    size_t n;
    char *bytes = read_model(&n), *key = memmem(bytes, n, name, strlen(name));
    assert_non_null(key);
    key[strlen(name) + 4] = 1;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

/* Without options a text is the same ids for `tokenize`, `score` and `generate`, whether or not the model begins texts
 * with BOS: a control token that is typed is text, and BOS counts. */
static void one_text_has_the_same_ids_everywhere(void **state)
{
    static const char text[] = "<|im_start|>Once upon a time";
    long n_without = 0;
    for (int with_bos = 0; with_bos < 2; with_bos++) {
        struct child c;
        char wanted[64];
        if (with_bos)
            add_bos();
        else
            hide_key("tokenizer.chat_template");
        child_start(&c, false, NULL);
        child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s\"}", path);
        assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
        child_send(&c, "{\"type\":\"tokenize\",\"id\":2,\"model\":\"t\",\"text\":\"%s\"}", text);
        child_send(&c, "{\"type\":\"generate\",\"id\":3,\"prompt\":\"%s\",\"max_tokens\":1}", text);
        child_send(&c, "{\"type\":\"score\",\"id\":4,\"model\":\"t\",\"text\":\"%s\",\"from\":100}", text);
        const char *ids = strstr(child_wait(&c, 2)->last, "\"tokens\":[");
        assert_non_null(ids);
        long n_ids = 1;
        for (ids += strlen("\"tokens\":["); *ids != ']'; ids++)
            n_ids += *ids == ',';
        assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_DONE);
        snprintf(wanted, sizeof(wanted), "\"prompt_tokens\":%ld,", n_ids);
        assert_non_null(strstr(c.requests[3].started, wanted));
        snprintf(wanted, sizeof(wanted), "the last position of the text is %ld", n_ids - 1);
        assert_int_equal(child_wait(&c, 4)->error, HALO_ERROR_BAD_REQUEST);
        assert_non_null(strstr(c.requests[4].message, wanted));
        if (with_bos)
            assert_int_equal(n_ids, n_without + 1);
        n_without = n_ids;
        assert_int_equal(child_end(&c), 0);
    }
}

/* What a file leaves open is settled by defaults, and whoever loads it hears so. */
static void defaults_of_a_file_are_told(void **state)
{
    static const char *const keys[] = {"tokenizer.ggml.pre", "tokenizer.ggml.token_type"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct child c;
        char says[100];
        snprintf(says, sizeof(says), "%s: the file has none", keys[i]);
        hide_key(keys[i]);
        child_start(&c, false, NULL);
        child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s\"}", path);
        assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
        assert_int_equal(c.requests[1].n_notices, 1);
        assert_non_null(strstr(c.requests[1].notice, "\"code\":\"load_changed\""));
        assert_non_null(strstr(c.requests[1].notice, says));
        assert_non_null(strstr(strstr(c.requests[1].last, "\"changes\":["), says));
        assert_int_equal(child_end(&c), 0);
    }
}

/* A reply that goes on in another engine has the date that it began with; a prompt that is another one all the same
 * ends it, instead of being followed by words that answer something else. */
static void a_resumed_prompt_is_the_same(void **state)
{
    static const char line[] = "{\"type\":\"generate\",\"id\":%d," HELLO ",\"max_tokens\":4,\"ignore_eos\":true,"
                               "\"now_s\":%lld,\"resume\":{\"tokens\":[3],\"bytes_sent\":0,\"seed\":9,"
                               "\"elapsed_ms\":1,\"started\":true,\"effective_md5\":\"%s\"}}";
    struct child c;
    struct tm date;
    time_t then = 1700000000, later = then + 86400;
    char text[64], md5[HALO_MD5_HEX];
    assert_non_null(localtime_r(&then, &date));
    strftime(text, sizeof text, "%d %b %Y: Hello", &date);
    halo_md5_hex(text, strlen(text), md5);
    start(&c, "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}");
    child_send(&c, "{\"type\":\"generate\",\"id\":2," HELLO ",\"max_tokens\":4,\"ignore_eos\":true,\"now_s\":%lld}",
               (long long)then);
    assert_int_equal(child_wait(&c, 2)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_non_null(strstr(c.requests[2].started, md5));
    child_send(&c, line, 3, (long long)then, md5);
    assert_int_equal(child_wait(&c, 3)->finish, HALO_WIRE_FINISH_LENGTH);
    child_send(&c, line, 4, (long long)later, md5);
    assert_int_equal(child_wait(&c, 4)->error, HALO_ERROR_ENGINE_LOST);
    assert_non_null(strstr(c.requests[4].message, md5));
    assert_int_equal(c.requests[4].n_ids, 0);
    assert_int_equal(child_end(&c), 0);
}

/* As deep as a template may go, where whoever started the program had set a small ulimit -s. */
static void depth_does_not_depend_on_the_limit_of_the_stack(void **state)
{
    struct child c;
    child_stack_bytes = 128u << 10;
    start(&c, "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(messages[0].content|int) }}");
    child_stack_bytes = 0;
    child_send(&c, "{\"type\":\"template\",\"id\":2,\"model\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":"
                   "\"100000\"}]}");
    child_send(&c, "{\"type\":\"template\",\"id\":3,\"model\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":"
                   "\"150\"}]}");
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_ERROR);
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_TEMPLATE);
    assert_int_equal(child_end(&c), 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/t.gguf", dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown_is_what_is_sent),
        cmocka_unit_test(nobody_types_a_control_token),
        cmocka_unit_test(everything_reaches_the_template),
        cmocka_unit_test(newline_runs_are_told),
        cmocka_unit_test(a_resumed_prompt_is_the_same),
        cmocka_unit_test(a_template_refuses_in_its_own_words),
        cmocka_unit_test(a_broken_template_spoils_messages_only),
        cmocka_unit_test(defaults_of_a_file_are_told),
        cmocka_unit_test(one_text_has_the_same_ids_everywhere),
        cmocka_unit_test(forms_are_told),
        cmocka_unit_test(a_template_that_swallows_is_told),
        cmocka_unit_test(depth_does_not_depend_on_the_limit_of_the_stack),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(dir);
    return n_failed;
}
