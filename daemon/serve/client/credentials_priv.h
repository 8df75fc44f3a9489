/* credentials_priv.h: who is at the other end of a socket, as the kernel says. */
#ifndef HALO_SERVE_CLIENT_CREDENTIALS_PRIV_H
#define HALO_SERVE_CLIENT_CREDENTIALS_PRIV_H

#include <stdbool.h>
#include <sys/types.h>

#include <base/fault.h>

#define HALO_NO_GROUP ((gid_t)-1)

struct halo_credentials {
    uid_t uid;
    pid_t pid;
    bool in_group; /* its process was in the group when it connected */
};

/* The id of a group by its name. -ENOENT with the reason. */
int halo_credentials_group(const char *name, gid_t *ret_gid, struct halo_fault *fault);

/* `group`: whose members are told apart; HALO_NO_GROUP: nobody. 0 or a negative errno. */
int halo_credentials_of(int fd, gid_t group, struct halo_credentials *ret_credentials);

#endif
