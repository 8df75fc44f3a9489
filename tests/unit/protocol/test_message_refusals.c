/* test_message_refusals.c: each class of line that is refused: its code, its words, its byte, and the id to answer
 * under. */
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

#define NO_OFFSET 0
#define G "{\"type\":\"generate\",\"id\":7,"
#define ID7 7
#define BAD_JSON HALO_ERROR_BAD_JSON
#define BAD_REQUEST HALO_ERROR_BAD_REQUEST
#define UNKNOWN_TYPE HALO_ERROR_UNKNOWN_TYPE

struct refused {
    const char *line;
    enum halo_error code;
    const char *words; /* somewhere in the message */
    size_t offset;
    int64_t id; /* -1: none */
};

static void expect_refusal(const struct refused *c, size_t len)
{
    struct halo_refusal refusal;
    struct halo_msg msg;

    memset(&refusal, 0xAA, sizeof refusal);
    assert_int_equal(halo_msg_decode(&msg, c->line, len, HALO_ROLE_CLIENT, &refusal), HALO_MSG_E_REFUSED);
    if (refusal.code != c->code || !strstr(refusal.message, c->words) || refusal.offset != c->offset)
        fail_msg("%s\nwanted %s at %zu: ...%s...\ngot    %s at %zu: %s", c->line, halo_error_name(c->code), c->offset,
                 c->words, halo_error_name(refusal.code), refusal.offset, refusal.message);
    assert_int_equal(refusal.id_kind, c->id < 0 ? HALO_ID_NONE : HALO_ID_INT);
    if (c->id >= 0)
        assert_int_equal(refusal.id_num, c->id);
    assert_null(msg.memory);
}

static void expect_all(const struct refused *cases, size_t n)
{
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        expect_refusal(&cases[i], strlen(cases[i].line));
}

#define EXPECT_ALL(cases) expect_all(cases, sizeof cases / sizeof *cases)

static void not_json(void **state)
{
    static const struct refused cases[] = {
        {"", BAD_JSON, "not JSON at byte 0", 0, -1},
        {"hello", BAD_JSON, "not JSON at byte 0", 0, -1},
        {G "\"prompt\":\"a", BAD_JSON, "ends inside a string", 37, ID7},
        {G "\"prompt\":\"a\"", BAD_JSON, "ends too early", 38, ID7},
        {G "\"prompt\":\"a\"} x", BAD_JSON, "something follows", 40, ID7},
        {G "\"prompt\":\"a\"}{}", BAD_JSON, "something follows", 39, ID7},
        {G "prompt:1}", BAD_JSON, "needs a name in quotes", 26, ID7},
        {G "\"top_p\":NaN}", BAD_JSON, "no JSON value", 34, ID7},
        {G "\"top_p\":Infinity}", BAD_JSON, "no JSON value", 34, ID7},
        {G "\"top_p\":-Infinity}", BAD_JSON, "needs a digit", 35, ID7},
        {G "\"top_p\":.5}", BAD_JSON, "no JSON value", 34, ID7},
        {G "\"prompt\":\"\x01\"}", BAD_JSON, "control byte", 36, ID7},
        {G "\"prompt\":\"\\ud83e\"}", BAD_JSON, "surrogate", 36, ID7},
        {G "\"prompt\":\"\\a\"}", BAD_JSON, "no such escape", 36, ID7},
    };
    struct refused nul = {G "\"prompt\":\"\0\"}", BAD_JSON, "control byte", 36, ID7};

    EXPECT_ALL(cases);
    expect_refusal(&nul, sizeof G - 1 + 13);
}

