/* prefix_image.c: the bytes of saved prefixes, written and checked. Numbers are little-endian. Any thread. */
#include <engine/prefix_image.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/hash.h>

#include <engine/kv_worth.h>
#include <engine/prefix.h>

#define MAGIC "HALOPFX2"
#define SUM_BYTES (HALO_SHA256_HEX - 1)

/* Offsets in the header. */
enum { H_MAGIC = 0, H_N_RECORDS = 8, H_ZERO = 16, H_FILE_BYTES = 24, H_SAVE = 32, H_KEY = 48 };
/* And in a record. */
enum {
    R_SAVE = 0,
    R_INDEX = 16,
    R_PARENT = 20,
    R_USER = 24,
    R_N_IDS = 32,
    R_GROUPS = 36,
    R_WORTH = 38,
    R_IDS = 40,
    R_PAGE = 168
};
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

/* One line of the key, its name first. Returns how far the text goes. */
__attribute__((format(printf, 3, 4))) static size_t put_line(struct halo_prefix_key *key, size_t n, const char *format,
                                                             ...)
{
    va_list args;
    va_start(args, format);
    int more = vsnprintf(key->text + n, sizeof(key->text) - n, format, args);
    va_end(args);
    assert(more > 0 && n + (size_t)more < sizeof(key->text));
    return n + (size_t)more;
}

/* Short, so that the lines of HALO_KV_GROUPS_MAX groups find room whatever their numbers are. */
static size_t put_group(struct halo_prefix_key *key, size_t n, const struct halo_kv_group *kv, uint64_t page_bytes)
{
    static const char *const kv_names[] = {"f32", "f16", "q8", "q4"};
    if (kv->state_width > 0)
        return put_line(key, n, "states: %u of %u, %" PRIu64 " bytes\n", kv->n_layers, kv->state_width, page_bytes);
    return put_line(key, n, "kv cache: %s %ux%u of %u+%u%s, window %u, stride %u, %" PRIu64 " bytes\n",
                    kv_names[kv->type], kv->n_layers, kv->n_head_kv, kv->head_dim_k, kv->head_dim_v,
                    kv->latent ? " latent" : "", kv->window, kv->stride, page_bytes);
}

void halo_prefix_key_of(const struct halo_plan *plan, const char *fingerprint, const char *stamp, const char *layout,
                        const uint64_t page_bytes[HALO_KV_GROUPS_MAX], struct halo_prefix_key *ret)
{
    char rope[HALO_MD5_HEX];
    rope_digest(plan, rope);
    memset(ret, 0, sizeof(*ret));
    ret->n_vocab = plan->n_vocab;
    ret->n_groups = plan->n_kv_groups;
    size_t n = put_line(ret, 0, "model file: %s %s\ndevice: %s\nvocabulary: %u\nrope settings: %s\n", fingerprint,
                        stamp, layout, plan->n_vocab, rope);
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        ret->page_bytes[group] = page_bytes[group];
        n = put_group(ret, n, &plan->kv[group], page_bytes[group]);
    }
    put_line(ret, n, "page: %u tokens\n", HALO_KV_PAGE_TOKENS);
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

/* Of the pages of these groups, as they stand one behind the other. */
static uint64_t pages_bytes(const struct halo_prefix_key *key, uint32_t groups)
{
    uint64_t n = 0;
    for (uint32_t group = 0; group < key->n_groups; group++)
        n += groups >> group & 1 ? key->page_bytes[group] : 0;
    return n;
}

uint64_t halo_prefix_record_bytes(const struct halo_prefix_key *key, uint32_t groups)
{
    return R_PAGE + pages_bytes(key, groups) + SUM_BYTES;
}

uint8_t *halo_prefix_record_page(uint8_t *record, const struct halo_prefix_key *key, uint32_t group)
{
    uint32_t groups = (uint32_t)get(record + R_GROUPS, 2);
    assert(groups >> group & 1);
    return record + R_PAGE + pages_bytes(key, groups & ((1u << group) - 1));
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
    assert(from->n_ids >= 1 && from->n_ids <= HALO_KV_PAGE_TOKENS && from->groups & 1);
    memcpy(record + R_SAVE, save, HALO_PREFIX_SAVE_BYTES);
    put(record + R_INDEX, index, 4);
    put(record + R_PARENT, from->parent, 4);
    put(record + R_USER, from->user, 8);
    put(record + R_N_IDS, from->n_ids, 4);
    put(record + R_GROUPS, from->groups, 2);
    put(record + R_WORTH, from->worth, 2);
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        put(record + R_IDS + 4 * i, i < from->n_ids ? (uint32_t)from->ids[i] : 0, 4);
}

uint64_t halo_prefix_record_seal(uint8_t *record, const struct halo_prefix_key *key)
{
    uint64_t n_bytes = halo_prefix_record_bytes(key, (uint32_t)get(record + R_GROUPS, 2));
    seal(record, n_bytes - SUM_BYTES);
    return n_bytes;
}

