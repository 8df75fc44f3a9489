/* test_pretokenize.c: the words that each pre-tokenizer makes.
 *
 * For a short text every stretch of it is a token and every way to put one together is a merge, short ones first. Then
 * each word becomes exactly one token, and the ids show the words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "vocab_build.h"

#define MAX_BYTES 32
#define MAX_TOKENS (MAX_BYTES * MAX_BYTES / 2)
#define MAX_MERGES (MAX_BYTES * MAX_BYTES * MAX_BYTES / 6)

static void spell(const char *bytes, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++)
        text += build_bpe_spelling((uint8_t)bytes[i], text);
    *text = 0;
}

static struct halo_tokenizer *tokenizer_of(const char *pre, const char *text)
{
    static char texts[MAX_TOKENS][2 * MAX_BYTES + 1], pairs[MAX_MERGES][2 * MAX_BYTES + 2];
    const char *tokens[MAX_TOKENS], *merges[MAX_MERGES];
    int32_t kinds[MAX_TOKENS];
    size_t n_text = strlen(text), n_tokens = 0, n_merges = 0;
    assert_true(n_text <= MAX_BYTES);
    for (size_t n = 2; n <= n_text; n++)
        for (size_t at = 0; at + n <= n_text; at++) {
            spell(text + at, n, texts[n_tokens]);
            bool known = false;
            for (size_t i = 0; i < n_tokens; i++)
                known |= strcmp(texts[i], texts[n_tokens]) == 0;
            if (known)
                continue;
            tokens[n_tokens] = texts[n_tokens];
            kinds[n_tokens++] = HALO_TOKEN_NORMAL;
            for (size_t cut = 1; cut < n; cut++) {
                spell(text + at, cut, pairs[n_merges]);
                strcat(pairs[n_merges], " ");
                spell(text + at + cut, n - cut, pairs[n_merges] + strlen(pairs[n_merges]));
                merges[n_merges] = pairs[n_merges];
                n_merges++;
            }
        }
    struct vocab_build build;
    struct halo_tokenizer *tokenizer;
    struct halo_fault fault;
    build_init(&build);
    build_bpe_pre(&build, pre, tokens, kinds, n_tokens, merges, n_merges);
    if (build_tokenizer(&build, &tokenizer, &fault) < 0)
        fail_msg("%s: %s", pre, fault.text);
    build_finish(&build);
    return tokenizer;
}

/* `words` has the text with a '^' between the words. */
static void check(const char *pre, const char *words)
{
    char text[MAX_BYTES + 1], got[2 * MAX_BYTES + 1];
    size_t n_text = 0, n_got = 0;
    for (const char *at = words; *at; at++)
        if (*at != '^')
            text[n_text++] = *at;
    text[n_text] = 0;
    struct halo_tokenizer *tokenizer = tokenizer_of(pre, text);
    struct halo_tokens tokens = {0};
    assert_int_equal(halo_tokenizer_encode(tokenizer, text, n_text, false, true, NULL, &tokens, NULL), 0);
    for (size_t i = 0; i < tokens.n; i++) {
        struct halo_span piece = halo_tokenizer_piece(tokenizer, tokens.ids[i], false);
        if (i)
            got[n_got++] = '^';
        memcpy(got + n_got, piece.bytes, piece.n);
        n_got += piece.n;
    }
    got[n_got] = 0;
    if (strcmp(got, words) != 0)
        fail_msg("%s: wanted \"%s\", got \"%s\"", pre, words, got);
    halo_tokens_finish(&tokens);
    halo_tokenizer_destroy(tokenizer);
}

#define ACUTE "\314\201"                /* combining */
#define HAN "\346\274\242\345\255\227"  /* two characters */
#define KANA "\343\201\213\343\201\252" /* two characters */
#define E_ACUTE "\303\211"              /* capital, one character */
#define MONGOLIAN "\341\240\216"        /* U+180E, which is white space no more */
#define IDEOGRAPHIC "\343\200\200"      /* U+3000, which is */

static void test_gpt2(void **state)
{
    (void)state;
    check("gpt-2", "it^'s^ 12345^!!^ ok");
    check("gpt-2", "IT^'^S^  ^ a^\n");
    check("gpt-2", "a^" IDEOGRAPHIC "^b^" MONGOLIAN "^c");
    check("starcoder", "ab^1^2^ ^3^ c");
    check("command-r", "x^1^2^'ll");
    check("smollm", "x^1^2^ y");
    check("falcon", "a^!!^123^4^`^b");
    check("default", "a^!!^123^4^ b");
}

static void test_llama3(void **state)
{
    (void)state;
    check("llama-bpe", "a^123^4^'LL^!\n\n^b");
    check("llama-bpe", "a^ ^ b^  \n^ ^ c"); /* runs leave their last space to the word */
    check("llama-bpe", "(fooBar^\t\n\n^  ");
    check("qwen2", "a^1^2^3^'S^ x");
    check("qwen2", "e^" ACUTE "x^ " ACUTE);
    check("qwen35", "e" ACUTE "x^1^2");
}

