/* gguf_split.c: the names and keys of a split set.
 *
 * PREFIX-00001-of-0000N.gguf holds all metadata and may hold no tensors; the others hold the split.* keys and their
 * tensors. The name, split.no and split.count must tell the same story in every part. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_priv.h"

#define SPLIT_TAIL_CHARS 20 /* "-00001-of-00002.gguf" */

static bool five_digits(const char *at, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 5; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *ret = *ret * 10 + (uint32_t)(at[i] - '0');
    }
    return true;
}

bool gguf_split_name_parse(const char *path, uint32_t *ret_number, uint32_t *ret_count)
{
    size_t n = strlen(path);
    if (n <= SPLIT_TAIL_CHARS)
        return false;
    const char *tail = path + n - SPLIT_TAIL_CHARS;
    return tail[0] == '-' && five_digits(tail + 1, ret_number) && memcmp(tail + 6, "-of-", 4) == 0 &&
           five_digits(tail + 10, ret_count) && strcmp(tail + 15, ".gguf") == 0;
}

/* Makes the path of one part that of another. */
static void set_number(char *path, uint32_t number, uint32_t count)
{
    snprintf(path + strlen(path) - SPLIT_TAIL_CHARS, SPLIT_TAIL_CHARS + 1, "-%05u-of-%05u.gguf", number, count);
}

char *gguf_split_path(const char *first, uint32_t number, uint32_t count)
{
    char *path = strdup(first);
    if (path)
        set_number(path, number, count);
    return path;
}

/* split.no and split.count; absent ones are 0. */
static int split_keys(const struct gguf_part *part, uint64_t *ret_no, uint64_t *ret_count, struct halo_fault *fault)
{
    *ret_no = *ret_count = 0;
    int r = gguf_part_get_u64(part, "split.no", ret_no, fault);
    if (r >= 0)
        r = gguf_part_get_u64(part, "split.count", ret_count, fault);
    return r < 0 ? r : 0;
}

static bool first_is_missing(const char *path, uint32_t count)
{
    uint32_t number, name_count;
    if (!gguf_split_name_parse(path, &number, &name_count) || name_count != count)
        return false;
    char *first = gguf_split_path(path, 1, count);
    bool missing = first && access(first, F_OK) < 0 && errno == ENOENT;
    free(first);
    return missing;
}

int gguf_split_count(const struct gguf_part *first, uint32_t *ret_count, struct halo_fault *fault)
{
    uint64_t no, count;
    int r = split_keys(first, &no, &count, fault);
    if (r)
        return r;
    uint32_t name_number = 1, name_count = 1;
    bool named = first->path && gguf_split_name_parse(first->path, &name_number, &name_count);
    *ret_count = 1;
    if (count <= 1 && (!named || name_count == 1))
        return 0;
    if (count > HALO_GGUF_MAX_PARTS)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "key 'split.count' is %llu, at most %d parts are allowed",
                              (unsigned long long)count, HALO_GGUF_MAX_PARTS);
    if (no != 0 && first->path && first_is_missing(first->path, (uint32_t)count))
        return halo_fault_set(
            fault, HALO_FAULT_LOAD_FAILED,
            "this is part %llu of %llu, and part 1 (name ending in -00001-of-%05llu.gguf) is missing: "
            "all parts must be in one folder",
            (unsigned long long)no + 1, (unsigned long long)count, (unsigned long long)count);
    if (no != 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "this is part %llu of %llu; a split model is opened through its part 1 (name ending in "
                              "-00001-of-%05llu.gguf)",
                              (unsigned long long)no + 1, (unsigned long long)count, (unsigned long long)count);
    if (!first->path)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "part 1 of %llu has no name to find the other parts by",
                              (unsigned long long)count);
    if (!named)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "key 'split.count' is %llu, but the file's name does not end in -00001-of-%05llu.gguf",
                              (unsigned long long)count, (unsigned long long)count);
    if (name_number != 1 || name_count != count)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "the name says part %u of %u, the keys say part 1 of %llu",
                              name_number, name_count, (unsigned long long)count);
    *ret_count = (uint32_t)count;
    return 0;
}

int gguf_split_check_part(const struct gguf_part *part, uint32_t index, uint32_t n_parts, struct halo_fault *fault)
{
    uint64_t no, count;
    int r = split_keys(part, &no, &count, fault);
    if (r)
        return r;
    if (no != index || count != n_parts)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "it should be part %u of %u, its keys have split.no %llu and split.count %llu", index + 1,
                              n_parts, (unsigned long long)no, (unsigned long long)count);
    return 0;
}

int gguf_split_check_tensors(const struct gguf_part *part, uint64_t n_tensors, struct halo_fault *fault)
{
    uint64_t declared;
    int r = gguf_part_get_u64(part, "split.tensors.count", &declared, fault);
    if (r < 0)
        return r;
    if (r == HALO_GGUF_ABSENT)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "key 'split.tensors.count' is missing");
    if (declared != n_tensors)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED,
                              "key 'split.tensors.count' is %llu, the parts hold %llu tensors",
                              (unsigned long long)declared, (unsigned long long)n_tensors);
    return 0;
}

int halo_gguf_id_at(const char *path, struct halo_file_id *ret)
{
    struct stat facts;
    uint32_t number, count;
    if (stat(path, &facts) < 0)
        return -errno;
    *ret = halo_file_id_of(&facts);
    if (!S_ISREG(facts.st_mode))
        return -EISDIR;
    if (!gguf_split_name_parse(path, &number, &count) || number != 1)
        return 0;
    char *part = strdup(path);
    for (uint32_t i = 2; part && i <= count; i++) {
        set_number(part, i, count);
        if (stat(part, &facts) < 0)
            break; /* nothing can be loaded then */
        struct halo_file_id id = halo_file_id_of(&facts);
        halo_file_id_join(ret, &id);
    }
    free(part);
    return part ? 0 : -ENOMEM;
}
