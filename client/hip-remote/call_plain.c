/* call_plain.c: functions that need no device: names, descriptions, and the conversions that compilers call. */
#include <string.h>

#include "client_priv.h"

const char *hipKernelNameRef(const void *function)
{
    (void)function;
    return "unknown";
}

const char *hipApiName(unsigned int id)
{
    (void)id;
    return "unknown";
}

const char *hipGetCmdName(unsigned int op)
{
    (void)op;
    return "unknown";
}

const char *hiprtcGetErrorString(int result)
{
    return result == 0 ? "HIPRTC_SUCCESS" : "the runtime compiler is not supported";
}

const char *amd_dbgapi_get_build_name(void)
{
    return "hip-remote";
}

const char *amd_dbgapi_get_git_hash(void)
{
    return "";
}

size_t amd_dbgapi_get_build_id(void)
{
    return 0;
}

struct hip_channel_desc hipCreateChannelDesc(int x, int y, int z, int w, int kind)
{
    return (struct hip_channel_desc){x, y, z, w, kind};
}

/* IEEE halves. */
float __gnu_h2f_ieee(unsigned short half)
{
    uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ffu, bits;
    float value = (float)mantissa * 0x1p-24f; /* without an exponent */
    memcpy(&bits, &value, sizeof(bits));
    if (exponent == 31)
        bits = 0x7f800000u | mantissa << 13;
    else if (exponent > 0)
        bits = (exponent + 112) << 23 | mantissa << 13;
    bits |= sign;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rounds to the nearest, to even between two. */
unsigned short __gnu_f2h_ieee(float value)
{
    uint32_t bits, sign;
    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits >= 0x47800000u)
        return (unsigned short)(sign | (bits > 0x7f800000u ? 0x7e00u : 0x7c00u));
    if (bits >= 0x38800000u) {
        bits -= 0x38000000u;
        return (unsigned short)(sign | (bits + 0xfffu + (bits >> 13 & 1)) >> 13);
    }
    /* Less than the least half with an exponent: the addition rounds. */
    memcpy(&value, &bits, sizeof(value));
    value += 0.5f;
    memcpy(&bits, &value, sizeof(bits));
    return (unsigned short)(sign | (bits - 0x3f000000u));
}
