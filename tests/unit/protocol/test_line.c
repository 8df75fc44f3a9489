/* test_line.c: the line reader: cutting, limits, resynchronisation, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/limits.h>
#include <protocol/line.h>

static void expect_line(struct halo_line_reader *r, const char *wanted)
{
    const char *line;
    size_t len;

    assert_int_equal(halo_line_next(r, &line, &len), 0);
    assert_int_equal(len, strlen(wanted));
    assert_memory_equal(line, wanted, len);
}

static void expect_more(struct halo_line_reader *r)
{
    const char *line;
    size_t len;

    assert_int_equal(halo_line_next(r, &line, &len), HALO_LINE_E_MORE);
}

static void expect_too_long(struct halo_line_reader *r, const char *head)
{
    const char *line;
    size_t len;

    assert_int_equal(halo_line_next(r, &line, &len), HALO_LINE_E_TOO_LONG);
    assert_true(len >= strlen(head) && len <= HALO_LINE_HEAD_BYTES);
    assert_memory_equal(line, head, strlen(head));
}

static void feed(struct halo_line_reader *r, const char *text)
{
    assert_int_equal(halo_line_feed(r, text, strlen(text)), 0);
}

static void lines_come_out_in_order(void **state)
{
    struct halo_line_reader r;

    halo_line_init(&r, 100);
    expect_more(&r);
    feed(&r, "one\ntwo\r\n\n\r\nth");
    expect_line(&r, "one");
    expect_line(&r, "two");
    expect_more(&r);
    assert_int_equal(halo_line_pending(&r), 2);
    feed(&r, "ree\r");
    expect_more(&r);
    feed(&r, "\nfour\rfive\n");
    expect_line(&r, "three");
    expect_line(&r, "four\rfive");
    expect_more(&r);
    assert_int_equal(halo_line_pending(&r), 0);
    halo_line_finish(&r);
    halo_line_finish(NULL);
}

/* However a text is cut into pieces, the same lines come out. */
static void pieces_do_not_matter(void **state)
{
    static const char text[] = "a\n\nbb\r\nccc\n0123456789\n0123456789x\r\nd\n0123456789\r\nee\n";
    static const char *const wanted[] = {"a", "bb", "ccc", "0123456789", NULL, "d", "0123456789", "ee"};
    struct halo_line_reader r;

    for (size_t piece = 1; piece < sizeof text; piece++) {
        size_t n = 0;

        halo_line_init(&r, 10);
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            size_t left = sizeof text - 1 - at;
            const char *line;
            size_t len;
            int rc;

            assert_int_equal(halo_line_feed(&r, text + at, left < piece ? left : piece), 0);
            while ((rc = halo_line_next(&r, &line, &len)) != HALO_LINE_E_MORE) {
                assert_true(n < sizeof wanted / sizeof *wanted);
                assert_int_equal(rc, wanted[n] ? 0 : HALO_LINE_E_TOO_LONG);
                if (wanted[n]) {
                    assert_int_equal(len, strlen(wanted[n]));
                    assert_memory_equal(line, wanted[n], len);
                }
                n++;
            }
        }
        assert_int_equal(n, sizeof wanted / sizeof *wanted);
        halo_line_finish(&r);
    }
}

static void too_long_is_said_once(void **state)
{
    struct halo_line_reader r;

    halo_line_init(&r, 8);
    feed(&r, "12345678");
    expect_more(&r);
    feed(&r, "9");
    expect_too_long(&r, "123456789");
    expect_more(&r);
    assert_int_equal(halo_line_pending(&r), 0);
    for (int i = 0; i < 1000; i++) {
        feed(&r, "more of it, more of it, more of it");
        expect_more(&r);
    }
    assert_true(r.cap <= 4096); /* nothing of the rest was kept */
    feed(&r, "the end\nok\n");
    expect_line(&r, "ok");
    feed(&r, "0123456789\n12345678\r\n12345678\r9");
    expect_too_long(&r, "0123456789");
    expect_line(&r, "12345678");
    expect_too_long(&r, "12345678\r9");
    feed(&r, "\nlast\n");
    expect_line(&r, "last");
    halo_line_finish(&r);
}

/* Without a copy, and with a newline in what was read into the buffer while skipping. */
static void reserve_and_commit(void **state)
{
    struct halo_line_reader r;
    char *at;
    size_t room;

    halo_line_init(&r, 8);
    assert_int_equal(halo_line_reserve(&r, 64, &at, &room), 0);
    assert_true(room >= 64);
    memcpy(at, "0123456789", 10);
    halo_line_commit(&r, 10);
    expect_too_long(&r, "0123456789");
    assert_int_equal(halo_line_reserve(&r, 64, &at, &room), 0);
    memcpy(at, "abc\nyes\nno", 10);
    halo_line_commit(&r, 10);
    feed(&r, "pe\n");
    expect_line(&r, "yes");
    expect_line(&r, "nope");
    expect_more(&r);
    halo_line_finish(&r);
}

static void memory_follows_the_data(void **state)
{
    const size_t big = 1u << 20;
    struct halo_line_reader r;
    const char *line;
    size_t len;
    char *text = malloc(big + 1);

    assert_non_null(text);
    memset(text, 'x', big);
    text[big] = '\n';
    halo_line_init(&r, HALO_LIMIT_LINE_BYTES);
    assert_int_equal(r.cap, 0);
    feed(&r, "a\n");
    assert_true(r.cap <= 4096);
    expect_line(&r, "a");
    for (size_t at = 0; at < big; at += 4096) {
        assert_int_equal(halo_line_feed(&r, text + at, 4096), 0);
        expect_more(&r);
        assert_true(r.cap <= 2 * (at + 4096) + 4096);
    }
    feed(&r, "\nnext");
    assert_int_equal(halo_line_next(&r, &line, &len), 0);
    assert_int_equal(len, big);
    assert_memory_equal(line, text, big);
    expect_more(&r);
    assert_true(r.cap <= 64u << 10); /* given back although something is pending */
    feed(&r, "\n");
    expect_line(&r, "next");
    assert_int_equal(halo_line_feed(&r, text, big + 1), 0);
    assert_int_equal(halo_line_next(&r, &line, &len), 0);
    expect_more(&r);
    assert_int_equal(r.cap, 0); /* and wholly when nothing is */
    halo_line_finish(&r);
    free(text);
}

static void the_limit_itself_passes(void **state)
{
    struct halo_line_reader r;
    const char *line;
    size_t len;
    char *text = malloc(HALO_LIMIT_LINE_BYTES + 3);

    assert_non_null(text);
    memset(text, 'x', HALO_LIMIT_LINE_BYTES + 3);
    text[HALO_LIMIT_LINE_BYTES] = '\r';
    text[HALO_LIMIT_LINE_BYTES + 1] = '\n';
    halo_line_init(&r, HALO_LIMIT_LINE_BYTES);
    assert_int_equal(halo_line_feed(&r, text, HALO_LIMIT_LINE_BYTES + 2), 0);
    assert_int_equal(halo_line_next(&r, &line, &len), 0);
    assert_int_equal(len, HALO_LIMIT_LINE_BYTES);
    text[HALO_LIMIT_LINE_BYTES] = 'x';
    assert_int_equal(halo_line_feed(&r, text, HALO_LIMIT_LINE_BYTES + 2), 0);
    expect_too_long(&r, "xxx");
    expect_more(&r);
    halo_line_finish(&r);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_out_in_order), cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(too_long_is_said_once),   cmocka_unit_test(reserve_and_commit),
        cmocka_unit_test(memory_follows_the_data), cmocka_unit_test(the_limit_itself_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
