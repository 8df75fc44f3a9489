/* build_id.c: which build of the kernels this is, by the linker's note in the program or library that holds them.
 *
 * Source of the format: System V ABI, note sections; binutils' ld, --build-id. Any thread.
 */
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device_priv.h"

#define PADDED(n) (((size_t)(n) + 3) & ~(size_t)3)

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *at = &info->dlpi_phdr[i];
        if (at->p_type == PT_LOAD && address - (info->dlpi_addr + at->p_vaddr) < at->p_memsz)
            return true;
    }
    return false;
}

static bool take_note(const char *at, const char *end, char *ret)
{
    ElfW(Nhdr) note;
    for (; (size_t)(end - at) >= sizeof(note); at += PADDED(note.n_namesz) + PADDED(note.n_descsz)) {
        memcpy(&note, at, sizeof(note));
        at += sizeof(note);
        if (PADDED(note.n_namesz) + PADDED(note.n_descsz) > (size_t)(end - at))
            return false;
        const unsigned char *id = (const unsigned char *)at + PADDED(note.n_namesz);
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(at, "GNU", 4) != 0 || note.n_descsz == 0)
            continue;
        for (size_t i = 0; i < note.n_descsz && i < HALO_CPU_BUILD_ID / 2; i++)
            snprintf(ret + 2 * i, 3, "%02x", id[i]);
        return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *ret)
{
    (void)size;
    if (!holds(info, (uintptr_t)look))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *at = &info->dlpi_phdr[i];
        const char *notes = (const char *)(info->dlpi_addr + at->p_vaddr);
        if (at->p_type == PT_NOTE && take_note(notes, notes + at->p_memsz, ret))
            return 1;
    }
    return -1;
}

void halo_cpu_build_id(char ret[HALO_CPU_BUILD_ID + 1])
{
    struct timespec now;
    if (dl_iterate_phdr(look, ret) == 1)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(ret, HALO_CPU_BUILD_ID + 1, "process %ld of %lld.%09ld", (long)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
}
