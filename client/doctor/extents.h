/* extents.h: in how many pieces a file lies on its drive, as the file system tells (FIEMAP). Any thread. */
#ifndef HALO_DOCTOR_EXTENTS_H
#define HALO_DOCTOR_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

struct halo_doctor_extents {
    uint64_t n_bytes, n; /* that lie on the drive, and in how many pieces */
    bool is_compressed;  /* one of them at least, as the next */
    bool is_encrypted;
};

/* 0 or a negative errno: -EOPNOTSUPP where the file system does not tell. A file of more than
 * HALO_DOCTOR_EXTENTS_MAX pieces is described by its first ones. */
#define HALO_DOCTOR_EXTENTS_MAX (1u << 20)
int halo_doctor_extents_of(int fd, struct halo_doctor_extents *ret);

#endif
