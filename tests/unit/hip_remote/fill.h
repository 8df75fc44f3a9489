/* fill.h: messages of remote HIP, made from the table of operations and a source of choices.
 *
 * For unit tests (choices from a seed) and fuzzers (choices from the input, then from a seed). What is filled in points
 * into `pool`. One thread.
 */
#ifndef HALO_TESTS_HIP_REMOTE_FILL_H
#define HALO_TESTS_HIP_REMOTE_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/codec.h>

struct fill_choices {
    const uint8_t *at; /* NULL when n is 0 */
    size_t n;
    uint64_t state; /* goes on when the bytes are used up */
};

uint64_t fill_next(struct fill_choices *c);

/* A valid request, or a reply without an error, of this operation. `long_data`: bulk data may fill a whole frame. */
void fill_request(const struct halo_remote_op_info *op, struct fill_choices *c, bool long_data,
                  union halo_remote_request *ret);
void fill_reply(const struct halo_remote_op_info *op, struct fill_choices *c, bool long_data,
                union halo_remote_reply *ret);

/* Flags with which this request may travel. */
uint16_t fill_flags(const struct halo_remote_op_info *op, const union halo_remote_request *q, struct fill_choices *c);

/* Puts one field of the message out of its range. False: no value is out of range for any of its fields. */
bool fill_break(const struct halo_remote_shape *shape, struct fill_choices *c, void *message);

/* Whether two messages of this shape say the same. */
bool fill_same(const struct halo_remote_shape *shape, const void *a, const void *b);

#endif
