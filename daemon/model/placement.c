/* placement.c: a placement: the defaults of what was asked for, the division of the budget, the reasons. */
#include "placement_priv.h"

/* The options with every default filled in, and the bytes that no placement can do without. */
static struct halo_placement_options resolve(const struct halo_plan *plan, uint32_t context,
                                             const struct halo_placement_options *options)
{
    struct halo_placement_options o = *options;
    if (o.kv_bytes == 0) {
        struct halo_plan one = *plan;
        one.n_context = context;
        halo_plan_set_pages(&one, (context + HALO_KV_PAGE_TOKENS - 1) / HALO_KV_PAGE_TOKENS);
        for (uint32_t group = 0; group < one.n_kv_groups; group++)
            o.kv_bytes += halo_kv_page_bytes(&one.kv[group]) * one.kv[group].n_pages;
    }
    o.miss_traffic = o.miss_traffic > 0 ? o.miss_traffic : 1;
    return o;
}

int halo_placement_make(const struct halo_plan *plan, const struct halo_profile *profile, uint64_t budget_bytes,
                        uint32_t context, const struct halo_placement_options *options, struct halo_placement *ret,
                        struct halo_fault *fault)
{
    static const struct halo_profile unknown;
    struct halo_parts parts;
    context = context > 0 ? context : plan->n_context;
    const struct halo_placement_options o = resolve(plan, context, options);
    profile = profile ? profile : &unknown;
    halo_parts_of(plan, HALO_TYPE_END, &parts);
    int r = halo_placement_place(plan, &parts, profile, budget_bytes, context, &o, ret, fault);
    if (r == 0)
        halo_placement_explain(plan, &parts, profile, context, &o, ret);
    return r;
}
