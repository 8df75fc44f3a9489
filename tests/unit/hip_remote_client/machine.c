/* machine.c: runs programs on a library and on the model at once. */
#include "machine.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vector_host.h"

#define N_BUFFERS 6
#define N_STREAMS 3 /* the first is the null stream */
#define N_GRAPHS 3
#define STEPS_MAX 4 /* of a graph */
#define SOURCES_MAX (2 * ACTIONS_MAX)
#define LONG_BYTES (3u << 20) /* several frames */
#define HIP_NOT_READY 600

#define FUNCTIONS(X)                                                                                                   \
    X(hipInit, (unsigned))                                                                                             \
    X(hipMalloc, (void **, size_t))                                                                                    \
    X(hipFree, (void *))                                                                                               \
    X(hipHostMalloc, (void **, size_t, unsigned))                                                                      \
    X(hipHostFree, (void *))                                                                                           \
    X(hipMemcpyAsync, (void *, const void *, size_t, int, void *))                                                     \
    X(hipMemcpy2DAsync, (void *, size_t, const void *, size_t, size_t, size_t, int, void *))                           \
    X(hipMemsetAsync, (void *, int, size_t, void *))                                                                   \
    X(hipMemsetD32Async, (void *, int, size_t, void *))                                                                \
    X(hipStreamCreateWithFlags, (void **, unsigned))                                                                   \
    X(hipStreamDestroy, (void *))                                                                                      \
    X(hipStreamWaitEvent, (void *, void *, unsigned))                                                                  \
    X(hipStreamQuery, (void *))                                                                                        \
    X(hipStreamBeginCapture, (void *, int))                                                                            \
    X(hipStreamEndCapture, (void *, void **))                                                                          \
    X(hipGraphInstantiate, (void **, void *, void **, char *, size_t))                                                 \
    X(hipGraphLaunch, (void *, void *))                                                                                \
    X(hipGraphExecDestroy, (void *))                                                                                   \
    X(hipGraphDestroy, (void *))                                                                                       \
    X(hipEventCreateWithFlags, (void **, unsigned))                                                                    \
    X(hipEventDestroy, (void *))                                                                                       \
    X(hipEventRecord, (void *, void *))                                                                                \
    X(hipEventQuery, (void *))                                                                                         \
    X(hipModuleLoadData, (void **, const void *))                                                                      \
    X(hipModuleGetFunction, (void **, void *, const char *))                                                           \
    X(hipModuleLaunchKernel,                                                                                           \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

struct buffer {
    uint8_t *p, *model; /* p NULL: not allocated */
    size_t n;
    int owner; /* the stream that used it last */
    uint32_t generation;
};

/* What is captured, and run at once too. */
struct step {
    enum action_kind kind;
    uint32_t to, from, n_words, value;
};

struct graph {
    void *exec; /* NULL: none */
    uint32_t n_steps;
    struct step steps[STEPS_MAX];
    uint32_t generations[N_BUFFERS];
};

struct machine {
    void *library, *scale;
#define X(name, arguments) int(*name) arguments;
    FUNCTIONS(X)
#undef X
    uint8_t *pinned; /* LONG_BYTES */
    void *streams[N_STREAMS], *events[N_STREAMS];
    struct buffer buffers[N_BUFFERS];
    struct graph graphs[N_GRAPHS];
    uint8_t *sources[SOURCES_MAX]; /* a library may read them until the end of the program */
    uint32_t n_sources, at;
    struct outcome *outcome;
};

static uint32_t next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

static void digest(struct machine *m, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint64_t h = m->outcome->digest;
    for (size_t i = 0; i < n; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    m->outcome->digest = h;
}

static void fail(struct machine *m, int code)
{
    if (m->outcome->bad_action >= 0)
        return;
    m->outcome->bad_action = (int32_t)m->at;
    m->outcome->bad_code = code;
}

static bool ok(struct machine *m, int code)
{
    digest(m, &code, sizeof(code));
    m->outcome->n_calls++;
    if (code)
        fail(m, code);
    return code == 0;
}

/* ---- streams ---- */

/* Both ways to wait: an event, and the question whether the stream has anything left. */
static void synchronize(struct machine *m, int stream)
{
    int code;
    ok(m, m->hipEventRecord(m->events[stream], m->streams[stream]));
    while ((code = m->hipEventQuery(m->events[stream])) == HIP_NOT_READY)
        sched_yield();
    ok(m, code);
}

static void await_idle(struct machine *m, int stream)
{
    int code;
    while ((code = m->hipStreamQuery(m->streams[stream])) == HIP_NOT_READY)
        sched_yield();
    ok(m, code);
}

static void claim(struct machine *m, struct buffer *b, int stream)
{
    if (b->owner != stream) {
        ok(m, m->hipEventRecord(m->events[b->owner], m->streams[b->owner]));
        ok(m, m->hipStreamWaitEvent(m->streams[stream], m->events[b->owner], 0));
        m->outcome->n_crossings++;
    }
    b->owner = stream;
}

static struct buffer *live(struct machine *m, uint32_t number)
{
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        if (m->buffers[(number + i) % N_BUFFERS].p)
            return &m->buffers[(number + i) % N_BUFFERS];
    return NULL;
}

/* ---- steps: on the device, and so of graphs too ---- */

static void model_step(struct machine *m, const struct step *s)
{
    uint8_t *to = m->buffers[s->to].model;
    const uint8_t *from = m->buffers[s->from].model;
    for (uint32_t i = 0; i < s->n_words; i++) {
        float x;
        if (s->kind == ACTION_FILL_WORDS) {
            memcpy(to + 4 * i, &s->value, 4);
            continue;
        }
        memcpy(&x, from + 4 * i, 4);
        if (s->kind == ACTION_SCALE)
            x *= (float)s->value;
        memcpy(to + 4 * i, &x, 4);
    }
    if (s->kind == ACTION_FILL)
        memset(to, (int)s->value, 4 * (size_t)s->n_words);
}

static void send_step(struct machine *m, const struct step *s, void *stream)
{
    uint8_t *to = m->buffers[s->to].p, *from = m->buffers[s->from].p;
    struct vector_scale args = {(float *)(void *)to, (const float *)(void *)from, s->n_words, (float)s->value};
    void *params[] = {&args};
    size_t bytes = 4 * (size_t)s->n_words;
    if (s->kind == ACTION_FILL)
        ok(m, m->hipMemsetAsync(to, (int)s->value, bytes, stream));
    else if (s->kind == ACTION_FILL_WORDS)
        ok(m, m->hipMemsetD32Async(to, (int)s->value, s->n_words, stream));
    else if (s->kind == ACTION_COPY)
        ok(m, m->hipMemcpyAsync(to, from, bytes, 3, stream));
    else
        ok(m, m->hipModuleLaunchKernel(m->scale, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

/* False: there are no buffers for it. */
static bool make_step(struct machine *m, enum action_kind kind, uint32_t a, uint32_t b, uint32_t c, struct step *ret)
{
    struct buffer *to = live(m, a), *from = live(m, b);
    if (!to)
        return false;
    size_t n = to->n < from->n ? to->n : from->n;
    *ret = (struct step){.kind = kind,
                         .to = (uint32_t)(to - m->buffers),
                         .from = (uint32_t)(from - m->buffers),
                         .n_words = (uint32_t)(n / 4 - c % (n / 8)),
                         .value = c >> 8 & 0x7f};
    if (kind == ACTION_COPY && to == from)
        ret->kind = ACTION_FILL;
    return true;
}

static void run_step(struct machine *m, const struct action *x, int stream)
{
    struct step s;
    if (!make_step(m, x->kind, x->a, x->b, x->c, &s))
        return;
    claim(m, &m->buffers[s.to], stream);
    claim(m, &m->buffers[s.from], stream);
    send_step(m, &s, m->streams[stream]);
    model_step(m, &s);
}

/* ---- graphs ---- */

static void drop_graph(struct machine *m, struct graph *g)
{
    if (g->exec)
        ok(m, m->hipGraphExecDestroy(g->exec));
    g->exec = NULL;
}

static void claim_all(struct machine *m, const struct graph *g, int stream)
{
    for (uint32_t i = 0; i < g->n_steps; i++) {
        claim(m, &m->buffers[g->steps[i].to], stream);
        claim(m, &m->buffers[g->steps[i].from], stream);
    }
}

static void capture(struct machine *m, const struct action *x)
{
    static const enum action_kind kinds[] = {ACTION_COPY, ACTION_FILL, ACTION_FILL_WORDS, ACTION_SCALE};
    struct graph *g = &m->graphs[x->a % N_GRAPHS];
    int stream = 1 + (int)(x->b % (N_STREAMS - 1)); /* the null stream cannot be captured */
    uint64_t state = x->c;
    void *graph = NULL;
    if (!live(m, 0))
        return;
    drop_graph(m, g);
    g->n_steps = 1 + x->d % STEPS_MAX;
    for (uint32_t i = 0; i < g->n_steps; i++) {
        uint32_t kind = next(&state) % 4, a = next(&state), b = next(&state), c = next(&state);
        make_step(m, kinds[kind], a, b, c, &g->steps[i]);
    }
    claim_all(m, g, stream);
    if (!ok(m, m->hipStreamBeginCapture(m->streams[stream], 0)))
        return;
    for (uint32_t i = 0; i < g->n_steps; i++)
        send_step(m, &g->steps[i], m->streams[stream]);
    if (!ok(m, m->hipStreamEndCapture(m->streams[stream], &graph)))
        return;
    if (!ok(m, m->hipGraphInstantiate(&g->exec, graph, NULL, NULL, 0)))
        g->exec = NULL;
    ok(m, m->hipGraphDestroy(graph));
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        g->generations[i] = m->buffers[i].generation;
}

static void replay(struct machine *m, const struct action *x)
{
    struct graph *g = &m->graphs[x->a % N_GRAPHS];
    int stream = (int)(x->b % N_STREAMS);
    for (uint32_t i = 0; !g->exec && i < N_GRAPHS; i++)
        g = &m->graphs[i];
    for (uint32_t i = 0; g->exec && i < g->n_steps; i++)
        if (g->generations[g->steps[i].to] != m->buffers[g->steps[i].to].generation ||
            g->generations[g->steps[i].from] != m->buffers[g->steps[i].from].generation)
            return; /* of memory that is gone */
    if (!g->exec)
        return;
    claim_all(m, g, stream);
    ok(m, m->hipGraphLaunch(g->exec, m->streams[stream]));
    m->outcome->n_replays++;
    for (uint32_t i = 0; i < g->n_steps; i++)
        model_step(m, &g->steps[i]);
}

/* ---- memory ---- */

static void allocate(struct machine *m, const struct action *x)
{
    struct buffer *b = &m->buffers[x->a % N_BUFFERS];
    size_t n = x->c % 16 == 0 ? LONG_BYTES - x->b % 4096 : 64 + x->b % 20000;
    if (b->p)
        return;
    if (!ok(m, m->hipMalloc((void **)&b->p, n))) {
        b->p = NULL;
        return;
    }
    b->n = n;
    b->owner = 0;
    b->generation++;
    b->model = malloc(n);
    if (!b->model)
        abort();
    memset(b->model, 0xff, n); /* as the emulated GPU gives it */
}

static void release(struct machine *m, struct buffer *b)
{
    if (!b || !b->p)
        return;
    synchronize(m, b->owner);
    ok(m, m->hipFree(b->p));
    free(b->model);
    b->p = b->model = NULL;
    b->generation++;
}

static uint8_t *source(struct machine *m, size_t n, uint32_t seed)
{
    uint64_t state = seed;
    uint8_t *bytes = m->n_sources < SOURCES_MAX ? malloc(n) : NULL;
    if (!bytes)
        abort();
    for (size_t i = 0; i < n; i++)
        bytes[i] = i % 4 == 3    ? 0x3f
                   : i % 512 < 4 ? (uint8_t)next(&state)
                                 : (uint8_t)(bytes[i - 4] + 7); /* floats near 1 */
    return m->sources[m->n_sources++] = bytes;
}

static void upload(struct machine *m, const struct action *x, int stream)
{
    struct buffer *b = live(m, x->a);
    if (!b)
        return;
    size_t at = x->b % b->n, n = 1 + x->c % (b->n - at);
    const uint8_t *from = source(m, n, x->d);
    claim(m, b, stream);
    ok(m, m->hipMemcpyAsync(b->p + at, from, n, 1, m->streams[stream]));
    memcpy(b->model + at, from, n);
}

static void upload_rows(struct machine *m, const struct action *x, int stream)
{
    struct buffer *b = live(m, x->a);
    if (!b)
        return;
    size_t pitch = 1 + x->b % b->n, width = 1 + x->c % pitch, height = 1 + (b->n - width) / pitch % 40;
    const uint8_t *from = source(m, (width + 3) * height, x->d);
    claim(m, b, stream);
    ok(m, m->hipMemcpy2DAsync(b->p, pitch, from, width + 3, width, height, 1, m->streams[stream]));
    for (size_t i = 0; i < height; i++)
        memcpy(b->model + i * pitch, from + i * (width + 3), width);
}

static void download(struct machine *m, struct buffer *b, size_t at, size_t n, bool is_pinned, int stream)
{
    uint8_t *to = is_pinned ? m->pinned : malloc(n);
    if (!to)
        abort();
    memset(to, 0x5a, n);
    claim(m, b, stream);
    ok(m, m->hipMemcpyAsync(to, b->p + at, n, 2, m->streams[stream]));
    synchronize(m, stream);
    digest(m, to, n);
    if (memcmp(to, b->model + at, n) != 0)
        fail(m, 0);
    if (!is_pinned)
        free(to);
}

/* ---- programs ---- */

static void run(struct machine *m, const struct action *x)
{
    int stream = (int)(x->d % N_STREAMS);
    struct buffer *b = live(m, x->a);
    switch (x->kind) {
    case ACTION_MALLOC: allocate(m, x); break;
    case ACTION_FREE: release(m, b); break;
    case ACTION_UP: upload(m, x, stream); break;
    case ACTION_ROWS: upload_rows(m, x, stream); break;
    case ACTION_DOWN:
        if (b)
            download(m, b, x->b % b->n, 1 + x->c % (b->n - x->b % b->n), x->d & 64, stream);
        break;
    case ACTION_SYNCHRONIZE: await_idle(m, stream); break;
    case ACTION_GRAPH: capture(m, x); break;
    case ACTION_REPLAY: replay(m, x); break;
    default: run_step(m, x, stream); break;
    }
}

void machine_run(struct machine *m, const struct program *p, struct outcome *ret)
{
    *ret = (struct outcome){.digest = 0xcbf29ce484222325u, .bad_action = -1};
    m->outcome = ret;
    for (m->at = 0; m->at < p->n; m->at++)
        run(m, &p->actions[m->at]);
    for (uint32_t i = 0; i < N_BUFFERS; i++) {
        if (m->buffers[i].p)
            download(m, &m->buffers[i], 0, m->buffers[i].n, i % 2, (int)(i % N_STREAMS));
        release(m, &m->buffers[i]);
    }
    for (uint32_t i = 0; i < N_GRAPHS; i++)
        drop_graph(m, &m->graphs[i]);
    for (int i = 0; i < N_STREAMS; i++)
        synchronize(m, i);
    while (m->n_sources > 0)
        free(m->sources[--m->n_sources]);
}

struct machine *machine_open(const char *library, const void *code_object)
{
    struct machine *m = calloc(1, sizeof(*m));
    void *module;
    bool has_all = m && (m->library = dlopen(library, RTLD_NOW | RTLD_LOCAL));
#define X(name, arguments) has_all = has_all && (*(void **)&m->name = dlsym(m->library, #name));
    FUNCTIONS(X)
#undef X
    bool is_open = has_all && m->hipInit(0) == 0 && m->hipModuleLoadData(&module, code_object) == 0 &&
                   m->hipModuleGetFunction(&m->scale, module, "scale") == 0 &&
                   m->hipHostMalloc((void **)&m->pinned, LONG_BYTES, 0) == 0;
    for (int i = 0; is_open && i < N_STREAMS; i++)
        is_open = (i == 0 || m->hipStreamCreateWithFlags(&m->streams[i], 1) == 0) &&
                  m->hipEventCreateWithFlags(&m->events[i], 2) == 0;
    if (is_open)
        return m;
    free(m);
    return NULL;
}

void machine_close(struct machine *m)
{
    for (int i = 0; i < N_STREAMS; i++) {
        if (i > 0)
            m->hipStreamDestroy(m->streams[i]);
        m->hipEventDestroy(m->events[i]);
    }
    m->hipHostFree(m->pinned);
    free(m);
}

void program_random(struct program *p, uint64_t seed)
{
    /* Allocations are frequent enough that most actions have an object. */
    static const enum action_kind often[] = {ACTION_MALLOC, ACTION_UP, ACTION_COPY, ACTION_SCALE, ACTION_REPLAY};
    uint64_t state = seed;
    p->n = 8 + next(&state) % (ACTIONS_MAX - 8);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t kind = next(&state) % (N_ACTIONS + 5), a = next(&state), b = next(&state), c = next(&state);
        p->actions[i] =
            (struct action){kind < N_ACTIONS ? (enum action_kind)kind : often[kind - N_ACTIONS], a, b, c, next(&state)};
    }
}

void program_print(const struct program *p)
{
    static const char *const names[] = {"MALLOC",     "FREE", "UP",    "DOWN",        "COPY",  "FILL",
                                        "FILL_WORDS", "ROWS", "SCALE", "SYNCHRONIZE", "GRAPH", "REPLAY"};
    for (uint32_t i = 0; i < p->n; i++)
        fprintf(stderr, "    {ACTION_%s, %uu, %uu, %uu, %uu},\n", names[p->actions[i].kind], p->actions[i].a,
                p->actions[i].b, p->actions[i].c, p->actions[i].d);
}
