/* launch.c: blocks and the order in which their waves run; and changes to the code, to test the checks. */
#include <errno.h>
#include <stdlib.h>

#include "isa_priv.h"

#define LIMIT 4000000000ull
#define MOST_SLICE 48 /* instructions until another wave's turn, in random order */
#define PICK_TRIES 256

struct isa_run isa_run;

struct launch {
    const struct isa_kernel *k;
    const struct isa_options *options;
    uint32_t grid[3], threads, n_waves, n_blocks, n_resident;
    uint64_t args;
    struct block *blocks; /* resident */
    uint32_t *order;      /* of all */
    uint32_t next, n_live;
};

uint32_t isa_random(void)
{
    isa_run.rng = isa_run.rng * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t x = (uint32_t)(isa_run.rng >> 32);
    return x ^ x >> 15;
}

/* What the descriptor asks for is what waves get: kernel arguments alone, wave32, no scratch, denormals, round to
 * nearest, ids of one dimension in v0. */
static bool can_run(const struct isa_kernel *k)
{
    uint32_t round = k->rsrc1 >> 12 & 15, denormals = k->rsrc1 >> 16 & 15;
    return (k->properties & 0x77) == 0 && (k->properties & 0x400) && k->scratch_bytes == 0 && denormals == 15 &&
           round == 0 && (k->rsrc2 >> 11 & 3) == 0 && (k->rsrc1 >> 30 & 1);
}

static void begin_block(struct launch *launch, struct block *b)
{
    uint32_t linear = launch->order[launch->next++], lds = launch->k->lds_bytes;
    const uint32_t *grid = launch->grid;
    b->linear = linear;
    b->id[0] = linear % grid[0];
    b->id[1] = linear / grid[0] % grid[1];
    b->id[2] = linear / grid[0] / grid[1];
    b->n_arrived = b->n_done = 0;
    memset(b->lds, 0xff, lds);
    memset(b->lds_defined, 0, lds * sizeof(*b->lds_defined));
    memset(b->cells, 0, lds * sizeof(*b->cells));
    for (uint32_t i = 0; i < b->n_waves; i++)
        isa_wave_begin(&b->waves[i], launch->k, b, i, launch->threads, launch->args);
}

static void make_blocks(struct launch *launch)
{
    launch->blocks = isa_zeros(launch->n_resident, sizeof(*launch->blocks));
    for (uint32_t i = 0; i < launch->n_resident; i++) {
        struct block *b = &launch->blocks[i];
        b->n_waves = launch->n_waves;
        b->waves = isa_zeros(launch->n_waves, sizeof(*b->waves));
        b->lds = isa_zeros(launch->k->lds_bytes, 1);
        b->lds_defined = isa_zeros(launch->k->lds_bytes, sizeof(*b->lds_defined));
        b->cells = isa_zeros(launch->k->lds_bytes, sizeof(*b->cells));
    }
}

static void free_blocks(struct launch *launch)
{
    for (uint32_t i = 0; i < launch->n_resident; i++) {
        struct block *b = &launch->blocks[i];
        for (uint32_t j = 0; j < launch->n_waves; j++)
            free(b->waves[j].notes);
        free(b->waves);
        free(b->lds);
        free(b->lds_defined);
        free(b->cells);
    }
    free(launch->blocks);
    free(launch->order);
}

static void make_order(struct launch *launch)
{
    uint32_t n = launch->n_blocks;
    launch->order = isa_zeros(n, sizeof(*launch->order));
    for (uint32_t i = 0; i < n; i++)
        launch->order[i] = launch->options->order == ISA_REVERSE ? n - 1 - i : i;
    for (uint32_t i = n; launch->options->order == ISA_RANDOM && i-- > 1;) {
        uint32_t j = isa_random() % (i + 1), t = launch->order[i];
        launch->order[i] = launch->order[j];
        launch->order[j] = t;
    }
}

static bool can_go_on(const struct wave *w)
{
    return !w->done && !w->at_barrier;
}

/* The wave whose turn it is; NULL: none can go on. */
static struct wave *pick_wave(struct launch *launch)
{
    enum isa_order order = launch->options->order;
    for (int tries = 0; order == ISA_RANDOM && tries < PICK_TRIES; tries++) {
        struct wave *w = &launch->blocks[isa_random() % launch->n_live].waves[isa_random() % launch->n_waves];
        if (can_go_on(w))
            return w;
    }
    for (uint32_t b = 0; b < launch->n_live; b++)
        for (uint32_t i = 0; i < launch->n_waves; i++) {
            struct wave *w = &launch->blocks[b].waves[order == ISA_REVERSE ? launch->n_waves - 1 - i : i];
            if (can_go_on(w))
                return w;
        }
    return NULL;
}

