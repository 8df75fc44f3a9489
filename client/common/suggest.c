/* suggest.c: see suggest.h. */
#include <client/suggest.h>

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WORD_MAX 64 /* longer words have no edit distance: only their case and their beginning count */

struct near {
    const char *word;
    size_t distance;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, case ignored. */
static size_t edits(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

/* How far `known` is from `word`; false: too far to be meant. */
static bool is_near(const char *word, const char *known, size_t *ret_distance)
{
    size_t n_word = strlen(word), n_known = strlen(known);
    if (n_word == 0)
        return false;
    *ret_distance = 0;
    if (strcasecmp(word, known) == 0)
        return true;
    *ret_distance = 1;
    if (n_word >= 3 && strncasecmp(word, known, n_word) == 0)
        return true;
    if (n_word > WORD_MAX || n_known > WORD_MAX)
        return false;
    *ret_distance = edits(word, n_word, known, n_known);
    return *ret_distance <= (n_word + 2) / 3 && *ret_distance < n_known;
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
        if (!is_near(word, known[i], &here.distance))
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
