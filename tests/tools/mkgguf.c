/* mkgguf.c: writes a GGUF model of any supported family, size and type with seeded random weights, at disk speed.
 *
 * For benchmarks and for tests of large loads: shapes, types and vocabulary are those of real models, the words it
 * writes are noise. The same options and seed give the same bytes. Exits 0, 1 when writing failed, 2 for wrong options.
 */
#include "mkgguf.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 32

struct options {
    struct mkgguf_shape shape;
    const struct mkgguf_types *types;
    uint64_t seed, n_tiny;
    uint32_t n_parts;
    bool experts_asked; /* llama has experts only when asked for */
    bool sparse;        /* holes instead of matrices, for what reads no weights */
    const char *path;
};

struct set {
    const struct options *options;
    struct mkgguf_tensor *tensors;
    uint64_t n, cap;
    uint64_t bytes; /* of all tensors, padded */
};

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int set_add(void *ud, const struct mkgguf_tensor *tensor)
{
    struct set *set = ud;
    if (set->n == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 1024;
        set->tensors = reallocarray(set->tensors, set->cap, sizeof *set->tensors);
        if (!set->tensors)
            return -ENOMEM;
    }
    set->tensors[set->n++] = *tensor;
    set->bytes += padded(tensor->n_bytes);
    return 0;
}

static int set_add_tiny(struct set *set, uint64_t n)
{
    int r = 0;
    for (uint64_t i = 0; i < n && r == 0; i++) {
        struct mkgguf_tensor t = {
            .n_dims = 1, .dims = {8, 0, 0}, .type = HALO_TYPE_F32, .fill = MKGGUF_ONES, .n_bytes = 32};
        t.number = set->n;
        snprintf(t.name, sizeof t.name, "tiny.%llu.weight", (unsigned long long)i);
        r = set_add(set, &t);
    }
    return r;
}

static int write_tensor(struct mkgguf_out *out, const struct mkgguf_tensor *t, uint64_t seed)
{
    static const uint8_t zeros[ALIGNMENT];
    static uint8_t piece[1 << 20];
    uint32_t block = halo_type_info(t->type).block_bytes;
    uint64_t stream = seed << 40 ^ t->number << 20;
    size_t most = sizeof piece / block * block;
    for (uint64_t at = 0; at < t->n_bytes; stream++) {
        size_t n = t->n_bytes - at < most ? (size_t)(t->n_bytes - at) : most;
        if (t->fill == MKGGUF_RANDOM)
            mkgguf_fill(t->type, t->deviation, stream, piece, n);
        else if (t->fill == MKGGUF_IDS)
            mkgguf_fill_ids(at / sizeof(int32_t), t->dims[0], t->n_ids, piece, n);
        else if (t->fill == MKGGUF_ZIPF)
            mkgguf_fill_zipf(t->n_used, stream, piece, n);
        else
            mkgguf_fill_number(t->fill == MKGGUF_ONES ? 1 : -1, piece, n);
        int r = mkgguf_out_write(out, piece, n);
        if (r)
            return r;
        at += n;
    }
    return mkgguf_out_write(out, zeros, padded(t->n_bytes) - t->n_bytes);
}

/* 16-bit and signed keys of a split set have their own types. */
static void split_keys(struct gguf_writer *w, uint32_t part, uint32_t n_parts, uint64_t n_tensors)
{
    uint16_t no = (uint16_t)part, count = (uint16_t)n_parts;
    gguf_writer_key(w, "split.no", HALO_GGUF_U16);
    gguf_writer_raw(w, &no, sizeof no);
    gguf_writer_key(w, "split.count", HALO_GGUF_U16);
    gguf_writer_raw(w, &count, sizeof count);
    gguf_writer_key(w, "split.tensors.count", HALO_GGUF_I32);
    gguf_writer_u32(w, (uint32_t)n_tensors);
}

