/* cause.c: cause.def as a table. Pure. */
#include <string.h>

#include "tier_priv.h"

enum { HANG = HALO_DOCTOR_HANG, ERROR = HALO_DOCTOR_ERROR, WRONG = HALO_DOCTOR_WRONG, CRASH = HALO_DOCTOR_CRASH };
#define ON(tier) (1u << (tier))
#define ANY 0xffu

static const struct halo_doctor_cause causes[] = {
#define CAUSE(tiers, failures, within, says, source) {tiers, failures, within, says, source},
#include "cause.def"
#undef CAUSE
};

size_t halo_doctor_cause_count(void)
{
    return sizeof(causes) / sizeof(causes[0]);
}
const struct halo_doctor_cause *halo_doctor_cause_at(size_t index)
{
    return &causes[index];
}

const struct halo_doctor_cause *halo_doctor_cause_find(unsigned tier, enum halo_doctor_failure failure,
                                                       const char *phase, const char *what)
{
    size_t i = 0, last = halo_doctor_cause_count() - 1; /* which fits all */
    for (; i < last; i++) {
        const struct halo_doctor_cause *c = &causes[i];
        if ((c->tiers & 1u << tier) && (c->failures & failure) &&
            (!c->within || strstr(phase, c->within) || strstr(what, c->within)))
            break;
    }
    return &causes[i];
}
