/* rope_priv.h: the angles of a rotation, computed once in double. */
#ifndef HALO_MODEL_ROPE_PRIV_H
#define HALO_MODEL_ROPE_PRIV_H

#include <base/arena.h>
#include <base/remarks.h>
#include <kernels/plan.h>

#include <model/model.h>

/* Fills *ret; its table of n_rot / 2 frequencies lies in the arena. `factors` (n_rot / 2, or NULL) divide the
 * frequencies. 0, -ENOMEM, or -EINVAL for a factor that is not a positive finite number (its index in *ret_bad). */
int halo_rope_make(struct halo_rope *ret, struct halo_arena *arena, const struct halo_hparams *hparams,
                   enum halo_rope_pairing pairing, const float *factors, uint32_t *ret_bad);

#define HALO_YARN_BETA_FAST 32 /* when the file has no such keys */
#define HALO_YARN_BETA_SLOW 1

/* Names the file's own numbers of YaRN, which engines treat differently. */
void halo_rope_remark(const struct halo_hparams *hparams, const char *arch, struct halo_remarks *remarks);

#endif
