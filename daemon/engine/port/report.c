/* report.c: what the engine says about itself: hello, status, diag.
 *
 * Port thread. Everything comes from atomics and from what was published under a lock, so the answer never waits for
 * the device.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <base/clock.h>

#include "port/port_priv.h"
#include "port/stages_priv.h"

/* Waits in `parked` until the device was opened or could not be. False: parked. */
static bool device_known(struct halo_port *port, struct halo_job *job, struct halo_device_info *info)
{
    if (halo_device_thread_info(&port->device, info, NULL) != -EAGAIN)
        return true;
    halo_job_move(job, HALO_JOB_PARKED);
    job->wait_next = port->parked;
    port->parked = job;
    return false;
}

void halo_port_hello(struct halo_port *port, struct halo_job *job)
{
    struct halo_device_info info;
    if (!device_known(port, job, &info))
        return;
    struct halo_str features[2];
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_HELLO, &job->msg.id);
    ev.hello.protocol = HALO_PROTOCOL_VERSION;
    ev.hello.server = halo_str_of("halod-engine " HALO_VERSION);
    ev.hello.limits = (struct halo_part_limits){.connections = 1,
                                                .open_requests = HALO_LIMIT_QUEUED_REQUESTS,
                                                .queued_requests = HALO_LIMIT_QUEUED_REQUESTS,
                                                .line_bytes = HALO_LIMIT_LINE_BYTES,
                                                .stop_strings = HALO_LIMIT_STOP_STRINGS,
                                                .stop_bytes = HALO_LIMIT_STOP_BYTES,
                                                .answer_bytes = HALO_LIMIT_ANSWER_BYTES,
                                                .answer_values = HALO_LIMIT_ANSWER_VALUES,
                                                .output_high_bytes = HALO_LIMIT_OUTPUT_HIGH_BYTES,
                                                .output_low_bytes = HALO_LIMIT_OUTPUT_LOW_BYTES,
                                                .stall_ms = HALO_LIMIT_STALL_MS};
    if (info.features & HALO_DEVICE_BATCH_INVARIANT)
        features[ev.hello.features.n++] = halo_str_of("batch_invariant");
    ev.hello.features.at = features;
    halo_job_end(port, job, &ev);
}

struct number {
    const char *name;
    uint64_t value;
};

static void write_numbers(struct halo_json *w, const struct number *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        halo_json_key(w, numbers[i].name);
        halo_json_u64(w, numbers[i].value);
    }
}

static void write_experts(struct halo_json *w, const struct halo_instance *instance,
                          const struct halo_experts_report *report, const struct halo_experts_memory *memory)
{
    const struct number numbers[] = {{"slots", memory->n_slots},
                                     {"slots_bytes", memory->slots_bytes},
                                     {"absent_bytes", memory->absent_bytes},
                                     {"disk_bytes", instance->streamed_bytes},
                                     {"hit_bytes", report->hit_bytes},
                                     {"miss_bytes", report->miss_bytes},
                                     {"wait_us", report->wait_us}};
    uint64_t used = report->hit_bytes + report->miss_bytes;
    write_numbers(w, numbers, sizeof(numbers) / sizeof(numbers[0]));
    if (used > 0) {
        halo_json_key(w, "hit_rate");
        halo_json_f64(w, (double)report->hit_bytes / (double)used);
    }
}

