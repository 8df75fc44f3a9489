/* kv_worth.c: see kv_worth.h. */
#include <engine/kv_worth.h>

#include <kernels/plan.h>

uint32_t halo_kv_next_place(const struct halo_kv_places *places, uint32_t n_filled)
{
    uint32_t next =
        n_filled < HALO_KV_NOWHERE - HALO_KV_GRID ? (n_filled / HALO_KV_GRID + 1) * HALO_KV_GRID : HALO_KV_NOWHERE;
    if (places->parted > n_filled && places->parted < next)
        next = places->parted;
    if (places->stable > n_filled && places->stable < next)
        next = places->stable;
    return next;
}

bool halo_kv_is_place(const struct halo_kv_places *places, uint32_t n_filled, bool resumed,
                      enum halo_kv_worth *ret_worth)
{
    *ret_worth = HALO_KV_PASSED;
    if (n_filled == 0)
        return false;
    if (n_filled == places->stable)
        *ret_worth = resumed ? HALO_KV_RESUMED : HALO_KV_LAST;
    return n_filled == places->stable || n_filled == places->parted || n_filled % HALO_KV_GRID == 0;
}

enum halo_kv_worth halo_kv_window_worth(const struct halo_kv_places *places, uint32_t window, uint32_t page,
                                        bool resumed)
{
    uint32_t stable = places->stable;
    if (stable == HALO_KV_NOWHERE || page > stable / HALO_KV_PAGE_TOKENS ||
        page < halo_kv_first_page(window, stable / HALO_KV_PAGE_TOKENS * HALO_KV_PAGE_TOKENS))
        return HALO_KV_PASSED;
    return resumed ? HALO_KV_RESUMED : HALO_KV_LAST;
}
