/* suggest.c: how far words are from each other. No memory, no state, no failures. */
#include <protocol/suggest.h>

#include <string.h>

#define MOST_BYTES 64 /* longer words have no edit distance: only their case and their beginning count */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ASCII; the locale plays no part. */
static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Optimal string alignment, case ignored. */
static size_t edits(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][MOST_BYTES + 1];

    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned char x = lower(a[i - 1]), y = lower(b[j - 1]);

            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

static bool starts_alike(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

bool halo_suggest_is_near(const char *word, size_t n_word, const char *known, size_t *ret_distance)
{
    size_t n_known = strlen(known);
    bool begins = n_known >= n_word && starts_alike(word, known, n_word);

    *ret_distance = 0;
    if (n_word == 0)
        return false;
    if (begins && n_known == n_word)
        return true;
    *ret_distance = 1;
    if (begins && n_word >= 3)
        return true;
    if (n_word > MOST_BYTES || n_known > MOST_BYTES)
        return false;
    *ret_distance = edits(word, n_word, known, n_known);
    return *ret_distance <= (n_word + 2) / 3 && *ret_distance < n_known;
}

void halo_suggest_start(struct halo_suggest *s, const char *word, size_t n_word)
{
    *s = (struct halo_suggest){.word = word, .n_word = n_word};
}

void halo_suggest_offer(struct halo_suggest *s, const char *known)
{
    size_t distance;

    if (!halo_suggest_is_near(s->word, s->n_word, known, &distance) || (s->best && distance >= s->distance))
        return;
    s->distance = distance;
    s->best = known;
}
