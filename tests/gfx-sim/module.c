/* module.c: a code object: its kernels, what their descriptors say, and what llvm's tools say of the file. */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "isa_priv.h"

#define LINE_BYTES 1024
#define DESCRIPTOR_WORDS 16

struct isa_module {
    uint8_t *image;
    size_t n;
    const char *path;
    char copy[64];              /* a path to the same bytes that stays, for the tools */
    uint8_t *loaded;            /* address 0 of the program; its constants are where a loader places them */
    struct isa_kernel *kernels; /* by address */
    uint32_t n_kernels;
};

static int read_file(struct isa_module *m, struct halo_fault *fault)
{
    size_t cap = 0;
    FILE *file = fopen(m->path, "rbe");
    if (!file)
        return halo_fault_errno(fault, HALO_FAULT_NOT_FOUND, -errno, "%s", m->path);
    for (size_t n = 1; n > 0; m->n += n) {
        m->image = isa_grow(m->image, m->n, &cap, 1);
        n = fread(m->image + m->n, 1, cap - m->n, file);
    }
    int r = ferror(file) ? halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s could not be read", m->path) : 0;
    fclose(file);
    return r;
}

/* The file may go, or be a descriptor of this process alone. */
static int keep_copy(struct isa_module *m, struct halo_fault *fault)
{
    int fd = memfd_create("code object", MFD_CLOEXEC);
    if (fd < 0 || write(fd, m->image, m->n) != (ssize_t)m->n)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "no copy of %s", m->path);
    snprintf(m->copy, sizeof(m->copy), "/proc/%ld/fd/%d", (long)getpid(), fd);
    return 0;
}

int isa_read_tool(const struct isa_module *module, const char *tool, const char *args, void (*fn)(char *line, void *ud),
                  void *ud, struct halo_fault *fault)
{
    char command[LINE_BYTES], line[LINE_BYTES];
    snprintf(command, sizeof(command), "%s %s '%s'", tool, args, module->copy);
    FILE *file = popen(command, "re");
    if (!file)
        return halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "%s", command);
    while (fgets(line, sizeof(line), file))
        fn(line, ud);
    if (pclose(file) != 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s failed", command);
    return 0;
}

static void read_descriptor(struct isa_kernel *k, const uint8_t *at)
{
    uint32_t w[DESCRIPTOR_WORDS];
    memcpy(w, at, sizeof(w));
    k->lds_bytes = w[0];
    k->scratch_bytes = w[1];
    k->kernarg_bytes = w[2];
    k->rsrc1 = w[12];
    k->rsrc2 = w[13];
    k->properties = (uint16_t)w[14];
    k->vgprs = ((k->rsrc1 & 63) + 1) * 8;
    k->user_sgprs = k->rsrc2 >> 1 & 31;
}

/* Where an address of the program lies in the file; NULL: nowhere. */
static const uint8_t *find_bytes(const struct isa_module *m, uint64_t at, size_t n)
{
    const Elf64_Ehdr *header = (const void *)m->image;
    const Elf64_Shdr *sections = (const void *)(m->image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_type == SHT_PROGBITS && at >= s->sh_addr && at - s->sh_addr + n <= s->sh_size)
            return m->image + s->sh_offset + (at - s->sh_addr);
    }
    return NULL;
}

/* Constants, which kernels find by their own address. They may read these and nothing beside them. */
static void load_constants(struct isa_module *m)
{
    const Elf64_Ehdr *header = (const void *)m->image;
    const Elf64_Shdr *sections = (const void *)(m->image + header->e_shoff);
    size_t end = 0;
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_flags & SHF_ALLOC && sections[i].sh_addr + sections[i].sh_size > end)
            end = sections[i].sh_addr + sections[i].sh_size;
    end = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    m->loaded = aligned_alloc(PAGE_BYTES, end);
    if (!m->loaded)
        abort();
    memset(m->loaded, 0, end);
    for (int i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_type != SHT_PROGBITS || (s->sh_flags & (SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE)) != SHF_ALLOC)
            continue;
        memcpy(m->loaded + s->sh_addr, m->image + s->sh_offset, s->sh_size);
        isa_add(m->loaded + s->sh_addr, s->sh_size);
        isa_set_read_only(m->loaded + s->sh_addr, true);
    }
}

