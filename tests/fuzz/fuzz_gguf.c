/* fuzz_gguf.c: any bytes as a GGUF file: opened, and everything it then offers is asked for.
 *
 * What must hold whatever the bytes: no crash, a refusal has a text, and what was accepted keeps its promises (tensors
 * inside the file, names that are found again, arrays that end where they should).
 */
#include <assert.h>
#include <store/gguf.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const asked[] = {
    "general.architecture",
    "general.alignment",
    "general.name",
    "split.no",
    "split.count",
    "split.tensors.count",
    "tokenizer.ggml.model",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.eos_token_id",
    "k",
};

static void walk_array(const struct halo_gguf *gguf, const char *key)
{
    struct halo_fault fault = {0};
    struct halo_gguf_array array;
    if (halo_gguf_get_array(gguf, key, &array, &fault) != 0)
        return;
    uint64_t n = 0;
    struct halo_span span;
    struct halo_gguf_array strings = array, integers = array, numbers = array;
    int64_t integer;
    double number;
    while (halo_gguf_next_string(&strings, &span))
        n++;
    assert(n == (array.kind == HALO_GGUF_STRING ? array.n : 0));
    for (n = 0; halo_gguf_next_i64(&integers, &integer);)
        n++;
    assert(n == 0 || n == array.n);
    for (n = 0; halo_gguf_next_f64(&numbers, &number);)
        n++;
    assert(n == 0 || n == array.n);
    assert((array.kind == HALO_GGUF_STRING ? strings : numbers).at == array.end || array.n == 0);
}

static void ask(const struct halo_gguf *gguf, const char *key)
{
    struct halo_fault fault = {0};
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    struct halo_span span;
    int found = halo_gguf_get_u64(gguf, key, &u, &fault);
    assert(found <= HALO_GGUF_ABSENT && (found == HALO_GGUF_ABSENT) == !halo_gguf_has(gguf, key));
    assert(found >= 0 || fault.text[0]);
    halo_gguf_get_i64(gguf, key, &i, &fault);
    halo_gguf_get_f64(gguf, key, &f, &fault);
    halo_gguf_get_bool(gguf, key, &b, &fault);
    if (halo_gguf_get_string(gguf, key, &span, &fault) == 0 && span.n > 0) {
        volatile char last = span.bytes[span.n - 1];
        (void)last;
    }
    walk_array(gguf, key);
}

static void walk_tensors(const struct halo_gguf *gguf, size_t size)
{
    for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
        const struct halo_gguf_tensor *t = halo_gguf_tensor(gguf, i);
        assert(halo_gguf_find_tensor(gguf, t->name) == t);
        assert(t->n_bytes > 0 && t->n_bytes <= size && t->offset <= size - t->n_bytes);
        assert(t->offset % halo_gguf_alignment(gguf) == 0);
    }
    assert(!halo_gguf_tensor(gguf, halo_gguf_n_tensors(gguf)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct halo_gguf *gguf;
    struct halo_fault fault = {0};
    int rc = halo_gguf_open_memory(&gguf, data, size, &fault);
    if (rc) {
        assert(rc < 0 && !gguf && fault.text[0] && fault.code != HALO_FAULT_NONE);
        return 0;
    }
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        ask(gguf, asked[i]);
    walk_tensors(gguf, size);
    assert(strlen(halo_gguf_fingerprint(gguf)) == 64);
    assert(halo_gguf_total_bytes(gguf) == size && halo_gguf_n_parts(gguf) == 1);
    halo_gguf_close(gguf);
    return 0;
}
