/* memory.c: the pieces of memory that kernels may touch, sorted by address. */
#include <stdlib.h>

#include "isa_priv.h"

static struct piece **pieces;
static size_t n_pieces, cap_pieces;
static struct piece *last_piece; /* that was found */

/* How many begin at or before. */
static size_t find_at(uint64_t at)
{
    size_t low = 0, high = n_pieces;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)pieces[middle]->p <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(const struct piece *piece, uint64_t at, size_t n)
{
    uint64_t first = (uintptr_t)piece->p;
    return at >= first && at - first + n <= piece->n;
}

struct piece *isa_piece_before(uint64_t at)
{
    size_t n = find_at(at);
    return n > 0 ? pieces[n - 1] : NULL;
}

struct piece *isa_piece_of(uint64_t at, size_t n)
{
    if (last_piece && holds(last_piece, at, n))
        return last_piece;
    struct piece *piece = isa_piece_before(at);
    if (!piece || !holds(piece, at, n))
        return NULL;
    return last_piece = piece;
}

void isa_add(void *p, size_t n)
{
    struct piece *piece = isa_zeros(1, sizeof(*piece));
    size_t at = find_at((uintptr_t)p);
    *piece = (struct piece){.p = p, .n = n, .n_pages = n / PAGE_BYTES + 1};
    piece->page = isa_zeros(piece->n_pages, sizeof(*piece->page));
    pieces = isa_grow(pieces, n_pieces, &cap_pieces, sizeof(*pieces));
    memmove(pieces + at + 1, pieces + at, (n_pieces - at) * sizeof(*pieces));
    pieces[at] = piece;
    n_pieces++;
    last_piece = NULL;
}

void isa_remove(void *p)
{
    size_t at = find_at((uintptr_t)p);
    if (at == 0 || pieces[at - 1]->p != p)
        return;
    struct piece *piece = pieces[--at];
    isa_access_forget();
    for (size_t i = 0; i < piece->n_pages; i++)
        isa_access_give_back(piece->page[i]);
    free(piece->page);
    free(piece);
    n_pieces--;
    memmove(pieces + at, pieces + at + 1, (n_pieces - at) * sizeof(*pieces));
    last_piece = NULL;
}

void isa_set_read_only(void *p, bool on)
{
    struct piece *piece = isa_piece_of((uintptr_t)p, 1);
    if (piece)
        piece->read_only = on;
}
