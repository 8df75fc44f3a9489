/* value.c: values of templates: builders for those who render, and the dict.
 *
 * Whoever owns the arena owns the values; nothing is freed on its own. A dict keeps the order of insertion; past eight
 * entries it has an index by open addressing. Its hash is keyed by the dict's address, so that a request cannot choose
 * keys that collide. Fails with -ENOMEM.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "jinja_priv.h"

#define SMALL_DICT 8

static int make_string(struct halo_arena *arena, struct halo_jinja_value *ret, const char *bytes, size_t n,
                       bool template)
{
    struct halo_jinja_string *string = halo_arena_alloc(arena, 1, sizeof *string);
    if (!string)
        return -ENOMEM;
    *string = (struct halo_jinja_string){.bytes = bytes, .n = n, .is_template = template};
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_STRING, .string = string};
    return 0;
}

int halo_jinja_string(struct halo_arena *arena, struct halo_jinja_value *ret, const char *bytes, size_t n)
{
    return make_string(arena, ret, bytes, n, false);
}

int halo_jinja_string_template(struct halo_arena *arena, struct halo_jinja_value *ret, const char *bytes, size_t n)
{
    return make_string(arena, ret, bytes, n, true);
}

int halo_jinja_list(struct halo_arena *arena, struct halo_jinja_value *ret)
{
    struct halo_jinja_list *list = halo_arena_alloc(arena, 1, sizeof *list);
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_LIST, .list = list};
    return list ? 0 : -ENOMEM;
}

int halo_jinja_list_add(struct halo_arena *arena, struct halo_jinja_list *list, struct halo_jinja_value item)
{
    if (list->n == list->n_held) {
        size_t n_held = list->n_held ? 2 * list->n_held : 4;
        struct halo_jinja_value *items = halo_arena_alloc(arena, n_held, sizeof *items);
        if (!items)
            return -ENOMEM;
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->n_held = n_held;
    }
    list->items[list->n++] = item;
    return 0;
}

int halo_jinja_list_push(struct halo_arena *arena, struct halo_jinja_value list, struct halo_jinja_value item)
{
    assert(list.kind == HALO_JINJA_LIST);
    return halo_jinja_list_add(arena, list.list, item);
}

int halo_jinja_dict(struct halo_arena *arena, struct halo_jinja_value *ret)
{
    struct halo_jinja_dict *dict = halo_arena_alloc(arena, 1, sizeof *dict);
    *ret = (struct halo_jinja_value){.kind = HALO_JINJA_DICT, .dict = dict};
    return dict ? 0 : -ENOMEM;
}

int halo_jinja_dict_put(struct halo_arena *arena, struct halo_jinja_value dict, const char *key, size_t n_key,
                        struct halo_jinja_value value)
{
    struct halo_jinja_value name;
    assert(dict.kind == HALO_JINJA_DICT);
    if (halo_jinja_string(arena, &name, key, n_key) < 0)
        return -ENOMEM;
    return halo_jinja_dict_set(arena, dict.dict, name, value);
}

size_t halo_jinja_list_n(struct halo_jinja_value list)
{
    assert(list.kind == HALO_JINJA_LIST);
    return list.list->n;
}

bool halo_jinja_dict_get(struct halo_jinja_value dict, const char *key, struct halo_jinja_value *ret)
{
    struct halo_jinja_string name = {.bytes = key, .n = strlen(key)};
    if (dict.kind != HALO_JINJA_DICT)
        return false;
    ptrdiff_t found =
        halo_jinja_dict_find(dict.dict, (struct halo_jinja_value){.kind = HALO_JINJA_STRING, .string = &name});
    if (found >= 0)
        *ret = dict.dict->entries[found].value;
    return found >= 0;
}

const char *halo_jinja_dict_at(struct halo_arena *arena, struct halo_jinja_value dict, size_t at,
                               struct halo_jinja_value *ret)
{
    if (dict.kind != HALO_JINJA_DICT || at >= dict.dict->n || dict.dict->entries[at].key.kind != HALO_JINJA_STRING)
        return NULL;
    const struct halo_jinja_string *key = dict.dict->entries[at].key.string;
    *ret = dict.dict->entries[at].value;
    return memchr(key->bytes, 0, key->n) ? NULL : halo_arena_strndup(arena, key->bytes, key->n);
}

/* ---- keys ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(const char *bytes, size_t n, uint64_t hash)
{
    for (; n >= 8; bytes += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = mix(hash, word);
    }
    uint64_t word = n;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | (unsigned char)bytes[i];
    return mix(hash, word);
}

static uint64_t hash_value(struct halo_jinja_value key, uint64_t seed)
{
    switch (key.kind) {
    case HALO_JINJA_STRING:
    case HALO_JINJA_BIG: return hash_bytes(key.string->bytes, key.string->n, seed);
    case HALO_JINJA_BOOL: return mix(seed, key.boolean);
    case HALO_JINJA_INT: return mix(seed, (uint64_t)key.integer);
    case HALO_JINJA_FLOAT: /* equal numbers of both kinds are one key */
        if (key.number >= -9e18 && key.number <= 9e18 && key.number == floor(key.number))
            return mix(seed, (uint64_t)(int64_t)key.number);
        return hash_bytes((const char *)&key.number, sizeof key.number, seed);
    case HALO_JINJA_TUPLE:
        for (size_t i = 0; i < key.list->n; i++)
            seed = hash_value(key.list->items[i], seed);
        return mix(seed, key.list->n);
    default: return mix(seed, key.kind);
    }
}

