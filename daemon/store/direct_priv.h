/* direct_priv.h: a second descriptor of a file, for direct reads, and how often a read is tried again. Any thread. */
#ifndef HALO_STORE_DIRECT_PRIV_H
#define HALO_STORE_DIRECT_PRIV_H

#include <store/file_id.h>

#define DIRECT_TRIES 1000u /* of one read, interrupted or without a byte of progress */

/* The file that fd is open on, opened once more with O_DIRECT, which needs a description of its own: through the
 * descriptor, for its name may lead to another file by now. The caller closes it. Negative errno: that of open;
 * -ESTALE when what was opened is another file. */
int direct_open(int fd, const struct halo_file_id *id);

#endif
