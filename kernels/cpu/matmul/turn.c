/* turn.c: the turns of units (format_priv.h). Pure. */
#include <assert.h>

#include "format_priv.h"

static uint32_t exchange_bits(uint32_t x, uint32_t mask, unsigned distance)
{
    uint32_t moved = (x ^ x >> distance) & mask;
    return x ^ moved ^ moved << distance;
}

/* Bit 4q + b goes to bit 8b + q: a bit matrix of 8 x 4, turned; four exchanges of bits a distance apart do it. */
static uint32_t spread_bits(uint32_t x)
{
    x = exchange_bits(x, 0x22222222, 1);
    x = exchange_bits(x, 0x0a0a0a0a, 3);
    x = exchange_bits(x, 0x00cc00cc, 6);
    x = exchange_bits(x, 0x0000f0f0, 12);
    return x;
}

static uint32_t gather_bits(uint32_t x)
{
    x = exchange_bits(x, 0x0000f0f0, 12);
    x = exchange_bits(x, 0x00cc00cc, 6);
    x = exchange_bits(x, 0x0a0a0a0a, 3);
    x = exchange_bits(x, 0x22222222, 1);
    return x;
}

/* Pair 4q + b goes to pair 4b + q: its own inverse. */
static uint32_t turn_pairs(uint32_t x)
{
    return exchange_bits(exchange_bits(x, 0x00cc00cc, 6), 0x0000f0f0, 12);
}

/* Four numbers of 7 bits, side by side from bit 0 on, into the bytes of a word, and back. */
static uint32_t sevens_to_bytes(uint32_t x)
{
    return (x & 0x7f) | (x & 0x3f80) << 1 | (x & 0x1fc000) << 2 | (x & 0xfe00000) << 3;
}

static uint32_t bytes_to_sevens(uint32_t x)
{
    return (x & 0x7f) | (x >> 1 & 0x3f80) | (x >> 2 & 0x1fc000) | (x >> 3 & 0xfe00000);
}

/* Four bits from bit 0 on, onto the bytes, and back. */
static uint32_t bits_onto_bytes(uint32_t x)
{
    return (x & 1) << 7 | (x & 2) << 14 | (x & 4) << 21 | (x & 8) << 28;
}

static uint32_t bits_of_bytes(uint32_t x)
{
    return (x >> 7 & 1) | (x >> 14 & 2) | (x >> 21 & 4) | (x >> 28 & 8);
}

static uint32_t turn_signs(uint32_t x)
{
    return spread_bits(sevens_to_bytes(x) | bits_onto_bytes(x >> 28));
}

static uint32_t turn_signs_back(uint32_t x)
{
    x = gather_bits(x);
    return bytes_to_sevens(x) | bits_of_bytes(x) << 28;
}

/* Two numbers of 16 bits in each word: a grid index of 9 bits below a sign index of 7. */
static void turn_iq2_xs(uint32_t *low, uint32_t *high)
{
    uint32_t a = *low, b = *high;
    uint32_t signs = (a >> 9 & 0x7f) | (a >> 17 & 0x7f00) | (b << 7 & 0x7f0000) | (b >> 1 & 0x7f000000);
    uint32_t ninth = (a >> 8 & 1) | (a >> 23 & 2) | (b >> 6 & 4) | (b >> 21 & 8);
    *low = (a & 255) | (a >> 8 & 0xff00) | (b << 16 & 0xff0000) | (b << 8 & 0xff000000);
    *high = spread_bits(signs | bits_onto_bytes(ninth));
}

static void turn_iq2_xs_back(uint32_t *low, uint32_t *high)
{
    uint32_t index = *low, signs = gather_bits(*high), q[4];
    for (int l = 0; l < 4; l++)
        q[l] = (index >> 8 * l & 255) | (signs >> (8 * l + 7) & 1) << 8 | (signs >> 8 * l & 127) << 9;
    *low = q[0] | q[1] << 16;
    *high = q[2] | q[3] << 16;
}

static uint32_t turn_e4m3(uint32_t x)
{
    uint32_t not_7f = x ^ 0x7f7f7f7f; /* a byte of zeros where the scale is 0x7f */
    uint32_t some = ((not_7f & 0x7f7f7f7f) + 0x7f7f7f7f) | not_7f;
    return x & ((some >> 7 & 0x01010101) * 255);
}

void halo_cpu_turn(enum halo_cpu_turn turn, uint32_t n, uint32_t *low, uint32_t *high)
{
    switch (turn) {
    case HALO_TURN_NONE: return;
    case HALO_TURN_BITS:
        for (uint32_t i = 0; i < n; i++)
            low[i] = spread_bits(low[i]);
        return;
    case HALO_TURN_PAIRS:
        for (uint32_t i = 0; i < n; i++)
            low[i] = turn_pairs(low[i]);
        return;
    case HALO_TURN_SIGNS:
        for (uint32_t i = 0; i < n; i++)
            low[i] = turn_signs(low[i]);
        return;
    case HALO_TURN_IQ2_XS:
        for (uint32_t i = 0; i < n; i++)
            turn_iq2_xs(&low[i], &high[i]);
        return;
    case HALO_TURN_E4M3:
        for (uint32_t i = 0; i < n; i++)
            low[i] = turn_e4m3(low[i]);
        return;
    }
    assert(!"a turn");
}

void halo_cpu_turn_back(enum halo_cpu_turn turn, uint32_t *low, uint32_t *high)
{
    switch (turn) {
    case HALO_TURN_NONE:
    case HALO_TURN_E4M3: return;
    case HALO_TURN_BITS: *low = gather_bits(*low); return;
    case HALO_TURN_PAIRS: *low = turn_pairs(*low); return;
    case HALO_TURN_SIGNS: *low = turn_signs_back(*low); return;
    case HALO_TURN_IQ2_XS: turn_iq2_xs_back(low, high); return;
    }
    assert(!"a turn");
}