/* The directory, the vectors (some are read with it), and holes where the matrices are. */
static int write_sparse(const struct set *set, const char *path, const struct gguf_writer *w, uint64_t first,
                        uint64_t end)
{
    FILE *file = fopen(path, "wb");
    uint64_t offset = w->n;
    if (!file)
        return -errno;
    bool failed = fwrite(w->bytes, 1, w->n, file) != w->n;
    for (uint64_t i = first; i < end; offset += padded(set->tensors[i++].n_bytes)) {
        const struct mkgguf_tensor *t = &set->tensors[i];
        uint8_t *bytes = t->n_dims == 1 ? malloc(t->n_bytes) : NULL;
        if (!bytes)
            continue;
        mkgguf_fill_number(t->fill == MKGGUF_MINUS_ONES ? -1 : 1, bytes, t->n_bytes);
        failed |= fseeko(file, (off_t)offset, SEEK_SET) != 0 || fwrite(bytes, 1, t->n_bytes, file) != t->n_bytes;
        free(bytes);
    }
    failed |= fflush(file) != 0 || ftruncate(fileno(file), (off_t)offset) < 0;
    int r = failed ? -errno : 0;
    return fclose(file) != 0 && r == 0 ? -errno : r;
}

static int write_part(const struct set *set, const char *path, uint32_t part, uint64_t first, uint64_t end)
{
    const struct options *o = set->options;
    struct gguf_writer w;
    gguf_writer_init(&w);
    if (part == 0 && o->n_tiny == 0)
        mkgguf_keys(&w, &o->shape, o->types, o->seed);
    else if (part == 0)
        gguf_writer_key_string(&w, "general.architecture", "tiny");
    if (o->n_parts > 1)
        split_keys(&w, part, o->n_parts, set->n);
    uint64_t offset = 0;
    for (uint64_t i = first; i < end; i++) {
        const struct mkgguf_tensor *t = &set->tensors[i];
        gguf_writer_tensor(&w, t->name, t->n_dims, t->dims, t->type, offset);
        offset += padded(t->n_bytes);
    }
    gguf_writer_finish(&w);
    gguf_writer_pad(&w, ALIGNMENT);
    struct mkgguf_out *out;
    int r = o->sparse ? write_sparse(set, path, &w, first, end) : mkgguf_out_open(&out, path, w.n + offset);
    if (r == 0 && !o->sparse) {
        r = mkgguf_out_write(out, w.bytes, w.n);
        for (uint64_t i = first; i < end && r == 0; i++)
            r = write_tensor(out, &set->tensors[i], o->seed);
        int closed = mkgguf_out_close(out);
        r = closed ? closed : r;
    }
    if (r)
        fprintf(stderr, "mkgguf: %s: %s\n", path, strerror(-r));
    else
        printf("%s: %llu tensors, %llu bytes\n", path, (unsigned long long)(end - first),
               (unsigned long long)(w.n + offset));
    gguf_writer_free(&w);
    return r;
}

/* Cuts the set where the bytes are even; the name of part 1 replaces -o's ending ".gguf". */
static int write_set(const struct set *set)
{
    const struct options *o = set->options;
    if (o->n_parts <= 1)
        return write_part(set, o->path, 0, 0, set->n);
    size_t n = strlen(o->path);
    int stem = (int)(n > 5 && strcmp(o->path + n - 5, ".gguf") == 0 ? n - 5 : n);
    uint64_t first = 0, bytes = 0;
    int r = 0;
    for (uint32_t part = 0; part < o->n_parts && r == 0; part++) {
        char path[4096];
        snprintf(path, sizeof path, "%.*s-%05u-of-%05u.gguf", stem, o->path, part + 1, o->n_parts);
        uint64_t end = first, until = set->bytes / o->n_parts * (part + 1);
        while (end < set->n && (part + 1 == o->n_parts || bytes < until || end == first))
            bytes += padded(set->tensors[end++].n_bytes);
        r = write_part(set, path, part, first, end);
        first = end;
    }
    return r;
}