static void not_utf8(void **state)
{
    static const struct refused cases[] = {
        {G "\"prompt\":\"\xFF\"}", BAD_JSON, "not valid UTF-8 at byte 36", 36, ID7},
        {G "\"prompt\":\"ab\xC3\"}", BAD_JSON, "not valid UTF-8 at byte 38", 38, ID7},
        {G "\"prompt\":\"\xED\xA0\x80\"}", BAD_JSON, "not valid UTF-8 at byte 36", 36, ID7},
        {G "\"prompt\":\"\xC0\x80\"}", BAD_JSON, "not valid UTF-8 at byte 36", 36, ID7},
        {G "\"prompt\":\"\xF4\x90\x80\x80\"}", BAD_JSON, "not valid UTF-8 at byte 36", 36, ID7},
        {G "\"pr\xFFompt\":1}", BAD_JSON, "not valid UTF-8 at byte 29", 29, ID7},
        {"\xFE{}", BAD_JSON, "not valid UTF-8 at byte 0", 0, -1},
        {G "\"prompt\":\"a\"}\xFF", BAD_JSON, "not valid UTF-8 at byte 39", 39, ID7},
    };

    EXPECT_ALL(cases);
}

static void embedded_nul(void **state)
{
    static const struct refused cases[] = {
        {G "\"prompt\":\"a\\u0000b\"}", BAD_JSON, "NUL", 37, ID7},
        {G "\"pro\\u0000mpt\":\"a\"}", BAD_JSON, "NUL", 30, ID7},
        {G "\"prompt\":\"a\",\"stop\":[\"\\u0000\"]}", BAD_JSON, "NUL", 48, ID7},
    };

    EXPECT_ALL(cases);
}

#define OPEN_4 "[[[["
#define CLOSE_4 "]]]]"
#define OPEN_29 OPEN_4 OPEN_4 OPEN_4 OPEN_4 OPEN_4 OPEN_4 OPEN_4 "["
#define CLOSE_29 CLOSE_4 CLOSE_4 CLOSE_4 CLOSE_4 CLOSE_4 CLOSE_4 CLOSE_4 "]"
#define OPEN_58 OPEN_29 OPEN_29
#define CLOSE_58 CLOSE_29 CLOSE_29
#define OPEN_59 OPEN_58 "["
#define CLOSE_59 "]" CLOSE_58
#define TENS "00000000000000000000000000000000000000000000000000"

#define LATE "{\"type\":\"generate\",\"prompt\":"

/* Wherever the id stands, if only quotes and brackets show where. */
static void late_ids(void **state)
{
    static const struct refused cases[] = {
        {LATE "\"a\\u0000b\",\"id\":7}", BAD_JSON, "NUL", 30, ID7},
        {LATE "\"\\u0000\\\\\",\"x\":{\"id\":1},\"id\" : 7 }\t", BAD_JSON, "NUL", 29, ID7},
        {LATE "\"\\u0000\",\"\\u0069d\":7}", BAD_JSON, "NUL", 29, ID7},
        {LATE "\"\xFF\",\"id\":7}", BAD_JSON, "not valid UTF-8", 29, ID7},
        {LATE "\"\xFF\",\"\\|id\":1,\"\\u00\":1,\"\\ud800\":1,\"id\":7}", BAD_JSON, "not valid UTF-8", 29,
         ID7}, /* no keys */
        {LATE OPEN_59 OPEN_29 "\"[\"" CLOSE_29 CLOSE_59 ",\"id\":7}", BAD_REQUEST, "nested more than", 92, ID7},
        /* What does not match, does not say what is an id. */
        {LATE "\"\\u0000\",\"x\":\"y\"z\",\"id\":7,\"q\":\"}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\":7", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\"},\"id\":7}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\"}],\"id\":7}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\":7x}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\":}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\":{}}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\"}", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\\u0000\",\"id\":\"", BAD_JSON, "NUL", 29, -1},
        {LATE "\"\x01\",\"id\":7}", BAD_JSON, "control byte", 29, -1},
    };
    struct halo_refusal refusal;
    struct halo_msg msg;
    static const char text_id[] = LATE "\"\\u0000\",\"id\":\"\\u00e9\\\"\"}";

    EXPECT_ALL(cases);
    assert_int_equal(halo_msg_decode(&msg, text_id, sizeof text_id - 1, HALO_ROLE_CLIENT, &refusal), 1);
    assert_int_equal(refusal.id_kind, HALO_ID_STR);
    assert_string_equal(refusal.id_text, "\xC3\xA9\"");
}

