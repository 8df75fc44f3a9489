/* fuzz_prefix.c: a file of saved prefixes from anybody: refused, or brought into a pool that is sound afterwards.
 *
 * Input: a byte of flags, then the file. Bit 0: the sums are made right first, so that what they protect is looked at
 * too. Bit 1: the pool is smaller than the file.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <base/hash.h>
#include <engine/keep.h>

#define PAGE_BYTES 16
#define N_VOCAB 1000
#define SUM_BYTES (HALO_SHA256_HEX - 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t n_pool, n_written;

static int write_page(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes, char *reason)
{
    uint8_t sum = 0;
    assert(page < n_pool);
    for (int i = 0; i < PAGE_BYTES; i++)
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
    uint64_t record = halo_prefix_record_bytes(key);
    if (n < HALO_PREFIX_HEADER_BYTES)
        return;
    seal(image, HALO_PREFIX_HEADER_BYTES - SUM_BYTES);
    for (size_t at = HALO_PREFIX_HEADER_BYTES; at + record <= n; at += record)
        seal(image + at, record - SUM_BYTES);
}

/* Every listed page is idle, and all of them can be evicted one by one: no child is older than what it follows. */
static void check_pool(struct halo_kv_pool *pool, uint32_t n_restored)
{
    assert(halo_kv_pool_available(pool) == pool->n_pages);
    assert(pool->prefix.n_listed == pool->prefix.n_idle && pool->prefix.n_listed <= n_restored);
    while (pool->prefix.n_idle > 0) {
        uint32_t page = halo_prefix_evict(&pool->prefix);
        pool->free[pool->n_free++] = page;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_plan plan = {
        .n_vocab = N_VOCAB, .n_kv_groups = 1, .kv = {{.type = HALO_KV_F32, .n_layers = 1, .n_head_kv = 1}}};
    struct halo_device_ops ops = {.kv_write = write_page};
    struct halo_prefix_key key;
    struct halo_fault fault = {0};
    uint32_t n_records, n_pages;
    if (size < 1)
        return 0;
    halo_prefix_key_of(&plan, "f", "s", "fuzz", PAGE_BYTES, &key);
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
        n_written = 0;
        n_pool = data[0] & 2 ? n_records / 2 + 1 : n_records + 1;
        assert(halo_kv_pool_init(&instance.scheduler.pool, n_pool) == 0);
        assert(halo_keep_restore(&instance, &ops, &key, image, n_records, &n_pages, &fault) == 0);
        assert(n_pages <= n_records && n_written <= n_pages);
        check_pool(&instance.scheduler.pool, n_pages);
        halo_kv_pool_finish(&instance.scheduler.pool);
    }
    free(image);
    return 0;
}
