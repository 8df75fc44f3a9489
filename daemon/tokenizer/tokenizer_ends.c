/* tokenizer_ends.c: what some tokens are by their text.
 *
 * Files name one end token at most three times (eos, eot, eom), yet a model may end its turn with another; and
 * converters leave markers of the type normal that are control tokens by all sense. The texts below are the markers
 * in use by published models. Runs once, at load. Can not fail.
 */
#include <ctype.h>
#include <string.h>

#include "tokenizer_priv.h"

/* A token of this text ends a generation, and nobody may type it. */
static const char *const end_texts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>",
    /* Between the files of a repository: what follows belongs to another document. */
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};

/* Control tokens that do not end anything. */
static const char *const control_texts[] = {
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<PRE>",
    "\xE2\x96\x81<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<SUF>",
    "\xE2\x96\x81<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<MID>",
    "\xE2\x96\x81<MID>",
    "<|code_middle|>",
    "<|middle|>",
    "<\357\275\234fim\342\226\201begin\357\275\234>",
    "<\357\275\234fim\342\226\201hole\357\275\234>",
    "<\357\275\234fim\342\226\201end\357\275\234>",
};

static int32_t find(const struct halo_tokenizer *t, const char *text)
{
    return halo_strings_find(&t->vocab, text, strlen(text));
}

/* Other spellings, </s> for one, are text that people write, and a normal token of that text is made by merges. */
static bool looks_reserved(const char *text)
{
    return strncmp(text, "<|", 2) == 0 || strncmp(text, "<\xEF\xBD\x9C", 4) == 0;
}

static void mark_control(struct halo_tokenizer *t, const char *text, uint8_t flags)
{
    int32_t id = find(t, text);
    if (id < 0 || (t->kinds[id] == HALO_TOKEN_NORMAL && !looks_reserved(text)))
        return;
    t->kinds[id] = HALO_TOKEN_CONTROL;
    t->flags[id] |= flags;
}

static void mark_end(struct halo_tokenizer *t, int32_t id)
{
    if (id >= 0)
        t->flags[id] |= HALO_TOKEN_FLAG_END;
}

/* In the Harmony format <|end|> ends a message, and another message of the same reply may follow. */
static void unmark_harmony(struct halo_tokenizer *t)
{
    int32_t end = find(t, "<|end|>");
    bool harmony = (find(t, "<|return|>") >= 0 && find(t, "<|call|>") >= 0) ||
                   (find(t, "<|flush|>") >= 0 && find(t, "<|calls|>") >= 0);
    if (end >= 0 && harmony)
        t->flags[end] &= (uint8_t)~HALO_TOKEN_FLAG_END;
}

static bool contains(struct halo_span text, const char *lower)
{
    size_t n = strlen(lower);
    for (size_t at = 0; at + n <= text.n; at++) {
        size_t i = 0;
        while (i < n && tolower((unsigned char)text.bytes[at + i]) == lower[i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

/* Phi-3's tokenizer.json lets its added tokens swallow white space to their right; the GGUF file has no place to say
 * so. */
static void mark_phi3(struct halo_tokenizer *t)
{
    static const char *const without[] = {"<unk>", "<s>", "<|endoftext|>"};
    t->swallows_space = true;
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (t->kinds[id] == HALO_TOKEN_CONTROL || t->kinds[id] == HALO_TOKEN_USER_DEFINED ||
            t->kinds[id] == HALO_TOKEN_UNKNOWN)
            t->flags[id] |= HALO_TOKEN_FLAG_RSTRIP;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        int32_t id = find(t, without[i]);
        if (id >= 0)
            t->flags[id] &= (uint8_t)~HALO_TOKEN_FLAG_RSTRIP;
    }
}

void halo_tokenizer_mark(struct halo_tokenizer *t, struct halo_span model_name)
{
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++)
        mark_control(t, end_texts[i], HALO_TOKEN_FLAG_END);
    for (size_t i = 0; i < sizeof control_texts / sizeof *control_texts; i++)
        mark_control(t, control_texts[i], 0);
    unmark_harmony(t);
    mark_end(t, t->eos);
    mark_end(t, t->eot);
    mark_end(t, t->eom);
    if (contains(model_name, "phi-3") || contains(model_name, "phi3"))
        mark_phi3(t);
}
