/* generate.c: `haloctl generate`: a prompt in, text out as it comes. */
#include <stdlib.h>

#include <client/conversation.h>
#include <client/say.h>

#include "ctl_priv.h"

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    const struct halo_msg_generate *msg = ud;
    halo_ctl_print_reply(ctl, ev, msg->has_max_tokens ? msg->max_tokens : 0);
}

/* A conversation from a file. */
static int generate_messages(struct halo_ctl *ctl, const struct halo_ctl_sampling *options, struct halo_msg *msg)
{
    const struct halo_client_conversation conversation = {
        .messages = options->messages, .tools = options->tools, .vars = options->vars};
    struct halo_msg read;
    if (halo_client_conversation_read(&conversation, &read) < 0)
        return HALO_CTL_USAGE;
    msg->generate.has_messages = true;
    msg->generate.messages = read.template.messages;
    msg->generate.has_tools = read.template.has_tools;
    msg->generate.tools = read.template.tools;
    msg->generate.has_template_vars = read.template.has_template_vars;
    msg->generate.template_vars = read.template.template_vars;
    int status = halo_ctl_run(ctl, msg, on_event, &msg->generate);
    halo_msg_finish(&read);
    return status;
}

int halo_ctl_generate(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    struct halo_ctl_sampling options = {.msg = msg.generate};
    int at = halo_ctl_parse(ctl, argc, argv, halo_ctl_sampling_options, &options, "generate [OPTION...] [PROMPT...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (options.system) {
        halo_client_say("generate: --system belongs to `haloctl chat`");
        return HALO_CTL_USAGE;
    }
    msg.generate = options.msg;
    msg.generate.stop = (struct halo_str_list){options.stops.at, options.stops.n};
    if (options.messages && at == argc && !options.file)
        return generate_messages(ctl, &options, &msg);
    if (options.messages || options.tools || options.vars) {
        halo_client_say("generate: %s", options.messages
                                            ? "give a prompt or --messages, not both"
                                            : "--tools and --template-vars need --messages: a prompt bypasses the chat "
                                              "template");
        return HALO_CTL_USAGE;
    }
    size_t n;
    char *prompt = halo_ctl_read_text(argv + at, argc - at, options.file, "prompt", &n);
    if (!prompt)
        return HALO_CTL_USAGE;
    msg.generate.has_prompt = true;
    msg.generate.prompt = (struct halo_str){prompt, n};
    int status = halo_ctl_run(ctl, &msg, on_event, &msg.generate);
    free(prompt);
    return status;
}
