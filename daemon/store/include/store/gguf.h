/* gguf.h: the directory of a GGUF file: its metadata and the places of its tensors.
 *
 * Reads GGUF version 2 and 3, little-endian, one file or a split set (PREFIX-00001-of-0000N.gguf, opened through its
 * first part). Trusts nothing: every count, length, dimension and offset is checked against the file's size before use,
 * with arithmetic that cannot wrap; memory never exceeds the bytes of the directory plus a constant factor of what was
 * actually read. Reads by pread(2), opened O_NONBLOCK and refused unless a regular file; never maps. Format:
 * the file gguf.md of ggml, and docs/FORMATS.md here.
 *
 * Owner: the caller of halo_gguf_open. Immutable afterwards, so any thread may read it. All strings are spans into the
 * directory's own memory and live as long as it.
 */
#ifndef HALO_STORE_GGUF_H
#define HALO_STORE_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/span.h>
#include <kernels/tensor.h>

#include <store/file_id.h>

#define HALO_GGUF_MAX_DIMS 4
#define HALO_GGUF_MAX_NAME 63 /* bytes of a tensor's name without the NUL */
#define HALO_GGUF_MAX_KEY 65535
#define HALO_GGUF_MAX_PARTS 99999

enum halo_gguf_kind {
    HALO_GGUF_U8,
    HALO_GGUF_I8,
    HALO_GGUF_U16,
    HALO_GGUF_I16,
    HALO_GGUF_U32,
    HALO_GGUF_I32,
    HALO_GGUF_F32,
    HALO_GGUF_BOOL,
    HALO_GGUF_STRING,
    HALO_GGUF_ARRAY,
    HALO_GGUF_U64,
    HALO_GGUF_I64,
    HALO_GGUF_F64,
};

struct halo_gguf_tensor {
    char name[HALO_GGUF_MAX_NAME + 1];
    enum halo_type type;
    uint32_t n_dims;
    uint64_t dims[HALO_GGUF_MAX_DIMS]; /* dims[0] is the contiguous row; absent ones are 1 */
    uint64_t n_bytes;                  /* exact, without padding */
    uint32_t part;                     /* index of the file that holds it */
    uint64_t offset;                   /* from the start of that file, multiple of the alignment */
};

struct halo_gguf;

/* Opens and checks. On failure *ret is NULL and fault says what, where (byte offset, key or tensor name) and the
 * numbers: LOAD_FAILED for a malformed or unreadable file or set of parts, NOT_FOUND when it does not exist,
 * UNSUPPORTED for big-endian, version 1 or a removed tensor type, OUT_OF_MEMORY. */
int halo_gguf_open(struct halo_gguf **ret, const char *path, struct halo_fault *fault);
/* The same over bytes in memory (fuzzers, tests): `n` is the size of the "file", one part only. The bytes must outlive
 * the object. */
int halo_gguf_open_memory(struct halo_gguf **ret, const void *bytes, size_t n, struct halo_fault *fault);
void halo_gguf_close(struct halo_gguf *gguf);

uint32_t halo_gguf_version(const struct halo_gguf *gguf);
uint32_t halo_gguf_n_parts(const struct halo_gguf *gguf);
const char *halo_gguf_part_path(const struct halo_gguf *gguf, uint32_t part);
/* The descriptor that the directory was read through: of the same file, whatever its name leads to by now. -1: closed,
 * or memory. */
int halo_gguf_part_fd(const struct halo_gguf *gguf, uint32_t part);
const struct halo_file_id *halo_gguf_part_id(const struct halo_gguf *gguf, uint32_t part); /* as it was opened */
struct halo_file_id halo_gguf_id(const struct halo_gguf *gguf);                            /* of all parts */
/* What halo_gguf_id() would say if the file were opened now, as far as its name tells; reads no byte of it. Of a set
 * that lacks a part: up to that. 0; a negative errno, -EISDIR: not a regular file. */
int halo_gguf_id_at(const char *path, struct halo_file_id *ret);
/* What was read stays. Whoever has a descriptor must not use it any more. */
void halo_gguf_close_files(struct halo_gguf *gguf);
/* Puts the file's own name (of a split model: its first part's) in front of a fault; nothing without a path. */
void halo_gguf_name_fault(const struct halo_gguf *gguf, struct halo_fault *fault);
uint64_t halo_gguf_part_bytes(const struct halo_gguf *gguf, uint32_t part);
uint64_t halo_gguf_total_bytes(const struct halo_gguf *gguf); /* all parts */
uint64_t halo_gguf_alignment(const struct halo_gguf *gguf);

uint64_t halo_gguf_n_tensors(const struct halo_gguf *gguf);
const struct halo_gguf_tensor *halo_gguf_tensor(const struct halo_gguf *gguf, uint64_t index);
/* By name, hashed. NULL when absent. */
const struct halo_gguf_tensor *halo_gguf_find_tensor(const struct halo_gguf *gguf, const char *name);

/* Keys. has() tells presence; kind() the declared type (of the elements for an array). */
bool halo_gguf_has(const struct halo_gguf *gguf, const char *key);
/* Typed getters: 0, or positive HALO_GGUF_ABSENT, or negative with the fault naming the key, the wanted and the found
 * type. get_u64 takes every integer type whose value is not negative; get_f64 every float and integer type; none
 * converts a string. */
#define HALO_GGUF_ABSENT 1
int halo_gguf_get_u64(const struct halo_gguf *gguf, const char *key, uint64_t *ret, struct halo_fault *fault);
int halo_gguf_get_i64(const struct halo_gguf *gguf, const char *key, int64_t *ret, struct halo_fault *fault);
int halo_gguf_get_f64(const struct halo_gguf *gguf, const char *key, double *ret, struct halo_fault *fault);
int halo_gguf_get_bool(const struct halo_gguf *gguf, const char *key, bool *ret, struct halo_fault *fault);
int halo_gguf_get_string(const struct halo_gguf *gguf, const char *key, struct halo_span *ret,
                         struct halo_fault *fault);

/* Arrays are walked in place: element i of a string array needs the walk, so iterate with a cursor. */
struct halo_gguf_array {
    enum halo_gguf_kind kind; /* of the elements */
    uint64_t n;
    const uint8_t *at;  /* cursor */
    const uint8_t *end; /* end of the checked payload */
    uint64_t left;
};
int halo_gguf_get_array(const struct halo_gguf *gguf, const char *key, struct halo_gguf_array *ret,
                        struct halo_fault *fault);
/* Takes the next element; false at the end. next_string needs STRING; next_i64 any integer or bool type; next_f64 any
 * number. */
bool halo_gguf_next_string(struct halo_gguf_array *array, struct halo_span *ret);
bool halo_gguf_next_i64(struct halo_gguf_array *array, int64_t *ret);
bool halo_gguf_next_f64(struct halo_gguf_array *array, double *ret);

/* A fingerprint of the directory (SHA-256 over all metadata bytes, hex): together with the size it
 * distinguishes a changed model file from the old one. */
const char *halo_gguf_fingerprint(const struct halo_gguf *gguf);

/* Sizes and modification times of the files as they were opened, as an MD5. Cheap; a rewritten file gets another one,
 * even with the same bytes. */
#define HALO_GGUF_STAMP_BYTES 33
void halo_gguf_stamp(const struct halo_gguf *gguf, char ret_stamp[HALO_GGUF_STAMP_BYTES]);

#endif
