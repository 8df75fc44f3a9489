/* wide_avx2_priv.h: many activation rows times signed weights of 8 bits, both widened to 16 bits, with VPMADDWD.
 *
 * Signed weights up to 128 take VPSIGNB, VPMADDUBSW and VPMADDWD for 32 products (dot_avx2_priv.h), all on the same two
 * ports. Widened they take two VPMADDWD and one VPADDD more. The weights of a slab are widened once for up to
 * HALO_WIDE_PASS rows, the activations once for up to HALO_WIDE_GROUPS groups. The sums are the same integers, so the
 * bits are the same.
 */
#ifndef HALO_CPU_WIDE_AVX2_PRIV_H
#define HALO_CPU_WIDE_AVX2_PRIV_H

#define HALO_WIDE_LEAST 16 /* activation rows for which it pays */
#define HALO_WIDE_TILE 6   /* activation rows: 12 sums leave 4 registers of 16 */
#define HALO_WIDE_PASS 48  /* activation rows for which weights are widened once */
#define HALO_WIDE_GROUPS 4 /* groups for which activations are widened once */

/* 4 columns of a row are two pairs: the even columns, then the odd ones. */
struct halo_wide_weights {
    _Alignas(32) int32_t pair[HALO_QUADS][2][HALO_CPU_GROUP];
    float scale[HALO_CPU_GROUP];
};

struct halo_wide_acts {
    _Alignas(32) int32_t pair[HALO_WIDE_PASS][2][HALO_QUADS];
    float d[HALO_WIDE_PASS];
};

HALO_INLINE bool wide_pays(const struct halo_panel_shape shape, uint32_t n_x)
{
    return n_x >= HALO_WIDE_LEAST && shape.is_signed && shape.top == 128 && !shape.halves;
}

HALO_INLINE halo_vint wide_even(halo_vint x)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
}

HALO_INLINE halo_vint wide_odd(halo_vint x)
{
    return _mm256_srai_epi16(x, 8);
}

HALO_INLINE void wide_unpack(panel_fn *unpack, const uint8_t *block, unsigned slab, struct halo_wide_weights *ret)
{
    for (unsigned lane = 0; lane < HALO_CPU_GROUP; lane += HALO_LANES) {
        struct halo_panel panel;
        unpack(block, slab, lane * 4, &panel);
        for (unsigned q = 0; q < HALO_QUADS; q++) {
            _mm256_store_si256((__m256i *)(ret->pair[q][0] + lane), wide_even(panel.w[q]));
            _mm256_store_si256((__m256i *)(ret->pair[q][1] + lane), wide_odd(panel.w[q]));
        }
        v_fstore(ret->scale + lane, panel.scale);
    }
}

static void wide_acts(const struct halo_act_block *const *act, uint32_t at, uint32_t n, struct halo_wide_acts *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct halo_act_block *a = act[i] + at;
        halo_vint x = v_load(a->q);
        _mm256_store_si256((__m256i *)ret->pair[i][0], wide_even(x));
        _mm256_store_si256((__m256i *)ret->pair[i][1], wide_odd(x));
        ret->d[i] = a->d;
    }
}

/* sum[i] += weights * activations of the rows first .. first + n - 1. */
HALO_INLINE void wide_tile_add(const struct halo_wide_weights *w, const struct halo_wide_acts *acts, uint32_t first,
                               const unsigned n, float (*sum)[HALO_CPU_GROUP])
{
    halo_vint part[HALO_WIDE_TILE][2];
    for (unsigned i = 0; i < n; i++)
        part[i][0] = part[i][1] = v_zero();
    for (unsigned q = 0; q < HALO_QUADS; q++)
        for (unsigned odd = 0; odd < 2; odd++) {
            halo_vint low = v_load(w->pair[q][odd]), high = v_load(w->pair[q][odd] + HALO_LANES);
            for (unsigned i = 0; i < n; i++) {
                halo_vint x = v_set32(acts->pair[first + i][odd][q]);
                part[i][0] = v_add32(part[i][0], v_madd16(low, x));
                part[i][1] = v_add32(part[i][1], v_madd16(high, x));
                HALO_KEEP_ORDER(part[i][0]);
                HALO_KEEP_ORDER(part[i][1]);
            }
        }
    for (unsigned i = 0; i < n; i++)
        for (unsigned half = 0; half < 2; half++) {
            float *to = sum[first + i] + half * HALO_LANES;
            halo_vfloat scale = v_fmul(v_fload(w->scale + half * HALO_LANES), v_fset(acts->d[first + i]));
            v_fstore(to, v_fma(v_float(part[i][half]), scale, v_fload(to)));
        }
}

