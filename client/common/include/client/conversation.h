/* conversation.h: a conversation from the command line and from files: messages, tools, variables of the template.
 *
 * The files hold JSON as the protocol spells it. The protocol's own decoder reads it before anything is sent, so that a
 * fault is reported with its place, and no file can end the line that it travels in. One thread.
 */
#ifndef HALO_CLIENT_CONVERSATION_H
#define HALO_CLIENT_CONVERSATION_H

#include <protocol/message.h>

struct halo_client_conversation {
    const char *messages, *tools; /* files of JSON lists ("-": standard input); NULL: none */
    const char *vars;             /* JSON text of an object, or NULL */
    const char *system;           /* without `messages`: NULL or the system message, and what the user says */
    struct halo_str user;
};

/* Makes a checked `template` request of it, without a model; the caller fills in the rest or takes its parts, and
 * finishes it. 0, or -EINVAL after a message. */
int halo_client_conversation_read(const struct halo_client_conversation *conversation, struct halo_msg *ret);

#endif
