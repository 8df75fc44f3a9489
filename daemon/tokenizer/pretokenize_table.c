/* pretokenize_table.c: which expressions belong to which tokenizer.ggml.pre.
 *
 * Constant data. The expressions are those of each model's own tokenizer (tokenizer.json or tiktoken), in the syntax
 * of PCRE2; the names are those that converters write into GGUF files. White space is spelled out as Unicode's
 * White_Space, because \s of PCRE2 takes U+180E too. Outside of classes there is ASCII only, and nothing that depends
 * on what a character is: no dot, no \b, no (?i) (pretokenize_alphabet.c). No expression repeats
 * a repetition: the time of a match is linear in the text. To add a name: one line in `names`, and an expression list
 * when none fits; check it with the vectors of its vocabulary.
 */
#include <string.h>

#include "pretokenize_priv.h"

#define SPACE "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define S "[" SPACE "]"
#define NOT_S "[^" SPACE "]"

/* The tail that nearly all of them share: a white space run leaves its last character to what follows it. */
#define SPACE_RUNS S "+(?!" NOT_S ")|" S "+"
#define LINE_ENDS S "*[\\r\\n]+|" SPACE_RUNS
/* (?i:'s|'t|'re|'ve|'m|'ll|'d): in Unicode the long s is another case of s. */
#define CONTRACTION "(?:'(?:[sS\\x{17F}]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NO_LETTER "[^\\r\\n\\p{L}\\p{N}]?"

#define NEWLINES "[^\\n]+|\\n+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" S "+(?!" NOT_S ")"
#define LLAMA3(digits) CONTRACTION "|" NO_LETTER "\\p{L}+|" digits "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS
#define CASED(suffix, digits)                                                                                          \
    NO_LETTER UPPER "*" LOWER "+" suffix "|" NO_LETTER UPPER "+" LOWER "*" suffix "|" digits "| ?[^" SPACE             \
                    "\\p{L}\\p{N}]+[\\r\\n/]*|" LINE_ENDS

/* Letters that have case, as the older DeepSeek tokenizers list them. */
#define CASED_LETTERS                                                                                                  \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"                    \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}"             \
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"                    \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                  \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"                  \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"          \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"         \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                   \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}" \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}"                    \
    "\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                   \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                  \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"              \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"                             \
    "\\x{1E900}-\\x{1E943}"
#define HAN_HANGUL "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

/* The script Han of Unicode 15.1. */
#define HAN                                                                                                            \
    "[\\x{2E80}-\\x{2E99}\\x{2E9B}-\\x{2EF3}\\x{2F00}-\\x{2FD5}\\x{3005}\\x{3007}\\x{3021}-\\x{3029}\\x{3038}-\\x{"    \
    "303B}"                                                                                                            \
    "\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}\\x{F900}-\\x{FA6D}\\x{FA70}-\\x{FAD9}\\x{16FE2}\\x{16FE3}\\x{16FF0}\\x{"   \
    "16FF1}"                                                                                                           \
    "\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B739}\\x{2B740}-\\x{2B81D}\\x{2B820}-\\x{2CEA1}\\x{2CEB0}-\\x{2EBE0}"        \
    "\\x{2EBF0}-\\x{2EE5D}\\x{2F800}-\\x{2FA1D}\\x{30000}-\\x{3134A}\\x{31350}-\\x{323AF}]"
#define NO_HAN(letters) "(?:(?!" HAN ")" letters ")"

