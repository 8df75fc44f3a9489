/* case_priv.h: the case tables of case_table.c, sorted by first character. */
#ifndef HALO_JINJA_CASE_PRIV_H
#define HALO_JINJA_CASE_PRIV_H

#include <stddef.h>
#include <stdint.h>

struct halo_jinja_case_run {
    uint32_t first, last, step;
    int32_t delta;
};

extern const struct halo_jinja_case_run halo_jinja_lower_runs[], halo_jinja_upper_runs[];
extern const size_t halo_jinja_n_lower_runs, halo_jinja_n_upper_runs;

#endif
