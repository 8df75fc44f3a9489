/* file_layout.c: how the model files lie on their drive: compressed, encrypted, in many pieces. Each makes direct reads
 * slower, or turns them into reads through the page cache.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "extents.h"
#include "place.h"

#define MIB (1024.0 * 1024)
#define FILES_MAX 256             /* of a folder that are looked at */
#define LEAST_BYTES (64ull << 20) /* a smaller file may lie as it likes */
#define LEAST_PIECE (4ull << 20)  /* on average: then few reads of a piece of an expert need two requests */

struct files {
    size_t n; /* that the file system described */
    int error;
    struct halo_doctor_extents sum;
    char worst[HALO_DOCTOR_NAME_BYTES]; /* in the smallest pieces */
    struct halo_doctor_extents worst_extents;
};

static bool is_model(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

static bool is_worse(const struct halo_doctor_extents *a, const struct halo_doctor_extents *b)
{
    return a->n_bytes >= LEAST_BYTES &&
           (b->n == 0 || (double)a->n_bytes / (double)a->n < (double)b->n_bytes / (double)b->n);
}

static void look_at(struct halo_doctor_probe *probe, const char *dir, const char *name, struct files *files)
{
    struct halo_doctor_extents extents;
    int r = halo_doctor_probe_extents(probe, &extents, "%s/%s", dir, name);
    if (r < 0 || extents.n == 0) {
        files->error = r < 0 ? r : files->error;
        return;
    }
    files->n++;
    files->sum.n += extents.n;
    files->sum.n_bytes += extents.n_bytes;
    files->sum.is_compressed |= extents.is_compressed;
    files->sum.is_encrypted |= extents.is_encrypted;
    if (is_worse(&extents, &files->worst_extents)) {
        files->worst_extents = extents;
        snprintf(files->worst, sizeof files->worst, "%s", name);
    }
}

/* How many model files there are. */
static size_t look_at_all(struct halo_doctor_probe *probe, const char *dir, struct files *files)
{
    char(*names)[HALO_DOCTOR_NAME_BYTES] = calloc(FILES_MAX, sizeof *names);
    long n = names ? halo_doctor_probe_list(probe, names, FILES_MAX, "%s", dir) : 0;
    size_t n_models = 0;
    for (long i = 0; i < n; i++)
        if (is_model(names[i])) {
            look_at(probe, dir, names[i], files);
            n_models++;
        }
    free(names);
    return n_models;
}

/* What puts a file into larger pieces: a word of it and the file's path. */
static const char *defragmenter(const char *type)
{
    return strcmp(type, "ext4") == 0    ? "e4defrag"
           : strcmp(type, "xfs") == 0   ? "xfs_fsr -v"
           : strcmp(type, "btrfs") == 0 ? "btrfs filesystem defragment -t 128M"
                                        : NULL;
}

static void say_fragmented(struct halo_doctor_finding *finding, const struct halo_doctor_place *place,
                           const struct files *files)
{
    const struct halo_doctor_extents *worst = &files->worst_extents;
    const char *program = defragmenter(place->mount.type);
    halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                            "%s lies in %llu pieces of %.1f MiB on average: many reads become two requests. As root, "
                            "`%s%s%s/%s%s%s`, with as much free space as the file has.",
                            files->worst, (unsigned long long)worst->n, (double)worst->n_bytes / (double)worst->n / MIB,
                            program ? program : "cp", " ", place->dir, files->worst, program ? "" : " ",
                            program ? "" : "FILE.new");
}

static void say_compressed(struct halo_doctor_finding *finding, const struct halo_doctor_place *place)
{
    const char *type = place->mount.type;
    if (strcmp(type, "btrfs") == 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Model files are compressed by btrfs: direct reads of them go through the page cache "
                                "and the processor. `btrfs property set %s compression none`, `chattr +C %s`, then "
                                "copy each file anew with `cp --reflink=never`.",
                                place->dir, place->dir);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Model files are compressed by %s: direct reads of them go through the page cache and "
                                "the processor. Turn compression off for %s, then copy each file anew with `cp "
                                "--reflink=never`.",
                                type, place->dir);
}

static bool is_mounted_compressed(const struct halo_doctor_place *place)
{
    return strstr(place->mount.options, "compress=") || strstr(place->mount.options, "compress-force=");
}

static void judge(struct halo_doctor_finding *finding, const struct halo_doctor_place *place, const struct files *files,
                  size_t n_models)
{
    const struct halo_doctor_extents *worst = &files->worst_extents;
    if (files->sum.is_compressed || (files->n == 0 && is_mounted_compressed(place)))
        say_compressed(finding, place);
    else if (files->sum.is_encrypted)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "Model files are encrypted by the file system: direct reads of them go through the "
                                "page cache and the processor. Keep models in a folder that is not encrypted.");
    else if (worst->n > 1 && worst->n_bytes / worst->n < LEAST_PIECE)
        say_fragmented(finding, place, files);
    else if (place->crypt[0])
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "The drive is encrypted (dm-crypt, %s): the processor decrypts every byte that is read, "
            "behind a queue of its own. `cryptsetup refresh --perf-no_read_workqueue --persistent "
            "%s` takes the queue away (LUKS2).",
            place->crypt, place->crypt);
    else if (files->n > 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "%zu model file%s in %llu piece%s, of %.0f MiB on average.",
                                files->n, files->n == 1 ? " lies" : "s lie", (unsigned long long)files->sum.n,
                                files->sum.n == 1 ? "" : "s", (double)files->sum.n_bytes / (double)files->sum.n / MIB);
    else if (n_models == 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "No model file lies in %s.", place->dir);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "%s does not tell how files lie on the drive (FIEMAP: %s).",
                                place->mount.type, files->error ? strerror(-files->error) : "no extents");
}

void halo_doctor_look_file_layout(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_place place;
    struct files files = {0};
    if (!halo_doctor_place_find(probe, &place))
        return;
    halo_doctor_finding_read(finding, "%s lies on %s (%s, %.200s)", place.dir, place.mount.device, place.mount.type,
                             place.mount.options);
    size_t n_models = look_at_all(probe, place.dir, &files);
    if (files.n > 0)
        halo_doctor_finding_read(finding, "FIEMAP: %zu files, %llu extents", files.n, (unsigned long long)files.sum.n);
    judge(finding, &place, &files, n_models);
}
