/* remarks.c: a list of sentences in fixed room. See remarks.h. */
#include <base/remarks.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <base/utf8.h>

/* Room for one more; NULL when all is used: the last one says so then. */
static char *next_slot(struct halo_remarks *remarks)
{
    if (remarks->n < HALO_REMARKS)
        return remarks->text[remarks->n++];
    snprintf(remarks->text[HALO_REMARKS - 1], HALO_REMARK_BYTES, "there are more remarks than the %d that are kept",
             HALO_REMARKS);
    return NULL;
}

void halo_remarks_add(struct halo_remarks *remarks, const char *format, ...)
{
    va_list args;
    char *text = next_slot(remarks);
    if (!text)
        return;
    va_start(args, format);
    vsnprintf(text, HALO_REMARK_BYTES, format, args);
    va_end(args);
    text[halo_utf8_valid_run(text, strlen(text))] = '\0';
}

void halo_remarks_append(struct halo_remarks *remarks, const struct halo_remarks *more)
{
    for (uint32_t i = 0; i < more->n; i++) {
        char *text = next_slot(remarks);
        if (text)
            memcpy(text, more->text[i], HALO_REMARK_BYTES);
    }
}
