/* tls.h: the cipher of a channel: TLS 1.3 with a shared key and fresh Diffie-Hellman keys, by GnuTLS.
 *
 * Neither side has a certificate: the key proves each to the other, and a recorded connection stays unreadable when the
 * key is found out later. The library compares in constant time.
 */
#ifndef HALO_HIP_TLS_TLS_H
#define HALO_HIP_TLS_TLS_H

#include <hip_remote/channel.h>

/* The one symbol that the client's module shows. */
__attribute__((visibility("default"))) extern const struct halo_remote_cipher halo_remote_tls;

#endif
