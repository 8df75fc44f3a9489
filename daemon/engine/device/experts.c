/* experts.c: see experts.h. Life on the thread that has the load, the rest on the device thread. */
#include <engine/experts.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <base/clock.h>
#include <store/fetch.h>
#include <store/hull.h>

#include "device/expert_shape_priv.h"
#include "device/experts_priv.h"

#define WAIT_US 100000 /* between two signs of life while nothing arrives */
#define DRAIN_US 2000000
#define GUESS_MOST 4   /* batches that choose more than so many tokens do are prompts */
#define SWEEP_SPARES 8 /* a sweep leaves at most one of so many experts of a layer unused */
#define LAYERS_MAX 512 /* of a model: the texts of phases */

/* ---- texts of phases ---- */

static char phase_texts[2][LAYERS_MAX][40]; /* of experts, of whole layers */

static void make_phase_texts(void)
{
    for (uint32_t i = 0; i < LAYERS_MAX; i++) {
        snprintf(phase_texts[false][i], sizeof(phase_texts[false][i]), "reading experts of layer %u", i);
        snprintf(phase_texts[true][i], sizeof(phase_texts[true][i]), "reading layer %u", i);
    }
}

static void publish(struct halo_device_phase *phase, const struct halo_experts *x)
{
    if (!phase)
        return;
    atomic_store(&phase->what, phase_texts[x->shape.is_dense][x->layers[x->layer].number % LAYERS_MAX]);
    atomic_fetch_add(&phase->step, 1);
}

/* ---- reads ---- */

static uint32_t n_parts_max(const struct halo_experts *x)
{
    return x->shape.is_dense ? HALO_LAYER_PARTS : HALO_EXPERT_PARTS;
}

static uint32_t n_reads_max(const struct halo_experts *x)
{
    return x->shape.n_expert * n_parts_max(x);
}

static uint64_t offset_of(const struct halo_expert_part *part, uint32_t id)
{
    return part->offset + id * part->step;
}

static uint32_t all_parts(const struct halo_expert_layout *layer)
{
    return (1u << layer->n_parts) - 1;
}

/* Those of the last product of a layer of experts, which the others do not need. */
static uint32_t last_parts(const struct halo_expert_layout *layer)
{
    return 1u << (layer->n_parts - 1);
}

/* Where the file's bytes of a part go. */
static uint8_t *data_of(const struct halo_experts *x, uint32_t slot, const struct halo_expert_part *part, uint32_t id)
{
    return halo_expert_memory_at(&x->memory, slot) + part->at + part->growth + offset_of(part, id) % HALO_HULL_ALIGN;
}

/* A slot has just been given to an expert: none of its parts is there. */
static void expect_parts(struct halo_experts *x, uint32_t slot)
{
    halo_expert_memory_begin(&x->memory, slot);
    x->pending[slot] = all_parts(&x->layers[x->cache.slots[slot].layer]);
    x->arrived[slot] = 0;
    x->is_spoiled[slot] = false;
}

/* Adds the reads of these parts of it. */
static void add_reads(struct halo_experts *x, uint32_t slot, uint32_t parts, enum halo_fetch_priority priority)
{
    const struct halo_expert_slot *at = &x->cache.slots[slot];
    const struct halo_expert_layout *layer = &x->layers[at->layer];
    for (uint32_t i = 0; i < layer->n_parts; i++)
        if (parts >> i & 1)
            x->reads[x->n_reads++] = (struct halo_fetch_read){
                .file = x->files[layer->parts[i].file_part].number,
                .priority = priority,
                .offset = offset_of(&layer->parts[i], at->id),
                .n_bytes = layer->parts[i].n_bytes,
                .dest = data_of(x, slot, &layer->parts[i], at->id),
                .slot = slot,
                .generation = at->generation,
            };
}

/* The queue has room for the reads of all slots. */
static void submit(struct halo_experts *x)
{
    int r = x->n_reads > 0 ? halo_fetch_submit(x->fetch, x->reads, x->n_reads) : 0;
    assert(r == 0);
    x->n_reads = 0;
}

