/* endpoint.c: the syntax of a worker's address. */
#include <base/endpoint.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_port(const char *text, size_t n)
{
    unsigned port = 0;
    for (size_t i = 0; i < n && port <= UINT16_MAX; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = 10 * port + (unsigned)(text[i] - '0');
    }
    return port > 0 && port <= UINT16_MAX;
}

static bool take_host(const char *host, size_t n, char ret[HALO_ENDPOINT_HOST_BYTES])
{
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    if (n == 0 || n >= HALO_ENDPOINT_HOST_BYTES)
        return false;
    memcpy(ret, host, n);
    ret[n] = '\0';
    return true;
}

bool halo_endpoint_set_tcp(struct halo_endpoint *ret, const char *host, size_t n_host, const char *port, size_t n_port)
{
    ret->is_unix = false;
    if (n_port >= sizeof(ret->port) || !is_port(port, n_port) || !take_host(host, n_host, ret->host))
        return false;
    memcpy(ret->port, port, n_port);
    ret->port[n_port] = '\0';
    return true;
}

/* The last colon of the text; n: it has none. */
static size_t find_colon(const char *text, size_t n)
{
    for (size_t i = n; i-- > 0;)
        if (text[i] == ':')
            return i;
    return n;
}

bool halo_endpoint_split(const char *text, size_t n, char ret_host[HALO_ENDPOINT_HOST_BYTES], const char **ret_port)
{
    size_t colon = find_colon(text, n);
    *ret_port = text + colon + 1;
    return colon < n && take_host(text, colon, ret_host);
}

bool halo_endpoint_parse(struct halo_endpoint *ret, const char *text, size_t n)
{
    for (; n > 0 && *text == ' '; n--)
        text++;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n >= 5 && memcmp(text, "unix:", 5) == 0) {
        n -= 5;
        if (n == 0 || n >= sizeof(ret->path))
            return false;
        ret->is_unix = true;
        memcpy(ret->path, text + 5, n);
        ret->path[n] = '\0';
        return true;
    }
    if (n >= 4 && memcmp(text, "tcp:", 4) == 0) {
        text += 4;
        n -= 4;
    }
    size_t colon = find_colon(text, n);
    return colon < n && halo_endpoint_set_tcp(ret, text, colon, text + colon + 1, n - colon - 1);
}

void halo_endpoint_format(const struct halo_endpoint *endpoint, char *ret, size_t size)
{
    if (endpoint->is_unix)
        snprintf(ret, size, "unix:%s", endpoint->path);
    else
        snprintf(ret, size, strchr(endpoint->host, ':') ? "[%s]:%s" : "%s:%s", endpoint->host, endpoint->port);
}
