/* encoder.c: what all kinds of tokenizer write with: lists of ids, single bytes, the fault of too little memory.
 *
 * A list belongs to one thread at a time. Fails with OUT_OF_MEMORY.
 */
#include <errno.h>
#include <stdlib.h>

#include "tokenizer_priv.h"

void halo_tokens_finish(struct halo_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (struct halo_tokens){0};
}

int halo_tokens_push(struct halo_tokens *tokens, int32_t id)
{
    if (tokens->n == tokens->capacity) {
        size_t capacity = tokens->capacity ? tokens->capacity * 2 : 64;
        int32_t *ids = reallocarray(tokens->ids, capacity, sizeof *ids);
        if (!ids)
            return -ENOMEM;
        tokens->ids = ids;
        tokens->capacity = capacity;
    }
    tokens->ids[tokens->n++] = id;
    return 0;
}

int halo_encoder_no_memory(struct halo_encoder *encoder)
{
    return halo_fault_set(encoder->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to tokenize a text of %zu bytes",
                          encoder->n);
}

int halo_encoder_push_byte(struct halo_encoder *encoder, uint8_t byte)
{
    const struct halo_tokenizer *t = encoder->tokenizer;
    int32_t id = t->byte_ids[byte];
    if (id < 0 && t->model != HALO_TOKENIZER_BPE)
        id = t->unknown;
    if (id < 0)
        return 0;
    return halo_tokens_push(encoder->out, id) < 0 ? halo_encoder_no_memory(encoder) : 0;
}

static int push_symbol(struct halo_encoder *encoder, const struct halo_merge_symbol *symbol)
{
    if (symbol->id >= 0 && (uint32_t)symbol->id < encoder->tokenizer->vocab.n)
        return halo_tokens_push(encoder->out, symbol->id) < 0 ? halo_encoder_no_memory(encoder) : 0;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < symbol->n; i++)
        r = halo_encoder_push_byte(encoder, (uint8_t)encoder->merge_text[symbol->start + i]);
    return r;
}

int halo_encoder_push_merged(struct halo_encoder *encoder)
{
    const struct halo_merge_symbol *symbols = encoder->merger.symbols;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i != HALO_MERGE_NONE; i = symbols[i].next)
        if ((r = push_symbol(encoder, &symbols[i])) == 0)
            r = halo_turn_work(encoder->turn, 1);
    return r;
}
