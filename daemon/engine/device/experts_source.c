/* experts_source.c: the source of experts of a device (kernels/experts.h): what a layer has chosen, what has come of it
 * and what is read ahead. Device thread. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include <base/clock.h>
#include <store/fetch.h>

#include "device/experts_priv.h"

#define WAIT_US 100000 /* between two signs of life while nothing arrives */
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

/* ---- choosing ---- */

/* Those of the last product of a layer of experts, which the others do not need. */
static uint32_t last_parts(const struct halo_expert_layout *layer)
{
    return 1u << (layer->n_parts - 1);
}

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
        count_bytes(x, slot->state == HALO_EXPERT_READY, layer->n_bytes); /* read ahead is not found */
        chosen->is_new = !is_known;
        if (!is_known) {
            halo_experts_expect(x, chosen->slot);
            halo_experts_add_reads(x, chosen->slot, halo_experts_all_parts(layer) & ~last_parts(layer),
                                   HALO_FETCH_DEMAND);
        } else if (slot->state == HALO_EXPERT_READING) {
            halo_fetch_promote(x->fetch, chosen->slot, slot->generation); /* it was guessed */
        }
    }
    for (uint32_t i = 0; i < x->n_chosen; i++) {
        if (x->chosen[i].is_new)
            halo_experts_add_reads(x, x->chosen[i].slot, last_parts(layer), HALO_FETCH_DEMAND);
        x->chosen[i].is_new = false;
    }
    halo_experts_submit(x);
}

/* Begins to read what the layer is sure to choose and does not have, as far as slots can be had when it is now the turn
 * of `now`. It is a demand: what was asked for earlier is served first anyway. */
static void read_layer_ahead(struct halo_experts *x, uint32_t now, uint32_t layer)
{
    for (uint32_t id = 0; id < x->layers[layer].n_expert; id++) {
        uint32_t slot = halo_expert_cache_ahead(&x->cache, now, layer, id);
        if (slot == HALO_EXPERT_NONE)
            continue;
        halo_experts_expect(x, slot);
        halo_experts_add_reads(x, slot, halo_experts_all_parts(&x->layers[layer]), HALO_FETCH_DEMAND);
    }
    halo_experts_submit(x);
}

/* Where the order is known: streamed layers in their turns, from `now` on; in a sweep all experts of the next layer,
 * while `now` computes or when its turn has come, unless memory has to go. A buffer that somebody has to empty is not
 * for what nobody waits for. */
static void read_ahead(struct halo_experts *x, uint32_t now, uint32_t next)
{
    bool may_sweep =
        x->memory.kind != HALO_EXPERT_MEMORY_COPIED && atomic_load(&x->wanted_bytes) == 0 && x->owed_bytes == 0;
    for (uint32_t i = 0; i < x->setup.n_slots && x->shape.is_dense; i++)
        read_layer_ahead(x, now, (now + i) % x->shape.n_layers);
    if (x->cache.is_sweep && next < x->shape.n_layers && may_sweep)
        read_layer_ahead(x, now, next);
    halo_experts_purge(x);
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

/* The layer has chosen: of what it was guessed to choose and has not, what the drive was not asked for yet is not read.
 * Nothing of such an expert is used. */
static void give_up_guesses(struct halo_experts *x)
{
    for (uint32_t i = 0; i < x->n_guessed; i++) {
        uint32_t number = x->guessed[i].slot;
        const struct halo_expert_slot *slot = &x->cache.slots[number];
        bool is_same = slot->generation == x->guessed[i].generation && slot->state == HALO_EXPERT_READING;
        if (is_same && !slot->is_held && halo_fetch_cancel_ahead(x->fetch, number, slot->generation) > 0)
            x->is_spoiled[number] = true;
    }
    x->n_guessed = 0;
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
        halo_experts_hold(x, ids[i]);
    }
    give_up_guesses(x);
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
            ret->data[i] = halo_experts_data(x, chosen->slot, &layer->parts[i], chosen->id);
        }
}

static bool is_taken(const struct halo_experts *x, const struct halo_experts_chosen *chosen)
{
    return chosen->taken_parts == halo_experts_all_parts(&x->layers[x->layer]);
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
    bool has_run = x->n_chosen > 0;
    x->n_chosen = 0;
    halo_experts_end_layer(x);
    if (has_run)
        read_ahead(x, (x->layer + 1) % x->shape.n_layers, x->layer + 1);
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
    for (uint32_t i = 0; i < n && x->n_reads + HALO_EXPERT_PARTS <= halo_experts_reads_max(x); i++) {
        if (halo_expert_cache_find(&x->cache, layer, ids[i]) != HALO_EXPERT_NONE ||
            !halo_expert_guess_add(&x->guess, i, ids[i]) || x->n_guessed == HALO_EXPERT_GUESS_READ)
            continue;
        uint32_t slot = halo_expert_cache_guess(&x->cache, layer, ids[i]);
        if (slot == HALO_EXPERT_NONE)
            continue;
        halo_experts_expect(x, slot);
        halo_experts_add_reads(x, slot, halo_experts_all_parts(&x->layers[layer]), HALO_FETCH_AHEAD);
        x->guessed[x->n_guessed++] = (struct halo_experts_guessed){slot, x->cache.slots[slot].generation};
        if (x->setup.stats)
            HALO_COUNT(x->setup.stats, expert_guess_bytes, x->layers[layer].n_bytes);
    }
    halo_experts_submit(x);
}

void halo_experts_make_source(struct halo_experts *x)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_phase_texts);
    x->source = (struct halo_expert_source){x, choose, take, release, wants_guess, guess};
}
