/* mkgguf_fill.c: random weights, made as blocks of each type as fast as a disk takes them.
 *
 * The quantized digits are plain random bits; the scales are then set so that the weights have mean 0 and the wanted
 * standard deviation. Where digits are lopsided (Q4_0's run from -8 to 7) the sign of the scale is random, or the
 * block's minimum moves them. Layouts: kernels/quant.h. Reproducible from the stream number alone.
 */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kernels/quant.h>
#include <kernels/tensor.h>

#include <model/placement.h>

#include "mkgguf.h"

#define BISECTIONS 60

/* splitmix64: a counter and a mix, so that blocks could be made in any order. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void random_bytes(uint64_t *state, uint8_t *bytes, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word = random_next(state);
        memcpy(bytes + i, &word, 8);
    }
    if (i < n) {
        uint64_t word = random_next(state);
        memcpy(bytes + i, &word, n - i);
    }
}

/* Nearest half, for finite values of a magnitude below 65504. */
static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    float magnitude = fabsf(value);
    if (magnitude < 0x1p-14f) /* subnormal: steps of 2^-24 */
        return sign | (uint16_t)lrintf(magnitude * 0x1p24f);
    bits &= 0x7fffffff;
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits >> 13) - ((127 - 15) << 10));
}

/* The mean square of the values that a random digit stands for. */
static float mean_square(const int *values, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += (float)values[i] * (float)values[i];
    return sum / (float)n;
}

static const int iq4_values[16] = HALO_IQ4_NL_VALUES;
static const int mxfp4_values2[16] = HALO_MXFP4_VALUES2;

#define SIX_BIT_SQUARE 341.5f   /* of -32 .. 31 */
#define BYTE_SQUARE 5461.5f     /* of -128 .. 127 */
#define HIGH_SIX_SQUARE 2342.5f /* of 32 .. 63 */
#define HIGH_FOUR_SQUARE 137.5f /* of 8 .. 15 */

/* d of a block, or of -d for half of the blocks: `bits` is random. */
static uint16_t signed_scale(uint16_t d, unsigned bits)
{
    return d ^ (uint16_t)((bits & 1) << 15);
}

/* Eight 6-bit scales of 32 .. 63 with minimums equal to them, as Q4_K and Q5_K pack them. */
static void pack_scales(uint64_t random, uint8_t scales[12])
{
    uint8_t s[8];
    for (int j = 0; j < 8; j++)
        s[j] = 32 | (random >> (5 * j) & 31);
    for (int j = 0; j < 4; j++) {
        uint8_t low = s[j], high = s[j + 4];
        scales[j] = scales[j + 4] = (uint8_t)(low | (high >> 4) << 6);
        scales[j + 8] = (uint8_t)((high & 15) | (high & 15) << 4);
    }
}

