/* conversation.c: see conversation.h. */
#include <client/conversation.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/envelope.h>
#include <protocol/json_write.h>

#include <client/say.h>
#include <client/text.h>

/* Adds a field whose value is the JSON in `text`. False after a message: what a line cannot carry is refused by the
 * name of its source, the rest by the decoder. */
static bool add_json(struct halo_json *w, const char *key, const char *text, size_t n, const char *name)
{
    struct halo_envelope env;
    struct halo_json alone;
    if (!halo_client_check_text(name, text, n))
        return false;
    halo_json_init(&alone);
    halo_json_object_begin(&alone);
    halo_json_key(&alone, "x");
    halo_json_raw(&alone, text, n);
    halo_json_object_end(&alone);
    bool fits = n > 0 && halo_json_line_end(&alone) == 0 && halo_envelope_scan(alone.at, alone.len - 1, &env) == 0;
    if (!fits)
        halo_client_say("%s is not JSON%s", name, n == 0 ? ": it is empty" : "");
    halo_json_finish(&alone);
    halo_json_key(w, key);
    halo_json_raw(w, text, n);
    return fits;
}

static bool add_file(struct halo_json *w, const char *key, const char *file)
{
    size_t n;
    char *text = halo_client_read_file(file, &n);
    bool good = text && add_json(w, key, text, n, file);
    free(text);
    return good;
}

static bool add_messages(struct halo_json *w, const struct halo_client_conversation *conversation)
{
    if (conversation->messages)
        return add_file(w, "messages", conversation->messages);
    const struct halo_part_chat said[] = {
        {.role = halo_str_of("system"), .content = halo_content_of(halo_str_of(conversation->system))},
        {.role = halo_str_of("user"), .content = halo_content_of(conversation->user)}};
    const struct halo_part_chat_list list = {said + !conversation->system, conversation->system ? 2 : 1};
    halo_json_key(w, "messages");
    halo_chat_write(w, &list);
    return true;
}

int halo_client_conversation_read(const struct halo_client_conversation *conversation, struct halo_msg *ret)
{
    struct halo_refusal refusal;
    struct halo_json w;
    halo_json_init(&w);
    halo_json_object_begin(&w);
    halo_json_key(&w, "type");
    halo_json_str(&w, "template");
    halo_json_key(&w, "id");
    halo_json_i64(&w, 0);
    halo_json_key(&w, "model");
    halo_json_str(&w, "-"); /* the decoder wants one */
    bool good = add_messages(&w, conversation) &&
                (!conversation->tools || add_file(&w, "tools", conversation->tools)) &&
                (!conversation->vars ||
                 add_json(&w, "template_vars", conversation->vars, strlen(conversation->vars), "--template-vars"));
    halo_json_object_end(&w);
    if (good && halo_json_line_end(&w) < 0) {
        halo_client_say("out of memory");
        good = false;
    } else if (good && halo_msg_decode(ret, w.at, w.len - 1, HALO_ROLE_CLIENT, &refusal) != 0) {
        bool of_field = strncmp(refusal.message, "template.", 9) == 0; /* nobody has asked for a template */
        halo_client_say("%s", refusal.message + (of_field ? 9 : 0));
        good = false;
    }
    halo_json_finish(&w);
    return good ? 0 : -EINVAL;
}
