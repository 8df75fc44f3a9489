/* quota.c: accounts of what each user id makes the daemon hold. */
#include <serve/quota.h>

#include <assert.h>
#include <stdlib.h>

#define RESERVED_SHARE 16 /* one in so many connections and places in the queue */

void halo_quota_init(struct halo_quota *quota, const struct halo_config *config, uid_t own_uid)
{
    *quota = (struct halo_quota){
        .own_uid = own_uid,
        .limits = {
            [HALO_QUOTA_LINES] = {.all = config->resume_bytes, .user = config->resume_user_bytes},
            [HALO_QUOTA_OUTPUT] = {.all = config->output_bytes, .user = config->output_user_bytes},
            [HALO_QUOTA_CONNECTIONS] = {.all = config->connections, .reserved = config->connections / RESERVED_SHARE},
            [HALO_QUOTA_QUEUED] = {.all = config->queued_requests,
                                   .reserved = config->queued_requests / RESERVED_SHARE},
        }};
}

void halo_quota_finish(struct halo_quota *quota)
{
    assert(!quota->users);
    for (int i = 0; i < HALO_N_QUOTA_KINDS; i++)
        assert(quota->used[i] == 0);
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
    *user = (struct halo_quota_user){
        .next = quota->users, .uid = uid, .n_refs = 1, .privileged = uid == 0 || uid == quota->own_uid};
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
    for (int i = 0; i < HALO_N_QUOTA_KINDS; i++)
        assert(user->used[i] == 0);
    struct halo_quota_user **at = &quota->users;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

/* What all users together may have, as far as this one is concerned. */
static int64_t limit_of_all(const struct halo_quota *quota, const struct halo_quota_user *user,
                            enum halo_quota_kind kind)
{
    const struct halo_quota_limit *limit = &quota->limits[kind];
    return user->privileged ? limit->all : limit->all - limit->reserved;
}

int64_t halo_quota_share(const struct halo_quota *quota, const struct halo_quota_user *user, enum halo_quota_kind kind)
{
    const struct halo_quota_limit *limit = &quota->limits[kind];
    int64_t left = limit_of_all(quota, user, kind) - (quota->used[kind] - user->used[kind]);
    if (left < 0)
        left = 0;
    if (limit->user > 0)
        return limit->user < left ? limit->user : left;
    return user->privileged ? left : left - left / 2;
}

int halo_quota_fits(const struct halo_quota *quota, const struct halo_quota_user *user, enum halo_quota_kind kind,
                    size_t n)
{
    int64_t more = (int64_t)n;
    assert(more >= 0);
    if (more == 0 || more <= halo_quota_share(quota, user, kind) - user->used[kind])
        return 0;
    int64_t user_limit = quota->limits[kind].user;
    if (user_limit > 0 && more > user_limit - user->used[kind])
        return HALO_QUOTA_E_USER;
    return more > limit_of_all(quota, user, kind) - quota->used[kind] ? HALO_QUOTA_E_ALL : HALO_QUOTA_E_USER;
}

void halo_quota_add(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n)
{
    user->used[kind] += (int64_t)n;
    quota->used[kind] += (int64_t)n;
}

int halo_quota_charge(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n)
{
    int r = halo_quota_fits(quota, user, kind, n);
    if (r == 0)
        halo_quota_add(quota, user, kind, n);
    return r;
}

void halo_quota_give_back(struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind, size_t n)
{
    assert((int64_t)n <= user->used[kind] && user->used[kind] <= quota->used[kind]);
    user->used[kind] -= (int64_t)n;
    quota->used[kind] -= (int64_t)n;
}
