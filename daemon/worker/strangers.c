/* strangers.c: who waits to prove the key, and which sources have failed. Pure. */
#include "strangers_priv.h"

#include <netinet/in.h>
#include <string.h>

#define WAIT_MS 1000
#define DOUBLINGS_MAX 6

static void source_of(const struct sockaddr_storage *from, uint8_t ret[static 8])
{
    memset(ret, 0, 8);
    if (from->ss_family == AF_INET)
        memcpy(ret + 4, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    else if (from->ss_family == AF_INET6) {
        const struct in6_addr *address = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(address))
            memcpy(ret + 4, address->s6_addr + 12, 4);
        else
            memcpy(ret, address->s6_addr, 8);
    }
}

/* The index, or -1. */
static int find_source(const struct halo_strangers *s, const uint8_t source[static 8])
{
    for (uint32_t i = 0; i < s->n_sources; i++)
        if (memcmp(s->sources[i].address, source, 8) == 0)
            return (int)i;
    return -1;
}

static int find_child(const struct halo_strangers *s, pid_t child)
{
    for (uint32_t i = 0; i < s->n_waiting; i++)
        if (s->waiting[i].child == child)
            return (int)i;
    return -1;
}

static uint64_t wait_ms(const struct halo_stranger_source *source)
{
    uint32_t n = source->n_failures - 1;
    return (uint64_t)WAIT_MS << (n < DOUBLINGS_MAX ? n : DOUBLINGS_MAX);
}

int halo_strangers_ask(const struct halo_strangers *s, const struct sockaddr_storage *from, uint64_t now_ms)
{
    uint8_t source[8];
    source_of(from, source);
    int i = find_source(s, source);
    if (i >= 0 && now_ms - s->sources[i].failed_ms < wait_ms(&s->sources[i]))
        return HALO_STRANGERS_E_WAIT;
    return s->n_waiting == HALO_STRANGERS_MAX ? HALO_STRANGERS_E_FULL : 0;
}

void halo_strangers_enter(struct halo_strangers *s, const struct sockaddr_storage *from, pid_t child)
{
    struct halo_stranger *stranger = &s->waiting[s->n_waiting++];
    stranger->child = child;
    source_of(from, stranger->source);
}

void halo_strangers_prove(struct halo_strangers *s, pid_t child)
{
    int at = find_child(s, child);
    if (at < 0)
        return;
    int i = find_source(s, s->waiting[at].source);
    s->waiting[at] = s->waiting[--s->n_waiting];
    if (i >= 0)
        s->sources[i] = s->sources[--s->n_sources];
}

/* A free place, or that of the source that failed the longest ago. */
static struct halo_stranger_source *add_source(struct halo_strangers *s)
{
    struct halo_stranger_source *oldest = &s->sources[0];
    if (s->n_sources < HALO_STRANGERS_SOURCES)
        return &s->sources[s->n_sources++];
    for (uint32_t i = 1; i < s->n_sources; i++)
        if (s->sources[i].failed_ms < oldest->failed_ms)
            oldest = &s->sources[i];
    return oldest;
}

void halo_strangers_leave(struct halo_strangers *s, pid_t child, uint64_t now_ms)
{
    int at = find_child(s, child);
    if (at < 0)
        return;
    const struct halo_stranger left = s->waiting[at];
    s->waiting[at] = s->waiting[--s->n_waiting];
    int i = find_source(s, left.source);
    struct halo_stranger_source *source = i >= 0 ? &s->sources[i] : add_source(s);
    if (i < 0) {
        memcpy(source->address, left.source, sizeof(source->address));
        source->n_failures = 0;
    }
    source->n_failures++;
    source->failed_ms = now_ms;
}
