/* marker.c: makes a runtime look like the client of remote HIP. */
__attribute__((visibility("default"))) const char halo_hip_remote_client[] = "1";
