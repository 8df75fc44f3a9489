/* bench_socket.h: stream sockets by name: a path of a Unix socket, or a port of 127.0.0.1.
 *
 * `buffer_bytes`: of the kernel's buffer on this side; 0: the default. The program ends with a message if there is no
 * such socket.
 */
#ifndef HALO_TESTS_BENCH_SOCKET_H
#define HALO_TESTS_BENCH_SOCKET_H

int bench_socket_listen(const char *name, int buffer_bytes);
int bench_socket_connect(const char *name, int buffer_bytes);

#endif
