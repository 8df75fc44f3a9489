/* template.c: `haloctl template`: what a chat template makes of a conversation. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <client/conversation.h>
#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

struct template_options {
    struct halo_client_conversation talk;
    struct halo_str model;
    const char *file;
    bool has_model, prompt, special, normalize, has_normalize;
};

#define OPTION(option, short_name, type, field, flag, value, text)                                                     \
    {                                                                                                                  \
        .name = option, .letter = short_name, .kind = HALO_CTL_##type,                                                 \
        .offset = offsetof(struct template_options, field), .has = flag, .value_name = value, .help = text             \
    }
#define HAS(field) offsetof(struct template_options, has_##field)

static const struct halo_ctl_option template_options[] = {
    OPTION("model", 'm', MODEL, model, HAS(model), "NAME", "model (required)"),
    OPTION("file", 'f', PATH, file, HALO_CTL_NO_HAS, "FILE", "read the user's text from FILE (-: standard input)"),
    OPTION("system", 's', TEXT, talk.system, HALO_CTL_NO_HAS, "TEXT", "the system message"),
    OPTION("messages", 0, PATH, talk.messages, HALO_CTL_NO_HAS, "FILE",
           "a whole conversation, a JSON list of messages"),
    OPTION("tools", 0, PATH, talk.tools, HALO_CTL_NO_HAS, "FILE", "tools, a JSON list"),
    OPTION("template-vars", 0, TEXT, talk.vars, HALO_CTL_NO_HAS, "JSON", "variables of the template, a JSON object"),
    OPTION("no-generation-prompt", 0, FALSE, prompt, HALO_CTL_NO_HAS, NULL, "do not begin the assistant's turn"),
    OPTION("no-normalize", 0, FALSE, normalize, HAS(normalize), NULL, "keep runs of 3 or more newlines"),
    OPTION("special", 0, TRUE, special, HALO_CTL_NO_HAS, NULL, "special tokens in the messages are special tokens"),
    {.name = NULL},
};

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json || ev->type != HALO_EV_TEMPLATE)
        return;
    halo_client_show_text(stdout, ev->template.text.at, ev->template.text.len);
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
    int at = halo_ctl_parse(ctl, argc, argv, template_options, &options, "template --model NAME [OPTION...] [TEXT...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!options.has_model || (options.talk.messages && (at < argc || options.file || options.talk.system))) {
        halo_client_say("template: %s", options.has_model
                                            ? "--messages holds all messages: no text, --file or --system beside it"
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
    int r = halo_client_conversation_read(&options.talk, &msg);
    free(text);
    if (r < 0)
        return HALO_CTL_USAGE;
    msg.template.model = options.model;
    msg.template.add_generation_prompt = options.prompt;
    msg.template.special = options.special;
    msg.template.has_normalize = options.has_normalize;
    msg.template.normalize = options.normalize;
    int status = halo_ctl_run(ctl, &msg, on_event, NULL);
    halo_msg_finish(&msg);
    return status;
}
