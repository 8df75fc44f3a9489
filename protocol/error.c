/* error.c: names and retry advice of the error codes.
 *
 * Constant tables made from HALO_ERROR_LIST; any thread, no failures.
 */
#include <protocol/error.h>

#include <string.h>

static const struct {
    const char *name;
    const char *numbers, *meaning;
    bool retryable;
} table[HALO_N_ERRORS] = {[HALO_ERROR_NONE] = {"none", "", "no error", false},
#define X(ID, name, retryable, numbers, meaning) [HALO_ERROR_##ID] = {#name, numbers, meaning, retryable},
                          HALO_ERROR_LIST(X)
#undef X
};

static bool is_code(enum halo_error code)
{
    return (int)code >= 0 && code < HALO_N_ERRORS;
}

const char *halo_error_name(enum halo_error code)
{
    return is_code(code) ? table[code].name : "unknown";
}

enum halo_error halo_error_from_name(const char *name, size_t len)
{
    for (int i = HALO_ERROR_NONE + 1; i < HALO_N_ERRORS; i++) {
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
            return (enum halo_error)i;
    }
    return HALO_ERROR_UNKNOWN;
}

bool halo_error_retryable(enum halo_error code)
{
    return is_code(code) && table[code].retryable;
}

const char *halo_error_numbers(enum halo_error code)
{
    return is_code(code) ? table[code].numbers : "";
}

const char *halo_error_meaning(enum halo_error code)
{
    return is_code(code) ? table[code].meaning : "a code that this build does not know";
}
