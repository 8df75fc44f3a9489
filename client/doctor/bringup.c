/* bringup.c: `halo-doctor bringup`: which settings get a GPU to work. */
#include "bringup.h"

#include <stdio.h>

int halo_doctor_bringup(int argc, char **argv)
{
    fputs("halo-doctor: bringup is not part of this build\n", stderr);
    return 2;
}
