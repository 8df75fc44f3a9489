/* access.c: loads and stores of lanes: bounds, who touched a byte before, and how old what a cache gives is.
 *
 * L0 (one for each CU) and GL1 (one for each WGP here) never evict, so that what can be stale is.
 */
#include <stdlib.h>

#include "isa_priv.h"

enum { N_L0 = 8, N_GL1 = 4, N_LINES = 1 << 16, LINE_BYTES = 128, PROBES = 64 };

#define NOT_VISIBLE UINT32_MAX /* a store that its wave has not waited for */

/* Of a byte: the last store and the last readers, as uid + 1. */
struct cell {
    uint32_t writer, epoch, time, reader, reader_epoch;
    uint8_t cu, wgp;
    bool atomic;        /* by atomic instructions, or the same number by several blocks */
    bool many_readers;  /* several waves of the reader's block since its barrier */
    bool other_readers; /* a block before that one read it as well */
    bool listed;        /* of a page's first: it is in `touched` */
};

static struct cell **touched, **spare; /* pages; spare ones are zeroed */
static size_t n_touched, cap_touched, n_spare, cap_spare;

static struct line { /* in a cache since `time`; `below`: when the data left L2 */
    uint64_t line;
    uint32_t cache, generation, launch, time, below;
} lines[N_LINES];
static uint32_t generations[N_L0 + N_GL1], launch_number;

void isa_access_forget(void)
{
    for (size_t i = 0; i < n_touched; i++)
        memset(touched[i], 0, PAGE_BYTES * sizeof(struct cell));
    n_touched = 0;
}

/* Launches are many and short: pages are used again. */
void isa_access_give_back(struct cell *page)
{
    if (!page)
        return;
    spare = isa_grow(spare, n_spare, &cap_spare, sizeof(*spare));
    spare[n_spare++] = page;
}

void isa_access_begin(void)
{
    launch_number++;
    isa_access_forget();
}

void isa_drop_l0(struct wave *w)
{
    generations[w->cu]++;
}

void isa_drop_gl1(struct wave *w)
{
    generations[N_L0 + w->wgp]++;
}

/* ---- caches ---- */

/* NULL: the table is too full, the line is not followed. */
static struct line *find_line(uint64_t number, uint32_t cache)
{
    uint64_t hash = number * 0x9e3779b97f4a7c15ull ^ cache * 0xc2b2ae3d27d4eb4full;
    hash ^= hash >> 29;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct line *line = &lines[(hash + i) % N_LINES];
        if (line->launch != launch_number) {
            *line = (struct line){
                .line = number, .cache = cache, .generation = generations[cache], .launch = launch_number};
            return line;
        }
        if (line->line != number || line->cache != cache)
            continue;
        if (line->generation != generations[cache]) {
            line->generation = generations[cache];
            line->time = 0;
        }
        return line;
    }
    return NULL;
}

/* When the data that a load of this line gets came into L0, and left L2. */
static void find_age(const struct wave *w, uint64_t number, uint32_t *ret_l0, uint32_t *ret_below)
{
    struct line *l0 = find_line(number, w->cu);
    uint32_t now = (uint32_t)isa_run.time;
    *ret_l0 = *ret_below = now;
    if (!l0)
        return;
    if (l0->time == 0) {
        struct line *gl1 = find_line(number, N_L0 + w->wgp);
        if (!gl1)
            return;
        if (gl1->time == 0)
            gl1->time = now;
        l0->time = now;
        l0->below = gl1->time;
    }
    *ret_l0 = l0->time;
    *ret_below = l0->below;
}

/* ---- bytes ---- */

static struct cell *cell_of(struct piece *piece, uint64_t offset, bool make)
{
    struct cell **page = &piece->page[offset / PAGE_BYTES];
    if (!*page && !make)
        return NULL;
    if (!*page)
        *page = n_spare > 0 ? spare[--n_spare] : isa_zeros(PAGE_BYTES, sizeof(**page));
    if (make && !(*page)->listed) {
        touched = isa_grow(touched, n_touched, &cap_touched, sizeof(*touched));
        touched[n_touched++] = *page;
        (*page)->listed = true;
    }
    return *page + offset % PAGE_BYTES;
}

