/* bench_daemon.c: what it costs that halod stands between client and engine.
 *
 *   bench_daemon HALOD ENGINE MODEL_DIR MODEL [CLIENTS [SECONDS]]
 *
 * First the time to the first token: the same request, of which nothing is cached, in turn to a `halod-engine --stdio`
 * and to a halod with an engine of its own, as the client sees it; the figure is the difference of the medians. Then
 * for how long a client gets no answer while another one sends the longest lines that are taken, and the processor time
 * and memory of halod and its engine while so many clients are connected and silent.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>

#define N_ASKED 201
#define LINE_BYTES 65536
#define MAX_CLIENTS 1000
#define LONG_LINE_BYTES ((8 << 20) - 256)
#define N_LONG_LINES 10
#define N_UNITS 1000000
#define MAX_PINGS 200000

struct line_stream {
    int in_fd, out_fd; /* in: to read from */
    char bytes[LINE_BYTES];
    size_t n;
};

static char dir[] = "/tmp/halo-bench-daemon-XXXXXX", socket_path[64];
static pid_t halod_pid, engine_pid;

static void clean(void)
{
    char command[128];
    if (halod_pid > 0) {
        kill(halod_pid, SIGTERM);
        waitpid(halod_pid, NULL, 0);
    }
    if (engine_pid > 0) {
        kill(engine_pid, SIGKILL);
        waitpid(engine_pid, NULL, 0);
    }
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    if (system(command) != 0)
        perror(dir);
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_daemon: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void say(struct line_stream *s, const char *line)
{
    size_t n = strlen(line);
    if (write(s->out_fd, line, n) != (ssize_t)n)
        fail("write");
}

/* Reads lines until one has this text. */
static void wait_for(struct line_stream *s, const char *text)
{
    for (;;) {
        char *end;
        while ((end = memchr(s->bytes, '\n', s->n))) {
            *end = '\0';
            bool found = strstr(s->bytes, text) != NULL;
            if (!found && strstr(s->bytes, "\"type\":\"error\"")) {
                fprintf(stderr, "bench_daemon: %s\n", s->bytes);
                exit(1);
            }
            size_t used = (size_t)(end - s->bytes) + 1;
            memmove(s->bytes, s->bytes + used, s->n - used);
            s->n -= used;
            if (found)
                return;
        }
        ssize_t n = read(s->in_fd, s->bytes + s->n, sizeof(s->bytes) - s->n);
        if (n <= 0)
            fail("the other side is gone");
        s->n += (size_t)n;
    }
}

static void start_engine(struct line_stream *s, const char *engine, const char *models)
{
    int to[2], from[2];
    if (pipe(to) < 0 || pipe(from) < 0)
        fail("pipe");
    engine_pid = fork();
    if (engine_pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execl(engine, engine, "--stdio", "--device", "cpu", "--model-dir", models, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    *s = (struct line_stream){.in_fd = from[0], .out_fd = to[1]};
}

static int connect_once(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void start_halod(struct line_stream *s, char *const *args)
{
    int fd = -1;
    halod_pid = fork();
    if (halod_pid == 0) {
        execl(args[0], args[0], "--socket", socket_path, "--engine", args[1], "--model-dir", args[2], "--state-dir",
              dir, "--device", "cpu", "--log-level", "warn", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && (fd = connect_once()) < 0; i++)
        usleep(5000);
    if (fd < 0)
        fail("halod does not listen");
    *s = (struct line_stream){.in_fd = fd, .out_fd = fd};
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double ask(struct line_stream *s, int id, const char *model)
{
    char line[512];
    snprintf(line, sizeof(line),
             "{\"type\":\"generate\",\"id\":%d,\"model\":\"%s\",\"prompt\":\"Once upon a time\","
             "\"max_tokens\":1,\"temperature\":0,\"cache_prompt\":false,\"ignore_eos\":true}\n",
             id, model);
    double begin = ((double)halo_clock_ns() / 1e6);
    say(s, line);
    wait_for(s, "\"type\":\"token\"");
    double ms = ((double)halo_clock_ns() / 1e6) - begin;
    wait_for(s, "\"type\":\"done\"");
    return ms;
}

static void first_token(struct line_stream *direct, struct line_stream *daemon, const char *model)
{
    static double times[2][N_ASKED];
    char line[512];
    snprintf(line, sizeof(line), "{\"type\":\"load\",\"id\":1,\"model\":\"%s\",\"params\":{\"context\":512}}\n", model);
    say(direct, line);
    wait_for(direct, "\"type\":\"loaded\"");
    say(daemon, line);
    wait_for(daemon, "\"type\":\"loaded\"");
    for (int i = -10; i < N_ASKED; i++) { /* the first ones warm up */
        double a = ask(direct, i + 100, model), b = ask(daemon, i + 100, model);
        times[0][i < 0 ? 0 : i] = a;
        times[1][i < 0 ? 0 : i] = b;
    }
    for (int i = 0; i < 2; i++)
        qsort(times[i], N_ASKED, sizeof(double), by_size);
    double a = times[0][N_ASKED / 2], b = times[1][N_ASKED / 2];
    printf("first token: engine alone %.3f ms, through halod %.3f ms, added %.3f ms (medians of %d; 90th of 100: %.3f "
           "and %.3f ms)\n",
           a, b, b - a, N_ASKED, times[0][N_ASKED * 9 / 10], times[1][N_ASKED * 9 / 10]);
}

/* Ticks of processor time so far, and resident KiB. */
static long ticks_of(pid_t pid, long *ret_kib)
{
    char path[64], text[1024] = "";
    long user = 0, system_ticks = 0, pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, sizeof(text), file) || !strrchr(text, ')') ||
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system_ticks) !=
            2)
        fail(path);
    fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        fail(path);
    fclose(file);
    *ret_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    return user + system_ticks;
}

static pid_t engine_of_halod(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)halod_pid, (int)halod_pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%d", &pid) != 1)
        fail(path);
    fclose(file);
    return pid;
}

static void silence(int n_clients, int seconds)
{
    pid_t pids[2] = {halod_pid, engine_of_halod()};
    static const char *const names[] = {"halod", "halod-engine"};
    long ticks[2], kib[2], before_kib[2];
    for (int i = 0; i < 2; i++)
        ticks_of(pids[i], &before_kib[i]);
    for (int i = 0; i < n_clients; i++) {
        struct line_stream client = {.in_fd = connect_once()};
        client.out_fd = client.in_fd;
        if (client.in_fd < 0)
            fail("a client cannot connect");
        say(&client, "{\"type\":\"hello\"}\n");
        wait_for(&client, "\"type\":\"hello\"");
    }
    sleep(2);
    for (int i = 0; i < 2; i++)
        ticks[i] = ticks_of(pids[i], &kib[i]);
    sleep((unsigned)seconds);
    for (int i = 0; i < 2; i++) {
        long used = ticks_of(pids[i], &kib[i]) - ticks[i];
        printf("%d silent clients, %d s: %s %.2f %% of a processor, %ld KiB resident (%+ld KiB with the clients)\n",
               n_clients, seconds, names[i], 100.0 * (double)used / (double)sysconf(_SC_CLK_TCK) / seconds, kib[i],
               kib[i] - before_kib[i]);
    }
}

/* ---- long lines ---- */

static const struct long_line {
    const char *what, *begin, *unit, *end; /* so many units as fit, a million at most */
} long_lines[] = {
    {"a text", "\"prompt\":\"", "eight of ", "\"}"},
    {"ids", "\"tokens\":[1", ",1234", "]}"},
    {"short strings for ids", "\"tokens\":[1", ",\"\\n\"", "]}"},
    {"numbers that are no ids", "\"tokens\":[1", ",1.5e99", "]}"},
};

/* One after the other, each when the one before was answered. In a process of its own. */
static void send_long_lines(const struct long_line *kind)
{
    static struct line_stream s;
    static char line[LONG_LINE_BYTES + 512];
    size_t n_unit = strlen(kind->unit);
    s.in_fd = s.out_fd = connect_once();
    if (s.in_fd < 0)
        fail("a client cannot connect");
    size_t n =
        (size_t)snprintf(line, sizeof(line), "{\"type\":\"generate\",\"id\":1,\"model\":\"none\",%s", kind->begin);
    for (int i = 0; i < N_UNITS && n + n_unit < LONG_LINE_BYTES; i++, n += n_unit)
        memcpy(line + n, kind->unit, n_unit);
    snprintf(line + n, sizeof(line) - n, "%s\n", kind->end);
    for (int i = 0; i < N_LONG_LINES; i++) {
        for (size_t at = 0, len = strlen(line); at < len;) {
            ssize_t done = write(s.out_fd, line + at, len - at);
            if (done <= 0)
                fail("write");
            at += (size_t)done;
        }
        if (read(s.in_fd, s.bytes, sizeof(s.bytes)) <= 0)
            fail("no answer to a long line");
    }
}

static void ping_beside(struct line_stream *s, const struct long_line *kind)
{
    static double times[MAX_PINGS];
    size_t n = 0;
    fflush(stdout);
    pid_t sender = fork();
    if (sender == 0) {
        send_long_lines(kind);
        _exit(0);
    }
    while (n < MAX_PINGS && waitpid(sender, NULL, WNOHANG) == 0) {
        double begin = ((double)halo_clock_ns() / 1e6);
        say(s, "{\"type\":\"ping\",\"id\":7}\n");
        wait_for(s, "\"type\":\"pong\"");
        times[n++] = ((double)halo_clock_ns() / 1e6) - begin;
        usleep(500);
    }
    qsort(times, n, sizeof(double), by_size);
    if (n < N_LONG_LINES)
        fail("too few pings");
    printf("ping beside %d long lines of %s: the %d longest take %.1f to %.1f ms, %.1f in the middle; "
           "median of all %zu %.3f ms\n",
           N_LONG_LINES, kind->what, N_LONG_LINES, times[n - N_LONG_LINES], times[n - 1], times[n - N_LONG_LINES / 2],
           n, times[n / 2]);
}

int main(int argc, char **argv)
{
    static struct line_stream direct, daemon;
    int n_clients = argc > 5 ? atoi(argv[5]) : 255, seconds = argc > 6 ? atoi(argv[6]) : 30;
    if (argc < 5 || argc > 7 || n_clients < 1 || n_clients > MAX_CLIENTS || seconds < 1) {
        fputs("usage: bench_daemon HALOD ENGINE MODEL_DIR MODEL [CLIENTS [SECONDS]]\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        fail(dir);
    snprintf(socket_path, sizeof(socket_path), "%s/s", dir);
    atexit(clean);
    start_engine(&direct, argv[2], argv[3]);
    start_halod(&daemon, argv + 1);
    first_token(&direct, &daemon, argv[4]);
    for (size_t i = 0; i < sizeof(long_lines) / sizeof(long_lines[0]); i++)
        ping_beside(&daemon, &long_lines[i]);
    silence(n_clients, seconds);
    return 0;
}
