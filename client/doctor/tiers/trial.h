/* trial.h: a small plan of the device ABI, made by hand and run on the HIP device as the engine runs one,
 * but without a model file.
 *
 * Inputs are rows of an f32 table that a token looks up. Weights are given as floats that their type can hold exactly,
 * and so are inputs, so that a right result is known to the last bit or nearly so. The trial lives in a tier's child
 * and ends with it; a thread of its own reports the device's phase to the parent.
 */
#ifndef HALO_DOCTOR_TIER_TRIAL_H
#define HALO_DOCTOR_TIER_TRIAL_H

#include <kernels/device.h>

#include "tier_priv.h"

#define HALO_DOCTOR_TRIAL_OPS 256
#define HALO_DOCTOR_TRIAL_VALUES 24 /* and weights */

struct halo_doctor_trial {
    struct halo_doctor_tier *tier;
    struct halo_plan plan;
    struct halo_op ops[HALO_DOCTOR_TRIAL_OPS];
    struct halo_weight weights[HALO_DOCTOR_TRIAL_VALUES];
    struct halo_value values[HALO_DOCTOR_TRIAL_VALUES];
    uint8_t *bytes[HALO_DOCTOR_TRIAL_VALUES]; /* of the weights, as in a file */
    struct halo_device *device;
    struct halo_device_model *model;
    struct halo_device_phase phase;
    bool no_memory;
};

/* A plan of batches of up to max_rows rows over n_vocab tokens. */
void halo_doctor_trial_init(struct halo_doctor_trial *trial, struct halo_doctor_tier *tier, uint32_t n_vocab,
                            uint32_t max_rows);
/* The type is F32, F16 or Q8_0; `at(row, column)` gives the weight. For Q8_0 it is a whole number of 1/64 from -127/64
 * to 127/64; for F16 a small whole number. */
uint32_t halo_doctor_trial_weight(struct halo_doctor_trial *trial, enum halo_type type, enum halo_weight_role role,
                                  uint32_t n_cols, uint32_t n_rows, double (*at)(uint32_t row, uint32_t column));
uint16_t halo_doctor_trial_value(struct halo_doctor_trial *trial, uint32_t width);
void halo_doctor_trial_op(struct halo_doctor_trial *trial, struct halo_op op);
/* An f32 table of n_vocab rows, and the op that looks rows up: the value that holds them. */
uint16_t halo_doctor_trial_input(struct halo_doctor_trial *trial, uint32_t width,
                                 double (*at)(uint32_t row, uint32_t column));
/* out = weight x. */
uint16_t halo_doctor_trial_matmul(struct halo_doctor_trial *trial, uint16_t x, uint32_t weight);

/* Opens the device and uploads the weights. */
enum halo_doctor_failure halo_doctor_trial_open(struct halo_doctor_trial *trial);
/* Row r has token `first_token` + r % n_vocab. With `logits` they are wanted of every row: [n_rows][n_vocab]. */
enum halo_doctor_failure halo_doctor_trial_run(struct halo_doctor_trial *trial, uint32_t n_rows, uint32_t first_token,
                                               float *logits);
/* A row of a value after the last run: all work until then is done. */
enum halo_doctor_failure halo_doctor_trial_peek(struct halo_doctor_trial *trial, uint16_t value, uint32_t row,
                                                float *ret);

#endif
