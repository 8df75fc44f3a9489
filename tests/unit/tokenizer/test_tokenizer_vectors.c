/* test_tokenizer_vectors.c: every line of the reference vectors, for every vocabulary that has them.
 *
 * Needs the reference folder beside the tree; exits 77 without it. A folder without vectors, or a file without lines,
 * is a failure. With the argument "interpreter" the expressions run in PCRE2's interpreter (pcre2_jit_compile is
 * wrapped and refuses).
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include <tokenizer/text.h>

#include "vocab_files.h"

static const char *const vocabularies[] = {"deepseek-coder", "deepseek-llm", "falcon",   "gpt-2",
                                           "llama-bpe",      "llama-spm",    "mpt",      "phi-3",
                                           "qwen2",          "refact",       "starcoder"};
#define N_VOCABULARIES (sizeof vocabularies / sizeof *vocabularies)
#define SEPARATOR "\n__ggml_vocab_test__\n"

static char folder[4200];
static bool interpret;

int __real_pcre2_jit_compile_8(void *code, uint32_t options);
int __wrap_pcre2_jit_compile_8(void *code, uint32_t options);
int __wrap_pcre2_jit_compile_8(void *code, uint32_t options)
{
    return interpret ? -1 : __real_pcre2_jit_compile_8(code, options);
}

/* Decimal numbers with spaces between, up to the end of the line. */
static bool same_ids(const struct halo_tokens *tokens, const char *line, const char *end)
{
    for (size_t i = 0; i < tokens->n; i++) {
        char *after;
        long id = strtol(line, &after, 10);
        if (after == line || after > end || id != tokens->ids[i])
            return false;
        line = after;
    }
    return line + strspn(line, " ") == end;
}

/* Fails the test when the ids of `text` are not those of `line`. */
static void check_line(const struct halo_tokenizer *tokenizer, const char *name, const char *text, size_t n,
                       const char *line, size_t n_line)
{
    struct halo_tokens tokens = {0};
    struct halo_fault fault = {0};
    if (halo_tokenizer_encode(tokenizer, text, n, false, true, NULL, &tokens, &fault) < 0)
        fail_msg("%s: \"%.*s\": %s", name, (int)n, text, fault.text);
    if (!same_ids(&tokens, line, line + n_line)) {
        for (size_t i = 0; i < tokens.n; i++)
            print_error("%d ", tokens.ids[i]);
        fail_msg("are the ids of \"%.*s\" with %s; wanted %.*s", (int)n, text, name, (int)n_line, line);
    }
    halo_tokens_finish(&tokens);
}

/* Takes the next line of `*at`; false at the end. */
static bool next_line(const char **at, const char **ret_line, size_t *ret_n)
{
    const char *end = strchr(*at, '\n');
    if (!end)
        return false;
    *ret_line = *at;
    *ret_n = (size_t)(end - *at);
    *at = end + 1;
    return true;
}

static size_t check_inp(const struct halo_tokenizer *tokenizer, const char *name)
{
    char inp_name[128], out_name[128];
    snprintf(inp_name, sizeof inp_name, "ggml-vocab-%s.gguf.inp", name);
    snprintf(out_name, sizeof out_name, "ggml-vocab-%s.gguf.out", name);
    struct file_bytes inp = file_read(folder, inp_name), out = file_read(folder, out_name);
    const char *text = inp.bytes, *lines = out.bytes, *line = "";
    size_t n_line = 0, n_checked = 0;
    for (const char *end; (end = strstr(text, SEPARATOR)); text = end + strlen(SEPARATOR)) {
        assert_true(next_line(&lines, &line, &n_line));
        check_line(tokenizer, name, text, (size_t)(end - text), line, n_line);
        n_checked++;
    }
    assert_false(next_line(&lines, &line, &n_line)); /* no line is left unchecked */
    free(inp.bytes);
    free(out.bytes);
    return n_checked;
}

