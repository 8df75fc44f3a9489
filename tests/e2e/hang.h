/* hang.h: what test_hang.c asks of the engine in engine_hang.c, in memory that both map. */
#ifndef HALO_TESTS_HANG_H
#define HALO_TESTS_HANG_H

#include <stdatomic.h>

#define HANG_VARIABLE "HALO_TEST_HANG" /* the environment variable with the path of the shared file */

/* Where the next thread to get there hangs. */
enum hang {
    HANG_NOWHERE,
    HANG_PORT,     /* about to write a heartbeat */
    HANG_TEXT,     /* preparing a text */
    HANG_IO,       /* about to read a file or folder */
    HANG_PREFETCH, /* about to read weights */
    HANG_MODEL,    /* the device makes a model */
    HANG_FIRST,    /* the device runs the first step of a model, */
    HANG_PREFILL,  /* a later one with several rows of a sequence, */
    HANG_DECODE,   /* one with one row of each sequence */
    HANG_STEP,     /* the device thread, after a step of the device */
};

struct hang_control {
    _Atomic int where; /* enum hang; the thread that hangs there sets it to HANG_NOWHERE, so no later engine hangs */
    _Atomic int commit_ms; /* added to each part of a step, so that a reply outlasts a deadline */
};

#endif