/* The next block takes its place, or the last one that lives. */
static void replace_block(struct launch *launch, struct block *b)
{
    if (launch->next < launch->n_blocks) {
        begin_block(launch, b);
        return;
    }
    struct block *last = &launch->blocks[--launch->n_live], t = *b;
    if (b == last)
        return;
    *b = *last;
    *last = t;
    for (uint32_t i = 0; i < launch->n_waves; i++)
        b->waves[i].b = b;
}

static void run_blocks(struct launch *launch)
{
    for (; launch->n_live < launch->n_resident; launch->n_live++)
        begin_block(launch, &launch->blocks[launch->n_live]);
    while (launch->n_live > 0 && !isa_run.stop) {
        struct wave *w = pick_wave(launch);
        if (!w) {
            isa_report(&launch->blocks[0].waves[0], &launch->k->ins[0], ISA_HANG, "all waves wait at a barrier");
            isa_run.stop = true;
            return;
        }
        struct block *b = w->b;
        isa_wave_run(w, launch->options->order == ISA_RANDOM ? 1 + isa_random() % MOST_SLICE : UINT32_MAX);
        if (b->n_done == launch->n_waves)
            replace_block(launch, b);
    }
}

int isa_launch(struct isa_kernel *k, const uint32_t grid[3], uint32_t threads, const void *args, size_t args_bytes,
               const struct isa_options *options, struct halo_fault *fault)
{
    int r = isa_decode(k, fault);
    if (r < 0)
        return r;
    if (!can_run(k))
        return halo_fault_set(
            fault, HALO_FAULT_UNSUPPORTED,
            "%s wants what the interpreter does not have (properties %#x, rsrc1 %#x, rsrc2 %#x, scratch %u)", k->name,
            k->properties, k->rsrc1, k->rsrc2, k->scratch_bytes);
    void *kernarg = isa_zeros(k->kernarg_bytes, 1);
    memcpy(kernarg, args, args_bytes < k->kernarg_bytes ? args_bytes : k->kernarg_bytes);
    isa_add(kernarg, k->kernarg_bytes);
    isa_set_read_only(kernarg, true);
    uint32_t resident = options->resident > 0 ? options->resident : options->order == ISA_RANDOM ? 4 : 1;
    struct launch launch = {.k = k,
                            .options = options,
                            .grid = {grid[0], grid[1], grid[2]},
                            .threads = threads,
                            .n_waves = (threads + N_LANES - 1) / N_LANES,
                            .n_blocks = grid[0] * grid[1] * grid[2],
                            .args = (uintptr_t)kernarg};
    launch.n_resident = resident < launch.n_blocks ? resident : launch.n_blocks;
    isa_access_begin();
    isa_run = (struct isa_run){.rng = options->seed * 77 + 1,
                               .time = 1,
                               .limit = options->limit > 0 ? options->limit : LIMIT,
                               .record = options->record,
                               .wmma = options->wmma,
                               .ulp = options->ulp};
    isa_trace_begin(options->record > 0 ? k : NULL, options->record > 0 ? launch.n_waves : 0);
    make_order(&launch);
    make_blocks(&launch);
    run_blocks(&launch);
    free_blocks(&launch);
    isa_remove(kernarg);
    free(kernarg);
    if (isa_run.stop)
        return halo_fault_errno(fault, HALO_FAULT_DEVICE_HANG, -EDEADLK, "%s did not end", k->name);
    return 0;
}

/* ---- changes ---- */

uint32_t isa_n_ins(const struct isa_kernel *k)
{
    return k->n_ins;
}

const char *isa_text(const struct isa_kernel *k, uint32_t i)
{
    return k->ins[i].text;
}

uint64_t isa_n_runs(const struct isa_kernel *k, uint32_t i)
{
    return k->ran[i];
}

static void left_out(struct wave *w, const struct ins *i)
{
}

bool isa_change(struct isa_kernel *k, uint32_t i, enum isa_change change)
{
    static struct ins kept, *changed;
    if (changed)
        *changed = kept;
    changed = NULL;
    if (change == ISA_AS_IS)
        return true;
    struct ins *x = &k->ins[i];
    if (change == ISA_WEAKER && x->cls != C_WAIT)
        return false;
    kept = *x;
    changed = x;
    if (change == ISA_LEFT_OUT)
        x->fn = left_out;
    x->vm += change == ISA_WEAKER && x->vm != NO_COUNT;
    x->lgkm += change == ISA_WEAKER && x->lgkm != NO_COUNT;
    x->vs += change == ISA_WEAKER && x->vs != NO_COUNT;
    return true;
}