void halo_prefix_header_seal(uint8_t header[HALO_PREFIX_HEADER_BYTES], const struct halo_prefix_key *key,
                             const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t n_records, uint64_t file_bytes)
{
    memset(header, 0, HALO_PREFIX_HEADER_BYTES);
    memcpy(header + H_MAGIC, MAGIC, 8);
    put(header + H_N_RECORDS, n_records, 8);
    put(header + H_FILE_BYTES, file_bytes, 8);
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
    char line[64];
    if (n < HALO_PREFIX_HEADER_BYTES)
        return damaged(fault, "it has %zu bytes, a header has %d", n, HALO_PREFIX_HEADER_BYTES);
    if (memcmp(image + H_MAGIC, MAGIC, 8) != 0)
        return damaged(fault, "it is not a prefix file, or has another version");
    if (!is_sealed(image, H_SUM))
        return damaged(fault, "the checksum of its header does not match");
    if (memcmp(image + H_KEY, key->text, HALO_PREFIX_KEY_BYTES) != 0) {
        name_difference(key->text, image + H_KEY, line);
        const char *build = strcmp(line, "device") == 0 ? " or build of halod" : ""; /* both are in that line */
        return damaged(fault, "it belongs to something else: its %s%s differs", line, build);
    }
    uint64_t n_records = get(image + H_N_RECORDS, 8);
    if (get(image + H_FILE_BYTES, 8) != n || get(image + H_ZERO, 8) != 0)
        return damaged(fault, "it has %zu bytes, its header says %" PRIu64, n, get(image + H_FILE_BYTES, 8));
    if (n_records > (n - HALO_PREFIX_HEADER_BYTES) / halo_prefix_record_bytes(key, 1) || n_records >= HALO_PREFIX_NONE)
        return damaged(fault, "%" PRIu64 " records do not have %zu bytes", n_records, n);
    *ret_n_records = n_records;
    return 0;
}

/* What precedes the sum of the record at `at`; 0: the record is not whole. */
static uint64_t bytes_of(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint64_t at)
{
    if (n - at < R_PAGE)
        return 0;
    uint32_t groups = (uint32_t)get(image + at + R_GROUPS, 2);
    if (!(groups & 1) || groups >> key->n_groups != 0 || n - at < halo_prefix_record_bytes(key, groups))
        return 0;
    return halo_prefix_record_bytes(key, groups) - SUM_BYTES;
}

/* The record at places[index]; those in front of it were checked. Sets places[index + 1]. */
static int check_record(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint64_t *places,
                        uint32_t index, struct halo_fault *fault)
{
    const uint8_t *record = image + places[index];
    struct halo_prefix_record have, parent;
    uint64_t n_before = bytes_of(image, n, key, places[index]);
    if (n_before == 0)
        return damaged(fault, "record %u is not whole, or has pages of groups that the model does not have", index);
    if (!is_sealed(record, n_before))
        return damaged(fault, "the checksum of record %u does not match", index);
    if (memcmp(record + R_SAVE, image + H_SAVE, HALO_PREFIX_SAVE_BYTES) != 0 || get(record + R_INDEX, 4) != index ||
        get(record + R_WORTH, 2) >= HALO_KV_N_WORTHS)
        return damaged(fault, "record %u does not belong to this file", index);
    uint64_t n_ids = get(record + R_N_IDS, 4);
    if (n_ids < 1 || n_ids > HALO_KV_PAGE_TOKENS)
        return damaged(fault, "record %u has %" PRIu64 " ids", index, n_ids);
    places[index + 1] = halo_prefix_image_next(image, key, places[index], &have);
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        if (i < have.n_ids ? have.ids[i] < 0 || (uint32_t)have.ids[i] >= key->n_vocab : have.ids[i] != 0)
            return damaged(fault, "record %u has the id %d, the vocabulary %u", index, have.ids[i], key->n_vocab);
    if (have.parent == HALO_PREFIX_NONE)
        return 0;
    if (have.parent >= index)
        return damaged(fault, "record %u precedes its parent %u", index, have.parent);
    halo_prefix_image_next(image, key, places[have.parent], &parent);
    if (parent.n_ids != HALO_KV_PAGE_TOKENS || parent.user != have.user)
        return damaged(fault, "record %u cannot follow record %u", index, have.parent);
    return 0;
}

int halo_prefix_image_check(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint32_t *ret_n_records,
                            struct halo_fault *fault)
{
    uint64_t n_records = 0;
    *ret_n_records = 0;
    for (uint32_t group = 0; group < key->n_groups; group++)
        assert(key->page_bytes[group] > 0 && key->page_bytes[group] <= HALO_PREFIX_PAGE_MAX);
    int r = check_header(image, n, key, &n_records, fault);
    if (r < 0)
        return r;
    uint64_t *places = malloc((n_records + 1) * sizeof(*places));
    if (!places)
        return halo_fault_errno(fault, HALO_FAULT_OUT_OF_MEMORY, -ENOMEM, "no memory to check %" PRIu64 " records",
                                n_records);
    places[0] = HALO_PREFIX_HEADER_BYTES;
    for (uint32_t i = 0; r == 0 && i < n_records; i++)
        r = check_record(image, n, key, places, i, fault);
    if (r == 0 && places[n_records] != n)
        r = damaged(fault, "%" PRIu64 " records do not have %zu bytes", n_records, n);
    free(places);
    *ret_n_records = r == 0 ? (uint32_t)n_records : 0;
    return r;
}

uint64_t halo_prefix_image_next(const uint8_t *image, const struct halo_prefix_key *key, uint64_t at,
                                struct halo_prefix_record *ret)
{
    const uint8_t *record = image + at, *page = record + R_PAGE;
    *ret = (struct halo_prefix_record){.user = get(record + R_USER, 8),
                                       .parent = (uint32_t)get(record + R_PARENT, 4),
                                       .n_ids = (uint32_t)get(record + R_N_IDS, 4),
                                       .groups = (uint32_t)get(record + R_GROUPS, 2),
                                       .worth = (uint32_t)get(record + R_WORTH, 2)};
    for (uint32_t i = 0; i < HALO_KV_PAGE_TOKENS; i++)
        ret->ids[i] = (int32_t)(uint32_t)get(record + R_IDS + 4 * i, 4);
    for (uint32_t group = 0; group < key->n_groups; group++)
        if (ret->groups >> group & 1) {
            ret->pages[group] = page;
            page += key->page_bytes[group];
        }
    return at + halo_prefix_record_bytes(key, ret->groups);
}
