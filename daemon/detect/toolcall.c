/* toolcall.c: the detector of tool calls: what models write when they call a tool, in four manners.
 *
 *   Hermes    <tool_call>{"name": N, "arguments": {...}}</tool_call>
 *   Qwen      <tool_call><function=N><parameter=P>value</parameter></function></tool_call>
 *   Mistral   [TOOL_CALLS][{"name": N, "arguments": {...}}, ...] or [TOOL_CALLS]N[ARGS]{...}
 *   Llama     <|python_tag|>{"name": N, "parameters": {...}}, or such an object as the whole reply
 *
 * A call must be complete and well-formed. With declared tools its name must be one of them, the required arguments
 * must be there, and each argument must be declared and of its type. Any thread; no memory.
 */
#include <string.h>

#include "detect_priv.h"
#include "json_priv.h"

struct look {
    struct halo_text tools; /* n 0: none declared */
    struct halo_finding *ret;
    size_t n_calls;
};

static struct halo_text trim(struct halo_text text)
{
    while (text.n > 0 && strchr(" \t\r\n", text.at[0]) && text.at[0])
        text = (struct halo_text){text.at + 1, text.n - 1};
    while (text.n > 0 && strchr(" \t\r\n", text.at[text.n - 1]) && text.at[text.n - 1])
        text.n--;
    return text;
}

