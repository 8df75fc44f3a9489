/* profile.c: what a profile says, and whether it holds. Pure; any thread. */
#include <engine/profile.h>

#include <stdio.h>
#include <string.h>

#define ENOUGH 0.95 /* of the best rate: medians of one point differ by less */
#define NEAR 0.80   /* of the best rate: single measurements of one point differ by less */
#define DAY_S 86400

static uint64_t in_flight(const struct halo_profile_point *point)
{
    return (uint64_t)point->block_bytes * point->depth;
}

/* Fewer bytes in flight, or as many in smaller blocks. */
static bool is_lighter(const struct halo_profile_point *a, const struct halo_profile_point *b)
{
    return in_flight(a) < in_flight(b) || (in_flight(a) == in_flight(b) && a->block_bytes < b->block_bytes);
}

static double best_rate(const struct halo_profile_point *points, uint32_t n)
{
    double best = 0;
    for (uint32_t i = 0; i < n; i++)
        best = points[i].bytes_s > best ? points[i].bytes_s : best;
    return best;
}

uint32_t halo_profile_contenders(const struct halo_profile_point *points, uint32_t n,
                                 uint32_t ret_index[HALO_PROFILE_POINTS_MAX])
{
    double best = best_rate(points, n);
    uint32_t n_found = 0, best_at = 0;
    for (uint32_t i = 0; i < n && best > 0; i++) {
        if (points[i].bytes_s < NEAR * best)
            continue;
        uint32_t k = n_found++;
        for (; k > 0 && is_lighter(&points[i], &points[ret_index[k - 1]]); k--)
            ret_index[k] = ret_index[k - 1];
        ret_index[k] = i;
        best_at = points[i].bytes_s == best ? i : best_at;
    }
    if (n_found <= HALO_PROFILE_CONTENDERS)
        return n_found;
    bool has_best = false;
    for (uint32_t i = 0; i < HALO_PROFILE_CONTENDERS; i++)
        has_best = has_best || ret_index[i] == best_at;
    if (!has_best)
        ret_index[HALO_PROFILE_CONTENDERS - 1] = best_at;
    return HALO_PROFILE_CONTENDERS;
}

struct halo_profile_point halo_profile_median(const struct halo_profile_point rounds[HALO_PROFILE_ROUNDS])
{
    for (uint32_t i = 0; i < HALO_PROFILE_ROUNDS; i++) {
        uint32_t n_below = 0;
        for (uint32_t k = 0; k < HALO_PROFILE_ROUNDS; k++)
            n_below += rounds[k].bytes_s < rounds[i].bytes_s || (rounds[k].bytes_s == rounds[i].bytes_s && k < i);
        if (n_below == HALO_PROFILE_ROUNDS / 2)
            return rounds[i];
    }
    return rounds[0]; /* unreachable: the ranks are different */
}

const struct halo_profile_point *halo_profile_knee(const struct halo_profile_point *points, uint32_t n)
{
    const struct halo_profile_point *knee = NULL;
    double best = best_rate(points, n);
    for (uint32_t i = 0; i < n && best > 0; i++) {
        const struct halo_profile_point *point = &points[i];
        if (point->bytes_s < ENOUGH * best)
            continue;
        if (!knee || is_lighter(point, knee))
            knee = point;
    }
    return knee;
}

bool halo_profile_holds(const struct halo_profile *stored, const struct halo_profile *here, const char *model,
                        int64_t now_s, struct halo_fault *fault)
{
    const struct {
        const char *what, *was, *is;
        int shown; /* bytes of each; of a hash the first ones tell enough */
    } same[] = {
        {"file", stored->file, here->file, 8},
        {"drive", stored->drive, here->drive, 52},
        {"machine", stored->machine, here->machine, 52},
        {"device", stored->device, here->device, 52},
        {"kernel file", stored->kernels, here->kernels, 8},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
        if (strcmp(same[i].was, same[i].is) != 0) {
            halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                           "the stored profile is for another %s (%.*s, now %.*s) and is not used; measure again: "
                           "haloctl profile %.60s",
                           same[i].what, same[i].shown, same[i].was[0] ? same[i].was : "none", same[i].shown,
                           same[i].is[0] ? same[i].is : "none", model);
            return false;
        }
    int64_t days = (now_s - stored->measured_s) / DAY_S;
    if (days > HALO_PROFILE_DAYS || days < -1) {
        char age[48];
        snprintf(age, sizeof(age), days < 0 ? "from the future" : "%lld days old, more than %d,", (long long)days,
                 HALO_PROFILE_DAYS);
        halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                       "the stored profile is %s and is not used; measure again: haloctl profile %.60s", age, model);
        halo_fault_number(fault, "measured_s", (uint64_t)stored->measured_s);
        return false;
    }
    return true;
}

void halo_profile_advise(struct halo_fault *fault, const char *model)
{
    struct halo_fault why = *fault;
    halo_fault_set(fault, why.code, "%.160s; measure it: haloctl profile %.60s", why.text, model);
}

void halo_profile_name_device(struct halo_profile *here, const struct halo_device_info *info)
{
    if (info->n_threads > 0) /* as many as read memory */
        snprintf(here->device, sizeof(here->device), "%.40s, %u thread%s", info->name, info->n_threads,
                 info->n_threads == 1 ? "" : "s");
    else
        snprintf(here->device, sizeof(here->device), "%s", info->name);
    snprintf(here->kernels, sizeof(here->kernels), "%s", info->kernel_sha256);
}
