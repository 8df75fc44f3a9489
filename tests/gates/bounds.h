/* bounds.h: what a cell of the logit gate must keep: one committed table, read once. */
#ifndef HALO_GATES_BOUNDS_H
#define HALO_GATES_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>

/* One line: SET MODEL DEVICE KV PROMPTS MEAN WORST TOP1, words between white space; # begins a comment. A set is what
 * one run of the gate requires. */
struct halo_bound {
    char set[16], model[32], device[8], kv[8], prompts[64];
    double mean, worst; /* KL divergence in nats: at most */
    double top1;        /* share of positions with the recorded best token: at least */
};

struct halo_bounds {
    struct halo_bound *at;
    size_t n;
};

/* False after a message on stderr that names file and line. */
bool halo_bounds_read(struct halo_bounds *ret, const char *path);
void halo_bounds_finish(struct halo_bounds *bounds);

#endif