static size_t check_strings(const struct halo_tokenizer *tokenizer, const char *name, json_t *strings)
{
    char out_name[128];
    snprintf(out_name, sizeof out_name, "ggml-vocab-%s.gguf.strings.out", name);
    if (!file_exists(folder, out_name))
        return 0;
    struct file_bytes out = file_read(folder, out_name);
    const char *lines = out.bytes, *line = "";
    size_t n_line = 0, i;
    json_t *string;
    json_array_foreach(strings, i, string)
    {
        assert_true(next_line(&lines, &line, &n_line));
        check_line(tokenizer, name, json_string_value(string), json_string_length(string), line, n_line);
    }
    assert_false(next_line(&lines, &line, &n_line));
    free(out.bytes);
    return json_array_size(strings);
}

/* What was tokenized must come back byte for byte; Falcon's vocabulary has no token for the byte 0x0B, so it alone
 * loses a string. */
static void check_round_trip(const struct halo_tokenizer *tokenizer, const char *name, json_t *strings, bool special)
{
    size_t n_lost = 0;
    struct halo_arena arena;
    struct halo_tokens tokens = {0};
    struct halo_fault fault = {0};
    size_t i;
    json_t *string;
    halo_arena_init(&arena, 0);
    json_array_foreach(strings, i, string)
    {
        const char *text = json_string_value(string);
        size_t n = json_string_length(string);
        struct halo_span back;
        tokens.n = 0;
        assert_int_equal(halo_tokenizer_encode(tokenizer, text, n, special, true, NULL, &tokens, &fault), 0);
        assert_int_equal(halo_text_detokenize(tokenizer, tokens.ids, tokens.n, special, &arena, &back, &fault), 0);
        if (strcmp(name, "falcon") == 0 && strcmp(text, "\v") == 0 && back.n == 0)
            n_lost++;
        else if (back.n != n || memcmp(back.bytes, text, n) != 0)
            fail_msg("%s: \"%s\" came back as \"%.*s\"", name, text, (int)back.n, back.bytes);
    }
    assert_int_equal(n_lost, strcmp(name, "falcon") == 0);
    halo_tokens_finish(&tokens);
    halo_arena_finish(&arena);
}

static json_t *load_strings(void)
{
    char path[4300];
    json_error_t error;
    snprintf(path, sizeof path, "%s/strings.json", folder);
    json_t *strings = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!strings || json_array_size(strings) < 400)
        fail_msg("%s: %s", path, strings ? "too few strings" : error.text);
    return strings;
}

static void test_vocabularies(void **state)
{
    (void)state;
    json_t *strings = load_strings();
    for (size_t i = 0; i < N_VOCABULARIES; i++) {
        char name[128];
        snprintf(name, sizeof name, "ggml-vocab-%s.gguf.gz", vocabularies[i]);
        struct halo_tokenizer *tokenizer = tokenizer_open(folder, name);
        size_t n_inp = check_inp(tokenizer, vocabularies[i]);
        size_t n_strings = check_strings(tokenizer, vocabularies[i], strings);
        check_round_trip(tokenizer, vocabularies[i], strings, false);
        print_message("%s: %zu + %zu lines\n", vocabularies[i], n_inp, n_strings);
        assert_true(n_inp >= 46);
        bool rebuilt = strcmp(vocabularies[i], "qwen2") == 0 || strcmp(vocabularies[i], "llama-bpe") == 0;
        assert_true(rebuilt || n_strings == json_array_size(strings)); /* the rebuilt ones have no second list */
        halo_tokenizer_destroy(tokenizer);
    }
    json_decref(strings);
}

