/* show.h: other people's text on this person's terminal. One thread.
 *
 * File names, messages and replies may hold bytes that a terminal obeys: ESC and OSC sequences that move the cursor,
 * set the window's title or fill the clipboard, C1 controls that do the same in one character, and direction overrides
 * that make a name read as another. The writers here print those as "\x1b" or "\u009b" and leave all else as it is.
 */
#ifndef HALO_CLIENT_SHOW_H
#define HALO_CLIENT_SHOW_H

#include <stddef.h>
#include <stdio.h>

/* Text of any number of lines. A stream that is no terminal gets the bytes unchanged; a terminal gets newlines, tabs
 * and what can be printed, everything else escaped. Takes whole characters: a piece of one counts as bytes that are no
 * UTF-8, which are escaped too. */
void halo_client_show_text(FILE *out, const char *text, size_t n);

/* A name or a message, which is part of one line wherever it goes: escaped for every stream, newlines and tabs too. */
void halo_client_show_line(FILE *out, const char *text, size_t n);

/* The same in a column: padded with spaces to `width` characters. */
void halo_client_show_cell(FILE *out, const char *text, size_t n, size_t width);

/* One formatted line and its newline; the text is escaped. */
__attribute__((format(printf, 2, 3))) void halo_client_print_line(FILE *out, const char *format, ...);

#endif
