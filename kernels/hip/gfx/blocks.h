/* blocks.h: where the rows of compressed blocks are. */
#ifndef HALO_GFX_BLOCKS_H
#define HALO_GFX_BLOCKS_H

#include "kv.h"

/* The pages of a row's sequence. */
HALO_DEVICE const uint32_t *block_pages(const halo_blocks_arg &b, uint32_t row)
{
    return b.kv.pages + b.kv.page_first[row];
}

/* Blocks whose last position a row at `pos` sees. */
HALO_DEVICE uint32_t blocks_seen(const halo_blocks_arg &b, int32_t pos)
{
    return pos < 0 ? 0 : ((uint32_t)pos + 1) / b.ratio;
}

/* Page and row of a block in one number: page * KV_PAGE + row. */
HALO_DEVICE uint32_t block_code(const halo_blocks_arg &b, const uint32_t *pages, uint32_t block)
{
    const uint32_t last = (block + 1) * b.ratio - 1;
    return pages[last / KV_PAGE] * KV_PAGE + last % KV_PAGE * b.page_rows / KV_PAGE;
}

struct block_place {
    uint8_t *page;
    uint32_t row; /* in the page */
};

HALO_DEVICE block_place block_place_at(const halo_blocks_arg &b, uint32_t code)
{
    return {b.kv.base + code / KV_PAGE * b.kv.page_bytes, code % KV_PAGE};
}

HALO_DEVICE block_place block_place_of(const halo_blocks_arg &b, const uint32_t *pages, uint32_t block)
{
    return block_place_at(b, block_code(b, pages, block));
}

#endif
