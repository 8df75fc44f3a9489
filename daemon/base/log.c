/* log.c: one line to stderr for the person who runs the program.
 *
 * Any thread: the level is atomic, the line is formatted on the stack and leaves in one write(2), if stderr takes it
 * without blocking. Lines that it does not take are counted.
 */
#include <base/log.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <base/clock.h>

#define LOG_LINE_BYTES 2048

static const struct {
    const char *word;
    int syslog; /* the number of syslog(3) */
} log_levels[] = {
    [HALO_LOG_ERROR] = {"error", 3},
    [HALO_LOG_WARN] = {"warn", 4},
    [HALO_LOG_INFO] = {"info", 6},
    [HALO_LOG_DEBUG] = {"debug", 7},
};

static atomic_int log_level = HALO_LOG_INFO;
static atomic_bool log_prefix;
static atomic_uint log_dropped;

void halo_log_set_level(enum halo_log_level level)
{
    atomic_store(&log_level, (int)level);
}

const char *halo_log_level_word(enum halo_log_level level)
{
    return log_levels[level].word;
}

void halo_log_set_prefix(void)
{
    atomic_store(&log_prefix, true);
}

int halo_log_level_parse(const char *word, enum halo_log_level *ret_level)
{
    for (size_t i = 0; i < sizeof log_levels / sizeof log_levels[0]; i++)
        if (strcmp(word, log_levels[i].word) == 0) {
            *ret_level = (enum halo_log_level)i;
            return 0;
        }
    return -EINVAL;
}

/* JOURNAL_STREAM holds "device:inode" of the stream that systemd opened; it is inherited by children whose stderr went
 * elsewhere. */
static bool stderr_is_journal(void)
{
    static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
    int answer = atomic_load(&known);
    if (answer == 0) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;
        bool same = stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
                    dev == st.st_dev && ino == st.st_ino;
        answer = same ? 2 : 1;
        atomic_store(&known, answer);
    }
    return answer == 2;
}

static size_t line_head(char line[LOG_LINE_BYTES], enum halo_log_level level)
{
    if (atomic_load(&log_prefix) || stderr_is_journal())
        return (size_t)snprintf(line, LOG_LINE_BYTES, "<%d>", log_levels[level].syslog);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, LOG_LINE_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, LOG_LINE_BYTES - n, ".%03ld %-5s ", now.tv_nsec / 1000000,
                                log_levels[level].word);
}

/* A pipe or socket that polls as writable has room for a whole line. */
static bool is_writable(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT) != 0;
}

/* Ends the line behind its text of `n` bytes, or where the buffer ends, and writes it. */
static void write_line(char line[LOG_LINE_BYTES], size_t at, int n)
{
    size_t end = n < 0 ? at : at + (size_t)n;
    if (end > LOG_LINE_BYTES - 1)
        end = LOG_LINE_BYTES - 1;
    /* What a peer sent must not be able to forge a second line. */
    for (size_t i = at; i < end; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[end] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end + 1);
    (void)written; /* there is nowhere to report it */
}

/* Writes how many lines were dropped, if any. False: stderr is full, the next line must be dropped too. */
static bool report_dropped(void)
{
    char line[LOG_LINE_BYTES];
    if (!is_writable())
        return false;
    unsigned n = atomic_exchange(&log_dropped, 0);
    if (n > 0) {
        size_t at = line_head(line, HALO_LOG_WARN);
        write_line(line, at,
                   snprintf(line + at, sizeof line - at, "%u log lines were dropped because stderr was full", n));
    }
    return n == 0 || is_writable();
}

__attribute__((format(printf, 2, 0))) static void log_line(enum halo_log_level level, const char *format, va_list args)
{
    char line[LOG_LINE_BYTES];
    if ((int)level > atomic_load(&log_level))
        return;
    if (!report_dropped()) {
        atomic_fetch_add(&log_dropped, 1);
        return;
    }
    size_t at = line_head(line, level);
    write_line(line, at, vsnprintf(line + at, sizeof line - at, format, args));
}

void halo_log(enum halo_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(level, format, args);
    va_end(args);
}

bool halo_log_limit_take(struct halo_log_limit *limit, uint64_t now_ms, uint32_t *ret_dropped)
{
    uint64_t second = now_ms / 1000;
    *ret_dropped = 0;
    if (second != limit->second) {
        *ret_dropped = limit->n_dropped;
        limit->second = second;
        limit->n = limit->n_dropped = 0;
    }
    if (limit->n >= limit->n_per_s) {
        limit->n_dropped++;
        return false;
    }
    limit->n++;
    return true;
}

void halo_log_limited(struct halo_log_limit *limit, enum halo_log_level level, const char *format, ...)
{
    uint32_t n_dropped;
    if (!halo_log_limit_take(limit, halo_clock_ms(), &n_dropped))
        return;
    if (n_dropped > 0)
        halo_log(level, "%u log lines were dropped: the limit is %u in a second", n_dropped, limit->n_per_s);
    va_list args;
    va_start(args, format);
    log_line(level, format, args);
    va_end(args);
}
