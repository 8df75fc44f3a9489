/* toy_gguf.c: changes and writes small model files; toy_families.c makes them. See toy_gguf.h. Errors
 * end the test program: they are errors of the test. */
#include "toy_gguf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool absolute(const char *key)
{
    return strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0;
}

static struct halo_toy_key *key_take(struct halo_toy *toy, const char *key)
{
    struct halo_toy_key *taken;
    char name[96];

    snprintf(name, sizeof(name), "%s%s%s", absolute(key) ? "" : toy->arch, absolute(key) ? "" : ".", key);
    for (taken = toy->keys; taken < toy->keys + toy->n_keys; taken++)
        if (strcmp(taken->name, name) == 0)
            break;
    assert(taken < toy->keys + HALO_TOY_KEYS);
    if (taken == toy->keys + toy->n_keys)
        toy->n_keys++;
    memset(taken, 0, sizeof(*taken));
    memcpy(taken->name, name, sizeof(name));
    return taken;
}

void halo_toy_set(struct halo_toy *toy, const char *key, enum halo_gguf_kind kind, double number)
{
    struct halo_toy_key *taken = key_take(toy, key);

    taken->kind = kind;
    taken->n = 1;
    taken->numbers[0] = number;
}

void halo_toy_set_text(struct halo_toy *toy, const char *key, const char *text)
{
    struct halo_toy_key *taken = key_take(toy, key);

    taken->kind = HALO_GGUF_STRING;
    snprintf(taken->text, sizeof(taken->text), "%s", text);
}

void halo_toy_set_array(struct halo_toy *toy, const char *key, enum halo_gguf_kind kind, uint64_t n,
                        const double *numbers)
{
    struct halo_toy_key *taken = key_take(toy, key);

    assert(n <= sizeof(taken->numbers) / sizeof(taken->numbers[0]));
    taken->kind = kind;
    taken->array = true;
    taken->n = n;
    for (uint64_t i = 0; i < n; i++)
        taken->numbers[i] = numbers[i];
}

void halo_toy_unset(struct halo_toy *toy, const char *key)
{
    struct halo_toy_key *taken = key_take(toy, key);

    *taken = toy->keys[--toy->n_keys];
}

void halo_toy_add(struct halo_toy *toy, const char *name, enum halo_type type, uint64_t d0, uint64_t d1, uint64_t d2)
{
    struct halo_toy_tensor *tensor = &toy->tensors[toy->n_tensors++];

    assert(toy->n_tensors <= HALO_TOY_TENSORS);
    memset(tensor, 0, sizeof(*tensor));
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    tensor->type = type;
    tensor->n_dims = d2 ? 3 : d1 ? 2 : 1;
    tensor->dims[0] = d0;
    tensor->dims[1] = d1;
    tensor->dims[2] = d2;
}

struct halo_toy_tensor *halo_toy_find(struct halo_toy *toy, const char *name)
{
    for (uint32_t i = 0; i < toy->n_tensors; i++)
        if (strcmp(toy->tensors[i].name, name) == 0)
            return &toy->tensors[i];
    assert(!"no such tensor");
    return NULL;
}

void halo_toy_remove(struct halo_toy *toy, const char *name)
{
    struct halo_toy_tensor *tensor = halo_toy_find(toy, name);

    *tensor = toy->tensors[--toy->n_tensors];
}

void halo_toy_destroy(struct halo_toy *toy)
{
    free(toy);
}

static void put(FILE *file, const void *bytes, size_t n)
{
    size_t written = n ? fwrite(bytes, 1, n, file) : 0;
    assert(written == n);
}

static void put_u32(FILE *file, uint32_t value)
{
    put(file, &value, sizeof(value));
}

static void put_u64(FILE *file, uint64_t value)
{
    put(file, &value, sizeof(value));
}

static void put_text(FILE *file, const char *text)
{
    put_u64(file, strlen(text));
    put(file, text, strlen(text));
}

static void put_number(FILE *file, enum halo_gguf_kind kind, double number)
{
    static const size_t n_bytes[] = {
        [HALO_GGUF_U8] = 1,  [HALO_GGUF_I8] = 1,   [HALO_GGUF_U16] = 2, [HALO_GGUF_I16] = 2, [HALO_GGUF_U32] = 4,
        [HALO_GGUF_I32] = 4, [HALO_GGUF_BOOL] = 1, [HALO_GGUF_U64] = 8, [HALO_GGUF_I64] = 8};
    int64_t integer = (int64_t)number;
    float real = (float)number;

    if (kind == HALO_GGUF_F32)
        put(file, &real, sizeof(real));
    else if (kind == HALO_GGUF_F64)
        put(file, &number, sizeof(number));
    else
        put(file, &integer, n_bytes[kind]);
}

static void put_key(FILE *file, const struct halo_toy_key *key)
{
    put_text(file, key->name);
    if (strcmp(key->name, "tokenizer.ggml.tokens") == 0) {
        put_u32(file, HALO_GGUF_ARRAY);
        put_u32(file, HALO_GGUF_STRING);
        put_u64(file, HALO_TOY_VOCAB);
        for (uint32_t i = 0; i < HALO_TOY_VOCAB; i++) {
            const char text[2] = {(char)('a' + i), '\0'};
            put_text(file, text);
        }
        return;
    }
    if (key->array) {
        put_u32(file, HALO_GGUF_ARRAY);
        put_u32(file, key->kind);
        put_u64(file, key->n);
    } else {
        put_u32(file, key->kind);
    }
    if (key->kind == HALO_GGUF_STRING && !key->array)
        put_text(file, key->text);
    for (uint64_t i = 0; i < key->n; i++)
        put_number(file, key->kind, key->numbers[i]);
}

static uint64_t tensor_bytes(const struct halo_toy_tensor *tensor)
{
    uint64_t rows = 1;

    for (uint32_t i = 1; i < tensor->n_dims; i++)
        rows *= tensor->dims[i];
    return halo_type_row_bytes(tensor->type, tensor->dims[0]) * rows;
}

static void pad(FILE *file)
{
    static const char zeros[32];
    put(file, zeros, (32 - (size_t)ftell(file) % 32) % 32);
}

void halo_toy_write(const struct halo_toy *toy, const char *path)
{
    FILE *file = fopen(path, "wb");
    uint64_t offset = 0;

    assert(file);
    put(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, toy->n_tensors);
    put_u64(file, toy->n_keys);
    for (uint32_t i = 0; i < toy->n_keys; i++)
        put_key(file, &toy->keys[i]);
    for (uint32_t i = 0; i < toy->n_tensors; i++) {
        const struct halo_toy_tensor *tensor = &toy->tensors[i];
        put_text(file, tensor->name);
        put_u32(file, tensor->n_dims);
        put(file, tensor->dims, tensor->n_dims * sizeof(uint64_t));
        put_u32(file, tensor->type);
        put_u64(file, offset);
        offset += (tensor_bytes(tensor) + 31) / 32 * 32;
    }
    pad(file);
    for (uint32_t i = 0; i < toy->n_tensors; i++) {
        void *zeros = calloc(1, tensor_bytes(&toy->tensors[i]));
        put(file, toy->tensors[i].values ? (const void *)toy->tensors[i].values : zeros,
            tensor_bytes(&toy->tensors[i]));
        free(zeros);
        pad(file);
    }
    int closed = fclose(file);
    assert(closed == 0);
}
