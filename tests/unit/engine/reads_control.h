/* reads_control.h: what goes wrong with the reads of streamed weights. The linker puts reads_control.c in front of them
 * (--wrap); the control lies in memory that an engine in a child process and its parent share. */
#ifndef HALO_TESTS_READS_CONTROL_H
#define HALO_TESTS_READS_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern struct reads_control {
    _Atomic int fail_after;   /* completions until one fails with EIO, 1: the next one; 0: none does */
    _Atomic int forget_after; /* reads until one is forgotten: its bytes do not arrive; 0: none is */
    atomic_bool stays_broken; /* all that follow fail too */
    atomic_bool is_bad_block; /* the read that fails does so as often as it is tried, others do not */
    _Atomic uint64_t bad_end; /* where that one ends in its file; 0: none */
    atomic_bool is_stalled;   /* nothing completes */
    _Atomic uint64_t late_ns; /* that the clock is ahead */
    _Atomic uint32_t n_waits; /* for something that is stalled */
    _Atomic uint32_t n_reads;
    atomic_bool is_guessing;     /* always, whether it pays or not */
    atomic_bool gives_up;        /* no read on a guess begins, and one that is given up ends as late as it can */
    _Atomic uint32_t n_given_up; /* reads, of which somebody had to wait for the end */
} * control;

#endif
