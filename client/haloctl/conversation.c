/* conversation.c: `haloctl template`, and what a conversation may bring from files: messages, tools, variables.
 *
 * The files hold JSON as the protocol spells it. It is read by the protocol's own decoder before anything is sent, so
 * that a fault is told with its place, and a file can not end the line it travels in.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/envelope.h>

#include "ctl_priv.h"

/* Adds a field whose value is the JSON in `text`. False after a message: what a line can not carry is refused by the
 * name of its source, the rest by the decoder. */
static bool add_json(struct halo_json *w, const char *key, const char *text, size_t n, const char *name)
{
    struct halo_envelope env;
    struct halo_json alone;
    halo_json_init(&alone);
    halo_json_object_begin(&alone);
    halo_json_key(&alone, "x");
    halo_json_raw(&alone, text, n);
    halo_json_object_end(&alone);
    bool fits = halo_json_line_end(&alone) == 0 && halo_envelope_scan(alone.at, alone.len - 1, &env) == 0;
    if (!fits)
        fprintf(stderr, "haloctl: %s is not JSON%s\n", name, n == 0 ? ": it is empty" : "");
    halo_json_finish(&alone);
    halo_json_key(w, key);
    halo_json_raw(w, text, n);
    return fits;
}

static bool add_file(struct halo_json *w, const char *key, const char *file)
{
    size_t n;
    char *text = halo_ctl_read_text(NULL, 0, file, key, &n);
    bool good = text && add_json(w, key, text, n, file);
    free(text);
    return good;
}

static bool add_messages(struct halo_json *w, const struct halo_ctl_talk *talk)
{
    if (talk->messages)
        return add_file(w, "messages", talk->messages);
    const struct halo_part_chat said[] = {
        {.role = halo_str_of("system"), .content = halo_content_of(halo_str_of(talk->system))},
        {.role = halo_str_of("user"), .content = halo_content_of(talk->user)}};
    const struct halo_part_chat_list list = {said + !talk->system, talk->system ? 2 : 1};
    halo_json_key(w, "messages");
    halo_chat_write(w, &list);
    return true;
}

int halo_ctl_read_talk(const struct halo_ctl_talk *talk, struct halo_msg *ret)
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
    halo_json_str_n(&w, talk->model.len > 0 ? talk->model.at : "-", talk->model.len > 0 ? talk->model.len : 1);
    bool good = add_messages(&w, talk) && (!talk->tools || add_file(&w, "tools", talk->tools)) &&
                (!talk->vars || add_json(&w, "template_vars", talk->vars, strlen(talk->vars), "--template-vars"));
    halo_json_object_end(&w);
    if (good && halo_json_line_end(&w) < 0) {
        fprintf(stderr, "haloctl: out of memory\n");
        good = false;
    } else if (good && halo_msg_decode(ret, w.at, w.len - 1, HALO_ROLE_CLIENT, &refusal) != 0) {
        fprintf(stderr, "haloctl: %s\n", refusal.message);
        good = false;
    }
    halo_json_finish(&w);
    return good ? HALO_CTL_OK : HALO_CTL_USAGE;
}

/* ---- template ---- */

struct template_options {
    struct halo_ctl_talk talk;
    const char *file;
    bool has_model, prompt, special, normalize, has_normalize;
};

#define AT(field) offsetof(struct template_options, field)

static const struct halo_ctl_option template_options[] = {
    {"model", 'm', HALO_CTL_STRING, AT(talk.model), AT(has_model), "NAME", "model (required)"},
    {"file", 'f', HALO_CTL_CSTRING, AT(file), HALO_CTL_NO_HAS, "FILE",
     "read the user's text from FILE (-: standard input)"},
    {"system", 's', HALO_CTL_CSTRING, AT(talk.system), HALO_CTL_NO_HAS, "TEXT", "the system message"},
    {"messages", 0, HALO_CTL_CSTRING, AT(talk.messages), HALO_CTL_NO_HAS, "FILE",
     "a whole conversation, a JSON list of messages"},
    {"tools", 0, HALO_CTL_CSTRING, AT(talk.tools), HALO_CTL_NO_HAS, "FILE", "tools, a JSON list"},
    {"template-vars", 0, HALO_CTL_CSTRING, AT(talk.vars), HALO_CTL_NO_HAS, "JSON",
     "variables of the template, a JSON object"},
    {"no-generation-prompt", 0, HALO_CTL_FALSE, AT(prompt), HALO_CTL_NO_HAS, NULL, "do not begin the assistant's turn"},
    {"no-normalize", 0, HALO_CTL_FALSE, AT(normalize), AT(has_normalize), NULL, "keep runs of 3 and more newlines"},
    {"special", 0, HALO_CTL_TRUE, AT(special), HALO_CTL_NO_HAS, NULL,
     "special tokens in the messages are special tokens"},
    {NULL, 0, HALO_CTL_TRUE, 0, 0, NULL, NULL},
};

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json || ev->type != HALO_EV_TEMPLATE)
        return;
    fwrite(ev->template.text.at, 1, ev->template.text.len, stdout);
    if (ctl->quiet)
        return;
    printf("\n[%zu tokens:", ev->template.tokens.n);
    for (size_t i = 0; i < ev->template.tokens.n; i++)
        printf(" %d", ev->template.tokens.at[i]);
    puts("]");
}

int halo_ctl_template(struct halo_ctl *ctl, int argc, char **argv)
{
    struct template_options options = {.prompt = true, .normalize = true};
    int at = halo_ctl_parse(argc, argv, template_options, &options, "template --model NAME [OPTION...] [TEXT...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!options.has_model || (options.talk.messages && (at < argc || options.file || options.talk.system))) {
        fprintf(stderr, "haloctl template: %s\n",
                options.has_model ? "--messages holds all messages: no text, --file or --system beside it"
                                  : "needs --model NAME");
        return HALO_CTL_USAGE;
    }
    char *text = NULL;
    if (!options.talk.messages) {
        text = halo_ctl_read_text(argv + at, argc - at, options.file, "text", &options.talk.user.len);
        if (!text)
            return HALO_CTL_USAGE;
        options.talk.user.at = text;
    }
    struct halo_msg msg;
    int status = halo_ctl_read_talk(&options.talk, &msg);
    free(text);
    if (status != HALO_CTL_OK)
        return status;
    msg.template.add_generation_prompt = options.prompt;
    msg.template.special = options.special;
    msg.template.has_normalize = options.has_normalize;
    msg.template.normalize = options.normalize;
    status = halo_ctl_run(ctl, &msg, on_event, NULL);
    halo_msg_finish(&msg);
    return status;
}
