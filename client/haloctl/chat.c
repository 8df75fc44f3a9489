/* chat.c: `haloctl chat`: a conversation, line by line. On a terminal with line editing and history (libedit); in a
 * pipe each line of standard input is a turn. The history is haloctl's: each turn sends all messages so far.
 */
#include <editline/readline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_priv.h"

struct conversation {
    struct halo_part_chat *messages; /* role: static text; content: malloc'ed */
    size_t n, room;
    char *reply; /* of the running turn */
    size_t n_reply;
};

static bool add_message(struct conversation *talk, const char *role, char *content, size_t n)
{
    if (talk->n == talk->room) {
        size_t room = talk->room ? 2 * talk->room : 16;
        struct halo_part_chat *more = realloc(talk->messages, room * sizeof *more);
        if (!more) {
            free(content);
            return false;
        }
        talk->messages = more;
        talk->room = room;
    }
    talk->messages[talk->n++] =
        (struct halo_part_chat){.role = halo_str_of(role), .content = halo_content_of((struct halo_str){content, n})};
    return true;
}

static void drop_message(struct conversation *talk)
{
    free((void *)(uintptr_t)talk->messages[--talk->n].content.text.at);
}

static void forget(struct conversation *talk, const char *system)
{
    while (talk->n > 0)
        drop_message(talk);
    if (system)
        add_message(talk, "system", strdup(system), strlen(system));
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    struct conversation *talk = ud;
    halo_ctl_print_event(ctl, ev);
    struct halo_str text = {NULL, 0};
    if (ev->type == HALO_EV_TOKEN)
        text = ev->token.text;
    else if (ev->type == HALO_EV_DONE && ev->done.has_text)
        text = ev->done.text;
    if (text.len == 0)
        return;
    char *more = realloc(talk->reply, talk->n_reply + text.len + 1);
    if (!more)
        return;
    memcpy(more + talk->n_reply, text.at, text.len);
    talk->reply = more;
    talk->n_reply += text.len;
    more[talk->n_reply] = '\0';
}

static int take_turn(struct halo_ctl *ctl, struct conversation *talk, const struct halo_ctl_sampling *options,
                     char *line)
{
    if (!add_message(talk, "user", line, strlen(line)))
        return HALO_CTL_FAILED;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    msg.generate = options->msg;
    msg.generate.has_messages = true;
    msg.generate.messages.at = talk->messages;
    msg.generate.messages.n = talk->n;
    msg.generate.stop = (struct halo_str_list){options->stops.at, options->stops.n};
    talk->reply = NULL;
    talk->n_reply = 0;
    int status = halo_ctl_run(ctl, &msg, on_event, talk);
    /* A turn that was cut off by the user stays in the history as far as it went; one that failed is taken back. */
    if ((status == HALO_CTL_OK || status == HALO_CTL_INTERRUPTED) && talk->reply) {
        add_message(talk, "assistant", talk->reply, talk->n_reply);
    } else {
        free(talk->reply);
        drop_message(talk);
    }
    talk->reply = NULL;
    if (!ctl->json)
        putchar('\n');
    fflush(stdout);
    return status;
}

static char *read_turn(bool interactive)
{
    if (interactive) {
        char *line = readline("> ");
        if (line && *line)
            add_history(line);
        return line;
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t n = getline(&line, &room, stdin);
    if (n < 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

/* Handles "/reset", "/system TEXT", "/quit", "/help". True when the line was one of them. */
static bool run_command(struct conversation *talk, const char *line, const char **system, bool *ret_quit)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) {
        *ret_quit = true;
    } else if (strcmp(line, "/reset") == 0) {
        forget(talk, *system);
        fputs("the conversation starts anew\n", stderr);
    } else if (strncmp(line, "/system ", 8) == 0) {
        static char kept[4096];
        snprintf(kept, sizeof kept, "%s", line + 8);
        *system = kept;
        forget(talk, *system);
        fputs("the conversation starts anew with this system message\n", stderr);
    } else if (strcmp(line, "/help") == 0) {
        fputs(
            "/reset forgets the conversation, /system TEXT sets the system message, /quit ends; Ctrl-C stops a reply\n",
            stderr);
    } else {
        return false;
    }
    return true;
}

int halo_ctl_chat(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg defaults;
    halo_msg_init(&defaults, HALO_MSG_GENERATE);
    struct halo_ctl_sampling options = {.msg = defaults.generate};
    int at = halo_ctl_parse(argc, argv, halo_ctl_sampling_options, &options, "chat [OPTION...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc || options.file || options.messages) {
        fprintf(stderr, "haloctl chat: reads turns from standard input and takes no prompt\n");
        return HALO_CTL_USAGE;
    }
    /* Tools and variables go with every turn. */
    const struct halo_ctl_talk brought = {.tools = options.tools, .vars = options.vars, .user = halo_str_of("-")};
    struct halo_msg read;
    int status = halo_ctl_read_talk(&brought, &read);
    if (status != HALO_CTL_OK)
        return status;
    options.msg.has_tools = read.template.has_tools;
    options.msg.tools = read.template.tools;
    options.msg.has_template_vars = read.template.has_template_vars;
    options.msg.template_vars = read.template.template_vars;
    status = halo_ctl_connect(ctl);
    bool interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct conversation talk = {0};
    const char *system = options.system;
    forget(&talk, system);
    bool quit = false;
    while (!quit && status != HALO_CTL_NO_DAEMON) {
        char *line = read_turn(interactive);
        if (!line)
            break;
        if (!*line || (line[0] == '/' && run_command(&talk, line, &system, &quit))) {
            free(line);
            continue;
        }
        status = take_turn(ctl, &talk, &options, line);
        if (status == HALO_CTL_INTERRUPTED && !interactive)
            break;
        halo_ctl_forget_interrupt();
    }
    forget(&talk, NULL);
    free(talk.messages);
    halo_msg_finish(&read);
    return interactive && status != HALO_CTL_NO_DAEMON ? HALO_CTL_OK : status;
}
