/* log.h: messages of a program (never of a library) to the person who runs it, on stderr, one line each.
 *
 * Lines carry the syslog prefix "<6>" when stderr is the journal (JOURNAL_STREAM is set), a time stamp when it is not.
 * A line is one write(2). Any thread. Only main programs and the engine's and daemon's own files call this; libraries
 * return faults.
 */
#ifndef HALO_BASE_LOG_H
#define HALO_BASE_LOG_H

enum halo_log_level { HALO_LOG_ERROR, HALO_LOG_WARN, HALO_LOG_INFO, HALO_LOG_DEBUG };

void halo_log_set_level(enum halo_log_level level);
/* Returns 0, or -EINVAL when the word is none of error warn info debug. */
int halo_log_level_parse(const char *word, enum halo_log_level *ret_level);
__attribute__((format(printf, 2, 3))) void halo_log(enum halo_log_level level, const char *format, ...);

#endif
