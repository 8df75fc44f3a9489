/* finding.c: what all detectors share: a finding in words, a search in text. Any thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "detect_priv.h"

void halo_find(struct halo_finding *ret, enum halo_verdict verdict, const char *format, ...)
{
    va_list args;
    ret->verdict = verdict;
    va_start(args, format);
    vsnprintf(ret->detail, sizeof ret->detail, format, args);
    va_end(args);
}

size_t halo_detect_find(const char *text, size_t n, size_t from, const char *what)
{
    const char *at = from < n ? memmem(text + from, n - from, what, strlen(what)) : NULL;
    return at ? (size_t)(at - text) : n;
}
