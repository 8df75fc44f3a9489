/* test_envelope.c: type and id of a line without decoding it, and the line with another id. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/envelope.h>
#include <protocol/message.h>

static void expect_envelope(const char *line, const char *type, struct halo_id id)
{
    char buf[HALO_ID_BUF_BYTES];
    struct halo_envelope env;
    struct halo_id got;

    assert_int_equal(halo_envelope_scan(line, strlen(line), &env), 0);
    assert_int_equal(env.type.len, strlen(type));
    assert_memory_equal(line + env.type.at, type, env.type.len);
    got = halo_envelope_id(line, &env, buf);
    assert_true(halo_id_equal(&got, &id));
}

static void reads_type_and_id(void **state)
{
    char longest[200] = "{\"type\":\"x\",\"id\":\"";

    expect_envelope("{\"type\":\"token\",\"id\":12,\"text\":\"\\\"id\\\":13\"}", "token", halo_id_of(12));
    expect_envelope(" { \"id\" : \"a\\u00e9\\n\" , \"type\" : \"x\" } \r", "x",
                    halo_id_of_str(halo_str_of("a\xC3\xA9\n")));
    expect_envelope("{\"x\":{\"id\":1,\"type\":\"no\"},\"type\":\"yes\",\"id\":-9223372036854775808}", "yes",
                    halo_id_of(INT64_MIN));
    expect_envelope("{\"type\":\"x\",\"id\":9223372036854775807}", "x", halo_id_of(INT64_MAX));
    expect_envelope("{\"\\u0069d\":5,\"t\\u0079pe\":\"x\"}", "x", halo_id_of(5)); /* escaped keys are the same keys */
    expect_envelope("{}", "", (struct halo_id){0});
    memset(longest + 18, 'i', 128);
    strcpy(longest + 18 + 128, "\"}");
    expect_envelope(longest, "x", halo_id_of_str((struct halo_str){longest + 18, 128}));
}

static void ids_that_are_none(void **state)
{
    static const char *const ids[] = {"null", "1.5",  "1e3", "9223372036854775808", "-9223372036854775809", "[1]",
                                      "{}",   "true", "\"\""};
    char line[300];
    struct halo_envelope env;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int n = snprintf(line, sizeof line, "{\"type\":\"x\",\"id\":%s}", ids[i]);

        assert_int_equal(halo_envelope_scan(line, (size_t)n, &env), 0);
        assert_int_equal(env.id_kind, HALO_ID_NONE);
        assert_int_equal(env.id.len, strlen(ids[i]));
    }
    memset(line, 'i', sizeof line);
    memcpy(line, "{\"id\":\"", 7);
    memcpy(line + 7 + 129, "\"}", 3);
    assert_int_equal(halo_envelope_scan(line, strlen(line), &env), 0);
    assert_int_equal(env.id_kind, HALO_ID_NONE);
}

static void broken_lines_keep_what_was_read(void **state)
{
    static const struct {
        const char *line;
        size_t bad_at;
        enum halo_id_kind kind;
    } cases[] = {
        {"", 0, HALO_ID_NONE},
        {"{\"id\":7,\"text\":\"cut sho", 23, HALO_ID_INT},
        {"{\"id\":7,\"text\":tru}", 15, HALO_ID_INT},
        {"{\"id\":\"a\"} {", 11, HALO_ID_STR},
        {"{\"id\":7,}", 8, HALO_ID_INT},
        {"{\"id\":7 \"b\":1}", 8, HALO_ID_INT},
        {"{\"id\":1,\"id\":2}", 9, HALO_ID_INT},
        {"{\"type\":\"a\",\"type\":\"b\"}", 13, HALO_ID_NONE},
        {"[1]", 0, HALO_ID_NONE},
        {"{\"id\":01}", 6, HALO_ID_NONE},
        {"{\"a\":\"\xC3\"}", 6, HALO_ID_NONE},
        {"{\"a\":-}", 6, HALO_ID_NONE},
        {"{\"a\":1.}", 7, HALO_ID_NONE},
        {"{\"a\":1e+}", 8, HALO_ID_NONE},
        {"{\"a\":\"\\x\"}", 6, HALO_ID_NONE},
        {"{\"a\":\"\\u12g4\"}", 6, HALO_ID_NONE},
        {"{\"a\":\"\\ud800\"}", 6, HALO_ID_NONE},
        {"{\"a\":\"\\udc00\\ud800\"}", 6, HALO_ID_NONE},
        {"{\"a\":\"\\ud800\\u0041\"}", 6, HALO_ID_NONE},
        {"{\"a\":\"\t\"}", 6, HALO_ID_NONE},
        {"{1:2}", 1, HALO_ID_NONE},
        {"{\"a\"}", 4, HALO_ID_NONE},
        {"{\"a\":[1 2]}", 8, HALO_ID_NONE},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct halo_envelope env;

        assert_int_equal(halo_envelope_scan(cases[i].line, strlen(cases[i].line), &env), HALO_ENVELOPE_E_BAD);
        assert_int_equal(env.bad_at, cases[i].bad_at);
        assert_int_equal(env.id_kind, cases[i].kind);
    }
}

