/* test_profile.c: the knee of a grid, records that hold and those that do not, their files, and the drives under a
 * file on machines made for it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/folder.h>
#include <engine/drive.h>
#include <engine/profile.h>

#include "child.h"
#include "port/port_priv.h"

#define KIB 1024u
#define NOW 1800000000

/* ---- the knee ---- */

static void knee_is(const struct halo_profile_point *points, uint32_t n, uint32_t block, uint32_t depth)
{
    const struct halo_profile_point *knee = halo_profile_knee(points, n);
    assert_non_null(knee);
    assert_int_equal(knee->block_bytes, block);
    assert_int_equal(knee->depth, depth);
}

static void the_knee_has_the_least_in_flight(void **state)
{
    const struct halo_profile_point rising[] = {
        {128 * KIB, 1, 1.2e9, 0},  {128 * KIB, 8, 5.0e9, 0},   {512 * KIB, 8, 6.0e9, 0},
        {512 * KIB, 16, 7.0e9, 0}, {1024 * KIB, 16, 7.1e9, 0}, {1024 * KIB, 64, 7.2e9, 0},
    };
    knee_is(rising, 6, 512 * KIB, 16); /* 97 % of the best with an eighth in flight */
    knee_is(rising, 3, 512 * KIB, 8);
    const struct halo_profile_point equal[] = {
        {1024 * KIB, 4, 1e9, 0}, {256 * KIB, 16, 1e9, 0}, {512 * KIB, 8, 1e9, 0}};
    knee_is(equal, 3, 256 * KIB, 16); /* the same bytes: the smaller blocks */
    const struct halo_profile_point edge[] = {{4 * KIB, 1, 0.949e9, 0}, {4 * KIB, 2, 0.95e9, 0}, {4 * KIB, 4, 1e9, 0}};
    knee_is(edge, 3, 4 * KIB, 2);
    const struct halo_profile_point falling[] = {{128 * KIB, 4, 3e9, 0}, {128 * KIB, 8, 2e9, 0}, {128 * KIB, 16, 0, 0}};
    knee_is(falling, 3, 128 * KIB, 4);
}

/* A drive whose rate rises to 2 GB/s, as one measurement of a point shows it: up to 3 % off, every eighth 15 % below
 * and every eighth 15 % above. */
static uint32_t noise;

static double draw(void)
{
    noise = noise * 1664525u + 1013904223u;
    return (double)(noise >> 8) / (1u << 24);
}

static void measured(struct halo_profile_point *point)
{
    double in_flight = (double)point->block_bytes * point->depth / (1 << 20);
    double spike = draw();
    point->bytes_s = 2e9 * in_flight / (in_flight + 0.12) * (0.97 + 0.06 * draw());
    point->bytes_s *= spike < 0.125 ? 1.15 : spike < 0.25 ? 0.85 : 1;
}

static double true_rate(const struct halo_profile_point *point)
{
    return 2e9 / (1 + 0.12 / ((double)point->block_bytes * point->depth / (1 << 20)));
}

/* Of the knee that a profile finds by single measurements, or as the prefetch thread does. */
static double knee_of(uint32_t seed, bool single)
{
    struct halo_profile_point points[HALO_PROFILE_POINTS_MAX], finalists[HALO_PROFILE_CONTENDERS];
    uint32_t contenders[HALO_PROFILE_POINTS_MAX], n = 0;
    noise = seed * 2654435761u;
    for (uint32_t depth = 1; depth <= 64; depth *= 2)
        for (uint32_t block = 128 * KIB; block <= 2048 * KIB; block *= 2) {
            points[n] = (struct halo_profile_point){.block_bytes = block, .depth = depth};
            measured(&points[n++]);
        }
    if (single)
        return true_rate(halo_profile_knee(points, n));
    uint32_t n_contenders = halo_profile_contenders(points, n, contenders);
    for (uint32_t i = 0; i < n_contenders; i++) {
        struct halo_profile_point all[HALO_PROFILE_ROUNDS];
        for (uint32_t k = 0; k < HALO_PROFILE_ROUNDS; k++) {
            all[k] = points[contenders[i]];
            if (k > 0)
                measured(&all[k]);
        }
        finalists[i] = halo_profile_median(all);
    }
    const struct halo_profile_point *knee = halo_profile_knee(finalists, n_contenders);
    for (int tries = 0; tries < 4; tries++) { /* for longer: the mean of six */
        struct halo_profile_point *point = &finalists[knee - finalists], once = *point;
        point->bytes_s = 0;
        for (int i = 0; i < 6; i++, point->bytes_s += once.bytes_s / 6)
            measured(&once);
        const struct halo_profile_point *then = halo_profile_knee(finalists, n_contenders);
        if (then == knee)
            break;
        knee = then;
    }
    return true_rate(knee);
}

