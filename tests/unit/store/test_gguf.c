/* test_gguf.c: what a good file says: versions, keys of every type, arrays walked by any suitable type, tensors and
 * their places. */
#include <errno.h>
#include <fcntl.h>
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

#include <base/hash.h>

#include "gguf_writer.h"

static struct halo_gguf *open_good(const struct gguf_writer *w)
{
    struct halo_gguf *gguf;
    struct halo_fault fault = {0};
    if (halo_gguf_open_memory(&gguf, w->bytes, w->n, &fault) != 0)
        fail_msg("%s", fault.text);
    return gguf;
}

static void key_raw(struct gguf_writer *w, const char *name, uint32_t kind, const void *bytes, size_t n)
{
    gguf_writer_key(w, name, kind);
    gguf_writer_raw(w, bytes, n);
}

static void array_raw(struct gguf_writer *w, const char *name, uint32_t kind, uint64_t count, const void *bytes,
                      size_t n)
{
    gguf_writer_key_array(w, name, kind, count);
    gguf_writer_raw(w, bytes, n);
}

/* One key of each type, with a value that shows sign and width. */
static void write_scalars(struct gguf_writer *w)
{
    gguf_writer_init(w);
    key_raw(w, "u8", HALO_GGUF_U8, &(uint8_t){200}, 1);
    key_raw(w, "i8", HALO_GGUF_I8, &(int8_t){-3}, 1);
    key_raw(w, "u16", HALO_GGUF_U16, &(uint16_t){60000}, 2);
    key_raw(w, "i16", HALO_GGUF_I16, &(int16_t){-300}, 2);
    key_raw(w, "u32", HALO_GGUF_U32, &(uint32_t){4000000000u}, 4);
    key_raw(w, "i32", HALO_GGUF_I32, &(int32_t){-70000}, 4);
    key_raw(w, "u64", HALO_GGUF_U64, &(uint64_t){UINT64_MAX}, 8);
    key_raw(w, "i64", HALO_GGUF_I64, &(int64_t){INT64_MIN}, 8);
    key_raw(w, "i64.good", HALO_GGUF_I64, &(int64_t){7}, 8);
    gguf_writer_key_f32(w, "f32", 1.5f);
    key_raw(w, "f64", HALO_GGUF_F64, &(double){-0.1}, 8);
    gguf_writer_key_bool(w, "bool", true);
    gguf_writer_key_string(w, "string", "a \xe2\x82\xac");
    gguf_writer_key_string(w, "string.empty", "");
    gguf_writer_key_string(w, "string.number", "12");
    gguf_writer_finish(w);
}

static void test_scalars(void **state)
{
    struct gguf_writer w;
    write_scalars(&w);
    struct halo_gguf *gguf = open_good(&w);
    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u8", 200},         {"i8", -3},      {"u16", 60000},     {"i16", -300},
                    {"u32", 4000000000}, {"i32", -70000}, {"i64", INT64_MIN}, {"i64.good", 7}};
    struct halo_fault fault;
    uint64_t u;
    int64_t i;
    double f;
    for (size_t k = 0; k < sizeof(integers) / sizeof(integers[0]); k++) {
        assert_true(halo_gguf_has(gguf, integers[k].key));
        assert_int_equal(halo_gguf_get_i64(gguf, integers[k].key, &i, &fault), 0);
        assert_true(i == integers[k].value);
        assert_int_equal(halo_gguf_get_f64(gguf, integers[k].key, &f, &fault), 0);
        assert_true(f == (double)integers[k].value);
        if (integers[k].value >= 0) {
            assert_int_equal(halo_gguf_get_u64(gguf, integers[k].key, &u, &fault), 0);
            assert_true(u == (uint64_t)integers[k].value);
        } else {
            char wanted[128];
            snprintf(wanted, sizeof(wanted), "key '%s' is %lld, it must not be negative", integers[k].key,
                     (long long)i);
            assert_true(halo_gguf_get_u64(gguf, integers[k].key, &u, &fault) < 0);
            assert_string_equal(fault.text, wanted);
        }
    }
    assert_int_equal(halo_gguf_get_u64(gguf, "u64", &u, &fault), 0);
    assert_true(u == UINT64_MAX);
    assert_true(halo_gguf_get_i64(gguf, "u64", &i, &fault) < 0);
    assert_string_equal(fault.text, "key 'u64' is 18446744073709551615, it must be below 2^63");
    assert_int_equal(halo_gguf_get_f64(gguf, "u64", &f, &fault), 0);
    assert_true(f == 0x1p64);
    assert_int_equal(halo_gguf_get_f64(gguf, "f32", &f, &fault), 0);
    assert_true(f == 1.5);
    assert_int_equal(halo_gguf_get_f64(gguf, "f64", &f, &fault), 0);
    assert_true(f == -0.1);
    bool b = false;
    assert_int_equal(halo_gguf_get_bool(gguf, "bool", &b, &fault), 0);
    assert_true(b);
    struct halo_span s;
    assert_int_equal(halo_gguf_get_string(gguf, "string", &s, &fault), 0);
    assert_true(s.n == 5 && memcmp(s.bytes, "a \xe2\x82\xac", 5) == 0);
    assert_int_equal(halo_gguf_get_string(gguf, "string.empty", &s, &fault), 0);
    assert_int_equal(s.n, 0);
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

