/* chat.c: `haloctl chat`: a conversation, turn by turn. At a terminal with line editing and history; in a pipe each
 * line of standard input is a turn. The conversation is haloctl's: each turn sends all messages so far.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <client/conversation.h>
#include <client/say.h>
#include <client/suggest.h>
#include <client/text.h>

#include "ctl_priv.h"

struct conversation {
    struct halo_part_chat *messages; /* role: static text; content: malloc'ed */
    size_t n, room;
    char *system;  /* the system message, malloc'ed; NULL: none */
    int64_t limit; /* tokens of a reply, 0: none */
    char *reply;   /* of the running turn */
    size_t n_reply;
};

/* Takes `content`, whatever becomes of it. */
static bool add_message(struct conversation *talk, const char *role, char *content, size_t n)
{
    if (content && talk->n == talk->room) {
        size_t room = talk->room ? 2 * talk->room : 16;
        struct halo_part_chat *more = realloc(talk->messages, room * sizeof(*more));
        if (more) {
            talk->messages = more;
            talk->room = room;
        }
    }
    if (!content || talk->n == talk->room) {
        halo_client_say("out of memory");
        free(content);
        return false;
    }
    talk->messages[talk->n++] =
        (struct halo_part_chat){.role = halo_str_of(role), .content = halo_content_of((struct halo_str){content, n})};
    return true;
}

static void drop_message(struct conversation *talk)
{
    free((void *)(uintptr_t)talk->messages[--talk->n].content.text.at);
}

/* Begins the conversation again, with its system message alone. */
static void restart(struct conversation *talk)
{
    while (talk->n > 0)
        drop_message(talk);
    if (talk->system)
        add_message(talk, "system", strdup(talk->system), strlen(talk->system));
}

static void finish(struct conversation *talk)
{
    while (talk->n > 0)
        drop_message(talk);
    free(talk->messages);
    free(talk->system);
}

static void on_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    struct conversation *talk = ud;
    halo_ctl_print_reply(ctl, ev, talk->limit);
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

/* Takes `turn`. */
static int take_turn(struct halo_ctl *ctl, struct conversation *talk, const struct halo_ctl_sampling *options,
                     char *turn, size_t n)
{
    if (!add_message(talk, "user", turn, n))
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
    /* What was said stays in the history, also of a turn that was cut off; one without a word is taken back. */
    bool ended = status == HALO_CTL_OK || status == HALO_CTL_CUT || status == HALO_CTL_DEADLINE ||
                 status == HALO_CTL_INTERRUPTED;
    if (ended && talk->reply) {
        add_message(talk, "assistant", talk->reply, talk->n_reply);
    } else {
        free(talk->reply);
        drop_message(talk);
    }
    talk->reply = NULL;
    if (!ctl->json && (ctl->mid_line || !ctl->out_is_tty || !ctl->err_is_tty))
        putchar('\n');
    ctl->mid_line = false;
    halo_ctl_flush(ctl);
    return status;
}

/* One turn, malloc'ed: 0; -EINTR: given up; -ENODATA: there is no more; another negative errno. */
static int read_turn(struct halo_ctl_editor *editor, char **ret, size_t *ret_n)
{
    if (editor)
        return halo_ctl_editor_read(editor, ret, ret_n);
    *ret = NULL;
    size_t room = 0;
    errno = 0;
    ssize_t n = getline(ret, &room, stdin);
    if (n < 0) {
        int r = feof(stdin) || errno == 0 ? -ENODATA : -errno;
        free(*ret);
        return r;
    }
    if (n > 0 && (*ret)[n - 1] == '\n')
        n--;
    if (n > 0 && (*ret)[n - 1] == '\r')
        n--;
    (*ret)[n] = '\0';
    *ret_n = (size_t)n;
    return 0;
}

/* A slash and one word that is no command: misspelt, and no message for the model. */
static void refuse_command(const char *turn)
{
    static const char *const names[] = {"reset", "system", "quit", "help"};
    char text[256];
    halo_client_did_you_mean(turn + 1, names, sizeof(names) / sizeof(*names), text, sizeof(text));
    halo_client_say("unknown command %s%s (/help lists them; a space in front makes it a message)", turn, text);
}