static void write_streamed_layers(struct halo_json *w, const struct halo_instance *instance,
                                  const struct halo_experts_report *report)
{
    const struct number numbers[] = {{"layers", instance->n_streamed_layers},
                                     {"buffers_bytes", instance->slots_bytes},
                                     {"disk_bytes", instance->streamed_bytes},
                                     {"read_bytes", report->read_bytes},
                                     {"wait_us", report->wait_us}};
    write_numbers(w, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

/* Slots and speeds of what streams. They exist until the device thread gives the model back. */
static void describe_streamed(struct halo_instance *instance, struct halo_part_model_info *ret)
{
    struct halo_experts_report report;
    struct halo_experts_memory memory;
    struct halo_json w;
    if (!instance->experts || (instance->state != HALO_INSTANCE_READY && instance->state != HALO_INSTANCE_DRAINING))
        return;
    halo_experts_report(instance->experts, &report);
    halo_experts_memory(instance->experts, &memory);
    halo_json_init_fixed(&w, instance->experts_text, sizeof(instance->experts_text));
    halo_json_object_begin(&w);
    if (instance->n_streamed_layers > 0)
        write_streamed_layers(&w, instance, &report);
    else
        write_experts(&w, instance, &report, &memory);
    if (report.reading[0]) {
        halo_json_key(&w, "reads");
        halo_json_str(&w, report.reading);
    }
    halo_json_object_end(&w);
    struct halo_raw text = {w.at, w.len};
    ret->has_experts = w.error == 0 && instance->n_streamed_layers == 0;
    ret->experts = text;
    ret->has_streamed_layers = w.error == 0 && instance->n_streamed_layers > 0;
    ret->streamed_layers = text;
}

void halo_port_describe_instance(struct halo_port *port, struct halo_instance *instance,
                                 struct halo_part_model_info *ret)
{
    const struct halo_model *model = instance->model;
    assert(instance->state != HALO_INSTANCE_LOADING); /* else its model belongs to other threads */
    *ret = (struct halo_part_model_info){.name = halo_str_of(instance->name),
                                         .path = halo_str_of(instance->path),
                                         .bytes = (int64_t)halo_gguf_total_bytes(model->gguf),
                                         .has_arch = true,
                                         .arch = halo_str_of(model->arch),
                                         .has_quant = true,
                                         .quant = halo_str_of(model->quant),
                                         .has_params = true,
                                         .params = (int64_t)model->n_params,
                                         .loaded = true,
                                         .has_context = true,
                                         .context = instance->context,
                                         .has_kv_tokens = true,
                                         .kv_tokens = instance->kv_tokens,
                                         .has_memory_bytes = true,
                                         .memory_bytes = (int64_t)halo_instance_bytes(instance),
                                         .has_checkpoint_bytes = halo_instance_has_states(instance),
                                         .checkpoint_bytes = (int64_t)instance->checkpoint_bytes,
                                         .has_pinned = true,
                                         .pinned = instance->pinned,
                                         .has_sequences = true,
                                         .sequences = instance->n_users,
                                         .has_device = true,
                                         .device = halo_str_of(halo_device_thread_name(&port->device))};
    ret->stages = halo_port_instance_stages(&port->device, instance);
    describe_streamed(instance, ret);
}

/* What became of saved prefixes, and how memory is. */
static void write_more(const struct halo_port *port, struct halo_json *w)
{
    halo_json_object_begin(w);
    halo_json_key(w, "prefix_pages_restored");
    halo_json_u64(w, port->n_restored);
    if (port->prefix_problem[0]) {
        halo_json_key(w, "prefixes_ignored");
        halo_json_str(w, port->prefix_problem);
    }
    if (port->watch) {
        halo_json_key(w, "memory_pressure");
        halo_port_write_pressure(port, w);
    }
    halo_json_object_end(w);
}

/* With what is free now, if the device thread can say so at once; else with what was free when it looked last. */
void halo_port_status(struct halo_port *port, struct halo_job *job)
{
    struct halo_device_info info;
    if (halo_device_thread_info(&port->device, &info, NULL) < 0 || !halo_device_thread_is_idle(&port->device)) {
        halo_port_answer_status(port, job);
        return;
    }
    job->look.job = job;
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->device.box, &job->look.note, HALO_NOTE_LOOK);
}

void halo_port_answer_status(struct halo_port *port, struct halo_job *job)
{
    struct halo_part_model_info models[HALO_MAX_KNOWN];
    struct halo_device_info info;
    struct halo_fault fault = {0};
    struct halo_json more;
    struct halo_ev ev;
    uint64_t memory = 0;
    uint32_t n_models = 0;
    char uses[160];
    int r = halo_device_thread_info(&port->device, &info, &fault);
    bool lost = atomic_load(&port->device.lost);
    halo_ev_init(&ev, HALO_EV_STATUS, &job->msg.id);
    ev.status.has_engine = true;
    ev.status.engine.state = halo_str_of(r == -EAGAIN ? "starting"
                                         : r < 0      ? "no device"
                                         : lost       ? "device lost"
                                                      : "ready");
    ev.status.engine.pid = getpid();
    ev.status.engine.has_pid = true;
    ev.status.engine.device = halo_str_of(halo_device_thread_name(&port->device));
    ev.status.engine.has_device = true;
    ev.status.engine.reason = halo_str_of(fault.text);
    ev.status.engine.has_reason = fault.text[0] != '\0';
    const char *phase = atomic_load(&port->device.phase.what);
    ev.status.engine.phase = halo_str_of(phase ? phase : "starting");
    ev.status.engine.has_phase = true;
    for (uint32_t i = 0; i < port->n_instances; i++) {
        if (port->instances[i]->state == HALO_INSTANCE_LOADING)
            continue;
        halo_port_describe_instance(port, port->instances[i], &models[n_models++]);
        memory += halo_instance_bytes(port->instances[i]);
    }
    ev.status.models.at = models;
    ev.status.models.n = n_models;
    ev.status.queue = atomic_load(&port->stats.n_queued);
    ev.status.running = atomic_load(&port->stats.n_running);
    ev.status.has_uptime_ms = ev.status.has_version = ev.status.has_memory = true;
    ev.status.uptime_ms = (int64_t)((halo_clock_ns() - port->born_ns) / 1000000);
    ev.status.version = halo_str_of(HALO_VERSION);
    snprintf(uses, sizeof(uses), "{\"models\":%llu,\"budget\":%llu,\"total\":%llu}", (unsigned long long)memory,
             (unsigned long long)halo_device_thread_budget(&port->device), (unsigned long long)info.memory_bytes);
    ev.status.memory = halo_raw_of(uses);
    halo_json_init(&more);
    write_more(port, &more);
    ev.status.has_more = more.error == 0;
    ev.status.more = (struct halo_raw){more.at, more.len};
    halo_job_end(port, job, &ev);
    halo_json_finish(&more);
}

#ifdef __OPTIMIZE__
#define BUILD_OPTIMIZED true
#else
#define BUILD_OPTIMIZED false
#endif
#ifdef HALO_ALLOC_GUARD
#define BUILD_GUARD true
#else
#define BUILD_GUARD false
#endif

static void write_build(struct halo_json *w)
{
    halo_json_object_begin(w);
    halo_json_key(w, "version");
    halo_json_str(w, HALO_VERSION);
    halo_json_key(w, "compiler");
    halo_json_str(w, __VERSION__);
    halo_json_key(w, "optimized");
    halo_json_bool(w, BUILD_OPTIMIZED);
    halo_json_key(w, "alloc_guard");
    halo_json_bool(w, BUILD_GUARD);
    halo_json_object_end(w);
}

static void write_device(struct halo_json *w, const struct halo_device_info *info, const struct halo_fault *fault)
{
    halo_json_object_begin(w);
    halo_json_key(w, "name");
    halo_json_str(w, info->name);
    halo_json_key(w, "detail");
    halo_json_str(w, info->detail);
    halo_json_key(w, "threads");
    halo_json_u64(w, info->n_threads);
    halo_json_key(w, "memory_bytes");
    halo_json_u64(w, info->memory_bytes);
    halo_json_key(w, "batch_invariant");
    halo_json_bool(w, info->features & HALO_DEVICE_BATCH_INVARIANT);
    halo_json_key(w, "notices");
    halo_json_u64(w, info->n_notices);
    if (info->n_notices > 0) {
        halo_json_key(w, "notice");
        halo_json_str(w, info->notice);
    }
    if (fault->code != HALO_FAULT_NONE) {
        halo_json_key(w, "fault");
        halo_json_str(w, fault->text);
    }
    halo_json_object_end(w);
}

/* What lies between this program and the device. The kernel's release stands for its driver, which has no number of its
 * own. */
static void write_driver(struct halo_json *w, const struct halo_device_info *info)
{
    struct utsname system;
    halo_json_object_begin(w);
    if (info->runtime[0]) {
        halo_json_key(w, "runtime");
        halo_json_str(w, info->runtime);
        halo_json_key(w, "runtime_version");
        halo_json_i64(w, info->runtime_version);
        if (uname(&system) == 0) {
            halo_json_key(w, "kernel");
            halo_json_str(w, system.release);
        }
    }
    halo_json_object_end(w);
}

static void write_kernels(struct halo_json *w, const struct halo_device_info *info)
{
    halo_json_array_begin(w);
    if (info->kernel_file[0]) {
        halo_json_object_begin(w);
        halo_json_key(w, "file");
        halo_json_str(w, info->kernel_file);
        halo_json_key(w, "arch");
        halo_json_str(w, info->kernel_arch);
        halo_json_key(w, "sha256");
        halo_json_str(w, info->kernel_sha256);
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
}

void halo_port_diag(struct halo_port *port, struct halo_job *job)
{
    struct halo_device_info info;
    struct halo_fault fault = {0};
    if (!device_known(port, job, &info))
        return;
    halo_device_thread_info(&port->device, &info, &fault);
    char build_text[512], device_text[4096], driver_text[2048], kernel_text[2048];
    struct halo_json build, device, driver, kernels;
    struct halo_ev ev;
    halo_json_init_fixed(&build, build_text, sizeof(build_text));
    halo_json_init_fixed(&device, device_text, sizeof(device_text));
    halo_json_init_fixed(&driver, driver_text, sizeof(driver_text));
    halo_json_init_fixed(&kernels, kernel_text, sizeof(kernel_text));
    write_build(&build);
    write_device(&device, &info, &fault);
    write_driver(&driver, &info);
    write_kernels(&kernels, &info);
    assert(build.error == 0 && device.error == 0 && driver.error == 0 && kernels.error == 0);
    halo_ev_init(&ev, HALO_EV_DIAG, &job->msg.id);
    ev.diag.build = (struct halo_raw){build.at, build.len};
    ev.diag.device = (struct halo_raw){device.at, device.len};
    ev.diag.driver = (struct halo_raw){driver.at, driver.len};
    ev.diag.kernels = (struct halo_raw){kernels.at, kernels.len};
    halo_job_end(port, job, &ev);
}
