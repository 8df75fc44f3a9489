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

static bool is_port(const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && n > 0 && n <= 65535;
}

static bool take_endpoint(struct halo_remote_settings *ret, const char *host, size_t n_host, const char *port)
{
    if (n_host >= 2 && host[0] == '[' && host[n_host - 1] == ']') {
        host++;
        n_host -= 2;
    }
    if (n_host == 0 || n_host >= sizeof(ret->host) || strlen(port) >= sizeof(ret->port) || !is_port(port))
        return false;
    ret->is_unix = false;
    memcpy(ret->host, host, n_host);
    ret->host[n_host] = '\0';
    snprintf(ret->port, sizeof(ret->port), "%s", port);
    return true;
}

bool halo_remote_settings_parse_worker(struct halo_remote_settings *ret, const char *text)
{
    if (strncmp(text, "unix:", 5) == 0) {
        size_t n = strlen(text + 5);
        if (n == 0 || n >= sizeof(ret->path))
            return false;
        ret->is_unix = true;
        memcpy(ret->path, text + 5, n + 1);
        return true;
    }
    if (strncmp(text, "tcp:", 4) == 0)
        text += 4;
    const char *colon = strrchr(text, ':');
    return colon && take_endpoint(ret, text, (size_t)(colon - text), colon + 1);
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

/* Worker `index` of the list, without the spaces around it. False: too long. */
static bool list_item(const char *list, uint32_t index, char *ret, size_t size)
{
    for (; index > 0; index--)
        list = strchr(list, ',') + 1;
    list += strspn(list, " ");
    size_t n = strcspn(list, ",");
    while (n > 0 && list[n - 1] == ' ')
        n--;
    if (n >= size)
        return false;
    memcpy(ret, list, n);
    ret[n] = '\0';
    return true;
}

static bool take_worker(struct halo_remote_settings *ret, uint32_t index, const char **ret_variable)
{
    char item[sizeof(ret->host) + sizeof(ret->port) + sizeof("tcp:")];
    const char *worker = variable("HIP_REMOTE_WORKER"), *host = variable("TF_WORKER_HOST");
    const char *port = variable("TF_WORKER_PORT"), *folder = variable("XDG_RUNTIME_DIR");
    *ret_variable = worker ? "HIP_REMOTE_WORKER" : host || !port ? "TF_WORKER_HOST" : "TF_WORKER_PORT";
    if (worker)
        return list_item(worker, index, item, sizeof(item)) && halo_remote_settings_parse_worker(ret, item);
    if (host || port) {
        host = host ? host : "localhost";
        return take_endpoint(ret, host, strlen(host), port ? port : PUBLIC_PORT);
    }
    ret->is_unix = true;
    int n = folder ? snprintf(ret->path, sizeof(ret->path), "%s/hip-worker.sock", folder) : -1;
    *ret_variable = "HIP_REMOTE_WORKER";
    return n > 0 && (size_t)n < sizeof(ret->path);
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
