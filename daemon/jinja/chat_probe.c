/* chat_probe.c: tries a chat template with both forms of a text and of a tool call's arguments.
 *
 * Each trial is one rendering of a small conversation with a word that is looked for in the output, under limits that
 * no honest template meets. Runs once per template, on the thread that compiles it. Fails with -ENOMEM only.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "chat_shape_priv.h"

#define WORD "Haloprobe"
#define MAX_VARS 8
#define MAX_BYTES 1024 /* of a conversation */

static const struct halo_jinja_limits limits = {
    .max_steps = 400000, .max_memory_bytes = (size_t)16 << 20, .max_output_bytes = (size_t)1 << 20, .max_time_ms = 100};

/* What became of the word. */
enum fate { FAILED, ABSENT, CODE, PLAIN }; /* CODE: it is there, inside of a repr or of JSON within JSON */

struct probe {
    const struct halo_jinja *jinja;
    struct halo_jinja_var vars[MAX_VARS];
    size_t n_vars;
};

static const char text_form[] = "\"" WORD "\"", parts_form[] = "[{\"type\": \"text\", \"text\": \"" WORD "\"}]";
static const char object_form[] = "{\"" WORD "\": \"value\"}", json_form[] = "\"{\\\"" WORD "\\\": \\\"value\\\"}\"";
static const char null_content[] = "\"content\": null, ", empty_content[] = "\"content\": \"\", ";
static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"description\": \"Looks.\", "
                            "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}]";

/* Marks of a form that was printed as code: Python's repr of a part or of an object, JSON of either, JSON in JSON. */
static const char *const content_code[] = {"'text': '" WORD, "\"text\": \"" WORD, "\"text\":\"" WORD, NULL};
static const char *const object_code[] = {"'" WORD "'", NULL}, *const json_code[] = {"\\\"" WORD, NULL};

/* All spans as one text; NULL: no memory. */
static const char *join(struct halo_arena *arena, const struct halo_chat_text *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++)
        n += text->spans[i].n;
    char *joined = halo_arena_alloc(arena, n + 1, 1);
    for (size_t i = 0, at = 0; joined && i < text->n; at += text->spans[i++].n)
        memcpy(joined + at, text->spans[i].bytes, text->spans[i].n);
    return joined;
}

static enum fate fate_in(const char *output, const char *const *code)
{
    if (!strstr(output, WORD))
        return ABSENT;
    for (; *code; code++)
        if (strstr(output, *code))
            return CODE;
    return PLAIN;
}

static unsigned count(const char *text, const char *word)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

/* Renders the conversation in JSON; with_tools: a tool is declared; ret_n_none: how often the output says "None". 0 or
 * -ENOMEM. */
static int try_counting(const struct probe *probe, const char *messages, bool with_tools, const char *const *code,
                        enum fate *ret, unsigned *ret_n_none)
{
    struct halo_arena arena;
    struct halo_jinja_var vars[MAX_VARS + 4];
    struct halo_jinja_value list, tool_list = halo_jinja_none();
    struct halo_chat_text text;
    const char *output = NULL;
    halo_arena_init(&arena, 0);
    *ret = FAILED;
    *ret_n_none = 0;
    int r = halo_jinja_json(&arena, &list, messages, strlen(messages), NULL);
    if (r == 0 && with_tools)
        r = halo_jinja_json(&arena, &tool_list, tools, sizeof(tools) - 1, NULL);
    memcpy(vars, probe->vars, probe->n_vars * sizeof(*vars));
    vars[probe->n_vars] = (struct halo_jinja_var){"messages", list};
    vars[probe->n_vars + 1] = (struct halo_jinja_var){"tools", tool_list};
    vars[probe->n_vars + 2] = (struct halo_jinja_var){"documents", halo_jinja_none()};
    vars[probe->n_vars + 3] = (struct halo_jinja_var){"add_generation_prompt", halo_jinja_bool(true)};
    const struct halo_jinja_params params = {.vars = vars, .n_vars = probe->n_vars + 4, .limits = limits};
    if (r == 0)
        r = halo_jinja_render(probe->jinja, &params, &arena, &text, NULL);
    if (r == 0 && (output = join(&arena, &text))) {
        *ret = fate_in(output, code);
        *ret_n_none = count(output, "None");
    } else if (r == 0) {
        r = -ENOMEM;
    }
    halo_arena_finish(&arena);
    return r > 0 ? 0 : r;
}

