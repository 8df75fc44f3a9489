/* test_gguf_limits.c: what a file can cost: memory by what was read and not by what was declared, time linear in the
 * number of tensors whatever they are called, every cut of a good file refused, every allocation allowed to fail. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fail_alloc.h"
#include "gguf_writer.h"

/* A small model with a bit of everything. */
static void write_good(struct gguf_writer *w)
{
    char name[32];
    gguf_writer_init(w);
    gguf_writer_key_string(w, "general.architecture", "qwen3");
    gguf_writer_key_u32(w, "qwen3.block_count", 2);
    gguf_writer_key_f32(w, "qwen3.rope.freq_base", 10000);
    gguf_writer_key_bool(w, "tokenizer.ggml.add_bos_token", false);
    gguf_writer_key_array(w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 300);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "token%d", i);
        gguf_writer_string(w, name);
    }
    gguf_writer_key_array(w, "tokenizer.ggml.token_type", HALO_GGUF_I32, 300);
    for (uint32_t i = 0; i < 300; i++)
        gguf_writer_u32(w, 1);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "blk.%u.weight", i);
        /* not in order of place, so that the sorting path is taken */
        gguf_writer_tensor(w, name, 2, (uint64_t[]){32, 2}, HALO_TYPE_Q8_0, 96 * (39 - i));
    }
    gguf_writer_finish(w);
    gguf_writer_pad(w, 32);
    for (int i = 0; i < 40 * 96 / 8; i++)
        gguf_writer_u64(w, 0);
}

