/* code_build.c: msgpack metadata, its note and a small ELF file. */
#include "code_build.h"

#include <assert.h>
#include <elf.h>
#include <string.h>

struct out {
    uint8_t *at;
    size_t n, cap;
};

static void put(struct out *o, const void *bytes, size_t n)
{
    assert(n <= o->cap - o->n);
    memcpy(o->at + o->n, bytes, n);
    o->n += n;
}

static void put_byte(struct out *o, unsigned value)
{
    uint8_t byte = (uint8_t)value;
    put(o, &byte, 1);
}

static void put_u32(struct out *o, uint32_t value)
{
    put_byte(o, 0xce);
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(o, value >> shift & 255);
}

static void put_text(struct out *o, const char *text)
{
    size_t n = strlen(text);
    put_byte(o, 0xda);
    put_byte(o, (unsigned)(n >> 8) & 255);
    put_byte(o, (unsigned)n & 255);
    put(o, text, n);
}

static void put_pair(struct out *o, const char *key, uint32_t value)
{
    put_text(o, key);
    put_u32(o, value);
}

static void put_count(struct out *o, unsigned kind, uint32_t n)
{
    put_byte(o, kind); /* 0xdd array, 0xdf map */
    for (int shift = 24; shift >= 0; shift -= 8)
        put_byte(o, n >> shift & 255);
}

static void put_kernel(struct out *o, const struct code_build_kernel *k)
{
    put_count(o, 0xdf, 4 + (k->args ? 1 : 0) + (k->block[0] ? 1 : 0));
    put_text(o, ".name");
    put_text(o, k->name);
    put_pair(o, ".kernarg_segment_size", k->segment_bytes);
    put_pair(o, ".max_flat_workgroup_size", k->threads_per_block);
    put_pair(o, ".group_segment_fixed_size", k->lds_bytes);
    if (k->block[0]) {
        put_text(o, ".reqd_workgroup_size");
        put_count(o, 0xdd, 3);
        for (int i = 0; i < 3; i++)
            put_u32(o, k->block[i]);
    }
    if (!k->args)
        return;
    put_text(o, ".args");
    put_count(o, 0xdd, k->n_args);
    for (uint32_t i = 0; i < k->n_args; i++) {
        put_count(o, 0xdf, 3);
        put_pair(o, ".offset", k->args[i].offset);
        put_pair(o, ".size", k->args[i].bytes);
        put_text(o, ".value_kind");
        put_text(o, k->args[i].kind);
    }
}

size_t code_build_note(uint8_t *buf, size_t cap, const struct code_build *code)
{
    struct out o = {buf, 0, cap};
    Elf64_Nhdr note = {.n_namesz = sizeof("AMDGPU"), .n_type = 32};
    put(&o, &note, sizeof(note));
    put(&o, "AMDGPU\0", 8);
    size_t begin = o.n;
    put_count(&o, 0xdf, code->target ? 2 : 1);
    put_text(&o, "amdhsa.kernels");
    put_count(&o, 0xdd, code->n_kernels);
    for (uint32_t i = 0; i < code->n_kernels; i++)
        put_kernel(&o, &code->kernels[i]);
    if (code->target) {
        put_text(&o, "amdhsa.target");
        put_text(&o, code->target);
    }
    note.n_descsz = (uint32_t)(o.n - begin);
    memcpy(buf, &note, sizeof(note));
    while (o.n % 8)
        put_byte(&o, 0);
    return o.n;
}

size_t code_build_object(uint8_t *buf, size_t cap, const struct code_build *code)
{
    const size_t head = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
    assert(cap > head + 2 * sizeof(Elf64_Shdr));
    size_t n = code_build_note(buf + head, cap - head - 2 * sizeof(Elf64_Shdr), code);
    const Elf64_Ehdr elf = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 64},
        .e_type = ET_DYN,
        .e_machine = EM_AMDGPU,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(elf),
        .e_shoff = head + n,
        .e_ehsize = sizeof(elf),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 1,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = 2,
    };
    const Elf64_Phdr segment = {.p_type = PT_NOTE, .p_offset = head, .p_filesz = n, .p_memsz = n, .p_align = 4};
    const Elf64_Shdr sections[2] = {{0}, {.sh_type = SHT_NOTE, .sh_offset = head, .sh_size = n, .sh_addralign = 4}};
    memcpy(buf, &elf, sizeof(elf));
    memcpy(buf + sizeof(elf), &segment, sizeof(segment));
    memcpy(buf + head + n, sections, sizeof(sections));
    return head + n + sizeof(sections);
}
