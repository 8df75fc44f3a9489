/* log.c: one line to stderr for the person who runs the program.
 *
 * Any thread: the level is atomic, the line is formatted on the stack and leaves in one write(2). Failures to write are
 * ignored, there is nowhere to report them.
 */
#include <base/log.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

void halo_log_set_level(enum halo_log_level level)
{
    atomic_store(&log_level, (int)level);
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
    if (stderr_is_journal())
        return (size_t)snprintf(line, LOG_LINE_BYTES, "<%d>", log_levels[level].syslog);
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, LOG_LINE_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, LOG_LINE_BYTES - n, ".%03ld %-5s ", now.tv_nsec / 1000000,
                                log_levels[level].word);
}

void halo_log(enum halo_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&log_level))
        return;
    char line[LOG_LINE_BYTES];
    size_t at = line_head(line, level);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + at, sizeof line - at, format, args);
    va_end(args);
    size_t end = n < 0 ? at : at + (size_t)n;
    if (end > sizeof line - 1)
        end = sizeof line - 1;
    /* What a peer sent must not be able to forge a second line. */
    for (size_t i = at; i < end; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[end] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end + 1);
    (void)written;
}
