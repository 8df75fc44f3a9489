/* test_doctor_tiers.c: the tiers of halo-doctor over the emulated GPU: each passes on a healthy one, and each hang,
 * error, crash and wrong result is recognised, with the tier, the place and the cause.
 *
 * Each case is a process of its own, and all wait for their deadlines at once. Arguments: the engine and the model.
 */
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
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tiers/tier_priv.h"
#include "tiers/tiers.h"

#define HANG_MS 8000    /* of a tier that hangs: time to come to the place */
#define SLOW_MS 60000   /* the same where that was not enough */
#define AMPLE_MS 300000 /* of one that does not */

static const char *engine, *model;
static char root[] = "/tmp/halo-tiers-XXXXXX";

struct tier_case {
    const char *what;
    int tier;           /* that alone is run */
    const char *script; /* of the emulator */
    bool hangs;
    enum halo_doctor_verdict verdict;
    const char *says[3];                                      /* in its sentence: place, cause */
    const char *either[2];                                    /* one of them is in it, and not the other */
    const char *hip_lib, *engine, *model, *kernels, *sysroot; /* instead of the good ones; sysroot: below the root */
};

/* What is counted: tier 4 launches embed and rmsnorm; tier 5 embed, quantize, gemv_q8_0, gemv_f16, then embed,
 * half_rows, gemm_q8_0, gemm_f16. */
