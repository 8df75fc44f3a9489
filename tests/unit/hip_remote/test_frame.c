/* test_frame.c: headers, and the reader of a stream that comes in pieces. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <hip_remote/frame.h>

static const struct halo_remote_header sample = {.version = HALO_REMOTE_VERSION,
                                                 .op = 0x0510,
                                                 .id = 0x01020304,
                                                 .payload_bytes = 3,
                                                 .flags = 8,
                                                 .lane = 7,
                                                 .device = 255};

static void the_layout_is_the_public_one(void **state)
{
    static const uint8_t wanted[HALO_REMOTE_HEADER_BYTES] = {'R', 'P', 'I', 'H', 0, 1, 0x10, 5, 4, 3,
                                                             2,   1,   3,   0,   0, 0, 8,    0, 7, 255};
    uint8_t at[HALO_REMOTE_HEADER_BYTES];
    struct halo_remote_header h;
    (void)state;
    halo_remote_header_encode(at, &sample);
    assert_memory_equal(at, wanted, sizeof(wanted));
    assert_int_equal(halo_remote_header_decode(at, &h), 0);
    assert_memory_equal(&h, &sample, sizeof(h));
}

static void refused(size_t at, uint8_t value, int error)
{
    uint8_t bytes[HALO_REMOTE_HEADER_BYTES];
    struct halo_remote_header h;
    halo_remote_header_encode(bytes, &sample);
    bytes[at] = value;
    assert_int_equal(halo_remote_header_decode(bytes, &h), error);
}

static void wrong_headers_are_refused(void **state)
{
    (void)state;
    refused(0, 'G', -EPROTO);
    refused(5, 2, -EPROTONOSUPPORT);
    refused(4, 9, 0); /* a greater minor version */
    refused(15, 1, -EMSGSIZE);
    refused(14, 0x11, -EMSGSIZE);
    refused(16, 16, -EBADMSG);
    refused(17, 1, -EBADMSG);
}

static void feed(struct halo_remote_reader *r, const void *bytes, size_t n)
{
    size_t room;
    uint8_t *at = halo_remote_reader_reserve(r, &room);
    assert_true(room >= n);
    memcpy(at, bytes, n);
    halo_remote_reader_commit(r, n);
}

/* Two frames, cut at every place. */
static void frames_come_out_whatever_the_pieces(void **state)
{
    uint8_t stream[2 * (HALO_REMOTE_HEADER_BYTES + 3)];
    size_t one = HALO_REMOTE_HEADER_BYTES + 3;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        halo_remote_header_encode(stream + i * one, &sample);
        memcpy(stream + i * one + HALO_REMOTE_HEADER_BYTES, i ? "def" : "abc", 3);
    }
    for (size_t cut = 0; cut <= sizeof(stream); cut++) {
        struct halo_remote_reader r;
        struct halo_remote_header h;
        const uint8_t *payload;
        size_t n = 0, given[2] = {cut, sizeof(stream) - cut};
        assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_FIRST_MAX), 0);
        for (size_t i = 0; i < 2; i++) {
            feed(&r, stream + (i ? cut : 0), given[i]);
            while (halo_remote_reader_next(&r, &h, &payload) == 0)
                assert_memory_equal(payload, n++ ? "def" : "abc", 3);
            assert_int_equal(n, (i ? sizeof(stream) : cut) / one);
        }
        halo_remote_reader_finish(&r);
    }
}

static void a_stranger_is_refused_with_four_bytes(void **state)
{
    struct halo_remote_reader r;
    struct halo_remote_header h;
    const uint8_t *payload;
    (void)state;
    assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_FIRST_MAX), 0);
    feed(&r, "GE", 2);
    assert_int_equal(halo_remote_reader_next(&r, &h, &payload), HALO_REMOTE_E_MORE);
    feed(&r, "T ", 2);
    assert_int_equal(halo_remote_reader_next(&r, &h, &payload), -EPROTO);
    assert_int_equal(halo_remote_reader_next(&r, &h, &payload), -EPROTO);
    halo_remote_reader_finish(&r);
}

/* What is refused is the length that the header claims, before its bytes are here. */
static void the_first_frame_is_small(void **state)
{
    struct halo_remote_header h = sample;
    uint8_t at[HALO_REMOTE_HEADER_BYTES];
    struct halo_remote_reader r;
    const uint8_t *payload;
    (void)state;
    h.payload_bytes = HALO_REMOTE_FIRST_MAX + 1;
    halo_remote_header_encode(at, &h);
    assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_FIRST_MAX), 0);
    feed(&r, at, sizeof(at));
    assert_int_equal(halo_remote_reader_next(&r, &h, &payload), -EMSGSIZE);
    halo_remote_reader_finish(&r);
    assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_PAYLOAD_MAX), 0);
    feed(&r, at, sizeof(at));
    assert_int_equal(halo_remote_reader_next(&r, &h, &payload), HALO_REMOTE_E_MORE);
    halo_remote_reader_finish(&r);
}

/* A frame of the greatest length that arrives while its predecessor's end is still in the buffer. */
static void the_longest_frames_fit(void **state)
{
    static uint8_t frame[HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX];
    struct halo_remote_header h = sample;
    struct halo_remote_reader r;
    const uint8_t *payload;
    size_t n_frames = 0, sent = 0, total = 3 * sizeof(frame);
    (void)state;
    h.payload_bytes = HALO_REMOTE_PAYLOAD_MAX;
    halo_remote_header_encode(frame, &h);
    frame[sizeof(frame) - 1] = 42;
    assert_int_equal(halo_remote_reader_init(&r, HALO_REMOTE_PAYLOAD_MAX), 0);
    while (sent < total) {
        size_t room, n = 0;
        uint8_t *at = halo_remote_reader_reserve(&r, &room);
        assert_true(room > 0);
        for (; n < room && n < 1000003 && sent < total; n++)
            at[n] = frame[sent++ % sizeof(frame)];
        halo_remote_reader_commit(&r, n);
        while (halo_remote_reader_next(&r, &h, &payload) == 0) {
            assert_int_equal(payload[HALO_REMOTE_PAYLOAD_MAX - 1], 42);
            n_frames++;
        }
    }
    assert_int_equal(n_frames, 3);
    halo_remote_reader_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_public_one),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(frames_come_out_whatever_the_pieces),
        cmocka_unit_test(a_stranger_is_refused_with_four_bytes),
        cmocka_unit_test(the_first_frame_is_small),
        cmocka_unit_test(the_longest_frames_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