static const char *const gpt2[] = {GPT2, NULL};
static const char *const fallback[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]", NULL};
static const char *const falcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const starcoder[] = {"\\p{N}", GPT2, NULL};
static const char *const llama3[] = {LLAMA3("\\p{N}{1,3}"), NULL};
static const char *const qwen2[] = {LLAMA3("\\p{N}"), NULL};
static const char *const qwen35[] = {
    CONTRACTION "|" NO_LETTER "[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINE_ENDS, NULL};
static const char *const gpt4o[] = {CASED(CONTRACTION "?", "\\p{N}{1,3}"), NULL};
static const char *const tekken[] = {CASED("", "\\p{N}"), NULL};
static const char *const deepseek_llm[] = {
    "[\\r\\n]",
    S "?[" CASED_LETTERS "]+",
    S "?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
    S "+$",
    HAN_HANGUL,
    "\\p{N}+",
    NULL};
static const char *const deepseek_coder[] = {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", HAN_HANGUL, "\\p{N}", NULL};
static const char *const seed_coder[] = {
    CONTRACTION "|" NO_LETTER "\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|" LINE_ENDS, NULL};
static const char *const minicpm5[] = {"\\p{N}{1,3}", LLAMA3("\\p{N}+"), NULL};
#define BLOOM " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
static const char *const bloom[] = {BLOOM, NULL};
static const char *const viking[] = {BLOOM, "\\p{N}", NULL};
static const char *const deepseek_v3[] = {
    "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINE_ENDS,
    NULL};
static const char *const youtu[] = {
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}"
    "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|"
    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
    CASED(CONTRACTION "?", "\\p{N}"), NULL};
/* Han characters are words of their own. */
static const char *const kimi_k2[] = {
    HAN "+|" NO_LETTER NO_HAN(UPPER) "*" NO_HAN(LOWER) "+" CONTRACTION "?|" NO_LETTER NO_HAN(UPPER) "+" NO_HAN(
        LOWER) "*" CONTRACTION "?|\\p{N}{1,3}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS,
    NULL};
/* Words with single spaces between them stay together. The published expression repeats this repetition, which matches
 * the same text in exponential time. */
static const char *const exaone_moe[] = {CONTRACTION "|" NO_LETTER "\\p{L}\\p{M}*(?: ?\\p{L}\\p{M}*)*|\\p{N}| ?[^" SPACE
                                                     "\\p{L}\\p{N}]+[\\r\\n/]?|" LINE_ENDS,
                                         NULL};
static const char *const laguna[] = {NEWLINES, LLAMA3("\\p{N}"), NULL};
static const char *const ufakzeka[] = {NO_LETTER "\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS,
                                       NULL};
static const char *const gemma4[] = {NEWLINES, NULL};

static const struct {
    const char *name;
    struct halo_pretokenizer_kind kind;
} names[] = {
    {"default", {fallback}},
    {"gpt-2", {gpt2}},
    {"mpt", {gpt2}},
    {"olmo", {gpt2}},
    {"phi-2", {gpt2}},
    {"jais", {gpt2}},
    {"trillion", {gpt2}},
    {"gigachat", {gpt2}},
    {"mellum", {gpt2}},
    {"exaone4", {gpt2}},
    {"a.x-4.0", {gpt2}},
    {"granite-docling", {gpt2}},
    {"falcon", {falcon}},
    {"starcoder", {starcoder}},
    {"refact", {starcoder}},
    {"command-r", {starcoder}},
    {"smollm", {starcoder}},
    {"codeshell", {starcoder}},
    {"exaone", {starcoder}},
    {"minerva-7b", {starcoder}},
    {"mellum2", {starcoder}},
    {"llama-bpe", {llama3, .ignore_merges = true, .add_bos = true}},
    {"llama3", {llama3, .ignore_merges = true, .add_bos = true}},
    {"llama-v3", {llama3, .ignore_merges = true, .add_bos = true}},
    {"falcon3", {llama3, .ignore_merges = true, .add_bos = true}},
    {"falcon-h1", {llama3, .ignore_merges = true, .add_bos = true}},
    {"pixtral", {llama3, .ignore_merges = true, .add_bos = true}},
    {"midm-2.0", {llama3, .ignore_merges = true, .add_bos = true}},
    {"lfm2", {llama3, .ignore_merges = true, .add_bos = true}},
    {"dbrx", {llama3}},
    {"smaug-bpe", {llama3}},
    {"glm4", {llama3}},
    {"chatglm-bpe", {llama3}},
    {"qwen2", {qwen2}},
    {"deepseek-r1-qwen", {qwen2}},
    {"stablelm2", {qwen2}},
    {"megrez", {qwen2}},
    {"hunyuan", {qwen2}},
    {"grok-2", {qwen2}},
    {"solar-open", {qwen2}},
    {"kormo", {qwen2}},
    {"f2llmv2", {qwen2}},
    {"bailingmoe", {qwen2}}, /* with possessive quantifiers, which change nothing here */
    {"bailingmoe2", {qwen2}},
    {"llada-moe", {qwen2}},
    {"qwen35", {qwen35}},
    {"gpt-4o", {gpt4o}},
    {"llama4", {gpt4o}},
    {"kanana2", {gpt4o}},
    {"talkie", {gpt4o}},
    {"minimax-m2", {gpt4o}},
    {"tekken", {tekken, .ignore_merges = true, .add_bos = true}},
    {"deepseek-llm", {deepseek_llm}},
    {"deepseek-coder", {deepseek_coder}},
    {"deepseek-v3", {deepseek_v3}},
    {"seed-coder", {seed_coder}},
    {"minicpm5", {minicpm5, .ignore_merges = true}},
    {"viking", {viking}},
    {"bloom", {bloom}},
    {"poro-chat", {bloom}},
    {"gpt3-finnish", {bloom}},
    {"hunyuan-dense", {deepseek_v3}},
    {"joyai-llm", {deepseek_v3}},
    {"hy_v4", {deepseek_v3}},
    {"youtu", {youtu, .ignore_merges = true}},
    {"kimi-k2", {kimi_k2}},
    {"exaone-moe", {exaone_moe}},
    {"laguna", {laguna}},
    {"ufakzeka", {ufakzeka}},
    {"gemma4", {gemma4, .space_marks = true, .add_bos = true}},
    {"sarvam-moe", {gemma4, .space_marks = true}},
};

const struct halo_pretokenizer_kind *halo_pretokenizer_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0)
            return &names[i].kind;
    return NULL;
}
