/* transcript_match.c: the patterns of transcript files. */
#include <string.h>

#include "transcript.h"

/* The end of the JSON value that starts at `at`; NULL if there is none. */
static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;
    bool quoted = false;
    const char *start = at;
    for (; at < end; at++) {
        if (quoted) {
            if (*at == '\\')
                at++;
            else if (*at == '"')
                quoted = false;
        } else if (*at == '"') {
            quoted = true;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (depth == 0)
                break;
            depth--;
        } else if (*at == ',' && depth == 0) {
            break;
        }
        if (depth == 0 && !quoted && (*at == '"' || *at == '}' || *at == ']'))
            return at + 1;
    }
    return at > start && depth == 0 && !quoted ? at : NULL;
}

static bool is_value_place(const char *pattern, const char *at)
{
    return at > pattern && at[0] == '*' && (at[-1] == ':' || at[-1] == '[' || at[-1] == ',') &&
           (at[1] == ',' || at[1] == '}' || at[1] == ']' || at[1] == '.');
}

static bool match(const char *whole, const char *pattern, const char *at, const char *end)
{
    for (; *pattern != '\0'; pattern++) {
        if (strncmp(pattern, "...", 3) == 0) {
            for (const char *rest = at; rest <= end; rest++)
                if (match(whole, pattern + 3, rest, end))
                    return true;
            return false;
        }
        if (is_value_place(whole, pattern)) {
            at = skip_value(at, end);
            if (!at)
                return false;
            continue;
        }
        if (at == end || *at != *pattern)
            return false;
        at++;
    }
    return at == end;
}

bool transcript_match(const char *pattern, const char *line, size_t len)
{
    return match(pattern, pattern, line, line + len);
}
