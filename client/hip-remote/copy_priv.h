/* copy_priv.h: copies as the functions of several files need them. With the lock of client_priv.h. HIP errors. */
#ifndef HALO_HIP_REMOTE_COPY_PRIV_H
#define HALO_HIP_REMOTE_COPY_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hip_remote/message.h>

/* `waits`: until the bytes are there; a copy to memory that HIP did not allocate is always waited for. */
int halo_copy(void *to, const void *from, size_t n, int kind, void *stream, bool waits);
/* The kind that HIP_COPY_DEFAULT stands for with these addresses; others stay as they are. */
int halo_copy_kind(const void *to, const void *from, int kind);
/* Whether these bytes are one allocation's on the device. */
bool halo_copy_is_device(const void *at, size_t n);

/* The two halves with a place on the device that is known to be one, on a stream that is. */
int halo_copy_to_device(uint64_t to, const uint8_t *from, size_t n, uint64_t stream);
int halo_copy_to_host(uint8_t *to, uint64_t from, size_t n, uint64_t stream, bool waits);

/* Whether the request sent last is a long copy to the device on this stream. */
bool halo_copy_is_long_before(uint64_t stream);

/* Takes the answer of a copy to the host that nobody waits for; its tag is the stream. */
void halo_copy_take_unawaited(void *ud, uint64_t tag, const union halo_remote_reply *reply);

#endif
