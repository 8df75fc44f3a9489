/* gguf_writer.c: appends the parts of a GGUF directory to a growing buffer. See gguf_writer.h; format: docs/FORMATS.md.
 */
#include "gguf_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define AT_N_TENSORS 8
#define AT_N_KEYS 16

void gguf_writer_init(struct gguf_writer *w)
{
    *w = (struct gguf_writer){0};
    gguf_writer_raw(w, "GGUF", 4);
    gguf_writer_u32(w, 3);
    gguf_writer_u64(w, 0);
    gguf_writer_u64(w, 0);
}

void gguf_writer_free(struct gguf_writer *w)
{
    free(w->bytes);
    *w = (struct gguf_writer){0};
}

void gguf_writer_finish(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, AT_N_TENSORS, w->n_tensors);
    gguf_writer_put_u64(w, AT_N_KEYS, w->n_keys);
}

void gguf_writer_raw(struct gguf_writer *w, const void *bytes, size_t n)
{
    if (n > w->cap - w->n) {
        w->cap = 2 * w->cap + n + 256;
        w->bytes = realloc(w->bytes, w->cap);
        assert(w->bytes);
    }
    if (n)
        memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

void gguf_writer_pad(struct gguf_writer *w, size_t align)
{
    static const uint8_t zeros[64];
    size_t n = (align - w->n % align) % align;
    for (; n > 0; n -= n < sizeof zeros ? n : sizeof zeros)
        gguf_writer_raw(w, zeros, n < sizeof zeros ? n : sizeof zeros);
}

void gguf_writer_u32(struct gguf_writer *w, uint32_t value)
{
    gguf_writer_raw(w, &value, sizeof value);
}

void gguf_writer_u64(struct gguf_writer *w, uint64_t value)
{
    gguf_writer_raw(w, &value, sizeof value);
}

void gguf_writer_string(struct gguf_writer *w, const char *text)
{
    size_t n = strlen(text);
    gguf_writer_u64(w, n);
    gguf_writer_raw(w, text, n);
}

void gguf_writer_put_u32(struct gguf_writer *w, size_t at, uint32_t value)
{
    assert(at + sizeof value <= w->n);
    memcpy(w->bytes + at, &value, sizeof value);
}

void gguf_writer_put_u64(struct gguf_writer *w, size_t at, uint64_t value)
{
    assert(at + sizeof value <= w->n);
    memcpy(w->bytes + at, &value, sizeof value);
}

void gguf_writer_key(struct gguf_writer *w, const char *name, uint32_t kind)
{
    gguf_writer_string(w, name);
    gguf_writer_u32(w, kind);
    w->n_keys++;
}

void gguf_writer_key_u32(struct gguf_writer *w, const char *name, uint32_t value)
{
    gguf_writer_key(w, name, HALO_GGUF_U32);
    gguf_writer_u32(w, value);
}

void gguf_writer_key_f32(struct gguf_writer *w, const char *name, float value)
{
    gguf_writer_key(w, name, HALO_GGUF_F32);
    gguf_writer_raw(w, &value, sizeof value);
}

void gguf_writer_key_bool(struct gguf_writer *w, const char *name, bool value)
{
    uint8_t byte = value;
    gguf_writer_key(w, name, HALO_GGUF_BOOL);
    gguf_writer_raw(w, &byte, 1);
}

void gguf_writer_key_string(struct gguf_writer *w, const char *name, const char *value)
{
    gguf_writer_key(w, name, HALO_GGUF_STRING);
    gguf_writer_string(w, value);
}

void gguf_writer_key_array(struct gguf_writer *w, const char *name, uint32_t element_kind, uint64_t n)
{
    gguf_writer_key(w, name, HALO_GGUF_ARRAY);
    gguf_writer_u32(w, element_kind);
    gguf_writer_u64(w, n);
}

void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                        uint64_t offset)
{
    gguf_writer_string(w, name);
    gguf_writer_u32(w, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        gguf_writer_u64(w, dims[i]);
    gguf_writer_u32(w, type);
    gguf_writer_u64(w, offset);
    w->n_tensors++;
}