uint64_t isa_address(const struct isa_kernel *k, uint32_t pc)
{
    return (uintptr_t)k->module->loaded + k->at + pc;
}

/* The symbol NAME.kd is the descriptor of the kernel NAME. */
static void read_kernel(struct isa_module *m, const Elf64_Sym *symbols, size_t n, const char *names, const char *name)
{
    const size_t len = strlen(name) - 3;
    struct isa_kernel *k = &m->kernels[m->n_kernels];
    *k = (struct isa_kernel){.module = m};
    for (size_t i = 0; i < n; i++) {
        const char *other = names + symbols[i].st_name;
        if (strncmp(other, name, len) != 0)
            continue;
        if (other[len] == '\0') {
            k->at = symbols[i].st_value;
            k->bytes = (uint32_t)symbols[i].st_size;
        } else if (strcmp(other + len, ".kd") == 0) {
            const uint8_t *at = find_bytes(m, symbols[i].st_value, DESCRIPTOR_WORDS * sizeof(uint32_t));
            if (!at)
                return;
            read_descriptor(k, at);
        }
    }
    k->name = strndup(name, len);
    if (!k->name)
        abort();
    m->n_kernels++;
}

static int by_address(const void *a, const void *b)
{
    const struct isa_kernel *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int read_kernels(struct isa_module *m, struct halo_fault *fault)
{
    const Elf64_Ehdr *header = (const void *)m->image;
    if (m->n < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr) > m->n)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is no code object", m->path);
    const Elf64_Shdr *sections = (const void *)(m->image + header->e_shoff);
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_DYNSYM)
            continue;
        const Elf64_Sym *symbols = (const void *)(m->image + sections[s].sh_offset);
        const char *names = (const char *)m->image + sections[sections[s].sh_link].sh_offset;
        size_t n = sections[s].sh_size / sizeof(*symbols);
        m->kernels = isa_zeros(n, sizeof(*m->kernels));
        for (size_t i = 0; i < n; i++) {
            const char *name = names + symbols[i].st_name, *end = strrchr(name, '.');
            if (end && strcmp(end, ".kd") == 0)
                read_kernel(m, symbols, n, names, name);
        }
    }
    if (m->n_kernels == 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s has no kernels", m->path);
    qsort(m->kernels, m->n_kernels, sizeof(*m->kernels), by_address);
    return 0;
}

struct notes {
    struct isa_module *module;
    uint32_t block;
};

/* Of the metadata: the block size stands above the name. */
static void read_note(char *line, void *ud)
{
    struct notes *notes = ud;
    char name[128];
    if (sscanf(line, " .max_flat_workgroup_size: %u", &notes->block) == 1)
        return;
    if (sscanf(line, " .name: %127s", name) != 1)
        return;
    struct isa_kernel *k = isa_find(notes->module, name);
    if (k && k->block == 0)
        k->block = notes->block;
}

int isa_open(const char *path, struct isa_module **ret_module, struct halo_fault *fault)
{
    struct isa_module *m = isa_zeros(1, sizeof(*m));
    struct notes notes = {.module = m};
    m->path = path;
    int r = read_file(m, fault);
    if (r == 0)
        r = read_kernels(m, fault);
    if (r == 0)
        r = keep_copy(m, fault);
    if (r == 0)
        r = isa_read_tool(m, ISA_READELF, "--notes", read_note, &notes, fault);
    if (r == 0)
        load_constants(m);
    m->path = NULL; /* the caller's */
    if (r == 0)
        *ret_module = m;
    return r;
}

uint32_t isa_n_kernels(const struct isa_module *m)
{
    return m->n_kernels;
}

struct isa_kernel *isa_kernel_at(struct isa_module *m, uint32_t i)
{
    return &m->kernels[i];
}

struct isa_kernel *isa_find(struct isa_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_kernels; i++)
        if (strcmp(m->kernels[i].name, name) == 0)
            return &m->kernels[i];
    return NULL;
}

const char *isa_name(const struct isa_kernel *k)
{
    return k->name;
}

uint32_t isa_block(const struct isa_kernel *k)
{
    return k->block;
}

uint32_t isa_args_bytes(const struct isa_kernel *k)
{
    return k->kernarg_bytes;
}
