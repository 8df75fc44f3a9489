/* quota.h: who causes cost is charged for it: bytes of request lines held for each user id.
 *
 * A charge is taken before the bytes are kept and given back when they go; the accounts of users without a charge and
 * without a connection disappear. One thread. Accounts are few (one for each user with a connection), the list is
 * linear.
 */
#ifndef HALO_SERVE_QUOTA_H
#define HALO_SERVE_QUOTA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HALO_QUOTA_E_USER 1 /* over the user's share */
#define HALO_QUOTA_E_ALL 2  /* over what all users have together */

struct halo_quota_user {
    struct halo_quota_user *next;
    uid_t uid;
    size_t n_refs; /* connections and requests that hold the account */
    int64_t bytes;
};

struct halo_quota {
    struct halo_quota_user *users;
    int64_t bytes;
    int64_t limit_bytes, user_limit_bytes;
};

void halo_quota_init(struct halo_quota *quota, int64_t limit_bytes, int64_t user_limit_bytes);
void halo_quota_finish(struct halo_quota *quota); /* every account must have been released */

/* The account of a user, one reference more. NULL: out of memory. */
struct halo_quota_user *halo_quota_acquire(struct halo_quota *quota, uid_t uid);
struct halo_quota_user *halo_quota_ref(struct halo_quota_user *user);
void halo_quota_release(struct halo_quota *quota, struct halo_quota_user *user);

/* 0, or which limit the charge would break; then nothing was charged. */
int halo_quota_charge(struct halo_quota *quota, struct halo_quota_user *user, size_t bytes);
void halo_quota_give_back(struct halo_quota *quota, struct halo_quota_user *user, size_t bytes);

#endif
