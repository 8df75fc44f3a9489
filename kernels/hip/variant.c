/* variant.c: gfx/variants.def as a table. Immutable; any thread. */
#include <stddef.h>

#include "gfx/layout.h"
#include "variant_priv.h"

const struct halo_hip_variant halo_hip_variants[] = {
#define HALO_VARIANT(op, type, min_rows, max_rows, kernel, block, lds_bytes, shows)                                    \
    {HALO_HIP_##op, HALO_HIP_TYPE_##type, min_rows, max_rows, #kernel, "first launch of " #kernel, block, lds_bytes},
#include "gfx/variants.def"
#undef HALO_VARIANT
};
const uint32_t halo_hip_n_variants = sizeof(halo_hip_variants) / sizeof(halo_hip_variants[0]);
_Static_assert(sizeof(halo_hip_variants) / sizeof(halo_hip_variants[0]) <= HALO_HIP_VARIANTS_MAX, "raise the limit");

const struct halo_hip_row_class halo_hip_row_classes[HALO_HIP_ROW_CLASSES] = {
    {1, 1}, {2, 2}, {3, 4}, {5, 8}, {9, 32}, {33, 64}, {65, 128}, {129, UINT32_MAX}};

const struct halo_hip_variant *halo_hip_variant_find(uint32_t op, uint32_t type, uint32_t n_rows)
{
    type = halo_hip_form(type);
    for (uint32_t i = 0; i < halo_hip_n_variants; i++) {
        const struct halo_hip_variant *v = &halo_hip_variants[i];
        if (v->op == op && v->type == type && v->min_rows <= n_rows && (v->max_rows == 0 || n_rows <= v->max_rows))
            return v;
    }
    return NULL;
}
