/* credentials.c: SO_PEERCRED, SO_PEERGROUPS.
 *
 * In builds with -Dinject=true, and with HALO_INJECT_UIDS=1, a client may say which user it is by the name that it
 * binds its socket to, "halo-uid-1001-anything" in the abstract namespace: tests play several users without being root.
 */
#include "credentials_priv.h"

#include <errno.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int halo_credentials_group(const char *name, gid_t *ret_gid, struct halo_fault *fault)
{
    const struct group *group = getgrnam(name);
    if (!group)
        return halo_fault_set(fault, HALO_FAULT_NOT_FOUND, "admin_group: there is no group '%.64s'", name);
    *ret_gid = group->gr_gid;
    return 0;
}

/* Without memory, or with more groups than the kernel tells: a member by its first group only. */
static bool is_member(int fd, gid_t first, gid_t group)
{
    gid_t groups[1024];
    socklen_t len = sizeof(groups);
    if (group == HALO_NO_GROUP || first == group)
        return group != HALO_NO_GROUP;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0)
        return false;
    for (size_t i = 0; i < len / sizeof(groups[0]); i++)
        if (groups[i] == group)
            return true;
    return false;
}

#ifdef HALO_SERVE_INJECT
static void take_stated_uid(int fd, struct halo_credentials *credentials)
{
    struct sockaddr_un address = {0};
    socklen_t len = sizeof(address);
    const char *allowed = getenv("HALO_INJECT_UIDS");
    unsigned uid;
    if (!allowed || strcmp(allowed, "1") != 0 || getpeername(fd, (struct sockaddr *)&address, &len) != 0)
        return;
    if (len > offsetof(struct sockaddr_un, sun_path) && address.sun_path[0] == '\0' &&
        sscanf(address.sun_path + 1, "halo-uid-%u-", &uid) == 1) {
        credentials->uid = uid;
        credentials->in_group = strstr(address.sun_path + 1, "-admin-") != NULL;
    }
}
#endif

int halo_credentials_of(int fd, gid_t group, struct halo_credentials *ret_credentials)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
        return -errno;
    *ret_credentials = (struct halo_credentials){
        .uid = cred.uid,
        .pid = cred.pid,
        .in_group = is_member(fd, cred.gid, group),
    };
#ifdef HALO_SERVE_INJECT
    take_stated_uid(fd, ret_credentials);
#endif
    return 0;
}
