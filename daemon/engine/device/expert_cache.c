/* expert_cache.c: see expert_cache.h. */
#include <engine/expert_cache.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <base/state.h>

#define SCORE_ONE 16         /* of one choice */
#define SCORE_MAX 4096       /* of one that is chosen all the time */
#define HALVED_EVERY 32      /* runs of the layer after which a choice counts half */
#define WORTH_ONE (1u << 20) /* of a slot of class 0 that was used just now */
#define GUESS_AGE 1          /* a guess takes no slot whose age / 2^class is less */

#define BIT(state) HALO_STATE_BIT(HALO_EXPERT_##state)
static const unsigned moves[HALO_EXPERT_STATES] = {
    [HALO_EXPERT_EMPTY] = BIT(READING) | BIT(CLOSED),
    [HALO_EXPERT_READING] = BIT(ARRIVED) | BIT(EMPTY),
    [HALO_EXPERT_ARRIVED] = BIT(READY) | BIT(EMPTY),
    [HALO_EXPERT_READY] = BIT(EMPTY),
    [HALO_EXPERT_CLOSED] = BIT(EMPTY),
};

static void move(struct halo_expert_slot *slot, enum halo_expert_state to)
{
    slot->state = (uint8_t)halo_state_move(moves, slot->state, to);
}

static uint32_t number_of(const struct halo_expert_cache *cache, const struct halo_expert_slot *slot)
{
    return (uint32_t)(slot - cache->slots);
}

static uint32_t *place_of(const struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    assert(layer < cache->n_layers && id < cache->n_expert);
    return &cache->slot_of[(size_t)layer * cache->n_expert + id];
}

uint32_t halo_expert_cache_least(uint32_t n_layers, uint32_t n_expert, uint32_t min_slots)
{
    uint64_t least = (uint64_t)n_expert + (uint64_t)(n_layers - 1) * min_slots;
    return least > UINT32_MAX ? UINT32_MAX : (uint32_t)least;
}

int halo_expert_cache_init(struct halo_expert_cache *cache, uint32_t n_layers, uint32_t n_expert, uint32_t n_slots,
                           uint32_t min_slots)
{
    *cache = (struct halo_expert_cache){
        .n_layers = n_layers, .n_expert = n_expert, .n_slots = n_slots, .n_open = n_slots, .min_slots = min_slots};
    halo_list_init(&cache->empty);
    if (n_layers == 0 || n_expert == 0 || n_slots < halo_expert_cache_least(n_layers, n_expert, min_slots))
        return -EINVAL;
    cache->slots = calloc(n_slots, sizeof(*cache->slots));
    cache->layers = calloc(n_layers, sizeof(*cache->layers));
    cache->slot_of = calloc((size_t)n_layers * n_expert, sizeof(*cache->slot_of));
    if (!cache->slots || !cache->layers || !cache->slot_of) {
        halo_expert_cache_finish(cache);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n_slots; i++)
        halo_list_append(&cache->empty, &cache->slots[i].node);
    for (uint32_t layer = 0; layer < n_layers; layer++)
        for (uint32_t class = 0; class < HALO_EXPERT_CLASSES; class ++)
            halo_list_init(&cache->layers[layer].idle[class]);
    for (size_t i = 0; i < (size_t)n_layers * n_expert; i++)
        cache->slot_of[i] = HALO_EXPERT_NONE;
    return 0;
}

void halo_expert_cache_finish(struct halo_expert_cache *cache)
{
    free(cache->slots);
    free(cache->layers);
    free(cache->slot_of);
    cache->slots = NULL;
    cache->layers = NULL;
    cache->slot_of = NULL;
}

void halo_expert_cache_run(struct halo_expert_cache *cache, uint32_t layer, bool is_sweep)
{
    cache->layers[layer].runs++;
    cache->is_sweep = is_sweep;
}

/* ---- worth ---- */

static uint64_t age_of(const struct halo_expert_cache *cache, const struct halo_expert_slot *slot)
{
    return cache->layers[slot->layer].runs - slot->used;
}

