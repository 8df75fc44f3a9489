/* hash.c: MD5 and SHA-256 as hex, over libmd. Any thread. Only the file form can fail: with the errno of open or read.
 */
#include <base/hash.h>

#include <errno.h>
#include <fcntl.h>
#include <md5.h>
#include <sha2.h>
#include <stdint.h>
#include <unistd.h>

#define HASH_BUFFER_BYTES 65536

static void hex_encode(const uint8_t *digest, size_t n, char *ret_hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[2 * n] = '\0';
}

void halo_md5_hex(const void *data, size_t n, char ret_hex[HALO_MD5_HEX])
{
    uint8_t digest[MD5_DIGEST_LENGTH];
    MD5_CTX ctx;
    MD5Init(&ctx);
    MD5Update(&ctx, data, n);
    MD5Final(digest, &ctx);
    hex_encode(digest, sizeof digest, ret_hex);
}

void halo_sha256_hex(const void *data, size_t n, char ret_hex[HALO_SHA256_HEX])
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, data, n);
    SHA256Final(digest, &ctx);
    hex_encode(digest, sizeof digest, ret_hex);
}

int halo_sha256_file_hex(const char *path, char ret_hex[HALO_SHA256_HEX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    uint8_t buffer[HASH_BUFFER_BYTES], digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int r = -errno;
            close(fd);
            return r;
        }
        SHA256Update(&ctx, buffer, (size_t)n);
    }
    close(fd);
    SHA256Final(digest, &ctx);
    hex_encode(digest, sizeof digest, ret_hex);
    return 0;
}
