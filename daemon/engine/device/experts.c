/* experts.c: see experts.h. Life on the thread that has the load, the rest on the device thread. */
#include <engine/experts.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <store/fetch.h>

#include "device/expert_shape_priv.h"
#include "device/experts_priv.h"

#define DRAIN_US 2000000
#define AHEAD_BYTES (1u << 20) /* in flight on a guess: what a layer has chosen waits for them */
#define AHEAD_LEAST 2          /* blocks */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

int halo_experts_create(struct halo_experts **ret, const struct halo_experts_setup *setup, struct halo_fault *fault)
{
    struct halo_experts *x = calloc(1, sizeof(*x));
    if (!x)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a cache of experts");
    x->setup = *setup;
    atomic_store(&x->may_guess, true);
    halo_experts_make_source(x);
    halo_expert_shape_of(setup->ops, setup->device, setup->plan, &x->shape);
    int r = halo_expert_cache_init(&x->cache, x->shape.n_layers, x->shape.n_expert, setup->n_slots, x->shape.min_slots);
    assert(r != -EINVAL);
    x->layers = calloc(x->shape.n_layers, sizeof(*x->layers));
    x->pending = calloc(setup->n_slots, sizeof(*x->pending));
    x->arrived = calloc(setup->n_slots, sizeof(*x->arrived));
    x->is_spoiled = calloc(setup->n_slots, sizeof(*x->is_spoiled));
    x->reads = calloc(halo_experts_reads_max(x), sizeof(*x->reads));
    x->chosen = calloc(x->shape.n_expert, sizeof(*x->chosen));
    if (r < 0 || !x->layers || !x->pending || !x->arrived || !x->is_spoiled || !x->reads || !x->chosen) {
        halo_experts_destroy(x);
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a cache of %u experts", setup->n_slots);
    }
    for (uint32_t layer = 0; layer < x->shape.n_layers; layer++)
        halo_expert_layout_of(setup->ops, setup->device, setup->plan, layer, &x->layers[layer]);
    r = halo_expert_memory_reserve(&x->memory, setup, &x->shape, x->layers, fault);
    if (r < 0) {
        halo_experts_destroy(x);
        return r;
    }
    *ret = x;
    return 0;
}

static int open_files(struct halo_experts *x, const struct halo_gguf *gguf, struct halo_fault *fault)
{
    x->n_files = halo_gguf_n_parts(gguf);
    x->files = calloc(x->n_files, sizeof(*x->files));
    int r = x->files ? 0 : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u files", x->n_files);
    for (uint32_t i = 0; i < x->n_files && r == 0; i++) {
        struct halo_experts_file *file = &x->files[i];
        const char *path = halo_gguf_part_path(gguf, i), *slash = strrchr(path, '/');
        *file = (struct halo_experts_file){
            .fd = halo_gguf_part_fd(gguf, i), .id = *halo_gguf_part_id(gguf, i), .name = slash ? slash + 1 : path};
        r = halo_fetch_add_file(x->fetch, file->fd, &file->id, file->name, &file->number, fault);
    }
    return r;
}

int halo_experts_open(struct halo_experts *x, const struct halo_gguf *gguf, uint32_t block_bytes, uint32_t depth,
                      struct halo_fault *fault)
{
    struct halo_fetch_options options = {.block_bytes = block_bytes ? block_bytes : HALO_FETCH_BLOCK_DEFAULT,
                                         .depth = depth ? depth : HALO_FETCH_DEPTH_DEFAULT,
                                         .queue = x->setup.n_slots * halo_experts_parts_max(x)};
    options.ahead_depth = max_u32(AHEAD_BYTES / options.block_bytes, AHEAD_LEAST);
    options.ahead_depth = min_u32(options.ahead_depth, options.depth);
    int r = halo_experts_open_memory(x, fault);
    r = r < 0 ? r : halo_fetch_create(&options, &x->fetch, fault);
    return r < 0 ? r : open_files(x, gguf, fault);
}

bool halo_experts_destroy(struct halo_experts *x)
{
    if (!x)
        return true;
    /* The kernel may still write into the slots of a drive that does not answer: their memory stays. */
    bool is_over = !x->fetch || halo_fetch_drain(x->fetch, DRAIN_US) == 0;
    if (is_over) {
        halo_fetch_destroy(x->fetch);
        halo_expert_memory_finish(&x->memory);
    } else {
        halo_expert_memory_abandon(&x->memory);
    }
    halo_expert_cache_finish(&x->cache);
    free(x->layers);
    free(x->files);
    free(x->pending);
    free(x->arrived);
    free(x->is_spoiled);
    free(x->reads);
    free(x->chosen);
    free(x);
    return is_over;
}

void halo_experts_report(struct halo_experts *x, struct halo_experts_report *ret)
{
    *ret = (struct halo_experts_report){.hit_bytes = atomic_load(&x->hit_bytes),
                                        .miss_bytes = atomic_load(&x->miss_bytes),
                                        .read_bytes = atomic_load(&x->read_bytes),
                                        .wait_us = atomic_load(&x->wait_us)};
    halo_fetch_describe(x->fetch, ret->reading, sizeof(ret->reading));
}

const struct halo_expert_source *halo_experts_source(const struct halo_experts *x)
{
    return &x->source;
}

void halo_experts_notices(struct halo_experts *x, struct halo_remarks *ret)
{
    halo_fetch_notices(x->fetch, ret);
    halo_expert_memory_notices(&x->memory, ret);
}

const char *halo_experts_method(const struct halo_experts *x)
{
    return halo_fetch_method(x->fetch) == HALO_FETCH_URING ? "io_uring" : "pread threads";
}