static int try(const struct probe *probe, const char *messages, bool with_tools, const char *const *code,
               enum fate *ret)
{
    unsigned n_none;
    return try_counting(probe, messages, with_tools, code, ret, &n_none);
}

/* ---- conversations ---- */

/* How the rest of a conversation is written, so that it does not get in the way of what is tried. */
struct forms {
    const char *before, *after;           /* around a text of a user */
    const char *arguments, *call_content; /* the content of a message with a call, with its comma; may be empty */
};

static void write_conversation(char out[MAX_BYTES], enum halo_chat_role role, const char *content,
                               const struct forms *forms)
{
    switch (role) {
    case HALO_CHAT_SYSTEM:
        snprintf(out, MAX_BYTES, "[{\"role\": \"system\", \"content\": %s}, {\"role\": \"user\", \"content\": %sq%s}]",
                 content, forms->before, forms->after);
        return;
    case HALO_CHAT_ASSISTANT:
        snprintf(out, MAX_BYTES,
                 "[{\"role\": \"user\", \"content\": %sq%s}, {\"role\": \"assistant\", \"content\": %s}, "
                 "{\"role\": \"user\", \"content\": %sr%s}]",
                 forms->before, forms->after, content, forms->before, forms->after);
        return;
    case HALO_CHAT_TOOL:
        snprintf(out, MAX_BYTES,
                 "[{\"role\": \"user\", \"content\": %sq%s}, {\"role\": \"assistant\", %s"
                 "\"tool_calls\": [{\"id\": \"halo00001\", \"type\": \"function\", \"function\": {\"name\": \"look\", "
                 "\"arguments\": %s}}]}, {\"role\": \"tool\", \"name\": \"look\", \"tool_call_id\": \"halo00001\", "
                 "\"content\": %s}]",
                 forms->before, forms->after, forms->call_content, forms->arguments, content);
        return;
    default: snprintf(out, MAX_BYTES, "[{\"role\": \"user\", \"content\": %s}]", content);
    }
}

/* Some templates look at nothing, or fail, unless a tool is declared. */
static int probe_content(const struct probe *probe, enum halo_chat_role role, const struct forms *forms,
                         struct halo_chat_shape *shape)
{
    char with_text[MAX_BYTES], with_parts[MAX_BYTES];
    enum fate text = FAILED, parts = FAILED;
    int r = 0;
    write_conversation(with_text, role, text_form, forms);
    write_conversation(with_parts, role, parts_form, forms);
    for (int with_tools = 0; r == 0 && with_tools < 2 && text == FAILED && parts == FAILED; with_tools++) {
        r = try(probe, with_text, with_tools, content_code, &text);
        if (r == 0)
            r = try(probe, with_parts, with_tools, content_code, &parts);
    }
    shape->wants_text[role] = text == PLAIN && parts != PLAIN;
    shape->wants_parts[role] = text != PLAIN && parts == PLAIN;
    if (role == HALO_CHAT_USER)
        shape->swallows_user = text == ABSENT && parts == ABSENT;
    return r;
}

/* The message with the call has no content, or an empty one: some templates know but one of the two. Sets the one that
 * was of use in `forms`. */
