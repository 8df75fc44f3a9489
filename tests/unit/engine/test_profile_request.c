/* test_profile_request.c: `profile` as a request: measured, kept, told again, refused when it does not hold; cancelled
 * while the drive does not answer; loads and replies go on beside it.
 *
 * The engine reads with threads, through pread(2), which the linker hands to this file: a drive that hangs, or that
 * needs time, lies in memory shared with the engine's process.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <cpu/cpu.h>
#include <engine/drive.h>
#include <store/fetch.h>

#include "child.h"

#define M "\"model\":\"fable-Q4_K_M\""
#define QUICK ",\"point_ms\":1"

static char dir[] = "/tmp/halo-test-profile-request-XXXXXX";

static struct drive {
    _Atomic int n_direct;
    atomic_bool stalls;       /* direct reads wait for its end */
    _Atomic int error;        /* direct reads fail with it; 0: they do not */
    _Atomic int millicelsius; /* of the drive; 0: no sensor tells it */
    atomic_bool sensor_stalls;
} * drive;

ssize_t __real_pread64(int fd, void *buffer, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *buffer, size_t n, off_t offset)
{
    if (!(fcntl(fd, F_GETFL) & O_DIRECT))
        return __real_pread64(fd, buffer, n, offset);
    drive->n_direct++;
    while (atomic_load(&drive->stalls))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (drive->error == 0)
        return (ssize_t)n;
    errno = drive->error;
    return -1;
}

int __real_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault);
int __wrap_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault);
int __wrap_halo_fetch_create(const struct halo_fetch_options *options, struct halo_fetch **ret,
                             struct halo_fault *fault)
{
    struct halo_fetch_options threads = *options;
    threads.no_uring = true;
    return __real_halo_fetch_create(&threads, ret, fault);
}

bool __wrap_halo_drives_celsius(const char *root, const struct halo_drives *drives, double *ret);
bool __wrap_halo_drives_celsius(const char *root, const struct halo_drives *drives, double *ret)
{
    while (atomic_load(&drive->sensor_stalls))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    *ret = drive->millicelsius / 1000.0;
    return drive->millicelsius != 0;
}

static int64_t next_id;

__attribute__((format(printf, 2, 3))) static int64_t ask(struct child *c, const char *format, ...)
{
    char rest[512];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof(rest), format, args);
    va_end(args);
    child_send(c, "{\"id\":%lld,%s}", (long long)++next_id, rest);
    return next_id;
}

static void begin(struct child *c)
{
    drive->stalls = false;
    drive->error = 0;
    drive->n_direct = 0;
    drive->millicelsius = 0;
    drive->sensor_stalls = false;
    child_state_dir = dir;
    next_id = 0;
    child_start(c, false, NULL);
}

static void wait_for_reads(struct child *c)
{
    for (int i = 0; drive->n_direct == 0; i++) {
        assert_true(i < CHILD_PATIENCE_MS);
        child_read(c, 1);
    }
}

