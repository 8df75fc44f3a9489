/* sensor.c: clock, power and load of the GPU, from its driver's files. Below the sysroot; a file that is not there
 * is left out. The reads may block in the kernel: in a child only. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "tier_priv.h"

static bool read_text(const char *path, char *ret, size_t room)
{
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(ret, 1, room - 1, file) : 0;
    ret[n] = '\0';
    if (file)
        fclose(file);
    return n > 0;
}

static bool read_number(const char *path, double *ret)
{
    char text[64], *end;
    if (!*path || !read_text(path, text, sizeof(text)))
        return false;
    *ret = strtod(text, &end);
    return end != text;
}

static void find_hwmon(struct halo_doctor_sensor *sensor, const char *card)
{
    char folder[320];
    double number;
    snprintf(folder, sizeof(folder), "%.300s/hwmon", card);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "hwmon", 5) != 0)
            continue;
        snprintf(sensor->clock, sizeof(sensor->clock), "%s/%.64s/freq1_input", folder, entry->d_name);
        snprintf(sensor->power, sizeof(sensor->power), "%s/%.64s/power1_average", folder, entry->d_name);
        if (!read_number(sensor->power, &number))
            snprintf(sensor->power, sizeof(sensor->power), "%s/%.64s/power1_input", folder, entry->d_name);
        break;
    }
    if (dir)
        closedir(dir);
}

void halo_doctor_sensor_find(struct halo_doctor_sensor *sensor, const char *sysroot)
{
    static struct halo_doctor_gpu gpu;
    struct halo_doctor_finding unused;
    char at[HALO_DOCTOR_PATH_BYTES] = "", card[320], path[400];
    struct halo_doctor_probe probe = {.sysroot = sysroot, .finding = &unused, .at = at};
    *sensor = (struct halo_doctor_sensor){0};
    halo_doctor_finding_init(&unused, "sensor", "sensor");
    if (!halo_doctor_gpu_find(&probe, &gpu) || !gpu.dir[0])
        return;
    snprintf(card, sizeof(card), "%.200s%s", sysroot, gpu.dir);
    find_hwmon(sensor, card);
    snprintf(sensor->busy, sizeof(sensor->busy), "%s/gpu_busy_percent", card);
    snprintf(path, sizeof(path), "%s/power_dpm_force_performance_level", card);
    read_text(path, sensor->level, sizeof(sensor->level));
    sensor->level[strcspn(sensor->level, "\n")] = '\0';
}

static void add(struct halo_doctor_range *range, const char *path, double unit)
{
    double number;
    if (!read_number(path, &number))
        return;
    number /= unit;
    range->low = range->n == 0 || number < range->low ? number : range->low;
    range->high = range->n == 0 || number > range->high ? number : range->high;
    range->n++;
}

void halo_doctor_sensor_sample(struct halo_doctor_sensor *sensor)
{
    add(&sensor->clock_mhz, sensor->clock, 1e6);
    add(&sensor->power_w, sensor->power, 1e6);
    add(&sensor->busy_percent, sensor->busy, 1);
}
