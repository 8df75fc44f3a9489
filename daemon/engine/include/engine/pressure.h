/* pressure.h: what to do when the machine runs short of memory: levels, entered one after the other and left again.
 *
 *   CALM         caches of experts that gave memory back take it again, a slab at a time
 *   SHRINK       caches of experts give slabs back
 *   NO_GUESSES   ... and no expert is read on a guess
 *   NO_LOADS     ... and a load is refused, unless an idle model can go for it
 *
 * Memory is short while less than half of the budget's reserve (halo_budget_reserve) is available; it is scarce when
 * tasks stall on memory (PSI: `some` >= 10 % or `full` >= 5 % of the last 10 s, or the kernel's trigger). Either makes
 * the level rise, at once from CALM, later when the level before has had rise_ns to help. The last level is entered
 * only when memory is short, or `full` >= 20 %. A level is left after ease_ns with the whole reserve available, `some`
 * < 5 % and `full` < 2 %; between the two nothing changes. So what is loaded by the budget, which leaves the reserve
 * alone, never begins at the border of a level.
 *
 * Pure: state, sample and time give the actions; any thread, one at a time.
 */
#ifndef HALO_ENGINE_PRESSURE_H
#define HALO_ENGINE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

enum halo_pressure_level {
    HALO_PRESSURE_CALM,
    HALO_PRESSURE_SHRINK,
    HALO_PRESSURE_NO_GUESSES,
    HALO_PRESSURE_NO_LOADS,
    HALO_PRESSURE_LEVELS
};

struct halo_pressure_rules {
    uint64_t sample_ns; /* between two samples */
    uint64_t rise_ns;   /* that a level has to help, and between two slabs that stalls cost */
    uint64_t ease_ns;   /* of calm before a level is left, and before the first slab is taken again */
    uint64_t grow_ns;   /* between two slabs that are taken again */
};
extern const struct halo_pressure_rules halo_pressure_rules_default; /* 1 s, 2 s, 10 s, 5 s */

struct halo_pressure_sample {
    uint64_t now_ns;
    double some, full;                     /* percent of the last 10 s in which some or all tasks waited for memory */
    uint64_t total_bytes, available_bytes; /* total 0: not known, and so never short */
    bool is_triggered;                     /* the kernel reported stalls since the last sample */
};

struct halo_pressure {
    struct halo_pressure_rules rules;
    enum halo_pressure_level level;
    uint64_t moved_ns, calm_ns, given_ns, grown_ns; /* calm: since when, 0: it is not */
};

struct halo_pressure_actions {
    uint64_t give_bytes; /* to give back at least; 0: nothing. Whole slabs go: 1 means one */
    bool may_grow;       /* one slab may be taken again, if the reserve is still available afterwards */
    bool has_moved;      /* to another level */
};

void halo_pressure_init(struct halo_pressure *pressure, const struct halo_pressure_rules *rules);
void halo_pressure_step(struct halo_pressure *pressure, const struct halo_pressure_sample *sample,
                        struct halo_pressure_actions *ret);

/* "calm", "shrink", "no_guesses", "no_loads". */
const char *halo_pressure_level_name(enum halo_pressure_level level);

#endif