static void file_write(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

/* llama.cpp#6774, CVE-2024-12055: cut anywhere, by memory and by file. */
static void test_every_cut(void **state)
{
    struct gguf_writer w;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    char path[] = "/tmp/halo-cut-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_good(&w);
    file_write(path, w.bytes, w.n);
    assert_int_equal(halo_gguf_open(&gguf, path, &fault), 0);
    assert_int_equal(halo_gguf_n_tensors(gguf), 40);
    halo_gguf_close(gguf);
    for (size_t n = w.n - 28; n-- > 0;) { /* the last tensor's 28 bytes of padding may be missing */
        uint8_t *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, w.bytes, n);
        fault = (struct halo_fault){0};
        assert_true(halo_gguf_open_memory(&gguf, exact, n, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
        assert_true(strlen(fault.text) > 10);
        free(exact);
        assert_int_equal(ftruncate(fd, (off_t)n), 0);
        assert_true(halo_gguf_open(&gguf, path, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
    }
    close(fd);
    unlink(path);
    gguf_writer_free(&w);
}

/* Any one byte of the directory changed: opened or refused, never more. What this can find, AddressSanitizer shows. */
static void test_every_byte_flipped(void **state)
{
    struct gguf_writer w;
    unsigned n_refused = 0, n_opened = 0;
    write_good(&w);
    for (size_t at = 0; at < w.n - 40 * 96; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct halo_gguf *gguf;
            struct halo_fault fault = {0};
            w.bytes[at] ^= (uint8_t)(1u << bit);
            if (halo_gguf_open_memory(&gguf, w.bytes, w.n, &fault) == 0) {
                n_opened++;
                halo_gguf_close(gguf);
            } else {
                n_refused++;
                assert_true(fault.text[0]);
            }
            w.bytes[at] ^= (uint8_t)(1u << bit);
        }
    assert_true(n_refused > 1000 && n_opened > 1000); /* names and values may change, lengths may not */
    gguf_writer_free(&w);
}

static void test_nth_allocation_fails(void **state)
{
    struct gguf_writer w;
    char path[] = "/tmp/halo-alloc-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_good(&w);
    file_write(path, w.bytes, w.n);
    for (int from_file = 0; from_file < 2; from_file++) {
        uint64_t n = 0;
        int r = -1;
        bool happened = true;
        for (; happened; n++) {
            struct halo_gguf *gguf;
            struct halo_fault fault = {0};
            halo_fail_alloc_arm(n);
            r = from_file ? halo_gguf_open(&gguf, path, &fault) : halo_gguf_open_memory(&gguf, w.bytes, w.n, &fault);
            happened = halo_fail_alloc_disarm();
            if (r == 0) { /* giving memory back may fail in silence */
                halo_gguf_close(gguf);
                continue;
            }
            assert_true(happened);
            assert_int_equal(r, -ENOMEM);
            assert_null(gguf);
            assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
            assert_true(fault.text[0]);
        }
        assert_int_equal(r, 0);
        assert_true(n > 6);
    }
    unlink(path);
    gguf_writer_free(&w);
}

/* CVE-2025-0315, CVE-2025-66960: a sparse file of 64 GiB and a directory that claims most of it, in each of the ways it
 * can. */
static void claim(const char *path, void (*build)(struct gguf_writer *w), const char *wanted)
{
    struct gguf_writer w;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    gguf_writer_init(&w);
    build(&w);
    file_write(path, w.bytes, w.n);
    assert_int_equal(truncate(path, (off_t)64 << 30), 0);
    halo_fail_alloc_largest();
    assert_true(halo_gguf_open(&gguf, path, &fault) < 0);
    if (!strstr(fault.text, wanted))
        fail_msg("'%s' lacks '%s'", fault.text, wanted);
    /* Never more at once than twice what was walked through plus the first step. */
    uint64_t largest = halo_fail_alloc_largest();
    assert_true(largest <= 512 * 1024 + 2 * w.n);
    gguf_writer_free(&w);
}

static void claim_keys(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, 16, (uint64_t)1 << 32);
}
static void claim_tensors(struct gguf_writer *w)
{
    gguf_writer_put_u64(w, 8, (uint64_t)1 << 30);
}

static void claim_string(struct gguf_writer *w)
{
    gguf_writer_key(w, "general.name", HALO_GGUF_STRING);
    gguf_writer_u64(w, (uint64_t)60 << 30);
    gguf_writer_finish(w);
}

static void claim_array(struct gguf_writer *w)
{
    gguf_writer_key_array(w, "tokenizer.ggml.scores", HALO_GGUF_F32, (uint64_t)15 << 30);
    gguf_writer_finish(w);
}

static void claim_token(struct gguf_writer *w) /* CVE-2025-49847, in a file that is large enough */
{
    gguf_writer_key_array(w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 2);
    gguf_writer_u64(w, 0x80000001u);
    gguf_writer_finish(w);
}

static void test_memory_is_not_by_declaration(void **state)
{
    char path[] = "/tmp/halo-sparse-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    claim(path, claim_keys, "key 1 at byte 24: its name is empty");
    claim(path, claim_tensors, "tensor 1 at byte 24: its name is empty");
    claim(path, claim_string, "the string ends at byte 64424509496, a directory may have 1073741824 bytes");
    claim(path, claim_array, "the array ends at byte 64424509509, a directory may have 1073741824 bytes");
    claim(path, claim_token, "an element of the array ends at byte 2147483726, a directory may have 1073741824 bytes");
    unlink(path);
}

/* The whole process, not only single blocks: a directory of 8 MiB of tokens costs at most three times that. */
static void test_memory_of_a_large_vocabulary(void **state)
{
    struct gguf_writer w;
    char path[] = "/tmp/halo-vocab-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gguf_writer_init(&w);
    gguf_writer_key_array(&w, "tokenizer.ggml.tokens", HALO_GGUF_STRING, 500000);
    for (int i = 0; i < 500000; i++)
        gguf_writer_string(&w, "12345678");
    gguf_writer_finish(&w);
    file_write(path, w.bytes, w.n);
    struct halo_gguf *gguf;
    struct mallinfo2 before = mallinfo2();
    halo_fail_alloc_largest();
    assert_int_equal(halo_gguf_open(&gguf, path, NULL), 0);
    struct mallinfo2 after = mallinfo2();
    assert_true(halo_fail_alloc_largest() <= 2 * w.n);
    uint64_t kept = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    assert_true(kept <= w.n + 65536);
    halo_gguf_close(gguf);
    unlink(path);
    gguf_writer_free(&w);
}

/* Time of this thread alone: the machine may be busy with other tests. */
static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t open_time_ns(unsigned n_tensors, bool backwards)
{
    struct gguf_writer w;
    struct halo_gguf *gguf;
    struct halo_fault fault;
    char name[64];
    gguf_writer_init(&w);
    for (unsigned i = 0; i < n_tensors; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        unsigned place = backwards ? n_tensors - 1 - i : i;
        gguf_writer_tensor(&w, name, 1, (uint64_t[]){8}, HALO_TYPE_F32, (uint64_t)place * 32);
    }
    gguf_writer_finish(&w);
    gguf_writer_pad(&w, 32);
    size_t directory = w.n, n = directory + (size_t)n_tensors * 32;
    uint8_t *bytes = calloc(1, n);
    assert_non_null(bytes);
    memcpy(bytes, w.bytes, directory);
    gguf_writer_free(&w);
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 5; round++) {
        uint64_t begin = cpu_ns();
        if (halo_gguf_open_memory(&gguf, bytes, n, &fault) != 0)
            fail_msg("%s", fault.text);
        uint64_t took = cpu_ns() - begin;
        best = took < best ? took : best;
        assert_int_equal(halo_gguf_n_tensors(gguf), n_tensors);
        snprintf(name, sizeof(name), "t%u", n_tensors - 1);
        assert_ptr_equal(halo_gguf_find_tensor(gguf, name), halo_gguf_tensor(gguf, n_tensors - 1));
        halo_gguf_close(gguf);
    }
    free(bytes);
    return best;
}

static void test_million_tensors_are_linear(void **state)
{
    /* Memory that was used once stays mapped, so that the rounds after the first do not measure the kernel's page
     * faults. */
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    for (int backwards = 0; backwards < 2; backwards++) {
        bool linear = false; /* quadratic would be a ratio of 100; a busy machine gets three attempts */
        for (int attempt = 0; attempt < 3 && !linear; attempt++) {
            uint64_t few = open_time_ns(100000, backwards), many = open_time_ns(1000000, backwards);
            print_message("%s: 10^5 tensors %.1f ms, 10^6 tensors %.1f ms, ratio %.1f\n",
                          backwards ? "backwards" : "in order", (double)few / 1e6, (double)many / 1e6,
                          (double)many / (double)few);
            linear = many < 50 * few;
        }
        assert_true(linear);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_every_byte_flipped),
        cmocka_unit_test(test_nth_allocation_fails),
        cmocka_unit_test(test_memory_is_not_by_declaration),
        cmocka_unit_test(test_memory_of_a_large_vocabulary),
        cmocka_unit_test(test_million_tensors_are_linear),
    };
    return cmocka_run_group_tests_name("gguf limits", tests, NULL, NULL);
}
