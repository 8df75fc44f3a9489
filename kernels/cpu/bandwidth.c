/* bandwidth.c: how fast the threads of the device can read memory: the bound of decoding.
 *
 * Reads the largest weights that are there, as decoding does, or a buffer of its own, and takes the fastest pass: in a
 * virtual machine the first one also pays for memory that the host has yet to back. Device thread; takes about 100 ms
 * or five passes, plus the filling of the buffer where one is needed. 0 when there is no memory for that.
 */
#include <string.h>

#include <common/clock.h>

#include "device_priv.h"

#define BUFFER_BYTES (512ull << 20) /* larger than the caches of the machines it is meant for */
#define WEIGHTS_MIN (128ull << 20)
#define ITEM_BYTES (1ull << 20)
#define ENOUGH_NS 100000000
#define PASSES_MIN 5

struct pass {
    const struct halo_cpu_lanes *lanes;
    uint8_t *memory;
    _Atomic uint64_t sum;
};

static void read_item(void *arg, uint32_t item, uint32_t thread)
{
    struct pass *pass = arg;
    atomic_fetch_add(&pass->sum, pass->lanes->read(pass->memory + item * ITEM_BYTES, ITEM_BYTES));
}

static void fill_item(void *arg, uint32_t item, uint32_t thread)
{
    struct pass *pass = arg;
    memset(pass->memory + item * ITEM_BYTES, (int)item, ITEM_BYTES);
}

double halo_cpu_measure_bandwidth(struct halo_device *device)
{
    struct halo_cpu_region largest = {0}, own = {0};
    for (const struct halo_device_model *m = device->models; m; m = m->next)
        if (m->sealed && m->weight_region.n_bytes > largest.n_bytes)
            largest = m->weight_region;
    struct pass pass = {.lanes = device->lanes, .memory = largest.base};
    if (largest.n_bytes < WEIGHTS_MIN) {
        if (halo_cpu_region_map(&own, BUFFER_BYTES, "buffers of the measurement", NULL))
            return 0;
        largest = own;
        pass.memory = own.base;
        halo_workers_run(device->workers, (uint32_t)(own.n_bytes / ITEM_BYTES), fill_item, &pass);
    }
    uint32_t n_items = (uint32_t)(largest.n_bytes / ITEM_BYTES), n_passes = 0;
    uint64_t begin = halo_monotonic_ns(), last = begin, best = UINT64_MAX;
    do {
        halo_workers_run(device->workers, n_items, read_item, &pass);
        uint64_t now = halo_monotonic_ns(), took = now - last;
        last = now;
        n_passes++;
        best = took < best ? took : best;
    } while (n_passes < PASSES_MIN || last - begin < ENOUGH_NS);
    halo_cpu_region_unmap(&own);
    return (double)n_items * ITEM_BYTES / ((double)best * 1e-9);
}
