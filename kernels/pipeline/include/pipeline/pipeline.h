/* pipeline.h: a device that is a row of others, each of which has some layers of every model.
 *
 * A plan is cut between layers into *stages*. A stage is a plan of its own on a device of its own, with its weights,
 * its layers of the cache and its activations; pages have the same numbers in all of them. A batch runs through one
 * stage after the other, and the host carries the rows of the values that cross a cut. Each stage computes a digest of
 * what it leaves, what it has taken and which rows it ran (kernels/digest.h), from its own memory; the run fails with
 * HALO_DEVICE_E_LOST when two stages differ.
 *
 * The embedding is in the first stage, the head in the last; a weight of both is loaded twice. Stages get as many bytes
 * of weights and of one context's cache as the memory of their devices bears to that of all. No experts and no layers
 * are streamed.
 */
#ifndef HALO_PIPELINE_PIPELINE_H
#define HALO_PIPELINE_PIPELINE_H

#include <kernels/device.h>

#define HALO_STAGES_MAX HALO_DEVICE_GPUS_MAX

/* options->stage is the device of a stage, options->n_stages how many there are. */
const struct halo_device_ops *halo_device_pipeline(void);

#endif