/* The true rates of the knees of many profiles of one drive. */
static void two_profiles_of_a_drive_agree(void **state)
{
    double least[2] = {1e12, 1e12}, most[2] = {0, 0};
    for (uint32_t seed = 1; seed <= 200; seed++)
        for (uint32_t i = 0; i < 2; i++) {
            double rate = knee_of(seed, i == 0);
            least[i] = rate < least[i] ? rate : least[i];
            most[i] = rate > most[i] ? rate : most[i];
        }
    print_message("single: %.2f to %.2f GB/s, medians: %.2f to %.2f\n", least[0] / 1e9, most[0] / 1e9, least[1] / 1e9,
                  most[1] / 1e9);
    assert_true(least[1] > 0.93 * most[1]);
    assert_true(least[0] < 0.93 * most[0]);
}

static void without_a_rate_there_is_no_knee(void **state)
{
    const struct halo_profile_point nothing[] = {{128 * KIB, 4, 0, 0}, {128 * KIB, 8, 0, 0}};
    assert_null(halo_profile_knee(nothing, 2));
    assert_null(halo_profile_knee(NULL, 0));
}

/* ---- whether one holds ---- */

static const struct halo_profile here = {
    .machine = "Board, Processor",
    .device = "cpu, 2 threads",
    .kernels = "0123456789abcdef",
    .file = "fedcba9876543210",
    .drive = "Drive S1",
};

static struct halo_profile_record sample(void)
{
    struct halo_profile_record record = {.profile = here, .span_bytes = 5, .read_bytes = 6, .n_points = 2};
    record.profile.measured_s = NOW;
    record.profile.memory_bytes_s = 215e9;
    record.profile.launch_s = 1.25e-5;
    record.profile.disk_bytes_s = 6543210987.5;
    record.profile.disk_block_bytes = 512 * KIB;
    record.profile.disk_depth = 16;
    record.profile.disk_latency_s = 1e-4;
    record.points[0] = (struct halo_profile_point){128 * KIB, 1, 1.5e9, 8.7e-5};
    record.points[1] = (struct halo_profile_point){512 * KIB, 16, 6.5e9, 1e-3};
    strcpy(record.io, "threads, O_DIRECT; \"io_uring\" \xc3\xa4 is refused");
    strcpy(record.fault, "why\n");
    return record;
}

static void refused(const struct halo_profile *stored, int64_t now_s, const char *what)
{
    struct halo_fault fault = {0};
    assert_false(halo_profile_holds(stored, &here, "fable", now_s, &fault));
    if (!strstr(fault.text, what) || !strstr(fault.text, "haloctl profile fable"))
        fail_msg("%s", fault.text);
}

static void a_profile_holds_where_it_was_measured(void **state)
{
    struct halo_profile_record record = sample();
    struct halo_profile *p = &record.profile;
    struct halo_fault fault = {0};
    const int64_t day = 86400;
    assert_true(halo_profile_holds(p, &here, "fable", NOW, &fault));
    assert_true(halo_profile_holds(p, &here, "fable", NOW + 30 * day, &fault));
    refused(p, NOW + 31 * day, "31 days old");
    refused(p, NOW - 3 * day, "from the future");
    strcpy(p->drive, "Drive S2");
    refused(p, NOW, "another drive (Drive S2, now Drive S1)");
    *p = sample().profile;
    p->file[0] = 'x';
    refused(p, NOW, "another file (xedcba98, now fedcba98)");
    *p = sample().profile;
    p->kernels[0] = '\0';
    refused(p, NOW, "another kernel file (none, now 01234567)");
    *p = sample().profile;
    strcpy(p->device, "hip");
    refused(p, NOW, "another device (hip, now cpu, 2 threads)");
    *p = sample().profile;
    strcpy(p->machine, "Board, Other processor");
    refused(p, NOW, "another machine (Board, Other processor, now Board, Processor)");
    memset(p->machine, 'm', sizeof(p->machine) - 1); /* what is long is cut, what to type is not */
    refused(p, NOW, "another machine");
}