static void not_a_request(void **state)
{
    static const struct refused cases[] = {
        {"[]", BAD_REQUEST, "must hold one JSON object", 0, -1},
        {"\"ping\"", BAD_REQUEST, "must hold one JSON object", 0, -1},
        {" 5", BAD_REQUEST, "must hold one JSON object", 1, -1},
        {"{}", BAD_REQUEST, "\"type\" is required", NO_OFFSET, -1},
        {"{\"id\":7}", BAD_REQUEST, "\"type\" is required", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":7}", BAD_REQUEST, "\"type\" must be a string", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"genrate\"}", UNKNOWN_TYPE, "unknown type \"genrate\"; did you mean \"generate\"?",
         NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"paus\"}", UNKNOWN_TYPE, "unknown type \"paus\"", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"pause\",\"target\":1}", UNKNOWN_TYPE, "\"pause\"", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"continue\",\"target\":1}", UNKNOWN_TYPE, "\"continue\"", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"heartbeat\"}", UNKNOWN_TYPE, "\"heartbeat\"", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"token\",\"text\":\"\"}", UNKNOWN_TYPE, "\"token\"", NO_OFFSET, ID7},
        {"{\"id\":7,\"type\":\"\"}", UNKNOWN_TYPE, "unknown type \"\"", NO_OFFSET, ID7},
    };

    EXPECT_ALL(cases);
}

static void bad_ids(void **state)
{
    char line[400];
    struct refused c = {line, BAD_REQUEST, "129 bytes long, at most 128", NO_OFFSET, -1};
    static const struct refused cases[] = {
        {"{\"type\":\"diag\"}", BAD_REQUEST, "diag: field \"id\" is required", NO_OFFSET, -1},
        {"{\"type\":\"diag\",\"id\":null}", BAD_REQUEST, "diag.id: expected a string or an integer", NO_OFFSET, -1},
        {"{\"type\":\"ping\",\"id\":1.5}", BAD_REQUEST, "ping.id: expected a string or an integer", NO_OFFSET, -1},
        {"{\"type\":\"ping\",\"id\":\"\"}", BAD_REQUEST, "ping.id: must not be empty", NO_OFFSET, -1},
        {"{\"type\":\"ping\",\"id\":9223372036854775808}", BAD_REQUEST, "ping.id: 9223372036854775808 is out of range",
         NO_OFFSET, -1},
        {"{\"type\":\"ping\",\"id\":[7]}", BAD_REQUEST, "ping.id: expected", NO_OFFSET, -1},
    };

    EXPECT_ALL(cases);
    snprintf(line, sizeof line, "{\"type\":\"ping\",\"id\":\"%0129d\"}", 1);
    expect_refusal(&c, strlen(line));
}

static void doubled_fields(void **state)
{
    static const struct refused cases[] = {
        {G "\"prompt\":\"a\",\"prompt\":\"a\"}", BAD_REQUEST, "\"prompt\" appears twice", 40, ID7},
        {"{\"type\":\"ping\",\"id\":7,\"id\":8}", BAD_REQUEST, "\"id\" appears twice", 23, ID7},
        {"{\"type\":\"ping\",\"id\":7,\"t\\u0079pe\":\"ping\"}", BAD_REQUEST, "appears twice", 23, ID7},
        {"{\"type\":\"load\",\"id\":7,\"model\":\"m\",\"params\":{\"pin\":true,\"pin\":true}}", BAD_REQUEST,
         "\"pin\" appears twice", 56, ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"5\":1,\"5\":2}}", BAD_REQUEST, "\"5\" appears twice", 59, ID7},
    };

    EXPECT_ALL(cases);
}

