/* stages.c: what each GPU has of a model that several divide, for `loaded`, `status`, `models` and `plan`. */
#include <stdlib.h>
#include <string.h>

#include "port/port_priv.h"
#include "port/stages_priv.h"

_Static_assert(HALO_LIMIT_STAGES == HALO_DEVICE_GPUS_MAX, "each GPU has an entry");

static struct halo_part_stage_info show(const struct halo_device_share *share, const struct halo_device_gpu *gpu)
{
    return (struct halo_part_stage_info){.device = halo_str_of(gpu->name),
                                         .has_worker = gpu->worker[0] != '\0',
                                         .worker = halo_str_of(gpu->worker),
                                         .has_first_layer = share->first_layer != HALO_NONE,
                                         .first_layer = share->first_layer,
                                         .has_last_layer = share->last_layer != HALO_NONE,
                                         .last_layer = share->last_layer,
                                         .weights_bytes = (int64_t)share->weights_bytes,
                                         .kv_bytes = (int64_t)share->kv_bytes,
                                         .scratch_bytes = (int64_t)share->scratch_bytes,
                                         .memory_bytes = (int64_t)gpu->memory_bytes,
                                         .free_bytes = (int64_t)gpu->free_bytes};
}

struct halo_part_stage_info_list halo_port_show_stages(const struct halo_stages *stages,
                                                       const struct halo_device_info *info,
                                                       struct halo_stages_shown *shown)
{
    memcpy(shown->gpus, info->gpus, sizeof(shown->gpus));
    for (uint32_t i = 0; i < stages->n; i++)
        shown->at[i] = show(&stages->share[i], &shown->gpus[i]);
    return (struct halo_part_stage_info_list){shown->at, stages->n};
}

struct halo_part_stage_info_list halo_port_instance_stages(struct halo_device_thread *device,
                                                           struct halo_instance *instance)
{
    struct halo_device_info info;
    if (instance->stages.n > 0 && !instance->stages_shown)
        instance->stages_shown = malloc(sizeof(*instance->stages_shown));
    if (instance->stages.n == 0 || !instance->stages_shown)
        return (struct halo_part_stage_info_list){0};
    halo_device_thread_info(device, &info, NULL);
    return halo_port_show_stages(&instance->stages, &info, instance->stages_shown);
}
