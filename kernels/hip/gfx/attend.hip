/* attend.hip: decode attention, split along the context.
 *
 * A block takes one split of one row for up to G q heads of one kv head, so that K and V are read once for the group.
 * It goes through the pages of its split with an online softmax, all waves at the same page: first a lane is a position
 * and a wave has every fourth chunk of its K row (contiguous across the lanes by the layout of K), whose products with
 * q of each head are summed in LDS; then a wave makes the probabilities of every fourth head; then a lane is a few
 * elements of the output and a wave has a quarter of the positions. So a short context, which has few pages, waits for
 * memory once: what a wave needs of a page is loaded together, while the page before is used, that of the first page
 * before q is there: earlier steps have ended, also where launches overlap (HALO_KERNEL_EARLY). Where q, k and v come
 * straight from their product, norm, rotation and the new entry of the cache are made here too: q by every block for
 * its heads, k and v by the one that has the newest page. The last block of a row's splits to finish merges
 * them (attend_merge.h). Scores are in units of log2, so that exp2 does. D is the largest head dimension of the kernel;
 * q and sums beyond the real one are zero.
 */
#include "attend_heads.h"
#include "attend_merge.h"
#include "attend_pairs.h"

/* The wave's part of the scores. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void scores(uint32_t dim, const attend_part<TYPE, D> &part, attend_lds<G, D> &lds)
{
    if constexpr (takes_pairs<TYPE>) {
        pairs_scores<TYPE, G, D>(dim, part, lds);
        return;
    }
    constexpr uint32_t CHUNK = kv_chunk<TYPE>;
    float s[G];
    for (int g = 0; g < G; g++)
        s[g] = 0;
    for (uint32_t j = 0; j < part.CHUNKS; j++) {
        const uint32_t first = (halo_wave() + WAVES * j) * CHUNK;
        float sum[G];
        for (int g = 0; g < G; g++)
            sum[g] = 0;
        for (uint32_t i = 0; i < CHUNK; i += 4)
            for (int g = 0; g < G; g++) {
                const halo_f4 q = halo_load<halo_f4>(&lds.q[g][first + i]);
                for (uint32_t e = 0; e < 4; e++)
                    sum[g] = halo_fma(kv_element<TYPE>(part.k[j], i + e), q.e[e], sum[g]);
            }
        const float scale = kv_scaled<TYPE> ? halo_half_float(part.scale[j]) : 1;
        for (int g = 0; g < G; g++)
            s[g] = halo_fma(sum[g], scale, s[g]);
    }
    for (int g = 0; g < G; g++)
        lds.score[halo_wave()][g][halo_lane()] = s[g];
}

/* The wave's heads: every fourth. */
template <int G> struct attend_sums {
    static constexpr uint32_t N = (G + WAVES - 1) / WAVES;
    float max[N], sum[N];
};

