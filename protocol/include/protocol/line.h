/* line.h: cuts a byte stream into lines.
 *
 * Bytes go in by halo_line_feed(), or without a copy by reserve/commit; lines come out by halo_line_next() until it
 * says HALO_LINE_E_MORE. "\r\n" ends a line like "\n"; empty lines are skipped. A line over the limit is reported
 * once, as soon as it is seen, and its rest is thrown away as it arrives, up to the newline; then reading goes on.
 *
 * Memory follows what was received: nothing before the first byte, at most about twice the limit plus one feed, and
 * given back once a big line is through. If the caller takes out all lines after each feed, no more is ever held.
 * Threads: one at a time. Errors: -ENOMEM from feed and reserve, after which nothing of that feed was taken.
 */
#ifndef HALO_PROTOCOL_LINE_H
#define HALO_PROTOCOL_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define HALO_LINE_E_MORE 1     /* no whole line here yet */
#define HALO_LINE_E_TOO_LONG 2 /* a line over the limit; its first bytes are given */

#define HALO_LINE_HEAD_BYTES 1024 /* of an over-long line, given with HALO_LINE_E_TOO_LONG */

struct halo_line_reader {
    char *buf;
    size_t cap;
    size_t start;   /* first byte not yet given out */
    size_t end;     /* end of what was received */
    size_t scanned; /* no newline in [start, scanned) */
    size_t limit_bytes;
    bool skipping; /* inside an over-long line */
};

/* `limit_bytes`: the longest line, its newline not counted. */
void halo_line_init(struct halo_line_reader *r, size_t limit_bytes);
void halo_line_finish(struct halo_line_reader *r); /* takes NULL */

/* Takes `n` bytes. Lines given out earlier become invalid. */
int halo_line_feed(struct halo_line_reader *r, const char *bytes, size_t n);

/* The same without a copy: reserve at least `min_bytes` of room, read into it, commit what was read. */
int halo_line_reserve(struct halo_line_reader *r, size_t min_bytes, char **ret_at, size_t *ret_room);
void halo_line_commit(struct halo_line_reader *r, size_t n);

/* The next line, without its end. Valid until the next call on `r`. 0, HALO_LINE_E_MORE or HALO_LINE_E_TOO_LONG. */
int halo_line_next(struct halo_line_reader *r, const char **ret_line, size_t *ret_len);

/* Bytes received that are not part of a line given out: at the end of a stream, the length of the line cut short. */
size_t halo_line_pending(const struct halo_line_reader *r);

#endif
