/* hash.h: MD5 and SHA-256 as lower-case hex, over libmd. MD5 names prompts (gate scripts compare it with md5sum); it
 * protects nothing. Any thread. */
#ifndef HALO_BASE_HASH_H
#define HALO_BASE_HASH_H

#include <stddef.h>

#define HALO_MD5_HEX 33
#define HALO_SHA256_HEX 65

void halo_md5_hex(const void *data, size_t n, char ret_hex[HALO_MD5_HEX]);
void halo_sha256_hex(const void *data, size_t n, char ret_hex[HALO_SHA256_HEX]);
/* Whole file, streamed. Returns 0 or a negative errno. */
int halo_sha256_file_hex(const char *path, char ret_hex[HALO_SHA256_HEX]);

#endif