static void count_read(struct halo_experts *x, uint64_t n_bytes)
{
    atomic_fetch_add_explicit(&x->read_bytes, n_bytes, memory_order_relaxed);
    if (!x->setup.stats)
        return;
    HALO_COUNT(x->setup.stats, disk_read_bytes, n_bytes);
    if (x->shape.is_dense)
        HALO_COUNT(x->setup.stats, layer_read_bytes, n_bytes);
    else
        HALO_COUNT(x->setup.stats, expert_read_bytes, n_bytes);
}

/* The part that a read brought, as a bit. */
static uint32_t part_of(const struct halo_experts *x, const struct halo_fetch_done *done)
{
    const struct halo_expert_slot *slot = &x->cache.slots[done->slot];
    const struct halo_expert_layout *layer = &x->layers[slot->layer];
    for (uint32_t i = 0; i < layer->n_parts; i++)
        if (offset_of(&layer->parts[i], slot->id) == done->offset &&
            x->files[layer->parts[i].file_part].number == done->file)
            return 1u << i;
    assert(false);
    return 0;
}

static void take_completion(struct halo_experts *x, const struct halo_fetch_done *done)
{
    struct halo_expert_slot *slot = &x->cache.slots[done->slot];
    uint32_t part = part_of(x, done);
    assert(slot->generation == done->generation && (x->pending[done->slot] & part));
    x->pending[done->slot] &= ~part;
    if (done->error == 0) {
        x->arrived[done->slot] |= part;
        count_read(x, done->n_bytes);
    } else {
        x->is_spoiled[done->slot] = true;
        if (slot->is_held && x->fault.code == HALO_FAULT_NONE)
            halo_fetch_fault(x->fetch, done, &x->fault);
    }
    if (x->pending[done->slot])
        return;
    /* A buffer is not kept for an expert that nobody waits for any more. */
    bool is_there = !x->is_spoiled[done->slot] && (slot->is_held || x->memory.kind != HALO_EXPERT_MEMORY_COPIED);
    halo_expert_cache_arrive(&x->cache, done->slot, done->generation, is_there);
    if (!is_there)
        halo_expert_memory_end(&x->memory, done->slot);
}

uint32_t halo_experts_reap(struct halo_experts *x, uint64_t timeout_us)
{
    struct halo_fetch_done done[HALO_EXPERTS_REAP];
    uint32_t n = halo_fetch_reap(x->fetch, done, HALO_EXPERTS_REAP, timeout_us);
    for (uint32_t i = 0; i < n; i++)
        take_completion(x, &done[i]);
    return n;
}

/* ---- the source ---- */

/* Whether the expert is in its slot or on its way there. A read that an earlier step had given up may have failed. */
static bool is_placed(const struct halo_experts *x, const struct halo_experts_chosen *chosen)
{
    return chosen->slot != HALO_EXPERT_NONE && halo_expert_cache_find(&x->cache, x->layer, chosen->id) == chosen->slot;
}

static void count_bytes(struct halo_experts *x, bool is_there, uint64_t n_bytes)
{
    atomic_fetch_add_explicit(is_there ? &x->hit_bytes : &x->miss_bytes, n_bytes, memory_order_relaxed);
    if (x->shape.is_dense || !x->setup.stats)
        return;
    if (is_there)
        HALO_COUNT(x->setup.stats, expert_hit_bytes, n_bytes);
    else
        HALO_COUNT(x->setup.stats, expert_miss_bytes, n_bytes);
}

/* Gives slots to the chosen experts that have none, as far as there are any and the reads have buffers, and submits
 * their reads: first what the first product needs of all of them. */
