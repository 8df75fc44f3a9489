/* refused.c: a stub for each function of HIP that the client does not carry out, so that programs which import one
 * start. It answers NotSupported whatever its arguments are; with HIP_REMOTE_DEBUG the first call of each says so. */
#include <stdio.h>

#include "client_priv.h"

static int refuse(const char *symbol, bool *is_told)
{
    pthread_mutex_lock(&halo_client.lock);
    if (!*is_told && halo_remote_settings_is_verbose())
        fprintf(stderr, "hip-remote: %s is not supported (docs/HIP-REMOTE.md lists the functions that are)\n", symbol);
    *is_told = true;
    return halo_client_leave(HIP_NOT_SUPPORTED);
}

#define HIP_REFUSED(node, symbol)                                                                                      \
    __attribute__((visibility("default"))) int symbol(void);                                                           \
    int symbol(void)                                                                                                   \
    {                                                                                                                  \
        static bool is_told;                                                                                           \
        return refuse(#symbol, &is_told);                                                                              \
    }
#include "exports.def"