/* The one file of the folder; n_bytes of its text. */
static size_t record(char path[512], char *text, size_t size)
{
    char folder[128];
    size_t n = 0;
    snprintf(folder, sizeof(folder), "%s/profiles", dir);
    DIR *stream = opendir(folder);
    path[0] = '\0';
    for (struct dirent *entry; stream && (entry = readdir(stream));) {
        if (entry->d_name[0] == '.')
            continue;
        assert_string_equal(path, ""); /* nothing is left of writing it */
        snprintf(path, 512, "%s/%.200s", folder, entry->d_name);
    }
    if (stream)
        closedir(stream);
    FILE *file = path[0] ? fopen(path, "r") : NULL;
    if (file) {
        struct stat facts;
        n = fread(text, 1, size - 1, file);
        assert_int_equal(fstat(fileno(file), &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0600);
        fclose(file);
    }
    text[n] = '\0';
    return n;
}

/* Puts `to` where `from` stands in the record. */
static void tamper(const char *from, const char *to)
{
    char path[512], text[16384];
    assert_true(record(path, text, sizeof(text)) > 0);
    char *at = strstr(text, from);
    assert_non_null(at);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(file);
}

static void measure(struct child *c)
{
    struct child_request *request = child_wait(c, ask(c, "\"type\":\"profile\"," M QUICK));
    if (request->terminal != HALO_EV_PROFILE)
        fail_msg("%s", request->last);
}

static void measured_kept_and_told_again(void **state)
{
    struct child c;
    char path[512], text[16384], figures[8192];
    begin(&c);
    struct child_request *first = child_wait(&c, ask(&c, "\"type\":\"profile\"," M ",\"stored\":true"));
    assert_int_equal(first->error, HALO_ERROR_NOT_FOUND);
    struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
    assert_int_equal(request->terminal, HALO_EV_PROFILE);
    assert_true(request->n_progress > 0);
    assert_null(strstr(request->last, "\"disk_gb_s\":null"));
    assert_null(strstr(request->last, "\"memory_gb_s\":null"));
    assert_non_null(strstr(request->last, "\"copy_gb_s\":25.000,\"launch_us\":12.500"));
    assert_null(strstr(request->last, "not_stored"));
    assert_int_equal(child_number(request, "span_bytes"), 4792416);
    assert_true(record(path, text, sizeof(text)) > 0);
    snprintf(figures, sizeof(figures), "%s", strstr(request->last, "\"machine\""));
    *strstr(figures, "\"drive_celsius\"") = '\0'; /* this one is of now */
    int n_direct = drive->n_direct;
    request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M ",\"stored\":true"));
    assert_int_equal(request->terminal, HALO_EV_PROFILE);
    assert_non_null(strstr(request->last, figures));
    assert_int_equal(drive->n_direct, n_direct);
    assert_int_equal(child_end(&c), 0);
    begin(&c); /* another process */
    request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M ",\"stored\":true"));
    assert_non_null(strstr(request->last, figures));
    assert_int_equal(child_end(&c), 0);
}

/* The sentence is the error of a request for the stored one, and a notice to a plan, which goes on without it. */
static void one_that_does_not_hold_is_refused(void **state)
{
    static const struct {
        const char *from, *to, *what;
    } cases[] = {
        {"\"machine\":\"", "\"machine\":\"Other ", "is for another machine (Other "},
        {"\"file\":\"", "\"file\":\"01234567\",\"x\":\"", "is for another file (01234567, now 2423bc6b)"},
        {"\"drive\":\"", "\"drive\":\"Other ", "is for another drive (Other "},
        {"\"device\":\"", "\"device\":\"hip, was ", "is for another device (hip, was "},
        {"\"kernels\":\"", "\"kernels\":\"00", "is for another kernel file (00"},
        {"\"measured_s\":", "\"measured_s\":1600000000,\"x\":", "days old"},
        {"{\"format\"", "garbage{\"format\"", "is not a JSON object"},
        {"\"grid\":[", "\"grid\":[7,", "\"block_bytes\" is not an integer"},
    };
    struct child c;
    begin(&c);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        measure(&c);
        struct child_request *plan = child_wait(&c, ask(&c, "\"type\":\"plan\"," M));
        assert_int_equal(plan->terminal, HALO_EV_PLAN);
        assert_int_equal(plan->n_notices, 0);
        tamper(cases[i].from, cases[i].to);
        struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M ",\"stored\":true"));
        assert_int_equal(request->terminal, HALO_EV_ERROR);
        if (!strstr(request->message, cases[i].what))
            fail_msg("%s: %s", cases[i].what, request->message);
        plan = child_wait(&c, ask(&c, "\"type\":\"plan\"," M));
        assert_int_equal(plan->terminal, HALO_EV_PLAN);
        assert_int_equal(plan->n_notices, 1);
        assert_non_null(strstr(plan->notice, "\"profile_ignored\""));
    }
    assert_int_equal(child_end(&c), 0);
}

/* A plan takes the figures of the record, not those of the moment. */
static void a_plan_uses_the_stored_one(void **state)
{
    struct child c;
    begin(&c);
    measure(&c);
    tamper("\"memory_bytes_s\":", "\"memory_bytes_s\":123400000000,\"x\":");
    struct child_request *plan = child_wait(&c, ask(&c, "\"type\":\"plan\"," M));
    assert_int_equal(plan->n_notices, 0);
    if (!strstr(plan->last, "123.4 GB/s"))
        fail_msg("%s", plan->last);
    assert_int_equal(child_end(&c), 0);
}

