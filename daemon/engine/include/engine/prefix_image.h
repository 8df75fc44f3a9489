/* prefix_image.h: cached prefixes as the bytes of a file: which pages there are, whose, with which ids, and what is in
 * them.
 *
 * A header of HALO_PREFIX_HEADER_BYTES, then one record for each page of the first group: its ids, its place in the
 * text, its bytes, those of the pages and slots of other groups that are attached to it, a checksum. The header names
 * everything that must be the same for the bytes to mean the same (struct halo_prefix_key); an image with another key
 * belongs to something else. An image may come from anybody, so it is checked whole before anything is taken from it.
 * Layout: docs/FORMATS.md.
 *
 * Pure functions; any thread. Memory: halo_prefix_image_check takes eight bytes for each record while it runs.
 */
#ifndef HALO_ENGINE_PREFIX_IMAGE_H
#define HALO_ENGINE_PREFIX_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <kernels/device.h>

#define HALO_PREFIX_HEADER_BYTES 1024
#define HALO_PREFIX_KEY_BYTES 880
#define HALO_PREFIX_SAVE_BYTES 16
#define HALO_PREFIX_PAGE_MAX (1ull << 32) /* bytes of a page or slot */

/* In words, one line each, so that a difference can be named. */
struct halo_prefix_key {
    char text[HALO_PREFIX_KEY_BYTES]; /* the rest is zeros */
    uint32_t n_vocab, n_groups;
    uint64_t page_bytes[HALO_KV_GROUPS_MAX]; /* of a page or slot of each group, as the device gives them */
};

/* Fingerprint and stamp: of the model's files. */
void halo_prefix_key_of(const struct halo_plan *plan, const char *fingerprint, const char *stamp, const char *layout,
                        const uint64_t page_bytes[HALO_KV_GROUPS_MAX], struct halo_prefix_key *ret);

struct halo_prefix_record {
    uint64_t user;
    uint32_t parent; /* index of an earlier record, whole and of the same user; HALO_PREFIX_NONE: the first of a text */
    uint32_t n_ids;
    uint32_t groups; /* bit g: the record holds a page of group g; bit 0 is always set */
    uint32_t worth;  /* enum halo_kv_worth, of what it holds beside group 0 */
    int32_t ids[HALO_KV_PAGE_TOKENS];
    const uint8_t *pages[HALO_KV_GROUPS_MAX]; /* read: in the image, NULL where there is none; written: not used */
};

/* Of a record with pages of these groups. */
uint64_t halo_prefix_record_bytes(const struct halo_prefix_key *key, uint32_t groups);

/* Writes all of a record but its pages and its sum. `save` is the same 16 random bytes for all records and the header
 * of one image. */
void halo_prefix_record_put(uint8_t *record, const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t index,
                            const struct halo_prefix_record *from);
/* Where the bytes of a group's page belong in a record that was put. */
uint8_t *halo_prefix_record_page(uint8_t *record, const struct halo_prefix_key *key, uint32_t group);
/* The sum, when the pages are there. Reads all of them: not for a thread that others wait for. Returns the bytes of the
 * record. */
uint64_t halo_prefix_record_seal(uint8_t *record, const struct halo_prefix_key *key);
void halo_prefix_header_seal(uint8_t header[HALO_PREFIX_HEADER_BYTES], const struct halo_prefix_key *key,
                             const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t n_records, uint64_t file_bytes);

/* Checks everything. 0 and the number of records; -EINVAL with the reason; -ENOMEM. */
int halo_prefix_image_check(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint32_t *ret_n_records,
                            struct halo_fault *fault);

/* The record at offset `at` of an image that was checked; the first one is at HALO_PREFIX_HEADER_BYTES. Returns where
 * the next one is. */
uint64_t halo_prefix_image_next(const uint8_t *image, const struct halo_prefix_key *key, uint64_t at,
                                struct halo_prefix_record *ret);

#endif
