/* message_decode.c: a line to a request or an event.
 *
 * Three steps: the scan (grammar, UTF-8, depth, counts; it also finds the id, so that a refusal can be answered under
 * it), the library's tree, and the walk over the field table. No thread of its own, no state. Fails with: -ENOMEM,
 * HALO_MSG_E_REFUSED.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "json_read_priv.h"
#include "message_decode_priv.h"
#include "pool_priv.h"
#include <protocol/envelope.h>
#include <protocol/suggest.h>

/* ---- lines ---- */

static void keep_id(struct halo_refusal *r, const char *line, const struct halo_envelope *env)
{
    struct halo_id id = halo_envelope_id(line, env, r->id_text);

    r->id_kind = id.kind;
    r->id_num = id.num;
    r->id_bytes = id.str.len;
}

static void explain_scan(struct halo_refusal *r, const struct halo_scan *scan)
{
    r->code = HALO_ERROR_BAD_JSON;
    switch (scan->fault) {
    case HALO_SCAN_UTF8: halo_refusal_say(r, "the line is not valid UTF-8 at byte %zu", scan->bad_at); break;
    case HALO_SCAN_NUL:
        halo_refusal_say(r, "a NUL character (\\u0000) is not allowed, at byte %zu", scan->bad_at);
        break;
    case HALO_SCAN_DEPTH:
        r->code = HALO_ERROR_BAD_REQUEST;
        halo_refusal_say(r, "nested more than %d levels deep at byte %zu", scan->limits->depth, scan->bad_at);
        break;
    case HALO_SCAN_TOO_MANY:
        r->code = HALO_ERROR_BAD_REQUEST;
        halo_refusal_say(r, "more than %zu values, %zu arrays and objects or %zu fields in one line, at byte %zu",
                         scan->limits->n_values, scan->limits->n_containers, scan->limits->n_keys, scan->bad_at);
        break;
    case HALO_SCAN_NOT_OBJECT:
        r->code = HALO_ERROR_BAD_REQUEST;
        halo_refusal_say(r, "a line must hold one JSON object");
        break;
    default: halo_refusal_say(r, "not JSON at byte %zu: %s", scan->bad_at, scan->what); break;
    }
}

static void explain_read(struct halo_refusal *r, const struct halo_json_read *read, const struct halo_scan *scan)
{
    const char *line = scan->text;

    r->offset = read->bad_at;
    switch (read->fault) {
    case HALO_READ_TWICE:
        r->code = HALO_ERROR_BAD_REQUEST;
        halo_refusal_say(r, "field ");
        halo_refusal_say_quoted(r, line + read->token.at, read->token.len);
        halo_refusal_say(r, " appears twice, at byte %zu", read->bad_at);
        break;
    case HALO_READ_OVERFLOW:
        r->code = HALO_ERROR_BAD_REQUEST;
        halo_refusal_say(r, "field ");
        halo_refusal_say_quoted(r, line + read->owner.at, read->owner.len);
        halo_refusal_say(r, ": the number at byte %zu is too large; the greatest is 1.7e308", read->bad_at);
        break;
    default: explain_scan(r, scan); break;
    }
}

static const struct halo_scan_limits *limits_of(const struct halo_decode *d)
{
    if (d->events)
        return &halo_scan_answer;
    return d->role == HALO_ROLE_LINK ? &halo_scan_link : &halo_scan_client;
}

/* Line to tree; fills the refusal's id in any case. */
static int read_line(struct halo_decode *d, const char *line, size_t len, struct halo_json_read *read)
{
    struct halo_refusal *r = d->refusal;
    struct halo_envelope env;
    struct halo_scan scan = {.text = line, .len = len, .limits = limits_of(d), .allow_nul = d->events};
    int rc;

    *r = (struct halo_refusal){0};
    halo_scan_envelope(&scan, &env);
    keep_id(r, line, &env);
    rc = halo_json_read(read, &scan);
    if (rc > 0)
        explain_read(r, read, &scan);
    return rc;
}

/* A failure that has no words yet gets them. */
static int conclude(struct halo_decode *d, int rc, void **memory)
{
    if (rc == 0)
        return 0;
    halo_pool_free(memory);
    if (rc == -ENOMEM) {
        d->refusal->code = HALO_ERROR_OUT_OF_MEMORY;
        d->refusal->message[0] = '\0';
        halo_refusal_say(d->refusal, "no memory to read a request of this size");
    }
    return rc;
}

/* The `type` of a line, or NULL with the refusal filled. */
static json_t *get_type(struct halo_decode *d, json_t *root)
{
    static const struct halo_where top = {.name = "request"};
    json_t *type = json_object_get(root, "type");

    if (halo_json_is_text(type))
        return type;
    halo_decode_refuse(d, &top, type ? "field \"type\" must be a string" : "field \"type\" is required");
    return NULL;
}

static int refuse_type(struct halo_decode *d, json_t *type)
{
    struct halo_refusal *r = d->refusal;
    struct halo_suggest near;

    halo_suggest_start(&near, json_string_value(type), json_string_length(type));
    for (int i = 0; !d->events && i < HALO_N_MSGS; i++)
        if (!halo_msg_table[i].link_only || d->role == HALO_ROLE_LINK)
            halo_suggest_offer(&near, halo_msg_table[i].shape.name);
    r->code = HALO_ERROR_UNKNOWN_TYPE;
    halo_refusal_say(r, "unknown type ");
    halo_refusal_say_quoted(r, json_string_value(type), json_string_length(type));
    halo_refusal_say_suggestion(r, &near);
    return HALO_MSG_E_REFUSED;
}

