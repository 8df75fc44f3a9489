/* hash.c: SHA-256 of what is uploaded: by the module that also encrypts, which is fast, or by the system's library. */
#ifndef __APPLE__
#include <sha2.h>
#endif

#include "secure_priv.h"
#include "upload_priv.h"

static bool hash_of_system(const void *at, size_t n, uint8_t ret[static HALO_REMOTE_SHA256_BYTES])
{
#ifdef __APPLE__
    /* Of the system's own library, whose header not every toolchain has. */
    extern unsigned char *CC_SHA256(const void *bytes, uint32_t n, unsigned char *ret);
    CC_SHA256(at, (uint32_t)n, ret);
#else
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, at, n);
    SHA256Final(ret, &sha);
#endif
    return true;
}

void halo_uploads_begin(struct halo_uploads *u)
{
    char reason[HALO_REMOTE_REASON_BYTES];
    const struct halo_remote_cipher *cipher = halo_remote_cipher_find(reason);
    *u = (struct halo_uploads){.are_kept = true, .sha256 = cipher ? cipher->sha256 : NULL};
}

bool halo_uploads_hash(const struct halo_uploads *u, const void *at, size_t n,
                       uint8_t ret[static HALO_REMOTE_SHA256_BYTES])
{
    return u->sha256 ? u->sha256(at, n, ret) : hash_of_system(at, n, ret);
}
