/* suggest.c: see suggest.h. */
#include <client/suggest.h>

#include <stdio.h>
#include <string.h>

#include <protocol/suggest.h>

struct near {
    const char *word;
    size_t distance;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

const char *halo_client_did_you_mean(const char *word, const char *const *known, size_t n_known, char *buf,
                                     size_t n_bytes)
{
    struct near near[HALO_CLIENT_SUGGESTIONS + 1];
    size_t n = 0, used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < n_known; i++) {
        struct near here = {.word = known[i]};
        if (strcmp(word, known[i]) == 0)
            return buf;
        if (!halo_suggest_is_near(word, strlen(word), known[i], &here.distance))
            continue;
        size_t at = n;
        for (; at > 0 && near[at - 1].distance > here.distance; at--)
            near[at] = near[at - 1];
        near[at] = here;
        n = least(n + 1, HALO_CLIENT_SUGGESTIONS);
    }
    while (n > 0 && near[n - 1].distance > near[0].distance + 1) /* when one is much nearer, it is the one */
        n--;
    for (size_t i = 0; i < n && used < n_bytes; i++)
        used += (size_t)snprintf(buf + used, n_bytes - used, "%s'%s'%s",
                                 i == 0       ? "; did you mean "
                                 : i == n - 1 ? " or "
                                              : ", ",
                                 near[i].word, i == n - 1 ? "?" : "");
    return buf;
}
