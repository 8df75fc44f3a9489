/* lanes_table.c: the functions of one variant as a table. Compiled once for each variant (lanes_priv.h). */
#include "lanes_priv.h"

const struct halo_cpu_lanes HALO_CPU_LANES = {
#if defined(HALO_CPU_LANES_AVX512)
    .name = "avx512",
#elif defined(HALO_CPU_LANES_AVX2)
    .name = "avx2",
#else
    .name = "reference",
#endif
    .rmsnorm = LANES(rmsnorm),
    .layernorm = LANES(layernorm),
    .add = LANES(add),
    .axpy = LANES(axpy),
    .glu = LANES(glu),
    .limit = LANES(limit),
    .exp = LANES(exp),
    .kv_store = LANES(kv_store),
    .kv_load = LANES(kv_load),
    .attend = LANES(attend),
    .merge = LANES(merge),
    .conv1d = LANES(conv1d),
    .delta_rule = LANES(delta_rule),
    .ssm_scan = LANES(ssm_scan),
    .divide = LANES(divide),
    .read = LANES(read),
};
