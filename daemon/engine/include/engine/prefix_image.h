/* prefix_image.h: cached prefixes as the bytes of a file: which pages there are, whose, with which ids, and what is in
 * them.
 *
 * A header of HALO_PREFIX_HEADER_BYTES, then records of one size: ids and place of a page, its bytes, a checksum. The
 * header names all that must be the same for the bytes to mean the same (struct halo_prefix_key); a key that differs is
 * an image of something else. An image is checked whole before anything is taken from it, and whatever it says is
 * checked: it may come from anybody. Layout: docs/FORMATS.md.
 *
 * Pure functions over memory; any thread.
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
#define HALO_PREFIX_PAGE_MAX (1ull << 30) /* bytes of a page */

/* In words, one line each, so that a difference can be named. */
struct halo_prefix_key {
    char text[HALO_PREFIX_KEY_BYTES]; /* the rest is zeros */
    uint32_t n_vocab;
    uint64_t page_bytes;
};

/* file: fingerprint and stamp of the model's files. */
void halo_prefix_key_of(const struct halo_plan *plan, const char *fingerprint, const char *stamp, const char *layout,
                        uint64_t page_bytes, struct halo_prefix_key *ret);

struct halo_prefix_record {
    uint64_t user;
    uint32_t parent; /* index of an earlier record, whole and of the same user; HALO_PREFIX_NONE: the first of a text */
    uint32_t n_ids;
    int32_t ids[HALO_KV_PAGE_TOKENS];
};

uint64_t halo_prefix_record_bytes(const struct halo_prefix_key *key);

/* Where the bytes of the page stand in a record. */
uint8_t *halo_prefix_record_page(uint8_t *record);

/* Writes all of a record but its page and its sum. `save` is the same 16 random bytes for all records and the header of
 * one image. */
void halo_prefix_record_put(uint8_t *record, const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t index,
                            const struct halo_prefix_record *from);
/* The sum, when the page is there. Of the order of the page's bytes: not for a thread that others wait for. */
void halo_prefix_record_seal(uint8_t *record, const struct halo_prefix_key *key);
void halo_prefix_header_seal(uint8_t header[HALO_PREFIX_HEADER_BYTES], const struct halo_prefix_key *key,
                             const uint8_t save[HALO_PREFIX_SAVE_BYTES], uint32_t n_records);

/* Checks everything. 0 and the number of records; -EINVAL with the reason. */
int halo_prefix_image_check(const uint8_t *image, size_t n, const struct halo_prefix_key *key, uint32_t *ret_n_records,
                            struct halo_fault *fault);

/* Record `index` of an image that was checked; its page is in the image. */
const uint8_t *halo_prefix_image_record(const uint8_t *image, const struct halo_prefix_key *key, uint32_t index,
                                        struct halo_prefix_record *ret);

#endif
