/* endpoint.h: how the address of a worker of remote HIP is written, for who reads it from a file, the environment or an
 * option. Knows no socket.
 *
 * "unix:/path", "tcp:HOST:PORT" or "HOST:PORT", with spaces around it or not. An IPv6 address stands in brackets, which
 * `host` has not. A port is a number from 1 to 65535. Any thread; nothing is allocated.
 */
#ifndef HALO_BASE_ENDPOINT_H
#define HALO_BASE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#define HALO_ENDPOINT_HOST_BYTES 256
#define HALO_ENDPOINT_TEXT (HALO_ENDPOINT_HOST_BYTES + 16)

struct halo_endpoint {
    bool is_unix;
    char path[104]; /* with is_unix: what sun_path of every system holds */
    char host[HALO_ENDPOINT_HOST_BYTES], port[8];
};

/* Of n bytes. False: none of these forms, or too long; `ret` is undefined then. */
bool halo_endpoint_parse(struct halo_endpoint *ret, const char *text, size_t n);
/* A host, in brackets or not, and a port that were given apart. */
bool halo_endpoint_set_tcp(struct halo_endpoint *ret, const char *host, size_t n_host, const char *port, size_t n_port);
/* Divides "HOST:PORT" behind the last colon; the port may be any text. False: no colon, or no host that fits. */
bool halo_endpoint_split(const char *text, size_t n, char ret_host[HALO_ENDPOINT_HOST_BYTES], const char **ret_port);
/* As halo_endpoint_parse() reads it, cut to `size` bytes (HALO_ENDPOINT_TEXT holds all of it). */
void halo_endpoint_format(const struct halo_endpoint *endpoint, char *ret, size_t size);

#endif