/* CVE-2024-8063 and its like: block_count as a string, an array, a float is a sentence, not a division by zero. */
static void test_wrong_types(void **state)
{
    struct gguf_writer w;
    write_scalars(&w);
    array_raw(&w, "array", HALO_GGUF_I16, 1, "\1\0", 2);
    gguf_writer_finish(&w);
    struct halo_gguf *gguf = open_good(&w);
    struct halo_fault fault;
    uint64_t u;
    int64_t i;
    double f;
    bool b;
    struct halo_span s;
    struct halo_gguf_array a;
#define REFUSED(call, wanted)                                                                                          \
    assert_true((call) < 0);                                                                                           \
    assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);                                                              \
    assert_string_equal(fault.text, wanted)
    REFUSED(halo_gguf_get_u64(gguf, "string.number", &u, &fault),
            "key 'string.number' must be an integer, the file has type string");
    REFUSED(halo_gguf_get_u64(gguf, "f32", &u, &fault), "key 'f32' must be an integer, the file has type f32");
    REFUSED(halo_gguf_get_u64(gguf, "bool", &u, &fault), "key 'bool' must be an integer, the file has type bool");
    REFUSED(halo_gguf_get_u64(gguf, "array", &u, &fault),
            "key 'array' must be an integer, the file has an array of i16");
    REFUSED(halo_gguf_get_i64(gguf, "f64", &i, &fault), "key 'f64' must be an integer, the file has type f64");
    REFUSED(halo_gguf_get_i64(gguf, "bool", &i, &fault), "key 'bool' must be an integer, the file has type bool");
    REFUSED(halo_gguf_get_f64(gguf, "string", &f, &fault), "key 'string' must be a number, the file has type string");
    REFUSED(halo_gguf_get_f64(gguf, "bool", &f, &fault), "key 'bool' must be a number, the file has type bool");
    REFUSED(halo_gguf_get_bool(gguf, "u8", &b, &fault), "key 'u8' must be a bool, the file has type u8");
    REFUSED(halo_gguf_get_string(gguf, "u32", &s, &fault), "key 'u32' must be a string, the file has type u32");
    REFUSED(halo_gguf_get_array(gguf, "string", &a, &fault), "key 'string' must be an array, the file has type string");
#undef REFUSED
    assert_int_equal(halo_gguf_get_u64(gguf, "absent", &u, &fault), HALO_GGUF_ABSENT);
    assert_int_equal(halo_gguf_get_i64(gguf, "absent", &i, &fault), HALO_GGUF_ABSENT);
    assert_int_equal(halo_gguf_get_f64(gguf, "", &f, &fault), HALO_GGUF_ABSENT);
    assert_int_equal(halo_gguf_get_bool(gguf, "boo", &b, &fault), HALO_GGUF_ABSENT);
    assert_int_equal(halo_gguf_get_string(gguf, "strin", &s, &fault), HALO_GGUF_ABSENT);
    assert_int_equal(halo_gguf_get_array(gguf, "arra", &a, &fault), HALO_GGUF_ABSENT);
    assert_false(halo_gguf_has(gguf, "absent"));
    assert_true(halo_gguf_get_u64(gguf, "bool", &u, NULL) < 0); /* no fault wanted */
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

