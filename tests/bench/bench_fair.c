/* bench_fair.c: what a long prompt does to those who are decoding beside it: time between tokens, as a client of
 * halod-engine sees it, before, beside and after, and how fast the prompt gets on beside them and alone.
 *
 *   bench_fair ENGINE MODEL.gguf [PROMPT_TOKENS 4096] [CLIENTS 8] [THREADS 2] [LIMIT_S 60] [REPLY_TOKENS]
 *
 * $DEVICE names the device (default cpu), $HALO_HIP_LIB the runtime of the HIP device. The prompt is cancelled after
 * LIMIT_S; its rate is then that of what was done. REPLY_TOKENS is how long the others' replies may get until then
 * (default: as the prompt, 8000 at most); the KV pool holds all of them. Never a pass or fail.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>

#define MAX_CLIENTS 32
#define MAX_GAPS 200000
#define WARM 10  /* tokens of each client that are not looked at */
#define PHASE 60 /* tokens of each client before and after */
#define PROMPT_ID 1000

struct gaps {
    double ms[MAX_GAPS];
    size_t n;
};

static FILE *to_engine;
static int from_engine;
static char pending[1 << 22];
static size_t n_pending;
static unsigned n_clients = 8;
static double last_ms[MAX_CLIENTS];
static unsigned n_tokens[MAX_CLIENTS];
static long long prompt_done; /* rows, by the progress events */
static bool prompt_ended;

static void fail(const char *what)
{
    fprintf(stderr, "bench_fair: %s\n", what);
    exit(1);
}

static long long field(const char *line, const char *name)
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = strstr(line, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

static void take_line(const char *line, struct gaps *gaps)
{
    long long id = field(line, "id");
    double now = ((double)halo_clock_ns() / 1e6);
    if (strstr(line, "\"type\":\"error\""))
        fail(line);
    if (id == PROMPT_ID) {
        if (strstr(line, "\"phase\":\"prefill\""))
            prompt_done = field(line, "done");
        if (strstr(line, "\"type\":\"committed\"") || strstr(line, "\"type\":\"done\""))
            prompt_ended = true;
        return;
    }
    if (id < 0 || id >= n_clients)
        return;
    if (strstr(line, "\"type\":\"done\""))
        fail("a client's reply ended before the prompt did: give more REPLY_TOKENS, a smaller prompt or a smaller "
             "limit");
    if (!strstr(line, "\"type\":\"committed\""))
        return;
    if (gaps && n_tokens[id] >= WARM && gaps->n < MAX_GAPS)
        gaps->ms[gaps->n++] = now - last_ms[id];
    last_ms[id] = now;
    n_tokens[id]++;
}

/* Reads what comes, for up to 100 ms; `until` stops at a line that holds it. */
static bool pump(struct gaps *gaps, const char *until)
{
    struct pollfd poll_fd = {.fd = from_engine, .events = POLLIN};
    if (poll(&poll_fd, 1, 100) <= 0)
        return false;
    ssize_t n = read(from_engine, pending + n_pending, sizeof(pending) - 1 - n_pending);
    if (n <= 0)
        fail("the engine is gone");
    n_pending += (size_t)n;
    pending[n_pending] = '\0';
    bool found = false;
    char *line = pending, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        take_line(line, gaps);
        found |= until && strstr(line, until);
    }
    n_pending -= (size_t)(line - pending);
    memmove(pending, line, n_pending + 1);
    return found;
}

