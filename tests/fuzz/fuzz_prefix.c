/* fuzz_prefix.c: a file of saved prefixes from anybody: refused, or the file that its records make when they are
 * written again, and brought into a pool that is sound afterwards.
 *
 * Input: a byte of flags, then the file. Bit 0: the sums are made right first, so that what they protect is looked at
 * too. Bit 1: the pool is smaller than the file. Bit 2: the model has a window and states beside its first group.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/hash.h>
#include <engine/keep.h>

#define PAGE_BYTES 16
#define STATE_BYTES 8
#define N_VOCAB 1000
#define SUM_BYTES (HALO_SHA256_HEX - 1)
#define SAVE_AT 32                           /* in the header: the random bytes of all records */
#define KEY_END (48 + HALO_PREFIX_KEY_BYTES) /* what precedes the sum from here on is not looked at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t page_bytes[] = {PAGE_BYTES, PAGE_BYTES, STATE_BYTES};
static uint32_t n_pool, n_written;

static int write_page(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason)
{
    uint8_t sum = 0;
    assert(group < 3 && page < n_pool);
    for (uint32_t i = 0; i < page_bytes[group]; i++)
        sum ^= ((const uint8_t *)bytes)[i];
    n_written += 1 + (sum & 0); /* the bytes are there */
    return 0;
}

static void seal(uint8_t *at, size_t n)
{
    char sum[HALO_SHA256_HEX];
    halo_sha256_hex(at, n, sum);
    memcpy(at + n, sum, SUM_BYTES);
}

static void make_sums_right(uint8_t *image, size_t n, const struct halo_prefix_key *key)
{
    if (n < HALO_PREFIX_HEADER_BYTES)
        return;
    seal(image, HALO_PREFIX_HEADER_BYTES - SUM_BYTES);
    for (size_t at = HALO_PREFIX_HEADER_BYTES; n - at >= 40;) {
        size_t record = halo_prefix_record_bytes(key, image[at + 36] & 7);
        if (record > n - at)
            return;
        seal(image + at, record - SUM_BYTES);
        at += record;
    }
}

static void write_again(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint32_t n_records)
{
    const uint8_t *save = image + SAVE_AT;
    uint8_t *again = calloc(n, 1);
    struct halo_prefix_record record;
    uint64_t at = HALO_PREFIX_HEADER_BYTES;
    assert(again);
    for (uint32_t i = 0; i < n_records; i++) {
        uint64_t next = halo_prefix_image_next(image, key, at, &record);
        halo_prefix_record_put(again + at, save, i, &record);
        for (uint32_t group = 0; group < key->n_groups; group++)
            if (record.pages[group])
                memcpy(halo_prefix_record_page(again + at, key, group), record.pages[group], key->page_bytes[group]);
        at += halo_prefix_record_seal(again + at, key);
        assert(at == next);
    }
    halo_prefix_header_seal(again, key, save, n_records, at);
    assert(at == n && memcmp(image, again, KEY_END) == 0);
    assert(memcmp(image + HALO_PREFIX_HEADER_BYTES, again + HALO_PREFIX_HEADER_BYTES, n - HALO_PREFIX_HEADER_BYTES) ==
           0);
    free(again);
}

/* Every listed page is idle, and all of them can be evicted one by one: no child is older than what it follows. */
static void check_pool(struct halo_kv_pool *pool, uint32_t n_restored)
{
    assert(halo_kv_pool_available(pool) == pool->n_pages);
    assert(pool->prefix.n_listed == pool->prefix.n_idle && pool->prefix.n_listed <= n_restored);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        assert(halo_kv_side_available(&pool->sides[s]) == pool->sides[s].n_pages);
    while (pool->prefix.n_idle > 0) {
        uint32_t page = halo_prefix_evict(&pool->prefix);
        for (uint32_t s = 0; s < pool->n_sides; s++)
            halo_kv_side_detach(&pool->sides[s], page);
        pool->free[pool->n_free++] = page;
    }
    for (uint32_t s = 0; s < pool->n_sides; s++)
        assert(pool->sides[s].n_free == pool->sides[s].n_pages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_plan plan = {.n_vocab = N_VOCAB,
                             .n_kv_groups = 1,
                             .kv = {{.type = HALO_KV_F32, .n_layers = 1, .n_head_kv = 1},
                                    {.type = HALO_KV_F32, .n_layers = 1, .n_head_kv = 1, .window = 40},
                                    {.n_layers = 1, .state_width = 2}}};
    const uint64_t bytes[HALO_KV_GROUPS_MAX] = {PAGE_BYTES, PAGE_BYTES, STATE_BYTES};
    struct halo_device_ops ops = {.kv_write = write_page};
    struct halo_prefix_key key;
    struct halo_fault fault = {0};
    uint32_t n_records, n_pages;
    if (size < 1)
        return 0;
    if (data[0] & 4)
        plan.n_kv_groups = 3;
    halo_prefix_key_of(&plan, "f", "s", "fuzz", bytes, &key);
    size_t n = size - 1;
    uint8_t *image = malloc(n ? n : 1);
    assert(image);
    memcpy(image, data + 1, n);
    if (data[0] & 1)
        make_sums_right(image, n, &key);
    if (halo_prefix_image_check(image, n, &key, &n_records, &fault) < 0) {
        assert(fault.code != HALO_FAULT_NONE && fault.text[0] && n_records == 0);
    } else {
        static struct halo_instance instance;
        write_again(image, n, &key, n_records);
        n_written = 0;
        n_pool = data[0] & 2 ? n_records / 2 + 1 : n_records + 1;
        assert(halo_kv_pool_init(&instance.scheduler.pool, n_pool) == 0);
        for (uint32_t group = 1; group < plan.n_kv_groups; group++)
            assert(halo_kv_pool_add_side(&instance.scheduler.pool, n_pool, plan.kv[group].window, 1) == 0);
        assert(halo_keep_restore(&instance, &ops, &key, image, n_records, &n_pages, &fault) == 0);
        assert(n_pages <= n_records && n_written <= n_pages * plan.n_kv_groups);
        check_pool(&instance.scheduler.pool, n_pages);
        halo_kv_pool_finish(&instance.scheduler.pool);
    }
    free(image);
    return 0;
}
