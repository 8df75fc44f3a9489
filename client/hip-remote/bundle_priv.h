/* bundle_priv.h: fat binaries: finds the code object for a GPU among those that hipcc puts into a program.
 *
 * What it reads: an ELF file; a bundle of clang's ("__CLANG_OFFLOAD_BUNDLE__"); the same compressed by zlib or zstd
 * ("CCOB", versions 1 to 3). Each offset, size and count is checked against what may be read. Any thread.
 */
#ifndef HALO_HIP_REMOTE_BUNDLE_PRIV_H
#define HALO_HIP_REMOTE_BUNDLE_PRIV_H

#include <stddef.h>
#include <stdint.h>

#define HALO_BUNDLE_ENTRIES_MAX 1024u

struct halo_bundle_code {
    const uint8_t *image; /* in the bundle, or in `unpacked` */
    size_t n;
    void *unpacked; /* the caller's to free; NULL: the bundle was not compressed */
};

/* `n`: how many bytes may be read; the bundle itself may be shorter. `arch`: "gfx90a:sramecc+:xnack-", of the GPU. An
 * entry for the GPU's processor is preferred, one for its family is taken otherwise.
 * 0; -ENOENT no entry is for this GPU; -EBADMSG it is cut or wrong; -E2BIG more than the limits; -ENOTSUP a compression
 * that is not known; -ENOMEM. `ret_reason`: half a sentence, static. */
int halo_bundle_find(const void *at, size_t n, const char *arch, struct halo_bundle_code *ret, const char **ret_reason);

#endif
