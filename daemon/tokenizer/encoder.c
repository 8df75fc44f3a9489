/* encoder.c: what both kinds of tokenizer write with: lists of ids, single bytes, the fault of too little memory.
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
    if (id < 0 && t->model == HALO_TOKENIZER_SPM)
        id = t->unknown;
    if (id < 0)
        return 0;
    return halo_tokens_push(encoder->out, id) < 0 ? halo_encoder_no_memory(encoder) : 0;
}
