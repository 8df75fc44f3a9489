/* golden_early.c: see golden_early.h. The keys are copied as they are; tensors are named and laid out anew. */
#include "golden_early.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <store/gguf.h>

#include "gguf_writer.h"

struct source {
    struct halo_gguf *gguf;
    uint8_t *bytes;
    size_t n;
    uint32_t groups;         /* heads of k */
    uint64_t rows_k, rows_v; /* of each: rows of q and of k; of v and of z */
};

static int source_open(struct source *ret, const char *path, struct halo_fault *fault)
{
    uint64_t groups = 0, dim_k = 0, inner = 0;
    FILE *file;
    int r = halo_gguf_open(&ret->gguf, path, fault);
    if (r < 0)
        return r;
    halo_gguf_get_u64(ret->gguf, "qwen3next.ssm.group_count", &groups, fault);
    halo_gguf_get_u64(ret->gguf, "qwen3next.ssm.state_size", &dim_k, fault);
    halo_gguf_get_u64(ret->gguf, "qwen3next.ssm.inner_size", &inner, fault);
    ret->n = halo_gguf_total_bytes(ret->gguf);
    ret->bytes = malloc(ret->n);
    file = fopen(path, "rb");
    bool whole = groups > 0 && file && ret->bytes && fread(ret->bytes, 1, ret->n, file) == ret->n;
    if (file)
        fclose(file);
    if (!whole)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s cannot be read as a qwen3next file", path);
    ret->groups = (uint32_t)groups;
    ret->rows_k = dim_k;
    ret->rows_v = inner / groups;
    return 0;
}

/* Where the list of tensors begins: in front of the name of the first. */
static size_t list_at(const struct source *source)
{
    const char *name = halo_gguf_tensor(source->gguf, 0)->name;
    uint64_t len = strlen(name);
    for (size_t at = 0; at + 8 + len <= source->n; at++)
        if (memcmp(source->bytes + at, &len, 8) == 0 && memcmp(source->bytes + at + 8, name, len) == 0)
            return at;
    abort();
}

static bool ends(const struct halo_gguf_tensor *tensor, const char *with)
{
    size_t n = strlen(tensor->name), n_with = strlen(with);
    return n > n_with && strcmp(tensor->name + n - n_with, with) == 0;
}

/* The gate beside attn_qkv, in layers with a state; NULL: another tensor. */
static const struct halo_gguf_tensor *gate_of(const struct source *source, const struct halo_gguf_tensor *tensor)
{
    char name[HALO_GGUF_MAX_NAME + 1];
    if (!ends(tensor, ".attn_qkv.weight"))
        return NULL;
    snprintf(name, sizeof(name), "%.*sattn_gate.weight", (int)(strlen(tensor->name) - strlen("attn_qkv.weight")),
             tensor->name);
    return halo_gguf_find_tensor(source->gguf, name);
}

/* n rows of a matrix from row `first` on. */
static void put_rows(struct gguf_writer *w, const struct source *source, const struct halo_gguf_tensor *matrix,
                     uint64_t first, uint64_t n)
{
    uint64_t row_bytes = matrix->n_bytes / matrix->dims[1];
    gguf_writer_raw(w, source->bytes + matrix->offset + first * row_bytes, n * row_bytes);
}

static void put_fused(struct gguf_writer *w, const struct source *s, const struct halo_gguf_tensor *qkv,
                      const struct halo_gguf_tensor *gate)
{
    for (uint32_t head = 0; head < s->groups; head++) {
        put_rows(w, s, qkv, head * s->rows_k, s->rows_k);
        put_rows(w, s, qkv, (s->groups + head) * s->rows_k, s->rows_k);
        put_rows(w, s, qkv, 2 * s->groups * s->rows_k + head * s->rows_v, s->rows_v);
        put_rows(w, s, gate, head * s->rows_v, s->rows_v);
    }
}

/* The list and the data at once: the former says where the latter lies. Returns how many tensors were fused. */
static uint32_t put_tensors(struct gguf_writer *list, struct gguf_writer *data, const struct source *source)
{
    uint32_t n_fused = 0;
    for (uint64_t i = 0; i < halo_gguf_n_tensors(source->gguf); i++) {
        const struct halo_gguf_tensor *tensor = halo_gguf_tensor(source->gguf, i), *gate = gate_of(source, tensor);
        uint64_t dims[HALO_GGUF_MAX_DIMS];
        char name[HALO_GGUF_MAX_NAME + 1];
        if (ends(tensor, ".attn_gate.weight"))
            continue;
        memcpy(dims, tensor->dims, sizeof(dims));
        snprintf(name, sizeof(name), "%s", tensor->name);
        gguf_writer_pad(data, halo_gguf_alignment(source->gguf));
        if (gate && gate->type == tensor->type) {
            dims[1] += gate->dims[1];
            snprintf(strstr(name, "attn_qkv"), sizeof("ssm_in.weight"), "ssm_in.weight");
            n_fused++;
        }
        gguf_writer_tensor(list, name, tensor->n_dims, dims, tensor->type, data->n);
        if (gate)
            put_fused(data, source, tensor, gate);
        else
            gguf_writer_raw(data, source->bytes + tensor->offset, tensor->n_bytes);
    }
    return n_fused;
}

int halo_golden_early_write(const char *from, const char *to, struct halo_fault *fault)
{
    struct source source = {0};
    struct gguf_writer list = {0}, data = {0};
    int r = source_open(&source, from, fault);
    if (r == 0) {
        gguf_writer_raw(&list, source.bytes, list_at(&source));
        uint32_t n_fused = put_tensors(&list, &data, &source);
        gguf_writer_put_u64(&list, 8, halo_gguf_n_tensors(source.gguf) - n_fused);
        gguf_writer_pad(&list, halo_gguf_alignment(source.gguf));
        FILE *file = fopen(to, "wb");
        bool written =
            file && fwrite(list.bytes, 1, list.n, file) == list.n && fwrite(data.bytes, 1, data.n, file) == data.n;
        if (file && fclose(file) != 0)
            written = false;
        if (n_fused == 0 || !written)
            r = halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s: %" PRIu32 " tensors fused, %s", to, n_fused,
                               written ? "written" : "not written");
    }
    gguf_writer_free(&list);
    gguf_writer_free(&data);
    free(source.bytes);
    halo_gguf_close(source.gguf);
    return r;
}