static void unknown_fields_with_advice(void **state)
{
    static const struct refused cases[] = {
        {G "\"max_token\":5,\"prompt\":\"\"}", BAD_REQUEST,
         "generate: unknown field \"max_token\"; did you mean \"max_tokens\"?", NO_OFFSET, ID7},
        {G "\"Seed\":5,\"prompt\":\"\"}", BAD_REQUEST, "did you mean \"seed\"?", NO_OFFSET, ID7},
        {G "\"resume\":{},\"prompt\":\"\"}", BAD_REQUEST, "unknown field \"resume\"", NO_OFFSET, ID7},
        {G "\"resum\":{},\"prompt\":\"\"}", BAD_REQUEST, "unknown field \"resum\"", NO_OFFSET, ID7},
        {G "\"\":{},\"prompt\":\"\"}", BAD_REQUEST, "unknown field \"\"", NO_OFFSET, ID7},
        {G "\"a_name_that_is_longer_than_any_field_name_may_be\":{}}", BAD_REQUEST,
         "unknown field \"a_name_that_is_longer_than_any_field_nam...\"", NO_OFFSET, ID7},
        {"{\"type\":\"load\",\"id\":7,\"model\":\"m\",\"params\":{\"ctx\":1}}", BAD_REQUEST,
         "load.params: unknown field \"ctx\"", NO_OFFSET, ID7},
        {G "\"messages\":[{\"role\":\"a\",\"content\":\"b\"},{\"role\":\"a\",\"content\":\"b\",\"names\":\"c\"}]}",
         BAD_REQUEST, "generate.messages[1]: unknown field \"names\"; did you mean \"name\"?", NO_OFFSET, ID7},
    };
    struct halo_refusal refusal;
    struct halo_msg msg;

    EXPECT_ALL(cases);
    /* The advice does not give away what only halod may send. */
    assert_int_equal(halo_msg_decode(&msg, cases[3].line, strlen(cases[3].line), HALO_ROLE_CLIENT, &refusal), 1);
    assert_null(strstr(refusal.message, "did you mean"));
    assert_int_equal(halo_msg_decode(&msg, cases[3].line, strlen(cases[3].line), HALO_ROLE_LINK, &refusal), 1);
    assert_non_null(strstr(refusal.message, "did you mean \"resume\"?"));
    assert_int_equal(halo_msg_decode(&msg, "{\"type\":\"paus\"}", 15, HALO_ROLE_CLIENT, &refusal), 1);
    assert_null(strstr(refusal.message, "pause"));
    assert_int_equal(halo_msg_decode(&msg, "{\"type\":\"paus\"}", 15, HALO_ROLE_LINK, &refusal), 1);
    assert_non_null(strstr(refusal.message, "did you mean \"pause\"?"));
}

#define T "{\"type\":\"template\",\"id\":7,\"model\":\"m\",\"messages\":"
#define CALL(call) T "[{\"role\":\"assistant\",\"tool_calls\":[" call "]}]}"

static void conversations(void **state)
{
    static const struct refused cases[] = {
        {T "[{\"role\":\"user\"}]}", BAD_REQUEST, "template.messages[0]: field \"content\" is required", NO_OFFSET,
         ID7},
        {G "\"messages\":[{\"role\":\"u\",\"content\":\"\"},{\"role\":\"tool\",\"name\":\"f\"}]}", BAD_REQUEST,
         "generate.messages[1]: field \"content\" is required", NO_OFFSET, ID7},
        {T "[{\"role\":\"user\",\"content\":{}}]}", BAD_REQUEST,
         "template.messages[0].content: expected a string, an array of parts or null, got an object", NO_OFFSET, ID7},
        {T "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"text\":\"\"}]}]}", BAD_REQUEST,
         "template.messages[0].content[0].type: \"image\" is not one of text", NO_OFFSET, ID7},
        {T "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},\"x\"]}]}", BAD_REQUEST,
         "template.messages[0].content[1]: expected an object, got a string", NO_OFFSET, ID7},
        {T "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", BAD_REQUEST,
         "template.messages[0].content[0]: field \"text\" is required", NO_OFFSET, ID7},
        {CALL("{\"name\":\"f\"}"), BAD_REQUEST, "template.messages[0].tool_calls[0]: unknown field \"name\"", NO_OFFSET,
         ID7},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":[]}}"), BAD_REQUEST,
         "tool_calls[0].function.arguments: expected an object or a string, got an array", NO_OFFSET, ID7},
        {CALL("{\"type\":\"tool\",\"function\":{\"name\":\"f\",\"arguments\":{}}}"), BAD_REQUEST,
         "\"tool\" is not one of function", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"tools\":[]}", BAD_REQUEST, "generate: tools is for messages", NO_OFFSET, ID7},
        {G "\"tokens\":[1],\"template_vars\":{}}", BAD_REQUEST, "generate: template_vars is for messages", NO_OFFSET,
         ID7},
        {T "[{\"role\":\"u\",\"content\":\"\"}],\"tools\":[{},1]}", BAD_REQUEST,
         "template.tools[1]: expected an object, got an integer", NO_OFFSET, ID7},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":" OPEN_59 "1" CLOSE_59 "}}}"), BAD_REQUEST,
         "nested more than 65 levels deep", 183, ID7},
    };

    EXPECT_ALL(cases);
}

