/* test_daemon_doctor.c: after a death halo-doctor is asked; what it says, or does not, is no danger to the daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "rig.h"
#include "sysroot.h"

static struct rig rig;
static struct client client;

/* `doctor`: its path; NULL: the fake one's; "": not told. */
static void start(const char *mode, const char *doctor, const char *more, bool gpu)
{
    static char setting[64];
    char config[1024];
    if (!doctor)
        doctor = getenv("HALO_TEST_DOCTOR");
    snprintf(config, sizeof(config), "[engine]\nheartbeat_ms = 2000\nfirst_ms = 30000\n%s%s\n%s\n",
             doctor[0] != '\0' ? "doctor = " : "", doctor, more);
    snprintf(setting, sizeof(setting), "FAKE_DOCTOR=%s", mode);
    rig_start(&rig, config, gpu ? (const char *[]){setting, "FAKE_GPU=1", NULL} : (const char *[]){setting, NULL});
    client_connect(&client, &rig);
}

static void stop(void)
{
    client_close(&client);
    rig_stop(&rig);
}

/* An engine hangs in its first step and is replaced; the reply goes on. Whether its notice named the doctor. */
static void hang_once(void)
{
    struct stream stream = {.id = 1, .size = 4};
    client_sendf(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=5 stuck=4 as=%d\",\"emit_token_ids\":true}",
                 (int)HALO_WIRE_ACTIVITY_FIRST);
    streams_read(&client, &stream, 1);
    assert_int_equal(stream.terminal, HALO_EV_DONE);
    assert_int_equal(stream.n_ids, 5);
    halo_ev_finish(&stream.end);
}

/* What `status` says of the doctor; "" when nothing. */
static void status_doctor(char *ret, size_t room)
{
    struct halo_ev ev;
    client_send(&client, "{\"type\":\"status\",\"id\":7}");
    client_terminal(&client, 7, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    snprintf(ret, room, "%s", ev.status.engine.has_doctor ? ev.status.engine.doctor.at : "");
    halo_ev_finish(&ev);
}

static int doctor_runs(char *ret_arguments, size_t room)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof(path), "%s/old", rig.dir);
    FILE *file = fopen(path, "r");
    while (file && fgets(ret_arguments, (int)room, file))
        n++;
    if (file)
        fclose(file);
    return n;
}

static void the_fault_that_fits_is_told(void **state)
{
    char text[512], arguments[256];
    start("findings", NULL, "hip_lib = /opt/other/libamdhip64.so", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor on the engine's death: mes FAIL: install other firmware");
    status_doctor(text, sizeof(text));
    assert_string_equal(text, "mes FAIL: install other firmware");
    assert_int_equal(doctor_runs(arguments, sizeof(arguments)), 1);
    assert_string_equal(arguments, "--json --quick --hip-lib /opt/other/libamdhip64.so\n");
    stop();
}

/* Another death right afterwards is no reason to ask again; who is refused reads what was found. */
static void it_is_asked_once_and_clients_read_it(void **state)
{
    char arguments[256];
    struct halo_ev ev;
    start("findings", NULL, "request_deaths = 2", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor on the engine's death");
    client_send(&client, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=5 poison=1\"}");
    client_terminal(&client, 2, &ev);
    assert_int_equal(ev.type, HALO_EV_ERROR);
    assert_int_equal(ev.error.code, HALO_ERROR_ENGINE_LOST);
    if (!strstr(ev.error.message.at, "(halo-doctor: mes FAIL: install other firmware)"))
        fail_msg("the error says '%s'", ev.error.message.at);
    halo_ev_finish(&ev);
    assert_int_equal(doctor_runs(arguments, sizeof(arguments)), 1);
    stop();
}

static void a_healthy_machine_explains_nothing(void **state)
{
    char text[512];
    start("healthy", NULL, "", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor: 2 findings, none that explains the engine's death");
    status_doctor(text, sizeof(text));
    assert_string_equal(text, "");
    stop();
}

/* Who is refused is told of it where it may help: an engine with a GPU, and nothing found yet. */
static void who_is_refused_is_told_of_it(void **state)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        struct halo_ev ev;
        start("quiet", NULL, "breaker_deaths = 1\nbreaker_ms = 3600000", gpu);
        client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=5 poison=1\"}");
        client_terminal(&client, 1, &ev);
        assert_int_equal(ev.type, HALO_EV_ERROR);
        assert_int_equal(ev.error.code, HALO_ERROR_ENGINE_LOST);
        assert_int_equal(strstr(ev.error.message.at, "`halo-doctor` may know why") != NULL, gpu);
        halo_ev_finish(&ev);
        stop();
    }
}