static bool hashable(struct halo_jinja_value key, unsigned depth)
{
    if (key.kind != HALO_JINJA_TUPLE)
        return key.kind != HALO_JINJA_LIST && key.kind != HALO_JINJA_DICT;
    for (size_t i = 0; i < key.list->n; i++)
        if (depth == 0 || !hashable(key.list->items[i], depth - 1))
            return false;
    return true;
}

/* Tuples that nest deeper or are longer than anyone's key are refused, so that hashing stays cheap. */
bool halo_jinja_hashable(struct halo_jinja_value key)
{
    return hashable(key, 2) && (key.kind != HALO_JINJA_TUPLE || key.list->n <= 16);
}

static bool is_number(struct halo_jinja_value v)
{
    return v.kind == HALO_JINJA_BOOL || v.kind == HALO_JINJA_INT || v.kind == HALO_JINJA_FLOAT;
}

static bool number_equal(struct halo_jinja_value a, struct halo_jinja_value b)
{
    if (a.kind == HALO_JINJA_FLOAT && b.kind == HALO_JINJA_FLOAT)
        return a.number == b.number;
    if (b.kind == HALO_JINJA_FLOAT)
        return number_equal(b, a);
    int64_t integer = b.kind == HALO_JINJA_BOOL ? b.boolean : b.integer;
    if (a.kind == HALO_JINJA_FLOAT)
        return a.number >= -9.2e18 && a.number <= 9.2e18 && a.number == floor(a.number) && (int64_t)a.number == integer;
    return (a.kind == HALO_JINJA_BOOL ? a.boolean : a.integer) == integer;
}

bool halo_jinja_key_equal(struct halo_jinja_value a, struct halo_jinja_value b)
{
    if (is_number(a) && is_number(b))
        return number_equal(a, b);
    if (a.kind != b.kind)
        return false;
    if (a.kind == HALO_JINJA_STRING || a.kind == HALO_JINJA_BIG || a.kind == HALO_JINJA_BYTES)
        return a.string->n == b.string->n && memcmp(a.string->bytes, b.string->bytes, a.string->n) == 0;
    if (a.kind == HALO_JINJA_TUPLE) {
        for (size_t i = 0; a.list->n == b.list->n && i < a.list->n; i++)
            if (!halo_jinja_key_equal(a.list->items[i], b.list->items[i]))
                return false;
        return a.list->n == b.list->n;
    }
    return a.kind <= HALO_JINJA_NONE || a.object == b.object;
}

/* ---- the dict ---- */

static uint64_t dict_hash(const struct halo_jinja_dict *dict, struct halo_jinja_value key)
{
    return hash_value(key, (uint64_t)(uintptr_t)dict);
}

