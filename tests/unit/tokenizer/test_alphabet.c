/* test_alphabet.c: how three pre-tokenizers cut around every code point there is. Their classes tell letters, their
 * case, marks, numbers, punctuation and symbols apart, so what they do follows from the general category, which is that
 * of a stated version of Unicode (test_unicode.c) whatever PCRE2 is installed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/unicode.h>
#include <base/utf8.h>

#include "pretokenize_priv.h"

#define LINE_BYTES 7 /* "x", a character, "y\n" */

enum cut { TOGETHER = 1, BEFORE, BOTH }; /* xCy, x^Cy, x^C^y */

static uint32_t of(const char *name)
{
    return halo_unicode_mask(name, strlen(name));
}

static bool ends_line(uint32_t c)
{
    return c == '\r' || c == '\n';
}

static struct { /* sets of categories */
    uint32_t letter, mark, number, upper, sign;
} sets;

static enum cut qwen2(uint32_t c)
{
    return halo_unicode_is(c, sets.letter) ? TOGETHER : halo_unicode_is(c, sets.number) || ends_line(c) ? BOTH : BEFORE;
}

static enum cut gpt_4o(uint32_t c)
{
    if (halo_unicode_is(c, sets.upper))
        return BEFORE; /* a word goes on in lower case */
    return halo_unicode_is(c, sets.mark) ? TOGETHER : qwen2(c);
}

static enum cut deepseek_v3(uint32_t c)
{
    bool own_run = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
    if (halo_unicode_is(c, sets.number) || own_run || ends_line(c))
        return BOTH;
    if (halo_unicode_is(c, sets.letter | sets.mark))
        return TOGETHER;
    return c > 0x7F && halo_unicode_is(c, sets.sign) ? BOTH : BEFORE;
}

static bool is_surrogate(uint32_t c)
{
    return c >= 0xD800 && c <= 0xDFFF;
}

static void check(const char *name, enum cut (*cut)(uint32_t c))
{
    struct halo_pretokenizer *pre;
    struct halo_words words = {0};
    char *text = malloc((size_t)HALO_UNICODE_END * LINE_BYTES);
    uint32_t *lines = malloc(((size_t)HALO_UNICODE_END + 1) * sizeof(*lines));
    size_t n = 0, word = 0, n_wrong = 0;
    assert_int_equal(halo_pretokenizer_create(&pre, (struct halo_span){name, strlen(name)}, NULL), 0);
    for (uint32_t c = 0; c < HALO_UNICODE_END; c++) {
        lines[c] = (uint32_t)n;
        if (is_surrogate(c))
            continue;
        text[n++] = 'x';
        n += halo_utf8_encode(text + n, c);
        text[n++] = 'y';
        text[n++] = '\n';
    }
    lines[HALO_UNICODE_END] = (uint32_t)n;
    assert_int_equal(halo_pretokenizer_split(pre, text, n, NULL, &words, NULL), 0);
    for (uint32_t c = 0; c < HALO_UNICODE_END; c++) {
        if (is_surrogate(c))
            continue;
        uint32_t from = lines[c], to = lines[c + 1];
        enum cut wants = cut(c);
        const uint32_t wanted[][4] = {
            [TOGETHER] = {to - 1, to}, [BEFORE] = {from + 1, to - 1, to}, [BOTH] = {from + 1, to - 2, to - 1, to}};
        bool right = true;
        for (size_t i = 0; i < 4 && wanted[wants][i]; i++, word++)
            right = right && word < words.n && words.ends[word] == wanted[wants][i];
        if (!right && n_wrong++ < 5)
            print_error("%s cuts wrongly at U+%04X\n", name, c);
        while (word > 0 && word < words.n && words.ends[word - 1] < to)
            word++; /* goes on with the next line even after a wrong cut */
        while (word > 0 && words.ends[word - 1] > to)
            word--;
    }
    assert_int_equal(n_wrong, 0);
    assert_int_equal(word, words.n);
    halo_words_finish(&words);
    halo_pretokenizer_destroy(pre);
    free(lines);
    free(text);
}

static void test_qwen2(void **state)
{
    check("qwen2", qwen2);
    check("llama-bpe", qwen2); /* one number at a time is all that differs from numbers in threes */
}

static void test_gpt_4o(void **state)
{
    check("gpt-4o", gpt_4o);
}

static void test_deepseek_v3(void **state)
{
    check("deepseek-v3", deepseek_v3);
}

int main(void)
{
    sets.letter = of("L");
    sets.mark = of("M");
    sets.number = of("N");
    sets.upper = of("Lu") | of("Lt");
    sets.sign = of("P") | of("S");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_qwen2), cmocka_unit_test(test_gpt_4o),
                                       cmocka_unit_test(test_deepseek_v3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
