/* test_gguf_malformed.c: every malformed class that has hurt a GGUF reader somewhere, each with its own clear refusal.
 *
 * A row builds a whole file, and the whole text of the refusal is compared: it must name the key or the tensor and the
 * numbers. The identifiers name the public advisory or report in which the class was seen (ggml and llama.cpp unless
 * said otherwise).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gguf_writer.h"

#define AT_VERSION 4
#define AT_N_TENSORS 8
#define AT_N_KEYS 16

typedef void build_fn(struct gguf_writer *w);

struct row {
    const char *id;
    build_fn *build;
    enum halo_fault_code code;
    const char *text;
};

/* One tensor of 32 bytes of data, then the data. */
static void tensor(struct gguf_writer *w, uint32_t n_dims, const uint64_t dims[], uint32_t type, uint64_t offset)
{
    gguf_writer_tensor(w, "t.weight", n_dims, dims, type, offset);
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 4; i++)
        gguf_writer_u64(w, 0);
}

static void shaped(struct gguf_writer *w, uint32_t type, uint64_t d0, uint64_t d1, uint64_t d2, uint64_t d3)
{
    const uint64_t dims[4] = {d0, d1, d2, d3};
    tensor(w, 4, dims, type, 0);
}

static void key_then_tail(struct gguf_writer *w, const char *name, uint32_t kind)
{
    gguf_writer_key(w, name, kind);
    gguf_writer_finish(w);
}

/* header */

static void empty(struct gguf_writer *w)
{
    w->n = 0;
}
static void four_bytes(struct gguf_writer *w)
{
    w->n = 4;
}
static void one_byte_short(struct gguf_writer *w)
{
    w->n = 23;
}
static void bad_magic(struct gguf_writer *w)
{
    memcpy(w->bytes, "GGML", 4);
}
static void version_0(struct gguf_writer *w)
{
    gguf_writer_put_u32(w, AT_VERSION, 0);
}
static void version_1(struct gguf_writer *w)
{
    gguf_writer_put_u32(w, AT_VERSION, 1);
}
static void version_4(struct gguf_writer *w)
{
    gguf_writer_put_u32(w, AT_VERSION, 4);
}
static void big_endian(struct gguf_writer *w)
{
    gguf_writer_put_u32(w, AT_VERSION, 0x03000000);
}
static void n_keys_2_60(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, AT_N_KEYS, 1ull << 60);
}
static void n_keys_2_63(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, AT_N_KEYS, 1ull << 63);
}
static void n_tensors_2_59(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, AT_N_TENSORS, 1ull << 59);
}
static void n_tensors_2_64(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, AT_N_TENSORS, UINT64_MAX);
}

static void n_tensors_one_too_many(struct gguf_writer *w) /* the count alone passes, the file then ends */
{
    gguf_writer_tensor(w, "t", 1, (uint64_t[]){8}, HALO_TYPE_F32, 0);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 4; i++)
        gguf_writer_u64(w, 0);
    gguf_writer_put_u64(w, AT_N_TENSORS, 2);
}

/* keys */

static void key_name_empty(struct gguf_writer *w)
{
    key_then_tail(w, "", HALO_GGUF_U8);
    gguf_writer_u64(w, 0);
}
static void key_name_control(struct gguf_writer *w)
{
    gguf_writer_key_u32(w, "a\nb", 1);
    gguf_writer_finish(w);
}
static void key_name_not_ascii(struct gguf_writer *w)
{
    gguf_writer_key_u32(w, "caf\xc3\xa9", 1);
    gguf_writer_finish(w);
}

static void key_name_length(struct gguf_writer *w, uint64_t n)
{
    gguf_writer_key_u32(w, "general.name", 1);
    gguf_writer_put_u64(w, 24, n);
    gguf_writer_finish(w);
}
static void key_name_2_64(struct gguf_writer *w)
{
    key_name_length(w, UINT64_MAX);
}
static void key_name_2_63(struct gguf_writer *w)
{
    key_name_length(w, 1ull << 63);
}
static void key_name_past_end(struct gguf_writer *w)
{
    key_name_length(w, 49);
}

static void key_name_65536(struct gguf_writer *w)
{
    static char name[65537];
    memset(name, 'n', 65536);
    gguf_writer_key_u32(w, name, 1);
    gguf_writer_finish(w);
}

