/* stub.h: one typed function for each operation, made from hip_remote.def, over the one that sends and waits.
 *
 *     int halo_remote_malloc(struct halo_remote_port *, const struct halo_remote_malloc *,
 *                            struct halo_remote_malloc_reply *)
 *
 * The client gives the port. A stub returns what `call` returns: 0, also when the reply's status has an error, or a
 * negative errno when the session is lost. `reply` may be NULL for operations that need no answer.
 */
#ifndef HALO_HIP_REMOTE_STUB_H
#define HALO_HIP_REMOTE_STUB_H

#include <hip_remote/message.h>

struct halo_remote_port {
    int (*call)(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply);
};

#define OP(number, ID, name, answer, quota, doc)                                                                       \
    static inline int halo_remote_##name(struct halo_remote_port *port, const struct halo_remote_##name *request,      \
                                         struct halo_remote_##name##_reply *ret_reply)                                 \
    {                                                                                                                  \
        return port->call(port, HIP_OP_##ID, request, ret_reply);                                                      \
    }
#include <hip_remote/hip_remote.def>

#endif
