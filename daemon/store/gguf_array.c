/* gguf_array.c: walking the elements of an array in place. Any thread; the cursor belongs to the caller. The payload
 * was checked when the file was opened, so the only thing left to refuse is an element type that does not fit the
 * question. */
#include <assert.h>

#include "gguf_priv.h"

bool halo_gguf_next_string(struct halo_gguf_array *array, struct halo_span *ret)
{
    if (array->left == 0 || array->kind != HALO_GGUF_STRING)
        return false;
    assert(array->end - array->at >= 8);
    uint64_t n = gguf_load_u64(array->at);
    assert(n <= (uint64_t)(array->end - array->at) - 8);
    *ret = (struct halo_span){(const char *)array->at + 8, n};
    array->at += 8 + n;
    array->left--;
    return true;
}

/* Takes the bytes of one element of a fixed size. NULL at the end. */
static const uint8_t *array_step(struct halo_gguf_array *array)
{
    uint32_t bytes = gguf_kind_bytes(array->kind);
    if (array->left == 0 || bytes == 0)
        return NULL;
    const uint8_t *at = array->at;
    assert((uint64_t)(array->end - at) >= bytes);
    array->at += bytes;
    array->left--;
    return at;
}

static bool load_i64(enum halo_gguf_kind kind, const uint8_t *at, int64_t *ret)
{
    switch (kind) {
    case HALO_GGUF_U8:
    case HALO_GGUF_BOOL: *ret = *at; return true;
    case HALO_GGUF_I8: *ret = (int8_t)*at; return true;
    case HALO_GGUF_U16: *ret = gguf_load_u16(at); return true;
    case HALO_GGUF_I16: *ret = (int16_t)gguf_load_u16(at); return true;
    case HALO_GGUF_U32: *ret = gguf_load_u32(at); return true;
    case HALO_GGUF_I32: *ret = (int32_t)gguf_load_u32(at); return true;
    case HALO_GGUF_U64: /* past 2^63 as the nearest there is: no id or count is that large, so a range check refuses it
                         */
        *ret = gguf_load_u64(at) > INT64_MAX ? INT64_MAX : (int64_t)gguf_load_u64(at);
        return true;
    case HALO_GGUF_I64: *ret = (int64_t)gguf_load_u64(at); return true;
    default: return false;
    }
}

bool halo_gguf_next_i64(struct halo_gguf_array *array, int64_t *ret)
{
    struct halo_gguf_array ahead = *array;
    const uint8_t *at = array_step(&ahead);
    if (!at || !load_i64(array->kind, at, ret))
        return false;
    *array = ahead;
    return true;
}

bool halo_gguf_next_f64(struct halo_gguf_array *array, double *ret)
{
    struct halo_gguf_array ahead = *array;
    const uint8_t *at = array_step(&ahead);
    if (!at)
        return false;
    int64_t integer;
    float single;
    if (array->kind == HALO_GGUF_F32) {
        memcpy(&single, at, sizeof(single));
        *ret = (double)single;
    } else if (array->kind == HALO_GGUF_F64) {
        memcpy(ret, at, sizeof(*ret));
    } else if (array->kind == HALO_GGUF_U64) {
        *ret = (double)gguf_load_u64(at);
    } else if (load_i64(array->kind, at, &integer)) {
        *ret = (double)integer;
    } else {
        return false;
    }
    *array = ahead;
    return true;
}