static ptrdiff_t find_hashed(const struct halo_jinja_dict *dict, struct halo_jinja_value key, uint64_t hash)
{
    if (!dict->index) {
        for (size_t i = 0; i < dict->n; i++)
            if (halo_jinja_key_equal(dict->entries[i].key, key))
                return (ptrdiff_t)i;
        return -1;
    }
    for (size_t at = hash & (dict->n_index - 1); dict->index[at]; at = (at + 1) & (dict->n_index - 1)) {
        const struct halo_jinja_entry *entry = &dict->entries[dict->index[at] - 1];
        if (entry->hash == hash && halo_jinja_key_equal(entry->key, key))
            return (ptrdiff_t)dict->index[at] - 1;
    }
    return -1;
}

ptrdiff_t halo_jinja_dict_find(const struct halo_jinja_dict *dict, struct halo_jinja_value key)
{
    return find_hashed(dict, key, dict->index ? dict_hash(dict, key) : 0);
}

static int dict_grow(struct halo_arena *arena, struct halo_jinja_dict *dict)
{
    size_t n_held = dict->n_held ? 2 * dict->n_held : 4;
    struct halo_jinja_entry *entries =
        n_held < UINT32_MAX / 4 ? halo_arena_alloc(arena, n_held, sizeof *entries) : NULL;
    if (!entries)
        return -ENOMEM;
    if (n_held > SMALL_DICT) {
        uint32_t *index = halo_arena_alloc(arena, 2 * n_held, sizeof *index);
        if (!index)
            return -ENOMEM;
        dict->index = index;
        dict->n_index = 2 * n_held;
    }
    if (dict->n)
        memcpy(entries, dict->entries, dict->n * sizeof *entries);
    dict->entries = entries;
    dict->n_held = n_held;
    for (size_t i = 0; dict->index && i < dict->n; i++) {
        size_t at = entries[i].hash & (dict->n_index - 1);
        while (dict->index[at])
            at = (at + 1) & (dict->n_index - 1);
        dict->index[at] = (uint32_t)i + 1;
    }
    return 0;
}

int halo_jinja_dict_set(struct halo_arena *arena, struct halo_jinja_dict *dict, struct halo_jinja_value key,
                        struct halo_jinja_value value)
{
    uint64_t hash = dict_hash(dict, key);
    ptrdiff_t found = find_hashed(dict, key, hash);
    if (found >= 0) {
        dict->entries[found].value = value;
        return 0;
    }
    if (dict->n == dict->n_held && dict_grow(arena, dict) < 0)
        return -ENOMEM;
    if (dict->index) {
        size_t at = hash & (dict->n_index - 1);
        while (dict->index[at])
            at = (at + 1) & (dict->n_index - 1);
        dict->index[at] = (uint32_t)dict->n + 1;
    }
    dict->entries[dict->n++] = (struct halo_jinja_entry){key, value, hash};
    return 0;
}

const char *halo_jinja_type_name(struct halo_jinja_value value)
{
    static const char *const names[] = {
        [HALO_JINJA_UNDEFINED] = "Undefined",
        [HALO_JINJA_NONE] = "NoneType",
        [HALO_JINJA_BOOL] = "bool",
        [HALO_JINJA_INT] = "int",
        [HALO_JINJA_BIG] = "int",
        [HALO_JINJA_FLOAT] = "float",
        [HALO_JINJA_STRING] = "str",
        [HALO_JINJA_LIST] = "list",
        [HALO_JINJA_DICT] = "dict",
        [HALO_JINJA_TUPLE] = "tuple",
        [HALO_JINJA_RANGE] = "range",
        [HALO_JINJA_KEYS] = "dict_keys",
        [HALO_JINJA_VALUES] = "dict_values",
        [HALO_JINJA_ITEMS] = "dict_items",
        [HALO_JINJA_GENERATOR] = "generator",
        [HALO_JINJA_NAMESPACE] = "Namespace",
        [HALO_JINJA_MACRO] = "Macro",
        [HALO_JINJA_FUNCTION] = "function",
        [HALO_JINJA_METHOD] = "method",
        [HALO_JINJA_LOOP] = "LoopContext",
        [HALO_JINJA_BYTES] = "bytes",
        [HALO_JINJA_MISSING] = "missing",
    };
    return value.kind < sizeof names / sizeof *names ? names[value.kind] : "?";
}
