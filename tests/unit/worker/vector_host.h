/* vector_host.h: the argument of the kernels in vector_host.c. */
#ifndef HALO_TESTS_WORKER_VECTOR_HOST_H
#define HALO_TESTS_WORKER_VECTOR_HOST_H

#include <stdint.h>

struct vector_scale {
    float *out;
    const float *in;
    uint32_t n;
    float factor;
};

#endif