/* One more choice, the earlier ones decayed. */
static void score(struct halo_expert_cache *cache, struct halo_expert_slot *slot)
{
    uint64_t halvings = age_of(cache, slot) / HALVED_EVERY;
    uint32_t class = 0;
    slot->score = (halvings < 32 ? slot->score >> halvings : 0) + SCORE_ONE;
    slot->score = slot->score < SCORE_MAX ? slot->score : SCORE_MAX;
    while (class < HALO_EXPERT_CLASSES - 1 && slot->score >= (2u * SCORE_ONE << 2 * class))
        class ++;
    slot->class = (uint8_t) class;
    slot->used = cache->layers[slot->layer].runs;
}

/* The greater, the sooner it goes: age / 2^class, then the turns until its layer runs again. */
static uint64_t eagerness(const struct halo_expert_cache *cache, const struct halo_expert_slot *slot, uint32_t layer)
{
    uint64_t turns = (slot->layer + cache->n_layers - layer) % cache->n_layers;
    return (age_of(cache, slot) << 8 >> slot->class) * cache->n_layers + turns;
}

static struct halo_expert_slot *oldest(const struct halo_expert_layer *layer, uint32_t class)
{
    return HALO_LIST_ITEM(layer->idle[class].first, struct halo_expert_slot, node);
}

/* NULL: nothing can go for an expert of `layer`. */
static struct halo_expert_slot *find_victim(const struct halo_expert_cache *cache, uint32_t layer)
{
    struct halo_expert_slot *victim = NULL;
    uint64_t most = 0;
    for (uint32_t other = 0; other < cache->n_layers; other++) {
        if (other != layer && cache->layers[other].n_slots <= cache->min_slots)
            continue;
        for (uint32_t class = 0; class < HALO_EXPERT_CLASSES; class ++) {
            struct halo_expert_slot *slot = oldest(&cache->layers[other], class);
            uint64_t eager = slot ? eagerness(cache, slot, layer) : 0;
            if (slot && (!victim || eager > most)) {
                victim = slot;
                most = eager;
            }
        }
    }
    return victim;
}

/* ---- turns ---- */

/* Turns until the layer runs, when it is now the turn of `now`. */
static uint32_t turns_until(const struct halo_expert_cache *cache, uint32_t now, uint32_t layer)
{
    return (layer + cache->n_layers - now) % cache->n_layers;
}

/* Of the least class, the longest unused; NULL: none of the layer is idle. */
static struct halo_expert_slot *least_of(const struct halo_expert_cache *cache, uint32_t layer)
{
    struct halo_expert_slot *slot = NULL;
    for (uint32_t class = 0; class < HALO_EXPERT_CLASSES && !slot; class ++)
        slot = oldest(&cache->layers[layer], class);
    return slot;
}

/* The idle slot whose layer's turn comes last, and behind that of `layer`; NULL: there is none. */
static struct halo_expert_slot *last_in_turn(const struct halo_expert_cache *cache, uint32_t now, uint32_t layer)
{
    struct halo_expert_slot *slot = NULL;
    for (uint32_t turns = cache->n_layers - 1; turns > turns_until(cache, now, layer) && !slot; turns--) {
        uint32_t other = (now + turns) % cache->n_layers;
        if (cache->layers[other].n_slots > cache->min_slots)
            slot = least_of(cache, other);
    }
    return slot;
}

/* For a layer under way: what it has not chosen, whose turn has just passed, then as above. */
static struct halo_expert_slot *last_in_sweep(const struct halo_expert_cache *cache, uint32_t layer)
{
    struct halo_expert_slot *slot = least_of(cache, layer);
    return slot ? slot : last_in_turn(cache, layer, layer);
}

/* ---- slots ---- */

static void empty(struct halo_expert_cache *cache, struct halo_expert_slot *slot)
{
    *place_of(cache, slot->layer, slot->id) = HALO_EXPERT_NONE;
    cache->layers[slot->layer].n_slots--;
    move(slot, HALO_EXPERT_EMPTY);
}

