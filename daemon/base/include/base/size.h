/* size.h: a number of bytes for people, in the unit that its size asks for. Pure; any thread.
 *
 * Both return `ret`, which is NUL-terminated.
 */
#ifndef HALO_BASE_SIZE_H
#define HALO_BASE_SIZE_H

#include <stdint.h>

#define HALO_SIZE_TEXT 24

/* By powers of 1024: "64 bytes", "300.0 KiB", "5.1 GiB". */
const char *halo_size_text(uint64_t bytes, char ret[static HALO_SIZE_TEXT]);

/* By powers of 1000, as speeds are: "64 B", "49.2 kB", "4.8 MB". From a gigabyte on with `gb_decimals` digits behind
 * the point: "4.99 GB" with 2. */
const char *halo_size_decimal(double bytes, int gb_decimals, char ret[static HALO_SIZE_TEXT]);

#endif
