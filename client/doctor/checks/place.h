/* place.h: the folder that the models lie in, its file system, and the drives under it. One thread. */
#ifndef HALO_DOCTOR_PLACE_H
#define HALO_DOCTOR_PLACE_H

#include "mounts.h"
#include "probe.h"

#define HALO_DOCTOR_DRIVES 8

struct halo_doctor_place {
    char dir[HALO_DOCTOR_PATH_BYTES];
    struct halo_doctor_mount mount;
    /* Whole drives ("nvme0n1"), behind partitions, mappings and arrays; none for a file system without a device. */
    char drives[HALO_DOCTOR_DRIVES][HALO_DOCTOR_NAME_BYTES];
    size_t n_drives;
    char crypt[HALO_DOCTOR_NAME_BYTES]; /* the mapping that encrypts what lies below it; "": none */
};

/* The first of the folders that halod looks for models in which is there. False: the finding says SKIP and why. */
bool halo_doctor_place_find(struct halo_doctor_probe *probe, struct halo_doctor_place *ret);

#endif