static void place(struct halo_experts *x)
{
    const struct halo_expert_layout *layer = &x->layers[x->layer];
    for (uint32_t i = 0; i < x->n_chosen; i++) {
        struct halo_experts_chosen *chosen = &x->chosen[i];
        if (is_placed(x, chosen))
            continue;
        bool is_known = halo_expert_cache_find(&x->cache, x->layer, chosen->id) != HALO_EXPERT_NONE;
        if (!is_known && !halo_expert_memory_has_buffer(&x->memory))
            break;
        chosen->slot = halo_expert_cache_choose(&x->cache, x->layer, chosen->id);
        if (chosen->slot == HALO_EXPERT_NONE)
            break;
        const struct halo_expert_slot *slot = &x->cache.slots[chosen->slot];
        bool is_there = slot->state == HALO_EXPERT_READY || (slot->state == HALO_EXPERT_ARRIVED && !x->cache.is_sweep);
        count_bytes(x, is_there, layer->n_bytes); /* what a sweep read ahead it did not find */
        chosen->is_new = !is_known;
        if (!is_known) {
            expect_parts(x, chosen->slot);
            add_reads(x, chosen->slot, all_parts(layer) & ~last_parts(layer), HALO_FETCH_DEMAND);
        } else if (slot->state == HALO_EXPERT_READING) {
            halo_fetch_promote(x->fetch, chosen->slot, slot->generation); /* it was guessed */
        }
    }
    for (uint32_t i = 0; i < x->n_chosen; i++) {
        if (x->chosen[i].is_new)
            add_reads(x, x->chosen[i].slot, last_parts(layer), HALO_FETCH_DEMAND);
        x->chosen[i].is_new = false;
    }
    submit(x);
}

/* Begins to read what the layer is sure to choose and does not have, as far as slots can be had when it is now the turn
 * of `now`. It is a demand: what was asked for earlier is served first anyway. */
static void read_layer_ahead(struct halo_experts *x, uint32_t now, uint32_t layer)
{
    for (uint32_t id = 0; id < x->layers[layer].n_expert; id++) {
        uint32_t slot = halo_expert_cache_ahead(&x->cache, now, layer, id);
        if (slot == HALO_EXPERT_NONE)
            continue;
        expect_parts(x, slot);
        add_reads(x, slot, all_parts(&x->layers[layer]), HALO_FETCH_DEMAND);
    }
    submit(x);
}

/* Where the order is known: streamed layers in their turns, from `now` on; in a sweep all experts of the next layer,
 * while `now` computes or when its turn has come. A buffer that somebody has to empty is not for what nobody waits
 * for. */
static void read_ahead(struct halo_experts *x, uint32_t now, uint32_t next)
{
    for (uint32_t i = 0; i < x->setup.n_slots && x->shape.is_dense; i++)
        read_layer_ahead(x, now, (now + i) % x->shape.n_layers);
    if (x->cache.is_sweep && next < x->shape.n_layers && x->memory.kind != HALO_EXPERT_MEMORY_COPIED)
        read_layer_ahead(x, now, next);
}

/* Whether the batch is a prompt's, which leaves few experts of any layer unused. */
static bool is_sweep(const struct halo_experts *x, uint32_t layer, uint32_t n)
{
    return !x->shape.is_dense && n >= x->layers[layer].n_expert - x->layers[layer].n_expert / SWEEP_SPARES;
}

/* A batch comes to the first layer: the time since the last one is that of a token, when both decoded. */
static void time_token(struct halo_experts *x, uint32_t n)
{
    bool is_token = n <= GUESS_MOST * x->shape.n_used;
    uint64_t now_ns = halo_clock_ns();
    if (is_token && x->token_ns > 0)
        halo_expert_trial_note(&x->trial, now_ns - x->token_ns);
    x->token_ns = is_token ? now_ns : 0;
}

