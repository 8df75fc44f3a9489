/* check_priv.h: what a field may hold, and what the fields of one request say of each other. Pure. */
#ifndef HALO_HIP_REMOTE_CHECK_PRIV_H
#define HALO_HIP_REMOTE_CHECK_PRIV_H

#include <stdbool.h>

#include <hip_remote/frame.h>
#include <hip_remote/table.h>

/* The value at `value`, of the field's C type. */
bool halo_remote_field_ok(const struct halo_remote_field *f, const void *value);

/* A request whose fields are all in range: do they agree with each other and with the header's flags? */
bool halo_remote_request_agrees(const struct halo_remote_header *h, const struct halo_remote_op_info *op,
                                const void *request);

#endif
