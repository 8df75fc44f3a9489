/* test_mkgguf.c: the generator's weights have the size it promises in every type, and the daemon's own loader takes its
 * models.
 *
 * Argument: the path of mkgguf.
 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <matmul/matmul.h>
#include <model/model.h>
#include <model/placement.h>
#include <tokenizer/tokenizer.h>

#include "mkgguf.h"

#define N_WEIGHTS ((uint64_t)256 * 1024)

static const char *program;
static char folder[] = "/tmp/halo-mkgguf-XXXXXX";

static void check_type(uint32_t type, float deviation)
{
    uint64_t n_bytes = halo_type_row_bytes(type, N_WEIGHTS);
    uint8_t *bytes = malloc(n_bytes), *again = malloc(n_bytes);
    float *weights = malloc(N_WEIGHTS * sizeof *weights);
    assert_true(bytes && again && weights);
    mkgguf_fill(type, deviation, 7, bytes, n_bytes);
    mkgguf_fill(type, deviation, 7, again, n_bytes);
    assert_memory_equal(bytes, again, n_bytes);
    mkgguf_fill(type, deviation, 8, again, n_bytes);
    assert_memory_not_equal(bytes, again, n_bytes);
    halo_dequantize((enum halo_type)type, bytes, N_WEIGHTS, weights);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N_WEIGHTS; i++) {
        assert_true(isfinite(weights[i]) && fabsf(weights[i]) < 8 * deviation);
        sum += (double)weights[i];
        squares += (double)weights[i] * (double)weights[i];
    }
    double mean = sum / (double)N_WEIGHTS, spread = sqrt(squares / (double)N_WEIGHTS) / (double)deviation;
    /* The scales of two types have few bits or none behind the first. */
    double slack = type == HALO_TYPE_MXFP4 || type == HALO_TYPE_NVFP4 ? 0.42 : 0.05;
    if (fabs(mean) > 0.02 * (double)deviation || fabs(spread - 1) > slack)
        fail_msg("%s at %g: mean %g, deviation %g of what it should be", halo_type_info(type).name, (double)deviation,
                 mean, spread);
    free(bytes);
    free(again);
    free(weights);
}

static int more_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static void test_every_type_has_the_wanted_deviation(void **state)
{
    static const float deviations[] = {1.0f / 8, 1.0f / 16, 1.0f / 64, 1.0f / 137};
    for (size_t i = 0; i < sizeof deviations / sizeof deviations[0]; i++) {
#define X(id, gguf_id, weights, bytes) check_type(gguf_id, deviations[i]);
        HALO_TYPE_LIST(X)
#undef X
    }
}

/* A router of random weights with these biases: each expert is chosen as often as Zipf's law says. */
static void test_routers_follow_zipf(void **state)
{
    enum { N = 128, USED = 8, TOKENS = 20000 };
    double shares[N], score[N], worst = 0, sum = 0;
    float bias[N], noise[N];
    uint32_t n_chosen[N] = {0};
    mkgguf_fill_zipf(USED, 5, (uint8_t *)bias, sizeof bias);
    for (uint32_t token = 0; token < TOKENS; token++) {
        for (uint32_t e = 0; e < N; e++)
            score[e] = 0;
        for (uint32_t i = 0; i < 4; i++) { /* four even numbers are nearly a normal one */
            mkgguf_fill(HALO_TYPE_F32, 0.5f, 4ull * token + i, (uint8_t *)noise, sizeof noise);
            for (uint32_t e = 0; e < N; e++)
                score[e] += (double)noise[e];
        }
        for (uint32_t e = 0; e < N; e++)
            score[e] = 1 / (1 + exp(-score[e])) + (double)bias[e];
        for (uint32_t k = 0; k < USED; k++) {
            uint32_t best = 0;
            for (uint32_t e = 1; e < N; e++)
                best = score[e] > score[best] ? e : best;
            n_chosen[best]++;
            score[best] = -INFINITY;
        }
    }
    halo_routing_zipf_shares(N, USED, HALO_ROUTING_ZIPF_PUBLISHED, shares);
    qsort(n_chosen, N, sizeof n_chosen[0], more_first);
    for (uint32_t e = 0; e < N; e++) {
        double off = fabs((double)n_chosen[e] / TOKENS - shares[e]);
        worst = off > worst ? off : worst;
        sum += off;
    }
    print_message("of the shares of %d experts the worst is off by %.3f, all together by %.3f\n", N, worst, sum);
    assert_true(worst < 0.03 && sum < 0.4);
}

