/* rotate.c: the rotation of rows that are kept in 4 bits. Pure; any thread. */
#include <math.h>

#include "device_priv.h"

void halo_cpu_rotate(uint32_t dim, float *x)
{
    const uint32_t block = dim & -dim; /* the largest power of two that divides it */
    const float scale = 1 / sqrtf((float)block);
    for (uint32_t first = 0; first < dim; first += block) {
        float *y = x + first;
        for (uint32_t half = 1; half < block; half *= 2)
            for (uint32_t i = 0; i < block; i += 2 * half)
                for (uint32_t j = i; j < i + half; j++) {
                    float a = y[j], b = y[j + half];
                    y[j] = a + b;
                    y[j + half] = a - b;
                }
        for (uint32_t i = 0; i < block; i++)
            y[i] *= scale;
    }
}