static void usage(void)
{
    puts("usage: mkgguf [--preset NAME] [--arch NAME] [--type TYPE] [--seed N] [--layers N] [--embd N] [--heads N] "
         "[--heads-kv N]\n"
         "              [--head-dim N] [--ff N] [--experts N] [--experts-used N] [--ff-expert N] [--vocab N] "
         "[--context N]\n"
         "              [--tied 0|1] [--split PARTS] [--tensors-tiny N] [--sparse] -o FILE");
    fputs("presets: ", stdout);
    mkgguf_presets_print();
    fputs("types:   ", stdout);
    mkgguf_types_print();
    fputs("archs:   ", stdout);
    mkgguf_families_print();
}

enum { OPT_PRESET = 256, OPT_ARCH, OPT_TYPE, OPT_SEED, OPT_SPLIT, OPT_TINY, OPT_TIED, OPT_HELP, OPT_SPARSE, OPT_SHAPE };

static const struct {
    const char *name;
    size_t offset; /* of a uint32_t in the shape */
} shape_options[] = {
    {"layers", offsetof(struct mkgguf_shape, n_layers)},
    {"embd", offsetof(struct mkgguf_shape, n_embd)},
    {"heads", offsetof(struct mkgguf_shape, n_head)},
    {"heads-kv", offsetof(struct mkgguf_shape, n_head_kv)},
    {"head-dim", offsetof(struct mkgguf_shape, head_dim)},
    {"ff", offsetof(struct mkgguf_shape, n_ff)},
    {"experts", offsetof(struct mkgguf_shape, n_expert)},
    {"experts-used", offsetof(struct mkgguf_shape, n_expert_used)},
    {"ff-expert", offsetof(struct mkgguf_shape, n_ff_expert)},
    {"vocab", offsetof(struct mkgguf_shape, n_vocab)},
    {"context", offsetof(struct mkgguf_shape, n_context)},
};
#define N_OPTIONS 9
#define N_SHAPE_OPTIONS (sizeof shape_options / sizeof shape_options[0])

static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "mkgguf: %s: %s\n", what, value);
    return -EINVAL;
}

static int take_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || end == text || text[0] == '-' || value > most)
        return refuse("not a number in range", text);
    *ret = value;
    return 0;
}

/* The options that replace a whole shape or type set come first, so that the order of arguments does not matter. */
static int apply_option(struct options *o, int option, const char *value, bool first_pass)
{
    uint64_t number = 0;
    const struct mkgguf_shape *preset;
    if (first_pass != (option == OPT_PRESET))
        return 0;
    switch (option) {
    case OPT_PRESET:
        preset = mkgguf_preset(value);
        if (!preset)
            return refuse("unknown preset", value);
        o->shape = *preset;
        return 0;
    case OPT_ARCH: return mkgguf_family_parse(value, &o->shape.family) ? refuse("unknown architecture", value) : 0;
    case OPT_TYPE: o->types = mkgguf_types_find(value); return o->types ? 0 : refuse("unknown type", value);
    case 'o': o->path = value; return 0;
    case OPT_SPARSE: o->sparse = true; return 0;
    case '?': return -EINVAL;
    }
    int r = take_number(value, option == OPT_SEED || option == OPT_TINY ? UINT64_MAX : INT32_MAX, &number);
    if (r)
        return r;
    switch (option) {
    case OPT_SEED: o->seed = number; return 0;
    case OPT_SPLIT: o->n_parts = (uint32_t)number; return 0;
    case OPT_TINY: o->n_tiny = number; return 0;
    case OPT_TIED: o->shape.tied = number != 0; return 0;
    }
    uint32_t value_u32 = (uint32_t)number;
    size_t offset = shape_options[option - OPT_SHAPE].offset;
    memcpy((char *)&o->shape + offset, &value_u32, sizeof value_u32);
    o->experts_asked |= offset == offsetof(struct mkgguf_shape, n_expert);
    return 0;
}