static void key_type_13(struct gguf_writer *w)
{
    key_then_tail(w, "a.b", 13);
    gguf_writer_u64(w, 0);
}

static void second_key_bad_type(struct gguf_writer *w)
{
    gguf_writer_key_string(w, "first", "good");
    gguf_writer_key_array(w, "list", HALO_GGUF_STRING, 1);
    gguf_writer_string(w, "good too");
    key_then_tail(w, "third", 0xffffffff);
    gguf_writer_u64(w, 0);
}

static void key_twice(struct gguf_writer *w)
{
    gguf_writer_key_u32(w, "general.alignment", 32);
    gguf_writer_key_u32(w, "b", 1);
    gguf_writer_key_u32(w, "general.alignment", 64);
    gguf_writer_finish(w);
}

static void bool_2(struct gguf_writer *w)
{
    key_then_tail(w, "flag", HALO_GGUF_BOOL);
    gguf_writer_raw(w, "\2", 1);
}

static void bool_array_255(struct gguf_writer *w)
{
    gguf_writer_key_array(w, "flags", HALO_GGUF_BOOL, 3);
    gguf_writer_raw(w, "\0\1\xff", 3);
    gguf_writer_finish(w);
}

static void string_length(struct gguf_writer *w, uint64_t n)
{
    gguf_writer_key(w, "general.name", HALO_GGUF_STRING);
    gguf_writer_u64(w, n);
    gguf_writer_raw(w, "abc", 3);
    gguf_writer_finish(w);
}
static void string_2_64(struct gguf_writer *w)
{
    string_length(w, UINT64_MAX);
}
static void string_2_63(struct gguf_writer *w)
{
    string_length(w, 1ull << 63);
}
static void string_one_past(struct gguf_writer *w)
{
    string_length(w, 4);
}
static void string_file_size(struct gguf_writer *w)
{
    string_length(w, 60);
}

static void token_huge(struct gguf_writer *w)
{
    gguf_writer_key_array(w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 2);
    gguf_writer_string(w, "<s>");
    gguf_writer_u64(w, 0x80000001u);
    gguf_writer_finish(w);
}

static void tokens_2_31(struct gguf_writer *w)
{
    gguf_writer_key_array(w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 0x80000001u);
    gguf_writer_string(w, "<s>");
    gguf_writer_finish(w);
}

static void array_kind(struct gguf_writer *w, uint32_t kind)
{
    gguf_writer_key_array(w, "list", kind, 1ull << 61);
    gguf_writer_u64(w, 0);
    gguf_writer_finish(w);
}
static void array_u8(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_U8);
}
static void array_i8(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_I8);
}
static void array_u16(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_U16);
}
static void array_i16(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_I16);
}
static void array_u32(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_U32);
}
static void array_i32(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_I32);
}
static void array_f32(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_F32);
}
static void array_bool(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_BOOL);
}
static void array_string(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_STRING);
}
static void array_u64(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_U64);
}
static void array_i64(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_I64);
}
static void array_f64(struct gguf_writer *w)
{
    array_kind(w, HALO_GGUF_F64);
}
static void array_of_13(struct gguf_writer *w)
{
    array_kind(w, 13);
}

static void array_nested(struct gguf_writer *w) /* 100000 deep */
{
    gguf_writer_key(w, "deep", HALO_GGUF_ARRAY);
    for (int i = 0; i < 100000; i++) {
        gguf_writer_u32(w, HALO_GGUF_ARRAY);
        gguf_writer_u64(w, 1);
    }
    gguf_writer_finish(w);
}

/* alignment */

static void align_u32(struct gguf_writer *w, uint32_t value)
{
    gguf_writer_key_u32(w, "general.alignment", value);
    gguf_writer_finish(w);
}
static void align_0(struct gguf_writer *w)
{
    align_u32(w, 0);
}
static void align_3(struct gguf_writer *w)
{
    align_u32(w, 3);
}
static void align_4(struct gguf_writer *w)
{
    align_u32(w, 4);
}
static void align_2_31(struct gguf_writer *w)
{
    align_u32(w, 1u << 31);
}
static void align_2_21(struct gguf_writer *w)
{
    align_u32(w, 1u << 21);
}
static void align_i32(struct gguf_writer *w)
{
    key_then_tail(w, "general.alignment", HALO_GGUF_I32);
    gguf_writer_u32(w, 32);
}
static void align_u64(struct gguf_writer *w)
{
    key_then_tail(w, "general.alignment", HALO_GGUF_U64);
    gguf_writer_u64(w, 32);
}

