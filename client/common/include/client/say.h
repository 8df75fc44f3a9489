/* say.h: what a client program says on standard error, one line at a time. One thread.
 *
 * Every line begins with the program's name. Control characters are escaped, wherever they come from: a message may
 * repeat a model's name or a text of the daemon.
 */
#ifndef HALO_CLIENT_SAY_H
#define HALO_CLIENT_SAY_H

/* The name before each line; static text. Call it first in main(). */
void halo_client_set_name(const char *name);

/* Prints "NAME: TEXT" and a newline. */
__attribute__((format(printf, 1, 2))) void halo_client_say(const char *format, ...);

#define HALO_CLIENT_NO_READER 141 /* 128 + SIGPIPE: nobody reads the output any more */

/* The exit status of a program whose standard output ended with `error` (an errno, 0: well): NO_READER for EPIPE, which
 * is quiet; `failed` in place of a success for others, after a message. */
int halo_client_output_status(int error, int status, int failed);

#endif
