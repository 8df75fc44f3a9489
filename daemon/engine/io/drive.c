/* drive.c: finds the drives under a file by /sys/dev/block, /sys/class/block and /proc/self/mountinfo. */
#include <engine/drive.h>

#include <dirent.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PATH_BYTES 4352
#define LAYERS_MAX 4 /* of mappings on each other */
#define MOUNTS_BYTES (1u << 18)

/* ---- files of one line ---- */

__attribute__((format(printf, 3, 4))) static bool read_line(char *ret, size_t size, const char *format, ...)
{
    char path[PATH_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    FILE *file = n > 0 && n < (int)sizeof(path) ? fopen(path, "re") : NULL;
    bool got = file && fgets(ret, (int)size, file);
    if (file)
        fclose(file);
    size_t len = got ? strcspn(ret, "\n") : 0;
    while (len > 0 && ret[len - 1] == ' ')
        len--;
    ret[len] = '\0';
    return len > 0;
}

/* The last component but `above` of where a link points. */
__attribute__((format(printf, 4, 5))) static bool link_name(char *ret, size_t size, int above, const char *format, ...)
{
    char path[PATH_BYTES], target[PATH_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    ssize_t len = n > 0 && n < (int)sizeof(path) ? readlink(path, target, sizeof(target) - 1) : -1;
    if (len <= 0)
        return false;
    target[len] = '\0';
    for (char *slash; above > 0 && (slash = strrchr(target, '/')); above--)
        *slash = '\0';
    const char *name = strrchr(target, '/');
    return snprintf(ret, size, "%s", name ? name + 1 : target) < (int)size;
}

/* ---- from a file to its drives ---- */

static void add(struct halo_drives *drives, const char *name)
{
    for (size_t i = 0; i < drives->n; i++)
        if (strcmp(drives->names[i], name) == 0)
            return;
    if (drives->n < HALO_DRIVES_MAX)
        snprintf(drives->names[drives->n++], HALO_DRIVE_NAME_BYTES, "%.*s", HALO_DRIVE_NAME_BYTES - 1, name);
}

static void expand(const char *root, const char *name, struct halo_drives *drives, int depth)
{
    char path[PATH_BYTES], whole[HALO_DRIVE_NAME_BYTES], text[16];
    size_t n = 0;
    snprintf(path, sizeof(path), "%s/sys/class/block/%s/slaves", root, name);
    struct dirent **slaves = NULL;
    int n_slaves = depth < LAYERS_MAX ? scandir(path, &slaves, NULL, alphasort) : 0;
    for (int i = 0; i < n_slaves; i++) {
        if (slaves[i]->d_name[0] != '.') {
            expand(root, slaves[i]->d_name, drives, depth + 1);
            n++;
        }
        free(slaves[i]);
    }
    free(slaves);
    if (n > 0)
        return;
    bool is_part = read_line(text, sizeof(text), "%s/sys/class/block/%s/partition", root, name) &&
                   link_name(whole, sizeof(whole), 1, "%s/sys/class/block/%s", root, name);
    add(drives, is_part ? whole : name);
}

static bool lies_below(const char *path, const char *point)
{
    size_t n = strlen(point);
    return strcmp(point, "/") == 0 || (strncmp(path, point, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/* "\040" is a space in the list of mounts. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        unsigned byte;
        if (at[0] == '\\' && sscanf(at + 1, "%3o", &byte) == 1) {
            *to++ = (char)byte;
            at += 4;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /root /point options [tags] - type device options": the device of the longest mount point above. */
static void device_of_mount(char *text, const char *path, char *ret, size_t size)
{
    size_t best = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *dash = strstr(line, " - "), *point = NULL;
        for (int i = 0; i < 5 && line; i++)
            point = strsep(&line, " ");
        if (!point || !line || !dash || dash < line)
            continue;
        char *after = dash + 3;
        strsep(&after, " ");
        char *device = after ? strsep(&after, " ") : NULL;
        unescape(point);
        if (!device || !lies_below(path, point) || strlen(point) < best)
            continue;
        best = strlen(point);
        unescape(device);
        snprintf(ret, size, "%s", device);
    }
}

static void name_by_mount(const char *root, const char *path, char ret[HALO_DRIVE_NAME_BYTES])
{
    char mounts[PATH_BYTES], device[256] = "";
    char *text = malloc(MOUNTS_BYTES);
    snprintf(mounts, sizeof(mounts), "%s/proc/self/mountinfo", root);
    FILE *file = text ? fopen(mounts, "re") : NULL;
    size_t n = file ? fread(text, 1, MOUNTS_BYTES - 1, file) : 0;
    if (file)
        fclose(file);
    if (n > 0) {
        text[n] = '\0';
        device_of_mount(text, path, device, sizeof(device));
    }
    free(text);
    if (strncmp(device, "/dev/", 5) != 0) /* no device: memory, a network, a pool of its own */
        return;
    if (!link_name(ret, HALO_DRIVE_NAME_BYTES, 0, "%s%s", root, device))
        snprintf(ret, HALO_DRIVE_NAME_BYTES, "%.*s", HALO_DRIVE_NAME_BYTES - 1, strrchr(device, '/') + 1);
}

/* Model and serial number; a drive without either goes by its name and size. */
static void describe(const char *root, const char *name, char *ret, size_t size)
{
    char model[64] = "", serial[64] = "";
    read_line(model, sizeof(model), "%s/sys/class/block/%s/device/model", root, name);
    if (!read_line(serial, sizeof(serial), "%s/sys/class/block/%s/device/serial", root, name) &&
        !read_line(serial, sizeof(serial), "%s/sys/class/block/%s/serial", root, name) &&
        !read_line(serial, sizeof(serial), "%s/sys/class/block/%s/wwid", root, name))
        read_line(serial, sizeof(serial), "%s/sys/class/block/%s/device/wwid", root, name);
    if (model[0] || serial[0]) {
        snprintf(ret, size, "%s%s%s", model, model[0] && serial[0] ? " " : "", serial);
        return;
    }
    bool has_size = read_line(serial, sizeof(serial), "%s/sys/class/block/%s/size", root, name);
    snprintf(ret, size, "%s%s%s%s", name, has_size ? " of " : "", serial, has_size ? " sectors" : "");
}

static void append(char *text, size_t size, const char *more)
{
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n > 0 ? ", " : "", more);
}

void halo_drives_of(const char *root, dev_t device, const char *path, struct halo_drives *ret)
{
    char name[HALO_DRIVE_NAME_BYTES] = "", text[160];
    *ret = (struct halo_drives){0};
    if (!link_name(name, sizeof(name), 0, "%s/sys/dev/block/%u:%u", root, major(device), minor(device)))
        name_by_mount(root, path, name);
    if (name[0])
        expand(root, name, ret, 0);
    for (size_t i = 0; i < ret->n; i++) {
        describe(root, ret->names[i], text, sizeof(text));
        append(ret->text, sizeof(ret->text), text);
        append(ret->label, sizeof(ret->label), ret->names[i]);
    }
}

/* ---- sensors ---- */

/* The first sensor below one of the places where drivers have them. */
static bool sensor(const char *root, const char *name, double *ret)
{
    static const char *const places[] = {"device/hwmon*", "device/hwmon/hwmon*", "device/device/hwmon/hwmon*"};
    bool found = false;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !found; i++) {
        char pattern[PATH_BYTES], text[32], *end;
        glob_t files;
        snprintf(pattern, sizeof(pattern), "%s/sys/class/block/%s/%s/temp1_input", root, name, places[i]);
        if (glob(pattern, 0, NULL, &files) != 0)
            continue;
        if (read_line(text, sizeof(text), "%s", files.gl_pathv[0])) {
            double celsius = (double)strtol(text, &end, 10) / 1000;
            found = end != text && *end == '\0' && celsius > -100 && celsius < 300;
            if (found)
                *ret = celsius;
        }
        globfree(&files);
    }
    return found;
}

bool halo_drives_celsius(const char *root, const struct halo_drives *drives, double *ret)
{
    bool found = false;
    for (size_t i = 0; i < drives->n; i++) {
        double celsius;
        if (sensor(root, drives->names[i], &celsius) && (!found || celsius > *ret)) {
            *ret = celsius;
            found = true;
        }
    }
    return found;
}

/* ---- the machine ---- */

static void processor(const char *root, char *ret, size_t size)
{
    char path[PATH_BYTES], line[512];
    snprintf(path, sizeof(path), "%s/proc/cpuinfo", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        const char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (!value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(ret, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file)
        fclose(file);
}

void halo_machine_text(const char *root, char *ret, size_t size)
{
    char board[64] = "", cpu[80] = "";
    if (!read_line(board, sizeof(board), "%s/sys/class/dmi/id/product_name", root))
        read_line(board, sizeof(board), "%s/sys/class/dmi/id/board_name", root);
    processor(root, cpu, sizeof(cpu));
    snprintf(ret, size, "%s%s%s", board, board[0] && cpu[0] ? ", " : "", cpu);
}
