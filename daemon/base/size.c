/* size.c: see size.h. */
#include <base/size.h>

#include <stdio.h>

enum { N_UNITS = 5, GIGA = 3 };

static const char *size_in(double value, double step, const char *const units[static N_UNITS], int giga_decimals,
                           char ret[static HALO_SIZE_TEXT])
{
    int unit = 0;
    while (value >= step && unit + 1 < N_UNITS) {
        value /= step;
        unit++;
    }
    snprintf(ret, HALO_SIZE_TEXT, "%.*f %s", unit == 0 ? 0 : unit < GIGA ? 1 : giga_decimals, value, units[unit]);
    return ret;
}

const char *halo_size_text(uint64_t bytes, char ret[static HALO_SIZE_TEXT])
{
    static const char *const units[N_UNITS] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    return size_in((double)bytes, 1024, units, 1, ret);
}

const char *halo_size_decimal(double bytes, int gb_decimals, char ret[static HALO_SIZE_TEXT])
{
    static const char *const units[N_UNITS] = {"B", "kB", "MB", "GB", "TB"};
    return size_in(bytes, 1000, units, gb_decimals, ret);
}
