/* chat_shape.c: puts the messages of a conversation into the forms that its template takes.
 *
 * The caller's thread; new values lie in the caller's arena. What does not look like a text part or like JSON stays as
 * it is: the template may know it. Fails with -ENOMEM.
 */
#include <errno.h>
#include <string.h>

#include <base/span.h>

#include "chat_shape_priv.h"
#include "jinja_priv.h"

struct counts {
    size_t joined, wrapped, parsed, written, emptied, nulled;
};

static enum halo_chat_role role_of(struct halo_jinja_value message)
{
    static const char *const names[] = {[HALO_CHAT_USER] = "user",
                                        [HALO_CHAT_SYSTEM] = "system",
                                        [HALO_CHAT_ASSISTANT] = "assistant",
                                        [HALO_CHAT_TOOL] = "tool"};
    struct halo_jinja_value role;
    for (int i = 0; i < HALO_CHAT_ROLES && halo_jinja_dict_get(message, "role", &role); i++)
        if (halo_jinja_is_text(role, names[i], strlen(names[i])))
            return (enum halo_chat_role)i;
    return HALO_CHAT_USER;
}

/* ---- contents ---- */

/* The text of a part that is one; NULL: it is something else. */
static const struct halo_jinja_string *part_text(struct halo_jinja_value part)
{
    struct halo_jinja_value type, text;
    if (!halo_jinja_dict_get(part, "type", &type) || !halo_jinja_is_text(type, "text", 4) ||
        !halo_jinja_dict_get(part, "text", &text) || text.kind != HALO_JINJA_STRING)
        return NULL;
    return text.string;
}

static int join_parts(struct halo_arena *arena, struct halo_jinja_value message, struct halo_jinja_value content,
                      size_t *count)
{
    size_t n = 0;
    for (size_t i = 0; i < content.list->n; i++) {
        const struct halo_jinja_string *text = part_text(content.list->items[i]);
        if (!text)
            return 0;
        n += text->n;
    }
    char *joined = halo_arena_alloc(arena, n + 1, 1);
    struct halo_jinja_value whole;
    if (!joined)
        return -ENOMEM;
    for (size_t i = 0, at = 0; i < content.list->n; i++) {
        const struct halo_jinja_string *text = part_text(content.list->items[i]);
        if (text->n)
            memcpy(joined + at, text->bytes, text->n);
        at += text->n;
    }
    int r = halo_jinja_string(arena, &whole, joined, n);
    ++*count;
    return r < 0 ? r : halo_jinja_dict_put(arena, message, "content", 7, whole);
}

static int wrap_text(struct halo_arena *arena, struct halo_jinja_value message, struct halo_jinja_value content,
                     size_t *count)
{
    struct halo_jinja_value list, part, type;
    int r = halo_jinja_list(arena, &list);
    r = r < 0 ? r : halo_jinja_dict(arena, &part);
    r = r < 0 ? r : halo_jinja_string(arena, &type, "text", 4);
    r = r < 0 ? r : halo_jinja_dict_put(arena, part, "type", 4, type);
    r = r < 0 ? r : halo_jinja_dict_put(arena, part, "text", 4, content);
    r = r < 0 ? r : halo_jinja_list_push(arena, list, part);
    ++*count;
    return r < 0 ? r : halo_jinja_dict_put(arena, message, "content", 7, list);
}

static int shape_content(const struct halo_chat_shape *shape, struct halo_arena *arena, struct halo_jinja_value message,
                         struct counts *counts)
{
    enum halo_chat_role role = role_of(message);
    struct halo_jinja_value content;
    if (!halo_jinja_dict_get(message, "content", &content))
        return 0;
    if (content.kind == HALO_JINJA_LIST && shape->wants_text[role])
        return join_parts(arena, message, content, &counts->joined);
    if (content.kind == HALO_JINJA_STRING && content.string->n > 0 && shape->wants_parts[role])
        return wrap_text(arena, message, content, &counts->wrapped);
    return 0;
}