/* ---- texts ---- */

static void write_text(const struct halo_profile_record *record, struct halo_json *w)
{
    halo_json_init(w);
    halo_profile_write(w, record);
    assert_int_equal(w->error, 0);
}

static void a_record_reads_back_as_it_was_written(void **state)
{
    struct halo_profile_record record = sample(), back;
    struct halo_fault fault = {0};
    struct halo_json w;
    write_text(&record, &w);
    assert_int_equal(halo_profile_parse(w.at, w.len, &back, &fault), 0);
    assert_memory_equal(&back.profile, &record.profile, sizeof(back.profile));
    assert_memory_equal(back.points, record.points, sizeof(back.points));
    assert_int_equal(back.n_points, 2);
    assert_int_equal(back.span_bytes, 5);
    assert_int_equal(back.read_bytes, 6);
    assert_string_equal(back.io, record.io);
    assert_string_equal(back.fault, record.fault);
    halo_json_finish(&w);
}

/* Every prefix, and every byte set to another: a record or a refusal with a reason. */
static void garbage_is_no_record(void **state)
{
    struct halo_profile_record record = sample(), back;
    struct halo_json w;
    write_text(&record, &w);
    for (size_t n = 0; n < w.len; n++) {
        struct halo_fault fault = {0};
        assert_true(halo_profile_parse(w.at, n, &back, &fault) < 0);
        assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
    }
    for (size_t at = 0; at < w.len; at++)
        for (int c = 0; c < 256; c += 51) {
            struct halo_fault fault = {0};
            char was = w.at[at];
            w.at[at] = (char)c;
            int r = halo_profile_parse(w.at, w.len, &back, &fault);
            assert_true(r == 0 || (fault.code == HALO_FAULT_LOAD_FAILED && fault.text[0]));
            assert_true(back.n_points <= HALO_PROFILE_POINTS_MAX);
            w.at[at] = was;
        }
    halo_json_finish(&w);
}

static void values_out_of_range_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *what;
    } cases[] = {
        {"\"format\":1", "\"format\":2", "\"format\" is not 1"},
        {"\"depth\":1,", "\"depth\":-1,", "\"depth\" is not an integer in range"},
        {"\"disk_depth\":16", "\"disk_depth\":16.5", "\"disk_depth\""},
        {"\"disk_depth\":16", "\"disk_depth\":129", "\"disk_depth\" is not an integer in range"},
        {"\"disk_block_bytes\":524288", "\"disk_block_bytes\":524289", "\"disk_block_bytes\" is not a multiple"},
        {"\"disk_block_bytes\":524288", "\"disk_block_bytes\":33554432", "\"disk_block_bytes\" is not an integer"},
        {"\"launch_s\":", "\"launch_s\":1e400,\"x\":", "not a JSON object"},
        {"\"launch_s\":", "\"launch_s\":-1,\"x\":", "\"launch_s\" is not a number in range"},
        {"\"machine\":", "\"machine\":7,\"x\":", "\"machine\" is not a text"},
        {"\"machine\":", "\"machine\":\"\\u0000\",\"x\":", "not a JSON object"},
        {"\"grid\":", "\"grid\":{},\"x\":", "\"grid\" is not a list"},
        {"\"io\":", "\"machine\":\"\",\"io\":", "not a JSON object"}, /* twice */
    };
    struct halo_profile_record record = sample(), back;
    struct halo_json w;
    write_text(&record, &w);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct halo_fault fault = {0};
        char text[4096], whole[4096];
        snprintf(whole, sizeof(whole), "%.*s", (int)w.len, w.at);
        char *at = strstr(whole, cases[i].from);
        assert_non_null(at);
        int n =
            snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole), whole, cases[i].to, at + strlen(cases[i].from));
        assert_true(halo_profile_parse(text, (size_t)n, &back, &fault) < 0);
        if (!strstr(fault.text, cases[i].what))
            fail_msg("%s: %s", cases[i].to, fault.text);
    }
    halo_json_finish(&w);
}

