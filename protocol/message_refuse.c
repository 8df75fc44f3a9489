/* message_refuse.c: the sentence that says why a line is refused. No memory, no state, no failures. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "message_decode_priv.h"
#include <protocol/suggest.h>
#include <protocol/utf8.h>

/* Appends to the refusal's message; cut at the end of a character when it is full. */
__attribute__((format(printf, 2, 0))) static void vsay(struct halo_refusal *r, const char *format, va_list ap)
{
    size_t n = strlen(r->message);
    int more = vsnprintf(r->message + n, sizeof r->message - n, format, ap);

    if (more > 0 && n + (size_t)more >= sizeof r->message)
        r->message[halo_utf8_cut(r->message, sizeof r->message - 1)] = '\0';
}

void halo_refusal_say(struct halo_refusal *r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsay(r, format, ap);
    va_end(ap);
}

/* A piece of the line, at most 40 bytes of it; broken characters are left to the writer. */
void halo_refusal_say_quoted(struct halo_refusal *r, const char *text, size_t len)
{
    size_t n = len <= 40 ? len : halo_utf8_cut(text, 40);

    halo_refusal_say(r, "\"%.*s%s\"", (int)n, text, n < len ? "..." : "");
}

static void say_where(struct halo_refusal *r, const struct halo_where *where)
{
    if (where->up)
        say_where(r, where->up);
    if (!where->name)
        halo_refusal_say(r, "[%zu]", where->index);
    else
        halo_refusal_say(r, "%s%.64s", where->up ? "." : "", where->name);
}

int halo_decode_refuse(struct halo_decode *d, const struct halo_where *where, const char *format, ...)
{
    struct halo_refusal *r = d->refusal;
    va_list ap;

    r->code = HALO_ERROR_BAD_REQUEST;
    r->message[0] = '\0';
    say_where(r, where);
    halo_refusal_say(r, ": ");
    va_start(ap, format);
    vsay(r, format, ap);
    va_end(ap);
    return HALO_MSG_E_REFUSED;
}

void halo_refusal_say_suggestion(struct halo_refusal *r, const struct halo_suggest *near)
{
    if (near->best)
        halo_refusal_say(r, "; did you mean \"%s\"?", near->best);
}
