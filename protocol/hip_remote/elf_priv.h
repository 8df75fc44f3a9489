/* elf_priv.h: the tables of an ELF file, checked, and the note with AMD's metadata. Pure. */
#ifndef HALO_HIP_REMOTE_ELF_PRIV_H
#define HALO_HIP_REMOTE_ELF_PRIV_H

#include <stddef.h>

#include <hip_remote/message.h>

/* Checks that the tables of segments and sections, and what they point to, lie in the image, and that the table of
 * sections ends it or comes before its end. 0 and the metadata, or -ENOEXEC, -EBADMSG without metadata. */
int halo_elf_metadata(const void *image, size_t n, struct halo_remote_bytes *ret, const char **ret_reason);

#endif
