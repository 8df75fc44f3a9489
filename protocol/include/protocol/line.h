/* line.h: cuts a byte stream into lines.
 *
 * Bytes go in by halo_line_feed(), or without a copy by reserve/commit; lines come out by halo_line_next() until it
 * says HALO_LINE_E_MORE. "\r\n" ends a line like "\n"; empty lines are skipped. A line over the limit is reported
 * once, as soon as it is seen; the rest of it is discarded up to its newline, and reading continues.
 *
 * Memory grows with what was received: none before the first byte, at most about twice the limit plus one feed, freed
 * after a large line. That bound holds if the caller takes all lines after each feed.
 * Threads: one at a time. Errors: -ENOMEM from feed and reserve, which then took nothing.
 */
#ifndef HALO_PROTOCOL_LINE_H
#define HALO_PROTOCOL_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define HALO_LINE_E_MORE 1     /* no complete line yet */
#define HALO_LINE_E_TOO_LONG 2 /* a line over the limit; its first bytes are returned */

#define HALO_LINE_HEAD_BYTES 1024 /* of a line over the limit, returned with HALO_LINE_E_TOO_LONG */

struct halo_line_reader {
    char *buf;
    size_t cap;
    size_t start;   /* first byte not yet returned */
    size_t end;     /* end of what was received */
    size_t scanned; /* no newline in [start, scanned) */
    size_t limit_bytes;
    bool skipping; /* inside a line over the limit */
};

/* `limit_bytes`: the longest line, its newline not counted. */
void halo_line_init(struct halo_line_reader *r, size_t limit_bytes);
void halo_line_finish(struct halo_line_reader *r); /* takes NULL */

/* Takes `n` bytes. Lines returned earlier become invalid. */
int halo_line_feed(struct halo_line_reader *r, const char *bytes, size_t n);

/* The same without a copy: reserve at least `min_bytes` of room, read into it, commit what was read. */
int halo_line_reserve(struct halo_line_reader *r, size_t min_bytes, char **ret_at, size_t *ret_room);
void halo_line_commit(struct halo_line_reader *r, size_t n);

/* The next line, without its end. Valid until the next call on `r`. 0, HALO_LINE_E_MORE or HALO_LINE_E_TOO_LONG. */
int halo_line_next(struct halo_line_reader *r, const char **ret_line, size_t *ret_len);

/* Bytes received that belong to no line returned: at the end of a stream, the length of the incomplete line. */
size_t halo_line_pending(const struct halo_line_reader *r);

#endif
