/* log.h: messages of a program (never of a library) to the person who runs it, on stderr, one line each.
 *
 * Lines carry the syslog prefix "<6>" when stderr is the journal (JOURNAL_STREAM is set) or halo_log_set_prefix() was
 * called, a time stamp otherwise. A line is one write(2). Logging never blocks: lines are dropped while stderr is full,
 * and the next line that fits is preceded by one with their number. Any thread. Only main programs and the engine's and
 * daemon's own files call this; libraries return faults.
 */
#ifndef HALO_BASE_LOG_H
#define HALO_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum halo_log_level { HALO_LOG_ERROR, HALO_LOG_WARN, HALO_LOG_INFO, HALO_LOG_DEBUG };

void halo_log_set_level(enum halo_log_level level);
/* Returns 0, or -EINVAL when the word is none of error warn info debug. */
int halo_log_level_parse(const char *word, enum halo_log_level *ret_level);
const char *halo_log_level_word(enum halo_log_level level);
/* From now on lines carry the syslog prefix, whatever stderr is: for a child whose parent reads its stderr. */
void halo_log_set_prefix(void);
__attribute__((format(printf, 2, 3))) void halo_log(enum halo_log_level level, const char *format, ...);

/* A limit for the lines that others cause, a client or a child. Lines beyond it are counted, and the first line of a
 * later second is preceded by one with their number. Zeroed at first but for n_per_s. One thread. */
struct halo_log_limit {
    uint32_t n_per_s; /* set by the caller */
    uint32_t n, n_dropped;
    uint64_t second;
};

/* Counts a line at `now_ms` (halo_clock_ms). False: it is beyond the limit. `ret_dropped`: how many lines an earlier
 * second dropped that were not reported yet. */
bool halo_log_limit_take(struct halo_log_limit *limit, uint64_t now_ms, uint32_t *ret_dropped);

__attribute__((format(printf, 3, 4))) void halo_log_limited(struct halo_log_limit *limit, enum halo_log_level level,
                                                            const char *format, ...);

#endif
