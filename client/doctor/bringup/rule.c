/* rule.c: rule.def as a table, and its reading. Pure. */
#include "bringup_priv.h"

enum {
    OK = HALO_BRINGUP_OK,
    HANG = HALO_BRINGUP_HANG | HALO_BRINGUP_STUCK,
    ERROR = HALO_BRINGUP_ERROR,
    WRONG = HALO_BRINGUP_WRONG,
    STUCK = HALO_BRINGUP_STUCK,
    SKIP = HALO_BRINGUP_SKIP,
    BAD = HANG | ERROR | WRONG | HALO_BRINGUP_CRASH,
};
enum {
#define X(id, name, set1, set2) id = 1 << HALO_BRINGUP_##id,
    HALO_BRINGUP_VARIANTS(X)
#undef X
        ALL_VARIANTS = (1 << HALO_BRINGUP_N_VARIANTS) - 1
};
enum {
#define X(id, name, title) id = 1 << HALO_BRINGUP_STAGE_##id,
    HALO_BRINGUP_STAGES(X)
#undef X
        ALL_STAGES = (1 << HALO_BRINGUP_N_STAGES) - 1,
    UPLOADS = PAGEABLE | PINNED | ZERO_COPY,
    GRAPHS = GRAPH | DECODE,
    NEEDED = ALL_STAGES & ~PAGEABLE, /* what halod does */
};

#define EVERY(variants, stages, outcomes)                                                                              \
    {                                                                                                                  \
        true, variants, stages, outcomes                                                                               \
    }
#define SOME(variants, stages, outcomes)                                                                               \
    {                                                                                                                  \
        false, variants, stages, outcomes                                                                              \
    }
#define LIST(...)                                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static const struct halo_bringup_rule rules[] = {
#define RULE(id, conditions, works, says, conf, environment, source)                                                   \
    {#id, LIST conditions, works, says, conf, environment, source},
#include "rule.def"
#undef RULE
};

size_t halo_bringup_rule_count(void)
{
    return sizeof(rules) / sizeof(rules[0]);
}
const struct halo_bringup_rule *halo_bringup_rule_at(size_t index)
{
    return &rules[index];
}

static bool holds(const struct halo_bringup_matrix *matrix, const struct halo_bringup_condition *condition)
{
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
            if (!(condition->variants & 1u << v) || !(condition->stages & 1u << s))
                continue;
            bool fits = (matrix->cell[v][s].outcome & condition->outcomes) != 0;
            if (fits != condition->every)
                return fits;
        }
    return condition->every;
}

const struct halo_bringup_rule *halo_bringup_decide(const struct halo_bringup_matrix *matrix)
{
    size_t i = 0, last = halo_bringup_rule_count() - 1; /* which has no conditions */
    for (; i < last; i++) {
        bool all = true;
        for (size_t k = 0; k < sizeof(rules[i].when) / sizeof(rules[i].when[0]); k++)
            all = all && (rules[i].when[k].variants == 0 || holds(matrix, &rules[i].when[k]));
        if (all)
            break;
    }
    return &rules[i];
}