/* The request ends at once, the reads when the drive answers; until then there is no second one. */
static void a_cancel_does_not_wait_for_the_drive(void **state)
{
    struct child c;
    char path[512], text[64];
    begin(&c);
    drive->stalls = true;
    int64_t id = ask(&c, "\"type\":\"profile\"," M QUICK);
    wait_for_reads(&c);
    int64_t cancel = ask(&c, "\"type\":\"cancel\",\"target\":%lld", (long long)id);
    assert_int_equal(child_wait(&c, id)->finish, HALO_WIRE_FINISH_CANCELLED);
    assert_non_null(strstr(child_wait(&c, cancel)->last, "\"was\":\"profile\""));
    assert_int_equal(child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK))->error, HALO_ERROR_QUEUE_FULL);
    drive->stalls = false;
    for (int i = 0;; i++) {
        struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
        if (request->terminal == HALO_EV_PROFILE)
            break;
        assert_int_equal(request->error, HALO_ERROR_QUEUE_FULL);
        assert_true(i < 1000);
        child_read(&c, 10);
    }
    assert_true(record(path, text, sizeof(text)) > 0);
    assert_int_equal(child_end(&c), 0);
}

/* It would take minutes: the load comes between two points, the reply beside them. */
static void loads_and_replies_go_on(void **state)
{
    struct child c;
    begin(&c);
    int64_t id = ask(&c, "\"type\":\"profile\"," M ",\"point_ms\":2000");
    wait_for_reads(&c);
    int64_t load = ask(&c, "\"type\":\"load\"," M);
    assert_int_equal(child_wait(&c, load)->terminal, HALO_EV_LOADED);
    int64_t reply = ask(&c, "\"type\":\"generate\"," M ",\"prompt\":\"a\",\"max_tokens\":20,\"ignore_eos\":true");
    assert_int_equal(child_wait(&c, reply)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(c.requests[id].n_terminal, 0);
    ask(&c, "\"type\":\"cancel\",\"target\":%lld", (long long)id);
    assert_int_equal(child_wait(&c, id)->finish, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(child_end(&c), 0);
}

static void what_cannot_be_measured_is_told(void **state)
{
    struct child c;
    char empty[128], path[512], text[64];
    begin(&c);
    assert_int_equal(child_wait(&c, ask(&c, "\"type\":\"profile\",\"model\":\"none\""))->error, HALO_ERROR_NOT_FOUND);
    snprintf(empty, sizeof(empty), "%s/empty.gguf", dir);
    close(open(empty, O_WRONLY | O_CREAT, 0600));
    struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\",\"model\":\"%s\"", empty));
    assert_int_equal(request->error, HALO_ERROR_LOAD_FAILED);
    assert_non_null(strstr(request->message, "this file has 0"));
    drive->error = EIO;
    request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
    assert_int_equal(request->error, HALO_ERROR_LOAD_FAILED);
    assert_non_null(strstr(request->message, strerror(EIO)));
    assert_int_equal(record(path, text, sizeof(text)), 0); /* nothing is kept of it */
    drive->error = EOPNOTSUPP;
    request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
    assert_int_equal(request->terminal, HALO_EV_PROFILE);
    assert_non_null(strstr(request->last, "\"disk_gb_s\":null"));
    assert_non_null(strstr(request->last, "refuses direct reads"));
    assert_non_null(strstr(request->last, "\"grid\":[]"));
    assert_int_equal(child_end(&c), 0);
}

static void without_a_state_folder_nothing_is_kept(void **state)
{
    struct child c;
    begin(&c);
    assert_int_equal(child_end(&c), 0);
    child_state_dir = NULL;
    child_start(&c, false, NULL);
    struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
    assert_int_equal(request->terminal, HALO_EV_PROFILE);
    assert_non_null(strstr(request->last, "\"not_stored\":\"the profile is not kept: there is no state folder\""));
    assert_int_equal(child_end(&c), 0);
}

/* Asks for stats until the temperature is told, or is not: the io thread is asked when it has nothing to do. */
static struct child_request *stats_with(struct child *c, const char *celsius)
{
    for (int i = 0; i < 1000; i++) {
        struct child_request *stats = child_wait(c, ask(c, "\"type\":\"stats\""));
        const char *told = strstr(stats->last, "\"now_drive_celsius\":");
        if (celsius ? told && strncmp(told + 20, celsius, strlen(celsius)) == 0 : !told)
            return stats;
        child_read(c, 10);
    }
    fail_msg("no temperature of %s", celsius ? celsius : "nothing");
    return NULL;
}

