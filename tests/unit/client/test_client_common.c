/* test_client_common.c: what the client programs share: text that can be sent, text that can be shown, near words, and
 * why a socket does not answer. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <client/show.h>
#include <client/socket.h>
#include <client/suggest.h>
#include <client/text.h>

#define NOBODY 65534

/* ---- show ---- */

/* What a writer makes of a text; `fd`: of a terminal's master, or -1 for a file. */
static void shown(void (*write_text)(FILE *, const char *, size_t), const char *text, size_t n, bool terminal,
                  char ret[256])
{
    int master = -1, slave = -1;
    FILE *out = terminal ? NULL : tmpfile();
    if (terminal) {
        assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
        out = fdopen(slave, "w");
    }
    assert_non_null(out);
    write_text(out, text, n);
    size_t got = 0;
    if (terminal) { /* what was written comes in parts; the other side's end is the end */
        fclose(out);
        for (ssize_t more; got < 255 && (more = read(master, ret + got, 255 - got)) > 0;)
            got += (size_t)more;
        close(master);
    } else {
        rewind(out);
        got = fread(ret, 1, 255, out);
        fclose(out);
    }
    ret[got] = '\0';
}

static void a_terminal_gets_nothing_that_it_obeys(void **state)
{
    static const struct {
        const char *text, *lines, *line; /* lines: of show_text on a terminal, which writes \r\n for \n */
    } cases[] = {
        {"plain \xc3\xa4 \xf0\x9f\xa6\x8a", "plain \xc3\xa4 \xf0\x9f\xa6\x8a", "plain \xc3\xa4 \xf0\x9f\xa6\x8a"},
        {"\033[2J", "\\x1b[2J", "\\x1b[2J"},
        {"\033]52;c;eA==\a", "\\x1b]52;c;eA==\\x07", "\\x1b]52;c;eA==\\x07"},
        {"\xc2\x9b"
         "2J",
         "\\u009b2J", "\\u009b2J"},
        {"\x7f\b\r", "\\x7f\\x08\\x0d", "\\x7f\\x08\\x0d"},
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa6"
         "c\xe2\x80\xa8",
         "a\\u202eb\\u2066c\\u2028", "a\\u202eb\\u2066c\\u2028"},
        {"caf\xe9\xe9", "caf\\xe9\\xe9", "caf\\xe9\\xe9"},
        {"\xe2\x82", "\\xe2\\x82", "\\xe2\\x82"},
        {"a\nb\tc", "a\r\nb", "a\\x0ab\\x09c"},
    };
    char text[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t n = strlen(cases[i].text);
        shown(halo_client_show_text, cases[i].text, n, true, text);
        assert_memory_equal(text, cases[i].lines, strlen(cases[i].lines));
        shown(halo_client_show_text, cases[i].text, n, false, text); /* a file gets the bytes */
        assert_string_equal(text, cases[i].text);
        shown(halo_client_show_line, cases[i].text, n, false, text);
        assert_string_equal(text, cases[i].line);
    }
}

static void cell_of_eight(FILE *out, const char *text, size_t n)
{
    halo_client_show_cell(out, text, n, 8);
    fputc('|', out);
}

static void a_cell_is_padded_by_characters(void **state)
{
    char text[256];
    shown(cell_of_eight, "\xc3\xa4\xc3\xb6", 4, false, text);
    assert_string_equal(text, "\xc3\xa4\xc3\xb6      |");
    shown(cell_of_eight, "\033", 1, false, text);
    assert_string_equal(text, "\\x1b    |");
    shown(cell_of_eight, "longer than it", 14, false, text);
    assert_string_equal(text, "longer than it|");
}

/* ---- suggest ---- */

