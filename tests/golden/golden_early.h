/* golden_early.h: the form of qwen3next files before q, k, v and the gate had tensors of their own. */
#ifndef HALO_GOLDEN_EARLY_H
#define HALO_GOLDEN_EARLY_H

#include <base/fault.h>

/* Writes `from`, a qwen3next file in one part, to `to` with blk.N.attn_qkv and blk.N.attn_gate as one blk.N.ssm_in: for
 * each head of k the rows of q, k, v and z. 0 or negative with the fault. */
int halo_golden_early_write(const char *from, const char *to, struct halo_fault *fault);

#endif
