/* candidate.h: one entry of a list of the largest logits, as kernels write it and samplers read it. */
#ifndef HALO_KERNELS_CANDIDATE_H
#define HALO_KERNELS_CANDIDATE_H

#include <stdint.h>

/* The longest list that a device makes. Clients ask for 20 to 100 (40 unless they say); a list this long is 1 KiB where
 * the row has 600. */
#define HALO_CANDIDATES_MAX 128

struct halo_candidate {
    float logit;
    int32_t id;
};

#endif