/* Whether a message may say nothing, because it calls tools or only thinks. */
static bool may_be_silent(struct halo_jinja_value message)
{
    struct halo_jinja_value calls, thought;
    return (halo_jinja_dict_get(message, "tool_calls", &calls) && calls.kind == HALO_JINJA_LIST && calls.list->n > 0) ||
           (halo_jinja_dict_get(message, "reasoning_content", &thought) && thought.kind == HALO_JINJA_STRING);
}

/* Such a message says nothing in three ways. */
static int shape_silence(const struct halo_chat_shape *shape, struct halo_arena *arena, struct halo_jinja_value message,
                         struct counts *counts)
{
    struct halo_jinja_value content = halo_jinja_none();
    enum halo_chat_silence sent = HALO_CHAT_ABSENT;
    if (!may_be_silent(message))
        return 0;
    if (halo_jinja_dict_get(message, "content", &content))
        sent = content.kind == HALO_JINJA_NONE ? HALO_CHAT_NULL : HALO_CHAT_EMPTY;
    if (sent == HALO_CHAT_EMPTY && (content.kind != HALO_JINJA_STRING || content.string->n > 0))
        return 0;
    if (shape->silence[sent] == sent)
        return 0;
    int r = 0;
    struct halo_jinja_value wanted = halo_jinja_none();
    bool empty = shape->silence[sent] == HALO_CHAT_EMPTY;
    if (empty)
        r = halo_jinja_string(arena, &wanted, "", 0);
    ++*(empty ? &counts->emptied : &counts->nulled);
    return r < 0 ? r : halo_jinja_dict_put(arena, message, "content", 7, wanted);
}

/* ---- tool calls ---- */

/* An object as JSON text, as `tojson` writes it: by a template that does only that. */
static int write_json(struct halo_arena *arena, struct halo_jinja_value object, struct halo_jinja_value *ret)
{
    static const char template[] = "{{ object | tojson }}";
    const struct halo_jinja_var var = {"object", object};
    const struct halo_jinja_params params = {.vars = &var, .n_vars = 1};
    struct halo_jinja *jinja;
    struct halo_chat_text text;
    int r = halo_jinja_compile(&jinja, template, sizeof(template) - 1, NULL);
    if (r < 0)
        return r;
    r = halo_jinja_render(jinja, &params, arena, &text, NULL);
    halo_jinja_destroy(jinja);
    if (r == 0) /* the spans of a rendering are neighbours: one text */
        r = halo_jinja_string(arena, ret, text.spans[0].bytes,
                              (size_t)(text.spans[text.n - 1].bytes - text.spans[0].bytes) + text.spans[text.n - 1].n);
    return r;
}

static int shape_arguments(const struct halo_chat_shape *shape, struct halo_arena *arena, struct halo_jinja_value call,
                           struct counts *counts)
{
    struct halo_jinja_value function = call, arguments, shaped;
    halo_jinja_dict_get(call, "function", &function);
    if (!halo_jinja_dict_get(function, "arguments", &arguments))
        return 0;
    int r = 1; /* not changed */
    if (arguments.kind == HALO_JINJA_STRING && shape->wants_object) {
        r = halo_jinja_json(arena, &shaped, arguments.string->bytes, arguments.string->n, NULL);
        if (r != -ENOMEM && (r < 0 || shaped.kind != HALO_JINJA_DICT))
            r = 1;
        counts->parsed += r == 0;
    } else if (arguments.kind == HALO_JINJA_DICT && shape->wants_json) {
        r = write_json(arena, arguments, &shaped);
        counts->written += r == 0;
    }
    if (r == 0)
        r = halo_jinja_dict_put(arena, function, "arguments", 9, shaped);
    return r < 0 ? r : 0;
}

static int shape_calls(const struct halo_chat_shape *shape, struct halo_arena *arena, struct halo_jinja_value message,
                       struct counts *counts)
{
    struct halo_jinja_value calls;
    int r = 0;
    if (!halo_jinja_dict_get(message, "tool_calls", &calls) || calls.kind != HALO_JINJA_LIST)
        return 0;
    for (size_t i = 0; r == 0 && i < calls.list->n; i++)
        r = shape_arguments(shape, arena, calls.list->items[i], counts);
    return r;
}

