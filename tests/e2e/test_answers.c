/* test_answers.c: requests whose answers are large: each gets one clear end, the engine goes on, the connection stays;
 * and a model file with a number that no answer can hold.
 *
 * The files lie in a folder of the test: the model in the tree with one token made long, and a header alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon_fixture.h"
#include "gguf_writer.h"

#define PATIENCE_MS 240000
#define LONG_TOKEN 4093 /* "<|endoftext|>" of the model in the tree, and then some */
#define ADDED_BYTES 128 /* a multiple of the alignment: what follows keeps its place */
#define LONG_TOKEN_BYTES (13 + ADDED_BYTES)

static char root[] = "/tmp/halod-answers-XXXXXX";
static char dir[64], long_path[96], odd_path[96];
static struct daemon_fixture fixture;
static struct client client;

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* The model in the tree, its long token ADDED_BYTES longer. */
static void write_long(const char *source)
{
    static const char token[] = "\15\0\0\0\0\0\0\0<|endoftext|>";
    char path[4200], added[ADDED_BYTES];
    snprintf(path, sizeof path, "%s/tests/models/fable-Q4_K_M.gguf", source);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct stat facts;
    assert_int_equal(fstat(fileno(file), &facts), 0);
    size_t n = (size_t)facts.st_size;
    char *bytes = malloc(n + ADDED_BYTES);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, n, file), n);
    fclose(file);
    char *at = memmem(bytes, n, token, sizeof token - 1);
    assert_non_null(at);
    at[0] = (char)(unsigned char)LONG_TOKEN_BYTES;
    at += sizeof token - 1;
    memset(added, 'x', sizeof added);
    memmove(at + ADDED_BYTES, at, n - (size_t)(at - bytes));
    memcpy(at, added, sizeof added);
    write_file(long_path, bytes, n + ADDED_BYTES);
    free(bytes);
}

/* A context length of 2^64 - 1. */
static void write_odd(void)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_key_string(&w, "general.architecture", "llama");
    gguf_writer_key(&w, "llama.context_length", HALO_GGUF_U64);
    gguf_writer_u64(&w, UINT64_MAX);
    gguf_writer_finish(&w);
    gguf_writer_pad(&w, 32);
    write_file(odd_path, w.bytes, w.n);
    gguf_writer_free(&w);
}

static int begin(void **state)
{
    const char *source = getenv("HALO_SOURCE_ROOT");
    assert_non_null(source);
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/tests", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(dir, sizeof dir, "%s/tests/models", root);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(long_path, sizeof long_path, "%s/long.gguf", dir);
    snprintf(odd_path, sizeof odd_path, "%s/odd.gguf", dir);
    write_long(source);
    write_odd();
    assert_int_equal(setenv("HALO_SOURCE_ROOT", root, 1), 0);
    daemon_start(&fixture, NULL);
    client_open(&client, &fixture);
    return 0;
}

static int end(void **state)
{
    client_close(&client);
    daemon_stop(&fixture, 60000);
    unlink(long_path);
    unlink(odd_path);
    rmdir(dir);
    *strrchr(dir, '/') = '\0';
    rmdir(dir);
    return rmdir(root);
}

static char *repeat(const char *text, size_t n)
{
    size_t len = strlen(text);
    char *whole = malloc(n * len + 1);
    if (!whole)
        abort(); /* cmocka's asserts do not tell the compiler that they end */
    for (size_t i = 0; i < n; i++)
        memcpy(whole + i * len, text, len);
    whole[n * len] = '\0';
    return whole;
}

static int64_t n_restarts(void)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    client_send(&client, "status", "%s", "");
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    assert_int_equal(halo_ev_decode(&ev, client.last_line, strlen(client.last_line), 0, &refusal), 0);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    int64_t n = ev.status.engine.restarts;
    halo_ev_finish(&ev);
    return n;
}

/* Sends a request with a long member between two short ones; the answer is in client.last_line. */
static const struct client_request *ask(const char *type, const char *before, char *long_member, const char *after)
{
    size_t at = client_send(&client, type, "\"model\":\"long\",%s%s%s", before, long_member, after);
    free(long_member);
    if (!client_wait(&client, 0, PATIENCE_MS))
        fail_msg("%s: the connection ended", type);
    assert_int_equal(n_restarts(), 0);
    return &client.requests[at];
}

static void expect(const struct client_request *request, enum halo_ev_type terminal)
{
    if (request->terminal != terminal)
        fail_msg("a %s event instead of %s: %s", halo_ev_type_name(request->terminal), halo_ev_type_name(terminal),
                 request->message);
}

static void expect_too_large(const struct client_request *request, const char *numbers)
{
    expect(request, HALO_EV_ERROR);
    assert_int_equal(request->error, HALO_ERROR_UNSUPPORTED);
    if (!strstr(request->detail, numbers))
        fail_msg("'%s' is not in '%s' (%s)", numbers, request->detail, request->message);
}

/* Digits are a token each. */
static char *digits(size_t n)
{
    return repeat("7", n);
}

static void tokenize(void **state)
{
    expect(ask("tokenize", "\"text\":\"", digits(1200000), "\""), HALO_EV_TOKENS);
    expect_too_large(ask("tokenize", "\"text\":\"", digits(2400000), "\""),
                     "{\"tokens\":2400000,\"values\":4800005,\"limit_values\":4194304}");
}

static void template(void **state)
{
    static const char before[] = "\"messages\":[{\"role\":\"user\",\"content\":\"", after[] = "\"}]";
    expect(ask("template", before, digits(2400000), after), HALO_EV_TEMPLATE);
    expect_too_large(ask("template", before, digits(4800000), after), "\"limit_values\":4194304}");
}

static void detokenize(void **state)
{
    expect(ask("detokenize", "\"tokens\":[", repeat("4093,", 100000), "4093]"), HALO_EV_TEXT);
    expect_too_large(ask("detokenize", "\"tokens\":[", repeat("4093,", 539999), "4093]"),
                     "{\"tokens\":540000,\"bytes\":76140000,\"limit_bytes\":33554432}");
}

/* DEL is six bytes in an answer: within every limit as text and by its values, beyond it as JSON. */
static void escaped(void **state)
{
    expect_too_large(
        ask("template", "\"messages\":[{\"role\":\"user\",\"content\":\"", repeat("\177", 4100000), "\"}]"),
        "limit_bytes");
}

static void models(void **state)
{
    client_send(&client, "models", "%s", "");
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    const char *odd = strstr(client.last_line, "\"name\":\"odd\"");
    assert_non_null(odd);
    assert_non_null(strstr(client.last_line, "\"name\":\"long\""));
    assert_non_null(strstr(odd, "\"fault\":\"llama.context_length is 18446744073709551615, at most 1073741824"));
    assert_int_equal(n_restarts(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokenize), cmocka_unit_test(template),
                                       cmocka_unit_test(detokenize), cmocka_unit_test(escaped),
                                       cmocka_unit_test(models)};
    return cmocka_run_group_tests(tests, begin, end);
}