static void start_engine(const char *engine, const char *threads)
{
    const char *device = getenv("DEVICE") ? getenv("DEVICE") : "cpu", *library = getenv("HALO_HIP_LIB");
    int in[2], out[2];
    if (pipe(in) < 0 || pipe(out) < 0)
        fail("no pipes");
    pid_t pid = fork();
    if (pid < 0)
        fail("no process");
    if (pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execl(engine, engine, "--stdio", "--device", device, "--threads", threads, "--log-level", "error",
              "--no-sandbox", library ? "--hip-lib" : NULL, library, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_engine = fdopen(in[1], "w");
    from_engine = out[0];
}

static void send_generate(unsigned id, unsigned n_prompt, unsigned n_reply, unsigned seed)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    fprintf(to_engine, "{\"type\":\"generate\",\"id\":%u,\"tokens\":[", id);
    for (unsigned i = 0; i < n_prompt; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        fprintf(to_engine, "%s%u", i ? "," : "", (unsigned)((state >> 33) % 1000));
    }
    fprintf(to_engine,
            "],\"max_tokens\":%u,\"ignore_eos\":true,\"emit_token_ids\":true,\"cache_prompt\":false,"
            "\"temperature\":0}\n",
            n_reply);
    fflush(to_engine);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the n gaps from `first` on. */
static double report(const char *what, struct gaps *gaps, size_t first, size_t n)
{
    double *ms = gaps->ms + first;
    if (n == 0)
        fail("saw no token");
    qsort(ms, n, sizeof(*ms), by_value);
    double median = ms[n / 2];
    printf("%-18s median %8.2f ms  p95 %8.2f ms  p99 %8.2f ms  max %8.2f ms  (n %zu)\n", what, median, ms[n * 95 / 100],
           ms[n * 99 / 100], ms[n - 1], n);
    return median;
}

/* The contexts of those who decode grow while the prompt is computed, and their steps with them: its beginning is
 * compared with what was before, its end with what comes after. */
static void report_all(struct gaps *before, struct gaps *beside, struct gaps *after)
{
    size_t n = before->n < beside->n / 2 ? before->n : beside->n / 2;
    double was = report("before", before, 0, before->n);
    double begins = report("beside, beginning", beside, 0, n);
    double ends = report("beside, end", beside, beside->n - n, n);
    double is = report("after", after, 0, after->n);
    report("beside, all", beside, 0, beside->n);
    printf("median beside: %.2f of before at the beginning, %.2f of after at the end\n", begins / was, ends / is);
}

static void pump_phase(struct gaps *gaps, unsigned n_more)
{
    unsigned from[MAX_CLIENTS], n_waiting = n_clients;
    memcpy(from, n_tokens, sizeof(from));
    while (n_waiting > 0) {
        pump(gaps, NULL);
        n_waiting = 0;
        for (unsigned i = 0; i < n_clients; i++)
            n_waiting += n_tokens[i] < from[i] + n_more;
    }
}

/* Rows a second until the first token, or the limit. */
static double run_prompt(struct gaps *gaps, unsigned n_prompt, unsigned seed, double limit_s)
{
    double start_ms = ((double)halo_clock_ns() / 1e6);
    prompt_ended = false;
    prompt_done = 0;
    send_generate(PROMPT_ID, n_prompt, 1, seed);
    while (!prompt_ended && ((double)halo_clock_ns() / 1e6) - start_ms < limit_s * 1e3)
        pump(gaps, NULL);
    double rate = (prompt_ended ? n_prompt : (double)prompt_done) * 1e3 / (((double)halo_clock_ns() / 1e6) - start_ms);
    if (!prompt_ended) {
        fprintf(to_engine, "{\"type\":\"cancel\",\"id\":5000,\"target\":%u}\n", PROMPT_ID);
        fflush(to_engine);
        while (!prompt_ended)
            pump(gaps, NULL);
    }
    return rate;
}

int main(int argc, char **argv)
{
    static struct gaps before, beside, after;
    if (argc < 3) {
        fprintf(stderr, "usage: bench_fair ENGINE MODEL.gguf [PROMPT_TOKENS] [CLIENTS] [THREADS] [LIMIT_S] "
                        "[REPLY_TOKENS]\n");
        return 2;
    }
    unsigned n_prompt = argc > 3 ? (unsigned)atoi(argv[3]) : 4096;
    n_clients = argc > 4 ? (unsigned)atoi(argv[4]) : 8;
    double limit_s = argc > 6 ? atof(argv[6]) : 60;
    if (n_clients == 0 || n_clients > MAX_CLIENTS || n_prompt == 0)
        fail("1 to 32 clients, and a prompt");
    unsigned n_reply = argc > 7 ? (unsigned)atoi(argv[7]) : n_prompt < 8000 ? n_prompt : 8000;
    signal(SIGPIPE, SIG_IGN);
    start_engine(argv[1], argc > 5 ? argv[5] : "2");
    fprintf(to_engine,
            "{\"type\":\"load\",\"id\":6000,\"model\":\"%s\",\"params\":{\"context\":%u,\"kv_tokens\":%u}}\n", argv[2],
            (n_prompt > n_reply ? n_prompt : n_reply) + 32, n_prompt + 64 + n_clients * (n_reply + 64));
    fflush(to_engine);
    while (!pump(NULL, "\"type\":\"loaded\""))
        ;
    for (unsigned i = 0; i < n_clients; i++)
        send_generate(i, 16, n_reply, i + 1);
    pump_phase(NULL, WARM);
    pump_phase(&before, PHASE);
    double rate_beside = run_prompt(&beside, n_prompt, 77, limit_s);
    pump_phase(&after, PHASE);
    for (unsigned i = 0; i < n_clients; i++)
        fprintf(to_engine, "{\"type\":\"cancel\",\"id\":%u,\"target\":%u}\n", 5001 + i, i);
    fflush(to_engine);
    n_clients = 0;
    double rate_alone = run_prompt(NULL, n_prompt, 78, limit_s);
    report_all(&before, &beside, &after);
    printf("prompt of %u tokens: %.1f tok/s beside, %.1f tok/s alone\n", n_prompt, rate_beside, rate_alone);
    fclose(to_engine);
    wait(NULL);
    return 0;
}