/* An engine that chose the CPU for want of a GPU did not die of that; one that was told to use it did. */
static void no_gpu_is_a_reason_only_where_one_was_wanted(void **state)
{
    char text[512];
    start("nogpu", NULL, "", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor: 1 findings, none that explains the engine's death");
    stop();
    start("nogpu", NULL, "device = hip", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor on the engine's death: driver FAIL: no GPU here");
    status_doctor(text, sizeof(text));
    assert_string_equal(text, "driver FAIL: no GPU here");
    stop();
}

static void the_cpu_needs_no_doctor(void **state)
{
    char arguments[256];
    start("findings", NULL, "", false);
    hang_once();
    stop();
    start("findings", NULL, "device = cpu", true);
    hang_once();
    assert_int_equal(doctor_runs(arguments, sizeof(arguments)), 0);
    stop();
    start("findings", NULL, "doctor_ms = 0", true);
    hang_once();
    assert_int_equal(doctor_runs(arguments, sizeof(arguments)), 0);
    stop();
}

/* Whether it came to say something within its time is the machine's business. */
static void one_that_hangs_is_killed(void **state)
{
    static const char *const modes[] = {"hang", "deaf"};
    for (size_t i = 0; i < 2; i++) {
        start(modes[i], NULL, "doctor_ms = 500", true);
        hang_once();
        rig_wait_log(&rig, "halo-doctor did not end within 500 ms");
        stop();
    }
}

static void one_that_hangs_does_not_keep_the_daemon(void **state)
{
    char arguments[256];
    start("deaf", NULL, "doctor_ms = 3600000", true);
    hang_once();
    for (uint64_t end = rig_now_ms() + RIG_PATIENCE_MS; doctor_runs(arguments, sizeof(arguments)) == 0; rig_sleep_ms(5))
        assert_true(rig_now_ms() < end);
    stop();
}

static void what_it_says_is_not_trusted(void **state)
{
    static const struct {
        const char *mode, *logged;
    } cases[] = {
        {"rubbish", "halo-doctor: 1 findings, none that explains"},
        {"quiet", "halo-doctor: 0 findings, none that explains"},
        {"flood", "halo-doctor wrote more than 262144 bytes, too many for a report"},
        {"flood", "halo-doctor on the engine's death: memory FAIL: little memory"},
        {"crash", "halo-doctor on the engine's death: mes FAIL: install other firmware"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(cases[i].mode, NULL, "", true);
        hang_once();
        rig_wait_log(&rig, cases[i].logged);
        stop();
    }
}

static void one_that_is_not_there_is_said_so(void **state)
{
    char text[512];
    start("findings", "/nowhere/halo-doctor", "", true);
    hang_once();
    rig_wait_log(&rig, "/nowhere/halo-doctor cannot be run: no such file or directory");
    status_doctor(text, sizeof(text));
    assert_string_equal(text, "");
    stop();
}

static void the_one_beside_halod_is_found(void **state)
{
    char bin[64], path[96], command[1024], halod[512];
    sysroot_dir_create(bin);
    snprintf(halod, sizeof(halod), "%s", getenv("HALO_TEST_HALOD"));
    snprintf(command, sizeof(command), "cp '%s' %s/halod && cp '%s' %s/halo-doctor", halod, bin,
             getenv("HALO_TEST_DOCTOR"), bin);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/halod", bin);
    setenv("HALO_TEST_HALOD", path, 1);
    start("findings", "", "", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor on the engine's death: mes FAIL: install other firmware");
    stop();
    setenv("HALO_TEST_HALOD", halod, 1);
    sysroot_dir_remove(bin);
}

/* The program itself, on a machine with bad firmware: what it writes is what the daemon reads. */
static void the_real_doctor_is_understood(void **state)
{
    char machine[64], bin[64], path[128], text[512], cases[4096];
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(cases, sizeof(cases), "%s/tests/doctor/cases.txt", root ? root : ".");
    struct sysroot_file *file = sysroot_file_read(cases);
    sysroot_dir_create(machine);
    sysroot_dir_create(bin);
    sysroot_make(file, sysroot_file_find(file, "firmware 0x83"), machine);
    sysroot_file_close(file);
    snprintf(path, sizeof(path), "%s/halo-doctor", bin);
    FILE *script = fopen(path, "w");
    assert_non_null(script);
    fprintf(script, "#!/bin/sh\nexec '%s' --sysroot '%s' --wait-ms 60000 \"$@\"\n", getenv("HALO_TEST_HALO_DOCTOR"),
            machine);
    assert_int_equal(fclose(script), 0);
    assert_int_equal(chmod(path, 0755), 0);
    start("", path, "doctor_ms = 120000", true);
    hang_once();
    rig_wait_log(&rig, "halo-doctor on the engine's death: mes FAIL: MES firmware 0x83");
    status_doctor(text, sizeof(text));
    assert_non_null(strstr(text, "Install linux-firmware 20260110 or later"));
    stop();
    sysroot_dir_remove(machine);
    sysroot_dir_remove(bin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fault_that_fits_is_told),
        cmocka_unit_test(it_is_asked_once_and_clients_read_it),
        cmocka_unit_test(a_healthy_machine_explains_nothing),
        cmocka_unit_test(who_is_refused_is_told_of_it),
        cmocka_unit_test(no_gpu_is_a_reason_only_where_one_was_wanted),
        cmocka_unit_test(the_cpu_needs_no_doctor),
        cmocka_unit_test(one_that_hangs_is_killed),
        cmocka_unit_test(one_that_hangs_does_not_keep_the_daemon),
        cmocka_unit_test(what_it_says_is_not_trusted),
        cmocka_unit_test(one_that_is_not_there_is_said_so),
        cmocka_unit_test(the_one_beside_halod_is_found),
        cmocka_unit_test(the_real_doctor_is_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