static int choose(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n, char *reason)
{
    struct halo_experts *x = owner;
    assert(layer < x->shape.n_layers && n <= x->shape.n_expert && x->n_chosen == 0);
    x->layer = layer;
    x->n_chosen = n;
    x->n_taken = 0;
    x->fault.code = HALO_FAULT_NONE;
    halo_expert_cache_run(&x->cache, layer, is_sweep(x, layer, n));
    halo_expert_guess_compare(&x->guess, layer, ids, n);
    if (layer == 0 && !x->shape.is_dense)
        time_token(x, n);
    for (uint32_t i = 0; i < n; i++) {
        x->chosen[i] = (struct halo_experts_chosen){.id = ids[i], .slot = HALO_EXPERT_NONE};
        halo_expert_cache_hold(&x->cache, layer, ids[i]);
    }
    place(x);
    read_ahead(x, layer, layer + 1);
    return 0;
}

/* Whether the layer's files are still what they were: what was read from others must not be used. */
static int check_files(struct halo_experts *x)
{
    const struct halo_expert_layout *layer = &x->layers[x->layer];
    for (uint32_t i = 0; i < layer->n_parts; i++) {
        const struct halo_experts_file *file = &x->files[layer->parts[i].file_part];
        struct stat facts;
        if (i > 0 && layer->parts[i].file_part == layer->parts[i - 1].file_part)
            continue;
        if (fstat(file->fd, &facts) < 0)
            return halo_fault_errno(&x->fault, HALO_FAULT_LOAD_FAILED, -errno, "%.120s cannot be examined", file->name);
        struct halo_file_id id = halo_file_id_of(&facts);
        if (!halo_file_id_is_unwritten(&id, &file->id))
            return halo_fault_set(&x->fault, HALO_FAULT_LOAD_FAILED,
                                  "%.120s was written to while the model streams from it; unload the model and load it "
                                  "again",
                                  file->name);
    }
    return 0;
}

/* The parts that are there and were not taken yet, as bits. */
static uint32_t ready_parts(const struct halo_experts *x, const struct halo_experts_chosen *chosen)
{
    if (!is_placed(x, chosen) || x->is_spoiled[chosen->slot])
        return 0;
    return x->arrived[chosen->slot] & ~chosen->taken_parts;
}

static void fill(const struct halo_experts *x, const struct halo_experts_chosen *chosen, uint32_t parts,
                 struct halo_expert *ret)
{
    const struct halo_expert_layout *layer = &x->layers[x->layer];
    bool is_copied = x->memory.kind == HALO_EXPERT_MEMORY_COPIED;
    *ret = (struct halo_expert){.id = chosen->id,
                                .slot = chosen->slot,
                                .parts = parts,
                                .fresh = x->cache.slots[chosen->slot].state != HALO_EXPERT_READY};
    for (uint32_t i = 0; i < layer->n_parts && (ret->fresh || !is_copied); i++)
        if (parts >> i & 1) {
            ret->base[i] = is_copied ? NULL : halo_expert_memory_at(&x->memory, chosen->slot) + layer->parts[i].at;
            ret->data[i] = data_of(x, chosen->slot, &layer->parts[i], chosen->id);
        }
}

static bool is_taken(const struct halo_experts *x, const struct halo_experts_chosen *chosen)
{
    return chosen->taken_parts == all_parts(&x->layers[x->layer]);
}

/* What is there now. Returns of how many experts, or a negative errno: the files have changed. */
static int gather(struct halo_experts *x, struct halo_expert *ret, uint32_t n)
{
    uint32_t n_ready = 0;
    bool any_fresh = false;
    for (uint32_t i = 0; i < x->n_chosen && n_ready < n; i++) {
        uint32_t parts = ready_parts(x, &x->chosen[i]);
        if (!parts)
            continue;
        fill(x, &x->chosen[i], parts, &ret[n_ready]);
        any_fresh |= ret[n_ready++].fresh;
    }
    int r = any_fresh ? check_files(x) : 0;
    for (uint32_t i = 0, at = 0; i < x->n_chosen && at < n_ready && r == 0; i++) {
        struct halo_experts_chosen *chosen = &x->chosen[i];
        if (chosen->id != ret[at].id)
            continue;
        chosen->taken_parts |= ret[at].parts;
        x->n_taken += is_taken(x, chosen);
        if (is_taken(x, chosen) && ret[at].fresh)
            halo_expert_cache_ready(&x->cache, chosen->slot);
        at++;
    }
    return r < 0 ? r : (int)n_ready;
}

