/* options.h: the command line of halo-doctor. */
#ifndef HALO_DOCTOR_OPTIONS_H
#define HALO_DOCTOR_OPTIONS_H

#include "report.h"

#define HALO_DOCTOR_LAST_TIER 7
#define HALO_DOCTOR_CHECK_MS 2000 /* for all checks together, unless asked otherwise */

struct halo_doctor_options {
    const char *sysroot; /* before every path that is read; "": this machine. No slash at the end */
    const char *hip_lib; /* the HIP runtime; NULL: looked for */
    const char *engine;  /* halod-engine for tier 7; NULL: beside this program */
    const char *model;   /* the model of tier 7; NULL: looked for */
    enum halo_doctor_form form;
    bool checks_only; /* no tiers */
    bool quick;       /* checks and tier 0: the GPU is not touched */
    int wait_ms;      /* for all checks together */
    int tier_ms;      /* for each tier; 0: as each needs */
    int first_tier;   /* those below are not run, and not asked for */
    int last_tier;    /* the highest tier that is run: 0 to HALO_DOCTOR_LAST_TIER */
};

enum { HALO_DOCTOR_OPTIONS_RUN, HALO_DOCTOR_OPTIONS_DONE, HALO_DOCTOR_OPTIONS_WRONG };

/* Reads the options. RUN: `ret` is filled, from strings that argv keeps. DONE: help or version was printed. WRONG: a
 * message was. */
int halo_doctor_options_read(int argc, char **argv, struct halo_doctor_options *ret);

#endif
