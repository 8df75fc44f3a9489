/* delta_rule.hip: the gated delta rule (op.h): S has a row for each element of v, a column for each of k. */
#include "recurrence.h"

struct delta_rule {
    static constexpr bool DELTA = true;
    const float *q, *k, *alpha, *beta; /* of row 0 of the batch, those of the head */
    uint32_t qkv_stride, alpha_stride, beta_stride;
    float a, dt_bias;

    HALO_DEVICE_MEMBER recurrence_row row(uint32_t r) const
    {
        const float gate = beta[(uint64_t)r * beta_stride], dt = softplus(alpha[(uint64_t)r * alpha_stride] + dt_bias);
        return {k + (uint64_t)r * qkv_stride, q + (uint64_t)r * qkv_stride, halo_exp(a * dt), halo_sigmoid(gate)};
    }
};

template <uint32_t COLS> HALO_DEVICE void run_delta_rule(const halo_delta_rule_args &a, recurrence_lds<COLS> &lds)
{
    const uint32_t h = halo_block_y(), per_k = a.n_head_v / a.n_head_k, n_k = a.n_head_k * a.dim_k;
    const uint32_t head_k = a.grouped ? h / per_k : h % a.n_head_k, gate = h / per_k * a.gate_stride + h % per_k;
    const uint32_t qkv_stride = 2 * n_k + a.n_head_v * a.dim_v, gates = a.n_head_k * a.gate_stride;
    const state_rows rows = state_rows_of(a.state, halo_block_z());
    const float *q = a.qkv + head_k * a.dim_k;
    const delta_rule rule = {
        q,      q + n_k,     a.alpha + gate + a.alpha_first, a.beta + gate + a.beta_first, qkv_stride, gates, gates,
        a.a[h], a.dt_bias[h]};
    const recurrence_head head = {rows.state + (uint64_t)h * a.dim_v * a.dim_k,
                                  a.qkv + 2 * n_k + h * a.dim_v,
                                  a.out + h * a.dim_v,
                                  a.dim_v,
                                  a.dim_k,
                                  qkv_stride,
                                  a.n_head_v * a.dim_v,
                                  0,
                                  a.eps,
                                  a.scale};
    recurrence(rule, rows, head, lds);
}

#define HALO_DELTA_RULE_KERNEL(cols)                                                                                   \
    HALO_KERNEL(delta_rule_d##cols, halo_delta_rule_args, 128)                                                         \
    {                                                                                                                  \
        HALO_LDS(recurrence_lds<cols>, lds);                                                                           \
        run_delta_rule<cols>(a, lds);                                                                                  \
    }
HALO_DELTA_RULE_KERNEL(64)
HALO_DELTA_RULE_KERNEL(128)
HALO_DELTA_RULE_KERNEL(256)
HALO_DELTA_RULE_KERNEL(512)