static int fail(struct halo_experts *x, char *reason)
{
    snprintf(reason, HALO_DEVICE_REASON, "%slayer %u cannot be read: %.200s", x->shape.is_dense ? "" : "experts of ",
             x->layers[x->layer].number, x->fault.text);
    if (x->setup.stats && x->shape.is_dense)
        HALO_COUNT(x->setup.stats, layer_failures, 1);
    else if (x->setup.stats)
        HALO_COUNT(x->setup.stats, expert_failures, 1);
    return HALO_EXPERT_E_UNREADABLE;
}

static void say_stalled(struct halo_experts *x)
{
    char what[160];
    halo_fetch_describe(x->fetch, what, sizeof(what));
    halo_fault_set(&x->fault, HALO_FAULT_LOAD_FAILED, "the drive has not answered for %d s: %s",
                   HALO_EXPERTS_STALL_MS / 1000, what);
}

/* Waits until something has arrived. Sets the fault when that takes too long. */
static void wait(struct halo_experts *x, struct halo_device_phase *phase)
{
    uint64_t start_ns = halo_clock_ns(), now_ns;
    uint32_t n;
    do {
        publish(phase, x);
        n = halo_experts_reap(x, WAIT_US);
        now_ns = halo_clock_ns();
    } while (n == 0 && now_ns - start_ns < (uint64_t)HALO_EXPERTS_STALL_MS * 1000000);
    if (n == 0)
        say_stalled(x);
    atomic_fetch_add_explicit(&x->wait_us, (now_ns - start_ns) / 1000, memory_order_relaxed);
    if (x->setup.stats && x->shape.is_dense)
        HALO_COUNT(x->setup.stats, layer_wait_us, (now_ns - start_ns) / 1000);
    else if (x->setup.stats)
        HALO_COUNT(x->setup.stats, expert_wait_us, (now_ns - start_ns) / 1000);
}

/* The device has done with the bytes of the experts of which it took all parts. */
static void end_taken(struct halo_experts *x)
{
    for (uint32_t i = 0; i < x->n_chosen; i++)
        if (is_taken(x, &x->chosen[i]))
            halo_expert_memory_end(&x->memory, x->chosen[i].slot);
}

/* After a failure: what was taken in part is in no layout any more, and no buffer is kept for what nobody took. */
static void drop_untaken(struct halo_experts *x)
{
    for (uint32_t i = 0; i < x->n_chosen; i++) {
        const struct halo_experts_chosen *chosen = &x->chosen[i];
        bool is_torn = chosen->taken_parts != 0;
        if (is_taken(x, chosen) || !is_placed(x, chosen) || (!is_torn && x->memory.kind != HALO_EXPERT_MEMORY_COPIED))
            continue;
        if (x->cache.slots[chosen->slot].state == HALO_EXPERT_READING)
            x->is_spoiled[chosen->slot] |= is_torn; /* gone when its last read is over */
        if (x->cache.slots[chosen->slot].state != HALO_EXPERT_ARRIVED)
            continue;
        halo_expert_cache_drop(&x->cache, chosen->slot);
        halo_expert_memory_end(&x->memory, chosen->slot);
    }
}

static int take(void *owner, struct halo_device_phase *phase, struct halo_expert *ret, uint32_t n, char *reason)
{
    struct halo_experts *x = owner;
    end_taken(x);
    if (x->n_taken == x->n_chosen)
        return 0;
    for (;;) {
        while (halo_experts_reap(x, 0) == HALO_EXPERTS_REAP)
            ;
        place(x);
        int r = x->fault.code == HALO_FAULT_NONE ? gather(x, ret, n) : -EIO;
        if (r < 0)
            return fail(x, reason);
        if (r > 0)
            return r;
        wait(x, phase);
    }
}

