/* prefix_image.c: the bytes of saved prefixes, written and checked. Numbers are little-endian. Any thread. */
#include <engine/prefix_image.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <base/hash.h>

#include <engine/prefix.h>

#define MAGIC "HALOPFX1"
#define SUM_BYTES (HALO_SHA256_HEX - 1)

/* Offsets in the header. */
enum { H_MAGIC = 0, H_N_RECORDS = 8, H_RECORD_BYTES = 16, H_FILE_BYTES = 24, H_SAVE = 32, H_KEY = 48 };
/* And in a record. */
enum { R_SAVE = 0, R_INDEX = 16, R_PARENT = 20, R_USER = 24, R_N_IDS = 32, R_ZERO = 36, R_IDS = 40, R_PAGE = 168 };
_Static_assert(R_PAGE == R_IDS + 4 * HALO_KV_PAGE_TOKENS, "ids fill the place before the page");
_Static_assert(H_KEY + HALO_PREFIX_KEY_BYTES + SUM_BYTES <= HALO_PREFIX_HEADER_BYTES, "the sum is the header's end");
#define H_SUM (HALO_PREFIX_HEADER_BYTES - SUM_BYTES)

static void put(uint8_t *at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* ---- the key ---- */

static void rope_digest(const struct halo_plan *plan, char ret_hex[HALO_MD5_HEX])
{
    char all[HALO_MD5_HEX] = "none", joined[2 * HALO_MD5_HEX + 96];
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        const struct halo_rope *rope = &plan->ropes[i];
        char freqs[HALO_MD5_HEX];
        halo_md5_hex(rope->freqs, rope->n_rot / 2 * sizeof(*rope->freqs), freqs);
        int n = snprintf(joined, sizeof(joined), "%s %d %u %.9g %s", all, (int)rope->pairing, rope->n_rot,
                         (double)rope->scale, freqs);
        halo_md5_hex(joined, (size_t)n, all);
    }
    memcpy(ret_hex, all, HALO_MD5_HEX);
}

void halo_prefix_key_of(const struct halo_plan *plan, const char *fingerprint, const char *stamp, const char *layout,
                        uint64_t page_bytes, struct halo_prefix_key *ret)
{
    static const char *const kv_names[] = {"f32", "f16", "q8", "q4"};
    const struct halo_kv_group *kv = &plan->kv[0];
    char rope[HALO_MD5_HEX];
    rope_digest(plan, rope);
    memset(ret, 0, sizeof(*ret));
    ret->n_vocab = plan->n_vocab;
    ret->page_bytes = page_bytes;
    int n = snprintf(ret->text, sizeof(ret->text),
                     "model file: %s %s\nkv cache: %s, %u layers, %u heads of %u and %u, %u tokens a page\n"
                     "rope settings: %s\nvocabulary: %u\ndevice: %s\npage: %llu bytes\n",
                     fingerprint, stamp, kv_names[kv->type], kv->n_layers, kv->n_head_kv, kv->head_dim_k,
                     kv->head_dim_v, HALO_KV_PAGE_TOKENS, rope, plan->n_vocab, layout, (unsigned long long)page_bytes);
    assert(n > 0 && (size_t)n < sizeof(ret->text));
}

/* "kv cache": the first line that is not the same; the other text need not be a string. */
static void name_difference(const char *want, const uint8_t *have, char ret[64])
{
    size_t at = 0, line = 0;
    while (at < HALO_PREFIX_KEY_BYTES && (uint8_t)want[at] == have[at]) {
        if (want[at] == '\n')
            line = at + 1;
        at++;
    }
    size_t n = strcspn(want + line, ":\n");
    snprintf(ret, 64, "%.*s", (int)(n < 63 ? n : 63), want + line);
}

/* ---- writing ---- */

uint64_t halo_prefix_record_bytes(const struct halo_prefix_key *key)
{
    return R_PAGE + key->page_bytes + SUM_BYTES;
}

uint8_t *halo_prefix_record_page(uint8_t *record)
{
    return record + R_PAGE;
}

static void seal(uint8_t *at, size_t n_before)
{
    char sum[HALO_SHA256_HEX];
    halo_sha256_hex(at, n_before, sum);
    memcpy(at + n_before, sum, SUM_BYTES);
}

static bool is_sealed(const uint8_t *at, size_t n_before)
{
    char sum[HALO_SHA256_HEX];
    halo_sha256_hex(at, n_before, sum);
    return memcmp(at + n_before, sum, SUM_BYTES) == 0;
}

void halo_prefix_record_put(uint8_t *record, const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t index,
                            const struct halo_prefix_record *from)
{
    assert(from->n_ids >= 1 && from->n_ids <= HALO_KV_PAGE_TOKENS);
    memcpy(record + R_SAVE, save, HALO_PREFIX_SAVE_BYTES);
    put(record + R_INDEX, index, 4);
    put(record + R_PARENT, from->parent, 4);
    put(record + R_USER, from->user, 8);
    put(record + R_N_IDS, from->n_ids, 4);
    put(record + R_ZERO, 0, 4);
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        put(record + R_IDS + 4 * i, i < from->n_ids ? (uint32_t)from->ids[i] : 0, 4);
}

void halo_prefix_record_seal(uint8_t *record, const struct halo_prefix_key *key)
{
    seal(record, R_PAGE + key->page_bytes);
}