static void test_fable(void **state)
{
    (void)state;
    struct file_bytes file = file_read(folder, "fable.tokenizer.jsonl");
    struct halo_tokenizer *tokenizer = tokenizer_open("", fable_path());
    struct halo_fault fault = {0};
    const char *lines = file.bytes, *line;
    size_t n_line, n_checked = 0, n_special = 0;
    while (next_line(&lines, &line, &n_line)) {
        json_error_t error;
        json_t *row = json_loadb(line, n_line, JSON_ALLOW_NUL, &error);
        json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
        bool special = json_is_true(json_object_get(row, "parse_special"));
        struct halo_tokens tokens = {0};
        assert_true(json_is_string(text) && json_is_array(ids));
        assert_int_equal(halo_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), special,
                                               true, NULL, &tokens, &fault),
                         0);
        bool same = tokens.n == json_array_size(ids);
        for (size_t i = 0; same && i < tokens.n; i++)
            same = tokens.ids[i] == json_integer_value(json_array_get(ids, i));
        if (!same)
            fail_msg("%.*s", (int)n_line, line);
        halo_tokens_finish(&tokens);
        json_decref(row);
        n_checked++;
        n_special += special;
    }
    assert_int_equal(n_checked, 824);
    assert_int_equal(n_special, 412);
    json_t *strings = load_strings();
    check_round_trip(tokenizer, "fable", strings, false);
    check_round_trip(tokenizer, "fable", strings, true);
    json_decref(strings);
    halo_tokenizer_destroy(tokenizer);
    free(file.bytes);
}

/* The prompts of the reference logits, special tokens parsed and BOS added as each model asks for it. */
static size_t check_prompts(const char *model)
{
    static const char *const prompts[] = {"p_short", "p_unicode", "p_long", "p_chat"};
    char models[4300], path[4400];
    size_t n_checked = 0;
    snprintf(models, sizeof models, "%s/../models", folder);
    struct halo_tokenizer *tokenizer = tokenizer_open(models, model);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        json_error_t error;
        snprintf(path, sizeof path, "%s/../golden/%.*s.%s.json", folder, (int)(strlen(model) - 5), model, prompts[i]);
        json_t *golden = json_load_file(path, JSON_ALLOW_NUL, &error);
        json_t *text = json_object_get(golden, "prompt"), *ids = json_object_get(golden, "tokens");
        if (!json_is_string(text) || !json_is_array(ids))
            fail_msg("%s: %s", path, golden ? "not a golden file" : error.text);
        struct halo_tokens tokens = {0};
        if (halo_tokenizer_adds_bos(tokenizer))
            assert_int_equal(halo_tokens_push(&tokens, halo_tokenizer_bos(tokenizer)), 0);
        assert_int_equal(halo_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), true, true,
                                               NULL, &tokens, NULL),
                         0);
        assert_int_equal(tokens.n, json_array_size(ids));
        for (size_t k = 0; k < tokens.n; k++)
            assert_int_equal(tokens.ids[k], json_integer_value(json_array_get(ids, k)));
        n_checked += tokens.n;
        halo_tokens_finish(&tokens);
        json_decref(golden);
    }
    halo_tokenizer_destroy(tokenizer);
    return n_checked;
}

static void test_prompts(void **state)
{
    (void)state;
    assert_int_equal(check_prompts("fable-F16.gguf"), 24 + 356 + 670 + 76);
    assert_int_equal(check_prompts("tiny-mistral-spm.gguf"), 25 + 219 + 690 + 124);
}

/* A vocabulary of a kind that is not built in must be refused by name, not tokenized wrongly. */
static void test_unsupported(void **state)
{
    (void)state;
    struct file_bytes file = file_read(folder, "ggml-vocab-bert-bge.gguf.gz");
    struct halo_fault fault = {0};
    struct halo_gguf *gguf = NULL;
    struct halo_tokenizer *tokenizer = NULL;
    assert_int_equal(halo_gguf_open_memory(&gguf, file.bytes, file.n, &fault), 0);
    assert_true(halo_tokenizer_create(&tokenizer, gguf, &fault) < 0);
    assert_null(tokenizer);
    assert_int_equal(fault.code, HALO_FAULT_UNSUPPORTED);
    assert_non_null(strstr(fault.text, "\"bert\""));
    halo_gguf_close(gguf);
    free(file.bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocabularies), cmocka_unit_test(test_fable),
                                       cmocka_unit_test(test_prompts), cmocka_unit_test(test_unsupported)};
    const char *shared = shared_folder();
    interpret = argc > 1 && strcmp(argv[1], "interpreter") == 0;
    if (!shared || !file_exists(shared, "vocab")) {
        fprintf(stderr, "SKIP: the reference folder (../shared/vocab, or HALO_SHARED) is not there\n");
        return 77;
    }
    snprintf(folder, sizeof folder, "%s/vocab", shared);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