/* clang-format off */
static const struct tier_case cases[] = {
    {"0 good", 0, "", false, HALO_DOCTOR_PASS, {"gfx1151"}},
    {"0 no module", 0, "", false, HALO_DOCTOR_FAIL, {"/sys/module/amdgpu is not there", "no amdgpu driver"},
     .sysroot = "none"},
    {"0 no kfd", 0, "", false, HALO_DOCTOR_FAIL, {"/dev/kfd is not there", "no compute device"}, .sysroot = "no-kfd"},
    {"0 no node", 0, "", false, HALO_DOCTOR_FAIL, {"no GPU is listed", "firmware"}, .sysroot = "no-node"},
    {"0 no render node", 0, "", false, HALO_DOCTOR_FAIL, {"renderD129 is not there", "pass in /dev/dri"},
     .sysroot = "no-render"},
    {"0 no minor", 0, "", false, HALO_DOCTOR_FAIL, {"nodes/1 names no render device"}, .sysroot = "no-minor"},
    {"0 a device that is a folder", 0, "", false, HALO_DOCTOR_FAIL, {"/dev/kfd cannot be opened"}, .sysroot = "folder"},

    {"1 good", 1, "", false, HALO_DOCTOR_PASS, {"sees host"}},
    {"1 hang in init", 1, "hipInit:1:hang", true, HALO_DOCTOR_FAIL, {"calling hipInit", "wedged", "Reboot"}},
    {"1 hang in the count", 1, "hipGetDeviceCount:1:hang", true, HALO_DOCTOR_FAIL, {"counting GPUs", "wedged"}},
    {"1 no device", 1, "hipGetDeviceCount:1:error=100", false, HALO_DOCTOR_FAIL,
     {"hipGetDeviceCount: no device (100)", "HIP_VISIBLE_DEVICES"}},
    {"1 no device, as HIP 5 says it", 1, "hipInit:1:error=101", false, HALO_DOCTOR_FAIL,
     {"hipInit: invalid device (101)", "HIP_VISIBLE_DEVICES"}},
    {"1 crash", 1, "hipInit:1:crash", false, HALO_DOCTOR_FAIL, {"killed by signal", "hipInit", "released ROCm"}},
    {"1 no library", 1, "", false, HALO_DOCTOR_FAIL, {"/nonexistent.so", "Install AMD's ROCm"},
     .hip_lib = "/nonexistent.so"},
    {"1 another library", 1, "", false, HALO_DOCTOR_FAIL, {"lacks functions: hipInit", "not AMD's HIP runtime"},
     .hip_lib = "libm.so.6"},

    {"2 good", 2, "", false, HALO_DOCTOR_PASS, {"has the kernels"}},
    {"2 hang of a stream", 2, "hipStreamCreateWithFlags:1:hang", true, HALO_DOCTOR_FAIL,
     {"making a stream", "no queue"}},
    {"2 lost completion", 2, "hipEventRecord:1:stall", true, HALO_DOCTOR_FAIL,
     {"an event of an empty stream", "lost completion", "HSA_ENABLE_INTERRUPT=0"}},
    {"2 hang of the kernels", 2, "hipModuleLoadData:1:hang", true, HALO_DOCTOR_FAIL, {"loading the kernels", "wedged"}},
    {"2 no memory for a stream", 2, "hipStreamCreateWithFlags:1:oom", false, HALO_DOCTOR_FAIL,
     {"making a stream: out of memory (2)", "ttm.pages_limit"}},
    {"2 code for another chip", 2, "hipModuleLoadData:1:error=209", false, HALO_DOCTOR_FAIL,
     {"no code for this GPU (209)", "HSA_OVERRIDE_GFX_VERSION"}},
    {"2 no kernels", 2, "", false, HALO_DOCTOR_FAIL, {"no kernels for host", "HALO_KERNEL_DIR"},
     .kernels = "/nonexistent"},

    {"3 good", 3, "", false, HALO_DOCTOR_PASS, {"came back unchanged"}},
    {"3 hang in the upload", 3, "hipMemcpyAsync:1:stall", true, HALO_DOCTOR_FAIL,
     {"uploading 32 MiB from pageable memory", "pins the pages"}},
    {"3 hang in the download", 3, "hipMemcpyAsync:2:hang", true, HALO_DOCTOR_FAIL,
     {"downloading 32 MiB to pageable memory", "pins the pages"}},
    {"3 hang in the pinned upload", 3, "hipMemcpyAsync:3:stall", true, HALO_DOCTOR_FAIL,
     {"uploading 32 MiB from pinned memory", "lost completion"}},
    {"3 hang for memory", 3, "hipMalloc:1:hang", true, HALO_DOCTOR_FAIL,
     {"taking 32 MiB of the GPU's", "grants no memory"}},
    {"3 no memory", 3, "hipMalloc:1:oom", false, HALO_DOCTOR_FAIL, {"taking the GPU's memory", "ttm.pages_limit"}},
    {"3 fault", 3, "hipMemcpyAsync:1:lost", false, HALO_DOCTOR_FAIL,
     {"uploading 32 MiB from pageable memory: launch failed (719)", "linux-firmware"}},
    {"3 crash", 3, "hipMalloc:1:crash", false, HALO_DOCTOR_FAIL, {"killed by signal", "taking", "ROCm 6.4.1"}},
    {"3 wrong upload", 3, "hipMemcpyAsync:1:drop", false, HALO_DOCTOR_FAIL,
     {"came back changed from the GPU, through pageable", "Memory comes back corrupted"}},
    {"3 wrong download, pinned", 3, "hipMemcpyAsync:4:drop", false, HALO_DOCTOR_FAIL,
     {"changed from the GPU, through pinned", "Memory comes back corrupted"}},

    {"3 wrong bit", 3, "hipMemcpyAsync:3:flip", false, HALO_DOCTOR_FAIL,
     {"byte 16777216 of 33554432", "changed from the GPU, through pinned", "Memory comes back corrupted"}},

    {"4 good", 4, "", false, HALO_DOCTOR_PASS, {"right results"}},
    {"4 hang in the first launch", 4, "hipModuleLaunchKernel:1:stall", true, HALO_DOCTOR_FAIL,
     {"first launch of embed_f32", "first kernel does not end", "0x83"}},
    {"4 a launch that does not return", 4, "hipModuleLaunchKernel:2:hang", true, HALO_DOCTOR_FAIL,
     {"first launch of rmsnorm", "first kernel does not end"}},
    {"4 hang in recording graphs", 4, "hipStreamEndCapture:1:hang", true, HALO_DOCTOR_FAIL,
     {"recording graphs", "HALO_HIP_GRAPHS=0"}},
    {"4 fault", 4, "hipModuleLaunchKernel:2:lost", false, HALO_DOCTOR_FAIL,
     {"rmsnorm: launch failed (719)", "0x83"}},
    {"4 crash", 4, "hipModuleLaunchKernel:1:crash", false, HALO_DOCTOR_FAIL, {"killed by signal", "0x83"}},
    {"4 wrong embed", 4, "hipModuleLaunchKernel:1:drop", false, HALO_DOCTOR_FAIL,
     {"embed: element 0 of row 0", "something other than the host"}},
    {"4 wrong norm", 4, "hipModuleLaunchKernel:2:drop", false, HALO_DOCTOR_FAIL,
     {"rmsnorm: element 0 of row 0", "something other than the host"}},

    {"4 wrong bit", 4, "hipMemcpyAsync:2:flip", false, HALO_DOCTOR_FAIL,
     {"rmsnorm: element 128 of row 0", "something other than the host"}},

    {"5 good", 5, "", false, HALO_DOCTOR_PASS, {"right to the last bit"}},
    {"5 hang", 5, "hipModuleLaunchKernel:3:hang", true, HALO_DOCTOR_FAIL,
     {"first launch of gemv_q8_0_x1", "sustained work", "save area"}},
    {"5 fault", 5, "hipModuleLaunchKernel:3:lost", false, HALO_DOCTOR_FAIL, {"gemv_q8_0_x1: launch failed", "0x83"}},
    {"5 wrong dot4", 5, "hipModuleLaunchKernel:3:drop", false, HALO_DOCTOR_FAIL, {"gemv_q8_0 (dot4): element"}},
    {"5 wrong wmma", 5, "hipModuleLaunchKernel:8:drop", false, HALO_DOCTOR_FAIL, {"gemm_f16 (WMMA): element"}},
    {"5 wrong conversion", 5, "hipModuleLaunchKernel:6:drop", false, HALO_DOCTOR_FAIL, {"gemm_q8_0 (WMMA): element"}},

    {"5 wrong bit, one row", 5, "hipMemcpyAsync:1:flip", false, HALO_DOCTOR_FAIL,
     {"gemv_q8_0 (dot4): element 68 of row 0", "something other than the host"}},
    {"5 wrong bit, many rows", 5, "hipMemcpyAsync:82:flip", false, HALO_DOCTOR_FAIL,
     {"gemm_f16 (WMMA): element 68 of row 39", "something other than the host"}},

    {"6 good", 6, "", false, HALO_DOCTOR_PASS, {"Measured"}},
    {"6 hang in the copy", 6, "hipMemcpyAsync:2:hang", true, HALO_DOCTOR_FAIL,
     {"copying within the GPU's memory", "sustained work"}},
    {"6 fault in the products", 6, "hipModuleLaunchKernel:3:lost", false, HALO_DOCTOR_FAIL,
     {"gemm_f16", "launch failed (719)", "0x83"}},
    {"6 fault", 6, "hipMemcpyAsync:2:lost", false, HALO_DOCTOR_FAIL, {"a copy within the GPU's memory failed"}},

    {"7 good", 7, "", false, HALO_DOCTOR_PASS, {"golden ones"}},
    {"7 hang that the engine sees", 7, "hipModuleLaunchKernel:3:stall", true, HALO_DOCTOR_FAIL,
     {"the engine answered", "did not finish within", "stops although single kernels"}},
    {"7 hang that it does not see", 7, "hipModuleLaunchKernel:3:hang", true, HALO_DOCTOR_FAIL,
     {"did not end within", "while scoring 8 tokens", "stops although single kernels"}},
    {"7 hang in the load", 7, "hipHostMalloc:1:hang", true, HALO_DOCTOR_FAIL, {"while loading the model"}},
    {"7 fault", 7, "hipModuleLaunchKernel:3:lost", false, HALO_DOCTOR_FAIL,
     {"the engine answered", "launch failed (719)", "0x83"}},
    {"7 crash", 7, "hipModuleLaunchKernel:3:crash", false, HALO_DOCTOR_FAIL,
     {"the engine was killed by signal", "0x83"}},
    /* Wrong logits or no numbers: it depends on what the launch would have written. */
    {"7 lost work", 7, "hipModuleLaunchKernel:5:drop", false, HALO_DOCTOR_FAIL,
     {"a whole model is not"}, .either = {"the model's logits differ from the golden ones", "are not finite numbers"}},
    {"7 other lost work", 7, "hipModuleLaunchKernel:6:drop", false, HALO_DOCTOR_FAIL,
     {"a whole model is not"}, .either = {"the model's logits differ from the golden ones", "are not finite numbers"}},
    {"7 no such engine", 7, "", false, HALO_DOCTOR_FAIL, {"no halod-engine at /nonexistent", "Install all of halod"},
     .engine = "/nonexistent"},
    {"7 no such model", 7, "", false, HALO_DOCTOR_FAIL, {"no model at /nonexistent"}, .model = "/nonexistent"},
    {"7 another model", 7, "", false, HALO_DOCTOR_FAIL, {"is not the model", "share/halod"}, .model = "/proc/version"},
    {"7 no model to be found", 7, "", false, HALO_DOCTOR_SKIP,
     {"no model where this program looks; name it with --model"}, .model = "-"},
    {"7 an engine that says nothing", 7, "", true, HALO_DOCTOR_FAIL, {"while loading the model"}, .engine = "mute"},
    {"7 an engine that talks nonsense", 7, "", false, HALO_DOCTOR_FAIL, {"not an event"}, .engine = "nonsense"},
    {"7 an engine that ends", 7, "", false, HALO_DOCTOR_FAIL, {"ended with status 3"}, .engine = "ends"},
};
/* clang-format on */
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

