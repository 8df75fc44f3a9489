/* string.c: strings that remember which of their bytes a template wrote.
 *
 * Strings are immutable and share bytes: a cut points into its source. A text is a string or an output under
 * construction, in the run's arena. Joining grows the left string in place where it was the last one joined, so that a
 * + b + c + ... is linear; whoever holds the left string still sees its own length only. Fails as a run does
 * (jinja_priv.h).
 */
#include <assert.h>
#include <string.h>

#include "jinja_priv.h"

#define JOIN_ROOM 64

/* ---- texts ---- */

static int reserve_bytes(struct halo_jinja_run *run, struct halo_jinja_text *text, size_t n)
{
    if (n <= text->n_held - text->n)
        return 0;
    size_t n_held = text->n_held ? 2 * text->n_held : 64;
    if (text->n > run->limits.max_output_bytes || n > run->limits.max_output_bytes - text->n)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "prints more than %zu bytes", run->limits.max_output_bytes);
    while (n_held - text->n < n)
        n_held *= 2;
    char *bytes;
    int r = halo_jinja_alloc(run, n_held, 1, &bytes);
    if (r)
        return r;
    if (text->n)
        memcpy(bytes, text->bytes, text->n);
    text->bytes = bytes;
    text->n_held = n_held;
    return 0;
}

static int extend_mark(struct halo_jinja_run *run, struct halo_jinja_text *text, bool is_template)
{
    if (text->n_marks && text->marks[text->n_marks - 1].is_template == is_template) {
        text->marks[text->n_marks - 1].end = text->n;
        return 0;
    }
    if (text->n_marks == text->n_marks_held) {
        size_t n_held = text->n_marks_held ? 2 * text->n_marks_held : 4;
        struct halo_jinja_mark *marks;
        int r = halo_jinja_alloc(run, n_held, sizeof *marks, &marks);
        if (r)
            return r;
        if (text->n_marks)
            memcpy(marks, text->marks, text->n_marks * sizeof *marks);
        text->marks = marks;
        text->n_marks_held = n_held;
    }
    text->marks[text->n_marks++] = (struct halo_jinja_mark){text->n, is_template};
    return 0;
}

int halo_jinja_add(struct halo_jinja_run *run, struct halo_jinja_text *text, const char *bytes, size_t n,
                   bool is_template)
{
    if (n == 0)
        return 0;
    int r = reserve_bytes(run, text, n);
    if (r == 0)
        r = halo_jinja_steps(run, n / 16);
    if (r)
        return r;
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    return extend_mark(run, text, is_template);
}

