/* loaded.c: what a client is told of a load that has succeeded. Port thread. */
#include "port/loaded_priv.h"

#include <stdio.h>

#include <base/clock.h>

#include "port/port_priv.h"
#include "port/stages_priv.h"

static void write_tiers(const struct halo_instance *instance, char *ret, size_t size)
{
    uint64_t memory = halo_instance_weights_bytes(instance) + instance->kv_bytes;
    if (instance->streamed_bytes == 0)
        snprintf(ret, size, "{\"memory\":%llu}", (unsigned long long)memory);
    else if (instance->n_streamed_layers > 0)
        snprintf(ret, size, "{\"memory\":%llu,\"buffers\":%llu,\"n_layers\":%u,\"disk\":%llu}",
                 (unsigned long long)memory, (unsigned long long)instance->slots_bytes, instance->n_streamed_layers,
                 (unsigned long long)instance->streamed_bytes);
    else {
        struct halo_experts_memory slots;
        halo_experts_memory(instance->experts, &slots);
        snprintf(ret, size, "{\"memory\":%llu,\"slots\":%llu,\"n_slots\":%u,\"disk\":%llu}", (unsigned long long)memory,
                 (unsigned long long)slots.slots_bytes, slots.n_slots, (unsigned long long)instance->streamed_bytes);
    }
}

void halo_port_tell_loaded(struct halo_port *port, struct halo_job *job, struct halo_instance *instance,
                           const struct halo_load *load)
{
    struct halo_device_info info;
    struct halo_str changes[HALO_REMARKS];
    char tiers[160], io[400] = "", stamp[HALO_GGUF_STAMP_BYTES];
    struct halo_ev ev;
    halo_device_thread_info(&port->device, &info, NULL);
    halo_ev_init(&ev, HALO_EV_LOADED, &job->msg.id);
    ev.loaded.model = halo_str_of(instance->name);
    ev.loaded.arch = halo_str_of(instance->model->arch);
    ev.loaded.path = halo_str_of(instance->path);
    ev.loaded.has_path = true;
    ev.loaded.device = halo_str_of(info.name);
    ev.loaded.context = instance->context;
    ev.loaded.kv_tokens = instance->kv_tokens;
    ev.loaded.has_kv_tokens = true;
    ev.loaded.weights_bytes = (int64_t)halo_instance_weights_bytes(instance);
    ev.loaded.kv_bytes = (int64_t)instance->kv_bytes;
    ev.loaded.has_checkpoint_bytes = halo_instance_has_states(instance);
    ev.loaded.checkpoint_bytes = (int64_t)instance->checkpoint_bytes;
    halo_gguf_stamp(instance->model->gguf, stamp);
    ev.loaded.stamp = halo_str_of(stamp);
    ev.loaded.has_stamp = true;
    ev.loaded.pinned = instance->pinned;
    ev.loaded.has_keep_alive_s = instance->keep_alive_ns > 0;
    ev.loaded.keep_alive_s = (int64_t)(instance->keep_alive_ns / 1000000000u);
    write_tiers(instance, tiers, sizeof(tiers));
    ev.loaded.tiers = halo_raw_of(tiers);
    ev.loaded.stages = halo_port_instance_stages(&port->device, instance);
    for (uint32_t i = 0; i < instance->changes.n; i++)
        changes[i] = halo_str_of(instance->changes.text[i]);
    ev.loaded.changes.at = changes;
    ev.loaded.changes.n = instance->changes.n;
    if (load) {
        static const char *const methods[] = {"io_uring, registered buffers", "io_uring", "pread threads"};
        ev.loaded.load_ms = (double)(halo_clock_ns() - load->arrived_ns) / 1e6;
        if (load->report.elapsed_ns > 0)
            ev.loaded.gb_s = (double)load->report.bytes / (double)load->report.elapsed_ns;
        snprintf(io, sizeof(io), "%s, %s%s%s%s%s", methods[load->report.method],
                 load->report.direct ? "direct" : "buffered", load->report.notice[0] ? ": " : "", load->report.notice,
                 !instance->experts                ? ""
                 : instance->n_streamed_layers > 0 ? "; layers by "
                                                   : "; experts by ",
                 instance->experts ? halo_experts_method(instance->experts) : "");
        ev.loaded.io = halo_str_of(io);
        ev.loaded.has_io = true;
        ev.loaded.has_prefix_pages = load->n_restored > 0;
        ev.loaded.prefix_pages = load->n_restored;
    }
    halo_job_end(port, job, &ev);
}

void halo_port_tell_notices(struct halo_port *port, const struct halo_load *load)
{
    const char *problem = halo_chat_problem(load->instance->texts.chat);
    if (load->report.notice[0])
        halo_port_tell_notice(port, load, HALO_NOTICE_IO_FALLBACK, load->report.notice);
    if (load->instance->experts) {
        struct halo_remarks notices = {0};
        halo_experts_notices(load->instance->experts, &notices);
        for (uint32_t i = 0; i < notices.n; i++)
            halo_port_tell_notice(port, load, HALO_NOTICE_IO_FALLBACK, notices.text[i]);
    }
    if (load->device_notice[0])
        halo_port_tell_notice(port, load, HALO_NOTICE_DEVICE_FALLBACK, load->device_notice);
    for (uint32_t i = 0; i < load->changes.n; i++)
        halo_port_tell_notice(port, load, HALO_NOTICE_LOAD_CHANGED, load->changes.text[i]);
    if (load->instance->experts && load->profile_fault.code != HALO_FAULT_NONE &&
        load->profile_fault.code != HALO_FAULT_NOT_FOUND)
        halo_port_tell_notice(port, load, HALO_NOTICE_PROFILE_IGNORED, load->profile_fault.text);
    if (load->prefix_fault.code != HALO_FAULT_NONE) {
        char text[400];
        snprintf(text, sizeof(text), "saved prefixes are ignored: %s", load->prefix_fault.text);
        halo_port_tell_notice(port, load, HALO_NOTICE_PREFIXES_IGNORED, text);
        snprintf(port->prefix_problem, sizeof(port->prefix_problem), "saved prefixes of %.200s are ignored: %s",
                 load->instance->name, load->prefix_fault.text);
    }
    if (problem) {
        char text[400];
        snprintf(text, sizeof(text), "a chat template cannot be used, so `messages` that need it will be refused: %s",
                 problem);
        halo_port_tell_notice(port, load, HALO_NOTICE_TEMPLATE_UNUSABLE, text);
    }
}