/* ---- files ---- */

#define CPU16 "cpu, 16 threads"

static char dir[] = "/tmp/halo-test-profile-XXXXXX";

static void put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *text, const char *format, ...)
{
    char path[512], folder[512];
    va_list args;
    va_start(args, format);
    int n = snprintf(path, sizeof(path), "%s", dir);
    vsnprintf(path + n, sizeof(path) - (size_t)n, format, args);
    va_end(args);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(halo_folder_make(folder, 0700), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void point(const char *target, const char *link)
{
    char path[512], folder[512];
    snprintf(path, sizeof(path), "%s%s", dir, link);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(halo_folder_make(folder, 0700), 0);
    assert_int_equal(symlink(target, path), 0);
}

static int fresh(void **state)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int away(void **state)
{
    return child_remove_folder(dir);
}

static void a_record_is_kept_for_each_path(void **state)
{
    struct halo_profile_record record = sample(), back;
    struct halo_fault fault = {0};
    struct halo_json w;
    write_text(&record, &w);
    assert_int_equal(halo_profile_load(dir, "/models/a.gguf", CPU16, &back, &fault), -ENOENT);
    assert_int_equal(halo_profile_store(dir, "/models/a.gguf", CPU16, w.at, w.len, &fault), 0);
    assert_int_equal(halo_profile_store(dir, "/models/a.gguf", CPU16, w.at, w.len, &fault), 0); /* replaces it */
    assert_int_equal(halo_profile_load(dir, "/models/a.gguf", CPU16, &back, &fault), 0);
    assert_memory_equal(&back.profile, &record.profile, sizeof(back.profile));
    assert_int_equal(halo_profile_load(dir, "/models/b.gguf", CPU16, &back, &fault), -ENOENT);
    assert_int_equal(halo_profile_load(NULL, "/models/a.gguf", CPU16, &back, &fault), -ENOENT);
    assert_true(halo_profile_store(NULL, "/models/a.gguf", CPU16, w.at, w.len, &fault) < 0);
    assert_non_null(strstr(fault.text, "no state folder"));
    halo_json_finish(&w);
}

/* The file that was written last, whose time is today's, becomes so old. */
static void stamp(time_t seconds)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/profiles", dir);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat facts;
        assert_int_equal(fstatat(dirfd(folder), entry->d_name, &facts, 0), 0);
        const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
        if (S_ISREG(facts.st_mode) && facts.st_mtim.tv_sec > 1000000)
            assert_int_equal(utimensat(dirfd(folder), entry->d_name, times, 0), 0);
    }
    closedir(folder);
}

/* Two numbers of threads on one machine have a record each; who has none gets the newest, and is told what differs. */
static void a_record_is_kept_for_each_device(void **state)
{
    static const char *const devices[] = {"cpu, 4 threads", "cpu, 8 threads", "hip"};
    struct halo_profile_record record = sample(), back;
    struct halo_fault fault = {0};
    for (int i = 0; i < 3; i++) {
        struct halo_json w;
        snprintf(record.profile.device, sizeof(record.profile.device), "%s", devices[i]);
        record.profile.memory_bytes_s = 1e9 * (i + 1);
        write_text(&record, &w);
        assert_int_equal(halo_profile_store(dir, "/d.gguf", devices[i], w.at, w.len, &fault), 0);
        halo_json_finish(&w);
        stamp(i == 1 ? 3000 : 1000 + i);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(halo_profile_load(dir, "/d.gguf", devices[i], &back, &fault), 0);
        assert_string_equal(back.profile.device, devices[i]);
        assert_true(back.profile.memory_bytes_s == 1e9 * (i + 1));
    }
    assert_int_equal(halo_profile_load(dir, "/d.gguf", "", &back, &fault), 0); /* a load, to which the drive matters */
    assert_string_equal(back.profile.device, "cpu, 8 threads");
    assert_int_equal(halo_profile_load(dir, "/d.gguf", here.device, &back, &fault), 0);
    refused(&back.profile, NOW, "another device (cpu, 8 threads, now cpu, 2 threads)");
}

