/* program_toy.h: a GPU that needs no runtime, programs of the HIP device compiled for it, and their golden texts.
 *
 * HALO_UPDATE_PLANS=1 writes the texts anew: read the difference before committing it. */
#ifndef HALO_TESTS_PROGRAM_TOY_H
#define HALO_TESTS_PROGRAM_TOY_H

#include "cpu_fixture.h"
#include "device_priv.h"

/* A GPU of four units that has every kernel but those whose names begin with one of `without`, which ends with NULL. */
void program_device_init(struct halo_device *device, const char *const *without);
/* A model of this plan at addresses that nobody reads. Owned: program_model_finish. */
void program_model_init(struct halo_device_model *model, struct halo_device *device, const struct halo_plan *plan);
void program_model_finish(struct halo_device_model *model);
/* Both, and the program. Fails the running test when the device refuses an op. */
void program_compile(struct fixture *f, struct halo_device *device, struct halo_device_model *model,
                     const char *const *without);
/* The launches of one row of a decode step. Freshly allocated. */
char *program_decode_text(struct fixture *f, const char *const *without);
/* Fails the running test when programs/NAME.txt is another text. */
void program_compare(const char *name, const char *text);

#endif