static int probe_arguments(const struct probe *probe, struct forms *forms, struct halo_chat_shape *shape)
{
    static const char *const contents[] = {null_content, empty_content};
    enum fate object = FAILED, json = FAILED;
    char conversation[MAX_BYTES];
    int r = 0;
    for (int i = 0; r == 0 && i < 4 && object < CODE && json < CODE; i++) {
        forms->call_content = contents[i % 2];
        forms->arguments = object_form;
        write_conversation(conversation, HALO_CHAT_TOOL, "\"done\"", forms);
        r = try(probe, conversation, i >= 2, object_code, &object);
        forms->arguments = json_form;
        write_conversation(conversation, HALO_CHAT_TOOL, "\"done\"", forms);
        if (r == 0)
            r = try(probe, conversation, i >= 2, json_code, &json);
    }
    shape->wants_object = object == PLAIN && json != PLAIN;
    shape->wants_json = json == PLAIN && object != PLAIN;
    forms->arguments = shape->wants_json ? json_form : object_form;
    return r;
}

/* Whether a message with a call may lack its content, have none, or an empty one. A template that prints None for it
 * takes it no more than one that fails. */
static int probe_silence(const struct probe *probe, struct forms *forms, struct halo_chat_shape *shape)
{
    static const char *const contents[HALO_CHAT_SILENCES] = {"", null_content, empty_content};
    const char *const *code = shape->wants_json ? json_code : object_code, *call_content = forms->call_content;
    enum fate fates[HALO_CHAT_SILENCES] = {FAILED, FAILED, FAILED};
    unsigned n_none[HALO_CHAT_SILENCES] = {0}, least = UINT_MAX;
    char conversation[MAX_BYTES];
    int r = 0;
    for (int with_tools = 0; with_tools < 2 && least == UINT_MAX; with_tools++)
        for (int i = 0; r == 0 && i < HALO_CHAT_SILENCES; i++) {
            forms->call_content = contents[i];
            write_conversation(conversation, HALO_CHAT_TOOL, "\"done\"", forms);
            r = try_counting(probe, conversation, with_tools, code, &fates[i], &n_none[i]);
            if (fates[i] != FAILED && n_none[i] < least)
                least = n_none[i];
        }
    forms->call_content = call_content;
    bool takes_empty = fates[HALO_CHAT_EMPTY] != FAILED && n_none[HALO_CHAT_EMPTY] == least;
    bool takes_null = fates[HALO_CHAT_NULL] != FAILED && n_none[HALO_CHAT_NULL] == least;
    for (int i = 0; i < HALO_CHAT_SILENCES; i++) {
        bool stays = (fates[i] != FAILED && n_none[i] == least) || !(takes_empty || takes_null);
        shape->silence[i] = stays ? (enum halo_chat_silence)i : takes_empty ? HALO_CHAT_EMPTY : HALO_CHAT_NULL;
    }
    return r;
}

int halo_chat_shape_probe(const struct halo_jinja *jinja, const struct halo_jinja_var *vars, size_t n_vars,
                          struct halo_chat_shape *ret)
{
    struct probe probe = {.jinja = jinja, .n_vars = n_vars < MAX_VARS ? n_vars : MAX_VARS};
    struct forms forms = {.before = "\"", .after = "\""};
    *ret = (struct halo_chat_shape){0};
    if (n_vars)
        memcpy(probe.vars, vars, probe.n_vars * sizeof(*vars));
    int r = probe_content(&probe, HALO_CHAT_USER, &forms, ret);
    if (ret->wants_parts[HALO_CHAT_USER]) {
        forms.before = "[{\"type\": \"text\", \"text\": \"";
        forms.after = "\"}]";
    }
    if (r == 0)
        r = probe_arguments(&probe, &forms, ret);
    if (r == 0)
        r = probe_silence(&probe, &forms, ret);
    for (int role = HALO_CHAT_SYSTEM; r == 0 && role < HALO_CHAT_ROLES; role++)
        r = probe_content(&probe, (enum halo_chat_role)role, &forms, ret);
    return r;
}
