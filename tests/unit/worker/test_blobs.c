/* test_blobs.c: sessions that keep what their clients upload: who gets it, and when it must be sent. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_tls/tls.h>

#include "bench.h"
#include "store_priv.h"

#define N 5000
#define BLOB(i) bench_handle(HALO_REMOTE_BLOB, i, 1)
#define MODULE(i) bench_handle(HALO_REMOTE_MODULE, i, 1)

static char dir[64];
static uint8_t bytes[N], sha256[HALO_REMOTE_SHA256_BYTES];

struct session {
    struct halo_blob_store store;
    struct bench b;
    uint64_t at; /* an allocation of N bytes */
};

static void open_session(struct session *s, const char *key)
{
    char path[128];
    struct halo_remote_malloc_reply a;
    assert_int_equal(halo_blob_folder_make(dir, key, path, sizeof(path), NULL), 0);
    assert_int_equal(halo_blob_store_open(&s->store, path, 1u << 20, NULL), 0);
    assert_int_equal(bench_open_with_blobs(&s->b, NULL, &s->store, HALO_REMOTE_FEATURE_BLOBS | 1u << 9),
                     HALO_REMOTE_FEATURE_BLOBS);
    assert_int_equal(halo_remote_malloc(&s->b.port, &(struct halo_remote_malloc){.size = N}, &a), 0);
    s->at = a.address;
}

static void close_session(struct session *s)
{
    const struct halo_remote_device_synchronize wait = {};
    assert_int_equal(halo_remote_device_synchronize(&s->b.port, &wait, NULL), 0); /* copies may be in flight */
    bench_close(&s->b);
    halo_blob_store_close(&s->store);
}

/* Whether the worker had them. */
static bool copy_by_hash(struct session *s)
{
    struct halo_remote_memcpy_from_blob q = {.to = s->at, .size = N};
    struct halo_remote_memcpy_from_blob_reply a;
    memcpy(q.sha256, sha256, sizeof(sha256));
    assert_int_equal(halo_remote_memcpy_from_blob(&s->b.port, &q, &a), 0);
    return a.was_kept;
}

static int copy_with_hash(struct session *s, const uint8_t *data, bool *ret_was_kept)
{
    struct halo_remote_memcpy_to_blob q = {.to = s->at, .data = {data, N}};
    struct halo_remote_memcpy_to_blob_reply a = {0};
    memcpy(q.sha256, sha256, sizeof(sha256));
    int error = halo_remote_memcpy_to_blob(&s->b.port, &q, &a);
    *ret_was_kept = a.was_kept;
    return error;
}

/* Zeros, so that what a copy writes is seen. */
static void clear(struct session *s)
{
    const struct halo_remote_memset q = {.to = s->at, .value = 0, .width = 1, .count = N};
    assert_int_equal(halo_remote_memset(&s->b.port, &q, NULL), 0);
}

static bool device_has(struct session *s, const uint8_t *wanted)
{
    const struct halo_remote_memcpy q = {.from = s->at, .size = N, .kind = 2};
    struct halo_remote_memcpy_reply a;
    assert_int_equal(halo_remote_memcpy(&s->b.port, &q, &a), 0);
    return memcmp(a.data.at, wanted, N) == 0;
}

static const uint8_t zeros[N];

