/* test_tls.c: who gets through a handshake, and what becomes of bytes that somebody in between changes. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_tls/tls.h>

#include "wire.h"

static const struct halo_remote_key right = {"a key of thirty-two bytes, right"};
static const struct halo_remote_key wrong = {"a key of thirty-two bytes, wrong"};

static void open_shaken(struct wire *w)
{
    wire_open(w, &right, &right);
    wire_shake_hands(w);
    assert_int_equal(w->results[WIRE_CLIENT], 0);
    assert_int_equal(w->results[WIRE_WORKER], 0);
}

static void the_same_key_opens_a_channel_that_nobody_reads(void **state)
{
    static uint8_t sent[300000], got[sizeof(sent)];
    static const char secret[] = "weights and prompts";
    static struct wire w;
    int error;
    (void)state;
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (uint8_t)(i * 2654435761u >> 24);
    open_shaken(&w);
    for (int way = 0; way < WIRE_WAYS; way++) {
        size_t before = w.ways[way].n;
        assert_true(wire_carry(&w, way, (const uint8_t *)secret, sizeof(secret), got, &error));
        assert_memory_equal(got, secret, sizeof(secret));
        assert_true(w.ways[way].n > before + sizeof(secret));
        assert_null(memmem(w.ways[way].seen, w.ways[way].n, "weights", 7));
        assert_true(wire_carry(&w, way, sent, sizeof(sent), got, &error));
        assert_memory_equal(got, sent, sizeof(sent));
    }
    wire_close(&w);
}

static void the_same_bytes_never_look_alike(void **state)
{
    static struct wire w[2];
    uint8_t got[64] = {0};
    int error;
    (void)state;
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        open_shaken(&w[i]);
        at = w[i].ways[WIRE_UP].n;
        assert_true(wire_carry(&w[i], WIRE_CLIENT, (const uint8_t *)"forty-two bytes of one and the same text..", 42,
                               got, &error));
    }
    assert_int_equal(w[0].ways[WIRE_UP].n, w[1].ways[WIRE_UP].n);
    assert_memory_not_equal(w[0].ways[WIRE_UP].seen + at + 5, w[1].ways[WIRE_UP].seen + at + 5, 42);
    wire_close(&w[0]);
    wire_close(&w[1]);
}

static void another_key_is_refused_by_both(void **state)
{
    static struct wire w;
    (void)state;
    wire_open(&w, &wrong, &right);
    wire_shake_hands(&w);
    assert_int_equal(w.results[WIRE_WORKER], -EACCES);
    assert_int_equal(w.results[WIRE_CLIENT], -EACCES);
    wire_close(&w);
}

/* Every key that differs in one bit. */
static void each_bit_of_the_key_counts(void **state)
{
    static struct wire w;
    (void)state;
    for (unsigned bit = 0; bit < 8 * HALO_REMOTE_KEY_BYTES; bit += 5) {
        struct halo_remote_key near = right;
        near.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        wire_open(&w, &near, &right);
        wire_shake_hands(&w);
        assert_int_equal(w.results[WIRE_WORKER], -EACCES);
        assert_int_equal(w.results[WIRE_CLIENT], -EACCES);
        wire_close(&w);
    }
}

static void who_does_not_encrypt_is_told_apart(void **state)
{
    static struct wire w;
    uint8_t alert[7];
    (void)state;
    wire_open_one(&w, WIRE_WORKER, &right);
    assert_int_equal(send(w.ends[WIRE_CLIENT].fd, "RPIH\x01\x00\x01\x00", 8, 0), 8);
    wire_pump(&w);
    wire_shake_hands(&w);
    assert_int_equal(w.results[WIRE_WORKER], -EPROTO);
    assert_int_equal(recv(w.ends[WIRE_CLIENT].fd, alert, sizeof(alert), 0), sizeof(alert));
    assert_int_equal(alert[0], 21); /* the client can tell it from a frame */
    wire_close(&w);

    wire_open_one(&w, WIRE_CLIENT, &right);
    assert_int_equal(send(w.ends[WIRE_WORKER].fd, "RPIH\x01\x00\x01\x00", 8, 0), 8);
    wire_pump(&w);
    wire_shake_hands(&w);
    assert_int_equal(w.results[WIRE_CLIENT], -EPROTO);
    wire_close(&w);
}

/* How many bytes each side sends until both are sure. */
static void measure(size_t ret[static WIRE_WAYS])
{
    static struct wire w;
    open_shaken(&w);
    for (int way = 0; way < WIRE_WAYS; way++)
        ret[way] = w.ways[way].n;
    wire_close(&w);
}