/* Of the positions hidden .. n - 1 of a page. `cap` in units of log2. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void probabilities(attend_lds<G, D> &lds, uint32_t hidden, uint32_t n, float cap, attend_sums<G> *sums)
{
    const uint32_t lane = halo_lane();
    const bool seen = lane >= hidden && lane < n;
    for (uint32_t i = 0; i < sums->N; i++) {
        const uint32_t g = halo_wave() + WAVES * i;
        if (g >= G)
            break;
        float s = 0;
        for (uint32_t w = 0; w < WAVES; w++)
            s += lds.score[w][g][lane];
        if (cap > 0)
            s = halo_capped(s, cap);
        s = seen ? s : NOTHING;
        const float max = halo_max(sums->max[i], halo_wave_max(s)), shrink = halo_exp2(sums->max[i] - max);
        const float p = seen ? halo_exp2(s - max) : 0;
        if constexpr (takes_pairs<TYPE>)
            pairs_leave_p(lds, g, p);
        else
            lds.p[lane][g] = p;
        sums->sum[i] = halo_fma(sums->sum[i], shrink, halo_wave_sum(p));
        sums->max[i] = max;
        if (lane == 0) {
            lds.shrink[g] = shrink;
            lds.max[g] = max;
            lds.sum[g] = sums->sum[i];
        }
    }
}

/* Of the page whose first rows are in `part`. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void weigh(const halo_attend_args &a, const attend_job &job, uint8_t *page, uint32_t n,
                       attend_part<TYPE, D> &part, const attend_lds<G, D> &lds, float (&out)[G][D / 32])
{
    constexpr uint32_t ROWS = attend_part<TYPE, D>::ROWS;
    for (int g = 0; g < G; g++)
        for (int i = 0; i < D / 32; i++)
            out[g][i] *= lds.shrink[g];
#pragma unroll 1
    for (uint32_t first = 0; first < V_ROWS; first += ROWS) {
        if (first > 0)
            load_v<TYPE, D>(a, job, page, n, &part, first);
        if constexpr (takes_pairs<TYPE>) {
            pairs_weigh<TYPE, G, D>(first, part, lds, out);
            continue;
        }
        for (uint32_t j = 0; j < ROWS; j++)
            for (int i = 0; i < D / 32; i++) {
                const float v = part.v[j].get(i);
                for (int g = 0; g < G; g++)
                    out[g][i] = halo_fma(lds.p[halo_wave() * V_ROWS + first + j][g], v, out[g][i]);
            }
    }
}

/* The waves' outputs into two sums: lds.out[0] and [1] remain to be added. */
template <int G, int D> HALO_DEVICE void join(attend_lds<G, D> &lds, float out[G][D / 32])
{
    const uint32_t wave = halo_wave(), first = halo_lane() * (D / 32);
    halo_barrier(); /* the probabilities have been read */
    for (int g = 0; g < G && wave >= 2; g++)
        for (uint32_t i = 0; i < D / 32; i++)
            lds.out[wave - 2][g][first + i] = out[g][i];
    halo_barrier();
    for (int g = 0; g < G && wave < 2; g++)
        for (uint32_t i = 0; i < D / 32; i++)
            lds.out[wave][g][first + i] += out[g][i];
    halo_barrier();
}

/* The split's pages; of the first one `part` has everything. Page numbers are read two pages ahead. */
template <uint32_t TYPE, int G, int D>
HALO_DEVICE void attend_pages(const halo_attend_args &a, const attend_job &job, uint8_t *page,
                              attend_part<TYPE, D> &part, attend_lds<G, D> &lds)
{
    float out[G][D / 32] = {};
    attend_sums<G> sums;
    for (uint32_t i = 0; i < sums.N; i++) {
        sums.max[i] = NOTHING;
        sums.sum[i] = 0;
    }
    uint32_t number = job.pages[halo_min_of(job.begin + 1, job.end - 1)];
#pragma unroll 1
    for (uint32_t i = job.begin; i < job.end; i++) {
        const bool more = i + 1 < job.end;
        const uint32_t n = positions_of(job, i), n_next = more ? positions_of(job, i + 1) : 0;
        uint8_t *next = a.kv.base + number * a.kv.page_bytes;
        scores<TYPE, G, D>(a.kv.head_dim_k, part, lds);
        if (more)
            load_k<TYPE, D>(a, job, next, n_next, &part);
        number = job.pages[halo_min_of(i + 2, job.end - 1)];
        halo_barrier();
        probabilities<TYPE, G, D>(lds, hidden_of(job, i), n, a.score.cap * LOG2_E, &sums);
        halo_barrier();
        weigh<TYPE, G, D>(a, job, page, n, part, lds, out);
        if (more)
            load_v<TYPE, D>(a, job, next, n_next, &part);
        page = next;
    }
    join<G, D>(lds, out);
}