static void expect_sent_on(const char *line, const char *as)
{
    struct halo_refusal refusal;
    struct halo_json w;
    struct halo_msg msg;

    halo_json_init(&w);
    if (halo_msg_decode(&msg, line, strlen(line), HALO_ROLE_CLIENT, &refusal) != 0)
        fail_msg("%s", refusal.message);
    assert_int_equal(halo_msg_encode(&w, &msg), 0);
    w.at[w.len - 1] = '\0';
    assert_string_equal(w.at, as);
    halo_msg_finish(&msg);
    halo_json_finish(&w);
}

/* What is free-form comes back as it was: order, numbers with a fraction, escapes; and nothing is taken for content. */
static void free_form_is_kept(void **state)
{
    static const char *const lines[] = {
        CALL("{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"z\":2.0,\"a\":2,\"m\":"
             "[1e+22,-0.0,\"\\u0001\"]}}}"),
        CALL("{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"z\\\": 1}\"}}"),
        CALL("{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":" OPEN_58 "1" CLOSE_58 "}}}"),
        T "[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{\"a\":" OPEN_58 OPEN_4 CLOSE_4 CLOSE_58 "}]}",
        T "[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{\"maximum\":18446744073709551615,"
          "\"minimum\":-9223372036854775809,\"enum\":[9223372036854775808,1" TENS TENS TENS TENS TENS ",-1" TENS TENS
          "]}]}",
        T "[{\"role\":\"assistant\",\"content\":null},{\"role\":\"assistant\",\"reasoning_content\":\"\"},"
          "{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\",\"content\":[]},"
          "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}],\"name\":\"f\",\"tool_call_id\":\"a\"}],"
          "\"tools\":[{\"b\":1,\"a\":{\"type\":\"id\"}}],\"template_vars\":{\"messages\":[],\"id\":2}}",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_sent_on(lines[i], lines[i]);
}

/* What clients write that fill in every field they know: null where they have nothing, which is what is sent on. */
static void nulls_of_a_message_are_absent(void **state)
{
    static const struct {
        const char *sent, *meant;
    } lines[] = {
        {T "[{\"role\":\"user\",\"content\":\"a\",\"name\":null,\"tool_call_id\":null,\"tool_calls\":null,"
           "\"reasoning_content\":null,\"reasoning\":null,\"thinking\":null,\"tool_plan\":null}]}",
         T "[{\"role\":\"user\",\"content\":\"a\"}]}"},
        {T "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":null,\"type\":null,"
           "\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]}",
         T "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
           "\"arguments\":{}}}]}]}"},
    };
    static const struct refused cases[] = {
        {T "[{\"role\":null,\"content\":\"\"}]}", BAD_REQUEST, "template.messages[0].role: expected a string, got null",
         NO_OFFSET, ID7},
        {T "[{\"role\":\"assistant\",\"tool_calls\":null}]}", BAD_REQUEST,
         "template.messages[0]: field \"content\" is required", NO_OFFSET, ID7},
        {T "[{\"role\":\"assistant\",\"tool_plan\":null}]}", BAD_REQUEST,
         "template.messages[0]: field \"content\" is required", NO_OFFSET, ID7},
        {T "null}", BAD_REQUEST, "template.messages: expected an array, got null", NO_OFFSET, ID7},
        {CALL("{\"function\":null}"), BAD_REQUEST, "tool_calls[0].function: expected an object, got null", NO_OFFSET,
         ID7},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":null}}"), BAD_REQUEST,
         "function.arguments: expected an object or a string, got null", NO_OFFSET, ID7},
        {T "[{\"role\":\"u\",\"content\":\"\"}],\"tools\":null}", BAD_REQUEST,
         "template.tools: expected an array, got null", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"stop\":null}", BAD_REQUEST, "generate.stop: expected an array, got null", NO_OFFSET, ID7},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_sent_on(lines[i].sent, lines[i].meant);
    EXPECT_ALL(cases);
}

