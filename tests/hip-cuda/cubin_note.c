/* cubin_note.c: adds AMD's metadata of the kernels to an NVIDIA image, so that what reads code objects can read it:
 * hip-worker and the client of remote HIP.
 *
 *   cubin-note CUBIN TARGET COPY
 *
 * CUBIN is an ELF file for compute capability 7 to 9: each kernel has a section .nv.constant0.NAME, the constant bank
 * of its launches, in which the arguments follow 0x210 bytes of the driver's. COPY has the same bytes, then the note,
 * and a list of sections with one more. objcopy renumbers symbols that NVIDIA's own sections name by number.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_build.h"

#define KERNELS_MAX 4096
#define NOTE_BYTES ((size_t)1 << 20)
#define CUBIN_BYTES ((size_t)256 << 20)
#define DRIVER_BYTES 0x210u
static const char bank[] = ".nv.constant0.", note_name[] = ".note.AMDGPU";

struct cubin {
    uint8_t *bytes;
    size_t n;
    Elf64_Ehdr head;
    Elf64_Shdr names;
};

static struct code_build_kernel kernels[KERNELS_MAX];
static struct code_build_arg args[KERNELS_MAX];

static Elf64_Shdr section_at(const struct cubin *c, uint32_t i)
{
    Elf64_Shdr section;
    memcpy(&section, c->bytes + c->head.e_shoff + i * sizeof(section), sizeof(section));
    return section;
}

static bool read_cubin(struct cubin *c, const char *path)
{
    FILE *in = fopen(path, "rb");
    c->bytes = malloc(CUBIN_BYTES);
    if (!in || !c->bytes)
        return false;
    c->n = fread(c->bytes, 1, CUBIN_BYTES, in);
    fclose(in);
    if (c->n < sizeof(c->head))
        return false;
    memcpy(&c->head, c->bytes, sizeof(c->head));
    const Elf64_Ehdr *h = &c->head;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff > c->n ||
        h->e_shnum > (c->n - h->e_shoff) / sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum)
        return false;
    c->names = section_at(c, h->e_shstrndx);
    return c->names.sh_size > 0 && c->names.sh_offset < c->n && c->names.sh_size <= c->n - c->names.sh_offset &&
           c->bytes[c->names.sh_offset + c->names.sh_size - 1] == 0;
}

static bool find_kernels(const struct cubin *c, struct code_build *ret)
{
    for (uint32_t i = 0; i < c->head.e_shnum; i++) {
        Elf64_Shdr section = section_at(c, i);
        if (section.sh_name >= c->names.sh_size)
            return false;
        const char *name = (const char *)c->bytes + c->names.sh_offset + section.sh_name;
        if (strncmp(name, bank, strlen(bank)) != 0)
            continue;
        if (ret->n_kernels == KERNELS_MAX || section.sh_size < DRIVER_BYTES)
            return false;
        uint32_t k = ret->n_kernels++, n_bytes = (uint32_t)section.sh_size - DRIVER_BYTES;
        args[k] = (struct code_build_arg){0, n_bytes, "by_value"};
        kernels[k] = (struct code_build_kernel){
            .name = name + strlen(bank), .args = &args[k], .n_args = 1, .segment_bytes = n_bytes};
    }
    return ret->n_kernels > 0;
}

/* The names with one more, the note and the list of sections follow what there is. */
static bool write_copy(struct cubin *c, const uint8_t *note, size_t note_bytes, const char *path)
{
    FILE *out = fopen(path, "wb");
    static const uint8_t zeros[8];
    size_t padding = (8 - c->n % 8) % 8, names_at = c->n + padding, names_bytes = c->names.sh_size + sizeof(note_name);
    size_t names_padding = (8 - names_bytes % 8) % 8, note_at = names_at + names_bytes + names_padding;
    size_t list_padding = (8 - note_bytes % 8) % 8;
    Elf64_Ehdr head = c->head;
    head.e_shoff = note_at + note_bytes + list_padding;
    head.e_shnum++;
    bool ok = out && fwrite(&head, sizeof(head), 1, out) == 1 &&
              fwrite(c->bytes + sizeof(head), c->n - sizeof(head), 1, out) == 1 &&
              fwrite(zeros, 1, padding, out) == padding &&
              fwrite(c->bytes + c->names.sh_offset, c->names.sh_size, 1, out) == 1 &&
              fwrite(note_name, sizeof(note_name), 1, out) == 1 &&
              fwrite(zeros, 1, names_padding, out) == names_padding && fwrite(note, note_bytes, 1, out) == 1 &&
              fwrite(zeros, 1, list_padding, out) == list_padding;
    for (uint32_t i = 0; ok && i < c->head.e_shnum; i++) {
        Elf64_Shdr section = section_at(c, i);
        if (i == c->head.e_shstrndx) {
            section.sh_offset = names_at;
            section.sh_size = names_bytes;
        }
        ok = fwrite(&section, sizeof(section), 1, out) == 1;
    }
    Elf64_Shdr section = {.sh_name = (Elf64_Word)c->names.sh_size,
                          .sh_type = SHT_NOTE,
                          .sh_offset = note_at,
                          .sh_size = note_bytes,
                          .sh_addralign = 4};
    ok = ok && fwrite(&section, sizeof(section), 1, out) == 1;
    return out && fclose(out) == 0 && ok;
}

int main(int argc, char **argv)
{
    struct cubin cubin = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: cubin-note CUBIN TARGET COPY\n");
        return 2;
    }
    struct code_build code = {.target = argv[2], .kernels = kernels};
    if (!read_cubin(&cubin, argv[1]) || !find_kernels(&cubin, &code)) {
        fprintf(stderr, "cubin-note: %s is not a cubin with the constant banks of kernels\n", argv[1]);
        return 1;
    }
    uint8_t *note = malloc(NOTE_BYTES);
    if (!note || !write_copy(&cubin, note, code_build_note(note, NOTE_BYTES, &code), argv[3])) {
        perror(argv[3]);
        return 1;
    }
    free(note);
    free(cubin.bytes);
    return 0;
}
