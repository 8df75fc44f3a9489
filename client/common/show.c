/* show.c: see show.h. */
#include <client/show.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <protocol/utf8.h>

static uint32_t code_of(const char *s, int n_bytes)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)s[0] & lead_bits[n_bytes];
    for (int i = 1; i < n_bytes; i++)
        code = code << 6 | ((unsigned char)s[i] & 0x3f);
    return code;
}

/* C0, DEL, C1, the line separators of Unicode, and the overrides and isolates of writing direction. */
static bool is_obeyed(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* Writes escaped text; `lines`: newlines and tabs pass. Returns how many characters were written. */
static size_t escape(FILE *out, const char *text, size_t n, bool lines)
{
    size_t n_chars = 0, plain = 0, at = 0;
    while (at < n) {
        int len = halo_utf8_char(text + at, n - at);
        uint32_t code = len > 0 ? code_of(text + at, len) : 0;
        if (len > 0 && (!is_obeyed(code) || (lines && (code == '\n' || code == '\t')))) {
            at += (size_t)len;
            n_chars++;
            continue;
        }
        fwrite(text + plain, 1, at - plain, out);
        int n_bytes = len < 0 ? -len : len;
        if (code >= 0x80)
            n_chars += (size_t)fprintf(out, "\\u%04x", code);
        else
            for (int i = 0; i < n_bytes; i++)
                n_chars += (size_t)fprintf(out, "\\x%02x", (unsigned char)text[at + (size_t)i]);
        at += (size_t)n_bytes;
        plain = at;
    }
    fwrite(text + plain, 1, n - plain, out);
    return n_chars;
}

void halo_client_show_text(FILE *out, const char *text, size_t n)
{
    if (isatty(fileno(out)))
        escape(out, text, n, true);
    else
        fwrite(text, 1, n, out);
}

void halo_client_show_line(FILE *out, const char *text, size_t n)
{
    escape(out, text, n, false);
}

void halo_client_show_cell(FILE *out, const char *text, size_t n, size_t width)
{
    for (size_t n_chars = escape(out, text, n, false); n_chars < width; n_chars++)
        fputc(' ', out);
}

void halo_client_print_line(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    escape(out, text, (size_t)n, false);
    fputc('\n', out);
    free(text);
}