static void a_cut_in_the_handshake_ends_it(void **state)
{
    static struct wire w;
    size_t n[WIRE_WAYS];
    (void)state;
    measure(n);
    for (int way = 0; way < WIRE_WAYS; way++)
        for (size_t at = 0; at < n[way]; at++) {
            wire_open(&w, &right, &right);
            w.ways[way].cut_at = at;
            if (at == 0)
                shutdown(w.ways[way].to, SHUT_WR);
            wire_shake_hands(&w);
            assert_int_equal(w.results[way == WIRE_UP ? WIRE_WORKER : WIRE_CLIENT], -ECONNRESET);
            wire_close(&w);
        }
}

/* A byte that neither side looks at is the version in the header of a record; TLS 1.3 ignores it. */
static void a_change_in_the_handshake_is_found(void **state)
{
    static struct wire w;
    size_t n[WIRE_WAYS], n_ignored = 0;
    (void)state;
    measure(n);
    for (int way = 0; way < WIRE_WAYS; way++)
        for (size_t at = 0; at < n[way]; at++) {
            wire_open(&w, &right, &right);
            w.ways[way].flip_at = at;
            w.ways[way].flip_by = (uint8_t)(1u << at % 8);
            wire_shake_hands(&w);
            n_ignored += w.results[WIRE_CLIENT] == 0 && w.results[WIRE_WORKER] == 0;
            wire_close(&w);
        }
    print_message("%zu of %zu changed bytes were ignored\n", n_ignored, n[0] + n[1]);
    assert_true(n_ignored <= 16);
}

static void a_changed_record_is_refused(void **state)
{
    static struct wire w;
    static uint8_t sent[1000], got[1000];
    int error = 0;
    (void)state;
    for (size_t at = 5; at < 5 + sizeof(sent); at += 111) {
        open_shaken(&w);
        w.ways[WIRE_UP].flip_at = w.ways[WIRE_UP].n + at;
        w.ways[WIRE_UP].flip_by = 1;
        assert_false(wire_carry(&w, WIRE_CLIENT, sent, sizeof(sent), got, &error));
        assert_int_equal(error, -EBADMSG);
        wire_close(&w);
    }
}

static void a_silent_peer_is_given_up(void **state)
{
    int fds[2];
    (void)state;
    for (int side = 0; side < 2; side++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        struct halo_remote_channel ch = {.fd = fds[0]};
        assert_int_equal(halo_remote_channel_secure(&ch, &halo_remote_tls, side == WIRE_WORKER, &right, 20),
                         -ETIMEDOUT);
        assert_null(ch.cipher);
        close(fds[0]);
        close(fds[1]);
    }
}

/* A record that was read in part is not seen by poll(). */
static void unread_bytes_are_known(void **state)
{
    static struct wire w;
    uint8_t got[8];
    (void)state;
    open_shaken(&w);
    assert_int_equal(halo_remote_channel_send(&w.ends[WIRE_CLIENT], "a record", 8), 8);
    assert_true(wire_pump(&w));
    assert_false(halo_remote_channel_has_unread(&w.ends[WIRE_WORKER]));
    assert_int_equal(halo_remote_channel_recv(&w.ends[WIRE_WORKER], got, 3), 3);
    assert_true(halo_remote_channel_has_unread(&w.ends[WIRE_WORKER]));
    assert_int_equal(halo_remote_channel_recv(&w.ends[WIRE_WORKER], got, 8), 5);
    assert_memory_equal(got, "ecord", 5);
    assert_false(halo_remote_channel_has_unread(&w.ends[WIRE_WORKER]));
    assert_int_equal(halo_remote_channel_recv(&w.ends[WIRE_WORKER], got, 8), -EAGAIN);
    shutdown(w.ends[WIRE_CLIENT].fd, SHUT_RDWR);
    wire_pump(&w);
    assert_int_equal(halo_remote_channel_recv(&w.ends[WIRE_WORKER], got, 8), 0);
    wire_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_key_opens_a_channel_that_nobody_reads),
        cmocka_unit_test(the_same_bytes_never_look_alike),
        cmocka_unit_test(another_key_is_refused_by_both),
        cmocka_unit_test(each_bit_of_the_key_counts),
        cmocka_unit_test(who_does_not_encrypt_is_told_apart),
        cmocka_unit_test(a_cut_in_the_handshake_ends_it),
        cmocka_unit_test(a_change_in_the_handshake_is_found),
        cmocka_unit_test(a_changed_record_is_refused),
        cmocka_unit_test(a_silent_peer_is_given_up),
        cmocka_unit_test(unread_bytes_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