static int parse_options(struct options *o, int argc, char **argv)
{
    struct option longs[N_OPTIONS + N_SHAPE_OPTIONS + 1] = {
        {"preset", 1, NULL, OPT_PRESET}, {"arch", 1, NULL, OPT_ARCH},   {"type", 1, NULL, OPT_TYPE},
        {"seed", 1, NULL, OPT_SEED},     {"split", 1, NULL, OPT_SPLIT}, {"tensors-tiny", 1, NULL, OPT_TINY},
        {"tied", 1, NULL, OPT_TIED},     {"help", 0, NULL, OPT_HELP},   {"sparse", 0, NULL, OPT_SPARSE},
    };
    for (size_t i = 0; i < N_SHAPE_OPTIONS; i++)
        longs[N_OPTIONS + i] = (struct option){shape_options[i].name, 1, NULL, OPT_SHAPE + (int)i};
    for (int pass = 0; pass < 2; pass++) {
        int option, r = 0;
        optind = 0;
        opterr = pass;
        while (r == 0 && (option = getopt_long(argc, argv, "o:", longs, NULL)) != -1) {
            if (option == OPT_HELP) {
                usage();
                exit(0);
            }
            r = apply_option(o, option, optarg, pass == 0);
        }
        if (r)
            return r;
        if (pass == 1 && optind < argc)
            return refuse("unexpected argument", argv[optind]);
    }
    return o->path ? 0 : refuse("needed", "-o FILE");
}

static int check_options(struct options *o)
{
    struct mkgguf_shape *s = &o->shape;
    if (o->experts_asked && !mkgguf_may_mix(s->family))
        return refuse("this architecture has none", "--experts");
    if (!o->experts_asked && !mkgguf_is_mixture(s->family) && s->family != MKGGUF_GEMMA4)
        s->n_expert = 0;
    if (s->zipf && s->n_expert_used >= s->n_expert)
        return refuse("must be fewer than the experts", "--experts-used");
    if (mkgguf_is_mixture(s->family) && (s->n_expert == 0 || s->n_expert_used == 0 || s->n_ff_expert == 0))
        return refuse("a mixture of experts needs", "--experts --experts-used --ff-expert");
    if (s->family == MKGGUF_DEEPSEEK2 && s->kv_lora == 0)
        return refuse("needs a preset with latent attention", "--arch deepseek2");
    if (mkgguf_has_layers(s->family) && (!s->layers || s->n_layers > strlen(s->layers)))
        return refuse("needs a preset that says what so many layers are", mkgguf_family_name(s->family));
    if (s->family == MKGGUF_FALCON_H1 && s->n_conv == 0)
        return refuse("needs a preset with Mamba-2", "--arch falcon-h1");
    if (s->family == MKGGUF_DEEPSEEK4 && s->n_streams == 0)
        return refuse("needs a preset with residual streams", "--arch deepseek4");
    if (mkgguf_has_delta_rule(s->family) && (s->interval == 0 || s->n_layers < s->interval))
        return refuse("needs a preset with layers of that kind, and --layers of at least 4",
                      mkgguf_family_name(s->family));
    if (s->family == MKGGUF_GEMMA4 && (s->interval == 0 || s->n_layers < 2))
        return refuse("needs a preset with windows, and two layers", "--arch gemma4");
    if (s->n_vocab < 260 || s->n_vocab > 900000)
        return refuse("out of range", "--vocab (260 to 900000)");
    if (!s->n_layers || !s->n_embd || !s->n_head || !s->n_head_kv || !s->head_dim || !s->n_ff)
        return refuse("must not be 0", "a size of the shape");
    if (o->n_parts > 65535)
        return refuse("out of range", "--split (1 to 65535)");
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {.shape = *mkgguf_preset("toy"), .types = mkgguf_types_find("Q4_K_M"), .seed = 1};
    if (parse_options(&options, argc, argv) || check_options(&options)) {
        fputs("mkgguf: --help lists the options\n", stderr);
        return 2;
    }
    struct set set = {.options = &options};
    int r = options.n_tiny ? set_add_tiny(&set, options.n_tiny)
                           : mkgguf_tensors(&options.shape, options.types, set_add, &set);
    if (r)
        fprintf(stderr, "mkgguf: %s\n", strerror(-r));
    else
        r = write_set(&set);
    free(set.tensors);
    return r ? 1 : 0;
}
