/* fuzz_remote_handshake.c: the handshake of remote HIP against a peer that does not have the key, and changed records.
 *
 * Input: a byte that says what follows; its second bit says which side is under test.
 *   bit 0: the rest is what the peer sends, and must not be taken for a peer with the key;
 *   bit 2: both have the key, and the rest changes what one sends afterwards: what the other receives is a beginning
 *          of what was sent;
 *   else:  the peer is a real one with another key, and each three bytes of the rest change one byte of what one of
 *          both sends. Neither may take the other for one with its key.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct halo_remote_key right = {{1}};
static const struct halo_remote_key wrong = {{2}};

static void send_raw(struct wire *w, int side, const uint8_t *at, size_t n)
{
    wire_open_one(w, side, &right);
    wire_shake_hands(w); /* a client speaks first */
    for (size_t sent = 0; sent < n && w->results[side] == 1;) {
        size_t piece = 1 + sent % 700;
        piece = piece > n - sent ? n - sent : piece;
        if (send(w->ends[!side].fd, at + sent, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            break;
        sent += piece;
        wire_shake_hands(w);
    }
    shutdown(w->ends[!side].fd, SHUT_RDWR);
    wire_shake_hands(w);
}

static void change(struct wire *w, const uint8_t *at, size_t n)
{
    wire_open(w, &wrong, &right);
    for (size_t i = 0; i + 3 <= n && i / 3 < 2; i += 3) {
        struct wire_way *way = &w->ways[i / 3];
        way->flip_at = (size_t)at[i] | (size_t)(at[i + 1] & 1) << 8;
        way->flip_by = at[i + 2];
    }
    wire_shake_hands(w);
}

static void change_records(struct wire *w, int side, const uint8_t *at, size_t n)
{
    uint8_t got[4096];
    int error;
    wire_open(w, &right, &right);
    wire_shake_hands(w);
    assert(w->results[WIRE_CLIENT] == 0 && w->results[WIRE_WORKER] == 0);
    if (n >= 3) {
        w->ways[!side].flip_at = w->ways[!side].n + ((size_t)at[0] | (size_t)at[1] << 8) % (n + 64);
        w->ways[!side].flip_by = at[2];
    }
    for (size_t sent = 0; sent < n;) {
        size_t piece = n - sent < sizeof(got) ? n - sent : sizeof(got);
        if (!wire_carry(w, !side, at + sent, piece, got, &error))
            break;
        assert(memcmp(got, at + sent, piece) == 0);
        sent += piece;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire w;
    if (size < 1)
        return 0;
    int side = data[0] & 2 ? WIRE_WORKER : WIRE_CLIENT;
    if (data[0] & 1) {
        send_raw(&w, side, data + 1, size - 1);
        assert(w.results[side] != 0);
    } else if (data[0] & 4) {
        change_records(&w, side, data + 1, size - 1);
    } else {
        change(&w, data + 1, size - 1);
        assert(w.results[WIRE_CLIENT] != 0 && w.results[WIRE_WORKER] != 0);
    }
    wire_close(&w);
    return 0;
}
