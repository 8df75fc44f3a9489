/* event.c: see event.h. */
#include "event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 256

static const char *const names[SIM_N_KINDS] = {
#define X(name, weight, doc) [SIM_##name] = #name,
    SIM_EVENTS(X)
#undef X
};

static const unsigned weights[SIM_N_KINDS] = {
#define X(name, weight, doc) [SIM_##name] = weight,
    SIM_EVENTS(X)
#undef X
};

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool is_fault(enum sim_kind kind)
{
    return kind == SIM_die || kind == SIM_silent || kind == SIM_stuck || kind == SIM_mad || kind == SIM_curse;
}

static enum sim_kind draw_kind(uint64_t *state, unsigned total)
{
    unsigned at = (unsigned)(draw(state) % total), kind = 0;
    while (at >= weights[kind])
        at -= weights[kind++];
    return (enum sim_kind)kind;
}

int sim_life_draw(struct sim_life *ret_life, uint64_t seed, size_t n)
{
    uint64_t state = seed;
    unsigned total = 0;
    for (int kind = 0; kind < SIM_N_KINDS; kind++)
        total += weights[kind];
    *ret_life =
        (struct sim_life){.config = (unsigned)(draw(&state) >> 40), .events = calloc(n, sizeof(struct sim_event))};
    if (!ret_life->events)
        return -ENOMEM;
    bool is_healthy = ret_life->config % 256 < 128; /* else engines hardly live long enough for long queues */
    for (size_t i = 0; i < n; i++) {
        enum sim_kind kind = draw_kind(&state, total);
        if (is_healthy && is_fault(kind) && draw(&state) % 16 != 0)
            kind = SIM_step;
        uint64_t bits = draw(&state);
        ret_life->events[i] = (struct sim_event){.kind = kind,
                                                 .a = (uint32_t)bits & 0xffff,
                                                 .b = (uint32_t)(bits >> 16) & 0xffff,
                                                 .c = (uint32_t)(bits >> 32)};
    }
    ret_life->n = n;
    return 0;
}

static int kind_of(const char *name)
{
    for (int kind = 0; kind < SIM_N_KINDS; kind++)
        if (strcmp(names[kind], name) == 0)
            return kind;
    return -1;
}

static int append(struct sim_life *life, size_t *cap, struct sim_event event)
{
    if (life->n == *cap) {
        size_t more = *cap > 0 ? *cap * 2 : 64;
        struct sim_event *grown = realloc(life->events, more * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        life->events = grown;
        *cap = more;
    }
    life->events[life->n++] = event;
    return 0;
}

static int read_line(struct sim_life *life, size_t *cap, char *line)
{
    struct sim_event event = {0};
    char name[32];
    line[strcspn(line, "#\n")] = '\0';
    if (line[strspn(line, " \t")] == '\0')
        return 0;
    if (sscanf(line, "config %u", &life->config) == 1)
        return 0;
    int n = sscanf(line, "%31s %" SCNu32 " %" SCNu32 " %" SCNu32, name, &event.a, &event.b, &event.c);
    int kind = n > 0 ? kind_of(name) : -1;
    if (kind < 0)
        return -EINVAL;
    event.kind = (enum sim_kind)kind;
    return append(life, cap, event);
}

int sim_life_read(struct sim_life *ret_life, const char *path, size_t *ret_line)
{
    char line[LINE_BYTES];
    size_t cap = 0;
    int r = 0;
    *ret_life = (struct sim_life){0};
    *ret_line = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    while (r == 0 && fgets(line, sizeof(line), file)) {
        ++*ret_line;
        r = read_line(ret_life, &cap, line);
    }
    fclose(file);
    if (r == 0 && ret_life->n == 0)
        r = -EINVAL; /* a life without events checks nothing */
    if (r < 0)
        sim_life_finish(ret_life);
    return r;
}

void sim_life_print(const struct sim_life *life)
{
    printf("config %u\n", life->config);
    for (size_t i = 0; i < life->n; i++) {
        const struct sim_event *event = &life->events[i];
        printf("%s %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", names[event->kind], event->a, event->b, event->c);
    }
}

void sim_life_finish(struct sim_life *life)
{
    free(life->events);
    *life = (struct sim_life){0};
}