static uint32_t block_of(uint32_t uid_1)
{
    return (uid_1 - 1) / 64;
}

static uint32_t wave_of(uint32_t uid_1)
{
    return (uid_1 - 1) % 64;
}

static bool is_mine(const struct wave *w, uint32_t uid_1)
{
    return uid_1 == w->uid + 1;
}

static bool in_my_block(const struct wave *w, uint32_t uid_1)
{
    return block_of(uid_1) == w->uid / 64;
}

static void report_bounds(const struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n,
                          const char *what)
{
    const struct piece *p = isa_piece_before(at);
    long long behind = p ? (long long)(at + n - (uintptr_t)p->p - p->n) : -1;
    isa_report(w, i, ISA_BOUNDS, "%s of %u bytes at %#llx, lane %d, ends %lld bytes behind a piece of %zu", what, n,
               (unsigned long long)at, lane, behind, p ? p->n : 0);
}

static void check_alignment(const struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n)
{
    uint32_t want = n >= 16 ? 16 : n == 12 ? 4 : n, off = (uint32_t)(at & (want - 1));
    if (off != 0)
        isa_report(w, i, ISA_MISALIGNED, "%u bytes at an address that is %u mod %u, lane %d", n, off, want, lane);
}

static void check_read(const struct wave *w, const struct ins *i, int lane, const struct cell *c, uint32_t l0,
                       uint32_t below)
{
    if (c->writer == 0 || is_mine(w, c->writer) || c->atomic)
        return;
    if (in_my_block(w, c->writer) && c->epoch >= w->epoch)
        isa_report(w, i, ISA_RACE, "lane %d reads what wave %u wrote after the same barrier", lane, wave_of(c->writer));
    else if (!in_my_block(w, c->writer))
        isa_report(w, i, ISA_BLOCK_RACE, "lane %d reads what block %u wrote", lane, block_of(c->writer));
    if (c->time == NOT_VISIBLE)
        isa_report(w, i, ISA_STALE, "lane %d reads what wave %u of block %u stored and has not waited for", lane,
                   wave_of(c->writer), block_of(c->writer));
    else if ((c->cu != w->cu && c->time > l0) || (c->wgp != w->wgp && c->time > below))
        isa_report(w, i, ISA_STALE, "lane %d reads a line that is older than the store by wave %u of block %u", lane,
                   wave_of(c->writer), block_of(c->writer));
}

static void note_read(const struct wave *w, struct cell *c)
{
    bool other = c->reader != 0 && !in_my_block(w, c->reader);
    if (c->reader == 0 || other || c->reader_epoch < w->epoch) {
        c->other_readers = c->other_readers || other;
        c->reader = w->uid + 1;
        c->many_readers = false;
    } else if (!is_mine(w, c->reader)) {
        c->many_readers = true;
    }
    c->reader_epoch = w->epoch;
}

bool isa_load(struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n, void *to)
{
    struct piece *p = isa_piece_of(at, n);
    uint32_t l0 = 0, below = 0;
    if (!p) {
        report_bounds(w, i, lane, at, n, "load");
        return false;
    }
    check_alignment(w, i, lane, at, n);
    if (w->trace)
        isa_trace_memory(w->trace, at, n);
    uint64_t offset = at - (uintptr_t)p->p;
    memcpy(to, p->p + offset, n);
    for (uint32_t j = 0; j < n; j++) {
        if (j == 0 || (at + j) % LINE_BYTES == 0)
            find_age(w, (at + j) / LINE_BYTES, &l0, &below);
        struct cell *c = cell_of(p, offset + j, !p->read_only); /* readers are noted where somebody may write */
        if (!c)
            continue;
        check_read(w, i, lane, c, l0, below);
        note_read(w, c);
    }
    return true;
}

