/* quota.h: charges each user id for what it makes the daemon hold.
 *
 * A charge is taken before something is kept and given back when it goes. Where a limit names no share of one user, a
 * user may have half of what the others leave, so that the next user finds room; the last part of a limit is reserved
 * for root and the daemon's own user. Accounts of users without a charge and without a connection disappear.
 * One thread. Accounts are few (one for each user with a connection), the list is linear.
 */
#ifndef HALO_SERVE_QUOTA_H
#define HALO_SERVE_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <serve/config.h>

#define HALO_QUOTA_E_USER 1 /* over the user's share */
#define HALO_QUOTA_E_ALL 2  /* over what all users may have together */

enum halo_quota_kind {
    HALO_QUOTA_LINES,       /* bytes of request lines, whole ones and half ones, and of committed ids */
    HALO_QUOTA_OUTPUT,      /* bytes of events that were not read yet */
    HALO_QUOTA_CONNECTIONS, /* how many */
    HALO_QUOTA_QUEUED,      /* how many requests that were accepted and have not begun */
    HALO_N_QUOTA_KINDS
};

struct halo_quota_limit {
    int64_t all;      /* of all users together */
    int64_t reserved; /* of that for root and the daemon's own user alone */
    int64_t user;     /* of any one user; 0: half of what the others leave */
};

struct halo_quota_user {
    struct halo_quota_user *next;
    uid_t uid;
    bool privileged; /* root or the daemon's own user */
    size_t n_refs;   /* connections and requests that hold the account */
    int64_t used[HALO_N_QUOTA_KINDS];
    uint64_t turn;                /* of the loop in which it last had lines handled ... */
    uint64_t turn_ns, turn_bytes; /* ... how long they took then, and what was read for it */
};

struct halo_quota {
    struct halo_quota_user *users;
    uid_t own_uid;
    struct halo_quota_limit limits[HALO_N_QUOTA_KINDS];
    int64_t used[HALO_N_QUOTA_KINDS];
};

/* `own_uid`: the daemon's. */
void halo_quota_init(struct halo_quota *quota, const struct halo_config *config, uid_t own_uid);
void halo_quota_finish(struct halo_quota *quota); /* every account must have been released */

/* The account of a user, one reference more. NULL: out of memory. */
struct halo_quota_user *halo_quota_acquire(struct halo_quota *quota, uid_t uid);
struct halo_quota_user *halo_quota_ref(struct halo_quota_user *user);
void halo_quota_release(struct halo_quota *quota, struct halo_quota_user *user);

/* What the user may have in all at the moment. */
int64_t halo_quota_share(const struct halo_quota *quota, const struct halo_quota_user *user, enum halo_quota_kind kind);
/* 0, or which limit the charge would break; `fits` charges nothing, nor does a charge that fails. */
int halo_quota_fits(const struct halo_quota *quota, const struct halo_quota_user *user, enum halo_quota_kind kind,
                    size_t n);
int halo_quota_charge(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n);
/* Charges regardless of the limits, for what is held already. */
void halo_quota_add(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n);
void halo_quota_give_back(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n);

#endif
