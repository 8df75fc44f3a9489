/* speed.c: tier 6: what memory and arithmetic reach, against the peak of the chip, what a launch costs, and the clock
 * and power meanwhile.
 *
 * The clock that the driver tells is not believed alone: several kernels tell a wrong one. The figures are those of
 * this project's own copy and matrix kernels. A size that takes too long is not followed by a larger one, so that an
 * emulated GPU ends as well.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <client/clock.h>
#include <hip/hip.h>

#include "trial.h"

#define LOOK_NS 20000000
#define ENOUGH_S 0.3              /* of runs of one size */
#define STEP_UP_S 1.0             /* the next size must be expected to take less */
#define ROOM_BYTES (192ull << 20) /* two pieces of the copy, at their smallest, and some */

/* Peaks: memory bytes and f16 operations a second. Only of the chip that this is made for: of another the figures are
 * told without a share. */
#define PEAK_ARCH "gfx1151"
#define PEAK_BYTES_S 256e9
#define PEAK_FLOPS 59.4e12
/* Below these shares of them something holds the chip back. What a copy reaches is known (about 0.83 to 0.9); what the
 * matrix kernels reach on this chip has not been measured, so that mark is far down. */
#define BYTES_LOW 0.70
#define FLOPS_LOW 0.30

struct size {
    uint32_t n_rows, n_weights, n_cols, n_products;
};
/* Fewer rows have other kernels on some chips. */
static const struct size sizes[] = {
    {256, 128, 256, 1}, {256, 512, 512, 1}, {256, 2048, 2048, 2}, {512, 4096, 4096, 16}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct halo_doctor_sensor sensor;

static void *look(void *ud)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        halo_doctor_sensor_sample(&sensor);
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return ud;
}

static double flop_of(const struct size *size)
{
    return 2.0 * size->n_rows * size->n_weights * size->n_cols * size->n_products;
}

static double some_number(uint32_t row, uint32_t column)
{
    return (double)((row * 7 + column * 3) % 5) - 2;
}

static void build(struct halo_doctor_trial *trial, struct halo_doctor_tier *tier, const struct size *size)
{
    halo_doctor_trial_init(trial, tier, 1, size->n_rows);
    uint16_t in = halo_doctor_trial_input(trial, size->n_cols, some_number);
    uint32_t weight =
        halo_doctor_trial_weight(trial, HALO_TYPE_F16, HALO_WEIGHT_MATRIX, size->n_cols, size->n_weights, some_number);
    for (uint32_t i = 0; i < size->n_products; i++)
        halo_doctor_trial_matmul(trial, in, weight);
}

/* Operations a second of the fastest run, and how long one takes. */
static enum halo_doctor_failure measure_size(struct halo_doctor_tier *tier, const struct size *size, double *ret_flops,
                                             double *ret_s)
{
    static struct halo_doctor_trial trials[sizeof(sizes) / sizeof(sizes[0])];
    static float out[8192];
    struct halo_doctor_trial *trial = &trials[size - sizes];
    build(trial, tier, size);
    enum halo_doctor_failure failure = halo_doctor_trial_open(trial);
    double best = 0, begin = halo_client_now_s();
    for (int i = 0; !failure && (i < 2 || halo_client_now_s() - begin < ENOUGH_S); i++) {
        double start = halo_client_now_s();
        failure = halo_doctor_trial_run(trial, size->n_rows, 0, NULL);
        if (!failure)
            failure = halo_doctor_trial_peek(trial, (uint16_t)(trial->plan.n_values - 1), size->n_rows - 1, out);
        double took = halo_client_now_s() - start;
        if (i > 0 && (best == 0 || took < best)) /* the first launches kernels for the first time */
            best = took;
    }
    *ret_s = best;
    *ret_flops = best > 0 ? flop_of(size) / best : 0;
    return failure;
}

static enum halo_doctor_failure measure_flops(struct halo_doctor_tier *tier, double *ret)
{
    enum halo_doctor_failure failure = HALO_DOCTOR_FINE;
    const size_t n = sizeof(sizes) / sizeof(sizes[0]);
    *ret = 0;
    for (size_t i = 0; i < n && !failure; i++) {
        double flops = 0, took = 0;
        halo_doctor_tier_phase(tier, "multiplying matrices of %u", sizes[i].n_cols);
        failure = measure_size(tier, &sizes[i], &flops, &took);
        *ret = flops > *ret ? flops : *ret;
        if (i + 1 < n && took * flop_of(&sizes[i + 1]) / flop_of(&sizes[i]) > STEP_UP_S)
            break;
    }
    return failure;
}

