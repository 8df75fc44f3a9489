/* test_hash.c: the digests against the vectors of RFC 1321 and FIPS 180-4, in memory and from a file. */
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

#include <base/hash.h>

static void test_md5(void **state)
{
    char hex[HALO_MD5_HEX];
    halo_md5_hex("", 0, hex);
    assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
    halo_md5_hex("message digest", 14, hex);
    assert_string_equal(hex, "f96b697d7cb7938d525a2f31aaf161d0");
    halo_md5_hex("a\0b", 3, hex);
    assert_string_equal(hex, "70350f6027bce3713f6b76473084309b");
}

static void test_sha256(void **state)
{
    char hex[HALO_SHA256_HEX];
    halo_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    halo_sha256_hex(two_blocks, sizeof two_blocks - 1, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* A million times 'a', from FIPS 180; longer than the read buffer. */
static void test_sha256_file(void **state)
{
    char path[] = "/tmp/halo-hash-XXXXXX", hex[HALO_SHA256_HEX];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static char block[100000];
    memset(block, 'a', sizeof block);
    for (int i = 0; i < 10; i++)
        assert_int_equal(write(fd, block, sizeof block), sizeof block);
    close(fd);
    assert_int_equal(halo_sha256_file_hex(path, hex), 0);
    unlink(path);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_int_equal(halo_sha256_file_hex(path, hex), -ENOENT);
    assert_int_equal(halo_sha256_file_hex("/", hex), -EISDIR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_md5),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_sha256_file),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
