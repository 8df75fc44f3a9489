/* toy_gguf.h: small model files with every key and tensor of a family, which a test then breaks one at a time.
 *
 * Two or four layers, width 32, a vocabulary of 16 texts, weights all zero (nothing here is computed). One thread.
 */
#ifndef HALO_TOY_GGUF_H
#define HALO_TOY_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels/tensor.h>
#include <store/gguf.h>

#define HALO_TOY_KEYS 64
#define HALO_TOY_TENSORS 2048
#define HALO_TOY_VOCAB 16

struct halo_toy_key {
    char name[96];
    enum halo_gguf_kind kind; /* of the value, or of the elements of an array */
    bool array;
    uint64_t n; /* elements */
    double numbers[8];
    char text[256]; /* of a string */
};

struct halo_toy_tensor {
    char name[64];
    enum halo_type type;
    uint32_t n_dims;
    uint64_t dims[4];
    const float *values; /* F32; NULL: zeros */
};

struct halo_toy {
    char arch[32];
    uint32_t n_keys, n_tensors;
    struct halo_toy_key keys[HALO_TOY_KEYS];
    struct halo_toy_tensor tensors[HALO_TOY_TENSORS];
};

/* The names of the families, in the order of the alphabet; NULL behind the last. A new one is a row in
 * toy_families.c. */
const char *halo_toy_family(uint32_t index);
struct halo_toy *halo_toy_create(const char *family);
void halo_toy_destroy(struct halo_toy *toy);

/* Keys are named without the architecture ("block_count") or in full when they hold "general." or "tokenizer.". Setting
 * one that exists replaces it. */
void halo_toy_set(struct halo_toy *toy, const char *key, enum halo_gguf_kind kind, double number);
void halo_toy_set_text(struct halo_toy *toy, const char *key, const char *text);
void halo_toy_set_array(struct halo_toy *toy, const char *key, enum halo_gguf_kind kind, uint64_t n,
                        const double *numbers);
void halo_toy_unset(struct halo_toy *toy, const char *key);

void halo_toy_add(struct halo_toy *toy, const char *name, enum halo_type type, uint64_t d0, uint64_t d1, uint64_t d2);
struct halo_toy_tensor *halo_toy_find(struct halo_toy *toy, const char *name); /* fails the test when absent */
void halo_toy_remove(struct halo_toy *toy, const char *name);

/* toy_deepseek4.c: what that family has beyond the common keys and tensors. */
void halo_toy_deepseek4_tensors(struct halo_toy *toy);
void halo_toy_deepseek4_keys(struct halo_toy *toy);

/* Writes a GGUF file. */
void halo_toy_write(const struct halo_toy *toy, const char *path);

#endif
