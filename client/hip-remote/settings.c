/* settings.c: reads the variables HIP_REMOTE_* and those of the public description, TF_*. */
#include "settings_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 30000
#define IO_MS 60000
#define MS_MAX 3600000ul
#define PUBLIC_PORT "8000"

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* In milliseconds; `unit` is how many the variable counts in. False: no number from 1 to an hour. */
static bool take_time(const char *name, unsigned long unit, uint32_t *ret)
{
    const char *text = variable(name);
    char *end;
    if (!text)
        return true;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n == 0 || n > MS_MAX / unit)
        return false;
    *ret = (uint32_t)(n * unit);
    return true;
}

uint32_t halo_remote_settings_count(void)
{
    uint32_t n = 1;
    for (const char *at = variable("HIP_REMOTE_WORKER"); at && (at = strchr(at, ',')); at++)
        n++;
    return n;
}

/* Worker `index` of the list. False: it has no valid address. */
static bool take_item(const char *list, uint32_t index, struct halo_endpoint *ret)
{
    for (; index > 0; index--)
        list = strchr(list, ',') + 1;
    return halo_endpoint_parse(ret, list, strcspn(list, ","));
}

static bool take_worker(struct halo_remote_settings *ret, uint32_t index, const char **ret_variable)
{
    const char *worker = variable("HIP_REMOTE_WORKER"), *host = variable("TF_WORKER_HOST");
    const char *port = variable("TF_WORKER_PORT"), *folder = variable("XDG_RUNTIME_DIR");
    *ret_variable = worker ? "HIP_REMOTE_WORKER" : host || !port ? "TF_WORKER_HOST" : "TF_WORKER_PORT";
    if (worker)
        return take_item(worker, index, &ret->worker);
    if (host || port) {
        host = host ? host : "localhost";
        port = port ? port : PUBLIC_PORT;
        return halo_endpoint_set_tcp(&ret->worker, host, strlen(host), port, strlen(port));
    }
    ret->worker.is_unix = true;
    int n = folder ? snprintf(ret->worker.path, sizeof(ret->worker.path), "%s/hip-worker.sock", folder) : -1;
    *ret_variable = "HIP_REMOTE_WORKER";
    return n > 0 && (size_t)n < sizeof(ret->worker.path);
}

bool halo_remote_settings_is_verbose(void)
{
    const char *debug = variable("HIP_REMOTE_DEBUG");
    if (!debug)
        debug = variable("TF_DEBUG");
    return debug && strcmp(debug, "0") != 0;
}

int halo_remote_settings_read(struct halo_remote_settings *ret, uint32_t index, const char **ret_variable)
{
    static const struct {
        const char *name;
        unsigned long unit;
        bool is_io;
    } times[] = {
        {"TF_CONNECT_TIMEOUT", 1000, false},
        {"HIP_REMOTE_CONNECT_TIMEOUT_MS", 1, false},
        {"TF_IO_TIMEOUT", 1000, true},
        {"HIP_REMOTE_IO_TIMEOUT_MS", 1, true},
    };
    *ret = (struct halo_remote_settings){.connect_ms = CONNECT_MS, .io_ms = IO_MS};
    ret->key_file = variable("HIP_REMOTE_KEY_FILE");
    ret->is_verbose = halo_remote_settings_is_verbose();
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        *ret_variable = times[i].name;
        if (!take_time(times[i].name, times[i].unit, times[i].is_io ? &ret->io_ms : &ret->connect_ms))
            return -EINVAL;
    }
    return take_worker(ret, index, ret_variable) ? 0 : -EINVAL;
}
