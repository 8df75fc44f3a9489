/* editor.c: a turn of chat typed at a terminal (contract in ctl_priv.h), on libedit.
 *
 * The terminal brackets what is pasted, so that its newlines do not end the turn. Keys are read here rather than in
 * libedit, which swallows the first interrupt.
 */
#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <client/say.h>

#include "ctl_priv.h"

#define HISTORY_TURNS 100
#define PASTE_BEGIN "\033[200~"
#define PASTE_END L"\033[201~"
#define BRACKETS_ON "\033[?2004h"
#define BRACKETS_OFF "\033[?2004l"

struct halo_ctl_editor {
    EditLine *line;
    History *history;
    bool brackets; /* the terminal is one that knows escape sequences */
};

static volatile sig_atomic_t resized;
static sigset_t outside; /* the signal mask outside of halo_ctl_editor_read() */

static void on_resize(int signo)
{
    (void)signo;
    resized = 1;
}

static const char *prompt(EditLine *line)
{
    (void)line;
    return "> ";
}

/* Waits for a key. Signals are let through here alone, so that none comes unseen before the wait. */
static int wait_key(EditLine *line)
{
    struct pollfd key = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        if (halo_ctl_interrupts() > 0) {
            errno = EINTR;
            return -1;
        }
        if (resized) {
            resized = 0;
            el_resize(line);
        }
        if (ppoll(&key, 1, NULL, &outside) > 0)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

/* One character of UTF-8 from the terminal: 1, 0 at the end, -1 with errno; EINTR at an interrupt. */
static int read_char(EditLine *line, wchar_t *ret)
{
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (wait_key(line) < 0)
            return -1;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0)
            return (int)n;
        size_t used = mbrtowc(ret, &byte, 1, &state);
        if (used == (size_t)-1) /* a byte that is no UTF-8: dropped, as it cannot be shown either */
            memset(&state, 0, sizeof(state));
        else if (used != (size_t)-2)
            return 1;
    }
}

/* Bound to the sequence that begins a paste: inserts everything up to the one that ends it. */
static unsigned char insert_paste(EditLine *line, int key)
{
    const size_t n_end = wcslen(PASTE_END);
    size_t n = 0, room = 256;
    wchar_t *text = malloc(room * sizeof(*text));
    (void)key;
    while (text && !(n >= n_end && wmemcmp(text + n - n_end, PASTE_END, n_end) == 0)) {
        if (n + 1 == room) {
            wchar_t *more = realloc(text, 2 * room * sizeof(*text));
            if (!more)
                break;
            text = more;
            room *= 2;
        }
        if (read_char(line, &text[n]) != 1)
            break;
        n += text[n] != L'\0';
    }
    if (text && n >= n_end) {
        text[n - n_end] = L'\0';
        for (wchar_t *at = text; *at; at++) /* terminals send a return for each newline */
            *at = *at == L'\r' ? L'\n' : *at;
        el_winsertstr(line, text);
    }
    free(text);
    return CC_REFRESH;
}

static void set_brackets(const struct halo_ctl_editor *editor, const char *sequence)
{
    if (editor->brackets) {
        fputs(sequence, stdout);
        fflush(stdout);
    }
}

struct halo_ctl_editor *halo_ctl_editor_create(void)
{
    struct halo_ctl_editor *editor = calloc(1, sizeof(*editor));
    HistEvent event;
    if (editor) {
        editor->line = el_init("haloctl", stdin, stdout, stderr);
        editor->history = history_init();
    }
    if (!editor || !editor->line || !editor->history) {
        halo_client_say("out of memory for the line editor");
        halo_ctl_editor_destroy(editor);
        return NULL;
    }
    editor->brackets = halo_ctl_obeys_sequences();
    history(editor->history, &event, H_SETSIZE, HISTORY_TURNS);
    el_set(editor->line, EL_PROMPT, prompt);
    el_set(editor->line, EL_EDITOR, "emacs");
    el_set(editor->line, EL_HIST, history, editor->history);
    el_set(editor->line, EL_GETCFN, read_char);
    el_wset(editor->line, EL_ADDFN, L"halo-paste", L"insert what is pasted", insert_paste); /* el_set() leaks them */
    el_source(editor->line, NULL);
    el_set(editor->line, EL_BIND, PASTE_BEGIN, "halo-paste", NULL);
    struct sigaction action = {.sa_handler = on_resize};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    return editor;
}

void halo_ctl_editor_destroy(struct halo_ctl_editor *editor)
{
    if (!editor)
        return;
    if (editor->line)
        el_end(editor->line);
    if (editor->history)
        history_end(editor->history);
    free(editor);
}

int halo_ctl_editor_read(struct halo_ctl_editor *editor, char **ret, size_t *ret_n)
{
    int n = 0;
    HistEvent event;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGWINCH);
    sigprocmask(SIG_BLOCK, &signals, &outside);
    el_set(editor->line, EL_PREP_TERM, 1); /* before the prompt, so that no key typed at it is the terminal's */
    set_brackets(editor, BRACKETS_ON);
    const char *line = el_gets(editor->line, &n);
    set_brackets(editor, BRACKETS_OFF);
    sigprocmask(SIG_SETMASK, &outside, NULL);
    if (!line || n <= 0) {
        el_reset(editor->line);
        putchar('\n');
        return halo_ctl_interrupts() ? -EINTR : -ENODATA;
    }
    n -= line[n - 1] == '\n';
    *ret = malloc((size_t)n + 1);
    if (!*ret)
        return -ENOMEM;
    memcpy(*ret, line, (size_t)n);
    (*ret)[n] = '\0';
    *ret_n = (size_t)n;
    if (n > 0)
        history(editor->history, &event, H_ENTER, *ret);
    return 0;
}
