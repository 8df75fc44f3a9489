/* program_toy.h: a GPU that needs no runtime, programs of the HIP device compiled for it, and their golden texts.
 *
 * HALO_UPDATE_PLANS=1 writes the texts anew: read the difference before committing it. */
#ifndef HALO_TESTS_PROGRAM_TOY_H
#define HALO_TESTS_PROGRAM_TOY_H

#include "cpu_fixture.h"
#include "device_priv.h"

/* As those of the fixture, with the name that a text calls them by. */
uint16_t program_value(struct fixture *f, const char *name, uint32_t width);
uint32_t program_weight(struct fixture *f, const char *name, enum halo_type type, enum halo_weight_role role,
                        uint32_t n_cols, uint32_t n_rows, uint32_t n_experts);

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