template <uint32_t TYPE, int G, int D> HALO_DEVICE void attend(const halo_attend_args &a, attend_lds<G, D> &lds)
{
    const attend_job job = job_of(a, G);
    const bool some = job.begin < job.end, newest = takes_product<D>(a) && some && job.end == job.n_pages;
    attend_tables<D> tables;
    tables.load(a, job.row);
    attend_part<TYPE, D> part;
    uint8_t *page = a.kv.base + (some ? job.pages[job.begin] * a.kv.page_bytes : 0);
    /* Before the inputs are ready, the row's own position is not in the cache; without k and v here, others may be
     * missing too. */
    const uint32_t n = some ? positions_of(job, job.begin) : 0;
    const uint32_t n_early = !takes_product<D>(a) ? 0 : job.begin + 1 == job.n_pages ? n - 1 : n;
    if (n_early > 0) {
        load_k<TYPE, D>(a, job, page, n_early, &part);
        load_v<TYPE, D>(a, job, page, n_early, &part);
    }
    halo_inputs_ready();
    if (!some)
        return;
    bring_heads<TYPE, G, D, WAVES>(a, job, tables, newest, lds);
    if constexpr (takes_pairs<TYPE>)
        pairs_halve_q<TYPE, G, D>(lds);
    halo_barrier();
    if (n_early < n) {
        load_k<TYPE, D>(a, job, page, n, &part);
        load_v<TYPE, D>(a, job, page, n, &part);
    }
    attend_pages<TYPE, G, D>(a, job, page, part, lds);
    leave_split<TYPE, G, D>(a, job, lds);
    if (job.n_splits > 1 && a.split_step == 0 &&
        halo_last_block(a.counter + job.row * a.kv.n_head_kv * a.n_parts + halo_block_y(), job.n_splits, &lds.last))
        merge<TYPE, G, D>(a, job, lds);
}

#define HALO_ATTEND_LDS(g, d) typedef attend_lds<g, d> attend_lds_g##g##_d##d;
HALO_ATTEND_LDS(1, 128)
HALO_ATTEND_LDS(4, 128)
HALO_ATTEND_LDS(8, 128)
HALO_ATTEND_LDS(1, 256)
HALO_ATTEND_LDS(4, 256)
HALO_ATTEND_LDS(8, 256)
HALO_ATTEND_LDS(1, 512)
HALO_ATTEND_LDS(4, 512)

/* Resident blocks per SM: with four, all splits of a long context run at once (op_attend.c). */
template <int G, int D> constexpr int attend_resident = G <= 4 && D <= 128 ? 4 : 2;

#define HALO_ATTEND_KERNEL(TYPE, type, g, d)                                                                           \
    HALO_KERNEL_RESIDENT(attend_##type##_g##g##_d##d, halo_attend_args, 128, (attend_resident<g, d>))                  \
    {                                                                                                                  \
        HALO_LDS(attend_lds_g##g##_d##d, lds);                                                                         \
        attend<HALO_KV_##TYPE, g, d>(a, lds);                                                                          \
    }
#define HALO_ATTEND_KERNELS(TYPE, type)                                                                                \
    HALO_ATTEND_KERNEL(TYPE, type, 1, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 4, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 8, 128)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 1, 256)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 4, 256)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 8, 256)
#define HALO_ATTEND_KERNELS_LARGE(TYPE, type)                                                                          \
    HALO_ATTEND_KERNEL(TYPE, type, 1, 512)                                                                             \
    HALO_ATTEND_KERNEL(TYPE, type, 4, 512)
HALO_ATTEND_KERNELS(F32, f32)
HALO_ATTEND_KERNELS(F16, f16)
HALO_ATTEND_KERNELS(Q8, q8)
HALO_ATTEND_KERNELS(Q4, q4)
HALO_ATTEND_KERNEL(F32, f32, 1, 512) /* four heads do not fit into registers beside K */
HALO_ATTEND_KERNELS_LARGE(F16, f16)
HALO_ATTEND_KERNELS_LARGE(Q8, q8)
HALO_ATTEND_KERNELS_LARGE(Q4, q4)