static int decode_envelope_id(struct halo_decode *d, const char *name, bool needed, json_t *root, struct halo_id *ret)
{
    struct halo_where top = {.name = name}, where = {.up = &top, .name = "id"};
    json_t *id = json_object_get(root, "id");

    if (!id)
        return needed ? halo_decode_refuse(d, &top, "field \"id\" is required") : 0;
    if (d->events && json_is_null(id))
        return 0;
    return halo_decode_id(d, &where, 1, HALO_LIMIT_ID_BYTES, id, ret);
}

/* Fields that exclude each other: exactly one must be there. */
static int check_choice(struct halo_decode *d, const char *name, const char *choice, int n_given)
{
    struct halo_where top = {.name = name};

    if (n_given == 1)
        return 0;
    return halo_decode_refuse(d, &top, "exactly one of %s is needed, %d are there", choice, n_given);
}

/* A message says something, calls a tool or thinks. Nothing at all is a forgotten field. */
static int check_messages(struct halo_decode *d, const char *name, const struct halo_part_chat_list *messages)
{
    struct halo_where top = {.name = name}, list = {.up = &top, .name = "messages"}, item = {.up = &list};

    for (item.index = 0; item.index < messages->n; item.index++) {
        const struct halo_part_chat *chat = &messages->at[item.index];

        if (chat->content.kind == HALO_CONTENT_ABSENT && chat->tool_calls.n == 0 && !chat->has_reasoning_content &&
            !chat->has_reasoning && !chat->has_thinking && !chat->has_tool_plan)
            return halo_decode_refuse(d, &item, "field \"content\" is required");
    }
    return 0;
}

static int check_generate(struct halo_decode *d, const char *name, const struct halo_msg_generate *generate)
{
    struct halo_where top = {.name = name};
    int r = check_choice(d, name, "prompt, messages and tokens",
                         generate->has_prompt + generate->has_messages + generate->has_tokens);

    if (r == 0 && !generate->has_messages && (generate->has_tools || generate->has_template_vars))
        return halo_decode_refuse(d, &top, "%s is for messages, which a chat template renders",
                                  generate->has_tools ? "tools" : "template_vars");
    return r ? r : check_messages(d, name, &generate->messages);
}

static int check_request(struct halo_decode *d, const struct halo_msg *msg)
{
    const char *name = halo_msg_type_name(msg->type);

    switch (msg->type) {
    case HALO_MSG_GENERATE: return check_generate(d, name, &msg->generate);
    case HALO_MSG_TEMPLATE: return check_messages(d, name, &msg->template.messages);
    case HALO_MSG_SCORE: return check_choice(d, name, "tokens and text", msg->score.has_tokens + msg->score.has_text);
    case HALO_MSG_PLAN: return check_choice(d, name, "model and path", msg->plan.has_model + msg->plan.has_path);
    default: return 0;
    }
}

static int decode_request(struct halo_decode *d, json_t *root, struct halo_msg *msg)
{
    json_t *text = get_type(d, root);
    const struct halo_msg_row *row;
    struct halo_where where = {0};
    int type, r;

    if (!text)
        return HALO_MSG_E_REFUSED;
    type = halo_msg_type_from_name(json_string_value(text), json_string_length(text));
    if (type < 0 || (halo_msg_table[type].link_only && d->role != HALO_ROLE_LINK))
        return refuse_type(d, text);
    row = &halo_msg_table[type];
    msg->type = (enum halo_msg_type)type;
    where.name = row->shape.name;
    r = decode_envelope_id(d, row->shape.name, row->needs_id, root, &msg->id);
    if (r == 0)
        r = halo_decode_object(d, &where, &row->shape, root, &msg->hello);
    return r ? r : check_request(d, msg);
}

int halo_msg_decode(struct halo_msg *msg, const char *line, size_t len, enum halo_role role,
                    struct halo_refusal *ret_refusal)
{
    struct halo_decode d = {.pool = &msg->memory, .refusal = ret_refusal, .role = role};
    struct halo_json_read read;
    int r;

    *msg = (struct halo_msg){0};
    r = read_line(&d, line, len, &read);
    if (r == 0) {
        r = decode_request(&d, read.root, msg);
        halo_json_read_end(&read);
    }
    return conclude(&d, r, &msg->memory);
}

static int decode_event(struct halo_decode *d, json_t *root, struct halo_ev *ev)
{
    json_t *text = get_type(d, root);
    const struct halo_shape *shape;
    struct halo_where where = {0};
    int type, r;

    if (!text)
        return HALO_MSG_E_REFUSED;
    type = halo_ev_type_from_name(json_string_value(text), json_string_length(text));
    if (type < 0)
        return refuse_type(d, text);
    if (type == HALO_EV_DONE && json_object_get(root, "nll"))
        type = HALO_EV_SCORED;
    ev->type = (enum halo_ev_type)type;
    shape = &halo_ev_table[type].shape;
    where.name = shape->name;
    r = decode_envelope_id(d, shape->name, true, root, &ev->id);
    return r ? r : halo_decode_object(d, &where, shape, root, &ev->hello);
}

int halo_ev_decode(struct halo_ev *ev, const char *line, size_t len, unsigned flags, struct halo_refusal *ret_refusal)
{
    struct halo_decode d = {.pool = &ev->memory,
                            .refusal = ret_refusal,
                            .events = true,
                            .tolerant = !(flags & HALO_EV_STRICT),
                            .role = HALO_ROLE_LINK};
    struct halo_json_read read;
    int r;

    *ev = (struct halo_ev){0};
    r = read_line(&d, line, len, &read);
    if (r == 0) {
        r = decode_event(&d, read.root, ev);
        halo_json_read_end(&read);
    }
    return conclude(&d, r, &ev->memory);
}
