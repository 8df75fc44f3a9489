/* loaded_priv.h: the end of a load that has succeeded, as the client reads it. Port thread. */
#ifndef HALO_ENGINE_LOADED_PRIV_H
#define HALO_ENGINE_LOADED_PRIV_H

struct halo_port;
struct halo_job;
struct halo_instance;
struct halo_load;

/* Ends the request with `loaded`. `load` NULL: the model was there before. */
void halo_port_tell_loaded(struct halo_port *port, struct halo_job *job, struct halo_instance *instance,
                           const struct halo_load *load);
/* What the load had to do otherwise than asked, a notice for each. Before the end. */
void halo_port_tell_notices(struct halo_port *port, const struct halo_load *load);

#endif
