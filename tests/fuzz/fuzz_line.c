/* fuzz_line.c: the line reader against a model that sees the whole stream at once.
 *
 * Input: a byte for the limit, a byte for the sizes of the pieces, then the stream. Whatever the pieces, and whether
 * they are fed or read into the reader's buffer, the lines and the complaints must be those of the model.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/line.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct model {
    const char *bytes;
    size_t n, at, limit;
    int open_complaint; /* the line that begins at `at` is cut short and was complained about */
};

/* The next line of the stream that is not empty. 0, HALO_LINE_E_TOO_LONG, or HALO_LINE_E_MORE when there is none. */
static int model_next(struct model *m, const char **ret_line, size_t *ret_len)
{
    while (m->at < m->n) {
        const char *line = m->bytes + m->at, *newline = memchr(line, '\n', m->n - m->at);
        size_t len = newline ? (size_t)(newline - line) : m->n - m->at;

        if (len > 0 && line[len - 1] == '\r')
            len--;
        if (!newline && (len <= m->limit || m->open_complaint))
            return HALO_LINE_E_MORE;
        *ret_line = line;
        *ret_len = len;
        if (newline)
            m->at = (size_t)(newline - m->bytes) + 1;
        if (newline && m->open_complaint) {
            m->open_complaint = 0;
            continue;
        }
        m->open_complaint = !newline;
        if (len > m->limit)
            return HALO_LINE_E_TOO_LONG;
        if (len > 0)
            return 0;
    }
    return HALO_LINE_E_MORE;
}

static void take_in(struct halo_line_reader *r, const char *bytes, size_t n, int by_copy)
{
    char *at;
    size_t room;

    if (by_copy) {
        if (halo_line_feed(r, bytes, n) < 0)
            abort();
        return;
    }
    if (halo_line_reserve(r, n, &at, &room) < 0)
        abort();
    assert(room >= n);
    memcpy(at, bytes, n);
    halo_line_commit(r, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_line_reader r;
    struct model m = {0};
    unsigned step;

    if (size < 2)
        return 0;
    m.bytes = (const char *)data + 2;
    m.limit = 1 + data[0];
    step = data[1];
    halo_line_init(&r, m.limit);
    for (size_t at = 0, n = size - 2; at < n;) {
        size_t piece = 1 + (step ^ at * 7) % (step < 8 ? 3 : step + 1);
        int rc;

        if (piece > n - at)
            piece = n - at;
        take_in(&r, m.bytes + at, piece, (step + at) & 1);
        at += piece;
        if (step & 64 && at < n && at % 3)
            continue; /* let lines pile up */
        m.n = at;
        do {
            const char *line = NULL, *wanted = NULL;
            size_t len = 0, wanted_len = 0;

            rc = halo_line_next(&r, &line, &len);
            assert(rc == model_next(&m, &wanted, &wanted_len));
            if (rc == 0)
                assert(len == wanted_len && len <= m.limit && memcmp(line, wanted, len) == 0);
            else if (rc == HALO_LINE_E_TOO_LONG)
                assert(len > 0 && len <= HALO_LINE_HEAD_BYTES && len <= wanted_len && memcmp(line, wanted, len) == 0);
        } while (rc != HALO_LINE_E_MORE);
        assert(halo_line_pending(&r) <= m.limit + 1);
    }
    halo_line_finish(&r);
    return 0;
}
