/* gguf_parse.c: one pass over the directory of one file.
 *
 * One thread. Every length is compared with what is left of the file before anything is read or allocated by it; tables
 * grow with what was really parsed, never by a declared count. Faults name the key or tensor and the byte where it
 * begins. A failure leaves the part half-filled; halo_gguf_close cleans up.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gguf_priv.h"

#define KEY_MIN_BYTES (8 + 1 + 4 + 1)            /* length, one letter, type, one byte */
#define TENSOR_MIN_BYTES (8 + 1 + 4 + 8 + 4 + 8) /* length, one letter, dimensions, one dimension, type, offset */

struct parser {
    struct gguf_source *source;
    uint64_t at; /* never past the file's end */
    /* where we are, for faults */
    const char *noun; /* "header", "key" or "tensor" */
    uint64_t number;  /* counted from 1 */
    uint64_t begin;   /* offset of its first byte */
    uint64_t name_at; /* valid once named */
    size_t name_n;
    struct halo_fault *fault;
};

/* Fills the fault with "key 'general.name' at byte 24: ..." and returns its errno. */
__attribute__((format(printf, 3, 4))) static int fail(struct parser *p, enum halo_fault_code code, const char *format,
                                                      ...)
{
    char text[sizeof(p->fault->text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    unsigned long long begin = p->begin;
    if (p->name_n)
        return halo_fault_set(p->fault, code, "%s '%.*s' at byte %llu: %s", p->noun, gguf_shown(p->name_n),
                              (const char *)p->source->bytes + p->name_at, begin, text);
    if (p->number)
        return halo_fault_set(p->fault, code, "%s %llu at byte %llu: %s", p->noun, (unsigned long long)p->number, begin,
                              text);
    return halo_fault_set(p->fault, code, "%s: %s", p->noun, text);
}

/* Makes the next n bytes present. What they are for appears in the fault. */
static int need(struct parser *p, uint64_t n, const char *what)
{
    uint64_t left = p->source->n_file - p->at;
    if (n > left)
        return fail(p, HALO_FAULT_LOAD_FAILED, "%s needs %llu bytes at byte %llu, but the file ends at %llu", what,
                    (unsigned long long)n, (unsigned long long)p->at, (unsigned long long)p->source->n_file);
    if (p->at + n > GGUF_MAX_DIRECTORY_BYTES)
        return fail(p, HALO_FAULT_LOAD_FAILED, "%s ends at byte %llu, a directory may have %llu bytes", what,
                    (unsigned long long)(p->at + n), (unsigned long long)GGUF_MAX_DIRECTORY_BYTES);
    return gguf_source_need(p->source, p->at + n, p->fault);
}

static int take_u32(struct parser *p, const char *what, uint32_t *ret)
{
    int r = need(p, 4, what);
    if (r)
        return r;
    *ret = gguf_load_u32(p->source->bytes + p->at);
    p->at += 4;
    return 0;
}

static int take_u64(struct parser *p, const char *what, uint64_t *ret)
{
    int r = need(p, 8, what);
    if (r)
        return r;
    *ret = gguf_load_u64(p->source->bytes + p->at);
    p->at += 8;
    return 0;
}

/* A length, then that many bytes. */
static int take_string(struct parser *p, const char *what, uint64_t *ret_at, uint64_t *ret_n)
{
    int r = take_u64(p, what, ret_n);
    if (!r)
        r = need(p, *ret_n, what);
    if (r)
        return r;
    *ret_at = p->at;
    p->at += *ret_n;
    return 0;
}

/* Names go into messages and JSON as they are: printable ASCII only. */
static int take_name(struct parser *p, uint64_t max, uint64_t *ret_at, uint64_t *ret_n)
{
    int r = take_u64(p, "the length of the name", ret_n);
    if (r)
        return r;
    if (*ret_n == 0)
        return fail(p, HALO_FAULT_LOAD_FAILED, "its name is empty");
    if (*ret_n > max)
        return fail(p, HALO_FAULT_LOAD_FAILED, "its name has %llu bytes, at most %llu are allowed",
                    (unsigned long long)*ret_n, (unsigned long long)max);
    r = need(p, *ret_n, "the name");
    if (r)
        return r;
    *ret_at = p->at;
    for (uint64_t i = 0; i < *ret_n; i++) {
        uint8_t c = p->source->bytes[p->at + i];
        if (c < 0x20 || c > 0x7e)
            return fail(p, HALO_FAULT_LOAD_FAILED, "byte %llu of its name is 0x%02x, not printable ASCII",
                        (unsigned long long)i, c);
    }
    p->at += *ret_n;
    p->name_at = *ret_at;
    p->name_n = *ret_n;
    return 0;
}

static int parse_header(struct parser *p, struct gguf_part *part, uint64_t *ret_n_tensors, uint64_t *ret_n_keys)
{
    p->noun = "header";
    uint64_t n_file = p->source->n_file;
    if (n_file < GGUF_HEADER_BYTES)
        return fail(p, HALO_FAULT_LOAD_FAILED, "a GGUF file begins with %d bytes, this file has %llu",
                    GGUF_HEADER_BYTES, (unsigned long long)n_file);
    int r = need(p, GGUF_HEADER_BYTES, "the header");
    if (r)
        return r;
    const uint8_t *head = p->source->bytes;
    const char *foreign = gguf_foreign_kind(head, p->source->n_have);
    if (foreign)
        return halo_fault_set(p->fault, HALO_FAULT_LOAD_FAILED, "this %s", foreign);
    if (memcmp(head, "GGUF", 4) != 0)
        return fail(p, HALO_FAULT_LOAD_FAILED, "not a GGUF file, it begins with the bytes %02x %02x %02x %02x", head[0],
                    head[1], head[2], head[3]);
    uint32_t version = gguf_load_u32(head + 4);
    if (version != 0 && (version & 0xffff) == 0)
        return fail(p, HALO_FAULT_UNSUPPORTED, "the file is big-endian (version 0x%08x); convert it to little-endian",
                    version);
    if (version == 0)
        return fail(p, HALO_FAULT_LOAD_FAILED, "version 0 does not exist");
    if (version != 2 && version != 3)
        return fail(p, HALO_FAULT_UNSUPPORTED, "version %u; this reader knows 2 and 3", version);
    part->version = version;
    *ret_n_tensors = gguf_load_u64(head + 8);
    *ret_n_keys = gguf_load_u64(head + 16);
    p->at = GGUF_HEADER_BYTES;
    uint64_t left = n_file - p->at;
    if (*ret_n_keys > left / KEY_MIN_BYTES)
        return fail(p, HALO_FAULT_LOAD_FAILED, "it declares %llu keys, a file of %llu bytes has room for %llu",
                    (unsigned long long)*ret_n_keys, (unsigned long long)n_file,
                    (unsigned long long)(left / KEY_MIN_BYTES));
    if (*ret_n_tensors > left / TENSOR_MIN_BYTES)
        return fail(p, HALO_FAULT_LOAD_FAILED, "it declares %llu tensors, a file of %llu bytes has room for %llu",
                    (unsigned long long)*ret_n_tensors, (unsigned long long)n_file,
                    (unsigned long long)(left / TENSOR_MIN_BYTES));
    return 0;
}

static int check_bools(struct parser *p, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p->source->bytes[at + i] > 1)
            return fail(p, HALO_FAULT_LOAD_FAILED, "a bool is the byte %u, only 0 and 1 exist",
                        p->source->bytes[at + i]);
    return 0;
}

static int parse_array(struct parser *p, struct gguf_key *key)
{
    uint32_t kind;
    int r = take_u32(p, "the type of the elements", &kind);
    if (!r)
        r = take_u64(p, "the number of elements", &key->n);
    if (r)
        return r;
    if (kind == HALO_GGUF_ARRAY)
        return fail(p, HALO_FAULT_LOAD_FAILED, "an array of arrays; nesting is not allowed");
    if (!gguf_kind_name(kind))
        return fail(p, HALO_FAULT_LOAD_FAILED, "elements of unknown type %u", kind);
    key->element_kind = (uint8_t)kind;
    /* One byte at least for each element, so that the product below cannot wrap. */
    uint64_t least = kind == HALO_GGUF_STRING ? 8 : gguf_kind_bytes(kind), left = p->source->n_file - p->at;
    if (key->n > left / least)
        return fail(
            p, HALO_FAULT_LOAD_FAILED, "%llu elements of type %s need at least %llu bytes each, %llu bytes are left",
            (unsigned long long)key->n, gguf_kind_name(kind), (unsigned long long)least, (unsigned long long)left);
    key->value_at = p->at;
    if (kind != HALO_GGUF_STRING) {
        r = need(p, key->n * least, "the array");
        if (!r && kind == HALO_GGUF_BOOL)
            r = check_bools(p, p->at, key->n);
        p->at += r ? 0 : key->n * least;
    }
    for (uint64_t i = 0; !r && kind == HALO_GGUF_STRING && i < key->n; i++) {
        uint64_t at, n;
        r = take_string(p, "an element of the array", &at, &n);
    }
    key->value_n = p->at - key->value_at;
    return r;
}

static int parse_key(struct parser *p, struct gguf_key *key)
{
    uint64_t name_n;
    uint32_t kind;
    int r = take_name(p, HALO_GGUF_MAX_KEY, &key->name_at, &name_n);
    if (!r)
        r = take_u32(p, "the type", &kind);
    if (r)
        return r;
    key->name_n = (uint32_t)name_n;
    if (!gguf_kind_name(kind))
        return fail(p, HALO_FAULT_LOAD_FAILED, "unknown value type %u", kind);
    key->kind = (uint8_t)kind;
    if (kind == HALO_GGUF_ARRAY)
        return parse_array(p, key);
    if (kind == HALO_GGUF_STRING)
        return take_string(p, "the string", &key->value_at, &key->value_n);
    key->value_n = gguf_kind_bytes(kind);
    r = need(p, key->value_n, "the value");
    if (r)
        return r;
    key->value_at = p->at;
    p->at += key->value_n;
    return kind == HALO_GGUF_BOOL ? check_bools(p, key->value_at, 1) : 0;
}

/* Room for one more element in a table that grows by halves. */
static void *table_grow(void *table, uint64_t n, uint64_t *cap, size_t size)
{
    if (n < *cap)
        return table;
    uint64_t more = *cap ? *cap + *cap / 2 : 64;
    void *grown = reallocarray(table, more, size);
    if (grown)
        *cap = more;
    return grown;
}

static struct halo_span part_key_name(const void *ud, uint32_t i)
{
    const struct gguf_part *part = ud;
    return (struct halo_span){(const char *)part->source.bytes + part->keys[i].name_at, part->keys[i].name_n};
}

static int parse_keys(struct parser *p, struct gguf_part *part, uint64_t n_keys)
{
    uint64_t cap = 0;
    p->noun = "key";
    for (uint64_t i = 0; i < n_keys; i++) {
        struct gguf_key *keys = table_grow(part->keys, i, &cap, sizeof(*keys));
        if (!keys)
            return fail(p, HALO_FAULT_OUT_OF_MEMORY, "no memory for a table of %llu keys", (unsigned long long)i + 1);
        part->keys = keys;
        p->number = i + 1;
        p->begin = p->at;
        p->name_n = 0;
        keys[i] = (struct gguf_key){0};
        int r = parse_key(p, &keys[i]);
        if (r)
            return r;
        part->n_keys = i + 1;
    }
    uint32_t twice;
    int r = gguf_index_build(&part->key_index, n_keys, part_key_name, part, &twice);
    if (r < 0)
        return halo_fault_set(p->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to index %llu keys",
                              (unsigned long long)n_keys);
    if (r) {
        struct halo_span name = part_key_name(part, twice);
        return halo_fault_set(p->fault, HALO_FAULT_LOAD_FAILED, "key '%.*s' appears twice", gguf_shown(name.n),
                              name.bytes);
    }
    return 0;
}

/* Dimensions, type and size; every product is checked. */
static int parse_shape(struct parser *p, struct halo_gguf_tensor *t)
{
    int r = take_u32(p, "the number of dimensions", &t->n_dims);
    if (r)
        return r;
    if (t->n_dims < 1 || t->n_dims > HALO_GGUF_MAX_DIMS)
        return fail(p, HALO_FAULT_LOAD_FAILED, "%u dimensions, 1 to %d are allowed", t->n_dims, HALO_GGUF_MAX_DIMS);
    uint64_t n_weights = 1;
    for (uint32_t i = 0; i < HALO_GGUF_MAX_DIMS; i++)
        t->dims[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        r = take_u64(p, "a dimension", &t->dims[i]);
        if (r)
            return r;
        if (t->dims[i] == 0)
            return fail(p, HALO_FAULT_LOAD_FAILED, "dimension %u is 0", i);
        if (__builtin_mul_overflow(n_weights, t->dims[i], &n_weights) || n_weights > INT64_MAX)
            return fail(p, HALO_FAULT_LOAD_FAILED, "the product of its dimensions passes 2^63 at dimension %u of %llu",
                        i, (unsigned long long)t->dims[i]);
    }
    uint32_t type;
    r = take_u32(p, "the tensor type", &type);
    if (r)
        return r;
    struct halo_type_info info = halo_type_info(type);
    if (!info.name) {
        bool removed = type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
        const char *name = gguf_type_name(type);
        if (!name)
            return fail(p, HALO_FAULT_UNSUPPORTED, "type number %u is not known", type);
        return fail(p, HALO_FAULT_UNSUPPORTED,
                    removed ? "type %s (%u) was removed from the format" : "type %s (%u) is not supported", name, type);
    }
    t->type = (enum halo_type)type;
    if (t->dims[0] % info.block_weights)
        return fail(p, HALO_FAULT_LOAD_FAILED, "rows of %llu weights do not divide into %s blocks of %u",
                    (unsigned long long)t->dims[0], info.name, info.block_weights);
    if (__builtin_mul_overflow(n_weights / info.block_weights, (uint64_t)info.block_bytes, &t->n_bytes))
        return fail(p, HALO_FAULT_LOAD_FAILED, "%llu weights of type %s pass 2^64 bytes", (unsigned long long)n_weights,
                    info.name);
    return 0;
}

static int parse_tensors(struct parser *p, struct halo_gguf *gguf, uint32_t part_no, uint64_t n_tensors)
{
    struct gguf_part *part = &gguf->parts[part_no];
    p->noun = "tensor";
    part->first_tensor = gguf->n_tensors;
    for (uint64_t i = 0; i < n_tensors; i++) {
        struct halo_gguf_tensor *tensors =
            table_grow(gguf->tensors, gguf->n_tensors, &gguf->tensors_cap, sizeof(*tensors));
        if (!tensors)
            return fail(p, HALO_FAULT_OUT_OF_MEMORY, "no memory for a table of %llu tensors",
                        (unsigned long long)gguf->n_tensors + 1);
        gguf->tensors = tensors;
        p->number = i + 1;
        p->begin = p->at;
        p->name_n = 0;
        struct halo_gguf_tensor *t = &tensors[gguf->n_tensors];
        *t = (struct halo_gguf_tensor){.part = part_no};
        uint64_t name_at, name_n;
        int r = take_name(p, HALO_GGUF_MAX_NAME, &name_at, &name_n);
        if (r)
            return r;
        memcpy(t->name, p->source->bytes + name_at, name_n);
        r = parse_shape(p, t);
        if (!r)
            r = take_u64(p, "the offset", &t->offset);
        if (r)
            return r;
        gguf->n_tensors++;
        part->n_tensors++;
    }
    return 0;
}

static int parse_alignment(struct parser *p, struct gguf_part *part)
{
    part->alignment = GGUF_DEFAULT_ALIGNMENT;
    const struct gguf_key *key = gguf_part_find_key(part, "general.alignment");
    if (!key)
        return 0;
    if (key->kind != HALO_GGUF_U32)
        return halo_fault_set(p->fault, HALO_FAULT_LOAD_FAILED, "key 'general.alignment' is of type %s, it must be u32",
                              gguf_kind_name(key->kind));
    uint32_t value = gguf_load_u32(part->source.bytes + key->value_at);
    if (value < 8 || value > GGUF_MAX_ALIGNMENT || (value & (value - 1)))
        return halo_fault_set(p->fault, HALO_FAULT_LOAD_FAILED,
                              "key 'general.alignment' is %u, it must be a power of two from 8 to %u", value,
                              GGUF_MAX_ALIGNMENT);
    part->alignment = value;
    return 0;
}

int gguf_part_parse(struct halo_gguf *gguf, uint32_t part_no, struct halo_fault *fault)
{
    struct gguf_part *part = &gguf->parts[part_no];
    struct parser p = {.source = &part->source, .fault = fault};
    uint64_t n_tensors = 0, n_keys = 0;
    int r = parse_header(&p, part, &n_tensors, &n_keys);
    if (!r)
        r = parse_keys(&p, part, n_keys);
    if (!r)
        r = parse_alignment(&p, part);
    if (!r)
        r = parse_tensors(&p, gguf, part_no, n_tensors);
    if (r)
        return r;
    part->directory_bytes = p.at;
    part->data_at = (p.at + part->alignment - 1) & ~(part->alignment - 1);
    gguf_source_trim(&part->source, p.at);
    return 0;
}
