/* standard_fds.h: file descriptors 0, 1 and 2 are open before a program opens anything else.
 *
 * A program that is started with one of them closed would get its first socket or pipe under that number, and what it
 * prints would go to the peer. Every program of the project calls this first; it lives in the one room they all use.
 */
#ifndef HALO_PROTOCOL_STANDARD_FDS_H
#define HALO_PROTOCOL_STANDARD_FDS_H

/* Opens /dev/null for reading on each of 0, 1 and 2 that is closed: reads find the end, writes still fail with EBADF.
 * Returns a mask of those that were closed (bit n: descriptor n), or a negative errno when /dev/null does not open. */
int halo_standard_fds_open(void);

#endif
