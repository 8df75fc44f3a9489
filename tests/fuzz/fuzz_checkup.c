/* fuzz_checkup.c: lines that claim to be halo-doctor's. What is kept of them is bounded, whole characters, and never of
 * a lower rank than what was there. Input: a byte for what the engine was doing, then the lines.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <serve/child/checkup.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_engine_beat beat = {0};
    struct halo_checkup_finding best = {0};
    if (size == 0)
        return 0;
    beat.threads[HALO_WIRE_THREAD_PREFETCH].activity = data[0] & 2 ? HALO_WIRE_ACTIVITY_FILE : HALO_WIRE_ACTIVITY_IDLE;
    beat.threads[HALO_WIRE_THREAD_DEVICE].activity =
        (enum halo_wire_activity)((data[0] >> 2) % (HALO_WIRE_ACTIVITY_STEP + 1));
    const char *stage = halo_checkup_stage(data[0] & 1 ? HALO_ENGINE_STARTING : HALO_ENGINE_UP, &beat),
               *at = (const char *)data + 1, *end = (const char *)data + size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) : (size_t)(end - at);
        struct halo_checkup_finding before = best;
        halo_checkup_take(&best, at, n, stage);
        assert(best.rank >= before.rank && best.n_read >= before.n_read && best.n_read <= before.n_read + 1);
        assert(best.rank > before.rank || strcmp(best.text, before.text) == 0);
        assert(memchr(best.text, '\0', sizeof(best.text)));
        size_t n_text = strlen(best.text);
        assert(n_text == 0 || (unsigned char)best.text[n_text - 1] < 0xc0); /* no character begins at the end */
        at += n + 1;
    }
    return 0;
}