/* llama.cpp#24888 and #27254: an array of an odd element type is read by its own width, or not at all; never as
 * something wider. */
static void test_arrays_of_every_type(void **state)
{
    static const struct {
        uint32_t kind;
        const char *bytes;
        size_t n;
        double values[3];
        bool integer;
    } rows[] = {
        {HALO_GGUF_U8, "\1\xc8\3", 3, {1, 200, 3}, true},
        {HALO_GGUF_I8, "\1\xc8\3", 3, {1, -56, 3}, true},
        {HALO_GGUF_U16, "\1\0\0\xc8\3\0", 6, {1, 51200, 3}, true},
        {HALO_GGUF_I16, "\1\0\0\xc8\3\0", 6, {1, -14336, 3}, true},
        {HALO_GGUF_U32, "\1\0\0\0\xff\xff\xff\xff\3\0\0\0", 12, {1, 4294967295.0, 3}, true},
        {HALO_GGUF_I32, "\1\0\0\0\xff\xff\xff\xff\3\0\0\0", 12, {1, -1, 3}, true},
        {HALO_GGUF_U64, "\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\3\0\0\0\0\0\0\0", 24, {1, 4294967296.0, 3}, true},
        {HALO_GGUF_I64, "\1\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\3\0\0\0\0\0\0\0", 24, {1, -2, 3}, true},
        {HALO_GGUF_F32, "\0\0\x80\x3f\0\0\0\xc0\0\0\x40\x40", 12, {1, -2, 3}, false},
        {HALO_GGUF_F64, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\x08\x40", 24, {1, -2, 3}, false},
        {HALO_GGUF_BOOL, "\1\0\1", 3, {1, 0, 1}, true},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct gguf_writer w;
        gguf_writer_init(&w);
        array_raw(&w, "list", rows[r].kind, 3, rows[r].bytes, rows[r].n);
        gguf_writer_finish(&w);
        struct halo_gguf *gguf = open_good(&w);
        struct halo_gguf_array array, numbers;
        struct halo_fault fault;
        assert_int_equal(halo_gguf_get_array(gguf, "list", &array, &fault), 0);
        assert_int_equal(array.kind, rows[r].kind);
        assert_int_equal(array.n, 3);
        numbers = array;
        struct halo_span s;
        assert_false(halo_gguf_next_string(&array, &s));
        for (int k = 0; k < 3; k++) {
            int64_t i = 99;
            double f = 99;
            assert_int_equal(halo_gguf_next_i64(&array, &i), rows[r].integer);
            assert_true((double)i == (rows[r].integer ? rows[r].values[k] : 99));
            assert_true(halo_gguf_next_f64(&numbers, &f));
            assert_true(f == rows[r].values[k]);
        }
        int64_t i;
        double f;
        assert_false(halo_gguf_next_i64(&array, &i));
        assert_false(halo_gguf_next_f64(&numbers, &f));
        assert_ptr_equal(numbers.at, numbers.end);
        halo_gguf_close(gguf);
        gguf_writer_free(&w);
    }
}

static void test_string_arrays(void **state)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_key_array(&w, "tokens", HALO_GGUF_STRING, 4);
    gguf_writer_string(&w, "one");
    gguf_writer_string(&w, "");
    gguf_writer_u64(&w, 3);
    gguf_writer_raw(&w, "a\0\xff", 3); /* any byte: tokens are not always text */
    gguf_writer_string(&w, "four");
    gguf_writer_key_array(&w, "none", HALO_GGUF_STRING, 0);
    gguf_writer_key_array(&w, "none.u64", HALO_GGUF_U64, 0);
    gguf_writer_finish(&w);
    struct halo_gguf *gguf = open_good(&w);
    struct halo_gguf_array array;
    struct halo_span s;
    int64_t i;
    double f;
    assert_int_equal(halo_gguf_get_array(gguf, "tokens", &array, NULL), 0);
    assert_false(halo_gguf_next_i64(&array, &i));
    assert_false(halo_gguf_next_f64(&array, &f));
    static const struct halo_span wanted[] = {{"one", 3}, {"", 0}, {"a\0\xff", 3}, {"four", 4}};
    for (int k = 0; k < 4; k++) {
        assert_true(halo_gguf_next_string(&array, &s));
        assert_int_equal(s.n, wanted[k].n);
        assert_memory_equal(s.bytes, wanted[k].bytes, s.n);
    }
    assert_false(halo_gguf_next_string(&array, &s));
    assert_int_equal(halo_gguf_get_array(gguf, "none", &array, NULL), 0);
    assert_false(halo_gguf_next_string(&array, &s));
    assert_int_equal(halo_gguf_get_array(gguf, "none.u64", &array, NULL), 0);
    assert_false(halo_gguf_next_i64(&array, &i));
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

/* A U64 past 2^63 in an array of ids is not an id: it comes out as the largest number, which every range check refuses.
 */
static void test_array_u64_does_not_turn_negative(void **state)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_key_array(&w, "ids", HALO_GGUF_U64, 1);
    gguf_writer_u64(&w, UINT64_MAX);
    gguf_writer_finish(&w);
    struct halo_gguf *gguf = open_good(&w);
    struct halo_gguf_array array;
    int64_t i;
    assert_int_equal(halo_gguf_get_array(gguf, "ids", &array, NULL), 0);
    assert_true(halo_gguf_next_i64(&array, &i));
    assert_true(i == INT64_MAX);
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

static void test_tensors(void **state)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_key_u32(&w, "general.alignment", 64);
    /* Out of order, with gaps; the last one ends with the file, without padding. */
    gguf_writer_tensor(&w, "blk.0.b.weight", 3, (uint64_t[]){256, 2, 3}, HALO_TYPE_Q4_K, 256);
    gguf_writer_tensor(&w, "a.weight", 1, (uint64_t[]){16}, HALO_TYPE_F16, 64);
    gguf_writer_tensor(&w, "0123456789012345678901234567890123456789012345678901234567890ab", 4,
                       (uint64_t[]){1, 2, 3, 5}, HALO_TYPE_F32, 1152);
    gguf_writer_finish(&w);
    gguf_writer_pad(&w, 64);
    uint64_t data = w.n;
    for (uint64_t i = 0; i < 1152 + 120; i += 8)
        gguf_writer_u64(&w, i);
    struct halo_gguf *gguf = open_good(&w);
    assert_int_equal(halo_gguf_n_tensors(gguf), 3);
    assert_int_equal(halo_gguf_alignment(gguf), 64);
    assert_int_equal(halo_gguf_version(gguf), 3);
    assert_int_equal(halo_gguf_n_parts(gguf), 1);
    assert_int_equal(halo_gguf_total_bytes(gguf), w.n);
    const struct halo_gguf_tensor *t = halo_gguf_find_tensor(gguf, "blk.0.b.weight");
    assert_ptr_equal(t, halo_gguf_tensor(gguf, 0));
    assert_int_equal(t->type, HALO_TYPE_Q4_K);
    assert_int_equal(t->n_dims, 3);
    assert_true(t->dims[0] == 256 && t->dims[1] == 2 && t->dims[2] == 3 && t->dims[3] == 1);
    assert_int_equal(t->n_bytes, 6 * 144);
    assert_int_equal(t->offset, data + 256);
    assert_int_equal(t->part, 0);
    t = halo_gguf_tensor(gguf, 2);
    assert_int_equal(strlen(t->name), HALO_GGUF_MAX_NAME);
    assert_ptr_equal(t, halo_gguf_find_tensor(gguf, t->name));
    assert_int_equal(t->n_bytes, 120);
    assert_int_equal(t->offset + t->n_bytes, w.n);
    assert_null(halo_gguf_find_tensor(gguf, "a.weigh"));
    assert_null(halo_gguf_find_tensor(gguf, ""));
    assert_null(halo_gguf_tensor(gguf, 3));
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

/* CVE-2024-41130: no tensors, and then somebody asks for one. Also version 2, and a file that ends before the padding.
 */
static void test_empty_and_version_2(void **state)
{
    struct gguf_writer w;
    gguf_writer_init(&w);
    struct halo_gguf *gguf = open_good(&w); /* 24 bytes: nothing at all */
    assert_int_equal(halo_gguf_n_tensors(gguf), 0);
    assert_null(halo_gguf_tensor(gguf, 0));
    assert_null(halo_gguf_find_tensor(gguf, "x"));
    assert_false(halo_gguf_has(gguf, "general.architecture"));
    assert_int_equal(halo_gguf_alignment(gguf), 32);
    halo_gguf_close(gguf);
    gguf_writer_put_u32(&w, 4, 2);
    gguf_writer_key_string(&w, "general.name", "x");
    gguf_writer_finish(&w);
    gguf = open_good(&w);
    assert_int_equal(halo_gguf_version(gguf), 2);
    halo_gguf_close(gguf);
    halo_gguf_close(NULL);
    gguf_writer_free(&w);
}

/* Every type of the table, with its exact size. */
static void test_every_tensor_type(void **state)
{
#define X(id, gguf_id, weights, block)                                                                                 \
    {                                                                                                                  \
        struct gguf_writer w;                                                                                          \
        gguf_writer_init(&w);                                                                                          \
        gguf_writer_tensor(&w, "t", 2, (uint64_t[]){weights * 3, 2}, gguf_id, 0);                                      \
        gguf_writer_finish(&w);                                                                                        \
        gguf_writer_pad(&w, 32);                                                                                       \
        static const uint8_t data[6 * block];                                                                          \
        gguf_writer_raw(&w, data, sizeof(data));                                                                       \
        struct halo_gguf *gguf = open_good(&w);                                                                        \
        assert_int_equal(halo_gguf_tensor(gguf, 0)->n_bytes, 6 * block);                                               \
        halo_gguf_close(gguf);                                                                                         \
        w.n--; /* and one byte less is refused */                                                                      \
        assert_true(halo_gguf_open_memory(&gguf, w.bytes, w.n, NULL) < 0);                                             \
        gguf_writer_free(&w);                                                                                          \
    }
    HALO_TYPE_LIST(X)
#undef X
}

static void test_fingerprint(void **state)
{
    struct gguf_writer w;
    write_scalars(&w);
    struct halo_gguf *gguf = open_good(&w);
    char first[HALO_SHA256_HEX], hex[HALO_SHA256_HEX];
    strcpy(first, halo_gguf_fingerprint(gguf));
    halo_sha256_hex(w.bytes, w.n, hex); /* a file that is all directory */
    assert_string_equal(first, hex);
    halo_gguf_close(gguf);
    w.bytes[w.n - 1] ^= 1; /* one bit of the last value */
    gguf = open_good(&w);
    assert_string_not_equal(first, halo_gguf_fingerprint(gguf));
    halo_gguf_close(gguf);
    gguf_writer_free(&w);
}

static void test_files_that_are_none(void **state)
{
    struct halo_gguf *gguf;
    struct halo_fault fault;
    char path[] = "/tmp/halo-gguf-XXXXXX", fifo[64];
    assert_int_equal(halo_gguf_open(&gguf, "/nonexistent/m.gguf", &fault), -ENOENT);
    assert_int_equal(fault.code, HALO_FAULT_NOT_FOUND);
    assert_string_equal(fault.text, "m.gguf: cannot be opened: No such file or directory");
    assert_true(halo_gguf_open(&gguf, "/tmp", &fault) < 0);
    assert_string_equal(fault.text, "tmp: is a directory, not a regular file");
    assert_true(halo_gguf_open(&gguf, "/dev/zero", &fault) < 0);
    assert_string_equal(fault.text, "zero: is a device, not a regular file");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(fifo, sizeof(fifo), "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_true(halo_gguf_open(&gguf, fifo, &fault) < 0); /* and does not wait for a writer */
    assert_non_null(strstr(fault.text, "is a pipe, not a regular file"));
    unlink(fifo);
    assert_true(halo_gguf_open(&gguf, path, &fault) < 0);
    assert_non_null(strstr(fault.text, "a GGUF file begins with 24 bytes, this file has 0"));
    assert_null(gguf);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_arrays_of_every_type),
        cmocka_unit_test(test_string_arrays),
        cmocka_unit_test(test_array_u64_does_not_turn_negative),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_empty_and_version_2),
        cmocka_unit_test(test_every_tensor_type),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_files_that_are_none),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
