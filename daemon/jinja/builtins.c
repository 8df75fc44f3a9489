/* builtins.c: filters, tests and functions by name. Constant; any thread. */
#include <string.h>

#include "jinja_priv.h"

static uint32_t find_native(const struct halo_jinja_native *table, size_t n_table, const char *name, size_t n)
{
    for (size_t i = 0; i < n_table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return (uint32_t)i;
    return HALO_JINJA_NO_ID;
}

const struct halo_jinja_native *halo_jinja_global(const char *name, size_t n)
{
    uint32_t id = find_native(halo_jinja_globals, halo_jinja_n_globals, name, n);
    return id == HALO_JINJA_NO_ID ? NULL : &halo_jinja_globals[id];
}

/* Ids of filters: the text filters, then the sequence filters. */
uint32_t halo_jinja_filter_id(const char *name, size_t n)
{
    uint32_t id = find_native(halo_jinja_text_filters, halo_jinja_n_text_filters, name, n);
    if (id != HALO_JINJA_NO_ID)
        return id;
    id = find_native(halo_jinja_sequence_filters, halo_jinja_n_sequence_filters, name, n);
    return id == HALO_JINJA_NO_ID ? id : id + (uint32_t)halo_jinja_n_text_filters;
}

const struct halo_jinja_native *halo_jinja_filter(uint32_t id)
{
    return id < halo_jinja_n_text_filters ? &halo_jinja_text_filters[id]
                                          : &halo_jinja_sequence_filters[id - halo_jinja_n_text_filters];
}

uint32_t halo_jinja_test_id(const char *name, size_t n)
{
    return find_native(halo_jinja_tests, halo_jinja_n_tests, name, n);
}

const struct halo_jinja_native *halo_jinja_test(uint32_t id)
{
    return &halo_jinja_tests[id];
}

const struct halo_jinja_builtins halo_jinja_builtins = {
    .filter_id = halo_jinja_filter_id,
    .test_id = halo_jinja_test_id,
    .filter = halo_jinja_filter,
    .test = halo_jinja_test,
};