/* An empty slot becomes one that waits for the expert. */
static void begin(struct halo_expert_cache *cache, struct halo_expert_slot *slot, uint32_t layer, uint32_t id)
{
    move(slot, HALO_EXPERT_READING);
    slot->layer = layer;
    slot->id = id;
    slot->generation++;
    slot->score = 0;
    slot->class = 0;
    slot->used = cache->layers[layer].runs;
    *place_of(cache, layer, id) = number_of(cache, slot);
    cache->layers[layer].n_slots++;
}

/* A slot for an expert of `layer`, in no list. */
static struct halo_expert_slot *make_room(struct halo_expert_cache *cache, uint32_t layer)
{
    struct halo_expert_slot *slot = HALO_LIST_ITEM(cache->empty.first, struct halo_expert_slot, node);
    if (slot) {
        halo_list_remove(&slot->node);
        return slot;
    }
    slot = cache->is_sweep ? last_in_sweep(cache, layer) : NULL;
    slot = slot ? slot : find_victim(cache, layer);
    if (!slot)
        return NULL;
    halo_list_remove(&slot->node);
    empty(cache, slot);
    return slot;
}

static void hold(struct halo_expert_slot *slot)
{
    if (halo_list_is_linked(&slot->node))
        halo_list_remove(&slot->node);
    slot->is_held = true;
}

uint32_t halo_expert_cache_find(const struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    return *place_of(cache, layer, id);
}

bool halo_expert_cache_hold(struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    uint32_t at = *place_of(cache, layer, id);
    if (at != HALO_EXPERT_NONE)
        hold(&cache->slots[at]);
    return at != HALO_EXPERT_NONE;
}

uint32_t halo_expert_cache_choose(struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    uint32_t at = *place_of(cache, layer, id);
    struct halo_expert_slot *slot = at == HALO_EXPERT_NONE ? make_room(cache, layer) : &cache->slots[at];
    if (!slot)
        return HALO_EXPERT_NONE;
    if (at == HALO_EXPERT_NONE)
        begin(cache, slot, layer, id);
    hold(slot);
    score(cache, slot);
    return number_of(cache, slot);
}

uint32_t halo_expert_cache_guess(struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    if (*place_of(cache, layer, id) != HALO_EXPERT_NONE)
        return HALO_EXPERT_NONE;
    struct halo_expert_slot *victim = cache->empty.first ? NULL : find_victim(cache, layer);
    if (!cache->empty.first && (!victim || age_of(cache, victim) >> victim->class < GUESS_AGE))
        return HALO_EXPERT_NONE;
    struct halo_expert_slot *slot = make_room(cache, layer);
    begin(cache, slot, layer, id);
    return number_of(cache, slot);
}

uint32_t halo_expert_cache_ahead(struct halo_expert_cache *cache, uint32_t now, uint32_t layer, uint32_t id)
{
    if (*place_of(cache, layer, id) != HALO_EXPERT_NONE)
        return HALO_EXPERT_NONE;
    struct halo_expert_slot *slot = HALO_LIST_ITEM(cache->empty.first, struct halo_expert_slot, node);
    if (!slot)
        slot = last_in_turn(cache, now, layer);
    if (!slot)
        return HALO_EXPERT_NONE;
    halo_list_remove(&slot->node);
    if (slot->state != HALO_EXPERT_EMPTY)
        empty(cache, slot);
    begin(cache, slot, layer, id);
    return number_of(cache, slot);
}

/* Back into the list of its class, as the one that was used last. */
static void idle(struct halo_expert_cache *cache, struct halo_expert_slot *slot)
{
    halo_list_append(&cache->layers[slot->layer].idle[slot->class], &slot->node);
}

static void lose(struct halo_expert_cache *cache, struct halo_expert_slot *slot)
{
    if (halo_list_is_linked(&slot->node))
        halo_list_remove(&slot->node);
    empty(cache, slot);
    slot->is_held = false;
    halo_list_append(&cache->empty, &slot->node);
}

