/* catalog.c: what model files there are.
 *
 * The io thread. It reads the directories of files, never weights, and remembers what it read by path, size and time of
 * change.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/io_priv.h"

#define MAX_LISTED 4096

/* What a file said about itself. */
struct model_file {
    struct model_file *next;
    char *path;
    uint64_t file_bytes;
    struct timespec changed;
    uint64_t bytes, n_params, context; /* all parts */
    char arch[64], quant[32];
    char fault[256]; /* empty: usable as far as the directory tells */
};

struct halo_catalog_cache {
    struct model_file *files;
};

static void count_params(const struct halo_gguf *gguf, struct model_file *file)
{
    for (uint64_t i = 0; i < halo_gguf_n_tensors(gguf); i++) {
        const struct halo_gguf_tensor *tensor = halo_gguf_tensor(gguf, i);
        uint64_t n = 1;
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            n *= tensor->dims[d];
        file->n_params += n;
    }
    if (halo_gguf_n_tensors(gguf) > 0)
        halo_model_quant(gguf, file->quant, sizeof(file->quant));
}

/* A length that no load would take is named, not passed on: it may not even fit into the answer. */
static void take_context(const struct halo_gguf *gguf, struct model_file *file)
{
    char key[128];
    uint64_t context = 0;
    snprintf(key, sizeof(key), "%s.context_length", file->arch);
    halo_gguf_get_u64(gguf, key, &context, NULL);
    if (context > HALO_MODEL_MAX_CONTEXT)
        snprintf(file->fault, sizeof(file->fault), "%s is %llu, at most %u is supported", key,
                 (unsigned long long)context, HALO_MODEL_MAX_CONTEXT);
    else
        file->context = context;
}

static void read_directory(struct model_file *file)
{
    struct halo_gguf *gguf;
    struct halo_fault fault = {0};
    struct halo_span arch = {0};
    if (halo_gguf_open(&gguf, file->path, &fault) < 0) {
        snprintf(file->fault, sizeof(file->fault), "%s", fault.text);
        return;
    }
    file->bytes = halo_gguf_total_bytes(gguf);
    count_params(gguf, file);
    if (halo_gguf_get_string(gguf, "general.architecture", &arch, &fault) == 0 && arch.n < sizeof(file->arch)) {
        halo_text_sanitize(arch.bytes, arch.n < sizeof(file->arch) / 3 ? arch.n : sizeof(file->arch) / 3 - 1,
                           file->arch);
        take_context(gguf, file);
    } else if (fault.text[0]) {
        snprintf(file->fault, sizeof(file->fault), "%s", fault.text);
    } else {
        snprintf(file->fault, sizeof(file->fault), "general.architecture has %zu bytes, at most %zu are supported",
                 arch.n, sizeof(file->arch) - 1);
    }
    halo_gguf_close(gguf);
}

/* From the cache, or read now. NULL: no memory. */
static struct model_file *look_at(struct halo_catalog_cache *cache, const char *path, const struct stat *facts)
{
    struct model_file *file = cache->files;
    while (file && strcmp(file->path, path) != 0)
        file = file->next;
    if (!file) {
        file = calloc(1, sizeof(*file));
        char *copy = strdup(path);
        if (!file || !copy) {
            free(file);
            free(copy);
            return NULL;
        }
        file->path = copy;
        file->next = cache->files;
        cache->files = file;
    } else if (file->file_bytes == (uint64_t)facts->st_size && file->changed.tv_sec == facts->st_mtim.tv_sec &&
               file->changed.tv_nsec == facts->st_mtim.tv_nsec) {
        return file;
    }
    struct model_file fresh = {.next = file->next,
                               .path = file->path,
                               .file_bytes = (uint64_t)facts->st_size,
                               .bytes = (uint64_t)facts->st_size,
                               .changed = facts->st_mtim};
    *file = fresh;
    read_directory(file);
    return file;
}

/* "x.gguf", and of a split set only the first part. */
static bool is_listed(const char *name)
{
    size_t n = strlen(name);
    if (n <= 5 || name[0] == '.' || strcmp(name + n - 5, ".gguf") != 0)
        return false;
    char stem[HALO_MODEL_STEM_BYTES];
    halo_model_stem(name, strlen(name), stem);
    return strlen(stem) == n - 5 || strncmp(name + strlen(stem), "-00001-of-", 10) == 0;
}

static const char *copy_text(struct halo_catalog *catalog, const char *text)
{
    return halo_arena_strndup(&catalog->arena, text, strlen(text));
}

/* A copy: the cache may move on while the port writes. */
static int describe(struct halo_catalog *catalog, const struct model_file *file, struct halo_catalog_entry *ret)
{
    char name[HALO_MODEL_STEM_BYTES];
    halo_model_stem(file->path, strlen(file->path), name);
    *ret = (struct halo_catalog_entry){.name = copy_text(catalog, name),
                                       .path = copy_text(catalog, file->path),
                                       .bytes = file->bytes,
                                       .n_params = file->n_params,
                                       .context = file->context,
                                       .arch = copy_text(catalog, file->arch),
                                       .quant = copy_text(catalog, file->quant),
                                       .fault = copy_text(catalog, file->fault)};
    return ret->name && ret->path && ret->arch && ret->quant && ret->fault ? 0 : -ENOMEM;
}

static int list_dir(struct halo_io_thread *io, struct halo_catalog *catalog, const char *dir)
{
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading folder %s", dir);
    DIR *stream = opendir(dir);
    int r = 0;
    if (!stream)
        return 0; /* a directory that does not exist holds no models */
    for (struct dirent *entry; r == 0 && catalog->n < MAX_LISTED && (entry = readdir(stream));) {
        char path[HALO_MODEL_PATH_BYTES];
        struct stat facts;
        if (atomic_load(&catalog->cancel))
            break;
        if (!is_listed(entry->d_name) || snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path))
            continue;
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", path);
        if (stat(path, &facts) < 0 || !S_ISREG(facts.st_mode))
            continue;
        struct model_file *file = look_at(io->cache, path, &facts);
        r = file ? describe(catalog, file, &catalog->entries[catalog->n]) : -ENOMEM;
        catalog->n += r == 0;
    }
    closedir(stream);
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct halo_catalog_entry *)a)->name, ((const struct halo_catalog_entry *)b)->name);
}

void halo_io_fill_catalog(struct halo_io_thread *io, struct halo_catalog *catalog)
{
    int r = 0;
    catalog->entries = halo_arena_alloc(&catalog->arena, MAX_LISTED, sizeof(*catalog->entries));
    if (!io->cache)
        io->cache = calloc(1, sizeof(*io->cache));
    if (!catalog->entries || !io->cache)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < io->config.n_model_dirs && !atomic_load(&catalog->cancel); i++)
        r = list_dir(io, catalog, io->config.model_dirs[i]);
    if (r < 0) {
        catalog->n = 0;
        halo_fault_set(&catalog->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the list of models");
    } else if (atomic_load(&catalog->cancel)) {
        halo_fault_set(&catalog->fault, HALO_FAULT_CANCELLED, "cancelled");
    }
    if (catalog->n > 0)
        qsort(catalog->entries, catalog->n, sizeof(*catalog->entries), by_name);
}

struct halo_catalog *halo_catalog_create(void)
{
    struct halo_catalog *catalog = calloc(1, sizeof(*catalog));
    if (catalog)
        halo_arena_init(&catalog->arena, 0);
    return catalog;
}

void halo_catalog_destroy(struct halo_catalog *catalog)
{
    if (!catalog)
        return;
    halo_arena_finish(&catalog->arena);
    free(catalog);
}