static void align_string(struct gguf_writer *w)
{
    gguf_writer_key_string(w, "general.alignment", "32");
    gguf_writer_finish(w);
}

/* shapes */

static void dims_0(struct gguf_writer *w)
{
    tensor(w, 0, NULL, HALO_TYPE_F32, 0);
}
static void dims_5(struct gguf_writer *w)
{
    tensor(w, 5, (uint64_t[]){2, 2, 2, 1, 1}, HALO_TYPE_F32, 0);
}
static void dims_2_32(struct gguf_writer *w)
{
    gguf_writer_string(w, "t.weight");
    gguf_writer_u32(w, 0xffffffff);
    gguf_writer_pad(w, 128);
    w->n_tensors++;
    gguf_writer_finish(w);
}
static void dim_zero(struct gguf_writer *w)
{
    tensor(w, 2, (uint64_t[]){4, 0}, HALO_TYPE_F32, 0);
}
static void dim_zero_first(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){0}, HALO_TYPE_Q4_0, 0);
}
static void product_2_63(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, 1ull << 31, 1ull << 30, 4, 1);
}
static void product_2_64(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, 1ull << 32, 1ull << 32, 1, 1);
}
static void product_wraps_small(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, 8, (1ull << 61) + 1, 1, 1);
}
static void product_wraps_late(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, 1 << 20, 1 << 20, 1 << 20, 1 << 20);
}
static void dim_negative(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, UINT64_MAX, 1, 1, 1);
}
static void bytes_wrap(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_F32, 1ull << 61, 2, 1, 1);
}
static void bytes_wrap_quantized(struct gguf_writer *w)
{
    shaped(w, HALO_TYPE_Q4_0, 32, (1ull << 42) + 1, 1, 1);
}
static void bytes_wrap_padding(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){(1ull << 62) - 1}, HALO_TYPE_F32, 0);
}

static void sum_wraps(struct gguf_writer *w, uint64_t d0, uint64_t second)
{
    gguf_writer_tensor(w, "a", 1, &d0, HALO_TYPE_F16, 0);
    gguf_writer_tensor(w, "b", 1, &d0, HALO_TYPE_F16, second);
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 16; i++)
        gguf_writer_u64(w, 0);
}
static void two_of_2_63(struct gguf_writer *w)
{
    sum_wraps(w, 1ull << 62, 1ull << 63);
}
static void sum_2_64_less(struct gguf_writer *w)
{
    sum_wraps(w, (1ull << 62) - 16, (1ull << 63) - 32);
}

static void rows_do_not_divide(struct gguf_writer *w)
{
    tensor(w, 2, (uint64_t[]){48, 2}, HALO_TYPE_Q4_0, 0);
}
static void rows_do_not_divide_k(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){384}, HALO_TYPE_Q4_K, 0);
}
static void type_removed(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){32}, 4, 0);
}
static void type_activation(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){32}, 9, 0);
}
static void type_unknown(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){32}, 0xffffffff, 0);
}

/* names and places of tensors */

static void named(struct gguf_writer *w, const char *name)
{
    gguf_writer_tensor(w, name, 1, (uint64_t[]){8}, HALO_TYPE_F32, 0);
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 4; i++)
        gguf_writer_u64(w, 0);
}
static void name_empty(struct gguf_writer *w)
{
    named(w, "");
}
static void name_64(struct gguf_writer *w)
{
    named(w, "0123456789012345678901234567890123456789012345678901234567890123");
}
static void name_control(struct gguf_writer *w)
{
    named(w, "a\x7f"
             "b");
}

static void name_length(struct gguf_writer *w, uint64_t n)
{
    named(w, "t.weight");
    gguf_writer_put_u64(w, 24, n);
}
static void name_2_64(struct gguf_writer *w)
{
    name_length(w, UINT64_MAX);
}

