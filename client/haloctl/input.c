/* input.c: the text a verb works on: from the command line, a file or standard input. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <client/say.h>
#include <client/text.h>

#include "ctl_priv.h"

#define PATIENCE_MS 1000 /* after which a person is told what is waited for */

struct halo_ctl_kept {
    struct halo_ctl_kept *next;
    char *text;
};

/* Takes a malloc'ed text, which is freed with `ctl`. Returns it; NULL after a message. */
static const char *keep(struct halo_ctl *ctl, char *text)
{
    struct halo_ctl_kept *kept = text ? malloc(sizeof(*kept)) : NULL;
    if (!kept) {
        halo_client_say("out of memory");
        free(text);
        return NULL;
    }
    *kept = (struct halo_ctl_kept){ctl->kept, text};
    ctl->kept = kept;
    return text;
}

void halo_ctl_forget_kept(struct halo_ctl *ctl)
{
    while (ctl->kept) {
        struct halo_ctl_kept *next = ctl->kept->next;
        free(ctl->kept->text);
        free(ctl->kept);
        ctl->kept = next;
    }
}

bool halo_ctl_model(struct halo_ctl *ctl, const char *text, struct halo_str *ret)
{
    char *model = halo_client_model(text);
    *ret = halo_str_of(model ? keep(ctl, model) : NULL);
    return ret->at != NULL;
}

static char *join_words(char **argv, int argc, size_t *ret_n)
{
    size_t n = 0;
    for (int i = 0; i < argc; i++)
        n += strlen(argv[i]) + 1;
    char *text = malloc(n + 1), *at = text;
    if (!text) {
        halo_client_say("out of memory");
        return NULL;
    }
    *at = '\0';
    for (int i = 0; i < argc; i++)
        at += sprintf(at, "%s%s", i ? " " : "", argv[i]);
    *ret_n = (size_t)(at - text);
    return text;
}

/* Whether standard input was given to this program: a pipe or a file, not a terminal, a device or a socket. */
static bool has_input(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

/* Appends standard input after a newline. Returns the whole text; NULL after a message. Takes `text`. */
static char *append_input(char *text, const char *what, size_t *n)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&ready, 1, PATIENCE_MS) == 0)
        halo_client_say("reading standard input, to append it to the %s (</dev/null appends nothing)", what);
    size_t n_more;
    char *more = halo_ctl_interrupts() > 0 ? NULL : halo_client_read_file("-", &n_more), *both = NULL;
    if (more && n_more == 0) {
        free(more);
        return text;
    }
    if (more && halo_client_check_text("standard input", more, n_more)) {
        both = realloc(text, *n + 1 + n_more + 1);
        if (!both)
            halo_client_say("out of memory");
    }
    if (both) {
        both[(*n)++] = '\n';
        memcpy(both + *n, more, n_more + 1);
        *n += n_more;
    } else {
        free(text);
    }
    free(more);
    return both;
}

char *halo_ctl_read_text(char **argv, int argc, const char *file, const char *what, size_t *ret_n)
{
    if (argc > 0 && file) {
        halo_client_say("the %s is given twice, as an argument and by --file", what);
        return NULL;
    }
    if (argc == 0 && !file && isatty(STDIN_FILENO)) {
        halo_client_say("there is no %s: give it as an argument, by --file FILE, or on standard input", what);
        return NULL;
    }
    bool is_stdin = argc == 0 && (!file || strcmp(file, "-") == 0);
    char *text = argc > 0 ? join_words(argv, argc, ret_n) : halo_client_read_file(is_stdin ? "-" : file, ret_n);
    if (text && !halo_client_check_text(argc > 0 ? what : is_stdin ? "standard input" : file, text, *ret_n)) {
        free(text);
        return NULL;
    }
    return text && argc > 0 && has_input() ? append_input(text, what, ret_n) : text;
}