static void check_write(const struct wave *w, const struct ins *i, int lane, const struct cell *c)
{
    if (c->writer != 0 && !is_mine(w, c->writer)) {
        if (!in_my_block(w, c->writer))
            isa_report(w, i, ISA_BLOCK_RACE, "lane %d writes what block %u wrote", lane, block_of(c->writer));
        else if (c->epoch >= w->epoch)
            isa_report(w, i, ISA_RACE, "lane %d writes what wave %u wrote after the same barrier", lane,
                       wave_of(c->writer));
    }
    if (c->reader == 0)
        return;
    if (!in_my_block(w, c->reader) || c->other_readers)
        isa_report(w, i, ISA_BLOCK_RACE, "lane %d writes what block %u read", lane, block_of(c->reader));
    else if (c->reader_epoch >= w->epoch && (c->many_readers || !is_mine(w, c->reader)))
        isa_report(w, i, ISA_RACE, "lane %d writes what wave %u read after the same barrier", lane, wave_of(c->reader));
}

bool isa_store(struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n, const void *from, uint32_t id)
{
    struct piece *p = isa_piece_of(at, n);
    size_t cap = w->cap_notes;
    if (!p) {
        report_bounds(w, i, lane, at, n, "store");
        return false;
    }
    check_alignment(w, i, lane, at, n);
    if (w->trace)
        isa_trace_memory(w->trace, at, n);
    if (p->read_only) {
        isa_report(w, i, ISA_READ_ONLY, "lane %d", lane);
        return false;
    }
    uint64_t offset = at - (uintptr_t)p->p;
    for (uint32_t j = 0; j < n; j++) {
        struct cell *c = cell_of(p, offset + j, true);
        bool same = p->p[offset + j] == ((const uint8_t *)from)[j];
        if (c->writer != 0 && !in_my_block(w, c->writer) && same && !c->atomic) { /* who reads it gets that number */
            isa_report(w, i, ISA_SAME, "lane %d writes what block %u wrote, the same number", lane,
                       block_of(c->writer));
            c->atomic = true;
        }
        if (!c->atomic)
            check_write(w, i, lane, c);
        c->writer = w->uid + 1;
        c->epoch = w->epoch;
        c->time = NOT_VISIBLE;
        c->cu = (uint8_t)w->cu;
        c->wgp = (uint8_t)w->wgp;
    }
    memcpy(p->p + offset, from, n);
    w->notes = isa_grow(w->notes, w->n_notes, &cap, sizeof(*w->notes));
    w->cap_notes = (uint32_t)cap;
    w->notes[w->n_notes++] = (struct store_note){at, n, id};
    return true;
}

void isa_stored(struct wave *w, uint32_t up_to_id)
{
    uint32_t n_kept = 0;
    for (uint32_t j = 0; j < w->n_notes; j++) {
        struct store_note note = w->notes[j];
        if ((int32_t)(note.id - up_to_id) > 0) {
            w->notes[n_kept++] = note;
            continue;
        }
        struct piece *p = isa_piece_of(note.at, note.n);
        for (uint32_t b = 0; p && b < note.n; b++) {
            struct cell *c = cell_of(p, note.at + b - (uintptr_t)p->p, false);
            if (c && is_mine(w, c->writer))
                c->time = (uint32_t)isa_run.time;
        }
    }
    w->n_notes = n_kept;
}

bool isa_load_scalar(struct wave *w, const struct ins *i, uint64_t at, uint32_t n, void *to)
{
    struct piece *p = isa_piece_of(at, n);
    if (!p) {
        report_bounds(w, i, -1, at, n, "scalar load");
        return false;
    }
    uint64_t offset = at - (uintptr_t)p->p;
    memcpy(to, p->p + offset, n);
    for (uint32_t j = 0; j < n; j++) {
        const struct cell *c = cell_of(p, offset + j, false);
        if (c && c->writer != 0)
            isa_report(w, i, ISA_SCALAR_WRITTEN, "word %u", j / 4);
    }
    return true;
}

uint32_t *isa_atomic(struct wave *w, const struct ins *i, int lane, uint64_t at)
{
    struct piece *p = isa_piece_of(at, 4);
    if (!p || at % 4 != 0) {
        report_bounds(w, i, lane, at, 4, at % 4 != 0 ? "misaligned atomic" : "atomic");
        return NULL;
    }
    uint64_t offset = at - (uintptr_t)p->p;
    for (uint32_t j = 0; j < 4; j++)
        cell_of(p, offset + j, true)->atomic = true;
    return (uint32_t *)(void *)(p->p + offset);
}
