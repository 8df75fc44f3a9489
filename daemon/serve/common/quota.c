/* quota.c: accounts of the bytes that each user id makes the daemon hold. */
#include <serve/quota.h>

#include <assert.h>
#include <stdlib.h>

void halo_quota_init(struct halo_quota *quota, int64_t limit_bytes, int64_t user_limit_bytes)
{
    *quota = (struct halo_quota){.limit_bytes = limit_bytes, .user_limit_bytes = user_limit_bytes};
}

void halo_quota_finish(struct halo_quota *quota)
{
    assert(!quota->users && quota->bytes == 0);
}

struct halo_quota_user *halo_quota_ref(struct halo_quota_user *user)
{
    user->n_refs++;
    return user;
}

struct halo_quota_user *halo_quota_acquire(struct halo_quota *quota, uid_t uid)
{
    for (struct halo_quota_user *user = quota->users; user; user = user->next)
        if (user->uid == uid)
            return halo_quota_ref(user);
    struct halo_quota_user *user = calloc(1, sizeof(*user));
    if (!user)
        return NULL;
    *user = (struct halo_quota_user){.next = quota->users, .uid = uid, .n_refs = 1};
    quota->users = user;
    return user;
}

void halo_quota_release(struct halo_quota *quota, struct halo_quota_user *user)
{
    if (!user)
        return;
    assert(user->n_refs > 0);
    if (--user->n_refs > 0)
        return;
    assert(user->bytes == 0);
    struct halo_quota_user **at = &quota->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

int halo_quota_charge(struct halo_quota *quota, struct halo_quota_user *user, size_t bytes)
{
    int64_t n = (int64_t)bytes;
    assert(n >= 0);
    if (n > quota->user_limit_bytes - user->bytes)
        return HALO_QUOTA_E_USER;
    if (n > quota->limit_bytes - quota->bytes)
        return HALO_QUOTA_E_ALL;
    user->bytes += n;
    quota->bytes += n;
    return 0;
}

void halo_quota_give_back(struct halo_quota *quota, struct halo_quota_user *user, size_t bytes)
{
    assert((int64_t)bytes <= user->bytes && user->bytes <= quota->bytes);
    user->bytes -= (int64_t)bytes;
    quota->bytes -= (int64_t)bytes;
}