/* All rows of a pass, in tiles as even as can be. */
static void wide_add(const struct halo_wide_weights *w, const struct halo_wide_acts *acts, uint32_t n,
                     float (*sum)[HALO_CPU_GROUP])
{
    const uint32_t n_tiles = (n + HALO_WIDE_TILE - 1) / HALO_WIDE_TILE;
    for (uint32_t t = 0, first = 0, now; t < n_tiles; t++, first += now) {
        now = n / n_tiles + (t < n % n_tiles);
        switch (now) {
        case 4: wide_tile_add(w, acts, first, 4, sum); break;
        case 5: wide_tile_add(w, acts, first, 5, sum); break;
        case HALO_WIDE_TILE: wide_tile_add(w, acts, first, HALO_WIDE_TILE, sum); break;
        default: assert(!"a tile");
        }
    }
}

/* n_groups groups from `group` on times the rows first .. first + n - 1 of a job. */
HALO_INLINE void wide_pass(const struct halo_panel_shape shape, panel_fn *unpack, const struct halo_matmul_job *job,
                           uint32_t group, uint32_t n_groups, uint32_t first, uint32_t n)
{
    const struct halo_act_block *const *act = (const struct halo_act_block *const *)job->act + first;
    const unsigned packed_bytes = shape.block_bytes * HALO_CPU_GROUP, slab_bytes = packed_bytes / shape.n_slabs;
    _Alignas(64) float sum[HALO_WIDE_GROUPS][HALO_WIDE_PASS][HALO_CPU_GROUP] = {{{0}}};
    for (uint32_t at = 0; at < job->w->n_cols / HALO_QK; at++) {
        struct halo_wide_acts acts;
        wide_acts(act, at, n, &acts);
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint8_t *block = job->w->data + (group + g) * job->w->group_bytes;
            block += (size_t)(at / shape.n_slabs) * packed_bytes;
            struct halo_wide_weights w;
            halo_prefetch(block + at % shape.n_slabs * slab_bytes + HALO_PREFETCH_BYTES, slab_bytes);
            wide_unpack(unpack, block, at % shape.n_slabs, &w);
            wide_add(&w, &acts, n, sum[g]);
        }
    }
    for (uint32_t g = 0; g < n_groups; g++)
        for (uint32_t i = 0; i < n; i++)
            halo_matmul_store(job, group + g, first + i, sum[g][i]);
}

HALO_INLINE void wide_run(const struct halo_panel_shape shape, panel_fn *unpack, const struct halo_matmul_job *job)
{
    const uint32_t n_passes = (job->n_x + HALO_WIDE_PASS - 1) / HALO_WIDE_PASS;
    for (uint32_t g = 0, n_groups; g < job->n_groups; g += n_groups) {
        n_groups = job->n_groups - g < HALO_WIDE_GROUPS ? job->n_groups - g : HALO_WIDE_GROUPS;
        for (uint32_t p = 0, first = 0, n; p < n_passes; p++, first += n) {
            n = job->n_x / n_passes + (p < job->n_x % n_passes);
            wide_pass(shape, unpack, job, job->first_group + g, n_groups, first, n);
        }
    }
}

#endif