static void two_at(struct gguf_writer *w, const char *first, const char *second, uint64_t at_first, uint64_t at_second)
{
    gguf_writer_tensor(w, first, 1, (uint64_t[]){16}, HALO_TYPE_F32, at_first);
    gguf_writer_tensor(w, second, 1, (uint64_t[]){16}, HALO_TYPE_F32, at_second);
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 16; i++)
        gguf_writer_u64(w, 0);
}
static void name_twice(struct gguf_writer *w)
{
    two_at(w, "same", "same", 0, 64);
}
static void overlap(struct gguf_writer *w)
{
    two_at(w, "a", "b", 0, 32);
}
static void overlap_same_place(struct gguf_writer *w)
{
    two_at(w, "a", "b", 64, 64);
}
static void overlap_out_of_order(struct gguf_writer *w)
{
    two_at(w, "a", "b", 32, 0);
}

static void offset_odd(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){2}, HALO_TYPE_F32, 16);
}
static void offset_last_byte(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){2}, HALO_TYPE_F32, 31);
}
static void offset_at_end(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){8}, HALO_TYPE_F32, 32);
}
static void offset_2_64(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){8}, HALO_TYPE_F32, UINT64_MAX - 31);
}
static void data_too_short(struct gguf_writer *w)
{
    tensor(w, 1, (uint64_t[]){9}, HALO_TYPE_F32, 0);
}

static void no_data_at_all(struct gguf_writer *w)
{
    gguf_writer_tensor(w, "t.weight", 1, (uint64_t[]){1}, HALO_TYPE_F32, 0);
    gguf_writer_finish(w); /* ends before the padding */
}

#define L HALO_FAULT_LOAD_FAILED
#define U HALO_FAULT_UNSUPPORTED
static const struct row rows[] = {
#include "gguf_malformed.def"
};

/* Files that people give the name of a model. */
static void test_foreign(void **state)
{
    static const struct {
        const char *bytes, *text;
    } foreign[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 1",
         "this is a Git LFS pointer, not the model itself: fetch it with `git lfs pull`"},
        {"\n  <!DOCTYPE HTML><html lang=en><title>Sign in</title>",
         "this is an HTML page, not a model: the download brought a web page, probably an error or a login"},
        {"<html><body>404 Not Found</body></html>",
         "this is an HTML page, not a model: the download brought a web page, probably an error or a login"},
        {"PK\003\004 an archive of something else",
         "this is a ZIP archive (a PyTorch checkpoint is one), not a GGUF file"},
        {"lmgg of another year, with more bytes",
         "this is a model in a format older than GGUF: convert it again from its source"},
        {"8 bytes:{\"__metadata__\":{\"format\":\"pt\"}}", "this is a safetensors file, not a GGUF file: convert it"},
    };
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        struct halo_gguf *gguf;
        struct halo_fault fault = {0};
        size_t n = strlen(foreign[i].bytes);
        char *bytes = malloc(n);
        assert_non_null(bytes);
        memcpy(bytes, foreign[i].bytes, n);
        assert_true(halo_gguf_open_memory(&gguf, bytes, n, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
        assert_string_equal(fault.text, foreign[i].text);
        free(bytes);
    }
}

static void test_rows(void **state)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gguf_writer w;
        struct halo_gguf *gguf = (struct halo_gguf *)&w;
        struct halo_fault fault = {0};
        gguf_writer_init(&w);
        rows[i].build(&w);
        /* An exact block, so that AddressSanitizer sees any read past the end. */
        uint8_t *bytes = malloc(w.n ? w.n : 1);
        assert_non_null(bytes);
        memcpy(bytes, w.bytes, w.n);
        int r = halo_gguf_open_memory(&gguf, bytes, w.n, &fault);
        if (r >= 0 || gguf || fault.code != rows[i].code || strcmp(fault.text, rows[i].text) != 0) {
            print_error("%s: %d %s\n  text   \"%s\"\n  wanted \"%s\"\n", rows[i].id, r, halo_fault_name(fault.code),
                        fault.text, rows[i].text);
            wrong++;
        }
        halo_gguf_close(r == 0 ? gguf : NULL);
        free(bytes);
        gguf_writer_free(&w);
    }
    assert_int_equal(wrong, 0);
    assert_true(sizeof(rows) / sizeof(rows[0]) >= 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_foreign)};
    return cmocka_run_group_tests_name("gguf malformed", tests, NULL, NULL);
}