/* Walks the blocks of a buffer of random bytes and sets the scales of each. */
#define FOR_BLOCKS(block_type, b)                                                                                      \
    for (struct block_type *b = (struct block_type *)bytes, *b##_end = b + n_bytes / sizeof *b; b < b##_end; b++)

static void scale_small(uint32_t type, float deviation, uint8_t *bytes, uint64_t n_bytes)
{
    float iq4 = sqrtf(mean_square(iq4_values, 16)), mxfp4 = sqrtf(mean_square(mxfp4_values2, 16)) / 2;
    uint16_t d4 = half_of(deviation / sqrtf(21.5f)), d5 = half_of(deviation / sqrtf(85.5f));
    uint16_t m4 = half_of(-7.5f * deviation / sqrtf(21.25f)), m5 = half_of(-15.5f * deviation / sqrtf(85.25f));
    uint16_t d8 = half_of(deviation / sqrtf(BYTE_SQUARE)), diq4 = half_of(deviation / iq4);
    uint8_t e = (uint8_t)(127 + lrintf(log2f(deviation / mxfp4)));
    switch (type) {
    case HALO_TYPE_Q4_0:
        FOR_BLOCKS(halo_block_q4_0, b)
        b->d = signed_scale(d4, b->d);
        break;
    case HALO_TYPE_Q4_1:
        FOR_BLOCKS(halo_block_q4_1, b)
        b->d = d4, b->m = m4;
        break;
    case HALO_TYPE_Q5_0:
        FOR_BLOCKS(halo_block_q5_0, b)
        b->d = signed_scale(d5, b->d);
        break;
    case HALO_TYPE_Q5_1:
        FOR_BLOCKS(halo_block_q5_1, b)
        b->d = d5, b->m = m5;
        break;
    case HALO_TYPE_Q8_0:
        FOR_BLOCKS(halo_block_q8_0, b)
        b->d = signed_scale(d8, b->d);
        break;
    case HALO_TYPE_IQ4_NL:
        FOR_BLOCKS(halo_block_iq4_nl, b)
        b->d = signed_scale(diq4, b->d);
        break;
    case HALO_TYPE_MXFP4:
        FOR_BLOCKS(halo_block_mxfp4, b)
        b->e = e;
        break;
    default: abort();
    }
}

static void scale_super(uint32_t type, float deviation, uint64_t *state, uint8_t *bytes, uint64_t n_bytes)
{
    float iq4 = mean_square(iq4_values, 16);
    uint16_t d3 = half_of(deviation / sqrtf(SIX_BIT_SQUARE * 5.5f)),
             d6 = half_of(deviation / sqrtf(BYTE_SQUARE * SIX_BIT_SQUARE));
    uint16_t dxs = half_of(deviation / sqrtf(SIX_BIT_SQUARE * iq4));
    float f2 = deviation / sqrtf(HIGH_FOUR_SQUARE * 1.25f), f4 = deviation / sqrtf(HIGH_SIX_SQUARE * 21.25f);
    float f5 = deviation / sqrtf(HIGH_SIX_SQUARE * 85.25f);
    uint16_t d2 = half_of(f2), min2 = half_of(1.5f * f2), d4 = half_of(f4), min4 = half_of(7.5f * f4);
    uint16_t d5 = half_of(f5), min5 = half_of(15.5f * f5);
    switch (type) {
    case HALO_TYPE_Q2_K:
        FOR_BLOCKS(halo_block_q2_k, b)
        {
            for (int i = 0; i < 16; i++) {
                uint8_t s = 8 | (b->scales[i] & 7);
                b->scales[i] = (uint8_t)(s | s << 4);
            }
            b->d = d2, b->dmin = min2;
        }
        break;
    case HALO_TYPE_Q3_K:
        FOR_BLOCKS(halo_block_q3_k, b)
        b->d = d3;
        break;
    case HALO_TYPE_Q4_K:
        FOR_BLOCKS(halo_block_q4_k, b)
        {
            pack_scales(random_next(state), b->scales);
            b->d = d4, b->dmin = min4;
        }
        break;
    case HALO_TYPE_Q5_K:
        FOR_BLOCKS(halo_block_q5_k, b)
        {
            pack_scales(random_next(state), b->scales);
            b->d = d5, b->dmin = min5;
        }
        break;
    case HALO_TYPE_Q6_K:
        FOR_BLOCKS(halo_block_q6_k, b)
        b->d = d6;
        break;
    case HALO_TYPE_IQ4_XS:
        FOR_BLOCKS(halo_block_iq4_xs, b)
        b->d = dxs;
        break;
    default: abort();
    }
}

/* Mean squares of the numbers in the code books, and of the odd and half scales that multiply them. */
#define IQ1_SQUARE (0.5942f + 1 / 64.0f)
#define IQ2_XXS_SQUARE 534.4f
#define IQ2_XS_SQUARE 586.5f
#define IQ2_S_SQUARE 596.8f
#define IQ3_XXS_SQUARE 951.6f
#define IQ3_S_SQUARE 57.67f
#define ODD_THREE_SQUARE 85.0f  /* of 1, 3 .. 15 */
#define ODD_FOUR_SQUARE 341.0f  /* of 1, 3 .. 31 */
#define HALF_FOUR_SQUARE 85.25f /* of 0.5, 1.5 .. 15.5 */

/* -1, 0 and 1 alone, of numbers from -1 to 2: half of them 0. */
static void make_ternary(uint8_t *pairs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        pairs[i] = (uint8_t)(pairs[i] ^ (pairs[i] >> 1 & pairs[i] & 0x55) << 1);
}

/* The nearest E4M3. */
static uint8_t e4m3_of(float value)
{
    int exponent, rounded;
    frexpf(value, &exponent);
    exponent = exponent < -5 ? -5 : exponent; /* below are the subnormals, with the same steps */
    rounded = (int)lrintf(ldexpf(value, 4 - exponent));
    return (uint8_t)((exponent + 5) * 8 + rounded);
}

static void scale_ternary(uint32_t type, float deviation, uint8_t *bytes, uint64_t n_bytes)
{
    uint16_t d_half = half_of(deviation / sqrtf(0.5f)), d_third = half_of(deviation / sqrtf(2 / 3.0f));
    switch (type) {
    case HALO_TYPE_TQ1_0:
        FOR_BLOCKS(halo_block_tq1_0, b)
        b->d = d_third;
        break;
    case HALO_TYPE_TQ2_0:
        FOR_BLOCKS(halo_block_tq2_0, b)
        {
            make_ternary(b->qs, sizeof b->qs);
            b->d = d_half;
        }
        break;
    case HALO_TYPE_Q2_0:
        FOR_BLOCKS(halo_block_q2_0, b)
        {
            make_ternary(b->qs, sizeof b->qs);
            b->d = d_half;
        }
        break;
    default:
        FOR_BLOCKS(halo_block_q1_0, b)
        b->d = half_of(deviation);
        break;
    }
}

/* The types with code books and NVFP4; all but two of them begin with d. False for others. */
static bool scale_codes(uint32_t type, float deviation, uint8_t *bytes, uint64_t n_bytes)
{
    float square;
    switch (type) {
    case HALO_TYPE_IQ1_S:
    case HALO_TYPE_IQ1_M: square = ODD_THREE_SQUARE * IQ1_SQUARE; break;
    case HALO_TYPE_IQ2_XXS: square = HALF_FOUR_SQUARE / 16 * IQ2_XXS_SQUARE; break;
    case HALO_TYPE_IQ2_XS: square = HALF_FOUR_SQUARE / 16 * IQ2_XS_SQUARE; break;
    case HALO_TYPE_IQ2_S: square = HALF_FOUR_SQUARE / 16 * IQ2_S_SQUARE; break;
    case HALO_TYPE_IQ3_XXS: square = HALF_FOUR_SQUARE / 4 * IQ3_XXS_SQUARE; break;
    case HALO_TYPE_IQ3_S: square = ODD_FOUR_SQUARE * IQ3_S_SQUARE; break;
    case HALO_TYPE_NVFP4: square = mean_square(mxfp4_values2, 16) / 4; break;
    default: return false;
    }
    uint16_t d = half_of(deviation / sqrtf(square));
    uint8_t e = e4m3_of(deviation / sqrtf(square));
    uint32_t block_bytes = halo_type_info(type).block_bytes;
    for (uint64_t at = 0; at < n_bytes; at += block_bytes) {
        struct halo_block_iq1_m *iq1_m = (struct halo_block_iq1_m *)(void *)(bytes + at);
        if (type == HALO_TYPE_NVFP4)
            memset(bytes + at, e, 4);
        else if (type != HALO_TYPE_IQ1_M)
            memcpy(bytes + at, &d, sizeof d);
        for (int i = 0; i < 4 && type == HALO_TYPE_IQ1_M; i++)
            iq1_m->sc[i] = (uint16_t)((iq1_m->sc[i] & 0xfff) | (d >> 4 * i & 15) << 12);
    }
    return true;
}

/* Plain numbers: even over the interval of the wanted deviation, from 16 random bits each. */
static void fill_plain(uint32_t type, float deviation, uint64_t *state, uint8_t *bytes, uint64_t n_bytes)
{
    float step = deviation * sqrtf(12) / 65536;
    if (type == HALO_TYPE_F32) {
        float *values = (float *)bytes;
        for (uint64_t i = 0; i < n_bytes / 4; i++)
            values[i] = ((float)(random_next(state) >> 48) - 32767.5f) * step;
        return;
    }
    uint16_t *values = (uint16_t *)bytes;
    uint16_t *table = malloc(65536 * sizeof *table);
    assert(table);
    for (uint32_t i = 0; i < 65536; i++) {
        float value = ((float)i - 32767.5f) * step;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        table[i] = type == HALO_TYPE_F16 ? half_of(value) : (uint16_t)(bits >> 16);
    }
    random_bytes(state, bytes, n_bytes);
    for (uint64_t i = 0; i < n_bytes / 2; i++)
        values[i] = table[values[i]];
    free(table);
}

void mkgguf_fill(uint32_t type, float deviation, uint64_t stream, uint8_t *bytes, uint64_t n_bytes)
{
    struct halo_type_info info = halo_type_info(type);
    assert(info.name && n_bytes % info.block_bytes == 0);
    uint64_t state = stream * 0xd1342543de82ef95u + 1;
    if (info.block_weights == 1) {
        fill_plain(type, deviation, &state, bytes, n_bytes);
        return;
    }
    random_bytes(&state, bytes, n_bytes);
    if (scale_codes(type, deviation, bytes, n_bytes))
        return;
    if (type == HALO_TYPE_TQ1_0 || type == HALO_TYPE_TQ2_0 || type == HALO_TYPE_Q1_0 || type == HALO_TYPE_Q2_0)
        scale_ternary(type, deviation, bytes, n_bytes);
    else if (info.block_weights == HALO_QK)
        scale_small(type, deviation, bytes, n_bytes);
    else
        scale_super(type, deviation, &state, bytes, n_bytes);
}

void mkgguf_fill_number(float number, uint8_t *bytes, uint64_t n_bytes)
{
    for (uint64_t i = 0; i < n_bytes; i += sizeof number)
        memcpy(bytes + i, &number, sizeof number);
}

void mkgguf_fill_ids(uint64_t first, uint64_t n_used, uint32_t n_ids, uint8_t *bytes, uint64_t n_bytes)
{
    assert(n_used > 0 && n_used <= n_ids);
    for (uint64_t i = 0; i < n_bytes / sizeof(int32_t); i++) {
        uint64_t row = (first + i) / n_used, k = (first + i) % n_used;
        int32_t id = (int32_t)((row + k * (n_ids / n_used)) % n_ids);
        memcpy(bytes + i * sizeof id, &id, sizeof id);
    }
}

/* What a number of the normal distribution exceeds with this probability. */
static double normal_above(double probability)
{
    double low = -10, high = 10;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / sqrt(2)) / 2 > probability)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of a normalized row the router makes a logit of deviation 1: the score 1 / (1 + e^-z) of an expert exceeds the size
 * of its bias with the wanted probability, and on average n_used of them do. */
void mkgguf_fill_zipf(uint32_t n_used, uint64_t stream, uint8_t *bytes, uint64_t n_bytes)
{
    double shares[HALO_MODEL_MAX_EXPERTS];
    uint32_t n_expert = (uint32_t)(n_bytes / sizeof(float)), rank[HALO_MODEL_MAX_EXPERTS];
    uint64_t state = stream * 0xd1342543de82ef95u + 1;
    halo_routing_zipf_shares(n_expert, n_used, HALO_ROUTING_ZIPF_PUBLISHED, shares);
    for (uint32_t i = 0; i < n_expert; i++) { /* a random order */
        uint32_t at = (uint32_t)(random_next(&state) % (i + 1));
        rank[i] = rank[at];
        rank[at] = i;
    }
    for (uint32_t i = 0; i < n_expert; i++) {
        float bias = (float)(-1 / (1 + exp(-normal_above(shares[rank[i]]))));
        memcpy(bytes + i * sizeof bias, &bias, sizeof bias);
    }
}
