/* reason.c: the sentence that goes with an error (contract in reason.h). */
#include <common/reason.h>

#include <stdarg.h>
#include <stdio.h>

int halo_reason(char *reason, int error, const char *format, ...)
{
    if (reason) {
        va_list args;
        va_start(args, format);
        vsnprintf(reason, HALO_DEVICE_REASON, format, args);
        va_end(args);
    }
    return error;
}
