/* msgpack_priv.h: reads msgpack from untrusted bytes, one value after another.
 *
 * Nothing is allocated and nothing recurses. Every function returns false when the value is of another kind or the
 * bytes end, and then the reader must not be used further. One thread.
 */
#ifndef HALO_HIP_REMOTE_MSGPACK_PRIV_H
#define HALO_HIP_REMOTE_MSGPACK_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/message.h>

struct halo_msgpack {
    const uint8_t *at;
    size_t n;
};

/* The number of pairs or items that follow. It is at most the number of bytes left. */
bool halo_msgpack_map(struct halo_msgpack *m, uint32_t *ret_pairs);
bool halo_msgpack_array(struct halo_msgpack *m, uint32_t *ret_items);
bool halo_msgpack_text(struct halo_msgpack *m, struct halo_remote_bytes *ret);
bool halo_msgpack_u32(struct halo_msgpack *m, uint32_t *ret);
bool halo_msgpack_skip(struct halo_msgpack *m); /* one value with everything inside */

/* Whether the text is `word`. */
bool halo_msgpack_is(struct halo_remote_bytes text, const char *word);

#endif
