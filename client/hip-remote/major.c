/* major.c: the version of HIP that a library stands for: all that differs between libamdhip64.so.6 and .so.7. */
#include "client_priv.h"

const int halo_client_major = HALO_HIP_REMOTE_MAJOR;
