/* transcript.c: plays a *.transcript file against a real halod with a real engine, and compares every line.
 *
 *   run_transcript HALOD ENGINE MODEL_DIR FILE
 *
 * A line of the file is one of
 *   # comment            (also an empty line)
 *   > LINE               the client sends LINE            >NAME LINE   on the connection NAME
 *   < PATTERN            the next line from the server matches             <NAME PATTERN
 *   <* PATTERN           lines that match are skipped, as many as come (NAME* for a connection)
 *   <& PATTERN           consecutive lines of this kind: all of them come, in any order
 *   ! DIRECTIVE          one of those below
 * In a PATTERN, `*` in the place of a JSON value stands for any one value, `...` for any text, the rest for itself.
 * Directives:
 *   config LINE          a line of halod.conf            env NAME=VALUE       both before the first connection
 *   kill-engine          SIGKILL                         stop-engine          SIGSTOP
 *   sleep MS                                             quiet MS             nothing may arrive
 *   close NAME           half-close NAME                 ended NAME           the server closes it
 *   long N               sends N times 'x' and a newline
 *   terminate            SIGTERM to halod, which must exit with 0
 * Connections come into being when they are named first. At the end nothing may be left unread, and halod must exit 0
 * on SIGTERM. Exit status 0, or 1 with the place and both texts. A file that expects nothing fails.
 */
#include "transcript.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <base/clock.h>
#include <protocol/line.h>

#define CONNECTIONS 16
#define PATIENCE_MS 60000
#define QUIET_MS 50
#define ANY_ORDER_MAX 64

struct connection {
    char name[32];
    int fd;
    struct halo_line_reader reader;
    const char *line; /* read ahead: not matched yet */
    size_t len;
    bool has_line;
};

struct play {
    const char *halod, *engine, *models, *file;
    int line_number;
    char dir[64], socket_path[80], config[4096];
    char *env[16];
    size_t n_env;
    pid_t pid;
    bool ended;
    struct connection connections[CONNECTIONS];
    size_t n_connections;
    int n_expected;
};

static struct play play;

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void show_log(void)
{
    char path[128], text[4096];
    snprintf(path, sizeof(path), "%s/log", play.dir);
    FILE *file = fopen(path, "r");
    for (size_t n; file && (n = fread(text, 1, sizeof(text), file)) > 0;)
        fwrite(text, 1, n, stderr);
    if (file)
        fclose(file);
}

static void remove_dir(void)
{
    static const char *const names[] = {"s", "s.lock", "conf", "log"};
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", play.dir, names[i]);
        unlink(path);
    }
    rmdir(play.dir);
}

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s:%d: ", play.file, play.line_number);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n--- log of the daemon\n");
    show_log();
    if (play.pid > 0 && !play.ended) {
        kill(play.pid, SIGKILL);
        waitpid(play.pid, NULL, 0);
    }
    remove_dir();
    exit(1);
}

static void start_daemon(void)
{
    char conf[128], log[128];
    snprintf(conf, sizeof(conf), "%s/conf", play.dir);
    snprintf(log, sizeof(log), "%s/log", play.dir);
    FILE *file = fopen(conf, "w");
    if (!file || fputs(play.config, file) < 0 || fclose(file) != 0)
        give_up("cannot write %s", conf);
    play.pid = fork();
    if (play.pid != 0)
        return;
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(98);
    for (size_t i = 0; i < play.n_env; i++)
        putenv(play.env[i]);
    execl(play.halod, "halod", "--config", conf, "--socket", play.socket_path, "--engine", play.engine, "--model-dir",
          play.models, "--state-dir", play.dir, "--device", "cpu", "--log-level", "debug", (char *)NULL);
    _exit(99);
}

static int connect_daemon(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", play.socket_path);
    for (uint64_t end = halo_clock_ms() + PATIENCE_MS; halo_clock_ms() < end; sleep_ms(2)) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        close(fd);
        if (waitpid(play.pid, NULL, WNOHANG) == play.pid)
            break;
    }
    give_up("halod does not listen");
}

static struct connection *connection(const char *name)
{
    for (size_t i = 0; i < play.n_connections; i++)
        if (strcmp(play.connections[i].name, name) == 0)
            return &play.connections[i];
    if (play.n_connections == CONNECTIONS)
        give_up("too many connections");
    if (play.pid == 0)
        start_daemon();
    struct connection *made = &play.connections[play.n_connections++];
    snprintf(made->name, sizeof(made->name), "%s", name);
    made->fd = connect_daemon();
    halo_line_init(&made->reader, 256u << 20);
    return made;
}

