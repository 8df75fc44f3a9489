/* toy_gguf.c: writes small model files. See toy_gguf.h. Errors end the test program: they are errors of the test. */
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

/* What a family's layers have beyond the common; a row without a mark is in all of them. */
enum {
    MOE = 1,       /* experts, in layers without DENSE */
    DENSE = 2,     /* a dense feed-forward */
    NORM = 4,      /* of q and k, per head */
    BIAS = 8,      /* of q, k and v */
    CHOICE = 16,   /* a bias of the choice of experts */
    SHARED = 32,   /* a shared expert */
    GATED = 64,    /* ... with a gate */
    MOVED = 128,   /* the norm in front of the feed-forward has the name of the one behind attention */
    USUAL = 256,   /* it has its own */
    LEADING = 512, /* layer 0 is dense */
};

static const struct family {
    const char *name;
    unsigned marks;
} families[] = {
    {"llama", DENSE | USUAL},
    {"llama-moe", MOE | USUAL},
    {"qwen2", DENSE | BIAS | USUAL},
    {"qwen3", DENSE | NORM | USUAL},
    {"qwen3moe", MOE | NORM | USUAL},
    {"qwen2moe", MOE | BIAS | SHARED | GATED | USUAL},
    {"glm4moe", MOE | BIAS | CHOICE | SHARED | LEADING | MOVED},
    {"dots1", MOE | NORM | CHOICE | SHARED | LEADING | USUAL},
    {"bailingmoe2", MOE | NORM | CHOICE | SHARED | LEADING | USUAL},
    {"ernie4_5-moe", MOE | CHOICE | SHARED | LEADING | USUAL},
};

static unsigned marks_of(const char *family)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (strcmp(families[i].name, family) == 0)
            return families[i].marks;
    assert(!"no such family");
    return 0;
}

static void layer_add(struct halo_toy *toy, uint32_t layer, unsigned marks, uint64_t n_head, uint64_t n_head_kv,
                      uint64_t head_dim)
{
    enum { D = 32, FF = 64, EXPERTS = 4, SHARED_FF = 48 };
    const uint64_t n_q = n_head * head_dim, n_kv = n_head_kv * head_dim;
    const struct {
        const char *name;
        unsigned marks; /* all of them are needed */
        enum halo_type type;
        uint64_t d0, d1, d2;
    } rows[] = {
        {"attn_norm.weight", 0, HALO_TYPE_F32, D, 0, 0},
        {"attn_q.weight", 0, HALO_TYPE_F16, D, n_q, 0},
        {"attn_k.weight", 0, HALO_TYPE_F16, D, n_kv, 0},
        {"attn_v.weight", 0, HALO_TYPE_F16, D, n_kv, 0},
        {"attn_q.bias", BIAS, HALO_TYPE_F32, n_q, 0, 0},
        {"attn_k.bias", BIAS, HALO_TYPE_F32, n_kv, 0, 0},
        {"attn_v.bias", BIAS, HALO_TYPE_F32, n_kv, 0, 0},
        {"attn_q_norm.weight", NORM, HALO_TYPE_F32, head_dim, 0, 0},
        {"attn_k_norm.weight", NORM, HALO_TYPE_F32, head_dim, 0, 0},
        {"attn_output.weight", 0, HALO_TYPE_F16, n_q, D, 0},
        {"ffn_norm.weight", USUAL, HALO_TYPE_F32, D, 0, 0},
        {"post_attention_norm.weight", MOVED, HALO_TYPE_F32, D, 0, 0},
        {"ffn_gate.weight", DENSE, HALO_TYPE_F16, D, FF, 0},
        {"ffn_up.weight", DENSE, HALO_TYPE_F16, D, FF, 0},
        {"ffn_down.weight", DENSE, HALO_TYPE_F16, FF, D, 0},
        {"ffn_gate_inp.weight", MOE, HALO_TYPE_F32, D, EXPERTS, 0},
        {"ffn_gate_exps.weight", MOE, HALO_TYPE_F16, D, FF, EXPERTS},
        {"ffn_up_exps.weight", MOE, HALO_TYPE_F16, D, FF, EXPERTS},
        {"ffn_down_exps.weight", MOE, HALO_TYPE_F16, FF, D, EXPERTS},
        {"exp_probs_b.bias", CHOICE, HALO_TYPE_F32, EXPERTS, 0, 0},
        {"ffn_gate_inp_shexp.weight", GATED, HALO_TYPE_F32, D, 0, 0},
        {"ffn_gate_shexp.weight", SHARED, HALO_TYPE_F16, D, SHARED_FF, 0},
        {"ffn_up_shexp.weight", SHARED, HALO_TYPE_F16, D, SHARED_FF, 0},
        {"ffn_down_shexp.weight", SHARED, HALO_TYPE_F16, SHARED_FF, D, 0},
    };
    char name[64];

    if (marks & LEADING && layer == 0)
        marks = (marks & ~(unsigned)(MOE | CHOICE | SHARED | GATED)) | DENSE;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].marks & ~marks)
            continue;
        snprintf(name, sizeof(name), "blk.%u.%s", layer, rows[i].name);
        halo_toy_add(toy, name, rows[i].type, rows[i].d0, rows[i].d1, rows[i].d2);
    }
}

