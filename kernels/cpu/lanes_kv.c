/* lanes_kv.c: head rows into and out of their stored form. Pure functions; compiled once for each variant
 * (lanes_priv.h). */
#include <stdbool.h>

#include "half_priv.h"
#include "lanes_priv.h"
#include "vec_priv.h"

#define CACHE_LINE 64

static void store_f16(uint32_t dim, const float *x, uint16_t *row)
{
    uint32_t i = 0;
    for (; i + 16 <= dim; i += 16)
        vec_to_f16(row + i, vec_load(x + i));
    if (i < dim) {
        uint16_t rest[16];
        vec_to_f16(rest, vec_load_n(x + i, dim - i));
        memcpy(row + i, rest, (dim - i) * sizeof(rest[0]));
    }
}

/* The largest magnitude of a group, or a NaN when there is one among them (the maximum alone would lose it). */
static float magnitude(struct vec a, struct vec b)
{
    float max = vec_max_all(vec_max(vec_abs(a), vec_abs(b)));
    float nan = vec_sum(vec_mul(vec_add(a, b), vec_zero()));
    return nan == 0 ? max : nan;
}

static void store_q8(uint32_t dim, const float *x, int8_t *row)
{
    uint8_t *scales = (uint8_t *)(row + dim);
    const struct vec limit = vec_splat(127.0f), low = vec_splat(-127.0f);
    for (uint32_t i = 0; i < dim; i += HALO_KV_Q8_GROUP, scales += 2) {
        float group[HALO_KV_Q8_GROUP] = {0};
        uint32_t n = dim - i < HALO_KV_Q8_GROUP ? dim - i : HALO_KV_Q8_GROUP;
        memcpy(group, x + i, n * sizeof(group[0]));
        struct vec a = vec_load(group), b = vec_load(group + 16);
        uint16_t half = halo_half_store(magnitude(a, b) / 127.0f);
        float scale = halo_half_load(half);
        int8_t q[HALO_KV_Q8_GROUP];
        if (isfinite(scale) && scale > 0) {
            struct vec d = vec_splat(scale);
            vec_to_i8(q, vec_max(low, vec_min(limit, vec_div(a, d))));
            vec_to_i8(q + 16, vec_max(low, vec_min(limit, vec_div(b, d))));
        } else {
            /* Nothing but zeros, or a group that must read back as NaN or infinity. */
            memset(q, scale == 0 ? 0 : 1, sizeof(q));
        }
        memcpy(row + i, q, n);
        memcpy(scales, &half, sizeof(half));
    }
}

/* Like Q4_0: the element that is largest in magnitude is -8 times the scale. */
static void store_q4(uint32_t dim, const float *x, uint8_t *row)
{
    uint8_t *scales = row + (dim + 1) / 2;
    memset(row, 0, (dim + 1) / 2);
    for (uint32_t i = 0; i < dim; i += HALO_KV_Q8_GROUP, scales += 2) {
        uint32_t end = dim - i < HALO_KV_Q8_GROUP ? dim : i + HALO_KV_Q8_GROUP;
        float most = 0, nan = 0;
        for (uint32_t k = i; k < end; k++) {
            most = fabsf(x[k]) > fabsf(most) ? x[k] : most;
            nan += x[k] * 0;
        }
        uint16_t half = halo_half_store(nan == 0 ? most / -8 : nan);
        float scale = halo_half_load(half);
        for (uint32_t k = i; k < end; k++) {
            /* Nothing but zeros, or a group that must read back as NaN or infinity. */
            float q = isfinite(scale) && scale != 0 ? rintf(x[k] / scale) + 8 : scale == 0 ? 8 : 9;
            q = q < 0 ? 0 : q > 15 ? 15 : q;
            row[k / 2] |= (uint8_t)((uint32_t)q << k % 2 * 4);
        }
        memcpy(scales, &half, sizeof(half));
    }
}

void LANES(kv_store)(enum halo_kv_type type, uint32_t dim, const float *x, void *row)
{
    switch (type) {
    case HALO_KV_F32: memcpy(row, x, dim * sizeof(float)); break;
    case HALO_KV_F16: store_f16(dim, x, row); break;
    case HALO_KV_Q8: store_q8(dim, x, row); break;
    case HALO_KV_Q4: store_q4(dim, x, row); break;
    }
}

static void load_f32(uint32_t dim, const float *row, float *out)
{
    uint32_t i = 0;
    for (; i + 16 <= dim; i += 16)
        vec_store(out + i, vec_load(row + i));
    if (i < dim)
        vec_store(out + i, vec_load_n(row + i, dim - i));
}

static void load_f16(uint32_t dim, const uint16_t *row, float *out)
{
    uint32_t i = 0;
    for (; i + 16 <= dim; i += 16)
        vec_store(out + i, vec_from_f16(row + i));
    if (i < dim) {
        uint16_t rest[16] = {0};
        memcpy(rest, row + i, (dim - i) * sizeof(rest[0]));
        vec_store(out + i, vec_from_f16(rest));
    }
}

static void load_q8(uint32_t dim, const int8_t *row, float *out)
{
    const uint8_t *scales = (const uint8_t *)(row + dim);
    for (uint32_t i = 0; i < dim; i += 16) {
        uint16_t half;
        memcpy(&half, scales + i / HALO_KV_Q8_GROUP * 2, sizeof(half));
        struct vec scale = vec_splat(halo_half_load(half));
        if (dim - i >= 16) {
            vec_store(out + i, vec_mul(vec_from_i8(row + i), scale));
        } else {
            int8_t rest[16] = {0};
            memcpy(rest, row + i, dim - i);
            vec_store(out + i, vec_zero());
            vec_store_n(out + i, vec_mul(vec_from_i8(rest), scale), dim - i);
        }
    }
}

static void load_q4(uint32_t dim, const uint8_t *row, float *out)
{
    const uint8_t *scales = row + (dim + 1) / 2;
    for (uint32_t i = 0; i < dim; i += HALO_KV_Q8_GROUP, scales += 2) {
        uint32_t end = dim - i < HALO_KV_Q8_GROUP ? dim : i + HALO_KV_Q8_GROUP;
        uint16_t half;
        memcpy(&half, scales, sizeof(half));
        float scale = halo_half_load(half);
        for (uint32_t k = i; k < end; k++)
            out[k] = (float)((row[k / 2] >> k % 2 * 4 & 15) - 8) * scale;
    }
    memset(out + dim, 0, (halo_cpu_stride(dim) - dim) * sizeof(float));
}

void LANES(kv_load)(enum halo_kv_type type, uint32_t dim, uint32_t n_rows, const void *rows, const void *next,
                    float *out)
{
    const uint8_t *row = rows, *ahead = next;
    uint32_t row_bytes = halo_kv_row_bytes(type, dim), stride = halo_cpu_stride(dim);
    for (uint32_t r = 0; r < n_rows; r++, row += row_bytes, out += stride) {
        for (uint32_t i = 0; ahead && i < row_bytes; i += CACHE_LINE)
            __builtin_prefetch(ahead + r * row_bytes + i, 0, 2);
        switch (type) {
        case HALO_KV_F32: load_f32(dim, (const float *)(const void *)row, out); break;
        case HALO_KV_F16: load_f16(dim, (const uint16_t *)(const void *)row, out); break;
        case HALO_KV_Q8: load_q8(dim, (const int8_t *)row, out); break;
        case HALO_KV_Q4: load_q4(dim, row, out); break;
        }
    }
}
