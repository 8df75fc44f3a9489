/* gguf_priv.h: the inside of the GGUF reader: byte source, parsed keys, parts.
 *
 * Places in the directory are kept as offsets, because the buffer moves while it grows; they become spans only in the
 * getters, after the object is complete. Everything belongs to one struct halo_gguf.
 */
#ifndef HALO_STORE_GGUF_PRIV_H
#define HALO_STORE_GGUF_PRIV_H

#include <pthread.h>
#include <string.h>

#include <base/hash.h>

#include <store/gguf.h>

/* gguf_foreign.c: a sentence without its subject on a file that begins so and is no GGUF file; NULL: nothing is known.
 */
const char *gguf_foreign_kind(const uint8_t *bytes, uint64_t n);

#define GGUF_HEADER_BYTES 24
#define GGUF_DEFAULT_ALIGNMENT 32
#define GGUF_MAX_ALIGNMENT (1u << 20)
/* The largest directory in the field is about 30 MiB (a vocabulary of 262144 tokens); a million tensors take 60 MiB. */
#define GGUF_MAX_DIRECTORY_BYTES ((uint64_t)1 << 30)

/* Reads of the directory, from the start of the file and no further than asked or twice what is there. */
struct gguf_source {
    const uint8_t *bytes; /* [0, n_have) */
    uint8_t *owned;       /* the same when the bytes were read from a file, NULL when they are the caller's */
    uint64_t n_have;
    uint64_t n_file;        /* size of the file when it was opened */
    struct halo_file_id id; /* as it was opened; zero for memory */
    int fd;                 /* -1: closed, or memory */
};

int gguf_source_open(struct gguf_source *source, const char *path, struct halo_fault *fault);
void gguf_source_open_memory(struct gguf_source *source, const void *bytes, size_t n);
/* Makes [0, end) present. The caller has checked end <= n_file. */
int gguf_source_need(struct gguf_source *source, uint64_t end, struct halo_fault *fault);
/* The directory ends at `end`: gives back what was read past it. */
void gguf_source_trim(struct gguf_source *source, uint64_t end);
void gguf_source_close(struct gguf_source *source); /* the file; the directory stays */
void gguf_source_finish(struct gguf_source *source);

struct gguf_key {
    uint64_t name_at;  /* offset of the name's bytes */
    uint64_t value_at; /* offset of the value: of the bytes of a string, of the first element of an array */
    uint64_t value_n;  /* bytes of the value */
    uint64_t n;        /* elements of an array */
    uint32_t name_n;
    uint8_t kind; /* enum halo_gguf_kind */
    uint8_t element_kind;
};

/* A hash table over names that lie elsewhere. Keyed by random numbers, so that a file cannot be made to collide. */
struct gguf_index {
    struct gguf_slot *slots;
    uint64_t mask;
    uint64_t key[2];
};
#define GGUF_INDEX_NONE UINT32_MAX

typedef struct halo_span gguf_name_fn(const void *ud, uint32_t i);

/* 0, positive GGUF_INDEX_DUPLICATE with *ret_duplicate the second of two equal names, or -ENOMEM. */
#define GGUF_INDEX_DUPLICATE 1
int gguf_index_build(struct gguf_index *index, uint64_t n, gguf_name_fn *name_of, const void *ud,
                     uint32_t *ret_duplicate);
uint32_t gguf_index_find(const struct gguf_index *index, struct halo_span name, gguf_name_fn *name_of, const void *ud);
void gguf_index_finish(struct gguf_index *index);

struct gguf_part {
    char *path; /* NULL for memory */
    struct gguf_source source;
    struct gguf_key *keys;
    uint64_t n_keys;
    struct gguf_index key_index;
    uint32_t version;
    uint64_t alignment;
    uint64_t directory_bytes; /* end of the tensor infos */
    uint64_t data_at;         /* the same, rounded up to the alignment */
    uint64_t first_tensor;    /* in gguf->tensors */
    uint64_t n_tensors;
};

struct halo_gguf {
    struct gguf_part *parts;
    uint32_t n_parts;
    struct halo_gguf_tensor *tensors;
    uint64_t n_tensors;
    uint64_t tensors_cap;
    struct gguf_index tensor_index;
    pthread_mutex_t fingerprint_lock;
    char fingerprint[HALO_SHA256_HEX]; /* made when first asked for: hashing the vocabulary takes longer than reading it
                                        */
};

/* gguf_parse.c: reads header, keys and tensor infos of one part; appends to gguf->tensors with offsets relative to the
 * data. */
int gguf_part_parse(struct halo_gguf *gguf, uint32_t part, struct halo_fault *fault);

/* gguf_check.c: makes the offsets absolute; inside the file, aligned, not overlapping. */
int gguf_part_check_data(struct halo_gguf *gguf, uint32_t part, struct halo_fault *fault);

/* gguf_split.c: the parts of a set, counted from 1 in names and from 0 in keys. */
bool gguf_split_name_parse(const char *path, uint32_t *ret_number, uint32_t *ret_count);
char *gguf_split_path(const char *first, uint32_t number, uint32_t count); /* malloc; NULL: no memory */
int gguf_split_count(const struct gguf_part *first, uint32_t *ret_count, struct halo_fault *fault);
int gguf_split_check_part(const struct gguf_part *part, uint32_t index, uint32_t n_parts, struct halo_fault *fault);
int gguf_split_check_tensors(const struct gguf_part *part, uint64_t n_tensors, struct halo_fault *fault);

/* gguf_keys.c: the getters over one part's keys. */
const struct gguf_key *gguf_part_find_key(const struct gguf_part *part, const char *name);
int gguf_part_get_u64(const struct gguf_part *part, const char *name, uint64_t *ret, struct halo_fault *fault);

/* gguf_kind.c */
const char *gguf_kind_name(uint32_t kind); /* "u32"; NULL when there is no such kind */
const char *gguf_type_name(uint32_t type); /* of any tensor type of the format, supported or not; NULL: none known */
uint32_t gguf_kind_bytes(uint32_t kind);   /* of one element; 0 for strings and arrays */

#define GGUF_SPAN_SHOWN 80 /* bytes of a name that a fault shows */

static inline int gguf_shown(size_t n)
{
    return n < GGUF_SPAN_SHOWN ? (int)n : GGUF_SPAN_SHOWN;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie in the file");

static inline uint16_t gguf_load_u16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint32_t gguf_load_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t gguf_load_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

#endif
