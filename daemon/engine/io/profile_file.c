/* profile_file.c: records of profiles on disk. The text is JSON; the port writes it, jansson reads it here. */
#include <engine/profile.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <base/folder.h>
#include <base/hash.h>
#include <store/fetch.h>
#include <store/hull.h>

#include "io/state_file_priv.h"

#define PATH_BYTES 4200
#define FORMAT 1

/* ---- reading ---- */

struct reading {
    const json_t *object;
    struct halo_fault *fault;
    bool failed;
};

/* The first one counts. */
static void fail(struct reading *reading, const char *key, const char *what)
{
    if (!reading->failed)
        halo_fault_set(reading->fault, HALO_FAULT_LOAD_FAILED, "\"%s\" is %s", key, what);
    reading->failed = true;
}

static void take_text(struct reading *reading, const char *key, char *ret, size_t size)
{
    const json_t *value = json_object_get(reading->object, key);
    if (!json_is_string(value) || json_string_length(value) >= size || strlen(json_string_value(value)) >= size)
        fail(reading, key, "not a text, or too long");
    else
        strcpy(ret, json_string_value(value));
}

static double take_number(struct reading *reading, const char *key, double most)
{
    const json_t *value = json_object_get(reading->object, key);
    double number = json_number_value(value);
    if (json_is_number(value) && isfinite(number) && number >= 0 && number <= most)
        return number;
    fail(reading, key, "not a number in range");
    return 0;
}

static int64_t take_integer(struct reading *reading, const char *key, int64_t most)
{
    const json_t *value = json_object_get(reading->object, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= most)
        return json_integer_value(value);
    fail(reading, key, "not an integer in range");
    return 0;
}

static void take_points(struct reading *reading, struct halo_profile_record *ret)
{
    const json_t *grid = json_object_get(reading->object, "grid");
    if (!json_is_array(grid) || json_array_size(grid) > HALO_PROFILE_POINTS_MAX) {
        fail(reading, "grid", "not a list, or too long");
        return;
    }
    for (size_t i = 0; i < json_array_size(grid) && !reading->failed; i++) {
        struct reading point = {json_array_get(grid, i), reading->fault, false};
        struct halo_profile_point *to = &ret->points[ret->n_points++];
        to->block_bytes = (uint32_t)take_integer(&point, "block_bytes", UINT32_MAX);
        to->depth = (uint32_t)take_integer(&point, "depth", UINT32_MAX);
        to->bytes_s = take_number(&point, "bytes_s", 1e15);
        to->latency_s = take_number(&point, "latency_s", 1e6);
        reading->failed = point.failed;
    }
}

static void take_profile(struct reading *reading, struct halo_profile *ret)
{
    take_text(reading, "machine", ret->machine, sizeof(ret->machine));
    take_text(reading, "device", ret->device, sizeof(ret->device));
    take_text(reading, "kernels", ret->kernels, sizeof(ret->kernels));
    take_text(reading, "file", ret->file, sizeof(ret->file));
    take_text(reading, "drive", ret->drive, sizeof(ret->drive));
    ret->measured_s = take_integer(reading, "measured_s", 253402300799);
    ret->memory_bytes_s = take_number(reading, "memory_bytes_s", 1e15);
    ret->copy_bytes_s = take_number(reading, "copy_bytes_s", 1e15);
    ret->launch_s = take_number(reading, "launch_s", 1e6);
    ret->disk_bytes_s = take_number(reading, "disk_bytes_s", 1e15);
    ret->disk_block_bytes = (uint32_t)take_integer(reading, "disk_block_bytes", HALO_FETCH_BLOCK_MAX);
    if (ret->disk_block_bytes % HALO_HULL_ALIGN != 0)
        fail(reading, "disk_block_bytes", "not a multiple of 4096");
    ret->disk_depth = (uint32_t)take_integer(reading, "disk_depth", HALO_FETCH_DEPTH_MAX);
    ret->disk_latency_s = take_number(reading, "disk_latency_s", 1e6);
}

