/* bringup.h: `halo-doctor bringup`: which settings make a GPU work. */
#ifndef HALO_DOCTOR_BRINGUP_H
#define HALO_DOCTOR_BRINGUP_H

/* argv[0] is "bringup". An exit status. */
int halo_doctor_bringup(int argc, char **argv);

#endif
