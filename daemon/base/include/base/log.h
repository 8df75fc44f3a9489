/* log.h: what a program (never a library) tells the person who runs it, on stderr, one line each.
 *
 * Lines carry the syslog prefix "<6>" when stderr is the journal (JOURNAL_STREAM is set) or whoever reads it asked for
 * it, a time stamp when not. A line is one write(2), and never waits: where nobody reads stderr, lines are dropped, and
 * the next one that gets through is preceded by one that counts them. Any thread. Only main programs and the engine's
 * and daemon's own files call this; libraries return faults.
 */
#ifndef HALO_BASE_LOG_H
#define HALO_BASE_LOG_H

#include <stdint.h>

enum halo_log_level { HALO_LOG_ERROR, HALO_LOG_WARN, HALO_LOG_INFO, HALO_LOG_DEBUG };

void halo_log_set_level(enum halo_log_level level);
/* Returns 0, or -EINVAL when the word is none of error warn info debug. */
int halo_log_level_parse(const char *word, enum halo_log_level *ret_level);
const char *halo_log_level_word(enum halo_log_level level);
/* From now on lines carry the syslog prefix, whatever stderr is: the parent process reads it. */
void halo_log_set_prefix(void);
__attribute__((format(printf, 2, 3))) void halo_log(enum halo_log_level level, const char *format, ...);

/* A limit of the lines that somebody else can provoke, a client or a child: so many in a second; then they are counted,
 * and the first line of a later second says how many. Zeroed at first. One thread. */
struct halo_log_limit {
    uint32_t n_per_s; /* set by the caller */
    uint32_t n, n_dropped;
    uint64_t second;
};

__attribute__((format(printf, 3, 4))) void halo_log_limited(struct halo_log_limit *limit, enum halo_log_level level,
                                                            const char *format, ...);

#endif
