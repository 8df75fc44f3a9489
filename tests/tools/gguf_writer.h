/* gguf_writer.h: puts together the bytes of a GGUF directory, good or bad, for tests and for mkgguf.
 *
 * Appends only; nothing is checked, so that malformed files can be made as easily as good ones. The header's counts are
 * those given, or filled in by finish(). Running out of memory aborts: this is a tool of tests. One thread.
 */
#ifndef HALO_TESTS_GGUF_WRITER_H
#define HALO_TESTS_GGUF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <store/gguf.h>

struct gguf_writer {
    uint8_t *bytes;
    size_t n, cap;
    uint64_t n_keys, n_tensors; /* appended so far */
};

void gguf_writer_init(struct gguf_writer *w); /* magic, version 3, counts of 0 */
void gguf_writer_free(struct gguf_writer *w);
/* Sets the counts in the header to what was appended. */
void gguf_writer_finish(struct gguf_writer *w);
/* Zero bytes up to a multiple of `align`. */
void gguf_writer_pad(struct gguf_writer *w, size_t align);

void gguf_writer_raw(struct gguf_writer *w, const void *bytes, size_t n);
void gguf_writer_u32(struct gguf_writer *w, uint32_t value);
void gguf_writer_u64(struct gguf_writer *w, uint64_t value);
void gguf_writer_string(struct gguf_writer *w, const char *text);
void gguf_writer_put_u32(struct gguf_writer *w, size_t at, uint32_t value); /* overwrites */
void gguf_writer_put_u64(struct gguf_writer *w, size_t at, uint64_t value);

/* A key: its name and type; the value follows by raw/u32/... */
void gguf_writer_key(struct gguf_writer *w, const char *name, uint32_t kind);
void gguf_writer_key_u32(struct gguf_writer *w, const char *name, uint32_t value);
void gguf_writer_key_f32(struct gguf_writer *w, const char *name, float value);
void gguf_writer_key_bool(struct gguf_writer *w, const char *name, bool value);
void gguf_writer_key_string(struct gguf_writer *w, const char *name, const char *value);
/* Begins an array of n elements, which follow. */
void gguf_writer_key_array(struct gguf_writer *w, const char *name, uint32_t element_kind, uint64_t n);

void gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                        uint64_t offset);

#endif