void halo_expert_cache_arrive(struct halo_expert_cache *cache, uint32_t number, uint64_t generation, bool is_there)
{
    assert(number < cache->n_slots);
    struct halo_expert_slot *slot = &cache->slots[number];
    if (slot->generation != generation || slot->state != HALO_EXPERT_READING)
        return;
    if (is_there) {
        move(slot, HALO_EXPERT_ARRIVED);
        if (!slot->is_held)
            idle(cache, slot);
        return;
    }
    lose(cache, slot);
}

void halo_expert_cache_ready(struct halo_expert_cache *cache, uint32_t number)
{
    move(&cache->slots[number], HALO_EXPERT_READY);
}

void halo_expert_cache_drop(struct halo_expert_cache *cache, uint32_t number)
{
    assert(cache->slots[number].state == HALO_EXPERT_ARRIVED || cache->slots[number].state == HALO_EXPERT_READY);
    lose(cache, &cache->slots[number]);
}

void halo_expert_cache_release(struct halo_expert_cache *cache, uint32_t number)
{
    struct halo_expert_slot *slot = &cache->slots[number];
    if (!slot->is_held)
        return; /* it did not arrive */
    slot->is_held = false;
    if (slot->state != HALO_EXPERT_READING)
        idle(cache, slot);
}

void halo_expert_cache_unhold(struct halo_expert_cache *cache, uint32_t layer, uint32_t id)
{
    uint32_t at = *place_of(cache, layer, id);
    if (at != HALO_EXPERT_NONE)
        halo_expert_cache_release(cache, at);
}

/* ---- closing ---- */

static bool is_busy(const struct halo_expert_slot *slot)
{
    return slot->is_held || slot->state == HALO_EXPERT_READING;
}

static uint32_t count_open(const struct halo_expert_cache *cache, uint32_t first, uint32_t n)
{
    uint32_t n_open = 0;
    for (uint32_t i = first; i < first + n; i++)
        n_open += cache->slots[i].state != HALO_EXPERT_CLOSED;
    return n_open;
}

uint64_t halo_expert_cache_worth(const struct halo_expert_cache *cache, uint32_t first, uint32_t n)
{
    uint64_t sum = 0;
    uint32_t n_open = count_open(cache, first, n);
    if (n_open == 0 ||
        cache->n_open < n_open + halo_expert_cache_least(cache->n_layers, cache->n_expert, cache->min_slots))
        return HALO_EXPERT_BUSY;
    for (uint32_t i = first; i < first + n; i++) {
        const struct halo_expert_slot *slot = &cache->slots[i];
        if (is_busy(slot))
            return HALO_EXPERT_BUSY;
        if (slot->state != HALO_EXPERT_EMPTY && slot->state != HALO_EXPERT_CLOSED)
            sum += ((uint64_t)WORTH_ONE << slot->class) / (1 + age_of(cache, slot));
    }
    return sum;
}

uint32_t halo_expert_cache_close(struct halo_expert_cache *cache, uint32_t first, uint32_t n)
{
    assert(halo_expert_cache_worth(cache, first, n) != HALO_EXPERT_BUSY);
    uint32_t n_open = count_open(cache, first, n);
    for (uint32_t i = first; i < first + n; i++) {
        struct halo_expert_slot *slot = &cache->slots[i];
        if (slot->state == HALO_EXPERT_CLOSED)
            continue;
        halo_list_remove(&slot->node);
        if (slot->state != HALO_EXPERT_EMPTY)
            empty(cache, slot);
        move(slot, HALO_EXPERT_CLOSED);
    }
    cache->n_open -= n_open;
    return n_open;
}

uint32_t halo_expert_cache_open(struct halo_expert_cache *cache, uint32_t first, uint32_t n)
{
    uint32_t n_opened = n - count_open(cache, first, n);
    for (uint32_t i = first; i < first + n; i++)
        if (cache->slots[i].state == HALO_EXPERT_CLOSED) {
            move(&cache->slots[i], HALO_EXPERT_EMPTY);
            halo_list_append(&cache->empty, &cache->slots[i].node);
        }
    cache->n_open += n_opened;
    return n_opened;
}