int halo_profile_parse(const char *text, size_t n, struct halo_profile_record *ret, struct halo_fault *fault)
{
    json_error_t error;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    struct reading reading = {json, fault, false};
    *ret = (struct halo_profile_record){0};
    if (!json_is_object(json)) {
        json_decref(json);
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "it is not a JSON object: %s",
                              json ? "another value" : error.text);
    }
    if (take_integer(&reading, "format", INT32_MAX) != FORMAT)
        fail(&reading, "format", "not 1: another version of halod wrote it");
    take_profile(&reading, &ret->profile);
    ret->span_bytes = (uint64_t)take_integer(&reading, "span_bytes", INT64_MAX);
    ret->read_bytes = (uint64_t)take_integer(&reading, "read_bytes", INT64_MAX);
    take_text(&reading, "io", ret->io, sizeof(ret->io));
    take_text(&reading, "fault", ret->fault, sizeof(ret->fault));
    take_points(&reading, ret);
    json_decref(json);
    return reading.failed ? -EIO : 0;
}

/* ---- files ---- */

/* A file's name is made of its model's path and of the device: a model that was replaced finds the record of the one
 * before, and can say so. */
static int path_of(const char *state_dir, const char *model_path, const char *device, char ret[PATH_BYTES])
{
    char of_path[HALO_MD5_HEX], of_device[HALO_MD5_HEX];
    halo_md5_hex(model_path, strlen(model_path), of_path);
    halo_md5_hex(device, strlen(device), of_device);
    int n = snprintf(ret, PATH_BYTES, "%s/profiles/%s-%.8s.json", state_dir, of_path, of_device);
    return n > 0 && n < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* `path` names the record of some device: takes that of another one instead, the newest, if there is one. */
static void path_of_newest(char path[PATH_BYTES])
{
    char *name = strrchr(path, '/') + 1;
    size_t n_model = strlen(name) - strlen("-01234567.json");
    struct timespec newest = {0};
    char found[NAME_MAX + 1] = "";
    *(name - 1) = '\0';
    DIR *folder = opendir(path);
    *(name - 1) = '/';
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat facts;
        size_t n = strlen(entry->d_name);
        if (strncmp(entry->d_name, name, n_model) == 0 && n == strlen(name) &&
            fstatat(dirfd(folder), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
            (!found[0] || is_newer(&facts.st_mtim, &newest))) {
            strcpy(found, entry->d_name);
            newest = facts.st_mtim;
        }
    }
    if (folder)
        closedir(folder);
    if (found[0])
        strcpy(name, found); /* as long as the one before */
}

int halo_profile_load(const char *state_dir, const char *model_path, const char *device,
                      struct halo_profile_record *ret, struct halo_fault *fault)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    uint64_t n = 0;
    *ret = (struct halo_profile_record){0};
    if (!state_dir || path_of(state_dir, model_path, device, path) < 0)
        return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "no profile is stored: there is no state folder");
    if (!device[0] || access(path, F_OK) < 0)
        path_of_newest(path);
    int r = halo_state_file_read(path, HALO_PROFILE_BYTES_MAX, &text, &n, fault);
    if (r == HALO_STATE_FILE_E_NONE)
        return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "no profile is stored");
    if (r == 0)
        r = halo_profile_parse((const char *)text, n, ret, fault);
    free(text);
    if (r < 0)
        halo_fault_prefix(fault, "%s", path + strlen(state_dir) + 1); /* clients read it: the folder is the daemon's */
    return r;
}

int halo_profile_store(const char *state_dir, const char *model_path, const char *device, const char *text, size_t n,
                       struct halo_fault *fault)
{
    char path[PATH_BYTES], folder[PATH_BYTES];
    if (!state_dir)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "the profile is not kept: there is no state folder");
    int r = path_of(state_dir, model_path, device, path);
    if (r == 0) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
        r = halo_folder_make(folder, 0700);
    }
    if (r == 0)
        r = halo_state_file_replace(path, text, n);
    return r < 0 ? halo_fault_errno(fault, HALO_FAULT_INTERNAL, r, "the profile is not kept in the state folder") : 0;
}
