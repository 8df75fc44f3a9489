/* limits.h: the limits of remote HIP's wire, one constant each.
 *
 * They hold for both sides whatever the configuration says. What a worker grants to one session is smaller and travels
 * in the reply to INIT.
 */
#ifndef HALO_HIP_REMOTE_LIMITS_H
#define HALO_HIP_REMOTE_LIMITS_H

#include <stdint.h>

#define HALO_REMOTE_MAGIC 0x48495052u /* the number; on the wire the bytes are "RPIH" */
#define HALO_REMOTE_VERSION 0x0100    /* major << 8 | minor: another major is refused, a greater minor is ignored */
#define HALO_REMOTE_HEADER_BYTES 20

#define HALO_REMOTE_DATA_MAX (1u << 20)   /* bulk bytes of one frame; larger copies are cut into several */
#define HALO_REMOTE_FIELDS_MAX (8u << 10) /* everything else of one payload */
#define HALO_REMOTE_PAYLOAD_MAX (HALO_REMOTE_DATA_MAX + HALO_REMOTE_FIELDS_MAX)
#define HALO_REMOTE_FIRST_MAX 64u /* the payload of the first frame, before the peer is known */

#define HALO_REMOTE_ARGS_MAX 4096u /* explicit arguments of one launch */
#define HALO_REMOTE_NAME_MAX 4096u /* a symbol; those of template libraries exceed 2000 characters */
#define HALO_REMOTE_DEVICES_MAX 64
#define HALO_REMOTE_SIZE_MAX (INT64_MAX - 1) /* a size or an address: the sum of two never wraps */
#define HALO_REMOTE_INDEX_MAX (1u << 20)     /* handles of one type */

#endif
