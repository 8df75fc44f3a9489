/* fuzz_bundle.c: fat binaries, plain and compressed. What is found lies in the bundle, or in what was unpacked. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bundle_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t sum(const uint8_t *at, size_t n)
{
    uint32_t s = 0;
    for (size_t i = 0; i < n; i++)
        s += at[i];
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const archs[] = {"gfx1151", "gfx90a:sramecc+:xnack-", ""};
    for (size_t i = 0; i < sizeof(archs) / sizeof(*archs); i++) {
        struct halo_bundle_code code;
        const char *reason;
        int r = halo_bundle_find(data, size, archs[i], &code, &reason);
        assert((r < 0) == (reason != NULL));
        if (r < 0) {
            assert(!code.unpacked);
            continue;
        }
        assert(code.unpacked || (code.image >= data && code.n <= size - (size_t)(code.image - data)));
        volatile uint32_t seen = sum(code.image, code.n); /* each byte may be read */
        (void)seen;
        free(code.unpacked);
    }
    return 0;
}