static bool is(struct halo_text a, struct halo_text b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

static struct halo_text unquoted(struct halo_text text)
{
    return text.n >= 2 && text.at[0] == '"' ? (struct halo_text){text.at + 1, text.n - 2} : text;
}

/* The `parameters` of the tool; false: it is not declared. */
static bool find_tool(struct halo_text tools, struct halo_text name, struct halo_text *ret_schema)
{
    struct halo_text tool, function, declared;
    for (size_t at = 0; halo_text_next(tools, &at, &tool);) {
        if (!halo_text_member(tool, "function", &function))
            function = tool;
        if (halo_text_member(function, "name", &declared) && is(unquoted(declared), name)) {
            if (!halo_text_member(function, "parameters", ret_schema))
                *ret_schema = (struct halo_text){"{}", 2};
            return true;
        }
    }
    return false;
}

static bool has_type(struct halo_text value, struct halo_text type)
{
    static const struct {
        const char *type, *first;
    } rows[] = {{"string", "\""},  {"object", "{"},           {"array", "["},
                {"boolean", "tf"}, {"number", "-0123456789"}, {"integer", "-0123456789"},
                {"null", "n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(unquoted(type), (struct halo_text){rows[i].type, strlen(rows[i].type)}))
            return strchr(rows[i].first, value.at[0]) != NULL;
    return true; /* unions and what else a schema may say are not judged */
}

static void check_arguments(struct look *look, struct halo_text name, struct halo_text schema,
                            struct halo_text arguments)
{
    struct halo_text required, key, value, properties, property, type;
    if (halo_text_member(schema, "required", &required))
        for (size_t at = 0; halo_text_next(required, &at, &key);) {
            char text[128];
            key = unquoted(key);
            if (key.n >= sizeof text)
                continue;
            memcpy(text, key.at, key.n);
            text[key.n] = '\0';
            if (!halo_text_member(arguments, text, &value))
                halo_find(look->ret, HALO_VERDICT_FAIL, "the call of %.*s lacks \"%s\"",
                          (int)(name.n < 60 ? name.n : 60), name.at, text);
        }
    if (!halo_text_member(schema, "properties", &properties))
        return;
    for (size_t at = 0; halo_text_next(arguments, &at, &key) && halo_text_next(arguments, &at, &value);) {
        char text[128];
        key = unquoted(key);
        if (key.n >= sizeof text || look->ret->verdict == HALO_VERDICT_FAIL)
            continue;
        memcpy(text, key.at, key.n);
        text[key.n] = '\0';
        if (!halo_text_member(properties, text, &property))
            halo_find(look->ret, HALO_VERDICT_WARN, "\"%s\" is not an argument of %.*s", text,
                      (int)(name.n < 60 ? name.n : 60), name.at);
        else if (halo_text_member(property, "type", &type) && !has_type(value, type))
            halo_find(look->ret, HALO_VERDICT_FAIL, "\"%s\" of %.*s is %.20s, not %.*s", text,
                      (int)(name.n < 60 ? name.n : 60), name.at, value.at, (int)type.n, type.at);
    }
}

static void check_call(struct look *look, struct halo_text name, struct halo_text arguments)
{
    struct halo_text schema;
    look->n_calls++;
    if (look->tools.n == 0)
        return;
    if (!find_tool(look->tools, name, &schema))
        halo_find(look->ret, HALO_VERDICT_FAIL, "%.*s is called, which is not declared",
                  (int)(name.n < 60 ? name.n : 60), name.at);
    else if (arguments.n > 0)
        check_arguments(look, name, schema, arguments);
}

static void check_json(struct look *look, struct halo_text call)
{
    struct halo_text name, arguments;
    call = trim(call);
    if (!halo_text_is_object(call)) {
        halo_find(look->ret, HALO_VERDICT_FAIL, "a call is not a JSON object: %.*s", (int)(call.n < 60 ? call.n : 60),
                  call.at);
        return;
    }
    if (!halo_text_member(call, "name", &name) || name.at[0] != '"') {
        halo_find(look->ret, HALO_VERDICT_FAIL, "a call without a \"name\"");
        return;
    }
    if (!halo_text_member(call, "arguments", &arguments) && !halo_text_member(call, "parameters", &arguments)) {
        halo_find(look->ret, HALO_VERDICT_FAIL, "a call without \"arguments\"");
        return;
    }
    if (arguments.at[0] != '{')
        halo_find(look->ret, HALO_VERDICT_FAIL, "the arguments of a call are not an object");
    else
        check_call(look, unquoted(name), arguments);
}

/* Qwen's manner: what stands between the tags; false when it is not written so. */
static bool check_xml(struct look *look, struct halo_text call)
{
    static const char begin[] = "<function=", end[] = "</function>";
    call = trim(call);
    if (call.n < sizeof begin - 1 || memcmp(call.at, begin, sizeof begin - 1) != 0)
        return false;
    const char *close = memchr(call.at, '>', call.n);
    size_t n_open = 0, n_close = 0;
    for (size_t at = 0; (at = halo_detect_find(call.at, call.n, at, "<parameter=")) < call.n; at++)
        n_open++;
    for (size_t at = 0; (at = halo_detect_find(call.at, call.n, at, "</parameter>")) < call.n; at++)
        n_close++;
    if (!close || halo_detect_find(call.at, call.n, 0, end) == call.n || n_open != n_close) {
        halo_find(look->ret, HALO_VERDICT_FAIL, "a call's tags do not close: %zu parameters open, %zu close", n_open,
                  n_close);
        return true;
    }
    struct halo_text name = {call.at + sizeof begin - 1, (size_t)(close - call.at) - (sizeof begin - 1)};
    check_call(look, name, (struct halo_text){NULL, 0});
    return true;
}

static void check_tagged(struct look *look, const char *text, size_t n)
{
    static const char open[] = "<tool_call>", close[] = "</tool_call>";
    for (size_t at = halo_detect_find(text, n, 0, open); at < n; at = halo_detect_find(text, n, at, open)) {
        size_t from = at + sizeof open - 1, to = halo_detect_find(text, n, from, close);
        size_t next = halo_detect_find(text, n, from, open);
        if (to == n || next < to) {
            halo_find(look->ret, HALO_VERDICT_FAIL, "the call at byte %zu does not end", at);
            return;
        }
        struct halo_text call = {text + from, to - from};
        if (!check_xml(look, call))
            check_json(look, call);
        if (look->ret->verdict == HALO_VERDICT_FAIL)
            return;
        at = to;
    }
}

static void check_mistral(struct look *look, const char *text, size_t n)
{
    static const char open[] = "[TOOL_CALLS]", args[] = "[ARGS]";
    char wrapped[8192];
    struct halo_text list, call;
    size_t at = halo_detect_find(text, n, 0, open);
    if (at == n)
        return;
    at += sizeof open - 1;
    size_t named = halo_detect_find(text, n, at, args);
    if (named < n) {
        call = trim((struct halo_text){text + named + sizeof args - 1, n - named - (sizeof args - 1)});
        if (!halo_text_is_object(call))
            halo_find(look->ret, HALO_VERDICT_FAIL, "the arguments at byte %zu are not a JSON object", named);
        else
            check_call(look, trim((struct halo_text){text + at, named - at}), call);
        return;
    }
    list = trim((struct halo_text){text + at, n - at});
    if (list.n + 8 > sizeof wrapped) {
        halo_find(look->ret, HALO_VERDICT_SKIP, "calls of %zu bytes are too long to read", list.n);
        return;
    }
    memcpy(wrapped, "{\"x\":", 5);
    memcpy(wrapped + 5, list.at, list.n);
    wrapped[5 + list.n] = '}';
    if (list.n < 2 || list.at[0] != '[' || !halo_text_is_object((struct halo_text){wrapped, list.n + 6})) {
        halo_find(look->ret, HALO_VERDICT_FAIL, "the calls at byte %zu are not a JSON list", at);
        return;
    }
    for (size_t item = 0; halo_text_next(list, &item, &call) && look->ret->verdict != HALO_VERDICT_FAIL;)
        check_json(look, call);
}

static void check_llama(struct look *look, const char *text, size_t n)
{
    static const char open[] = "<|python_tag|>";
    struct halo_text all = trim((struct halo_text){text, n}), name;
    size_t at = halo_detect_find(text, n, 0, open);
    if (at < n)
        check_json(look, (struct halo_text){text + at + sizeof open - 1, n - at - (sizeof open - 1)});
    else if (look->n_calls == 0 && all.n > 0 && all.at[0] == '{' && halo_text_is_object(all) &&
             halo_text_member(all, "name", &name) && halo_text_member(all, "parameters", &name))
        check_json(look, all);
}

void halo_look_toolcall(const struct halo_detect_reply *reply, struct halo_finding *ret)
{
    struct look look = {{reply->tools, reply->tools ? reply->n_tools : 0}, ret, 0};
    check_tagged(&look, reply->text, reply->n_text);
    if (ret->verdict != HALO_VERDICT_FAIL)
        check_mistral(&look, reply->text, reply->n_text);
    if (ret->verdict != HALO_VERDICT_FAIL)
        check_llama(&look, reply->text, reply->n_text);
    if (look.n_calls == 0 && ret->verdict == HALO_VERDICT_OK)
        halo_find(ret, HALO_VERDICT_SKIP, "no tool is called");
}
