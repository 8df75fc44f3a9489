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

#endif
