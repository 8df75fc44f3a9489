/* gguf.c: opening a model file or split set, and what can be asked of it afterwards.
 *
 * Opened by one thread, read by any. Owns the directories of all parts and the table of tensors; no descriptor stays
 * open. close() takes half-built objects, so every failure below ends there.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "gguf_priv.h"

static struct halo_span tensor_name(const void *ud, uint32_t i)
{
    const struct halo_gguf *gguf = ud;
    const char *name = gguf->tensors[i].name;
    return (struct halo_span){name, strnlen(name, sizeof(gguf->tensors[i].name))};
}

/* The file's own name is enough in a message, and a path may be longer than a fault. */
static void prefix_name(const struct gguf_part *part, struct halo_fault *fault)
{
    const char *slash = part->path ? strrchr(part->path, '/') : NULL;
    const char *name = slash ? slash + 1 : part->path;
    if (name)
        halo_fault_prefix(fault, "%.*s", gguf_shown(strlen(name)), name);
}

static int out_of_memory(struct halo_fault *fault)
{
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the directory of a model file");
}

/* Appends a part that owns `path`. */
static struct gguf_part *part_add(struct halo_gguf *gguf, char *path)
{
    struct gguf_part *parts = reallocarray(gguf->parts, (size_t)gguf->n_parts + 1, sizeof(*parts));
    if (!parts) {
        free(path);
        return NULL;
    }
    gguf->parts = parts;
    parts[gguf->n_parts] = (struct gguf_part){.path = path, .source.fd = -1};
    return &parts[gguf->n_parts++];
}

static int part_load(struct halo_gguf *gguf, uint32_t index, struct halo_fault *fault)
{
    struct gguf_part *part = &gguf->parts[index];
    int r = part->path ? gguf_source_open(&part->source, part->path, fault) : 0;
    if (!r)
        r = gguf_part_parse(gguf, index, fault);
    if (!r)
        r = gguf_part_check_data(gguf, index, fault);
    return r;
}

static int tensors_index(struct halo_gguf *gguf, struct halo_fault *fault)
{
    uint32_t twice;
    int r = gguf_index_build(&gguf->tensor_index, gguf->n_tensors, tensor_name, gguf, &twice);
    if (r < 0)
        return out_of_memory(fault);
    if (r == 0)
        return 0;
    const struct halo_gguf_tensor *second = &gguf->tensors[twice];
    uint32_t first = gguf_index_find(&gguf->tensor_index, tensor_name(gguf, twice), tensor_name, gguf);
    if (gguf->n_parts == 1)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "tensor '%s' appears twice, as number %u and %u",
                              second->name, first + 1, twice + 1);
    return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "tensor '%s' appears twice, in part %u and in part %u",
                          second->name, gguf->tensors[first].part + 1, second->part + 1);
}

/* Everything after part 1 itself was added. On failure *ret_part is the part that the fault speaks of. */
static int set_load(struct halo_gguf *gguf, uint32_t *ret_part, struct halo_fault *fault)
{
    *ret_part = 0;
    uint32_t n_parts;
    int r = part_load(gguf, 0, fault);
    if (!r)
        r = gguf_split_count(&gguf->parts[0], &n_parts, fault);
    if (r)
        return r;
    for (uint32_t i = 1; i < n_parts; i++) {
        char *path = gguf_split_path(gguf->parts[0].path, i + 1, n_parts);
        if (!path || !part_add(gguf, path))
            return out_of_memory(fault);
        *ret_part = i;
        r = access(path, F_OK) < 0 && errno == ENOENT
                ? halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                                 "part %u of %u is missing: all parts must be in one folder", i + 1, n_parts)
                : part_load(gguf, i, fault);
        if (!r)
            r = gguf_split_check_part(&gguf->parts[i], i, n_parts, fault);
        if (r)
            return r;
    }
    *ret_part = 0;
    if (n_parts > 1)
        r = gguf_split_check_tensors(&gguf->parts[0], gguf->n_tensors, fault);
    return r ? r : tensors_index(gguf, fault);
}

static int gguf_open(struct halo_gguf **ret, char *path, const void *bytes, size_t n, struct halo_fault *fault)
{
    *ret = NULL;
    struct halo_gguf *gguf = calloc(1, sizeof(*gguf));
    if (!gguf) {
        free(path);
        return out_of_memory(fault);
    }
    int r = -pthread_mutex_init(&gguf->fingerprint_lock, NULL);
    assert(r == 0); /* a plain mutex has nothing to fail on */
    struct gguf_part *first = part_add(gguf, path);
    if (!first) {
        halo_gguf_close(gguf);
        return out_of_memory(fault);
    }
    if (!path)
        gguf_source_open_memory(&first->source, bytes, n);
    uint32_t part;
    r = set_load(gguf, &part, fault);
    if (r) {
        prefix_name(&gguf->parts[part], fault);
        halo_gguf_close(gguf);
        return r;
    }
    *ret = gguf;
    return 0;
}

int halo_gguf_open(struct halo_gguf **ret, const char *path, struct halo_fault *fault)
{
    *ret = NULL;
    char *own = strdup(path);
    return own ? gguf_open(ret, own, NULL, 0, fault) : out_of_memory(fault);
}

int halo_gguf_open_memory(struct halo_gguf **ret, const void *bytes, size_t n, struct halo_fault *fault)
{
    return gguf_open(ret, NULL, bytes, n, fault);
}

