/* op_device.c: the session itself, devices, errors. One thread. */
#include <string.h>

#include "session_priv.h"

#define UUID_BYTES 16

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int halo_session_init(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_remote_init_reply *a = &c->a->init;
    size_t free_bytes = 0, total = 0;
    if (s->rt.n_devices > 0 && s->rt.api.MemGetInfo(&free_bytes, &total) != 0)
        total = 0;
    a->features = s->blobs ? c->q->init.features & HALO_REMOTE_FEATURE_BLOBS : 0;
    a->runtime_version = s->rt.version;
    a->n_devices = s->rt.n_devices;
    a->memory_bytes = least(total, s->limits.memory_bytes);
    a->staging_bytes = s->limits.staging_bytes;
    a->n_streams = s->limits.n_streams;
    a->n_events = s->limits.n_events;
    a->n_modules = s->limits.n_modules;
    a->n_functions = s->limits.n_functions;
    a->n_graphs = s->limits.n_graphs;
    s->is_open = true;
    return 0;
}

int halo_session_ping(struct halo_session *s, const struct halo_session_call *c)
{
    return 0;
}

int halo_session_get_device_count(struct halo_session *s, const struct halo_session_call *c)
{
    c->a->get_device_count.count = s->rt.n_devices;
    return 0;
}

int halo_session_set_device(struct halo_session *s, const struct halo_session_call *c)
{
    if (c->q->set_device.device >= s->rt.n_devices)
        return HALO_WORKER_INVALID_DEVICE;
    s->device = c->q->set_device.device;
    return 0;
}

int halo_session_get_device(struct halo_session *s, const struct halo_session_call *c)
{
    c->a->get_device.device = s->device;
    return 0;
}

static struct halo_remote_bytes text(const char *t)
{
    return (struct halo_remote_bytes){t, (uint32_t)strlen(t)};
}

#define PROPERTIES_BYTES 4096

int halo_session_get_device_properties(struct halo_session *s, const struct halo_session_call *c)
{
    static char name[256], bus[64]; /* until the answer is written */
    struct halo_remote_get_device_properties_reply *a = &c->a->get_device_properties;
    char bytes[PROPERTIES_BYTES] = {0};
    size_t free_bytes, total = 0;
    int device = c->q->get_device_properties.device;
    if (device >= s->rt.n_devices)
        return HALO_WORKER_INVALID_DEVICE;
    int error = s->rt.api.properties(bytes, device);
    if (!error)
        error = s->rt.api.DeviceGetName(name, sizeof(name), device);
    if (!error)
        error = s->rt.api.DeviceGetPCIBusId(bus, sizeof(bus), device);
    if (!error)
        error = s->rt.api.MemGetInfo(&free_bytes, &total);
    if (error)
        return error;
#define X(field, type, at_new, at_old)                                                                                 \
    memcpy(&a->field, bytes + (s->rt.api.properties_old ? at_old : at_new), sizeof(type));
#include <hip_remote/properties.def>
#undef X
    name[sizeof(name) - 1] = bus[sizeof(bus) - 1] = '\0';
    a->name = text(name);
    a->arch = text(s->rt.devices[device].target);
    a->pci_bus_id = text(bus);
    a->memory_bytes = least(total, s->limits.memory_bytes);
    return 0;
}

/* Behind everything that is queued on any stream; the barrier ends when all of these waits have. */
int halo_session_device_synchronize(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_handles *streams = &s->handles[HALO_REMOTE_STREAM];
    int error = halo_session_wait(s, c, NULL, 0, 0, false);
    for (uint32_t i = 0; i < streams->n_used && error == 0; i++) {
        const struct halo_session_stream *stream = streams->slots[i].object;
        if (stream && halo_session_is_capturing(s, stream))
            error = HALO_WORKER_CAPTURE_UNSUPPORTED;
        else if (stream && stream->device == c->device)
            error = halo_session_wait(s, c, stream->hip, 0, 0, false);
    }
    if (error)
        return error;
    error = halo_session_room(s);
    if (error)
        return error;
    halo_waits_add_event(&s->waits, (struct halo_wait){.is_barrier = true, .has_answer = true, .h = *c->h});
    return HALO_SESSION_LATER;
}

int halo_session_device_reset(struct halo_session *s, const struct halo_session_call *c)
{
    if (halo_session_drain(s) < 0)
        return HALO_WORKER_UNKNOWN;
    halo_session_free_all(s);
    return 0;
}

int halo_session_device_get_attribute(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_device_get_attribute *q = &c->q->device_get_attribute;
    if (!s->rt.DeviceGetAttribute)
        return HALO_WORKER_NOT_SUPPORTED;
    return s->rt.DeviceGetAttribute(&c->a->device_get_attribute.value, q->attribute, q->device);
}

int halo_session_device_can_access_peer(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_device_can_access_peer *q = &c->q->device_can_access_peer;
    if (q->device >= s->rt.n_devices || q->peer >= s->rt.n_devices)
        return HALO_WORKER_INVALID_DEVICE;
    return s->rt.DeviceCanAccessPeer ? s->rt.DeviceCanAccessPeer(&c->a->device_can_access_peer.can, q->device, q->peer)
                                     : 0;
}

int halo_session_device_enable_peer_access(struct halo_session *s, const struct halo_session_call *c)
{
    return s->rt.DeviceEnablePeerAccess ? s->rt.DeviceEnablePeerAccess(c->q->device_enable_peer_access.peer, 0)
                                        : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_device_disable_peer_access(struct halo_session *s, const struct halo_session_call *c)
{
    return s->rt.DeviceDisablePeerAccess ? s->rt.DeviceDisablePeerAccess(c->q->device_disable_peer_access.peer)
                                         : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_device_get_limit(struct halo_session *s, const struct halo_session_call *c)
{
    size_t value = 0;
    if (!s->rt.DeviceGetLimit)
        return HALO_WORKER_NOT_SUPPORTED;
    int error = s->rt.DeviceGetLimit(&value, c->q->device_get_limit.limit);
    c->a->device_get_limit.value = value;
    return error;
}

int halo_session_device_get_stream_priority_range(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_remote_device_get_stream_priority_range_reply *a = &c->a->device_get_stream_priority_range;
    return s->rt.DeviceGetStreamPriorityRange ? s->rt.DeviceGetStreamPriorityRange(&a->least, &a->greatest) : 0;
}

int halo_session_device_get_uuid(struct halo_session *s, const struct halo_session_call *c)
{
    uint8_t uuid[UUID_BYTES] = {0};
    if (!s->rt.DeviceGetUuid)
        return HALO_WORKER_NOT_SUPPORTED;
    int error = s->rt.DeviceGetUuid(uuid, c->q->device_get_uuid.device);
    memcpy(c->a->device_get_uuid.uuid, uuid, sizeof(uuid));
    return error;
}

int halo_session_peek_at_last_error(struct halo_session *s, const struct halo_session_call *c)
{
    c->a->peek_at_last_error.error = s->deferred.deferred_error;
    return 0;
}

/* The answer's status carries it too, and after it the session has forgotten it. */
int halo_session_get_last_error(struct halo_session *s, const struct halo_session_call *c)
{
    c->a->get_last_error.error = s->deferred.deferred_error;
    return 0;
}
