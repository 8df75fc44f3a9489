/* text.c: see text.h. */
#include <client/text.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <protocol/utf8.h>

#include <client/say.h>

/* Reads `fd` to its end: malloc'ed, a NUL after the bytes. 0 or a negative errno: -EINTR when a signal came that is
 * handled without SA_RESTART. */
static int read_fd(int fd, char **ret, size_t *ret_n)
{
    size_t used = 0, room = 64 * 1024;
    char *text = malloc(room);
    while (text) {
        if (used + 1 == room) {
            char *more = realloc(text, 2 * room);
            if (!more)
                break;
            text = more;
            room *= 2;
        }
        ssize_t n = read(fd, text + used, room - used - 1);
        if (n < 0) {
            int r = -errno;
            free(text);
            return r;
        }
        if (n == 0) {
            text[used] = '\0';
            *ret = text;
            *ret_n = used;
            return 0;
        }
        used += (size_t)n;
    }
    free(text);
    return -ENOMEM;
}

char *halo_client_read_file(const char *path, size_t *ret_n)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    int r = fd < 0 ? -errno : read_fd(fd, &text, ret_n);
    if (fd >= 0 && !is_stdin)
        close(fd);
    if (r < 0 && r != -EINTR)
        halo_client_say("cannot read %s: %s", is_stdin ? "standard input" : path, strerror(-r));
    return r < 0 ? NULL : text;
}

bool halo_client_check_text(const char *what, const char *text, size_t n)
{
    size_t good = halo_utf8_whole(text, n);
    const char *nul = memchr(text, '\0', good);
    if (nul)
        halo_client_say("%s: the byte at offset %zu is NUL, which the protocol's strings cannot hold", what,
                        (size_t)(nul - text));
    else if (good < n)
        halo_client_say("%s: the byte at offset %zu is 0x%02x, which is not valid UTF-8; convert it first (iconv -f "
                        "ISO-8859-1 -t UTF-8)",
                        what, good, (unsigned char)text[good]);
    return !nul && good == n;
}

char *halo_client_model(const char *text)
{
    char *folder = NULL, *model = NULL;
    if (!halo_client_check_text("the model's name", text, strlen(text)))
        return NULL;
    bool is_relative = text[0] != '/' && strchr(text, '/');
    if (is_relative && !(folder = getcwd(NULL, 0))) {
        halo_client_say("%s: the current folder has no path: %s", text, strerror(errno));
        return NULL;
    }
    if (asprintf(&model, "%s%s%s", folder && strcmp(folder, "/") != 0 ? folder : "", is_relative ? "/" : "", text) <
        0) {
        halo_client_say("out of memory");
        model = NULL;
    }
    free(folder);
    if (model && !halo_client_check_text("the model's path", model, strlen(model))) {
        free(model);
        model = NULL;
    }
    return model;
}