static void expect_rewrite(const char *line, struct halo_id id, const char *wanted)
{
    struct halo_envelope env;
    struct halo_json w;

    halo_json_init(&w);
    assert_int_equal(halo_envelope_scan(line, strlen(line), &env), 0);
    assert_int_equal(halo_envelope_rewrite(&w, line, &env, &id), 0);
    assert_int_equal(w.len, strlen(wanted));
    assert_memory_equal(w.at, wanted, w.len);
    assert_int_equal(halo_envelope_scan(w.at, w.len, &env), 0);
    halo_json_finish(&w);
}

static void rewrites_the_id_alone(void **state)
{
    expect_rewrite("{\"type\":\"a\",\"id\":\"x\\\"y\",\"f\":1.50}", halo_id_of(77),
                   "{\"type\":\"a\",\"id\":77,\"f\":1.50}\n");
    expect_rewrite(" {\"id\":1}", halo_id_of_str(halo_str_of("q\"")), "{\"id\":\"q\\\"\"}\n");
    expect_rewrite("{\"id\":1, \"a\":[{}] }", (struct halo_id){0}, "{\"id\":null, \"a\":[{}] }\n");
    expect_rewrite("{\"type\":\"ping\"}", halo_id_of(5), "{\"id\":5,\"type\":\"ping\"}\n");
    expect_rewrite("{}", halo_id_of(5), "{\"id\":5}\n");
    expect_rewrite("{ \t}", halo_id_of(5), "{\"id\":5}\n");
    expect_rewrite("{\"a\":\r1,\"id\":[1,2]}", halo_id_of(5), "{\"a\": 1,\"id\":5}\n");
}

static void adds_fields(void **state)
{
    static const int32_t tokens[] = {5, 6};
    static const char *const lines[] = {
        "{\"type\":\"generate\",\"id\":\"c1\",\"prompt\":\"once\",\"top_k\":1}",
        "{\"id\":\"c1\",\"type\":\"generate\",\"prompt\":\"once\",\"top_k\":1 }",
        "{\"type\":\"generate\",\"prompt\":\"once\",\"top_k\":1,\"id\":\"c1\"}",
    };
    struct halo_part_resume resume = {.tokens = {tokens, 2}, .bytes_sent = 9, .seed = 3, .elapsed_ms = 1.5};

    resume.started = true;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct halo_id id = halo_id_of(900 + (int64_t)i);
        struct halo_envelope env;
        struct halo_refusal refusal;
        struct halo_json w;
        struct halo_msg msg;

        halo_json_init(&w);
        assert_int_equal(halo_envelope_scan(lines[i], strlen(lines[i]), &env), 0);
        halo_envelope_rewrite_begin(&w, lines[i], &env, &id);
        halo_json_key(&w, "seed");
        halo_json_i64(&w, 3);
        halo_json_key(&w, "resume");
        halo_resume_write(&w, &resume);
        assert_int_equal(halo_envelope_rewrite_end(&w), 0);
        assert_int_equal(halo_msg_decode(&msg, w.at, w.len - 1, HALO_ROLE_LINK, &refusal), 0);
        assert_true(halo_id_equal(&msg.id, &id));
        assert_true(msg.generate.has_seed && msg.generate.seed == 3 && msg.generate.top_k == 1);
        assert_true(msg.generate.has_resume && msg.generate.resume.started);
        assert_int_equal(msg.generate.resume.tokens.n, 2);
        assert_int_equal(msg.generate.resume.tokens.at[1], 6);
        halo_msg_finish(&msg);
        halo_json_finish(&w);
    }
}