/* The first mark that ends behind `at`. */
static size_t mark_index(const struct halo_jinja_string *string, size_t at)
{
    size_t low = 0, high = string->n_marks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (string->marks[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int halo_jinja_add_slice(struct halo_jinja_run *run, struct halo_jinja_text *text,
                         const struct halo_jinja_string *string, size_t from, size_t to)
{
    assert(from <= to && to <= string->n);
    if (string->n_marks == 0)
        return halo_jinja_add(run, text, string->bytes + from, to - from, string->is_template);
    int r = 0;
    for (size_t i = mark_index(string, from); r == 0 && from < to; i++) {
        size_t end = string->marks[i].end < to ? string->marks[i].end : to;
        r = halo_jinja_add(run, text, string->bytes + from, end - from, string->marks[i].is_template);
        from = end;
    }
    return r;
}

int halo_jinja_add_string(struct halo_jinja_run *run, struct halo_jinja_text *text,
                          const struct halo_jinja_string *string)
{
    return halo_jinja_add_slice(run, text, string, 0, string->n);
}

/* ---- strings ---- */

static int new_string(struct halo_jinja_run *run, struct halo_jinja_string string, struct halo_jinja_value *ret)
{
    struct halo_jinja_string *copy;
    int r = halo_jinja_alloc(run, 1, sizeof *copy, &copy);
    if (r)
        return r;
    *copy = string;
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_STRING, .string = copy};
    return 0;
}

int halo_jinja_finish_text(struct halo_jinja_run *run, const struct halo_jinja_text *text, struct halo_jinja_value *ret)
{
    struct halo_jinja_string string = {.bytes = text->n ? text->bytes : "", .n = text->n, .is_template = true};
    if (text->n_marks == 1) {
        string.is_template = text->marks[0].is_template;
    } else if (text->n_marks > 1) {
        string.marks = text->marks;
        string.n_marks = text->n_marks;
    }
    return new_string(run, string, ret);
}

int halo_jinja_own_string(struct halo_jinja_run *run, const char *bytes, size_t n, struct halo_jinja_value *ret)
{
    return new_string(run, (struct halo_jinja_string){.bytes = bytes, .n = n, .is_template = true}, ret);
}

int halo_jinja_cut(struct halo_jinja_run *run, const struct halo_jinja_string *string, size_t from, size_t to,
                   struct halo_jinja_value *ret)
{
    assert(from <= to && to <= string->n);
    struct halo_jinja_string cut = {
        .bytes = string->bytes + from, .n = to - from, .is_template = string->is_template, .is_safe = string->is_safe};
    if (string->n_marks && from < to) {
        size_t first = mark_index(string, from), last = mark_index(string, to - 1);
        cut.is_template = string->marks[first].is_template;
        if (first != last) {
            struct halo_jinja_mark *marks;
            int r = halo_jinja_alloc(run, last - first + 1, sizeof *marks, &marks);
            if (r)
                return r;
            for (size_t i = first; i <= last; i++)
                marks[i - first] = (struct halo_jinja_mark){string->marks[i].end - from, string->marks[i].is_template};
            marks[last - first].end = to - from;
            cut.marks = marks;
            cut.n_marks = last - first + 1;
        }
    }
    return new_string(run, cut, ret);
}

bool halo_jinja_mark_at(const struct halo_jinja_string *string, size_t at)
{
    return string->n_marks && at < string->n ? string->marks[mark_index(string, at)].is_template : string->is_template;
}

struct halo_jinja_value halo_jinja_byte(const struct halo_jinja_string *bytes, size_t at)
{
    return (struct halo_jinja_value){
        .kind = HALO_JINJA_INT, .is_template = halo_jinja_mark_at(bytes, at), .integer = (uint8_t)bytes->bytes[at]};
}

bool halo_jinja_all_template(const struct halo_jinja_string *string)
{
    return string->n == 0 || (string->n_marks == 0 && string->is_template);
}

int halo_jinja_compare_text(const struct halo_jinja_string *a, const struct halo_jinja_string *b)
{
    int order = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n); /* UTF-8 sorts as its code points do */
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* ---- joining ---- */

static int join_bytes(struct halo_jinja_run *run, const struct halo_jinja_string *a, const struct halo_jinja_string *b,
                      const char **ret)
{
    size_t n = a->n + b->n;
    if (a->bytes + a->n == run->tail && b->n <= run->tail_room) {
        memcpy(run->tail, b->bytes, b->n);
        *ret = a->bytes;
        run->tail_room -= b->n;
        run->tail += b->n;
        return halo_jinja_steps(run, b->n / 16);
    }
    char *bytes;
    size_t room = n + JOIN_ROOM;
    int r = halo_jinja_alloc(run, n + room, 1, &bytes);
    if (r == 0)
        r = halo_jinja_steps(run, n / 16);
    if (r)
        return r;
    memcpy(bytes, a->bytes, a->n);
    memcpy(bytes + a->n, b->bytes, b->n);
    run->tail = bytes + n;
    run->tail_room = room;
    *ret = bytes;
    return 0;
}

static size_t put_marks(struct halo_jinja_mark *marks, size_t n, const struct halo_jinja_string *string, size_t base)
{
    struct halo_jinja_mark whole = {string->n, string->is_template};
    const struct halo_jinja_mark *from = string->n_marks ? string->marks : &whole;
    size_t n_from = string->n_marks ? string->n_marks : 1;
    for (size_t i = 0; i < n_from; i++) {
        n -= n && marks[n - 1].is_template == from[i].is_template;
        marks[n++] = (struct halo_jinja_mark){base + from[i].end, from[i].is_template};
    }
    return n;
}

int halo_jinja_join_two(struct halo_jinja_run *run, const struct halo_jinja_string *a,
                        const struct halo_jinja_string *b, struct halo_jinja_value *ret)
{
    struct halo_jinja_string joined = {
        .n = a->n + b->n, .is_template = a->is_template, .is_safe = a->is_safe && b->is_safe};
    if (a->n == 0 || b->n == 0)
        return new_string(run, a->n ? *a : *b, ret);
    if (joined.n > run->limits.max_output_bytes)
        return halo_jinja_fail(run, HALO_JINJA_LIMIT, "makes a string of %zu bytes", joined.n);
    int r = join_bytes(run, a, b, &joined.bytes);
    if (r)
        return r;
    if (a->n_marks || b->n_marks || a->is_template != b->is_template) {
        struct halo_jinja_mark *marks;
        r = halo_jinja_alloc(run, a->n_marks + b->n_marks + 2, sizeof *marks, &marks);
        if (r)
            return r;
        joined.n_marks = put_marks(marks, put_marks(marks, 0, a, 0), b, a->n);
        joined.marks = marks;
        assert(joined.n_marks > 1);
    }
    return new_string(run, joined, ret);
}
