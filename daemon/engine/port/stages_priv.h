/* stages_priv.h: stages of a model as answers show them. Port thread. */
#ifndef HALO_ENGINE_PORT_STAGES_PRIV_H
#define HALO_ENGINE_PORT_STAGES_PRIV_H

#include <engine/instance.h>
#include <protocol/message.h>

/* What a list points to. */
struct halo_stages_shown {
    struct halo_device_gpu gpus[HALO_DEVICE_GPUS_MAX];
    struct halo_part_stage_info at[HALO_DEVICE_GPUS_MAX];
};

/* An empty list where the device divides no model. It points into `shown`. */
struct halo_part_stage_info_list halo_port_show_stages(const struct halo_stages *stages,
                                                       const struct halo_device_info *info,
                                                       struct halo_stages_shown *shown);

/* Those of a loaded model, with what its GPUs have free. The list is that of the last call for the model. Without
 * memory it is empty. */
struct halo_part_stage_info_list halo_port_instance_stages(struct halo_device_thread *device,
                                                           struct halo_instance *instance);

#endif
