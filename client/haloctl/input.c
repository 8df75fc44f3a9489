/* input.c: the text a verb works on: from the command line, a file or standard input. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_priv.h"

static char *read_all(int fd, const char *name, size_t *ret_n)
{
    size_t used = 0, room = 64 * 1024;
    char *text = malloc(room);
    while (text) {
        if (used + 1 == room) {
            room *= 2;
            char *more = realloc(text, room);
            if (!more)
                break;
            text = more;
        }
        ssize_t n = read(fd, text + used, room - used - 1);
        if (n < 0 && errno == EINTR && !halo_ctl_interrupted())
            continue;
        if (n < 0) {
            fprintf(stderr, "haloctl: cannot read %s: %s\n", name, strerror(errno));
            free(text);
            return NULL;
        }
        if (n == 0) {
            text[used] = '\0';
            *ret_n = used;
            return text;
        }
        used += (size_t)n;
    }
    fprintf(stderr, "haloctl: out of memory reading %s\n", name);
    free(text);
    return NULL;
}

static char *join_words(char **argv, int argc, size_t *ret_n)
{
    size_t n = 0;
    for (int i = 0; i < argc; i++)
        n += strlen(argv[i]) + 1;
    char *text = malloc(n + 1), *at = text;
    if (!text)
        return NULL;
    for (int i = 0; i < argc; i++)
        at += sprintf(at, "%s%s", i ? " " : "", argv[i]);
    *at = '\0';
    *ret_n = (size_t)(at - text);
    return text;
}

char *halo_ctl_read_text(char **argv, int argc, const char *file, const char *what, size_t *ret_n)
{
    if (argc > 0 && file) {
        fprintf(stderr, "haloctl: %s is given twice, as an argument and by --file\n", what);
        return NULL;
    }
    if (argc > 0)
        return join_words(argv, argc, ret_n);
    if (!file && isatty(STDIN_FILENO)) {
        fprintf(stderr, "haloctl: no %s: give it as an argument, by --file FILE, or on standard input\n", what);
        return NULL;
    }
    if (!file || strcmp(file, "-") == 0)
        return read_all(STDIN_FILENO, "standard input", ret_n);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "haloctl: cannot open %s: %s\n", file, strerror(errno));
        return NULL;
    }
    char *text = read_all(fd, file, ret_n);
    close(fd);
    return text;
}