/* ---- trees that are read, and programs that are no engine ---- */

static void put(const char *path, const char *text, mode_t mode)
{
    char whole[256];
    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    if (!text)
        return;
    int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void put_tree(const char *name, bool kfd, bool node, const char *render)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/sys/module/amdgpu/parameters/cwsr_enable", name);
    put(path, "1\n", 0644);
    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes/0/properties", name);
    put(path, "cpu_cores_count 32\ngfx_target_version 0\ndrm_render_minor 0\n", 0644);
    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes/2/properties", name);
    if (node)
        put(path, "simd_count 80\ngfx_target_version 110501\ndrm_render_minor 129\n", 0644);
    /* a card beside it, which is not the one */
    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes/1/properties", name);
    if (node)
        put(path, "simd_count 96\ngfx_target_version 110000\ndrm_render_minor 128\n", 0644);
    snprintf(path, sizeof(path), "%s/dev/kfd", name);
    if (kfd)
        put(path, "", 0644);
    snprintf(path, sizeof(path), "%s/dev/dri/%s", name, render);
    put(path, "", 0644);
}

static void put_sensors(void)
{
    put("good/sys/class/drm/renderD129/device/vendor", "0x1002\n", 0644);
    put("good/sys/class/drm/renderD129/device/hwmon/hwmon3/freq1_input", "2900000000\n", 0644);
    put("good/sys/class/drm/renderD129/device/hwmon/hwmon3/power1_average", "81500000\n", 0644);
    put("good/sys/class/drm/renderD129/device/gpu_busy_percent", "99\n", 0644);
    put("good/sys/class/drm/renderD129/device/power_dpm_force_performance_level", "auto\n", 0644);
    /* the card beside it, whose figures are not asked for */
    put("good/sys/class/drm/renderD128/device/hwmon/hwmon2/freq1_input", "500000000\n", 0644);
}