static void send_all(struct connection *c, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(c->fd, bytes + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0)
            give_up("cannot send: %s", strerror(errno));
        at += (size_t)sent;
    }
}

/* 1: a line is at hand; 0: none within `ms`; -1: the server closed the connection. */
static int look(struct connection *c, long ms)
{
    uint64_t end = halo_clock_ms() + (uint64_t)ms;
    while (!c->has_line) {
        int r = halo_line_next(&c->reader, &c->line, &c->len);
        if (r == 0) {
            c->has_line = true;
            break;
        }
        if (r != HALO_LINE_E_MORE)
            give_up("a line of the server is too long");
        uint64_t now = halo_clock_ms();
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, now < end ? (int)(end - now) : 0) == 0)
            return 0;
        char *at;
        size_t room;
        if (halo_line_reserve(&c->reader, 65536, &at, &room) < 0)
            give_up("no memory");
        ssize_t n = recv(c->fd, at, room, 0);
        if (n <= 0)
            return -1;
        halo_line_commit(&c->reader, (size_t)n);
    }
    return 1;
}

static void expect(struct connection *c, const char *pattern, bool any_number)
{
    for (;;) {
        int r = look(c, PATIENCE_MS);
        if (r <= 0)
            give_up("%s\n  wanted %s", r < 0 ? "the connection ended" : "nothing came", pattern);
        bool fits = transcript_match(pattern, c->line, c->len);
        if (!fits && any_number)
            return;
        if (!fits)
            give_up("\n  wanted %s\n  got    %.*s", pattern, (int)c->len, c->line);
        c->has_line = false;
        if (!any_number)
            return;
    }
}

struct any_order {
    struct connection *connection[ANY_ORDER_MAX];
    char *pattern[ANY_ORDER_MAX];
    size_t n;
};

static struct any_order any_order;

/* The lines collected by `<&`: each line that comes must fit one of those patterns that are left. */
static void settle_any_order(void)
{
    while (any_order.n > 0) {
        struct connection *c = any_order.connection[0];
        size_t i = 0;
        if (look(c, PATIENCE_MS) <= 0)
            give_up("nothing came, %zu lines are missing, e.g. %s", any_order.n, any_order.pattern[0]);
        while (i < any_order.n &&
               (any_order.connection[i] != c || !transcript_match(any_order.pattern[i], c->line, c->len)))
            i++;
        if (i == any_order.n)
            give_up("\n  got    %.*s\n  which is none of the %zu lines that are missing, e.g.\n  %s", (int)c->len,
                    c->line, any_order.n, any_order.pattern[0]);
        free(any_order.pattern[i]);
        any_order.n--;
        for (size_t j = i; j < any_order.n; j++) { /* in order: a pattern with wildcards must not take another's line */
            any_order.pattern[j] = any_order.pattern[j + 1];
            any_order.connection[j] = any_order.connection[j + 1];
        }
        c->has_line = false;
    }
}

/* The engine is halod's only child. */
static pid_t engine_pid(void)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)play.pid, (long)play.pid);
    for (uint64_t end = halo_clock_ms() + PATIENCE_MS; halo_clock_ms() < end; sleep_ms(2)) {
        FILE *file = fopen(path, "r");
        if (!file)
            give_up("cannot read %s", path);
        size_t n = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[n] = '\0';
        if (atol(text) > 0)
            return (pid_t)atol(text);
    }
    give_up("halod has no child");
}

static void terminate(void)
{
    int status;
    if (play.pid == 0 || play.ended)
        return;
    kill(play.pid, SIGTERM);
    for (uint64_t end = halo_clock_ms() + PATIENCE_MS; halo_clock_ms() < end; sleep_ms(2))
        if (waitpid(play.pid, &status, WNOHANG) == play.pid) {
            play.ended = true;
            if (status != 0)
                give_up("halod ended with wait status %d", status);
            return;
        }
    give_up("halod does not end");
}

static void send_long(struct connection *c, long n)
{
    char *text = malloc((size_t)n + 1);
    if (!text)
        give_up("no memory");
    memset(text, 'x', (size_t)n);
    text[n] = '\n';
    send_all(c, text, (size_t)n + 1);
    free(text);
}

static void close_connection(const char *name)
{
    struct connection *c = connection(name);
    close(c->fd);
    halo_line_finish(&c->reader);
    *c = play.connections[--play.n_connections];
}

