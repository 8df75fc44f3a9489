/* moe_fused.hip: a router with the RMS norm in front of it. */
#include "norm.h"
#include "route.h"

constexpr uint32_t ROUTER_PARTS = HALO_ROUTER_NORM_COLS / 1024; /* each four elements to a thread of 256 */
struct router_norm_lds {
    alignas(16) float y[HALO_ROUTER_NORM_COLS];
    float part[8];
    router_lds router;
};

/* The norm of the row, which each block makes for itself; the thread's elements of x stay in registers. */
struct router_norm_row {
    const halo_rmsnorm_args &a;
    router_norm_lds &lds;
    halo_f4 x[ROUTER_PARTS], w[ROUTER_PARTS];
    HALO_DEVICE_MEMBER void load_weight()
    {
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++)
            w[k] = halo_load4_or_ones(a.weight, halo_tid() * 4 + k * 1024, a.n_cols);
    }
    HALO_DEVICE_MEMBER const float *ready()
    {
        const uint64_t row = (uint64_t)halo_block_y() * a.n_cols;
        halo_f4 add[ROUTER_PARTS];
        float squares = 0;
        halo_inputs_ready();
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++) {
            x[k] = halo_load4(a.x + row, halo_tid() * 4 + k * 1024, a.n_cols);
            if (a.add)
                add[k] = halo_load4(a.add + row, halo_tid() * 4 + k * 1024, a.n_cols);
        }
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++) {
            if (a.add)
                norm_join(a, add[k], &x[k]);
            squares = norm_squares(x[k], squares);
        }
        const float scale = halo_rsqrt(halo_block_sum(squares, lds.part) / (float)a.n_cols + a.eps);
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++) {
            for (int j = 0; j < 4; j++)
                w[k].e[j] = x[k].e[j] * scale * w[k].e[j];
            halo_store4(lds.y, halo_tid() * 4 + k * 1024, a.n_cols, w[k]);
        }
        halo_barrier();
        return lds.y;
    }
};

/* One block more than the router has: it leaves the norm, and the last of all what the norm is of. */
template <bool SCORED> HALO_DEVICE void router_norm(const halo_moe_router_norm_args &a, router_norm_lds &lds)
{
    const uint32_t n = a.norm.n_cols, row = halo_block_y();
    const uint32_t n_router = HALO_HIP_CEIL(a.router.matrix[0].n_rows + a.router.matrix[1].n_rows, HALO_ROUTER_ROWS);
    router_norm_row norm = {a.norm, lds, {}, {}};
    norm.load_weight();
    if (halo_block_x() < n_router) {
        router_row_logit(a.router, norm);
    } else {
        norm.ready();
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++) {
            const uint32_t i = halo_tid() * 4 + k * 1024;
            halo_store4(a.norm.out + (uint64_t)row * n, i, n, norm.w[k]);
            if (a.norm.act)
                halo_quantize4(norm.w[k], i, n, static_cast<uint8_t *>(a.norm.act) + row * halo_hip_act_bytes(n));
        }
    }
    if (!router_ends(a.router, n_router + 1, lds.router))
        return;
    if (a.norm.add) {
#pragma unroll
        for (uint32_t k = 0; k < ROUTER_PARTS; k++)
            halo_store4(a.norm.x + (uint64_t)row * n, halo_tid() * 4 + k * 1024, n, norm.x[k]);
    }
    router_route<SCORED>(a.router);
}

HALO_KERNEL_EARLY(moe_router_norm, halo_moe_router_norm_args, 256)
{
    HALO_LDS(router_norm_lds, lds);
    router_norm<false>(a, lds);
}

HALO_KERNEL_EARLY(moe_router_norm_scored, halo_moe_router_norm_args, 256)
{
    HALO_LDS(router_norm_lds, lds);
    router_norm<true>(a, lds);
}