/* What clients write that know other servers: taken where it says nothing, and not sent on; refused with a way out
 * otherwise. */
static void fields_of_other_servers(void **state)
{
    static const struct {
        const char *sent, *meant;
    } lines[] = {
        {T "[{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null,\"audio\":null,\"function_call\":null,"
           "\"annotations\":[],\"documents\":[]}],\"documents\":null}",
         T "[{\"role\":\"assistant\",\"content\":\"a\"}]}"},
        {CALL("{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":{}}}"),
         CALL("{\"function\":{\"name\":\"f\",\"arguments\":{}}}")},
        {CALL("{\"index\":null,\"function\":{\"name\":\"f\",\"arguments\":{}}}"),
         CALL("{\"function\":{\"name\":\"f\",\"arguments\":{}}}")},
        {G "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"documents\":[]}",
         G "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"},
    };
    static const struct refused cases[] = {
        {T "[{\"role\":\"a\",\"content\":\"\",\"refusal\":\"no\"}]}", BAD_REQUEST,
         "template.messages[0].refusal: expected null, got a string; send its text as `content`", NO_OFFSET, ID7},
        {T "[{\"role\":\"a\",\"content\":\"\",\"audio\":{\"id\":\"x\"}}]}", BAD_REQUEST,
         "messages[0].audio: expected null, got an object; audio is not supported", NO_OFFSET, ID7},
        {T "[{\"role\":\"a\",\"function_call\":{\"name\":\"f\"}}]}", BAD_REQUEST,
         "messages[0].function_call: expected null, got an object; send it as an entry of `tool_calls`", NO_OFFSET,
         ID7},
        {CALL("{\"index\":\"0\",\"function\":{\"name\":\"f\",\"arguments\":{}}}"), BAD_REQUEST,
         "tool_calls[0].index: expected null, got a string", NO_OFFSET, ID7},
        {G "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"documents\":[{\"text\":\"t\"}]}", BAD_REQUEST,
         "generate.documents: expected null, got an array; documents are not supported", NO_OFFSET, ID7},
        /* It is no message for that. */
        {T "[{\"role\":\"a\",\"refusal\":null}]}", BAD_REQUEST, "field \"content\" is required", NO_OFFSET, ID7},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_sent_on(lines[i].sent, lines[i].meant);
    EXPECT_ALL(cases);
}

static void numbers_out_of_range(void **state)
{
    static const struct refused cases[] = {
        {G "\"prompt\":\"\",\"seed\":9223372036854775808}", BAD_REQUEST,
         "generate.seed: 9223372036854775808 is out of range 0 to 9223372036854775807", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"seed\":-9223372036854775809}", BAD_REQUEST, "generate.seed: -9223372036854775809 is out",
         NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"top_k\":18446744073709551616}", BAD_REQUEST, "top_k: 18446744073709551616 is out",
         NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"top_p\":18446744073709551616}", BAD_REQUEST,
         "top_p: 1.8446744073709552e+19 is out of range", NO_OFFSET, ID7},
        {G "\"prompt\":18446744073709551616}", BAD_REQUEST, "expected a string, got an integer beyond 64 bits",
         NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"stream\":18446744073709551616}", BAD_REQUEST,
         "expected true or false, got an integer beyond 64 bits", NO_OFFSET, ID7},
        {"{\"type\":18446744073709551616,\"id\":7}", BAD_REQUEST, "field \"type\" must be a string", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"seed\":111111111111111111111111111111111111111122}", BAD_REQUEST,
         "generate.seed: 1111111111111111111111111111111111111111... is out of range", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"seed\":-1}", BAD_REQUEST, "generate.seed: -1 is out of range 0 to 9223372036854775807",
         NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"seed\":1.0}", BAD_REQUEST, "generate.seed: expected an integer, got a number", NO_OFFSET,
         ID7},
        {G "\"prompt\":\"\",\"top_p\":1e999}", BAD_REQUEST, "field \"top_p\": the number", 46, ID7},
        {G "\"prompt\":\"\",\"top_p\":-1e999}", BAD_REQUEST, "field \"top_p\": the number", 46, ID7},
        {G "\"prompt\":\"\",\"top_p\":1.01}", BAD_REQUEST, "generate.top_p: 1.01 is out of range 0 to 1", NO_OFFSET,
         ID7},
        {G "\"tokens\":[1,2,99999999999999999999]}", BAD_REQUEST,
         "generate.tokens[2]: 99999999999999999999 is out of range", NO_OFFSET, ID7},
        {G "\"tokens\":[1,2147483648]}", BAD_REQUEST, "generate.tokens[1]: 2147483648 is out of range", NO_OFFSET, ID7},
        {G "\"tokens\":[1,-1]}", BAD_REQUEST, "generate.tokens[1]: -1 is out of range", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"5\":10001}}", BAD_REQUEST,
         "generate.logit_bias.5: 10001 is out of range -10000 to 10000", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"2147483648\":1}}", BAD_REQUEST, "the key is out of range", NO_OFFSET,
         ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"05\":1}}", BAD_REQUEST, "not a token id", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"x\":1}}", BAD_REQUEST, "not a token id", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"logit_bias\":{\"\":1}}", BAD_REQUEST, "not a token id", NO_OFFSET, ID7},
        {G "\"prompt\":\"\",\"stop\":[\"a\",\"\"]}", BAD_REQUEST, "generate.stop[1]: must not be empty", NO_OFFSET,
         ID7},
        {G "\"prompt\":\"\",\"max_tokens\":0}", BAD_REQUEST, "generate.max_tokens: 0 is out of range 1 to", NO_OFFSET,
         ID7},
    };

    EXPECT_ALL(cases);
}