/* ---- all of it ---- */

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void remark(struct halo_remarks *changes, const struct counts *counts)
{
    if (counts->joined)
        halo_remarks_add(changes,
                         "messages: the text parts of %zu message%s were joined: the chat template takes strings",
                         counts->joined, plural(counts->joined));
    if (counts->wrapped)
        halo_remarks_add(changes,
                         "messages: the content of %zu message%s became text parts: the chat template takes no strings",
                         counts->wrapped, plural(counts->wrapped));
    if (counts->emptied)
        halo_remarks_add(
            changes, "messages: %zu message%s of calls or thoughts got an empty content: the chat template needs one",
            counts->emptied, plural(counts->emptied));
    if (counts->nulled)
        halo_remarks_add(
            changes,
            "messages: the empty content of %zu message%s of calls or thoughts became null: the chat template takes "
            "no empty one",
            counts->nulled, plural(counts->nulled));
    if (counts->parsed)
        halo_remarks_add(
            changes,
            "messages: the JSON text of the arguments of %zu tool call%s was parsed: the chat template takes "
            "objects",
            counts->parsed, plural(counts->parsed));
    if (counts->written)
        halo_remarks_add(changes,
                         "messages: the arguments of %zu tool call%s became JSON text: the chat template takes strings",
                         counts->written, plural(counts->written));
}

int halo_chat_shape_apply(const struct halo_chat_shape *shape, struct halo_jinja_value messages,
                          struct halo_arena *arena, struct halo_remarks *changes)
{
    struct counts counts = {0};
    int r = 0;
    for (size_t i = 0; r == 0 && i < messages.list->n; i++) {
        r = shape_silence(shape, arena, messages.list->items[i], &counts);
        if (r == 0)
            r = shape_content(shape, arena, messages.list->items[i], &counts);
        if (r == 0)
            r = shape_calls(shape, arena, messages.list->items[i], &counts);
    }
    if (r == 0 && changes)
        remark(changes, &counts);
    return r;
}

/* ---- what is lost ---- */

/* The text of a message, or of its first part that has some; NULL: it says nothing. */
static const struct halo_jinja_string *said(struct halo_jinja_value message)
{
    struct halo_jinja_value content;
    const struct halo_jinja_string *text = NULL;
    if (!halo_jinja_dict_get(message, "content", &content))
        return NULL;
    if (content.kind == HALO_JINJA_STRING)
        text = content.string;
    for (size_t i = 0; content.kind == HALO_JINJA_LIST && i < content.list->n && (!text || text->n == 0); i++)
        text = part_text(content.list->items[i]);
    return text && text->n ? text : NULL;
}

static struct halo_span longest_word(const struct halo_jinja_string *text)
{
    struct halo_span longest = {text->bytes, 0};
    size_t from = 0, length;
    for (size_t at = 0; at < text->n; at += length) {
        uint32_t c = halo_jinja_char(text->bytes + at, text->n - at, &length);
        bool is_plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (c < 0x80 ? !is_plain : halo_jinja_is_space(c)) /* templates strip white space of every kind */
            from = at + length;
        else if (at + length - from > longest.n)
            longest = (struct halo_span){text->bytes + from, at + length - from};
    }
    return longest;
}

bool halo_chat_shape_lost(struct halo_jinja_value messages, const struct halo_chat_text *text)
{
    const struct halo_jinja_string *last = NULL;
    struct halo_jinja_value role;
    for (size_t i = messages.list->n; !last && i-- > 0;)
        if (halo_jinja_dict_get(messages.list->items[i], "role", &role) && halo_jinja_is_text(role, "user", 4))
            last = said(messages.list->items[i]);
    struct halo_span word = last ? longest_word(last) : (struct halo_span){NULL, 0};
    for (size_t i = 0; word.n && i < text->n; i++)
        if (!text->spans[i].is_template && memmem(text->spans[i].bytes, text->spans[i].n, word.bytes, word.n))
            return false;
    return word.n > 0;
}
