/* log.h: what the kernel's log says of the GPU: known signatures, and what each means. Pure; any thread. */
#ifndef HALO_DOCTOR_LOG_H
#define HALO_DOCTOR_LOG_H

#include "report.h"

struct halo_doctor_signature {
    const char *needles[2]; /* both in one line; the second may be NULL */
    enum halo_doctor_verdict verdict;
    unsigned stages;
    const char *advice, *source;
};

/* The most severe first. */
extern const struct halo_doctor_signature halo_doctor_signatures[];
#define HALO_DOCTOR_N_SIGNATURES 14

struct halo_doctor_log_hit {
    unsigned n;     /* matching lines */
    char last[160]; /* the last of them, as it is: bytes of any kind, NUL-terminated */
};

/* Counts each signature in `n` bytes of log, which may hold anything. A line counts for the first that matches. */
void halo_doctor_log_scan(const char *text, size_t n, struct halo_doctor_log_hit hits[HALO_DOCTOR_N_SIGNATURES]);

#endif
