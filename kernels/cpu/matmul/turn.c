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

/* Four indices of 7 bits and one more bit of each: byte l holds index l, and the bit on top. */
static uint32_t join_signs(const uint32_t index[4], const uint32_t extra[4])
{
    uint32_t x = 0;
    for (int l = 0; l < 4; l++)
        x |= (index[l] | extra[l] << 7) << 8 * l;
    return spread_bits(x);
}

static void split_signs(uint32_t x, uint32_t index[4], uint32_t extra[4])
{
    x = gather_bits(x);
    for (int l = 0; l < 4; l++) {
        index[l] = x >> 8 * l & 127;
        extra[l] = x >> (8 * l + 7) & 1;
    }
}

static uint32_t turn_signs(uint32_t x)
{
    uint32_t index[4], extra[4];
    for (int l = 0; l < 4; l++) {
        index[l] = x >> 7 * l & 127;
        extra[l] = x >> (28 + l) & 1;
    }
    return join_signs(index, extra);
}

static uint32_t turn_signs_back(uint32_t x)
{
    uint32_t index[4], extra[4];
    split_signs(x, index, extra);
    x = 0;
    for (int l = 0; l < 4; l++)
        x |= index[l] << 7 * l | extra[l] << (28 + l);
    return x;
}

/* Four numbers of 16 bits: a grid index of 9 bits below a sign index of 7. */
static void turn_iq2_xs(uint32_t words[2])
{
    uint32_t index[4], extra[4], low = 0;
    for (int l = 0; l < 4; l++) {
        uint32_t q = words[l / 2] >> l % 2 * 16 & 0xffff;
        low |= (q & 255) << 8 * l;
        extra[l] = q >> 8 & 1;
        index[l] = q >> 9;
    }
    words[0] = low;
    words[1] = join_signs(index, extra);
}

static void turn_iq2_xs_back(uint32_t words[2])
{
    uint32_t index[4], extra[4], low = words[0];
    split_signs(words[1], index, extra);
    words[0] = words[1] = 0;
    for (int l = 0; l < 4; l++)
        words[l / 2] |= (index[l] << 9 | extra[l] << 8 | (low >> 8 * l & 255)) << l % 2 * 16;
}

static uint32_t turn_e4m3(uint32_t x)
{
    for (int i = 0; i < 4; i++)
        if ((x >> 8 * i & 255) == 0x7f)
            x &= ~(255u << 8 * i);
    return x;
}

void halo_cpu_turn(enum halo_cpu_turn turn, uint32_t *words)
{
    switch (turn) {
    case HALO_TURN_NONE: return;
    case HALO_TURN_BITS: words[0] = spread_bits(words[0]); return;
    case HALO_TURN_PAIRS: words[0] = turn_pairs(words[0]); return;
    case HALO_TURN_SIGNS: words[0] = turn_signs(words[0]); return;
    case HALO_TURN_IQ2_XS: turn_iq2_xs(words); return;
    case HALO_TURN_E4M3: words[0] = turn_e4m3(words[0]); return;
    }
    assert(!"a turn");
}

void halo_cpu_turn_back(enum halo_cpu_turn turn, uint32_t *words)
{
    switch (turn) {
    case HALO_TURN_NONE:
    case HALO_TURN_E4M3: return;
    case HALO_TURN_BITS: words[0] = gather_bits(words[0]); return;
    case HALO_TURN_PAIRS: words[0] = turn_pairs(words[0]); return;
    case HALO_TURN_SIGNS: words[0] = turn_signs_back(words[0]); return;
    case HALO_TURN_IQ2_XS: turn_iq2_xs_back(words); return;
    }
    assert(!"a turn");
}
