/* catalog.c: what model files there are.
 *
 * The io thread. It reads the directories of files, never weights, and remembers what it read by path, size and time of
 * change.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <base/utf8.h>

#include "io/io_priv.h"

#define MAX_LISTED 4096

/* What a file said about itself. */
struct model_file {
    struct model_file *next;
    char *path;
    struct halo_file_id id;
    bool remembered;                   /* it can be used: not read again */
    uint64_t bytes, n_params, context; /* all parts */
    char arch[64], quant[32];
    char fault[256]; /* empty: usable as far as the directory tells */
};

struct halo_catalog_cache {
    struct model_file *files;
};

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

/* What can be said of the file whether it can be used or not. */
static void describe_directory(const struct halo_gguf *gguf, struct model_file *file)
{
    struct halo_span arch = {0};
    file->bytes = halo_gguf_total_bytes(gguf);
    file->n_params = halo_model_count_params(gguf);
    if (halo_gguf_n_tensors(gguf) > 0)
        halo_model_quant(gguf, file->quant, sizeof(file->quant));
    if (halo_gguf_get_string(gguf, "general.architecture", &arch, NULL) != 0)
        return;
    halo_text_sanitize(arch.bytes, arch.n < sizeof(file->arch) / 3 ? arch.n : sizeof(file->arch) / 3 - 1, file->arch);
    take_context(gguf, file);
}

/* Everything that a load would find wrong before it reads the vocabulary. */
static void read_directory(struct model_file *file)
{
    const struct halo_model_params wish = {.max_rows = HALO_BATCH_ROWS, .max_outputs = HALO_BATCH_OUTPUTS};
    struct halo_fault fault = {0}, unreadable = {0};
    struct halo_model *model;
    struct halo_gguf *gguf;
    if (halo_model_create(&model, file->path, &wish, &fault) == 0) {
        describe_directory(model->gguf, file);
        file->remembered = true;
        halo_model_destroy(model);
        return;
    }
    if (halo_gguf_open(&gguf, file->path, &unreadable) == 0) {
        describe_directory(gguf, file);
        halo_gguf_close(gguf);
    }
    if (!file->fault[0])
        snprintf(file->fault, sizeof(file->fault), "%s", fault.text);
}

/* From the cache, or read now. NULL: no memory. */
static struct model_file *look_at(struct halo_catalog_cache *cache, const char *path, const struct halo_file_id *id)
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
    } else if (file->remembered && halo_file_id_is_equal(&file->id, id)) {
        return file;
    }
    *file = (struct model_file){.next = file->next, .path = file->path, .id = *id, .bytes = id->bytes};
    read_directory(file);
    return file;
}

/* Whether the folder has this part of the set that `name` is a part of; `tail` is where "-00002-of-00003.gguf" begins.
 */
static bool has_part(int folder, const char *name, size_t tail, unsigned number)
{
    char part[NAME_MAX + 1];
    snprintf(part, sizeof(part), "%.*s-%05u%s", (int)tail, name, number, name + tail + 6);
    return faccessat(folder, part, F_OK, 0) == 0;
}

/* "x.gguf", and of a split set the first part. Where that is missing a part without the one before it stands for the
 * set, so that the list says what is wrong. */
static bool is_listed(int folder, const char *name)
{
    size_t n = strlen(name);
    if (n <= 5 || n > NAME_MAX || name[0] == '.' || strcmp(name + n - 5, ".gguf") != 0)
        return false;
    char stem[HALO_MODEL_STEM_BYTES];
    size_t tail = halo_model_stem(name, n, stem);
    if (tail == n - 5 || strncmp(name + tail, "-00001-of-", 10) == 0)
        return true;
    if (n - tail != strlen("-00001-of-00002.gguf"))
        return false; /* too long a name */
    unsigned number = (unsigned)strtoul(name + tail + 1, NULL, 10);
    return !has_part(folder, name, tail, 1) && (number == 0 || !has_part(folder, name, tail, number - 1));
}

/* As UTF-8. NULL: no memory. */
static const char *copy_text(struct halo_catalog *catalog, const char *text)
{
    size_t n = strlen(text);
    char *copy = halo_arena_alloc(&catalog->arena, halo_text_sanitize(text, n, NULL) + 1, 1);
    if (copy)
        halo_text_sanitize(text, n, copy);
    return copy;
}

/* A copy: the cache may move on while the port writes. */
static int describe(struct halo_catalog *catalog, const struct model_file *file, struct halo_catalog_entry *ret)
{
    char name[HALO_MODEL_STEM_BYTES];
    bool nameable = halo_utf8_valid_run(file->path, strlen(file->path)) == strlen(file->path);
    halo_model_stem(file->path, strlen(file->path), name);
    *ret = (struct halo_catalog_entry){
        .name = copy_text(catalog, name),
        .path = copy_text(catalog, file->path),
        .id = file->id,
        .bytes = file->bytes,
        .n_params = file->n_params,
        .context = file->context,
        .arch = copy_text(catalog, file->arch),
        .quant = copy_text(catalog, file->quant),
        .fault = copy_text(catalog, nameable ? file->fault
                                             : "its name is not UTF-8, so no request can name it: rename the file")};
    return ret->name && ret->path && ret->arch && ret->quant && ret->fault ? 0 : -ENOMEM;
}

