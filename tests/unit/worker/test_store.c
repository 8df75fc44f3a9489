/* test_store.c: the folder of blobs: what is kept and dropped, what is damaged, who may use it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip_tls/tls.h>

#include "store_priv.h"

#define N 1000 /* bytes of a blob */
#define LIMIT (10 * N)

struct blob {
    uint8_t bytes[N], sha256[HALO_BLOB_HASH_BYTES];
};

static char dir[64], path[128];
static struct halo_blob_store store;

static struct blob blob_of(int i)
{
    struct blob ret;
    memset(ret.bytes, i, sizeof(ret.bytes));
    assert_true(halo_remote_tls.sha256(ret.bytes, sizeof(ret.bytes), ret.sha256));
    return ret;
}

static void put(int i)
{
    struct blob b = blob_of(i);
    assert_int_equal(halo_blob_store_put(&store, b.sha256, b.bytes, N), 0);
}

/* What get() says; the bytes are right. */
static int get(int i)
{
    uint8_t got[N];
    struct blob b = blob_of(i);
    int r = halo_blob_store_get(&store, b.sha256, got, N);
    if (r == 0)
        assert_memory_equal(got, b.bytes, N);
    return r;
}

static void file_of(int i, char ret[static 256])
{
    struct blob b = blob_of(i);
    int n = snprintf(ret, 256, "%s/", path);
    for (int k = 0; k < HALO_BLOB_HASH_BYTES; k++)
        n += snprintf(ret + n, 3, "%02x", b.sha256[k]);
}

/* As if it had last been used so many hours ago. */
static void age(int i, int hours)
{
    char file[256];
    const struct timespec times[2] = {{.tv_sec = time(NULL) - hours * 3600}, {.tv_sec = time(NULL) - hours * 3600}};
    file_of(i, file);
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
}

static int open_store(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/hip-worker-blobs-XXXXXX");
    if (!mkdtemp(dir) || halo_blob_folder_make(dir, "user", path, sizeof(path), NULL) < 0)
        return -1;
    return halo_blob_store_open(&store, path, LIMIT, NULL);
}

