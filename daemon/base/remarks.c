/* remarks.c: a list of sentences in fixed room. See remarks.h. */
#include <base/remarks.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/utf8.h>

void halo_remarks_add(struct halo_remarks *remarks, const char *format, ...)
{
    va_list args;
    if (remarks->n == HALO_REMARKS) {
        snprintf(remarks->text[HALO_REMARKS - 1], HALO_REMARK_BYTES, "there are more remarks than the %d that are kept",
                 HALO_REMARKS);
        return;
    }
    char *text = remarks->text[remarks->n++];
    va_start(args, format);
    vsnprintf(text, HALO_REMARK_BYTES, format, args);
    va_end(args);
    text[halo_utf8_valid_run(text, strlen(text))] = '\0';
}

void halo_remarks_append(struct halo_remarks *remarks, const struct halo_remarks *more)
{
    for (uint32_t i = 0; i < more->n; i++)
        halo_remarks_add(remarks, "%s", more->text[i]);
}