/* All that was read from model files counts, and how warm that makes the drive is told while a model is loaded. */
static void reads_and_heat_are_counted(void **state)
{
    struct child c;
    begin(&c);
    drive->millicelsius = 47850;
    struct child_request *stats = child_wait(&c, ask(&c, "\"type\":\"stats\""));
    assert_int_equal(child_number(stats, "disk_read_bytes"), 0);
    assert_null(strstr(stats->last, "celsius")); /* no model, no drive */
    struct child_request *request = child_wait(&c, ask(&c, "\"type\":\"profile\"," M QUICK));
    assert_non_null(strstr(request->last, "\"drive_celsius\":47.850"));
    long n_read = child_number(request, "read_bytes");
    assert_int_equal(child_wait(&c, ask(&c, "\"type\":\"load\"," M))->terminal, HALO_EV_LOADED);
    stats = stats_with(&c, "47.850");
    long n_load = child_number(stats, "load_bytes");
    assert_true(n_load > 0 && n_read > 0);
    assert_int_equal(child_number(stats, "disk_read_bytes"), n_load + n_read);
    assert_int_equal(child_number(stats, "disk_day_bytes"), n_load + n_read); /* of the first day */
    assert_int_equal(child_number(stats, "streamed_rows"), 0);
    assert_null(strstr(stats->last, "disk_token_bytes"));
    drive->millicelsius = 0;
    stats_with(&c, NULL); /* the last one is old */
    assert_int_equal(child_end(&c), 0);
}

static void a_sensor_that_hangs_costs_its_figure(void **state)
{
    struct child c;
    begin(&c);
    assert_int_equal(child_wait(&c, ask(&c, "\"type\":\"load\"," M))->terminal, HALO_EV_LOADED);
    drive->millicelsius = 50000;
    drive->sensor_stalls = true;
    for (int i = 0; i < 3; i++) {
        struct child_request *stats = child_wait(&c, ask(&c, "\"type\":\"stats\""));
        assert_int_equal(stats->terminal, HALO_EV_STATS);
        assert_null(strstr(stats->last, "celsius"));
    }
    drive->sensor_stalls = false;
    stats_with(&c, "50.000");
    assert_int_equal(child_end(&c), 0);
}

/* Streamed experts are then read with the defaults. */
static void a_load_that_streams_is_told_of_one_that_does_not_hold(void **state)
{
    static const char load[] = "\"type\":\"load\",\"model\":\"fable-moe-Q4_K_M\",\"params\":{\"context\":64,"
                               "\"tiers\":\"stream\"}";
    static char folder[512];
    struct child c;
    if (!child_find_models(folder, sizeof(folder)))
        skip();
    child_device = halo_device_cpu();
    child_dirs[0] = folder;
    child_n_dirs = 1;
    begin(&c);
    struct child_request *request =
        child_wait(&c, ask(&c, "\"type\":\"profile\",\"model\":\"fable-moe-Q4_K_M\"" QUICK));
    assert_int_equal(request->terminal, HALO_EV_PROFILE);
    request = child_wait(&c, ask(&c, "%s", load));
    assert_int_equal(request->terminal, HALO_EV_LOADED);
    assert_null(strstr(request->notice, "profile_ignored"));
    child_wait(&c, ask(&c, "\"type\":\"unload\",\"model\":\"fable-moe-Q4_K_M\""));
    tamper("\"machine\":\"", "\"machine\":\"Other ");
    request = child_wait(&c, ask(&c, "%s", load));
    assert_int_equal(request->terminal, HALO_EV_LOADED);
    assert_non_null(strstr(request->notice, "profile_ignored"));
    assert_non_null(strstr(request->notice, "another machine"));
    assert_int_equal(child_end(&c), 0);
    child_device = NULL;
    child_n_dirs = 0;
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

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, fresh, away)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(measured_kept_and_told_again),
        IN_A_FOLDER(one_that_does_not_hold_is_refused),
        IN_A_FOLDER(a_plan_uses_the_stored_one),
        IN_A_FOLDER(a_cancel_does_not_wait_for_the_drive),
        IN_A_FOLDER(loads_and_replies_go_on),
        IN_A_FOLDER(what_cannot_be_measured_is_told),
        IN_A_FOLDER(without_a_state_folder_nothing_is_kept),
        IN_A_FOLDER(reads_and_heat_are_counted),
        IN_A_FOLDER(a_sensor_that_hangs_costs_its_figure),
        IN_A_FOLDER(a_load_that_streams_is_told_of_one_that_does_not_hold),
    };
    drive = mmap(NULL, sizeof(*drive), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return drive == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
