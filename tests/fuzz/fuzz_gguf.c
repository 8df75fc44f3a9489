/* fuzz_gguf.c: any bytes as a GGUF file: opened, and everything it then offers is asked for.
 *
 * What must hold whatever the bytes: no crash, a refusal has a text, and what was accepted keeps its promises (tensors
 * inside the file, names that are found again, arrays that end where they should). An input that holds the separator
 * below is a split set, its parts are written to files; some of the others are read from a file too, which must come to
 * the same verdict.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <store/gguf.h>

#define SEPARATOR "<part>"
#define PARTS_MAX 3

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

static void walk_tensors(const struct halo_gguf *gguf)
{
    for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
        const struct halo_gguf_tensor *t = halo_gguf_tensor(gguf, i);
        uint64_t size = halo_gguf_part_bytes(gguf, t->part);
        assert(halo_gguf_find_tensor(gguf, t->name) == t);
        assert(t->n_bytes > 0 && t->n_bytes <= size && t->offset <= size - t->n_bytes);
        assert(t->offset % 8 == 0);
    }
    assert(!halo_gguf_tensor(gguf, halo_gguf_n_tensors(gguf)));
}

static void walk(const struct halo_gguf *gguf, uint64_t size, uint32_t n_parts)
{
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        ask(gguf, asked[i]);
    walk_tensors(gguf);
    assert(strlen(halo_gguf_fingerprint(gguf)) == 64);
    assert(halo_gguf_total_bytes(gguf) == size && halo_gguf_n_parts(gguf) == n_parts);
}

static char folder[] = "/tmp/fuzz-gguf-XXXXXX", paths[PARTS_MAX + 1][64];

static void folder_remove(void)
{
    for (int i = 0; i <= PARTS_MAX; i++)
        unlink(paths[i]);
    rmdir(folder);
}

/* A folder for the life of the process. paths[0] is an ordinary file. */
static void folder_make(void)
{
    if (paths[0][0])
        return;
    if (!mkdtemp(folder))
        abort();
    snprintf(paths[0], sizeof paths[0], "%s/m.gguf", folder);
    for (int i = 1; i <= PARTS_MAX; i++)
        snprintf(paths[i], sizeof paths[i], "%s/m-%05d-of-%05d.gguf", folder, i, PARTS_MAX);
    atexit(folder_remove);
}

static void file_write(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* The parts between separators as a set of three; a missing part has no file. */
static void split_set(const uint8_t *data, size_t size)
{
    uint64_t total = 0;
    const uint8_t *end = data + size;
    folder_make();
    for (int i = 1; i <= PARTS_MAX; i++) {
        const uint8_t *stop = data ? memmem(data, (size_t)(end - data), SEPARATOR, strlen(SEPARATOR)) : NULL;
        unlink(paths[i]);
        if (!data)
            continue;
        size_t n = (size_t)((stop ? stop : end) - data);
        file_write(paths[i], data, n);
        total += n;
        data = stop ? stop + strlen(SEPARATOR) : NULL;
    }
    struct halo_gguf *gguf;
    struct halo_fault fault = {0};
    int r = halo_gguf_open(&gguf, paths[1], &fault);
    assert(r == 0 || (r < 0 && !gguf && fault.text[0]));
    if (r == 0)
        walk(gguf, total, PARTS_MAX);
    halo_gguf_close(gguf);
}

static void same_from_file(const uint8_t *data, size_t size, int rc, const struct halo_fault *fault)
{
    struct halo_gguf *gguf;
    struct halo_fault again = {0};
    folder_make();
    file_write(paths[0], data, size);
    int rc_file = halo_gguf_open(&gguf, paths[0], &again);
    assert(rc_file == rc);
    /* A set of parts is refused for want of a name, or for its name. The file's own name comes first. */
    assert(rc == 0 || strstr(again.text, fault->text) || strstr(again.text, "split.count"));
    halo_gguf_close(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memmem(data, size, SEPARATOR, strlen(SEPARATOR))) {
        split_set(data, size);
        return 0;
    }
    struct halo_gguf *gguf;
    struct halo_fault fault = {0};
    int r = halo_gguf_open_memory(&gguf, data, size, &fault);
    assert(r == 0 || (r < 0 && !gguf && fault.text[0] && fault.code != HALO_FAULT_NONE));
    if (r == 0)
        walk(gguf, size, 1);
    if (size % 16 == 3)
        same_from_file(data, size, r, &fault);
    halo_gguf_close(gguf);
    return 0;
}
