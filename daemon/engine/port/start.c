/* start.c: brings up the threads of the engine and runs the port on the caller's. */
#include <stdlib.h>
#include <string.h>

#include <base/log.h>

#include "port/port_priv.h"
#include <engine/engine.h>

#define STOP_MS 500 /* what giving the device back may take at the end; halod waits no longer than kill_ms */

static int start(struct halo_port *port, const struct halo_engine_setup *setup)
{
    struct halo_port_config config = {.in_fd = setup->in_fd,
                                      .out_fd = setup->out_fd,
                                      .link = setup->link,
                                      .save_bytes = setup->save_bytes,
                                      .save_ms = setup->save_ms};
    int r = halo_port_init(port, &config);
    if (r < 0)
        return r;
    port->route = (struct halo_load_route){.threads = {port, &port->io, &port->prefetch, &port->device},
                                           .steps = halo_load_steps};
    port->text = (struct halo_text_thread){.port = &port->box};
    port->io = (struct halo_io_thread){.port = &port->box,
                                       .device = &port->device.box,
                                       .config = {.model_dirs = setup->model_dirs,
                                                  .n_model_dirs = setup->n_model_dirs,
                                                  .own_paths = !setup->link,
                                                  .models_only = setup->models_only,
                                                  .state_dir = setup->state_dir,
                                                  .save_bytes = setup->save_bytes}};
    port->prefetch = (struct halo_prefetch_thread){
        .port = &port->box, .io = &port->io.box, .device = &port->device.box, .ops = setup->device};
    port->device.ops = setup->device;
    port->device.options = setup->device_options;
    port->device.budget_bytes = setup->budget_bytes;
    port->device.checkpoint_bytes = setup->checkpoint_bytes;
    port->device.max_models = setup->max_models > 0 ? setup->max_models : HALO_MAX_LOADED;
    port->device.keeps_prefixes = setup->state_dir && setup->save_bytes > 0;
    port->device.io = &port->io.box;
    port->device.prefetch = &port->prefetch.box;
    port->device.port = &port->box;
    port->device.stats = &port->stats;
    /* halod has a limit of its own, and sends everything that was open at once after a restart. */
    port->device.max_queued = setup->link ? UINT32_MAX : HALO_LIMIT_QUEUED_REQUESTS;
    port->watch = setup->watch;
    halo_pressure_init(&port->pressure, setup->pressure ? setup->pressure : &halo_pressure_rules_default);
    r = halo_prefetch_thread_start(&port->prefetch);
    if (r == 0)
        r = halo_io_thread_start(&port->io);
    if (r == 0)
        r = halo_device_thread_start(&port->device);
    if (r == 0)
        r = halo_text_thread_start(&port->text);
    return r;
}

int halo_engine_run(const struct halo_engine_setup *setup)
{
    static struct halo_port port; /* zeroed, and alive until the process ends: threads keep using it */
    int r = start(&port, setup);
    if (r < 0) {
        halo_log(HALO_LOG_ERROR, "the engine cannot start: %s", strerror(-r));
        return EXIT_FAILURE;
    }
    int status = halo_port_run(&port);
    if (!atomic_load(&port.device.lost))
        halo_device_thread_stop(&port.device, STOP_MS);
    return status;
}