static void a_full_buffer_leaves_nothing_behind(void **state)
{
    static const char line[] = "{\"type\":\"a\",\"id\":1,\"text\":\"more than fits\"}";
    struct halo_id id = halo_id_of(2);
    struct halo_envelope env;
    struct halo_json w;
    char buf[sizeof line];

    assert_int_equal(halo_envelope_scan(line, sizeof line - 1, &env), 0);
    for (size_t cap = 0; cap < sizeof line; cap++) {
        halo_json_init_fixed(&w, buf, cap);
        assert_int_equal(halo_envelope_rewrite(&w, line, &env, &id), -ENOSPC);
        assert_int_equal(w.len, 0);
        assert_int_equal(w.error, 0);
    }
    halo_json_init_fixed(&w, buf, sizeof line);
    assert_int_equal(halo_envelope_rewrite(&w, line, &env, &id), 0);
}

static void finds_fields_in_the_same_pass(void **state)
{
    static const char line[] = " {\"a\":{\"tok_id\":9},\"none\":null,\"tok_id\":1,\"type\":\"x\",\"t\\u006fk_id\":-42,"
                               "\"big\":9223372036854775808,"
                               "\"real\":1.0,\"id\":7,\"text\":\"\\u20ac\\n\\ud83e\\udd8a\xC3\xA9\"}";
    enum { TOK_ID, BIG, REAL, TEXT, NONE, MISSING, ID };
    struct halo_envelope_field fields[] = {{"tok_id"}, {"big"}, {"real"}, {"text"}, {"none"}, {"missing"}, {"id"}};
    struct halo_envelope env, plain;
    int64_t value = 0;
    double number = 0;
    size_t bytes = 0;

    fields[MISSING].value.len = 3; /* of a line before */
    assert_int_equal(halo_envelope_scan_fields(line, sizeof line - 1, &env, fields, 7), 0);
    assert_int_equal(halo_envelope_scan(line, sizeof line - 1, &plain), 0);
    assert_memory_equal(&env, &plain, sizeof env);
    assert_int_equal(env.id_num, 7);
    assert_true(halo_envelope_i64(line, fields[ID].value, &value) && value == 7);
    assert_true(halo_envelope_i64(line, fields[TOK_ID].value, &value)); /* the last one, and none of an inner object */
    assert_int_equal(value, -42);
    assert_false(halo_envelope_i64(line, fields[BIG].value, &value));
    assert_false(halo_envelope_i64(line, fields[REAL].value, &value));
    assert_false(halo_envelope_i64(line, fields[TEXT].value, &value));
    assert_false(halo_envelope_i64(line, fields[MISSING].value, &value));
    assert_true(halo_envelope_f64(line, fields[REAL].value, &number));
    assert_true(number == 1);
    assert_true(halo_envelope_f64(line, fields[TOK_ID].value, &number));
    assert_true(number == -42);
    assert_false(halo_envelope_f64(line, fields[TEXT].value, &number));
    assert_false(halo_envelope_f64(line, fields[NONE].value, &number));
    assert_false(halo_envelope_f64(line, fields[MISSING].value, &number));
    assert_true(halo_envelope_str_bytes(line, fields[TEXT].value, &bytes));
    assert_int_equal(bytes, 3 + 1 + 4 + 2);
    assert_false(halo_envelope_str_bytes(line, fields[TOK_ID].value, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_type_and_id),
        cmocka_unit_test(ids_that_are_none),
        cmocka_unit_test(broken_lines_keep_what_was_read),
        cmocka_unit_test(rewrites_the_id_alone),
        cmocka_unit_test(adds_fields),
        cmocka_unit_test(a_full_buffer_leaves_nothing_behind),
        cmocka_unit_test(finds_fields_in_the_same_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