static int list_file(struct halo_io_thread *io, struct halo_catalog *catalog, const char *path)
{
    struct halo_file_id id;
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", path);
    if (halo_gguf_id_at(path, &id) < 0)
        return 0;
    struct model_file *file = look_at(io->cache, path, &id);
    int r = file ? describe(catalog, file, &catalog->entries[catalog->n]) : -ENOMEM;
    catalog->n += r == 0;
    return r;
}

static int note_folder(struct halo_catalog *catalog, const char *dir, const char *fault)
{
    struct halo_catalog_folder *folder = &catalog->folders[catalog->n_folders++];
    *folder = (struct halo_catalog_folder){copy_text(catalog, dir), copy_text(catalog, fault)};
    return folder->path && folder->fault ? 0 : -ENOMEM;
}

static int list_dir(struct halo_io_thread *io, struct halo_catalog *catalog, const char *dir)
{
    char buffer[HALO_IO_FOLDER_FAULT_BYTES];
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading folder %s", dir);
    const char *fault = halo_io_folder_fault(dir, buffer);
    DIR *stream = fault ? NULL : opendir(dir);
    int r = 0;
    if (!stream)
        return note_folder(catalog, dir, fault ? fault : strerror(errno));
    for (struct dirent *entry; r == 0 && catalog->n < MAX_LISTED && (entry = readdir(stream));) {
        char path[HALO_MODEL_PATH_BYTES];
        if (atomic_load(&catalog->cancel))
            break;
        if (is_listed(dirfd(stream), entry->d_name) &&
            snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path))
            r = list_file(io, catalog, path);
    }
    closedir(stream);
    return r;
}

static int by_name(const void *a, const void *b)
{
    const struct halo_catalog_entry *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : strcmp(left->path, right->path);
}

static bool has_file(const struct halo_catalog_entry *entries, size_t n, const struct halo_file_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (halo_file_id_is_same(&entries[i].id, id))
            return true;
    return false;
}

/* Of files with one name each is called by its path; of one that lies in several folders, by links or because a folder
 * was given twice, one row remains. */
static void tell_apart(struct halo_catalog *catalog)
{
    size_t n = 0;
    for (size_t first = 0, next = 0; first < catalog->n; first = next) {
        struct halo_catalog_entry *rows = &catalog->entries[n];
        const char *name = catalog->entries[first].name;
        size_t n_rows = 0;
        for (; next < catalog->n && strcmp(catalog->entries[next].name, name) == 0; next++)
            if (!has_file(rows, n_rows, &catalog->entries[next].id))
                rows[n_rows++] = catalog->entries[next];
        for (size_t i = 0; n_rows > 1 && i < n_rows; i++)
            rows[i].name = rows[i].path;
        n += n_rows;
    }
    catalog->n = n;
}

/* Whether the paths of what is loaded still lead there. */
static void check_loaded(struct halo_io_thread *io, struct halo_catalog *catalog)
{
    for (size_t i = 0; i < catalog->n_loaded; i++) {
        struct halo_catalog_loaded *loaded = &catalog->loaded[i];
        struct halo_file_id id;
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "looking at %s", loaded->path);
        loaded->replaced = halo_gguf_id_at(loaded->path, &id) < 0 || !halo_file_id_is_unwritten(&id, &loaded->id);
    }
}

static int fill(struct halo_io_thread *io, struct halo_catalog *catalog)
{
    catalog->entries = halo_arena_alloc(&catalog->arena, MAX_LISTED, sizeof(*catalog->entries));
    catalog->folders = halo_arena_alloc(&catalog->arena, io->config.n_model_dirs, sizeof(*catalog->folders));
    if (!io->cache)
        io->cache = calloc(1, sizeof(*io->cache));
    if (!catalog->entries || !catalog->folders || !io->cache)
        return -ENOMEM;
    for (size_t i = 0; i < io->config.n_model_dirs && !atomic_load(&catalog->cancel); i++) {
        int r = list_dir(io, catalog, io->config.model_dirs[i]);
        if (r < 0)
            return r;
    }
    check_loaded(io, catalog);
    return 0;
}

void halo_io_fill_catalog(struct halo_io_thread *io, struct halo_catalog *catalog)
{
    int r = fill(io, catalog);
    if (r < 0)
        halo_fault_set(&catalog->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the list of models");
    else if (atomic_load(&catalog->cancel))
        halo_fault_set(&catalog->fault, HALO_FAULT_CANCELLED, "cancelled");
    if (r < 0 || catalog->n == 0)
        return;
    qsort(catalog->entries, catalog->n, sizeof(*catalog->entries), by_name);
    tell_apart(catalog);
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
