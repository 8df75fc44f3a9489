/* json_read.c: JSON text to the library's tree, checked and bounded.
 *
 * jansson drops bytes of a token when memory runs out while the token grows, and then runs past its end. So it is
 * never let out of memory: the scan has counted what the text holds, one block that is large enough for all of it is
 * allocated first, and while a text is read jansson's allocator takes pieces of that block. This also makes a tree
 * cheap (one malloc, one free) and its size a matter of arithmetic. Outside of a reading jansson's allocator is
 * malloc.
 *
 * Threads: any; the block in use is thread-local. The allocator is put in place before main.
 * Fails with: -ENOMEM, before jansson runs.
 */
#include "json_read_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/message.h>

#define ALIGN alignof(max_align_t)

struct block {
    size_t used, cap;
    alignas(max_align_t) char bytes[];
};

static _Thread_local struct block *reading;

static void *take(size_t n_bytes)
{
    size_t n = (n_bytes + ALIGN - 1) / ALIGN * ALIGN;

    if (!reading)
        return malloc(n_bytes);
    assert(n >= n_bytes && reading->cap - reading->used >= n && "bound_bytes() is too low");
    reading->used += n;
    return reading->bytes + reading->used - n;
}

static void give_back(void *at)
{
    if (!reading)
        free(at);
}

__attribute__((constructor)) static void install(void)
{
    json_set_alloc_funcs(take, give_back);
}

/* What jansson allocates for a text, at most, if it never frees. By kind: a value's node (40 bytes at most, 48
 * aligned); its slot in an array whose table doubles (4 x 8); a key (node of 56 bytes and the text), its text once
 * more while it is read, and its share of hash tables that double (4 x 16); a container with its first table (240
 * bytes); the text of strings; and the token buffer, which doubles up to the longest token. */
static size_t bound_bytes(const struct halo_scan *scan)
{
    return 1024 + 96 * scan->n_values + 192 * scan->n_keys + 384 * scan->n_containers + 6 * scan->len;
}

static int explain(struct halo_json_read *read, const struct halo_scan *scan, const json_error_t *error)
{
    struct halo_scan again = {.text = scan->text, .len = scan->len, .allow_nul = scan->allow_nul,
                              .watch = (size_t)error->position};

    halo_scan_object(&again);
    read->token = again.token;
    read->owner = again.owner;
    read->bad_at = again.token.len ? again.token.at : (size_t)error->position;
    switch (json_error_code(error)) {
    case json_error_duplicate_key: read->fault = HALO_READ_TWICE; break;
    case json_error_numeric_overflow: read->fault = HALO_READ_OVERFLOW; break;
    default:
        read->fault = HALO_READ_LIBRARY;
        memcpy(read->what_text, error->text, sizeof read->what_text);
        read->what = read->what_text;
        break;
    }
    return HALO_MSG_E_REFUSED;
}

int halo_json_read(struct halo_json_read *read, const struct halo_scan *scan)
{
    size_t flags = JSON_REJECT_DUPLICATES | (scan->allow_nul ? JSON_ALLOW_NUL : 0);
    json_error_t error = {0};
    struct block *block;
    size_t cap;
    int rc;

    *read = (struct halo_json_read){0};
    if (scan->fault != HALO_SCAN_OK) {
        read->fault = HALO_READ_SCAN;
        read->bad_at = scan->bad_at;
        read->what = scan->what;
        return HALO_MSG_E_REFUSED;
    }
    cap = bound_bytes(scan);
    block = malloc(sizeof *block + cap);
    if (!block)
        return -ENOMEM;
    block->used = 0;
    block->cap = cap;

    assert(!reading);
    reading = block;
    read->root = json_loadb(scan->text, scan->len, flags, &error);
    reading = NULL;
    if (read->root) {
        read->memory = block;
        return 0;
    }
    rc = explain(read, scan, &error);
    free(block);
    return rc;
}

void halo_json_read_end(struct halo_json_read *read)
{
    free(read->memory);
    read->memory = NULL;
    read->root = NULL;
}
