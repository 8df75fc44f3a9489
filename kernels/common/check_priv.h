/* check_priv.h: what the checks of ops are made of, and the checks by op.
 *
 * Each returns 0, or -ENOTSUP with the reason written. Pure; any thread.
 */
#ifndef HALO_KERNELS_CHECK_PRIV_H
#define HALO_KERNELS_CHECK_PRIV_H

#include <common/check.h>

struct halo_check {
    const struct halo_plan *plan;
    const struct halo_plan_limits *limits;
    const char *op;
    char *reason;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int error_ = (call);                                                                                           \
        if (error_)                                                                                                    \
            return error_;                                                                                             \
    } while (0)

/* check_parts.c */
int halo_check_refuse(const struct halo_check *c, const char *what, uint32_t have, uint32_t want);
/* `what` is the same value as one of `others`. -ENOTSUP. */
int halo_check_refuse_same(const struct halo_check *c, const char *what, uint16_t value, const char *others);
/* Something is named by an index that the plan does not have. */
int halo_check_refuse_index(const struct halo_check *c, const char *what, uint32_t index, uint32_t n);
/* A value of at least one row that is `width` wide (0: any). */
int halo_check_value(const struct halo_check *c, const char *what, uint16_t value, uint32_t width);
uint32_t halo_check_width_of(const struct halo_check *c, uint16_t value); /* 0: there is no such value */
int halo_check_weight(const struct halo_check *c, uint32_t weight, enum halo_weight_role role, uint32_t n_cols);
/* A matrix of a MATMUL, which may be that of a streamed layer. */
int halo_check_factor(const struct halo_check *c, uint32_t weight, uint32_t n_cols);
/* A vector of n, or none. */
int halo_check_vector(const struct halo_check *c, uint32_t weight, uint32_t n);
/* A number that is positive, or 0 for none. */
int halo_check_positive(const struct halo_check *c, const char *what, float number);

/* plan_check_rows.c: ops that read and write values alone. */
int halo_check_embed(const struct halo_check *c, const struct halo_op_embed *u);
int halo_check_rmsnorm(const struct halo_check *c, const struct halo_op_rmsnorm *u);
int halo_check_matmul(const struct halo_check *c, const struct halo_op_matmul *u);
int halo_check_qk_norm(const struct halo_check *c, const struct halo_op_qk_norm *u);
int halo_check_rope(const struct halo_check *c, const struct halo_op_rope *u);
int halo_check_glu(const struct halo_check *c, const struct halo_op_glu *u);
int halo_check_add(const struct halo_check *c, const struct halo_op_add *u);
int halo_check_concat(const struct halo_check *c, const struct halo_op_concat *u);
int halo_check_streams_mix(const struct halo_check *c, const struct halo_op_streams_mix *u);
int halo_check_streams_add(const struct halo_check *c, const struct halo_op_streams_add *u);
int halo_check_logits(const struct halo_check *c, const struct halo_op_logits *u);

/* plan_check_cache.c: ops that read and write positions, blocks or states of the cache. */
int halo_check_kv_write(const struct halo_check *c, const struct halo_op_kv_write *u);
int halo_check_attend(const struct halo_check *c, const struct halo_op_attend *u);
int halo_check_conv1d(const struct halo_check *c, const struct halo_op_conv1d *u);
int halo_check_delta_rule(const struct halo_check *c, const struct halo_op_delta_rule *u);
int halo_check_ssm_scan(const struct halo_check *c, const struct halo_op_ssm_scan *u);
int halo_check_compress(const struct halo_check *c, const struct halo_op_compress *u);
int halo_check_blocks_choose(const struct halo_check *c, const struct halo_op_blocks_choose *u);
int halo_check_attend_blocks(const struct halo_check *c, const struct halo_op_attend_blocks *u);

/* plan_check_moe.c */
int halo_check_moe_route(const struct halo_check *c, const struct halo_op_moe_route *u);
int halo_check_moe_matmul(const struct halo_check *c, const struct halo_op_moe_matmul *u);
int halo_check_moe_sum(const struct halo_check *c, const struct halo_op_moe_sum *u);

#endif
