/* gguf_keys.c: typed access to the keys of the first part. Any thread: nothing is written. */
#include <errno.h>

#include "gguf_priv.h"

static struct halo_span part_key_name(const void *ud, uint32_t i)
{
    const struct gguf_part *part = ud;
    return (struct halo_span){(const char *)part->source.bytes + part->keys[i].name_at, part->keys[i].name_n};
}

const struct gguf_key *gguf_part_find_key(const struct gguf_part *part, const char *name)
{
    uint32_t i = gguf_index_find(&part->key_index, (struct halo_span){name, strlen(name)}, part_key_name, part);
    return i == GGUF_INDEX_NONE ? NULL : &part->keys[i];
}

static int wrong_type(const struct gguf_key *key, const char *name, const char *wanted, struct halo_fault *fault)
{
    bool array = key->kind == HALO_GGUF_ARRAY;
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "key '%s' must be %s, the file has %s%s", name, wanted,
                          array ? "an array of " : "type ", gguf_kind_name(array ? key->element_kind : key->kind));
}

int gguf_part_get_u64(const struct gguf_part *part, const char *name, uint64_t *ret, struct halo_fault *fault)
{
    const struct gguf_key *key = gguf_part_find_key(part, name);
    if (!key)
        return HALO_GGUF_ABSENT;
    struct halo_gguf_array one = {key->kind, 1, part->source.bytes + key->value_at,
                                  part->source.bytes + key->value_at + key->value_n, 1};
    if (key->kind == HALO_GGUF_U64) {
        *ret = gguf_load_u64(one.at);
        return 0;
    }
    int64_t value;
    if (key->kind == HALO_GGUF_BOOL || !halo_gguf_next_i64(&one, &value))
        return wrong_type(key, name, "an integer", fault);
    if (value < 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "key '%s' is %lld, it must not be negative", name,
                              (long long)value);
    *ret = (uint64_t)value;
    return 0;
}

bool halo_gguf_has(const struct halo_gguf *gguf, const char *key)
{
    return gguf_part_find_key(&gguf->parts[0], key) != NULL;
}

int halo_gguf_get_u64(const struct halo_gguf *gguf, const char *key, uint64_t *ret, struct halo_fault *fault)
{
    return gguf_part_get_u64(&gguf->parts[0], key, ret, fault);
}

int halo_gguf_get_i64(const struct halo_gguf *gguf, const char *name, int64_t *ret, struct halo_fault *fault)
{
    const struct gguf_part *part = &gguf->parts[0];
    const struct gguf_key *key = gguf_part_find_key(part, name);
    if (!key)
        return HALO_GGUF_ABSENT;
    struct halo_gguf_array one = {key->kind, 1, part->source.bytes + key->value_at,
                                  part->source.bytes + key->value_at + key->value_n, 1};
    if (key->kind == HALO_GGUF_U64 && gguf_load_u64(one.at) > INT64_MAX)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "key '%s' is %llu, it must be below 2^63", name,
                              (unsigned long long)gguf_load_u64(one.at));
    if (key->kind == HALO_GGUF_BOOL || !halo_gguf_next_i64(&one, ret))
        return wrong_type(key, name, "an integer", fault);
    return 0;
}

int halo_gguf_get_f64(const struct halo_gguf *gguf, const char *name, double *ret, struct halo_fault *fault)
{
    const struct gguf_part *part = &gguf->parts[0];
    const struct gguf_key *key = gguf_part_find_key(part, name);
    if (!key)
        return HALO_GGUF_ABSENT;
    struct halo_gguf_array one = {key->kind, 1, part->source.bytes + key->value_at,
                                  part->source.bytes + key->value_at + key->value_n, 1};
    if (key->kind == HALO_GGUF_BOOL || !halo_gguf_next_f64(&one, ret))
        return wrong_type(key, name, "a number", fault);
    return 0;
}

/* The key, which must be of this kind. HALO_GGUF_ABSENT, or the fault. */
static int find_of_kind(const struct halo_gguf *gguf, const char *name, enum halo_gguf_kind kind, const char *wanted,
                        const struct gguf_key **ret, struct halo_fault *fault)
{
    *ret = gguf_part_find_key(&gguf->parts[0], name);
    if (!*ret)
        return HALO_GGUF_ABSENT;
    return (*ret)->kind == kind ? 0 : wrong_type(*ret, name, wanted, fault);
}

int halo_gguf_get_bool(const struct halo_gguf *gguf, const char *name, bool *ret, struct halo_fault *fault)
{
    const struct gguf_key *key;
    int r = find_of_kind(gguf, name, HALO_GGUF_BOOL, "a bool", &key, fault);
    if (r)
        return r;
    *ret = gguf->parts[0].source.bytes[key->value_at] != 0;
    return 0;
}

int halo_gguf_get_string(const struct halo_gguf *gguf, const char *name, struct halo_span *ret,
                         struct halo_fault *fault)
{
    const struct gguf_key *key;
    int r = find_of_kind(gguf, name, HALO_GGUF_STRING, "a string", &key, fault);
    if (r)
        return r;
    *ret = (struct halo_span){(const char *)gguf->parts[0].source.bytes + key->value_at, key->value_n};
    return 0;
}

int halo_gguf_get_array(const struct halo_gguf *gguf, const char *name, struct halo_gguf_array *ret,
                        struct halo_fault *fault)
{
    const struct gguf_key *key;
    int r = find_of_kind(gguf, name, HALO_GGUF_ARRAY, "an array", &key, fault);
    if (r)
        return r;
    const uint8_t *at = gguf->parts[0].source.bytes + key->value_at;
    *ret = (struct halo_gguf_array){key->element_kind, key->n, at, at + key->value_n, key->n};
    return 0;
}