static enum halo_doctor_failure measure_bytes(struct halo_doctor_tier *tier, double *ret, bool *ret_known)
{
    const struct halo_device_options options = {.library = tier->options->hip_lib};
    struct halo_device *device = NULL;
    struct halo_device_info info;
    char reason[HALO_DEVICE_REASON] = "";
    halo_doctor_tier_phase(tier, "opening the device");
    int r = halo_device_hip()->open(&device, &options, reason);
    if (r)
        return halo_doctor_tier_device(tier, r, reason);
    halo_device_hip()->describe(device, &info);
    halo_doctor_finding_read(tier->finding, "device = %s", info.detail);
    *ret_known = strstr(info.detail, PEAK_ARCH) != NULL;
    if (info.free_bytes < ROOM_BYTES)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_UNFIT,
                                     "Not measured: the GPU has %llu MiB free, %llu are needed.",
                                     (unsigned long long)(info.free_bytes >> 20), ROOM_BYTES >> 20);
    halo_doctor_tier_phase(tier, "copying within the GPU's memory");
    *ret = halo_device_hip()->measure_bandwidth(device);
    if (*ret <= 0)
        return halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "a copy within the GPU's memory failed");
    return HALO_DOCTOR_FINE;
}

static void note_range(struct halo_doctor_finding *finding, const char *name, const struct halo_doctor_range *range,
                       const char *unit)
{
    if (range->n > 0)
        halo_doctor_finding_read(finding, "%s = %.0f to %.0f %s", name, range->low, range->high, unit);
}

static void note_sensor(struct halo_doctor_finding *finding)
{
    pthread_mutex_lock(&lock);
    note_range(finding, "clock", &sensor.clock_mhz, "MHz");
    note_range(finding, "power", &sensor.power_w, "W");
    note_range(finding, "busy", &sensor.busy_percent, "%");
    if (sensor.level[0])
        halo_doctor_finding_read(finding, "performance level = %s", sensor.level);
    pthread_mutex_unlock(&lock);
}

void halo_doctor_speed_judge(struct halo_doctor_finding *finding, double bytes_s, double flops, bool known)
{
    if (!known) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "Measured; the peak of this GPU is not known here.");
        return;
    }
    double bytes_share = bytes_s / PEAK_BYTES_S, flops_share = flops / PEAK_FLOPS;
    bool slow_memory = bytes_share < BYTES_LOW, slow_chip = flops_share < FLOPS_LOW;
    snprintf(finding->source, sizeof(finding->source), "https://github.com/ROCm/ROCm/issues/5750");
    if (!slow_memory && !slow_chip)
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS,
                                "%.0f %% of the peak of memory, %.0f %% of that of arithmetic.", 100 * bytes_share,
                                100 * flops_share);
    else
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_WARN,
            "%s reaches %.0f %% of its peak of %s. Something holds the chip back: another program on "
            "the GPU, a power profile (tuned-adm profile accelerator-performance, the BIOS's power "
            "mode), heat, or a clock that is stuck, which a newer kernel cures.",
            slow_memory ? "Memory" : "Arithmetic", 100 * (slow_memory ? bytes_share : flops_share),
            slow_memory ? "256 GB/s" : "59.4 TFLOPS");
}

enum halo_doctor_failure halo_doctor_tier_speed(struct halo_doctor_tier *tier)
{
    double bytes_s = 0, flops = 0;
    bool known = false;
    pthread_t thread;
    halo_doctor_tier_phase(tier, "reading the clock and the power");
    halo_doctor_sensor_find(&sensor, tier->options->sysroot);
    if (pthread_create(&thread, NULL, look, NULL) == 0)
        pthread_detach(thread);
    enum halo_doctor_failure failure = measure_bytes(tier, &bytes_s, &known);
    if (failure)
        return failure;
    halo_doctor_finding_read(tier->finding, "copy, reads and writes = %.1f GB/s", bytes_s / 1e9);
    failure = measure_flops(tier, &flops);
    if (failure)
        return failure;
    halo_doctor_finding_read(tier->finding, "f16 matrix products = %.3g TFLOPS", flops / 1e12);
    failure = halo_doctor_launch_measure(tier);
    if (failure)
        return failure;
    halo_doctor_tier_phase(tier, "reading the clock and the power"); /* the other thread may hang in that */
    note_sensor(tier->finding);
    halo_doctor_speed_judge(tier->finding, bytes_s, flops, known);
    return HALO_DOCTOR_FINE;
}
