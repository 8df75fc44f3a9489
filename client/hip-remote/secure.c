/* secure.c: opens libhip-remote-tls.so, reads the key, shakes hands. POSIX and dladdr() only. */
#include "secure_priv.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODULE "libhip-remote-tls.so"

/* Beside the library, else where the loader looks. NULL with the reason. */
static void *open_module(char reason[static HALO_REMOTE_REASON_BYTES])
{
    char path[4096];
    Dl_info own;
    void *module = NULL;
    const char *slash = dladdr(MODULE, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    int n = slash ? (int)(slash + 1 - own.dli_fname) : 0;
    if (n > 0 && snprintf(path, sizeof(path), "%.*s%s", n, own.dli_fname, MODULE) < (int)sizeof(path))
        module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        module = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        snprintf(reason, HALO_REMOTE_REASON_BYTES, "cannot encrypt: %s", dlerror());
    return module;
}

const struct halo_remote_cipher *halo_remote_cipher_find(char reason[static HALO_REMOTE_REASON_BYTES])
{
    void *module = open_module(reason);
    const struct halo_remote_cipher *cipher = module ? dlsym(module, "halo_remote_tls") : NULL;
    if (!module || (cipher && cipher->bytes == sizeof(*cipher)))
        return cipher;
    snprintf(reason, HALO_REMOTE_REASON_BYTES, "cannot encrypt: %s is of another version", MODULE);
    return NULL;
}

static const char *reason_of(int error)
{
    switch (error) {
    case -EACCES: return "the worker has another key";
    case -EPROTO: return "it does not encrypt: it is no hip-worker with --key-file";
    case -ECONNRESET:
        return "it closed the connection: it has no --key-file, serves enough clients, or lets this one wait; its log "
               "says which";
    default: return strerror(-error);
    }
}

int halo_remote_secure(struct halo_remote_channel *ch, const char *key_file, uint32_t timeout_ms,
                       char reason[static HALO_REMOTE_REASON_BYTES])
{
    struct halo_remote_key key;
    char of_file[128];
    int r = halo_remote_key_read(key_file, &key, of_file, sizeof(of_file));
    if (r < 0) {
        snprintf(reason, HALO_REMOTE_REASON_BYTES, "cannot use the key in %s: %s", key_file, of_file);
        return r;
    }
    const struct halo_remote_cipher *cipher = halo_remote_cipher_find(reason);
    r = cipher ? halo_remote_channel_secure(ch, cipher, false, &key, timeout_ms) : -ENOTSUP;
    halo_remote_key_forget(&key);
    if (cipher && r < 0)
        snprintf(reason, HALO_REMOTE_REASON_BYTES, "%s", reason_of(r));
    return r;
}
