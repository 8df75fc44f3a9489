/* driver.h: NVIDIA's driver, opened at run time, and the primary contexts of its cards.
 *
 * The library is opened once and stays; a card's context is retained when a thread first uses the card, and kept until
 * the process ends. Any thread. As in HIP each thread has a card of its own, the first one until it chooses another;
 * memory, streams, events, modules and graphs belong to the card of the thread that makes them. The driver keeps a
 * current context for each thread, so every call of the provider begins with driver_enter(). Errors are the driver's
 * own numbers, which HIP shares where the device names them.
 */
#ifndef HALO_TESTS_HIP_CUDA_DRIVER_H
#define HALO_TESTS_HIP_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
};
enum {
    CUDA_ATTRIBUTE_WARP_SIZE = 10,
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
};

/* One attribute of a launch, and a launch, as the driver lays them out. */
enum { CUDA_LAUNCH_OVERLAP = 6 }; /* programmatic stream serialization: may begin before the launch before has ended */
struct cuda_attribute {
    int id;
    char gap[4];
    union {
        int on;
        char bytes[64];
    } value;
};
struct cuda_launch {
    unsigned int grid[3], block[3], shared_bytes;
    void *stream;
    const struct cuda_attribute *attributes;
    unsigned int n_attributes;
};

struct driver {
#define HALO_CU_FN(name, symbol, arguments) int(*name) arguments;
#include "driver.def"
#undef HALO_CU_FN
};

/* The opened driver; NULL when there is none, after one sentence on stderr that gives the reason. */
const struct driver *driver_open(void);

/* Chooses this thread's card and makes its context current. After an error the thread has the card that it had. */
int driver_choose(int ordinal);

/* Makes the context of this thread's card current: 0, CUDA_NO_DEVICE without a driver, or the driver's error. */
int driver_enter(void);

#endif
