/* chat_shape_priv.h: in which form a chat template takes what a conversation holds.
 *
 * Clients send a text as a string or as a list of text parts, the arguments of a tool call as an object or as JSON
 * text, and a message with calls with an empty content, with null, or without. Templates know one form, the other, or
 * both; the wrong one is printed as Python's repr, encoded twice, or an error. So each template is tried once with each
 * form, when it is compiled, and conversations are put into the form that it takes. A form that it takes stays as it
 * is.
 */
#ifndef HALO_JINJA_CHAT_SHAPE_PRIV_H
#define HALO_JINJA_CHAT_SHAPE_PRIV_H

#include <base/remarks.h>

#include <jinja/jinja.h>

enum halo_chat_role { HALO_CHAT_USER, HALO_CHAT_SYSTEM, HALO_CHAT_ASSISTANT, HALO_CHAT_TOOL, HALO_CHAT_ROLES };

/* The content of a message that has tool calls and says nothing. */
enum halo_chat_silence { HALO_CHAT_ABSENT, HALO_CHAT_NULL, HALO_CHAT_EMPTY, HALO_CHAT_SILENCES };

struct halo_chat_shape {
    bool wants_text[HALO_CHAT_ROLES];                   /* parts are joined */
    bool wants_parts[HALO_CHAT_ROLES];                  /* a string becomes a part */
    bool wants_object;                                  /* arguments of tool calls in JSON text are parsed */
    bool wants_json;                                    /* arguments that are objects are written as JSON text */
    enum halo_chat_silence silence[HALO_CHAT_SILENCES]; /* what becomes of each: it stays, or the template takes this */
    bool swallows_user;                                 /* nothing that a user says is printed, in either form */
};

/* Tries the template. `vars`: further variables that it may want. 0 or -ENOMEM: a template that fails takes anything,
 * so that its own words reach whoever uses it. */
int halo_chat_shape_probe(const struct halo_jinja *jinja, const struct halo_jinja_var *vars, size_t n_vars,
                          struct halo_chat_shape *ret);

/* Changes the list of messages, whose values lie in `arena`, and says in `changes` (NULL: to nobody) what was changed.
 * 0 or -ENOMEM. */
int halo_chat_shape_apply(const struct halo_chat_shape *shape, struct halo_jinja_value messages,
                          struct halo_arena *arena, struct halo_remarks *changes);

/* Whether a rendering lacks what the last message of a user says: its longest word does not occur in it. */
bool halo_chat_shape_lost(struct halo_jinja_value messages, const struct halo_chat_text *text);

#endif