static void release(void *owner)
{
    struct halo_experts *x = owner;
    end_taken(x);
    drop_untaken(x);
    for (uint32_t i = 0; i < x->n_chosen; i++)
        halo_expert_cache_unhold(&x->cache, x->layer, x->chosen[i].id);
    if (x->n_chosen > 0)
        read_ahead(x, (x->layer + 1) % x->shape.n_layers, x->layer + 1);
    x->n_chosen = 0;
}

static bool wants_guess(void *owner, uint32_t layer)
{
    const struct halo_experts *x = owner;
    return atomic_load_explicit(&x->may_guess, memory_order_relaxed) && halo_expert_trial_is_on(&x->trial) &&
           x->memory.kind != HALO_EXPERT_MEMORY_COPIED && !x->cache.is_sweep &&
           x->n_chosen <= GUESS_MOST * x->shape.n_used;
}

/* The disk is idle as long as nobody waits for it: what is guessed comes behind what is chosen. */
static void guess(void *owner, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    struct halo_experts *x = owner;
    halo_expert_guess_begin(&x->guess, layer);
    for (uint32_t i = 0; i < n && x->n_reads + HALO_EXPERT_PARTS <= n_reads_max(x); i++) {
        if (halo_expert_cache_find(&x->cache, layer, ids[i]) != HALO_EXPERT_NONE ||
            !halo_expert_guess_add(&x->guess, i, ids[i]))
            continue;
        uint32_t slot = halo_expert_cache_guess(&x->cache, layer, ids[i]);
        if (slot == HALO_EXPERT_NONE)
            continue;
        expect_parts(x, slot);
        add_reads(x, slot, all_parts(&x->layers[layer]), HALO_FETCH_AHEAD);
        if (x->setup.stats)
            HALO_COUNT(x->setup.stats, expert_guess_bytes, x->layers[layer].n_bytes);
    }
    submit(x);
}

/* ---- life ---- */

int halo_experts_create(struct halo_experts **ret, const struct halo_experts_setup *setup, struct halo_fault *fault)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_phase_texts);
    struct halo_experts *x = calloc(1, sizeof(*x));
    if (!x)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a cache of experts");
    x->setup = *setup;
    atomic_store(&x->may_guess, true);
    x->source = (struct halo_expert_source){x, choose, take, release, wants_guess, guess};
    halo_expert_shape_of(setup->ops, setup->device, setup->plan, &x->shape);
    int r = halo_expert_cache_init(&x->cache, x->shape.n_layers, x->shape.n_expert, setup->n_slots, x->shape.min_slots);
    assert(r != -EINVAL);
    x->layers = calloc(x->shape.n_layers, sizeof(*x->layers));
    x->pending = calloc(setup->n_slots, sizeof(*x->pending));
    x->arrived = calloc(setup->n_slots, sizeof(*x->arrived));
    x->is_spoiled = calloc(setup->n_slots, sizeof(*x->is_spoiled));
    x->reads = calloc(n_reads_max(x), sizeof(*x->reads));
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
    struct halo_fetch_options options = {
        .block_bytes = block_bytes, .depth = depth, .queue = x->setup.n_slots * n_parts_max(x)};
    int r = halo_expert_memory_open(&x->memory, fault);
    if (r == 0) {
        x->slab_slots = halo_expert_memory_slab_slots(&x->memory);
        atomic_store(&x->n_open, x->setup.n_slots);
        r = halo_fetch_create(&options, &x->fetch, fault);
    }
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
    struct halo_remarks memory = {0};
    halo_fetch_notices(x->fetch, ret);
    if (x->memory.slabs)
        halo_slabs_notices(x->memory.slabs, &memory);
    halo_remarks_append(ret, &memory);
}

const char *halo_experts_method(const struct halo_experts *x)
{
    return halo_fetch_method(x->fetch) == HALO_FETCH_URING ? "io_uring" : "pread threads";
}
