/* bench_overhead.c: what the daemon itself costs: from an engine's event to the client's line, and from start to READY.
 *
 * The program is three things: run by hand it starts halod with itself as the engine; run by halod (--fd N) it plays an
 * engine that sends one token a millisecond, each token's text being the time at which it was written; and it is the
 * client that compares that time with its own clock when the line has arrived. Both clocks are CLOCK_MONOTONIC of one
 * machine.
 *
 *   bench_overhead HALOD [TOKENS]
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <protocol/envelope.h>
#include <protocol/line.h>
#include <protocol/message.h>

#define MAX_TOKENS 100000
#define N_STARTS 9

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_overhead: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the engine ---- */

static void send_event(int fd, struct halo_json *w, const struct halo_ev *ev)
{
    halo_json_reset(w);
    if (halo_ev_encode(w, ev) != 0 || write(fd, w->at, w->len) != (ssize_t)w->len)
        exit(1);
}

static void play_generate(int fd, struct halo_json *w, const struct halo_id *id, int64_t n_tokens)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_STARTED, id);
    ev.started.model = ev.started.prompt_md5 = ev.started.effective_md5 = halo_str_of("x");
    send_event(fd, w, &ev);
    for (int64_t i = 0; i < n_tokens; i++) {
        usleep(1000);
        char text[32];
        halo_ev_init(&ev, HALO_EV_TOKEN, id);
        snprintf(text, sizeof text, "%" PRId64, now_ns());
        ev.token.text = halo_str_of(text);
        send_event(fd, w, &ev);
    }
    halo_ev_init(&ev, HALO_EV_DONE, id);
    ev.done.finish_reason = HALO_WIRE_FINISH_LENGTH;
    ev.done.tokens = n_tokens;
    send_event(fd, w, &ev);
}

static int play_engine(int fd)
{
    static struct halo_line_reader lines;
    struct halo_json w;
    halo_json_init(&w);
    halo_line_init(&lines, HALO_LIMIT_LINE_BYTES);
    for (;;) {
        char buffer[65536];
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0)
            return 0;
        if (halo_line_feed(&lines, buffer, (size_t)n) != 0)
            return 1;
        const char *line;
        size_t len;
        while (halo_line_next(&lines, &line, &len) == 0) {
            struct halo_msg msg;
            struct halo_refusal refusal;
            if (halo_msg_decode(&msg, line, len, HALO_ROLE_LINK, &refusal) != 0)
                continue;
            struct halo_ev ev;
            if (msg.type == HALO_MSG_GENERATE) {
                play_generate(fd, &w, &msg.id, msg.generate.has_max_tokens ? msg.generate.max_tokens : 1000);
            } else if (msg.type == HALO_MSG_HELLO) {
                halo_ev_init(&ev, HALO_EV_HELLO, &msg.id);
                ev.hello.protocol = HALO_PROTOCOL_VERSION;
                ev.hello.server = halo_str_of("bench_overhead");
                send_event(fd, &w, &ev);
            } else if (msg.type == HALO_MSG_HEARTBEAT) {
                halo_ev_init(&ev, HALO_EV_HEARTBEAT, &msg.id);
                ev.heartbeat.beat = msg.heartbeat.beat;
                send_event(fd, &w, &ev);
            } else if (msg.id.kind != HALO_ID_NONE) {
                halo_ev_init_error(&ev, &msg.id, HALO_ERROR_UNSUPPORTED, "this engine only generates");
                send_event(fd, &w, &ev);
            }
            halo_msg_finish(&msg);
        }
    }
}

/* ---- the client ---- */

static char run_dir[64], socket_path[80];

static pid_t start_daemon(const char *halod, const char *self)
{
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(127);
        execl(halod, halod, "--socket", socket_path, "--model-dir", run_dir, "--state-dir", run_dir, "--engine", self,
              (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int connect_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, socket_path, sizeof socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int wait_socket(void)
{
    for (int i = 0; i < 200000; i++) {
        int fd = connect_socket();
        if (fd >= 0)
            return fd;
        usleep(50);
    }
    errno = ETIMEDOUT;
    fail("the daemon's socket");
    return -1;
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, int64_t *ns, size_t n)
{
    qsort(ns, n, sizeof *ns, compare_i64);
    printf("%-34s median %8.1f us  p90 %8.1f us  p99 %8.1f us  max %8.1f us  (n %zu)\n", what, (double)ns[n / 2] / 1e3,
           (double)ns[n * 9 / 10] / 1e3, (double)ns[n * 99 / 100] / 1e3, (double)ns[n - 1] / 1e3, n);
}

static size_t measure_tokens(int fd, int64_t n_tokens, int64_t *ret_ns)
{
    char request[256];
    int n = snprintf(request, sizeof request,
                     "{\"type\":\"generate\",\"id\":1,\"model\":\"x\",\"prompt\":\"x\",\"max_tokens\":%" PRId64 "}\n",
                     n_tokens);
    if (write(fd, request, (size_t)n) != n)
        fail("write");
    struct halo_line_reader lines;
    halo_line_init(&lines, HALO_LIMIT_LINE_BYTES);
    size_t n_seen = 0;
    for (;;) {
        char buffer[65536];
        ssize_t got = read(fd, buffer, sizeof buffer);
        int64_t at = now_ns();
        if (got <= 0 || halo_line_feed(&lines, buffer, (size_t)got) != 0)
            fail("read");
        const char *line;
        size_t len;
        while (halo_line_next(&lines, &line, &len) == 0) {
            const char *text = memmem(line, len, "\"text\":\"", 8);
            if (memmem(line, len, "\"token\"", 7) && text && n_seen < MAX_TOKENS)
                ret_ns[n_seen++] = at - strtoll(text + 8, NULL, 10);
            if (memmem(line, len, "\"done\"", 6) || memmem(line, len, "\"error\"", 7)) {
                if (memmem(line, len, "\"error\"", 7))
                    fprintf(stderr, "bench_overhead: %.*s\n", (int)len, line);
                halo_line_finish(&lines);
                return n_seen;
            }
        }
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--fd") == 0)
            return play_engine(atoi(argv[i + 1]));
    if (argc < 2) {
        fprintf(stderr, "usage: bench_overhead HALOD [TOKENS]\n");
        return 2;
    }
    int64_t n_tokens = argc > 2 ? atoll(argv[2]) : 3000;
    static int64_t ns[MAX_TOKENS];
    static char self[4096];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        fail("/proc/self/exe");
    snprintf(run_dir, sizeof run_dir, "/tmp/halod-bench-XXXXXX");
    if (!mkdtemp(run_dir))
        fail("mkdtemp");
    snprintf(socket_path, sizeof socket_path, "%s/s", run_dir);
    signal(SIGPIPE, SIG_IGN);

    int64_t starts[N_STARTS];
    pid_t pid = 0;
    int fd = -1;
    for (int i = 0; i < N_STARTS; i++) {
        int64_t at = now_ns();
        pid = start_daemon(argv[1], self);
        fd = wait_socket();
        starts[i] = now_ns() - at;
        if (i + 1 < N_STARTS) {
            close(fd);
            kill(pid, SIGTERM);
            waitpid(pid, NULL, 0);
        }
    }
    report("start to accepting connections", starts, N_STARTS);
    size_t n = measure_tokens(fd, n_tokens, ns);
    if (n == 0) {
        fprintf(stderr, "bench_overhead: saw no token\n");
        return 1;
    }
    report("engine event to client line", ns, n);
    close(fd);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", run_dir);
    return system(command) == 0 ? 0 : 1;
}
