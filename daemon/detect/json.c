/* json.c: steps over JSON text that halo_text_is_object() has passed: members, items. No memory; any thread. */
#include <string.h>

#include "json_priv.h"

static size_t skip_space(struct halo_text text, size_t at)
{
    while (at < text.n && strchr(" \t\r\n,:", text.at[at]) && text.at[at])
        at++;
    return at;
}

/* One value from `at` on, which is its first byte. */
static struct halo_text value_at(struct halo_text text, size_t at)
{
    size_t end = at, depth = 0;
    bool inside = false;
    for (; end < text.n; end++) {
        char c = text.at[end];
        if (inside) {
            end += c == '\\';
            inside = c != '"';
            if (!inside && depth == 0)
                return (struct halo_text){text.at + at, end + 1 - at};
        } else if (c == '"') {
            inside = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0 || --depth == 0)
                return (struct halo_text){text.at + at,
                                          end + (depth == 0 && (text.at[at] == '{' || text.at[at] == '[')) - at};
        } else if (depth == 0 && strchr(" \t\r\n,:", c)) {
            break;
        }
    }
    return (struct halo_text){text.at + at, end < text.n ? end - at : text.n - at};
}

bool halo_text_next(struct halo_text text, size_t *at, struct halo_text *ret)
{
    *at = skip_space(text, *at ? *at : 1);
    if (*at + 1 >= text.n)
        return false;
    *ret = value_at(text, *at);
    *at += ret->n;
    return ret->n > 0;
}

bool halo_text_member(struct halo_text object, const char *key, struct halo_text *ret)
{
    struct halo_text name, value;
    if (object.n == 0 || object.at[0] != '{')
        return false;
    for (size_t at = 0; halo_text_next(object, &at, &name) && halo_text_next(object, &at, &value);)
        if (name.n == strlen(key) + 2 && memcmp(name.at + 1, key, name.n - 2) == 0) {
            *ret = value;
            return true;
        }
    return false;
}