void halo_prefix_header_seal(uint8_t header[HALO_PREFIX_HEADER_BYTES], const struct halo_prefix_key *key,
                             const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t n_records)
{
    uint64_t record_bytes = halo_prefix_record_bytes(key);
    memset(header, 0, HALO_PREFIX_HEADER_BYTES);
    memcpy(header + H_MAGIC, MAGIC, 8);
    put(header + H_N_RECORDS, n_records, 8);
    put(header + H_RECORD_BYTES, record_bytes, 8);
    put(header + H_FILE_BYTES, HALO_PREFIX_HEADER_BYTES + n_records * record_bytes, 8);
    memcpy(header + H_SAVE, save, HALO_PREFIX_SAVE_BYTES);
    memcpy(header + H_KEY, key->text, HALO_PREFIX_KEY_BYTES);
    seal(header, H_SUM);
}

/* ---- checking ---- */

__attribute__((format(printf, 2, 3))) static int damaged(struct halo_fault *fault, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s", text);
}

static int check_header(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint64_t *ret_n_records,
                        struct halo_fault *fault)
{
    uint64_t record_bytes = halo_prefix_record_bytes(key);
    char line[64];
    if (n < HALO_PREFIX_HEADER_BYTES)
        return damaged(fault, "%zu bytes are no header", n);
    if (memcmp(image + H_MAGIC, MAGIC, 8) != 0)
        return damaged(fault, "it is not a prefix file, or has another version");
    if (!is_sealed(image, H_SUM))
        return damaged(fault, "the checksum of its header does not match");
    if (memcmp(image + H_KEY, key->text, HALO_PREFIX_KEY_BYTES) != 0) {
        name_difference(key->text, image + H_KEY, line);
        return damaged(fault, "it belongs to something else: its %s differs", line);
    }
    uint64_t n_records = get(image + H_N_RECORDS, 8);
    if (get(image + H_RECORD_BYTES, 8) != record_bytes || get(image + H_FILE_BYTES, 8) != n)
        return damaged(fault, "it has %zu bytes, its header says %llu", n,
                       (unsigned long long)get(image + H_FILE_BYTES, 8));
    if (n_records >= HALO_PREFIX_NONE || n_records != (n - HALO_PREFIX_HEADER_BYTES) / record_bytes ||
        (n - HALO_PREFIX_HEADER_BYTES) % record_bytes != 0)
        return damaged(fault, "%llu records do not have %zu bytes", (unsigned long long)n_records, n);
    *ret_n_records = n_records;
    return 0;
}

static int check_record(const uint8_t *image, const struct halo_prefix_key *key, uint32_t index,
                        struct halo_fault *fault)
{
    const uint8_t *record = image + HALO_PREFIX_HEADER_BYTES + index * halo_prefix_record_bytes(key);
    struct halo_prefix_record have, parent;
    if (!is_sealed(record, R_PAGE + key->page_bytes))
        return damaged(fault, "the checksum of record %u does not match", index);
    if (memcmp(record + R_SAVE, image + H_SAVE, HALO_PREFIX_SAVE_BYTES) != 0 || get(record + R_INDEX, 4) != index ||
        get(record + R_ZERO, 4) != 0)
        return damaged(fault, "record %u does not belong to this file", index);
    uint64_t n_ids = get(record + R_N_IDS, 4);
    if (n_ids < 1 || n_ids > HALO_KV_PAGE_TOKENS)
        return damaged(fault, "record %u has %llu ids", index, (unsigned long long)n_ids);
    halo_prefix_image_record(image, key, index, &have);
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        if (i < have.n_ids ? have.ids[i] < 0 || (uint32_t)have.ids[i] >= key->n_vocab : have.ids[i] != 0)
            return damaged(fault, "record %u has the id %d, the vocabulary %u", index, have.ids[i], key->n_vocab);
    if (have.parent == HALO_PREFIX_NONE)
        return 0;
    if (have.parent >= index)
        return damaged(fault, "record %u precedes its parent %u", index, have.parent);
    halo_prefix_image_record(image, key, have.parent, &parent);
    if (parent.n_ids != HALO_KV_PAGE_TOKENS || parent.user != have.user)
        return damaged(fault, "record %u cannot follow record %u", index, have.parent);
    return 0;
}

int halo_prefix_image_check(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint32_t *ret_n_records,
                            struct halo_fault *fault)
{
    uint64_t n_records = 0;
    assert(key->page_bytes > 0 && key->page_bytes <= HALO_PREFIX_PAGE_MAX);
    int r = check_header(image, n, key, &n_records, fault);
    for (uint32_t i = 0; r == 0 && i < n_records; i++)
        r = check_record(image, key, i, fault);
    *ret_n_records = r == 0 ? (uint32_t)n_records : 0;
    return r;
}

const uint8_t *halo_prefix_image_record(const uint8_t *image, const struct halo_prefix_key *key, uint32_t index,
                                        struct halo_prefix_record *ret)
{
    const uint8_t *record = image + HALO_PREFIX_HEADER_BYTES + index * halo_prefix_record_bytes(key);
    ret->user = get(record + R_USER, 8);
    ret->parent = (uint32_t)get(record + R_PARENT, 4);
    ret->n_ids = (uint32_t)get(record + R_N_IDS, 4);
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        ret->ids[i] = (int32_t)(uint32_t)get(record + R_IDS + 4 * i, 4);
    return record + R_PAGE;
}