static int make_trees(void **state)
{
    assert_non_null(mkdtemp(root));
    put_sensors();
    put_tree("good", true, true, "renderD129");
    put_tree("no-kfd", false, true, "renderD129");
    put_tree("no-node", true, false, "renderD129");
    put_tree("no-render", true, true, "renderD128");
    put_tree("folder", false, true, "renderD129");
    put("folder/dev/kfd/file", "", 0644);
    put_tree("no-minor", true, false, "renderD128");
    put("no-minor/sys/class/kfd/kfd/topology/nodes/1/properties", "gfx_target_version 110501\n", 0644);
    put("none/proc/version", "Linux\n", 0644);
    put("mute", "#!/bin/sh\nexec sleep 1000\n", 0755);
    put("nonsense", "#!/bin/sh\necho hello\nexec sleep 1000\n", 0755);
    put("ends", "#!/bin/sh\nread line\nexit 3\n", 0755);
    return 0;
}

static int remove_trees(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* ---- playing ---- */

static bool judge(const struct tier_case *c, const struct halo_doctor_finding *finding)
{
    bool good = finding->verdict == c->verdict;
    for (int i = 0; i < 3 && c->says[i]; i++)
        good = good && strstr(finding->advice, c->says[i]);
    if (c->either[0])
        good =
            good && (strstr(finding->advice, c->either[0]) != NULL) != (strstr(finding->advice, c->either[1]) != NULL);
    if (c->verdict == HALO_DOCTOR_FAIL)
        good = good && finding->source[0];
    else if (c->tier == 6)
        good = good && strstr(finding->read, "launch in a graph = ") && strstr(finding->read, "launch in a stream = ");
    if (!good)
        fprintf(stderr, "%s: %s: %s (%s)\n", c->what, halo_doctor_verdict_name(finding->verdict), finding->advice,
                finding->read);
    return good;
}

static const char *below_root(const char *name, char *path, size_t room)
{
    if (name && name[0] != '/' && name[0] != '-')
        snprintf(path, room, "%s/%s", root, name);
    else
        snprintf(path, room, "%s", name ? name : "");
    return path;
}

/* In a process of its own. 0: as the case says. */
static int play(const struct tier_case *c, uint32_t hang_ms)
{
    char sysroot[128], program[128];
    struct halo_doctor_report report;
    struct halo_doctor_options options = {
        .sysroot = below_root(c->sysroot ? c->sysroot : "good", sysroot, sizeof(sysroot)),
        .hip_lib = c->hip_lib ? c->hip_lib : getenv("HALO_HIP_LIB"),
        .engine = c->engine ? below_root(c->engine, program, sizeof(program)) : engine,
        .model = !c->model                    ? model
                 : strcmp(c->model, "-") == 0 ? NULL
                                              : c->model,
        .tier_ms = c->hangs ? hang_ms : AMPLE_MS,
        .first_tier = c->tier,
        .last_tier = c->tier};
    setenv("HALO_HIP_EMU_SCRIPT", c->script, 1);
    setenv("HALO_HIP_EMU_MEMORY_MIB", "256", 1);
    if (c->kernels)
        setenv("HALO_KERNEL_DIR", c->kernels, 1);
    halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
    halo_doctor_tiers_run(&options, &report);
    bool good = report.n == 1 && judge(c, &report.at[0]);
    halo_doctor_report_finish(&report);
    return good ? 0 : 1;
}

static void every_case_is_recognised(void **state)
{
    static pid_t pids[N_CASES];
    size_t n_good = 0;
    const size_t n_at_once = 3;
    for (size_t i = 0; i < N_CASES; i++) /* those that wait, wait together */
        if (cases[i].hangs && (pids[i] = fork()) == 0)
            _exit(play(&cases[i], HANG_MS) == 0 ? 0 : play(&cases[i], SLOW_MS));
    size_t n_running = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        int status = 1;
        if (cases[i].hangs)
            continue;
        if ((pids[i] = fork()) == 0)
            _exit(play(&cases[i], 0));
        assert_true(pids[i] > 0);
        if (++n_running < n_at_once)
            continue;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        pids[i] = 0;
        n_running--;
        n_good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    for (size_t i = 0; i < N_CASES; i++) {
        int status = 1;
        if (pids[i] == 0)
            continue;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        n_good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    assert_int_equal(n_good, N_CASES);
}

/* The tiers above one that failed are not tried, and say why. */
static void a_failure_ends_the_climb(void **state)
{
    char sysroot[128];
    struct halo_doctor_report report;
    const struct halo_doctor_options options = {.sysroot = below_root("good", sysroot, sizeof(sysroot)),
                                                .hip_lib = getenv("HALO_HIP_LIB"),
                                                .tier_ms = AMPLE_MS,
                                                .last_tier = HALO_DOCTOR_LAST_TIER};
    setenv("HALO_HIP_EMU_SCRIPT", "hipMalloc:1:oom", 1);
    setenv("HALO_HIP_EMU_MEMORY_MIB", "256", 1);
    halo_doctor_report_init(&report, HALO_DOCTOR_TEXT, NULL);
    halo_doctor_tiers_run(&options, &report);
    assert_int_equal(report.n, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(report.at[i].verdict, i < 3 ? HALO_DOCTOR_PASS : i == 3 ? HALO_DOCTOR_FAIL : HALO_DOCTOR_SKIP);
        assert_true(report.at[i].stages != 0);
    }
    assert_string_equal(report.at[7].id, "tier7");
    assert_string_equal(report.at[7].advice, "Not tried: it needs tier 3, which failed.");
    assert_int_equal(halo_doctor_report_exit(&report), 1);
    halo_doctor_report_finish(&report);
}

static void the_right_sensors_are_read(void **state)
{
    char sysroot[128];
    struct halo_doctor_sensor sensor;
    halo_doctor_sensor_find(&sensor, below_root("good", sysroot, sizeof(sysroot)));
    halo_doctor_sensor_sample(&sensor);
    put("good/sys/class/drm/renderD129/device/hwmon/hwmon3/freq1_input", "775000000\n", 0644);
    put("good/sys/class/drm/renderD129/device/hwmon/hwmon3/power1_average", "rubbish\n", 0644);
    halo_doctor_sensor_sample(&sensor);
    put_sensors();
    assert_int_equal(sensor.clock_mhz.n, 2);
    assert_true(sensor.clock_mhz.low == 775 && sensor.clock_mhz.high == 2900);
    assert_int_equal(sensor.power_w.n, 1);
    assert_true(sensor.power_w.low == 81.5 && sensor.power_w.high == 81.5);
    assert_int_equal(sensor.busy_percent.n, 2);
    assert_string_equal(sensor.level, "auto");
    halo_doctor_sensor_find(&sensor, below_root("none", sysroot, sizeof(sysroot)));
    halo_doctor_sensor_sample(&sensor);
    assert_int_equal(sensor.clock_mhz.n + sensor.power_w.n + sensor.busy_percent.n, 0);
}

static void speed_is_judged_by_the_peak(void **state)
{
    static const struct {
        double bytes_s, flops;
        bool known;
        enum halo_doctor_verdict verdict;
        const char *says;
    } speeds[] = {
        {215e9, 40e12, true, HALO_DOCTOR_PASS, "84 % of the peak of memory, 67 % of that of arithmetic"},
        {180e9, 18e12, true, HALO_DOCTOR_PASS, "70 % of the peak of memory, 30 %"},
        {178e9, 40e12, true, HALO_DOCTOR_WARN, "Memory reaches 70 % of its peak of 256 GB/s"},
        {215e9, 17e12, true, HALO_DOCTOR_WARN, "Arithmetic reaches 29 % of its peak of 59.4 TFLOPS"},
        {60e9, 10e12, true, HALO_DOCTOR_WARN, "a clock that is stuck"},
        {60e9, 10e12, false, HALO_DOCTOR_PASS, "not known"},
    };
    for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
        struct halo_doctor_finding finding;
        halo_doctor_finding_init(&finding, "tier6", "speed");
        halo_doctor_speed_judge(&finding, speeds[i].bytes_s, speeds[i].flops, speeds[i].known);
        assert_int_equal(finding.verdict, speeds[i].verdict);
        if (!strstr(finding.advice, speeds[i].says))
            fail_msg("%zu: %s", i, finding.advice);
    }
}

/* A row of the table of causes that another one hides is never told. */
static void every_cause_can_be_told(void **state)
{
    size_t n = halo_doctor_cause_count();
    assert_true(n > 30);
    for (size_t i = 0; i < n; i++) {
        const struct halo_doctor_cause *c = halo_doctor_cause_at(i);
        const char *place = c->within ? c->within : "a place that nobody has seen";
        bool told = false;
        for (unsigned tier = 0; tier <= HALO_DOCTOR_LAST_TIER; tier++)
            for (unsigned failure = HALO_DOCTOR_HANG; failure <= HALO_DOCTOR_CRASH; failure *= 2)
                told |= (c->tiers & 1u << tier) && (c->failures & failure) &&
                        halo_doctor_cause_find(tier, (enum halo_doctor_failure)failure, place, "") == c;
        if (!told)
            fail_msg("cause %zu is hidden: %s", i, c->says);
        assert_true(strlen(c->says) > 40 && strlen(c->source) > 5);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cause_can_be_told),     cmocka_unit_test(the_right_sensors_are_read),
        cmocka_unit_test(speed_is_judged_by_the_peak), cmocka_unit_test(a_failure_ends_the_climb),
        cmocka_unit_test(every_case_is_recognised),
    };
    if (!getenv("HALO_HIP_LIB") || argc < 3) {
        printf("HALO_HIP_LIB names no runtime, or engine and model are not given\n");
        return 77;
    }
    engine = argv[1];
    model = argv[2];
    return cmocka_run_group_tests(tests, make_trees, remove_trees);
}
