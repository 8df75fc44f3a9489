/* inject.h: a device whose numbers are wrong on purpose, to see that the gates notice.
 *
 * Only in builds with the option `inject`, which tests use; never in one that is installed. The environment variable
 * HALO_INJECT names the fault, each of a kind that text-level gates let pass for months elsewhere:
 *   rope-pairing   the pairs of the rotation are those of the other convention
 *   norm-offset    the attention norm's weights are one less, as if the offset of a (1 + w) norm was dropped
 *   mixed-nan      a product whose weights have different types gives a NaN, in one layer
 *   stale-page     a copy of a page of the cache leaves what the page held before
 * With @LAYER behind the name it is that layer alone; without, every layer, and for mixed-nan the first that has such a
 * product. stale-page takes no layer.
 */
#ifndef HALO_INJECT_INJECT_H
#define HALO_INJECT_INJECT_H

#include <kernels/device.h>

/* `inner` itself when HALO_INJECT is not set; else a table over it whose models are broken. One device at a time: no
 * model may be open when another is wrapped. A name that is no fault, or a model that has nothing to break, fails
 * model_create with -EINVAL: a fault that was not injected must not look like one that was not noticed. */
const struct halo_device_ops *halo_inject_wrap(const struct halo_device_ops *inner);

#endif