static void test_small_families(void **state)
{
    check("seed-coder", "ab^'LL^ cd^1^2^ !!^\n\n^x"); /* punctuation takes no line end along */
    check("llama-bpe", "ab^'LL^ cd^12^ !!\n\n^x");
    check("bailingmoe2", "ab^'LL^ cd^1^2^ !!\n\n^ \n^ x^\n\n^y");
    check("minicpm5", "ab^'ll^ cd^123^45^ ^6^ !!\n^x");
    check("minicpm5", "AB^'LL^ ^ cd^(ef");
    check("bloom", "ab12^ cd^,^ ef");
    check("ufakzeka", "Ankara^'da^ '^d");
    check("laguna", "ab^ ^\n\n^ c^1^2");
    check("viking", "ab'll^ cd^1^2^,^ ef^...(^g");
    check("viking", "a^\342\200\246^b^\340\245\244^c^\330\214^d^\n|^e-f");
}

static void test_cased(void **state)
{
    (void)state;
    check("gpt-4o", "Hello^World's^ ^123^4");
    check("gpt-4o", "ab^//\n/^c^D");
    check("gpt-4o", "a^" E_ACUTE "COLEs^X"); /* letters outside of ASCII have case, too */
    check("tekken", "Hello^World^'s^1^2");
    check("tekken", "a" ACUTE "b^ /\n");
}

#define HANGUL "\352\260\200\352\260\201" /* two syllables */

static void test_scripts(void **state)
{
    check("kimi-k2", "ab^" HAN "^Cd's^123^4");
    check("kimi-k2", "Hello^World^" HAN "^" KANA);
    check("kimi-k2", "  ^ ^" HAN "^ a^\n");
    check("youtu", "a^" HANGUL "^" HAN KANA "^1^2^ab's");
    check("exaone-moe", "ab cd ef^  ^ gh^1^ !\n^\n");
    check("exaone-moe", "a" ACUTE " b" ACUTE "c^'ll^ !\n");
}

#define GOOSE "\360\237\252\277" /* U+1FABF, a symbol since Unicode 15.0 */
#define MIXED "Stra\303\237e^'LL^\320\274\320\270\321\200^" GOOSE "#^include"

/* Characters younger than the Unicode of an old PCRE2. */
static void test_young_characters(void **state)
{
    check("deepseek-v3", MIXED);
    check("llama-bpe", MIXED);
    check("qwen2", MIXED);
    check("qwen2", "a\360\256\257\260^1"); /* U+2EBF0, a letter since 15.1 */
}

static void test_deepseek(void **state)
{
    (void)state;
    check("deepseek-v3", "ab^123^45^" HAN KANA "^!");
    check("deepseek-v3", "a^_foo^ ..\n^  ^ x");
    check("deepseek-coder", "ab^ cd^1^2^ !!^\n^\n");
    check("deepseek-llm", "ab^ cd^12^" HAN "^ !!^\n");
}

/* clang-format off */
static const char *const names[] = {
    "default", "gpt-2", "mpt", "olmo", "phi-2", "jais", "trillion", "gigachat", "mellum", "exaone4", "a.x-4.0",
    "granite-docling", "falcon", "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
    "mellum2", "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx",
    "smaug-bpe", "glm4", "chatglm-bpe", "qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2",
    "solar-open", "kormo", "f2llmv2", "qwen35", "gpt-4o", "llama4", "kanana2", "minimax-m2", "tekken", "deepseek-llm",
    "deepseek-coder", "deepseek-v3", "hunyuan-dense", "joyai-llm", "seed-coder", "minicpm5", "viking",
    "bailingmoe", "bailingmoe2", "llada-moe", "talkie", "bloom", "poro-chat", "gpt3-finnish", "hy_v4", "youtu",
    "kimi-k2", "laguna", "ufakzeka",
};
/* clang-format on */

/* Every name that converters write loads; a near miss does not. */
static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(names[i], "ab^ cd");
    static const char *const others[] = {"", "gpt2", "GPT-2", "qwen", "llama-bpe "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct vocab_build build;
        struct halo_tokenizer *tokenizer = NULL;
        struct halo_fault fault;
        build_init(&build);
        build_bpe_pre(&build, others[i], NULL, NULL, 0, NULL, 0);
        assert_true(build_tokenizer(&build, &tokenizer, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_UNSUPPORTED);
        build_finish(&build);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2),
                                       cmocka_unit_test(test_llama3),
                                       cmocka_unit_test(test_small_families),
                                       cmocka_unit_test(test_cased),
                                       cmocka_unit_test(test_young_characters),
                                       cmocka_unit_test(test_deepseek),
                                       cmocka_unit_test(test_scripts),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