static int make_folder(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/hip-worker-blobs-XXXXXX");
    for (int i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    return mkdtemp(dir) && halo_remote_tls.sha256(bytes, N, sha256) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static void the_next_session_copies_by_the_hash_alone(void **state)
{
    struct session s;
    bool was_kept;
    (void)state;
    open_session(&s, "a");
    clear(&s);
    assert_false(copy_by_hash(&s));
    assert_true(device_has(&s, zeros));
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    assert_false(was_kept);
    assert_true(device_has(&s, bytes));
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    assert_true(was_kept);
    close_session(&s);
    open_session(&s, "a");
    clear(&s);
    assert_true(copy_by_hash(&s));
    assert_true(device_has(&s, bytes));
    close_session(&s);
}

static void a_hash_is_no_way_to_the_bytes_of_another_key(void **state)
{
    struct session s;
    bool was_kept;
    (void)state;
    open_session(&s, "a");
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    close_session(&s);
    open_session(&s, "b");
    clear(&s);
    assert_false(copy_by_hash(&s));
    assert_true(device_has(&s, zeros));
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    assert_false(was_kept); /* nor does it tell whether they are there */
    close_session(&s);
}

/* What is kept under a hash has this hash, whatever the client says. */
static void a_forged_hash_is_refused(void **state)
{
    struct session s;
    uint8_t other[N];
    bool was_kept;
    (void)state;
    memcpy(other, bytes, N);
    other[N - 1] ^= 1;
    open_session(&s, "a");
    clear(&s);
    assert_int_equal(copy_with_hash(&s, other, &was_kept), 1);
    assert_true(device_has(&s, zeros));
    assert_false(copy_by_hash(&s));
    close_session(&s);
}

static void damaged_bytes_never_reach_the_device(void **state)
{
    struct session s;
    bool was_kept;
    char command[160];
    (void)state;
    open_session(&s, "a");
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    clear(&s);
    snprintf(command, sizeof(command), "printf x | dd of=$(ls %s/a/????????????????????*) conv=notrunc 2>/dev/null",
             dir);
    assert_int_equal(system(command), 0);
    assert_false(copy_by_hash(&s));
    assert_true(device_has(&s, zeros));
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    assert_false(was_kept);
    assert_true(copy_by_hash(&s));
    assert_true(device_has(&s, bytes));
    close_session(&s);
}

static void a_copy_stays_within_the_memory_of_its_session(void **state)
{
    struct session s;
    bool was_kept;
    (void)state;
    open_session(&s, "a");
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    struct halo_remote_memcpy_from_blob down = {.to = s.at + 1, .size = N};
    struct halo_remote_memcpy_to_blob up = {.to = s.at + 1, .data = {bytes, N}};
    memcpy(down.sha256, sha256, sizeof(sha256));
    memcpy(up.sha256, sha256, sizeof(sha256));
    assert_int_equal(halo_remote_memcpy_from_blob(&s.b.port, &down, NULL), 1);
    assert_int_equal(halo_remote_memcpy_to_blob(&s.b.port, &up, NULL), 1);
    down.to = up.to = s.at;
    down.stream = up.stream = bench_handle(HALO_REMOTE_STREAM, 3, 1);
    assert_int_equal(halo_remote_memcpy_from_blob(&s.b.port, &down, NULL), 400);
    assert_int_equal(halo_remote_memcpy_to_blob(&s.b.port, &up, NULL), 400);
    down.stream = 0;
    down.size = N - 1; /* a hash of more bytes */
    struct halo_remote_memcpy_from_blob_reply a;
    assert_int_equal(halo_remote_memcpy_from_blob(&s.b.port, &down, &a), 0);
    assert_int_equal(a.was_kept, 0);
    close_session(&s);
}

/* More copies than are hashed at once, then a fill: none of them is late. */
static void what_follows_a_copy_by_hash_waits_for_it(void **state)
{
    enum { N_COPIES = 20 };
    struct session s;
    bool was_kept;
    uint32_t ids[N_COPIES];
    (void)state;
    open_session(&s, "a");
    assert_int_equal(copy_with_hash(&s, bytes, &was_kept), 0);
    struct halo_remote_memcpy_from_blob q = {.to = s.at, .size = N};
    const struct halo_remote_memset to_zeros = {.to = s.at, .value = 0, .width = 1, .count = N};
    s.b.n_inbox = 0;
    for (int i = 0; i < N_COPIES; i++) {
        memcpy(q.sha256, sha256, sizeof(sha256));
        q.sha256[0] ^= (uint8_t)(i % 3 == 1); /* one that is not there */
        ids[i] = bench_send(&s.b, HIP_OP_MEMCPY_FROM_BLOB, &q);
        assert_int_equal(s.b.error, 0);
    }
    uint32_t last = bench_send(&s.b, HIP_OP_MEMSET, &to_zeros);
    bench_receive(&s.b, last, HIP_OP_MEMSET, NULL);
    for (size_t at = 0, i = 0; i < N_COPIES; i++) { /* the answers come in their order */
        struct halo_remote_header h;
        union halo_remote_reply a;
        assert_int_equal(halo_remote_header_decode(s.b.inbox + at, &h), 0);
        at += HALO_REMOTE_HEADER_BYTES + h.payload_bytes;
        assert_int_equal(h.id, ids[i]);
        assert_int_equal(halo_remote_reply_decode(&h, s.b.inbox + at - h.payload_bytes, &a, NULL), 0);
        assert_int_equal(a.status.error, 0);
        assert_int_equal(a.memcpy_from_blob.was_kept, i % 3 != 1);
    }
    assert_true(device_has(&s, zeros));
    close_session(&s);
}

/* Of a client that does not wait for the answer to the copy that stores the bytes. */
static void a_copy_by_hash_finds_what_was_just_sent(void **state)
{
    struct session s;
    struct halo_remote_memcpy_to_blob up = {.data = {bytes, N}};
    (void)state;
    open_session(&s, "a");
    up.to = s.at;
    memcpy(up.sha256, sha256, sizeof(sha256));
    s.b.no_reply = true;
    assert_int_equal(halo_remote_memcpy_to_blob(&s.b.port, &up, NULL), 0);
    assert_true(copy_by_hash(&s));
    s.b.no_reply = false;
    close_session(&s);
}

static void code_is_kept_as_well(void **state)
{
    struct session s;
    struct halo_remote_blob_open open = {.blob = BLOB(0)};
    struct halo_remote_blob_open_reply a;
    size_t n;
    uint8_t *image = bench_read_object(&n);
    (void)state;
    open.size = n;
    assert_true(halo_remote_tls.sha256(image, n, open.sha256));
    for (int is_second = 0; is_second < 2; is_second++) {
        open_session(&s, "a");
        assert_int_equal(halo_remote_blob_open(&s.b.port, &open, &a), 0);
        assert_int_equal(a.is_complete, is_second);
        if (!is_second)
            assert_int_equal(halo_remote_blob_write(
                                 &s.b.port, &(struct halo_remote_blob_write){BLOB(0), 0, {image, (uint32_t)n}}, NULL),
                             0);
        const struct halo_remote_module_load_data load = {.module = MODULE(0), .blob = BLOB(0)};
        assert_int_equal(halo_remote_module_load_data(&s.b.port, &load, NULL), 0);
        close_session(&s);
    }
    free(image);
}

static void without_a_store_there_is_no_such_copy(void **state)
{
    struct bench b;
    const struct halo_remote_memcpy_from_blob down = {.to = 4096, .size = N};
    const struct halo_remote_memcpy_to_blob up = {.to = 4096, .data = {bytes, N}};
    (void)state;
    assert_int_equal(bench_open_with_blobs(&b, NULL, NULL, HALO_REMOTE_FEATURE_BLOBS), 0);
    assert_int_equal(halo_remote_memcpy_from_blob(&b.port, &down, NULL), 801);
    assert_int_equal(halo_remote_memcpy_to_blob(&b.port, &up, NULL), 801);
    bench_close(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_session_copies_by_the_hash_alone),
        TEST(a_hash_is_no_way_to_the_bytes_of_another_key),
        TEST(a_forged_hash_is_refused),
        TEST(damaged_bytes_never_reach_the_device),
        TEST(a_copy_stays_within_the_memory_of_its_session),
        TEST(what_follows_a_copy_by_hash_waits_for_it),
        TEST(a_copy_by_hash_finds_what_was_just_sent),
        TEST(code_is_kept_as_well),
        TEST(without_a_store_there_is_no_such_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
