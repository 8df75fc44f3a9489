/* text.h: text from files and arguments, taken as it is or refused. One thread.
 *
 * The protocol carries UTF-8 without NUL. Bytes that are none of that are refused here, with their place, rather than
 * changed on the way.
 */
#ifndef HALO_CLIENT_TEXT_H
#define HALO_CLIENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Reads a file, or standard input when `path` is "-", to its end: malloc'ed, a NUL after the `*ret_n` bytes. NULL
 * after a message. */
char *halo_client_read_file(const char *path, size_t *ret_n);

/* Whether the text can be sent as it is; false after a message that says which byte of `what` cannot. */
bool halo_client_check_text(const char *what, const char *text, size_t n);

/* A model as a daemon is to understand it: a path that begins at this process's folder is made absolute; names and
 * absolute paths stay. Malloc'ed; NULL after a message. */
char *halo_client_model(const char *text);

#endif