/* Obeys "/reset", "/system TEXT", "/quit", "/help". True when the turn was one of them. */
static bool run_command(struct conversation *talk, const char *turn, bool *ret_quit)
{
    if (strcmp(turn, "/quit") == 0 || strcmp(turn, "/exit") == 0) {
        *ret_quit = true;
    } else if (strcmp(turn, "/reset") == 0) {
        restart(talk);
        fputs("the conversation starts over\n", stderr);
    } else if (strncmp(turn, "/system ", 8) == 0) {
        free(talk->system);
        talk->system = strdup(turn + 8);
        restart(talk);
        fputs("the conversation starts over with this system message\n", stderr);
    } else if (strcmp(turn, "/help") == 0) {
        fputs("/reset forgets the conversation, /system TEXT sets the system message, /quit leaves;\n"
              "Ctrl-C stops a reply or discards the line, Ctrl-D leaves; several pasted lines are one turn\n",
              stderr);
    } else if (strcmp(turn, "/system") == 0) {
        halo_client_say("/system needs the text of the message");
    } else if (turn[1] != '\0' && turn[1 + strspn(turn + 1, "abcdefghijklmnopqrstuvwxyz")] == '\0') {
        refuse_command(turn);
    } else {
        return false;
    }
    return true;
}

/* All turns. An exit status: that of the last turn. */
static int converse(struct halo_ctl *ctl, struct conversation *talk, const struct halo_ctl_sampling *options,
                    struct halo_ctl_editor *editor)
{
    int status = halo_ctl_connect(ctl);
    bool quit = status == HALO_CTL_NO_DAEMON;
    while (!quit && !ctl->out_error) {
        char *turn;
        size_t n;
        int r = read_turn(editor, &turn, &n);
        if (r == -EINTR && editor) {
            halo_ctl_forget_interrupts();
            continue;
        }
        if (r < 0) {
            if (r != -ENODATA && r != -EINTR)
                halo_client_say("cannot read a turn: %s", strerror(-r));
            return r == -EINTR ? HALO_CTL_INTERRUPTED : r == -ENODATA ? status : HALO_CTL_FAILED;
        }
        if (!halo_client_check_text("this turn", turn, n)) {
            free(turn);
            status = HALO_CTL_USAGE;
            if (!editor)
                return status;
            continue;
        }
        if (n == 0 || (turn[0] == '/' && run_command(talk, turn, &quit))) {
            free(turn);
            continue;
        }
        status = take_turn(ctl, talk, options, turn, n);
        if ((status == HALO_CTL_INTERRUPTED || status == HALO_CTL_NO_DAEMON) && !editor)
            break;
        if (status == HALO_CTL_NO_DAEMON)
            halo_client_say("the conversation is kept without that turn; send it again when the daemon is back");
        halo_ctl_forget_interrupts();
    }
    return status;
}

int halo_ctl_chat(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg defaults;
    halo_msg_init(&defaults, HALO_MSG_GENERATE);
    struct halo_ctl_sampling options = {.msg = defaults.generate};
    int at = halo_ctl_parse(ctl, argc, argv, halo_ctl_sampling_options, &options, "chat [OPTION...]");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc || options.file || options.messages) {
        halo_client_say("chat: reads turns from standard input and takes no prompt");
        return HALO_CTL_USAGE;
    }
    /* Tools and variables go with every turn. */
    const struct halo_client_conversation given = {
        .tools = options.tools, .vars = options.vars, .user = halo_str_of("-")};
    struct halo_msg read;
    if (halo_client_conversation_read(&given, &read) < 0)
        return HALO_CTL_USAGE;
    options.msg.has_tools = read.template.has_tools;
    options.msg.tools = read.template.tools;
    options.msg.has_template_vars = read.template.has_template_vars;
    options.msg.template_vars = read.template.template_vars;
    bool interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    struct halo_ctl_editor *editor = interactive ? halo_ctl_editor_create() : NULL;
    struct conversation talk = {.system = options.system ? strdup(options.system) : NULL,
                                .limit = options.msg.has_max_tokens ? options.msg.max_tokens : 0};
    restart(&talk);
    int status = HALO_CTL_FAILED;
    if (editor || !interactive)
        status = converse(ctl, &talk, &options, editor);
    halo_ctl_editor_destroy(editor);
    finish(&talk);
    halo_msg_finish(&read);
    return interactive && status != HALO_CTL_NO_DAEMON ? HALO_CTL_OK : status;
}