static int close_store(void **state)
{
    char command[128];
    (void)state;
    halo_blob_store_close(&store);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static void what_is_put_is_found_again(void **state)
{
    struct blob b = blob_of(1);
    (void)state;
    assert_int_equal(get(1), -ENOENT);
    assert_false(halo_blob_store_has(&store, b.sha256, N));
    put(1);
    put(1);
    assert_int_equal(store.added_bytes, N);
    assert_true(halo_blob_store_has(&store, b.sha256, N));
    assert_false(halo_blob_store_has(&store, b.sha256, N - 1));
    halo_blob_store_close(&store);
    assert_int_equal(halo_blob_store_open(&store, path, LIMIT, NULL), 0); /* the next session */
    assert_int_equal(get(1), 0);
    assert_int_equal(get(2), -ENOENT);
}

static void files_are_for_this_user_alone(void **state)
{
    struct stat facts;
    char file[256];
    (void)state;
    put(1);
    file_of(1, file);
    assert_int_equal(stat(file, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
}

/* ---- the limit ---- */

static void the_blobs_that_were_not_used_for_longest_go(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        put(i);
        age(i, 20 - i);
    }
    assert_int_equal(get(0), 0); /* the oldest, but it is in use */
    put(10);                     /* room is made for more than this one */
    assert_int_equal(get(1), -ENOENT);
    assert_int_equal(get(2), -ENOENT);
    assert_int_equal(get(0), 0);
    for (int i = 3; i <= 10; i++)
        assert_int_equal(get(i), 0);
}

static void a_use_is_noted_at_most_once_an_hour(void **state)
{
    char file[256];
    struct stat before, after;
    (void)state;
    put(1);
    file_of(1, file);
    age(1, 0);
    assert_int_equal(stat(file, &before), 0);
    assert_int_equal(get(1), 0);
    assert_int_equal(stat(file, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
}

/* Two sessions have one limit, whoever of them adds. */
static void the_limit_is_that_of_all_sessions(void **state)
{
    struct halo_blob_store other;
    (void)state;
    assert_int_equal(halo_blob_store_open(&other, path, LIMIT, NULL), 0);
    for (int i = 0; i < 16; i++) {
        struct blob b = blob_of(i);
        assert_int_equal(halo_blob_store_put(i & 1 ? &other : &store, b.sha256, b.bytes, N), 0);
        age(i, 30 - i);
    }
    int n = 0;
    for (int i = 0; i < 16; i++) {
        struct blob b = blob_of(i);
        n += halo_blob_store_has(&store, b.sha256, N);
    }
    assert_in_range(n, 8, 10);
    halo_blob_store_close(&other);
}

static void what_is_larger_than_the_limit_is_not_kept(void **state)
{
    static uint8_t large[LIMIT + 1];
    uint8_t sha256[HALO_BLOB_HASH_BYTES];
    (void)state;
    put(1);
    assert_true(halo_remote_tls.sha256(large, sizeof(large), sha256));
    assert_int_equal(halo_blob_store_put(&store, sha256, large, sizeof(large)), -EFBIG);
    assert_false(halo_blob_store_has(&store, sha256, sizeof(large)));
    assert_int_equal(get(1), 0);
}

/* ---- damage ---- */

static void a_damaged_blob_is_dropped(void **state)
{
    char file[256];
    (void)state;
    put(1);
    put(2);
    file_of(1, file);
    int fd = open(file, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, N / 2), 1);
    close(fd);
    assert_int_equal(get(1), -EBADMSG);
    assert_int_equal(get(1), -ENOENT);
    put(1);
    assert_int_equal(get(1), 0);
    file_of(2, file); /* what a crash leaves: the name without all of the bytes */
    assert_int_equal(truncate(file, N - 1), 0);
    assert_int_equal(get(2), -EBADMSG);
    assert_int_equal(access(file, F_OK), -1);
}

/* A file of another content under the name of a hash is no way in. */
static void a_link_is_not_followed(void **state)
{
    char file[256], elsewhere[128];
    (void)state;
    put(1);
    file_of(1, file);
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
    assert_int_equal(rename(file, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, file), 0);
    assert_true(get(1) < 0);
}

static void a_number_that_is_lost_is_counted_anew(void **state)
{
    char usage[160], left[160];
    (void)state;
    for (int i = 0; i < 9; i++) {
        put(i);
        age(i, 20 - i);
    }
    snprintf(usage, sizeof(usage), "%s/usage", path);
    snprintf(left, sizeof(left), "%s/.new-1", path); /* of a session that was killed */
    assert_int_equal(truncate(usage, 0), 0);
    close(open(left, O_CREAT | O_WRONLY, 0600));
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, left, long_ago, 0), 0);
    put(9);
    put(10); /* one too many */
    assert_int_equal(get(0), -ENOENT);
    assert_int_equal(get(10), 0);
    assert_int_equal(access(left, F_OK), -1);
}

static void a_stopped_session_does_not_stop_others(void **state)
{
    char usage[160];
    struct blob b = blob_of(1);
    (void)state;
    snprintf(usage, sizeof(usage), "%s/usage", path);
    int fd = open(usage, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(halo_blob_store_put(&store, b.sha256, b.bytes, N), -EAGAIN);
    assert_false(halo_blob_store_has(&store, b.sha256, N));
    close(fd);
    put(1);
}

/* ---- the folder ---- */

static void a_folder_that_others_may_use_is_refused(void **state)
{
    struct halo_fault fault = {0};
    char got[128];
    (void)state;
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(halo_blob_folder_make(dir, "user", got, sizeof(got), &fault), -EPERM);
    assert_non_null(strstr(fault.text, "chmod 700"));
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(chmod(path, 0701), 0);
    assert_int_equal(halo_blob_folder_make(dir, "user", got, sizeof(got), &fault), -EPERM);
}

static void keys_have_folders_of_their_own(void **state)
{
    struct halo_blob_store other;
    struct blob b = blob_of(1);
    uint8_t got[N];
    char of_key[128];
    (void)state;
    put(1);
    assert_int_equal(halo_blob_folder_make(dir, "another", of_key, sizeof(of_key), NULL), 0);
    assert_int_equal(halo_blob_store_open(&other, of_key, LIMIT, NULL), 0);
    assert_int_equal(halo_blob_store_get(&other, b.sha256, got, N), -ENOENT);
    halo_blob_store_close(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_is_found_again),
        TEST(files_are_for_this_user_alone),
        TEST(the_blobs_that_were_not_used_for_longest_go),
        TEST(a_use_is_noted_at_most_once_an_hour),
        TEST(the_limit_is_that_of_all_sessions),
        TEST(what_is_larger_than_the_limit_is_not_kept),
        TEST(a_damaged_blob_is_dropped),
        TEST(a_link_is_not_followed),
        TEST(a_number_that_is_lost_is_counted_anew),
        TEST(a_stopped_session_does_not_stop_others),
        TEST(a_folder_that_others_may_use_is_refused),
        TEST(keys_have_folders_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
