/* quote.c: texts of a file made fit for a message. Pure. */
#include <string.h>

#include "tokenizer_priv.h"

const char *halo_tokenizer_quote(struct halo_span text, char buffer[HALO_TOKENIZER_QUOTE_BYTES])
{
    size_t n = text.n <= HALO_TOKENIZER_QUOTE_BYTES - 4 ? text.n : HALO_TOKENIZER_QUOTE_BYTES - 4;
    for (size_t i = 0; i < n; i++)
        buffer[i] = text.bytes[i] >= ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    memcpy(buffer + n, n < text.n ? "..." : "", n < text.n ? 4 : 1);
    return buffer;
}