static void near_words_are_suggested(void **state)
{
    static const char *const known[] = {"load", "unload", "generate",     "models",
                                        "ping", "reset",  "fable-Q4_K_M", "fable-Q8_0"};
    static const struct {
        const char *word, *says;
    } cases[] = {
        {"laod", "; did you mean 'load'?"},
        {"genarate", "; did you mean 'generate'?"},
        {"gen", "; did you mean 'generate'?"},
        {"PING", "; did you mean 'ping'?"},
        {"model", "; did you mean 'models'?"},
        {"fable-q4_k_m", "; did you mean 'fable-Q4_K_M'?"},
        {"fable", "; did you mean 'fable-Q4_K_M' or 'fable-Q8_0'?"},
        {"frobnicate", ""},
        {"", ""},
        {"x", ""},
        {"load", ""}, /* is known: no suggestion of itself, and "unload" is not what it means */
    };
    char text[256];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_string_equal(
            halo_client_did_you_mean(cases[i].word, known, sizeof(known) / sizeof(*known), text, sizeof(text)),
            cases[i].says);
    char word[400];
    memset(word, 'a', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    assert_string_equal(halo_client_did_you_mean(word, known, 8, text, sizeof(text)), "");
    assert_true(strlen(halo_client_did_you_mean("fable", known, 8, text, 20)) < 20);
}

/* ---- text ---- */

static void a_file_is_read_to_its_end(void **state)
{
    char path[] = "/tmp/halo-text.XXXXXX", *text;
    size_t n;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char *bytes = malloc(300000);
    for (size_t i = 0; i < 300000; i++)
        bytes[i] = (char)(i * 7);
    assert_int_equal(write(fd, bytes, 300000), 300000);
    close(fd);
    text = halo_client_read_file(path, &n);
    assert_non_null(text);
    assert_int_equal(n, 300000);
    assert_memory_equal(text, bytes, n);
    assert_int_equal(text[n], '\0');
    free(text);
    free(bytes);
    unlink(path);
    assert_null(halo_client_read_file(path, &n));
}

static void what_can_be_sent_is_whole_characters_without_nul(void **state)
{
    assert_true(halo_client_check_text("it", "", 0));
    assert_true(halo_client_check_text("it", "\x01\r\n\xf4\x8f\xbf\xbf", 7));
    assert_false(halo_client_check_text("it", "a\0", 2));
    assert_false(halo_client_check_text("it", "a\xe9", 2));
    assert_false(halo_client_check_text("it", "\xc0\x80", 2));
}

/* ---- socket ---- */

struct place {
    char dir[40], path[60];
};

static void listen_at(struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(place->dir, "/tmp/halo-socket.XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->path, sizeof(place->path), "%s/s", place->dir);
    strcpy(address.sun_path, place->path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    close(fd); /* the file stays, and nobody listens */
    assert_int_equal(chmod(place->dir, 0755), 0);
}

static void remove_place(const struct place *place)
{
    chmod(place->dir, 0700);
    unlink(place->path);
    rmdir(place->dir);
}

/* In a child, as a user who is not root: connects and checks the reason. */
static void assert_reason(const char *path, int error, const char *wanted)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char text[400];
        if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
            _exit(2);
        int r = halo_client_connect(path);
        halo_client_connect_reason(path, r, text, sizeof(text));
        if (r == error && strstr(text, wanted))
            _exit(0);
        fprintf(stderr, "%s: %d, %s\n", path, r, text);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_refused_connection_says_what_to_do(void **state)
{
    struct place place;
    char wanted[200];
    const gid_t gid = geteuid() == 0 ? 1 : getegid(); /* not the one of root */
    const struct group *group = getgrgid(gid);
    const char *name = group ? group->gr_name : "?";
    listen_at(&place);
    chmod(place.path, 0777);
    assert_reason(place.path, -ECONNREFUSED, "no daemon listens");
    chmod(place.path, 0060);
    if (geteuid() == 0) {
        assert_int_equal(chown(place.path, 0, 0), 0);
        assert_reason(place.path, -EACCES, "is open to the user 'root' alone");
        assert_int_equal(chown(place.path, 0, gid) | chown(place.dir, 0, gid), 0);
    }
    snprintf(wanted, sizeof(wanted), "%s is open to the group '%s'; join it (sudo usermod -aG %s USER)", place.path,
             name, name);
    assert_reason(place.path, -EACCES, wanted);
    chmod(place.path, 0000);
    assert_reason(place.path, -EACCES, "alone");
    chmod(place.dir, 0010); /* the folder is what stops it */
    snprintf(wanted, sizeof(wanted), "%s is open to the group '%s'", place.dir, name);
    assert_reason(place.path, -EACCES, wanted);
    remove_place(&place);
    assert_reason(place.path, -ENOENT, "No such file");
}

static void a_path_too_long_is_no_socket(void **state)
{
    char path[200];
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(halo_client_connect(path), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_nothing_that_it_obeys),
        cmocka_unit_test(a_cell_is_padded_by_characters),
        cmocka_unit_test(near_words_are_suggested),
        cmocka_unit_test(a_file_is_read_to_its_end),
        cmocka_unit_test(what_can_be_sent_is_whole_characters_without_nul),
        cmocka_unit_test(a_refused_connection_says_what_to_do),
        cmocka_unit_test(a_path_too_long_is_no_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
