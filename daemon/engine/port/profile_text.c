/* profile_text.c: a profile's record as JSON. io/profile_file.c reads it. Pure. */
#include "port/port_priv.h"

static void put_text(struct halo_json *w, const char *key, const char *text)
{
    halo_json_key(w, key);
    halo_json_str(w, text);
}

static void put_number(struct halo_json *w, const char *key, double number)
{
    halo_json_key(w, key);
    halo_json_f64(w, number);
}

static void put_count(struct halo_json *w, const char *key, uint64_t count)
{
    halo_json_key(w, key);
    halo_json_u64(w, count);
}

void halo_profile_write(struct halo_json *w, const struct halo_profile_record *record)
{
    const struct halo_profile *profile = &record->profile;
    halo_json_object_begin(w);
    put_count(w, "format", 1);
    put_text(w, "machine", profile->machine);
    put_text(w, "device", profile->device);
    put_text(w, "kernels", profile->kernels);
    put_text(w, "file", profile->file);
    put_text(w, "drive", profile->drive);
    put_count(w, "measured_s", (uint64_t)profile->measured_s);
    put_number(w, "memory_bytes_s", profile->memory_bytes_s);
    put_number(w, "copy_bytes_s", profile->copy_bytes_s);
    put_number(w, "launch_s", profile->launch_s);
    put_number(w, "disk_bytes_s", profile->disk_bytes_s);
    put_count(w, "disk_block_bytes", profile->disk_block_bytes);
    put_count(w, "disk_depth", profile->disk_depth);
    put_number(w, "disk_latency_s", profile->disk_latency_s);
    put_count(w, "span_bytes", record->span_bytes);
    put_count(w, "read_bytes", record->read_bytes);
    put_text(w, "io", record->io);
    put_text(w, "fault", record->fault);
    halo_json_key(w, "grid");
    halo_json_array_begin(w);
    for (uint32_t i = 0; i < record->n_points; i++) {
        halo_json_object_begin(w);
        put_count(w, "block_bytes", record->points[i].block_bytes);
        put_count(w, "depth", record->points[i].depth);
        put_number(w, "bytes_s", record->points[i].bytes_s);
        put_number(w, "latency_s", record->points[i].latency_s);
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
    halo_json_object_end(w);
}

void halo_profile_write_grid(struct halo_json *w, const struct halo_profile_record *record)
{
    halo_json_array_begin(w);
    for (uint32_t i = 0; i < record->n_points; i++) {
        halo_json_object_begin(w);
        put_count(w, "block_bytes", record->points[i].block_bytes);
        put_count(w, "depth", record->points[i].depth);
        halo_json_key(w, "gb_s");
        halo_json_fix3(w, record->points[i].bytes_s / 1e9);
        halo_json_key(w, "latency_us");
        halo_json_fix3(w, record->points[i].latency_s * 1e6);
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
}
