/* failure.c: how a tier says what failed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "tier_priv.h"

enum halo_doctor_failure halo_doctor_tier_fail(struct halo_doctor_tier *tier, enum halo_doctor_failure failure,
                                               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(tier->what, sizeof(tier->what), format, args);
    va_end(args);
    return failure;
}

enum halo_doctor_failure halo_doctor_tier_hip(struct halo_doctor_tier *tier, int hip_error, const char *what)
{
    char name[48];
    return hip_error == HIP_SUCCESS
               ? HALO_DOCTOR_FINE
               : halo_doctor_tier_fail(tier, HALO_DOCTOR_ERROR, "%s: %s", what, halo_hip_error_name(hip_error, name));
}

enum halo_doctor_failure halo_doctor_tier_device(struct halo_doctor_tier *tier, int error, const char *reason)
{
    return error == 0
               ? HALO_DOCTOR_FINE
               : halo_doctor_tier_fail(tier, error == -ETIME ? HALO_DOCTOR_HANG : HALO_DOCTOR_ERROR, "%s", reason);
}