static void choices(void **state)
{
    static const struct refused cases[] = {
        {G "\"top_k\":5}", BAD_REQUEST, "exactly one of prompt, messages and tokens is needed, 0 are there", NO_OFFSET,
         ID7},
        {G "\"prompt\":\"\",\"tokens\":[]}", BAD_REQUEST, "2 are there", NO_OFFSET, ID7},
        {"{\"type\":\"score\",\"id\":7,\"model\":\"m\"}", BAD_REQUEST, "one of tokens and text", NO_OFFSET, ID7},
        {"{\"type\":\"plan\",\"id\":7,\"model\":\"m\",\"path\":\"p\"}", BAD_REQUEST, "one of model and path", NO_OFFSET,
         ID7},
        {"{\"type\":\"load\",\"id\":7,\"model\":\"m\",\"params\":{\"kv\":\"f64\"}}", BAD_REQUEST,
         "load.params.kv: \"f64\" is not one of f32, f16, q8, q4", NO_OFFSET, ID7},
    };

    EXPECT_ALL(cases);
}

/* n_open brackets around nothing, as a field of a request. */
static char *nested(size_t n_open, char open, char close)
{
    char *line = malloc(100 + 8 * n_open), *at = line;

    if (!line)
        abort(); /* cmocka's asserts do not tell the compiler that they end */
    at += sprintf(at, "{\"type\":\"ping\",\"id\":7,\"x\":");
    for (size_t i = 0; i < n_open; i++)
        at += sprintf(at, open == '{' && i > 0 ? "\"a\":%c" : "%c", open);
    for (size_t i = 0; i < n_open; i++)
        *at++ = close;
    strcpy(at, "}");
    return line;
}

static void deep_nesting(void **state)
{
    static const char brackets[2][2] = {{'[', ']'}, {'{', '}'}};

    for (int i = 0; i < 2; i++) {
        char *fits = nested(HALO_LIMIT_DEPTH - 1, brackets[i][0], brackets[i][1]);
        char *deep = nested(HALO_LIMIT_DEPTH, brackets[i][0], brackets[i][1]);
        char *abyss = nested(1000000, brackets[i][0], brackets[i][1]);
        struct refused c = {fits, BAD_REQUEST, "unknown field \"x\"", NO_OFFSET, ID7};

        expect_refusal(&c, strlen(fits));
        c = (struct refused){deep, BAD_REQUEST, "nested more than 65 levels deep", 0, ID7};
        c.offset = (size_t)(strrchr(deep, brackets[i][0]) - deep);
        expect_refusal(&c, strlen(deep));
        c.line = abyss;
        expect_refusal(&c, strlen(abyss));
        free(fits);
        free(deep);
        free(abyss);
    }
}