/* Another user could have written what others can write. */
static void a_file_that_others_can_reach_is_not_read(void **state)
{
    struct halo_profile_record record = sample(), back;
    struct halo_fault fault = {0};
    struct halo_json w;
    char command[600];
    write_text(&record, &w);
    assert_int_equal(halo_profile_store(dir, "/m.gguf", CPU16, w.at, w.len, &fault), 0);
    snprintf(command, sizeof(command), "chmod 0644 %s/profiles/*.json", dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(halo_profile_load(dir, "/m.gguf", CPU16, &back, &fault), -EIO);
    assert_non_null(strstr(fault.text, "other users can access it"));
    assert_int_equal(strncmp(fault.text, "profiles/", 9), 0); /* clients read it: not the daemon's folder */
    snprintf(command, sizeof(command), "chmod 0600 %s/profiles/*.json; truncate -s 70000 %s/profiles/*.json", dir, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(halo_profile_load(dir, "/m.gguf", CPU16, &back, &fault), -EIO);
    assert_non_null(strstr(fault.text, "65536"));
    halo_json_finish(&w);
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
    struct halo_fault fault = {0};
    put("", "/profiles"); /* a file where the folder should be */
    assert_true(halo_profile_store(dir, "/m.gguf", CPU16, "{}", 2, &fault) < 0);
    assert_non_null(strstr(fault.text, "not kept"));
}

/* ---- drives ---- */

#define NVME "/sys/devices/pci0000:00/0000:c1:00.0/nvme/nvme0"

static void make_nvme(void)
{
    put("2\n", NVME "/nvme0n1/nvme0n1p2/partition");
    put("Samsung SSD 990 PRO 2TB                 \n", NVME "/model");
    put("S7KHNJ0X100001      \n", NVME "/serial");
    put("47850\n", NVME "/hwmon3/temp1_input");
    point("../../nvme0", NVME "/nvme0n1/device");
    point("../../devices/pci0000:00/0000:c1:00.0/nvme/nvme0/nvme0n1", "/sys/class/block/nvme0n1");
    point("../../devices/pci0000:00/0000:c1:00.0/nvme/nvme0/nvme0n1/nvme0n1p2", "/sys/class/block/nvme0n1p2");
    point("../../devices/pci0000:00/0000:c1:00.0/nvme/nvme0/nvme0n1/nvme0n1p2", "/sys/dev/block/259:2");
}

static void a_partition_counts_as_its_drive(void **state)
{
    struct halo_drives drives;
    double celsius;
    make_nvme();
    halo_drives_of(dir, makedev(259, 2), "/models/a.gguf", &drives);
    assert_int_equal(drives.n, 1);
    assert_string_equal(drives.names[0], "nvme0n1");
    assert_string_equal(drives.text, "Samsung SSD 990 PRO 2TB S7KHNJ0X100001");
    assert_true(halo_drives_celsius(dir, &drives, &celsius));
    assert_true(celsius == 47.85);
}

static void an_array_counts_as_its_drives(void **state)
{
    struct halo_drives drives;
    double celsius;
    make_nvme();
    put("vol\n", "/sys/class/block/dm-0/dm/name");
    put("", "/sys/class/block/dm-0/slaves/md0");
    put("", "/sys/class/block/md0/slaves/nvme0n1p2");
    put("", "/sys/class/block/md0/slaves/sdb");
    put("4000\n", "/sys/class/block/sdb/size");
    put("61000\n", "/sys/class/block/sdb/device/hwmon/hwmon7/temp1_input");
    point("../../devices/virtual/block/dm-0", "/sys/dev/block/253:0");
    halo_drives_of(dir, makedev(253, 0), "/models/a.gguf", &drives);
    assert_int_equal(drives.n, 2);
    assert_string_equal(drives.label, "nvme0n1, sdb");
    assert_string_equal(drives.text, "Samsung SSD 990 PRO 2TB S7KHNJ0X100001, sdb of 4000 sectors");
    assert_true(halo_drives_celsius(dir, &drives, &celsius));
    assert_true(celsius == 61); /* the hottest */
}

/* Mappings that lie on each other in a circle, as a broken tree may say. */
static void a_circle_of_mappings_ends(void **state)
{
    struct halo_drives drives;
    put("", "/sys/class/block/dm-0/slaves/dm-1");
    put("", "/sys/class/block/dm-1/slaves/dm-0");
    point("../../x/dm-0", "/sys/dev/block/253:0");
    halo_drives_of(dir, makedev(253, 0), "/a", &drives);
    assert_int_equal(drives.n, 1);
}

/* btrfs: the device number of a file is the file system's own. */
static void a_subvolume_is_found_by_its_mount(void **state)
{
    struct halo_drives drives;
    make_nvme();
    put("22 1 0:30 /@ / rw,relatime - btrfs /dev/mapper/my\\040disk rw\n"
        "30 22 0:30 /@models /srv/big\\040models rw - btrfs /dev/nvme0n1p2 rw,subvol=/@models\n"
        "31 22 0:40 / /srv/net rw - nfs4 server:/x rw\n"
        "garbage\n",
        "/proc/self/mountinfo");
    point("../dm-9", "/dev/mapper/my disk");
    halo_drives_of(dir, makedev(0, 55), "/srv/big models/a.gguf", &drives);
    assert_string_equal(drives.label, "nvme0n1");
    halo_drives_of(dir, makedev(0, 30), "/srv/big models2/a.gguf", &drives);
    assert_string_equal(drives.label, "dm-9");
    halo_drives_of(dir, makedev(0, 40), "/srv/net/a.gguf", &drives);
    assert_int_equal(drives.n, 0);
    assert_string_equal(drives.text, "");
}

static void a_machine_that_tells_nothing(void **state)
{
    struct halo_drives drives;
    double celsius = 7;
    char text[128];
    halo_drives_of(dir, makedev(8, 1), "/a", &drives);
    assert_int_equal(drives.n, 0);
    assert_false(halo_drives_celsius(dir, &drives, &celsius));
    halo_machine_text(dir, text, sizeof(text));
    assert_string_equal(text, "");
    make_nvme();
    put("hot\n", NVME "/hwmon3/temp1_input");
    halo_drives_of(dir, makedev(259, 2), "/a", &drives);
    assert_false(halo_drives_celsius(dir, &drives, &celsius));
    put("Desktop (AMD Ryzen AI Max 300 Series)\n", "/sys/class/dmi/id/product_name");
    put("processor\t: 0\nmodel name\t: AMD RYZEN AI MAX+ 395\nmodel name\t: other\n", "/proc/cpuinfo");
    halo_machine_text(dir, text, sizeof(text));
    assert_string_equal(text, "Desktop (AMD Ryzen AI Max 300 Series), AMD RYZEN AI MAX+ 395");
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, fresh, away)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_knee_has_the_least_in_flight),
        cmocka_unit_test(two_profiles_of_a_drive_agree),
        cmocka_unit_test(without_a_rate_there_is_no_knee),
        cmocka_unit_test(a_profile_holds_where_it_was_measured),
        cmocka_unit_test(a_record_reads_back_as_it_was_written),
        cmocka_unit_test(garbage_is_no_record),
        cmocka_unit_test(values_out_of_range_are_refused),
        IN_A_FOLDER(a_record_is_kept_for_each_path),
        IN_A_FOLDER(a_record_is_kept_for_each_device),
        IN_A_FOLDER(a_file_that_others_can_reach_is_not_read),
        IN_A_FOLDER(what_cannot_be_written_leaves_nothing),
        IN_A_FOLDER(a_partition_counts_as_its_drive),
        IN_A_FOLDER(an_array_counts_as_its_drives),
        IN_A_FOLDER(a_circle_of_mappings_ends),
        IN_A_FOLDER(a_subvolume_is_found_by_its_mount),
        IN_A_FOLDER(a_machine_that_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
