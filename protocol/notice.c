/* notice.c: names and priorities of the codes of notices.
 *
 * Constant tables made from HALO_NOTICE_LIST; any thread, no failures.
 */
#include <protocol/notice.h>

#include <string.h>

static const struct {
    const char *name, *meaning;
    bool of_load, warns;
} table[HALO_N_NOTICES] = {
#define X(ID, name, of_load, warns, meaning) [HALO_NOTICE_##ID] = {#name, meaning, of_load, warns},
    HALO_NOTICE_LIST(X)
#undef X
};

static bool is_code(enum halo_notice code)
{
    return (int)code >= 0 && code < HALO_N_NOTICES;
}

const char *halo_notice_name(enum halo_notice code)
{
    return is_code(code) ? table[code].name : "unknown";
}

enum halo_notice halo_notice_from_name(const char *name, size_t len)
{
    for (int i = 0; i < HALO_N_NOTICES; i++)
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return (enum halo_notice)i;
    return HALO_NOTICE_UNKNOWN;
}

bool halo_notice_is_of_load(enum halo_notice code)
{
    return is_code(code) && table[code].of_load;
}

bool halo_notice_warns(enum halo_notice code)
{
    return !is_code(code) || table[code].warns;
}

const char *halo_notice_meaning(enum halo_notice code)
{
    return is_code(code) ? table[code].meaning : "a code that this build does not know";
}