void halo_gguf_close(struct halo_gguf *gguf)
{
    if (!gguf)
        return;
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        gguf_source_finish(&gguf->parts[i].source);
        gguf_index_finish(&gguf->parts[i].key_index);
        free(gguf->parts[i].keys);
        free(gguf->parts[i].path);
    }
    free(gguf->parts);
    free(gguf->tensors);
    gguf_index_finish(&gguf->tensor_index);
    pthread_mutex_destroy(&gguf->fingerprint_lock);
    free(gguf);
}

uint32_t halo_gguf_version(const struct halo_gguf *gguf)
{
    return gguf->parts[0].version;
}

uint32_t halo_gguf_n_parts(const struct halo_gguf *gguf)
{
    return gguf->n_parts;
}

void halo_gguf_name_fault(const struct halo_gguf *gguf, struct halo_fault *fault)
{
    prefix_name(&gguf->parts[0], fault);
}

const char *halo_gguf_part_path(const struct halo_gguf *gguf, uint32_t part)
{
    assert(part < gguf->n_parts);
    return gguf->parts[part].path ? gguf->parts[part].path : "(memory)";
}

uint64_t halo_gguf_part_bytes(const struct halo_gguf *gguf, uint32_t part)
{
    assert(part < gguf->n_parts);
    return gguf->parts[part].source.n_file;
}

uint64_t halo_gguf_total_bytes(const struct halo_gguf *gguf)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < gguf->n_parts; i++)
        sum += gguf->parts[i].source.n_file;
    return sum;
}

uint64_t halo_gguf_alignment(const struct halo_gguf *gguf)
{
    return gguf->parts[0].alignment;
}

uint64_t halo_gguf_n_tensors(const struct halo_gguf *gguf)
{
    return gguf->n_tensors;
}

const struct halo_gguf_tensor *halo_gguf_tensor(const struct halo_gguf *gguf, uint64_t index)
{
    return index < gguf->n_tensors ? &gguf->tensors[index] : NULL;
}

const struct halo_gguf_tensor *halo_gguf_find_tensor(const struct halo_gguf *gguf, const char *name)
{
    uint32_t i = gguf_index_find(&gguf->tensor_index, (struct halo_span){name, strlen(name)}, tensor_name, gguf);
    return i == GGUF_INDEX_NONE ? NULL : &gguf->tensors[i];
}

/* One part: the hash of its directory. Each further part: the hash of two lines, the hash so far and the hash of that
 * part. */
static void fingerprint_make(struct halo_gguf *gguf)
{
    halo_sha256_hex(gguf->parts[0].source.bytes, gguf->parts[0].directory_bytes, gguf->fingerprint);
    for (uint32_t i = 1; i < gguf->n_parts; i++) {
        char lines[2 * HALO_SHA256_HEX];
        memcpy(lines, gguf->fingerprint, HALO_SHA256_HEX - 1);
        lines[HALO_SHA256_HEX - 1] = '\n';
        halo_sha256_hex(gguf->parts[i].source.bytes, gguf->parts[i].directory_bytes, lines + HALO_SHA256_HEX);
        halo_sha256_hex(lines, sizeof(lines) - 1, gguf->fingerprint);
    }
}

const char *halo_gguf_fingerprint(const struct halo_gguf *gguf)
{
    struct halo_gguf *own = (struct halo_gguf *)gguf; /* a cache; the lock makes it safe for any thread */
    pthread_mutex_lock(&own->fingerprint_lock);
    if (!own->fingerprint[0])
        fingerprint_make(own);
    pthread_mutex_unlock(&own->fingerprint_lock);
    return gguf->fingerprint;
}

int halo_gguf_part_fd(const struct halo_gguf *gguf, uint32_t part)
{
    assert(part < gguf->n_parts);
    return gguf->parts[part].source.fd;
}

const struct halo_file_id *halo_gguf_part_id(const struct halo_gguf *gguf, uint32_t part)
{
    assert(part < gguf->n_parts);
    return &gguf->parts[part].source.id;
}

struct halo_file_id halo_gguf_id(const struct halo_gguf *gguf)
{
    struct halo_file_id id = gguf->parts[0].source.id;
    for (uint32_t i = 1; i < gguf->n_parts; i++)
        halo_file_id_join(&id, &gguf->parts[i].source.id);
    return id;
}

void halo_gguf_close_files(struct halo_gguf *gguf)
{
    for (uint32_t i = 0; i < gguf->n_parts; i++)
        gguf_source_close(&gguf->parts[i].source);
}

void halo_gguf_stamp(const struct halo_gguf *gguf, char ret_stamp[HALO_GGUF_STAMP_BYTES])
{
    struct {
        char before[HALO_GGUF_STAMP_BYTES - 1];
        uint64_t n_file;
        int64_t changed_ns;
    } link = {0};
    static_assert(sizeof(link) == sizeof(link.before) + 16, "no padding is hashed");
    for (uint32_t i = 0; i < gguf->n_parts; i++) {
        link.n_file = gguf->parts[i].source.n_file;
        link.changed_ns = gguf->parts[i].source.id.modified_ns;
        halo_md5_hex(&link, sizeof(link), ret_stamp);
        memcpy(link.before, ret_stamp, sizeof(link.before));
    }
}