static void direct(const char *text)
{
    char verb[32], rest[512] = "";
    if (sscanf(text, "%31s %511[^\n]", verb, rest) < 1)
        give_up("an empty directive");
    if (strcmp(verb, "config") == 0) {
        size_t n = strlen(play.config);
        snprintf(play.config + n, sizeof(play.config) - n, "%s\n", rest);
    } else if (strcmp(verb, "env") == 0) {
        if (play.n_env == sizeof(play.env) / sizeof(play.env[0]))
            give_up("too many env lines");
        play.env[play.n_env++] = strdup(rest);
    } else if (strcmp(verb, "kill-engine") == 0) {
        kill(engine_pid(), SIGKILL);
    } else if (strcmp(verb, "stop-engine") == 0) {
        kill(engine_pid(), SIGSTOP);
    } else if (strcmp(verb, "sleep") == 0) {
        sleep_ms(atol(rest));
    } else if (strcmp(verb, "quiet") == 0) {
        for (size_t i = 0; i < play.n_connections; i++)
            if (look(&play.connections[i], i == 0 ? atol(rest) : 0) == 1)
                give_up("unexpected: %.*s", (int)play.connections[i].len, play.connections[i].line);
    } else if (strcmp(verb, "close") == 0) {
        close_connection(rest);
    } else if (strcmp(verb, "half-close") == 0) {
        shutdown(connection(rest)->fd, SHUT_WR);
    } else if (strcmp(verb, "ended") == 0) {
        int r = look(connection(rest), PATIENCE_MS);
        if (r >= 0)
            give_up("the connection is still open%s", r > 0 ? ", and something came" : "");
        close_connection(rest);
    } else if (strcmp(verb, "long") == 0) {
        send_long(connection(""), atol(rest));
    } else if (strcmp(verb, "terminate") == 0) {
        terminate();
    } else {
        give_up("unknown directive '%s'", verb);
    }
}

static void play_line(char *line)
{
    char name[32] = "", kind = line[0];
    const char *rest = line + 1;
    if (kind == '\0' || kind == '#')
        return;
    bool many = false, any = false;
    if (kind == '<' || kind == '>') {
        size_t n = 0;
        while (isalnum((unsigned char)*rest) && n + 1 < sizeof(name))
            name[n++] = *rest++;
        name[n] = '\0';
        many = *rest == '*';
        any = *rest == '&';
        rest += many || any;
    }
    if (*rest != ' ')
        give_up("a blank is missing after '%c'", kind);
    rest++;
    if (!any)
        settle_any_order();
    if (kind == '!') {
        direct(rest);
    } else if (kind == '>') {
        send_all(connection(name), rest, strlen(rest));
        send_all(connection(name), "\n", 1);
    } else if (kind == '<') {
        play.n_expected++;
        if (!any) {
            expect(connection(name), rest, many);
            return;
        }
        if (any_order.n == ANY_ORDER_MAX)
            give_up("too many lines in any order");
        any_order.connection[any_order.n] = connection(name);
        any_order.pattern[any_order.n++] = strdup(rest);
    } else {
        give_up("a line starts with '%c'", kind);
    }
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;
    if (argc < 5) {
        fprintf(stderr, "usage: run_transcript HALOD ENGINE MODEL_DIR FILE\n");
        return 2;
    }
    play = (struct play){.halod = argv[1], .engine = argv[2], .models = argv[3], .file = argv[4]};
    snprintf(play.dir, sizeof(play.dir), "/tmp/halo-transcript-XXXXXX");
    FILE *file = fopen(play.file, "r");
    if (!file || !mkdtemp(play.dir)) {
        fprintf(stderr, "%s: %s\n", play.file, strerror(errno));
        return 1;
    }
    snprintf(play.socket_path, sizeof(play.socket_path), "%s/s", play.dir);
    for (ssize_t n; (n = getline(&line, &cap, file)) > 0;) {
        play.line_number++;
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        play_line(line);
    }
    settle_any_order();
    for (size_t i = 0; i < play.n_connections; i++)
        if (look(&play.connections[i], i == 0 ? QUIET_MS : 0) == 1)
            give_up("left over at the end: %.*s", (int)play.connections[i].len, play.connections[i].line);
    while (play.n_connections > 0)
        close_connection(play.connections[0].name);
    terminate();
    if (play.n_expected == 0)
        give_up("the file expects nothing");
    printf("%s: %d expected lines came\n", play.file, play.n_expected);
    fclose(file);
    free(line);
    remove_dir();
    return 0;
}