/* Lines that are small but would be large in memory. */
static void too_many_values(void **state)
{
    const size_t n = 2u << 20;
    char *line = malloc(2 * n + 100), *at;
    struct refused c = {line, BAD_REQUEST, "more than 1048576 values", 0, ID7};

    for (int i = 0; i < 3; i++) {
        static const char *const item[] = {"1,", "[],", "\"\":1,"};

        at = stpcpy(line, "{\"type\":\"detokenize\",\"id\":7,\"model\":\"m\",\"tokens\":");
        *at++ = i == 2 ? '{' : '[';
        /* The object, three fields and the list are values too; the object and the list are containers;
         * the fields have keys. */
        c.offset = (size_t)(at - line) + (i == 0   ? 2 * (HALO_LIMIT_VALUES - 5)
                                          : i == 1 ? 3 * (HALO_LIMIT_CONTAINERS - 2)
                                                   : 5 * (HALO_LIMIT_KEYS - 4) + 1);
        for (size_t k = 0; k < n / strlen(item[i]); k++)
            at = stpcpy(at, item[i]);
        at[-1] = i == 2 ? '}' : ']';
        strcpy(at, "}");
        expect_refusal(&c, strlen(line));
    }
    free(line);
}

#define E8 "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"

/* What is put into a message is put into an answer: always one line of valid JSON, under the id. */
static void answers_are_lines(void **state)
{
    static const char *const lines[] = {
        "{\"type\":\"\\\"\\n\\ud83e\\udd8a\",\"id\":\"\\u0001\\\"\"}",
        "{\"type\":\"ping\",\"id\":\"x\",\"\\n\\\"\\\\aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xF0\x9F\xA6\x8A\":1}",
        "{\"id\":5,\"type\":\"" E8 E8 "\xC3\xA9\xC3\xA9\xC3\xA9x\xC3\xA9\"}",
        "{\"id\":5,\"type\":\"ping\",\"a\":\"\xFF\"}",
        "nonsense",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct halo_refusal refusal;
        struct halo_json w;
        struct halo_msg msg;
        struct halo_ev ev;
        struct halo_id id;

        halo_json_init(&w);
        assert_int_equal(halo_msg_decode(&msg, lines[i], strlen(lines[i]), HALO_ROLE_CLIENT, &refusal), 1);
        id = halo_refusal_id(&refusal);
        assert_int_equal(id.kind, i < 2 ? HALO_ID_STR : i < 4 ? HALO_ID_INT : HALO_ID_NONE);
        assert_int_equal(halo_refusal_encode(&w, &refusal), 0);
        assert_ptr_equal(memchr(w.at, '\n', w.len), w.at + w.len - 1);
        assert_int_equal(halo_ev_decode(&ev, w.at, w.len - 1, HALO_EV_STRICT, &(struct halo_refusal){0}), 0);
        assert_int_equal(ev.type, HALO_EV_ERROR);
        assert_int_equal(ev.error.code, refusal.code);
        assert_int_equal(ev.error.retryable, halo_error_retryable(refusal.code));
        assert_int_equal(ev.error.has_detail, refusal.code == BAD_JSON);
        assert_true(halo_id_equal(&ev.id, &id));
        assert_null(strstr(refusal.message, "\xEF\xBF\xBD"));
        halo_ev_finish(&ev);
        halo_json_finish(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_json),
        cmocka_unit_test(not_utf8),
        cmocka_unit_test(embedded_nul),
        cmocka_unit_test(late_ids),
        cmocka_unit_test(not_a_request),
        cmocka_unit_test(bad_ids),
        cmocka_unit_test(doubled_fields),
        cmocka_unit_test(unknown_fields_with_advice),
        cmocka_unit_test(conversations),
        cmocka_unit_test(free_form_is_kept),
        cmocka_unit_test(nulls_of_a_message_are_absent),
        cmocka_unit_test(fields_of_other_servers),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(choices),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(too_many_values),
        cmocka_unit_test(answers_are_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