/* Runs mkgguf with up to 8 arguments and "-o FOLDER/NAME"; returns its exit status. */
static int run(const char *name, const char *const *args)
{
    char path[128];
    const char *argv[16] = {program, "-o", path};
    int n = 3;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (; *args; args++)
        argv[n++] = *args;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct halo_model *load(const char *name)
{
    char path[128];
    struct halo_model *model;
    struct halo_fault fault = {0};
    struct halo_model_params params = {.context = 256, .kv = HALO_KV_F16, .max_rows = 16, .max_outputs = 4};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (halo_model_create(&model, path, &params, &fault) != 0)
        fail_msg("%s: %s", name, fault.text);
    return model;
}

static const struct {
    const char *args[11], *arch, *quant;
    uint32_t n_expert;
} models[] = {
    {{"--arch", "llama", "--type", "Q4_0"}, "llama", "Q4_0", 0},
    {{"--arch", "llama", "--experts", "4", "--type", "Q8_0", "--tied", "0"}, "llama", "Q8_0", 4},
    {{"--arch", "qwen2", "--type", "Q4_K_M"}, "qwen2", "Q4_K_M", 0},
    {{"--arch", "qwen3", "--type", "BF16", "--heads", "3", "--heads-kv", "1"}, "qwen3", "BF16", 0},
    {{"--arch", "qwen3moe", "--type", "MXFP4", "--vocab", "2000"}, "qwen3moe", NULL, 8},
    {{"--arch", "qwen3", "--type", "IQ2_XS"}, "qwen3", "IQ2_XS", 0},
    {{"--preset", "moe-26b-a4b", "--layers", "1", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "qwen3moe",
     NULL,
     8},
    {{"--preset", "gpt-oss-20b", "--layers", "2", "--experts", "4", "--vocab", "2000", "--type", "MXFP4_MOE"},
     "gpt-oss",
     NULL,
     4},
    {{"--preset", "glm-4.5-air", "--layers", "2", "--experts", "8", "--vocab", "2000", "--embd", "512"},
     "glm4moe",
     NULL,
     8},
    {{"--preset", "glm-4.7-flash", "--layers", "2", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "deepseek2",
     NULL,
     8},
    {{"--preset", "nemotron-3-nano", "--layers", "6", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "nemotron_h_moe",
     NULL,
     8},
    {{"--preset", "qwen3.6-27b", "--layers", "4", "--embd", "512", "--ff", "512", "--vocab", "2000"},
     "qwen35",
     "Q4_K_M",
     0},
    {{"--preset", "qwen3.6-35b-a3b", "--layers", "5", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "qwen35moe",
     NULL,
     8},
    {{"--preset", "qwen3-coder-next-80b", "--layers", "4", "--experts", "16", "--vocab", "2000"},
     "qwen3next",
     NULL,
     16},
    {{"--preset", "gemma4-26b-a4b", "--layers", "2", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "gemma4",
     NULL,
     8},
    {{"--preset", "gemma4-31b", "--layers", "2", "--vocab", "2000", "--embd", "512", "--type", "Q4_K_M"},
     "gemma4",
     "Q4_K_M",
     0},
    {{"--preset", "lfm2-8b-a1b", "--layers", "4", "--experts", "8", "--vocab", "2000", "--type", "UD-Q4_K_XL"},
     "lfm2moe",
     NULL,
     8},
    {{"--preset", "granite-4.0-h-small", "--layers", "6", "--experts", "16", "--vocab", "2000"},
     "granitehybrid",
     "Q4_K_M",
     16},
    {{"--preset", "falcon-h1-7b", "--layers", "1", "--ff", "512", "--vocab", "2000"}, "falcon-h1", "Q4_K_M", 0},
    {{"--preset", "deepseek-v4-flash", "--layers", "4", "--experts", "8", "--vocab", "2000", "--embd", "512"},
     "deepseek4",
     NULL,
     8},
    {{"--preset", "minimax-m2", "--layers", "1", "--experts", "8", "--vocab", "2000", "--type", "Q4_K_M"},
     "minimax-m2",
     "Q4_K_M",
     8},
    {{"--preset", "zipf-30b-a3b", "--layers", "1", "--experts", "16", "--vocab", "2000"}, "minimax-m2", "Q4_K_M", 16},
    {{"--preset", "qwen3-0.6b", "--layers", "1", "--type", "IQ4_XS"}, "qwen3", "IQ4_XS", 0},
    {{"--preset", "qwen2-0.5b", "--layers", "1", "--type", "Q4_K"}, "qwen2", NULL, 0}, /* 896 falls back to Q5_0 */
};

static void test_models_load(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        assert_int_equal(run("m.gguf", models[i].args), 0);
        struct halo_model *model = load("m.gguf");
        assert_string_equal(model->arch, models[i].arch);
        assert_int_equal(model->hparams.n_expert, models[i].n_expert);
        if (models[i].quant && !strstr(model->quant, models[i].quant))
            fail_msg("quant is '%s', not '%s'", model->quant, models[i].quant);
        halo_model_destroy(model);
    }
}

static void test_split_and_seed(void **state)
{
    static const char *const split[] = {"--split", "3", NULL}, *const seed_1[] = {"--seed", "1", NULL};
    static const char *const seed_2[] = {"--seed", "2", NULL};
    assert_int_equal(run("s.gguf", split), 0);
    struct halo_model *model = load("s-00001-of-00003.gguf");
    assert_int_equal(halo_gguf_n_parts(model->gguf), 3);
    for (uint32_t part = 0; part < 3; part++)
        assert_true(halo_gguf_part_bytes(model->gguf, part) > 1000);
    halo_model_destroy(model);

    static uint8_t bytes[3][4000000];
    size_t n[3];
    const char *const *const args[3] = {seed_1, seed_1, seed_2};
    for (int i = 0; i < 3; i++) {
        char path[128];
        assert_int_equal(run("m.gguf", args[i]), 0);
        snprintf(path, sizeof path, "%s/m.gguf", folder);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        n[i] = fread(bytes[i], 1, sizeof bytes[i], file);
        fclose(file);
    }
    assert_true(n[0] > 100000 && n[0] < sizeof bytes[0] && n[1] == n[0]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    assert_true(n[2] != n[0] || memcmp(bytes[0] + n[0] / 2, bytes[2] + n[0] / 2, n[0] / 2) != 0);
}

/* Encodes and decodes; returns the number of tokens. */
static size_t round_trip(const struct halo_tokenizer *tokenizer, const char *text, size_t n)
{
    struct halo_tokens tokens = {0};
    struct halo_fault fault = {0};
    size_t at = 0;
    if (halo_tokenizer_encode(tokenizer, text, n, true, true, NULL, &tokens, &fault) != 0)
        fail_msg("%s", fault.text);
    for (size_t i = 0; i < tokens.n; i++) {
        struct halo_span piece = halo_tokenizer_piece(tokenizer, tokens.ids[i], true);
        assert_true(at + piece.n <= n);
        assert_memory_equal(piece.bytes, text + at, piece.n);
        at += piece.n;
    }
    assert_int_equal(at, n);
    n = tokens.n;
    halo_tokens_finish(&tokens);
    return n;
}

static void test_vocabulary_tokenizes(void **state)
{
    static const char *const args[] = {"--vocab", "20000", NULL};
    static const char words[] = "the quick brown fox jumps over the lazy dog";
    assert_int_equal(run("m.gguf", args), 0);
    struct halo_model *model = load("m.gguf");
    struct halo_tokenizer *tokenizer;
    assert_int_equal(halo_tokenizer_create(&tokenizer, model->gguf, NULL), 0);
    assert_int_equal(halo_tokenizer_n_vocab(tokenizer), 20000);
    char bytes[512];
    for (int i = 0; i < 512; i++)
        bytes[i] = (char)(i * 37);
    round_trip(tokenizer, bytes, sizeof bytes);
    assert_true(round_trip(tokenizer, words, strlen(words)) < 26); /* 43 bytes: the merges work */
    assert_int_equal(round_trip(tokenizer, "<|im_start|><|im_end|><|endoftext|>", 35), 3);
    halo_tokenizer_destroy(tokenizer);
    halo_model_destroy(model);
}

static void test_wrong_options(void **state)
{
    static const char *const wrong[][5] = {
        {"--preset", "nope"},
        {"--type", "Q9"},
        {"--arch", "gpt"},
        {"--seed", "x"},
        {"--vocab", "10"},
        {"--layers", "0"},
        {"--arch", "qwen2", "--experts", "4"},
        {"--arch", "deepseek2"},
        {"--arch", "gemma4"},
        {"--arch", "nemotron_h_moe"},
        {"--arch", "lfm2moe"},
        {"--arch", "granitehybrid"},
        {"--arch", "falcon-h1"},
        {"--arch", "deepseek4"},
        {"--preset", "lfm2-8b-a1b", "--layers", "25"},
        {"--arch", "qwen35"},
        {"--preset", "qwen3.6-27b", "--layers", "3"},
        {"--preset", "nemotron-3-nano", "--layers", "53"},
        {"stray"},
        {"--layers", "-1"},
        {"--nonsense", "1"},
        {"--split", "70000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(run("w.gguf", wrong[i]), 2);
    static const char *const none[] = {NULL};
    assert_int_equal(run("no/such/folder.gguf", none), 1);
}

static int cleanup(void **state)
{
    static const char *const names[] = {"m.gguf", "w.gguf", "s-00001-of-00003.gguf", "s-00002-of-00003.gguf",
                                        "s-00003-of-00003.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_has_the_wanted_deviation),
        cmocka_unit_test(test_routers_follow_zipf),
        cmocka_unit_test(test_models_load),
        cmocka_unit_test(test_split_and_seed),
        cmocka_unit_test(test_vocabulary_tokenizes),
        cmocka_unit_test(test_wrong_options),
    };
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    program = argv[1];
    return cmocka_run_group_tests_name("mkgguf", tests, NULL, cleanup);
}
