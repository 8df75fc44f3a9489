/* fat.c: the functions that compiled programs call before main and after it, and what they registered. */
#include "fat_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_priv.h"
#include "module_priv.h"

#define WRAPPER_MAGIC 0x48495046u       /* "HIPF" */
#define WRAPPER_MAGIC_APART 0x4b504948u /* "HIPK": the code lies in a file beside the program */

struct wrapper {
    uint32_t magic, version;
    const void *image;
    void *unused;
};

/* A bundle on one device. */
struct loaded {
    bool is_tried;
    int error;
    uint64_t module;
};

struct symbol {
    const void *host; /* NULL: a free place of the table */
    struct binary *binary;
    char *name;
    uint64_t *at;    /* [devices]: the handle of the function, or the address of the variable; 0: not asked for yet */
    uint64_t *bytes; /* [devices], of a variable; NULL: a function */
};

struct binary {
    struct binary *next;
    const void *image; /* NULL: cannot be used */
    struct loaded loaded[HALO_REMOTE_DEVICES_MAX];
};

/* Whose lock the tables below have: the kernels of compiled programs run on the GPUs of the first worker. */
static struct halo_client_session *const first = &halo_client_sessions[0];
static struct binary *binaries;
/* By the host's address, open addressing; a power of two, at most half full. */
static struct symbol *symbols;
static size_t n_places, n_symbols;

/* ---- the table ---- */

static struct symbol *place_of(struct symbol *table, size_t n, const void *host)
{
    size_t i = (size_t)(((uint64_t)(uintptr_t)host >> 4) * 0x9e3779b97f4a7c15u >> 20) & (n - 1);
    while (table[i].host && table[i].host != host)
        i = (i + 1) & (n - 1);
    return &table[i];
}

static struct symbol *find(const void *host)
{
    struct symbol *symbol = n_places && host ? place_of(symbols, n_places, host) : NULL;
    return symbol && symbol->host ? symbol : NULL;
}

/* Into a table of `n` places, without those of `left_out`. False: no memory. */
static bool move_to(size_t n, const struct binary *left_out)
{
    struct symbol *table = calloc(n, sizeof(*table));
    if (!table)
        return false;
    n_symbols = 0;
    for (size_t i = 0; i < n_places; i++) {
        struct symbol *symbol = &symbols[i];
        if (symbol->host && symbol->binary != left_out) {
            *place_of(table, n, symbol->host) = *symbol;
            n_symbols++;
        } else {
            free(symbol->name);
            free(symbol->at);
        }
    }
    free(symbols);
    symbols = table;
    n_places = n;
    return true;
}

/* No memory: the symbol stays unknown, and its use is an error. */
static void add(struct binary *binary, const void *host, const char *name, bool is_variable)
{
    if (!binary || !host || !name || find(host))
        return;
    if (2 * (n_symbols + 1) > n_places && !move_to(n_places ? 2 * n_places : 64, NULL))
        return;
    struct symbol symbol = {.host = host, .binary = binary, .name = strdup(name)};
    symbol.at = calloc(2 * (size_t)HALO_REMOTE_DEVICES_MAX, sizeof(*symbol.at));
    if (!symbol.name || !symbol.at) {
        free(symbol.name);
        free(symbol.at);
        return;
    }
    symbol.bytes = is_variable ? symbol.at + HALO_REMOTE_DEVICES_MAX : NULL;
    *place_of(symbols, n_places, host) = symbol;
    n_symbols++;
}

/* ---- use ---- */

static int load(struct binary *binary, uint64_t *ret_module)
{
    if (!binary)
        return HIP_INVALID_IMAGE;
    struct loaded *loaded = &binary->loaded[halo_client_thread_device];
    if (!loaded->is_tried) {
        loaded->error = HIP_INVALID_IMAGE;
        if (binary->image)
            loaded->error = halo_module_load(binary->image, halo_module_readable(binary->image), &loaded->module);
        loaded->is_tried = loaded->error != HIP_OUT_OF_MEMORY;
    }
    *ret_module = loaded->module;
    return loaded->error;
}

