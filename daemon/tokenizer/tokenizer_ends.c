/* tokenizer_ends.c: which tokens end a generation.
 *
 * The file says so where it can: eos, eot and eom, the three markers between files of a repository, and the list
 * tokenizer.ggml.eog_token_ids, which is complete where it is given. Most files leave some of these open, so the texts
 * of the markers in use by published models decide what the file does not; and converters leave markers of the type
 * normal that are control tokens by all sense. Runs once, at load. Cannot fail.
 */
#include <ctype.h>
#include <string.h>

#include "tokenizer_priv.h"

enum ending { ENDS_TURN, ENDS_MESSAGE, ENDS_CALL, ENDS_DOCUMENT };

/* A token of this text ends a generation, unless the file names another one for the same purpose; nobody may type it.
 */
static const struct {
    const char *text;
    enum ending ending;
} end_texts[] = {
    {"<|eot_id|>", ENDS_TURN},
    {"<|im_end|>", ENDS_TURN},
    {"<|end|>", ENDS_TURN},
    {"<end_of_turn>", ENDS_TURN},
    {"<turn|>", ENDS_TURN},
    {"<EOT>", ENDS_TURN},
    {"_<EOT>", ENDS_TURN},
    {"[EOT]", ENDS_TURN},
    {"<end_of_utterance>", ENDS_TURN},
    {"<|eom_id|>", ENDS_MESSAGE},
    {"<|return|>", ENDS_CALL},
    {"<|call|>", ENDS_CALL},
    {"<|flush|>", ENDS_CALL},
    {"<|calls|>", ENDS_CALL},
    {"<|tool_response>", ENDS_CALL},
    {"<|endoftext|>", ENDS_DOCUMENT},
    {"</s>", ENDS_DOCUMENT},
    {"[EOS]", ENDS_DOCUMENT},
    {"[e~[", ENDS_DOCUMENT},
    {"<eos>", ENDS_DOCUMENT},
    {"<|end_of_text|>", ENDS_DOCUMENT},
    {"<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>", ENDS_DOCUMENT},
    /* Between the files of a repository: what follows belongs to another document. */
    {"<|fim_pad|>", ENDS_DOCUMENT},
    {"<fim-pad>", ENDS_DOCUMENT},
    {"<fim_pad>", ENDS_DOCUMENT},
    {"<PAD>", ENDS_DOCUMENT},
    {"[PAD]", ENDS_DOCUMENT},
    {"<|fim_repo|>", ENDS_DOCUMENT},
    {"<|repo_name|>", ENDS_DOCUMENT},
    {"<fim-repo>", ENDS_DOCUMENT},
    {"<REPO>", ENDS_DOCUMENT},
    {"<reponame>", ENDS_DOCUMENT},
    {"<|file_sep|>", ENDS_DOCUMENT},
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

/* Other spellings are text that people write, and a normal token of that text is made by merges. Gemma's vocabularies
 * have the tags of HTML as user-defined tokens, </s> among them; Phi-3's has </s> alone, and there it is a marker. */
static bool is_text(const struct halo_tokenizer *t, int32_t id, const char *text)
{
    bool looks_reserved = strncmp(text, "<|", 2) == 0 || strncmp(text, "<\xEF\xBD\x9C", 4) == 0;
    return (t->kinds[id] == HALO_TOKEN_NORMAL && !looks_reserved) ||
           (t->kinds[id] == HALO_TOKEN_USER_DEFINED && strcmp(text, "</s>") == 0 && find(t, "<strong>") >= 0);
}

static void mark_control(struct halo_tokenizer *t, const char *text, uint8_t flags)
{
    int32_t id = find(t, text);
    if (id < 0 || is_text(t, id, text))
        return;
    t->kinds[id] = HALO_TOKEN_CONTROL;
    t->flags[id] |= flags;
}

/* Whether the file leaves open what ends this. */
static bool is_open(const struct halo_tokenizer *t, enum ending ending)
{
    return !t->lists_ends && !(ending == ENDS_TURN && t->eot >= 0) && !(ending == ENDS_MESSAGE && t->eom >= 0);
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
        mark_control(t, end_texts[i].text, is_open(t, end_texts[i].ending) ? HALO_TOKEN_FLAG_END : 0);
    for (size_t i = 0; i < sizeof control_texts / sizeof *control_texts; i++)
        mark_control(t, control_texts[i], 0);
    unmark_harmony(t);
    mark_end(t, t->eos);
    mark_end(t, t->eot);
    mark_end(t, t->eom);
    for (size_t i = 0; i < t->n_stated_ends; i++)
        mark_end(t, t->stated_ends[i]);
    if (contains(model_name, "phi-3") || contains(model_name, "phi3"))
        mark_phi3(t);
}
