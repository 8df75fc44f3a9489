/* spm_bpe.c: merges over characters, as Gemma 4 has them.
 *
 * Spaces are written as U+2581 and characters that are no token as byte tokens, as in spm.c; what may merge, and what
 * merges first, is said by a list of merges, as in bpe.c. A word is a run of line ends or the text between two of
 * them. Scratch of one call.
 */
#include "tokenizer_priv.h"

static bool is_newlines(const char *word, size_t n)
{
    size_t i = 0;
    while (i < n && word[i] == '\n')
        i++;
    return i == n;
}

/* Files may lack the merges of line ends; a run of them that is a token is that token all the same. */
static int encode_word(struct halo_encoder *encoder, const char *word, size_t n)
{
    int32_t id = is_newlines(word, n) ? halo_strings_find(&encoder->tokenizer->vocab, word, n) : -1;
    if (id >= 0)
        return halo_tokens_push(encoder->out, id) < 0 ? halo_encoder_no_memory(encoder) : 0;
    return halo_spm_word(encoder, word, n, halo_bpe_symbol, halo_bpe_pair);
}

int halo_spm_bpe_encode(struct halo_encoder *encoder, const char *text, size_t n)
{
    size_t n_escaped;
    int r = halo_spm_escape(encoder, text, n, false, &n_escaped);
    return r < 0 ? r : halo_bpe_words(encoder, encoder->buffer, n_escaped, encode_word);
}
