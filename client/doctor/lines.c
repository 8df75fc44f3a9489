/* lines.c: values out of the kernel's texts. */
#include "lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool halo_doctor_number_parse(const char *text, uint64_t *ret, const char **ret_end)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
    *ret_end = end;
    return end != text && errno == 0;
}

const char *halo_doctor_line_of(const char *text, const char *key, char *buf, size_t room)
{
    size_t n_key = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n_key) != 0)
            continue;
        const char *value = line + n_key;
        if (*value != ':' && *value != ' ' && *value != '\t' && *value != '\n' && *value)
            continue; /* a longer key */
        value += *value == ':';
        value += strspn(value, " \t");
        snprintf(buf, room, "%.*s", (int)strcspn(value, "\n"), value);
        return buf;
    }
    return NULL;
}

bool halo_doctor_number_of(const char *text, const char *key, uint64_t *ret)
{
    char word[64];
    const char *end;
    return halo_doctor_line_of(text, key, word, sizeof word) && halo_doctor_number_parse(word, ret, &end);
}

const char *halo_doctor_option_of(const char *line, const char *key, char *buf, size_t room)
{
    size_t n_key = strlen(key);
    for (const char *at = line; *at;) {
        at += strspn(at, " \t\n");
        size_t n = strcspn(at, " \t\n");
        if (n >= n_key && memcmp(at, key, n_key) == 0 && (n == n_key || at[n_key] == '=')) {
            size_t n_value = n > n_key ? n - n_key - 1 : 0;
            snprintf(buf, room, "%.*s", (int)n_value, at + n - n_value);
            return buf;
        }
        at += n;
    }
    return NULL;
}
