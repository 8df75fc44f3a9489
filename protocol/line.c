/* line.c: cuts a byte stream into lines.
 *
 * Runs on whatever thread reads the stream. Owns one buffer: [start, end) is received and not given out, [start,
 * scanned) is known to hold no newline, so a long line that arrives in small pieces is searched once. Fails with
 * -ENOMEM.
 */
#include <protocol/line.h>

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096
#define IDLE_BYTES (64u << 10)    /* an empty buffer larger than this is given back */
#define SPARSE_BYTES (256u << 10) /* a buffer larger than this and three quarters empty is made smaller */

void halo_line_init(struct halo_line_reader *r, size_t limit_bytes)
{
    assert(limit_bytes > 0 && limit_bytes < SIZE_MAX / 8);
    *r = (struct halo_line_reader){.limit_bytes = limit_bytes};
}

void halo_line_finish(struct halo_line_reader *r)
{
    if (!r)
        return;
    free(r->buf);
    *r = (struct halo_line_reader){.limit_bytes = r->limit_bytes};
}

/* Moves what is pending into a buffer of `cap` bytes. */
static int resize(struct halo_line_reader *r, size_t cap)
{
    size_t n = r->end - r->start;
    char *buf = malloc(cap);

    if (!buf)
        return -ENOMEM;
    assert(cap >= n);
    if (n)
        memcpy(buf, r->buf + r->start, n);
    free(r->buf);
    r->buf = buf;
    r->cap = cap;
    r->scanned -= r->start;
    r->end = n;
    r->start = 0;
    return 0;
}

int halo_line_reserve(struct halo_line_reader *r, size_t min_bytes, char **ret_at, size_t *ret_room)
{
    size_t pending = r->end - r->start;

    assert(min_bytes < SIZE_MAX / 8);
    if (r->skipping && r->scanned == r->end)
        pending = 0; /* all of it belongs to the line that is thrown away */
    if (pending == 0)
        r->start = r->end = r->scanned = 0;
    if (r->cap - r->end < min_bytes) {
        /* Moving down is worth it only if it frees at least what it moves. */
        if (r->start >= pending && r->cap - pending >= min_bytes) {
            memcpy(r->buf, r->buf + r->start, pending);
            r->scanned -= r->start;
            r->start = 0;
            r->end = pending;
        } else {
            size_t cap = pending + min_bytes < FIRST_BYTES ? FIRST_BYTES : pending + min_bytes;
            int rc = resize(r, cap < 2 * pending ? 2 * pending : cap);

            if (rc < 0)
                return rc;
        }
    }
    *ret_at = r->buf + r->end;
    *ret_room = r->cap - r->end;
    return 0;
}

void halo_line_commit(struct halo_line_reader *r, size_t n)
{
    assert(n <= r->cap - r->end);
    r->end += n;
}

int halo_line_feed(struct halo_line_reader *r, const char *bytes, size_t n)
{
    char *at;
    size_t room;
    int rc;

    if (r->skipping && r->scanned == r->end && n > 0) {
        const char *newline = memchr(bytes, '\n', n);

        r->start = r->end = r->scanned = 0;
        if (!newline)
            return 0; /* nothing of it is kept */
        n -= (size_t)(newline + 1 - bytes);
        bytes = newline + 1;
        r->skipping = false;
    }
    if (n == 0)
        return 0;
    rc = halo_line_reserve(r, n, &at, &room);
    if (rc < 0)
        return rc;
    memcpy(at, bytes, n);
    halo_line_commit(r, n);
    return 0;
}

/* Nothing whole is left: gives back memory that a big line needed. Failing to is harmless. */
static void shrink(struct halo_line_reader *r)
{
    size_t pending = r->end - r->start;

    if (pending == 0 && r->cap > IDLE_BYTES) {
        free(r->buf);
        r->buf = NULL;
        r->cap = r->start = r->end = r->scanned = 0;
    } else if (r->cap > SPARSE_BYTES && pending < r->cap / 4) {
        (void)resize(r, 2 * pending < FIRST_BYTES ? FIRST_BYTES : 2 * pending);
    }
}

/* Throws away the rest of an over-long line. True when its newline was found. */
static bool skip_rest(struct halo_line_reader *r)
{
    const char *newline = r->start < r->end ? memchr(r->buf + r->start, '\n', r->end - r->start) : NULL;

    if (!newline) {
        r->start = r->end = r->scanned = 0;
        return false;
    }
    r->start = r->scanned = (size_t)(newline + 1 - r->buf);
    r->skipping = false;
    return true;
}

static int give_head(size_t len, size_t *ret_len)
{
    *ret_len = len < HALO_LINE_HEAD_BYTES ? len : HALO_LINE_HEAD_BYTES;
    return HALO_LINE_E_TOO_LONG;
}

int halo_line_next(struct halo_line_reader *r, const char **ret_line, size_t *ret_len)
{
    if (r->skipping && !skip_rest(r)) {
        shrink(r);
        return HALO_LINE_E_MORE;
    }
    while (r->scanned < r->end) {
        const char *newline = memchr(r->buf + r->scanned, '\n', r->end - r->scanned);
        size_t len = (newline ? (size_t)(newline - r->buf) : r->end) - r->start;

        if (len > 0 && r->buf[r->start + len - 1] == '\r')
            len--; /* without a newline yet this only puts off the verdict by a byte */
        *ret_line = r->buf + r->start;
        if (!newline) {
            r->scanned = r->end;
            if (len <= r->limit_bytes)
                break;
            r->skipping = true;
            return give_head(len, ret_len);
        }
        r->start = r->scanned = (size_t)(newline + 1 - r->buf);
        if (len > r->limit_bytes)
            return give_head(len, ret_len);
        if (len > 0) {
            *ret_len = len;
            return 0;
        }
    }
    shrink(r);
    return HALO_LINE_E_MORE;
}

size_t halo_line_pending(const struct halo_line_reader *r)
{
    return r->skipping ? 0 : r->end - r->start;
}
