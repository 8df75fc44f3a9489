/* models.c: the jobs models and plan: what model files there are, and what one of them would need.
 *
 * Text thread. `models` reads directories of files, never weights, and remembers what it read by path, size and time of
 * change.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "port/port_priv.h"

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

struct halo_model_cache {
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
static struct model_file *look_at(struct halo_model_cache *cache, const char *path, const struct stat *facts)
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

static int describe(struct halo_job *job, const struct model_file *file, struct halo_part_model_info *ret)
{
    char name[HALO_MODEL_STEM_BYTES];
    halo_model_stem(file->path, strlen(file->path), name);
    char *own_name = halo_arena_strndup(&job->arena, name, strlen(name));
    char *path = halo_arena_strndup(&job->arena, file->path, strlen(file->path));
    struct model_file *copy =
        halo_arena_alloc(&job->arena, 1, sizeof(*copy)); /* the cache may move on while the port writes */
    if (!own_name || !path || !copy)
        return -ENOMEM;
    *copy = *file;
    *ret = (struct halo_part_model_info){
        .name = halo_str_of(own_name), .path = halo_str_of(path), .bytes = (int64_t)copy->bytes};
    ret->arch = halo_str_of(copy->arch);
    ret->has_arch = copy->arch[0] != '\0';
    ret->quant = halo_str_of(copy->quant);
    ret->has_quant = copy->quant[0] != '\0';
    ret->params = (int64_t)copy->n_params;
    ret->has_params = copy->n_params > 0;
    ret->context = (int64_t)copy->context;
    ret->has_context = copy->context > 0;
    ret->fault = halo_str_of(copy->fault);
    ret->has_fault = copy->fault[0] != '\0';
    return 0;
}

static int list_dir(struct halo_text_thread *text, struct halo_job *job, const char *dir,
                    struct halo_part_model_info *models, size_t *n)
{
    DIR *stream = opendir(dir);
    int r = 0;
    if (!stream)
        return 0; /* a directory that does not exist holds no models */
    for (struct dirent *entry; r == 0 && *n < MAX_LISTED && (entry = readdir(stream));) {
        char path[HALO_MODEL_PATH_BYTES];
        struct stat facts;
        if (!is_listed(entry->d_name) || snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= (int)sizeof(path))
            continue;
        if (stat(path, &facts) < 0 || !S_ISREG(facts.st_mode))
            continue;
        struct model_file *file = look_at(text->cache, path, &facts);
        r = file ? describe(job, file, &models[*n]) : -ENOMEM;
        *n += r == 0;
    }
    closedir(stream);
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct halo_part_model_info *)a)->name.at, ((const struct halo_part_model_info *)b)->name.at);
}

void halo_text_job_models(struct halo_text_thread *text, struct halo_job *job)
{
    struct halo_part_model_info *models = halo_arena_alloc(&job->arena, MAX_LISTED, sizeof(*models));
    size_t n = 0;
    int r = 0;
    if (!text->cache)
        text->cache = calloc(1, sizeof(*text->cache)); /* the thread's, for the life of the process */
    if (!models || !text->cache)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < text->config->n_model_dirs; i++)
        r = list_dir(text, job, text->config->model_dirs[i], models, &n);
    if (r < 0) {
        halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the list of models");
        return;
    }
    qsort(models, n, sizeof(*models), by_name);
    halo_ev_init(&job->ev, HALO_EV_MODELS, &job->msg.id);
    job->files = models;
    job->ev.models.models.at = models;
    job->ev.models.models.n = n;
}

void halo_text_job_plan(struct halo_text_thread *text, struct halo_job *job)
{
    const struct halo_msg_plan *msg = &job->msg.plan;
    const struct halo_part_load_params *params = &msg->params;
    char path[HALO_MODEL_PATH_BYTES];
    if (msg->has_model + msg->has_path != 1) {
        halo_fault_set(&job->fault, HALO_FAULT_BAD_REQUEST, "give exactly one of `model` and `path`");
        return;
    }
    if (msg->has_path)
        snprintf(path, sizeof(path), "%s", msg->path.at);
    else if (halo_text_resolve(text->config, msg->model.at, path, &job->fault) < 0)
        return;
    job->forecast = calloc(1, sizeof(*job->forecast));
    if (!job->forecast) {
        halo_fault_set(&job->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a plan");
        return;
    }
    struct halo_model_params wish = {.context = params->has_context ? (uint32_t)params->context : 0,
                                     .kv_tokens = params->has_kv_tokens ? (uint64_t)params->kv_tokens : 0,
                                     .kv = params->has_kv ? (enum halo_kv_type)params->kv : HALO_KV_F16,
                                     .max_rows = HALO_BATCH_ROWS,
                                     .max_outputs = HALO_BATCH_OUTPUTS};
    struct halo_texts texts = {0}; /* a plan is refused where the load would be */
    int r = halo_model_create(&job->forecast->model, path, &wish, &job->fault);
    const struct halo_model *model = job->forecast->model;
    if (r == 0)
        r = halo_texts_create(&texts, model->gguf, model->hparams.n_vocab, &job->fault);
    halo_texts_destroy(&texts);
    if (r < 0) {
        halo_model_destroy(job->forecast->model);
        job->forecast->model = NULL;
    }
}