static void experts_set(struct halo_toy *toy, unsigned marks)
{
    halo_toy_set(toy, "expert_count", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "expert_used_count", HALO_GGUF_U32, 2);
    if (strcmp(toy->arch, "llama") != 0)
        halo_toy_set(toy, "expert_feed_forward_length", HALO_GGUF_U32, 64);
    if (marks & SHARED)
        halo_toy_set(toy, "expert_shared_feed_forward_length", HALO_GGUF_U32, 48);
    if (marks & LEADING) {
        halo_toy_set(toy, "leading_dense_block_count", HALO_GGUF_U32, 1);
        halo_toy_set(toy, "expert_shared_count", HALO_GGUF_U32, 1);
    }
    if (strcmp(toy->arch, "bailingmoe2") == 0) {
        halo_toy_set(toy, "expert_group_count", HALO_GGUF_U32, 2);
        halo_toy_set(toy, "expert_group_used_count", HALO_GGUF_U32, 1);
        halo_toy_set(toy, "expert_weights_scale", HALO_GGUF_F32, 2.5);
    }
}

struct halo_toy *halo_toy_create(const char *family)
{
    struct halo_toy *toy = calloc(1, sizeof(*toy));
    unsigned marks = marks_of(family);

    assert(toy && strlen(family) < sizeof(toy->arch));
    memcpy(toy->arch, family, strlen(family) + 1);
    halo_toy_add(toy, "token_embd.weight", HALO_TYPE_Q8_0, 32, HALO_TOY_VOCAB, 0);
    halo_toy_add(toy, "output_norm.weight", HALO_TYPE_F32, 32, 0, 0);
    for (uint32_t layer = 0; layer < 2; layer++)
        layer_add(toy, layer, marks, 4, 2, 16);
    if (strcmp(family, "llama-moe") == 0)
        snprintf(toy->arch, sizeof(toy->arch), "llama");

    halo_toy_set_text(toy, "general.architecture", toy->arch);
    halo_toy_set_text(toy, "general.name", "Toy");
    halo_toy_set(toy, "general.file_type", HALO_GGUF_U32, 1);
    halo_toy_set(toy, "block_count", HALO_GGUF_U32, 2);
    halo_toy_set(toy, "context_length", HALO_GGUF_U32, 256);
    halo_toy_set(toy, "embedding_length", HALO_GGUF_U32, 32);
    halo_toy_set(toy, "feed_forward_length", HALO_GGUF_U32, 64);
    halo_toy_set(toy, "attention.head_count", HALO_GGUF_U32, 4);
    halo_toy_set(toy, "attention.head_count_kv", HALO_GGUF_U32, 2);
    halo_toy_set(toy, "attention.key_length", HALO_GGUF_U32, 16);
    halo_toy_set(toy, "attention.value_length", HALO_GGUF_U32, 16);
    halo_toy_set(toy, "attention.layer_norm_rms_epsilon", HALO_GGUF_F32, 1e-5);
    halo_toy_set(toy, "rope.freq_base", HALO_GGUF_F32, 10000);
    if (marks & MOE)
        experts_set(toy, marks);
    halo_toy_set_text(toy, "tokenizer.ggml.model", "gpt2");
    halo_toy_set_text(toy, "tokenizer.ggml.pre", "qwen2");
    halo_toy_set_array(toy, "tokenizer.ggml.merges", HALO_GGUF_STRING, 0, NULL);
    halo_toy_set_array(toy, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 0, NULL); /* written as HALO_TOY_VOCAB texts */
    return toy;
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
