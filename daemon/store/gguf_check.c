/* gguf_check.c: where the tensors' data lies: inside the file, aligned, and no byte belongs to two of them.
 *
 * Order and gaps are the writer's business. Sorting happens only for a file whose tensors are out of order. One thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "gguf_priv.h"

static int tensor_place(const struct gguf_part *part, struct halo_gguf_tensor *t, struct halo_fault *fault)
{
    if (t->offset & (part->alignment - 1))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "tensor '%s': offset %llu is not a multiple of the alignment %llu", t->name,
                              (unsigned long long)t->offset, (unsigned long long)part->alignment);
    uint64_t n_file = part->source.n_file;
    uint64_t data = part->data_at < n_file ? n_file - part->data_at : 0;
    if (t->offset > data || t->n_bytes > data - t->offset)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "tensor '%s': %llu bytes at offset %llu of the data, but the file has %llu bytes of data",
                              t->name, (unsigned long long)t->n_bytes, (unsigned long long)t->offset,
                              (unsigned long long)data);
    t->offset += part->data_at;
    return 0;
}

static int tensor_compare(const void *a, const void *b)
{
    const struct halo_gguf_tensor *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static int overlap_check(const struct halo_gguf_tensor *low, const struct halo_gguf_tensor *high,
                         struct halo_fault *fault)
{
    if (low->offset + low->n_bytes <= high->offset)
        return 0;
    return halo_fault_set(
        fault, HALO_FAULT_LOAD_FAILED, "tensor '%s' at byte %llu overlaps '%s', which ends at byte %llu", high->name,
        (unsigned long long)high->offset, low->name, (unsigned long long)(low->offset + low->n_bytes));
}

static int overlap_check_sorted(const struct halo_gguf_tensor *tensors, uint64_t n, struct halo_fault *fault)
{
    const struct halo_gguf_tensor **order = malloc(n * sizeof(*order));
    if (!order)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to sort %llu tensors", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        order[i] = &tensors[i];
    qsort(order, n, sizeof(*order), tensor_compare);
    int r = 0;
    for (uint64_t i = 1; !r && i < n; i++)
        r = overlap_check(order[i - 1], order[i], fault);
    free(order);
    return r;
}

int gguf_part_check_data(struct halo_gguf *gguf, uint32_t part_no, struct halo_fault *fault)
{
    const struct gguf_part *part = &gguf->parts[part_no];
    if (part->n_tensors == 0)
        return 0;
    struct halo_gguf_tensor *tensors = gguf->tensors + part->first_tensor;
    bool in_order = true;
    for (uint64_t i = 0; i < part->n_tensors; i++) {
        int r = tensor_place(part, &tensors[i], fault);
        if (r)
            return r;
        /* Until one is found out of order, neighbours in the table are neighbours in the file. */
        if (i > 0 && in_order) {
            in_order = tensors[i].offset >= tensors[i - 1].offset;
            r = in_order ? overlap_check(&tensors[i - 1], &tensors[i], fault) : 0;
        }
        if (r)
            return r;
    }
    return in_order ? 0 : overlap_check_sorted(tensors, part->n_tensors, fault);
}