int halo_fat_function(const void *stub, uint64_t *ret_function)
{
    struct symbol *symbol = &halo_client == first ? find(stub) : NULL;
    if (!symbol || symbol->bytes)
        return HIP_INVALID_DEVICE_FUNCTION;
    uint64_t *at = &symbol->at[halo_client_thread_device], module;
    int error = *at ? 0 : load(symbol->binary, &module);
    if (!*at && !error)
        error = halo_module_function(module, symbol->name, at);
    *ret_function = *at;
    return error == HIP_NOT_FOUND ? HIP_INVALID_DEVICE_FUNCTION : error;
}

int halo_fat_variable(const void *host, uint64_t *ret_at, uint64_t *ret_bytes)
{
    struct symbol *symbol = &halo_client == first ? find(host) : NULL;
    if (!symbol || !symbol->bytes)
        return HIP_INVALID_SYMBOL;
    uint64_t *at = &symbol->at[halo_client_thread_device], *bytes = &symbol->bytes[halo_client_thread_device], module;
    int error = *at ? 0 : load(symbol->binary, &module);
    if (!*at && !error)
        error = halo_module_global(module, symbol->name, at, bytes);
    *ret_at = *at;
    *ret_bytes = *bytes;
    return error == HIP_NOT_FOUND ? HIP_INVALID_SYMBOL : error;
}

const char *halo_fat_name(const void *host)
{
    const struct symbol *symbol = &halo_client == first ? find(host) : NULL;
    return symbol ? symbol->name : NULL;
}

/* ---- registration: called by constructors and destructors of the program; nothing may be sent ---- */

void **__hipRegisterFatBinary(const void *data)
{
    const struct wrapper *wrapper = data;
    struct binary *binary = calloc(1, sizeof(*binary));
    if (!binary || !wrapper) {
        free(binary);
        return NULL;
    }
    if (wrapper->magic == WRAPPER_MAGIC && wrapper->version == 1)
        binary->image = wrapper->image;
    else
        fprintf(stderr, "hip-remote: the program's code objects have an unknown wrapper (%#x, version %u)%s\n",
                wrapper->magic, wrapper->version,
                wrapper->magic == WRAPPER_MAGIC_APART ? "; code in a file of its own is not supported" : "");
    pthread_mutex_lock(&first->lock);
    binary->next = binaries;
    binaries = binary;
    pthread_mutex_unlock(&first->lock);
    return (void **)binary;
}

void __hipRegisterFunction(void **modules, const void *stub, char *device_function, const char *device_name,
                           unsigned int thread_limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
    (void)device_function;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp;
    pthread_mutex_lock(&first->lock);
    add((struct binary *)modules, stub, device_name, false);
    pthread_mutex_unlock(&first->lock);
}

void __hipRegisterVar(void **modules, void *host, char *host_name, char *device_name, int is_extern, size_t n,
                      int is_constant, int is_global)
{
    (void)host_name;
    (void)is_extern;
    (void)n;
    (void)is_constant;
    (void)is_global;
    pthread_mutex_lock(&first->lock);
    add((struct binary *)modules, host, device_name, true);
    pthread_mutex_unlock(&first->lock);
}

/* A destructor may call it after the library's own. */
void __hipUnregisterFatBinary(void **modules)
{
    pthread_mutex_lock(&first->lock);
    for (struct binary **link = &binaries; *link; link = &(*link)->next) {
        struct binary *binary = *link;
        if ((void **)binary != modules)
            continue;
        *link = binary->next;
        for (int i = 0; i < HALO_REMOTE_DEVICES_MAX; i++)
            if (&halo_client == first && first->state == HALO_CLIENT_OPEN && binary->loaded[i].is_tried &&
                !binary->loaded[i].error)
                (void)halo_module_unload(binary->loaded[i].module);
        for (size_t i = 0; i < n_places; i++)
            if (symbols[i].host && symbols[i].binary == binary)
                symbols[i].binary = NULL;
        if (n_places > 0)
            (void)move_to(n_places, NULL);
        free(binary);
        break;
    }
    pthread_mutex_unlock(&first->lock);
}

/* At exit another thread may be inside a call. */
__attribute__((destructor)) static void forget_all(void)
{
    if (pthread_mutex_trylock(&first->lock) != 0)
        return;
    while (binaries) {
        struct binary *binary = binaries;
        binaries = binary->next;
        free(binary);
    }
    for (size_t i = 0; i < n_places; i++) {
        free(symbols[i].name);
        free(symbols[i].at);
    }
    free(symbols);
    symbols = NULL;
    n_places = n_symbols = 0;
    pthread_mutex_unlock(&first->lock);
}
