/* check_priv.h: what the checks share. */
#ifndef HALO_DOCTOR_CHECK_PRIV_H
#define HALO_DOCTOR_CHECK_PRIV_H

#include "checks.h"

#define CHECK(id, title, stages, verdicts, source)                                                                     \
    void halo_doctor_look_##id(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding);
#include "check.def"
#undef CHECK

#endif
