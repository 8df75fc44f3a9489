/* stream.c: streams as threads with queues, and events (contract in emu.h). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "emu.h"

struct item {
    struct item *next;
    struct emu_task task;
};

struct emu_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct item *first, **last;
    size_t n_left;             /* queued, and the one that runs */
    struct emu_graph *capture; /* of the thread that captures; NULL: none */
    bool closing;
};

/* Which record was the last one queued, and which has been reached. Counted: the queue may hold an event that was
 * already destroyed. */
struct emu_event {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t recorded, reached;
    struct timespec reached_at;
    unsigned holders;
};

struct mark {
    struct emu_event *event;
    uint64_t number;
};

static int reach(void *ud);

/* Tasks of all streams that have not ended, records of events apart. */
static atomic_long n_work;

static bool is_work(const struct emu_task *task)
{
    return task->run != reach;
}

bool emu_streams_idle(void)
{
    return atomic_load(&n_work) == 0;
}

static void run_items(struct emu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    for (;;) {
        /* A stalled stream runs nothing more; at its end the queue is discarded. */
        while (!s->closing && (!s->first || emu_stalled()))
            pthread_cond_wait(&s->wake, &s->lock);
        struct item *item = s->first;
        if (!item || emu_stalled())
            break;
        s->first = item->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        if (item->task.run(item->task.ud))
            emu_lose();
        if (is_work(&item->task))
            atomic_fetch_sub(&n_work, 1);
        item->task.drop(item->task.ud);
        free(item);
        pthread_mutex_lock(&s->lock);
        s->n_left--;
    }
    pthread_mutex_unlock(&s->lock);
}

static void *stream_main(void *ud)
{
    run_items(ud);
    return NULL;
}

struct emu_stream *emu_stream_create(void)
{
    struct emu_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void emu_stream_destroy(struct emu_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    free(s);
}

/* Made at its first use; NULL without memory. */
static pthread_once_t null_once = PTHREAD_ONCE_INIT;
static struct emu_stream *null_stream;

static void make_null_stream(void)
{
    null_stream = emu_stream_create();
}

static struct emu_stream *stream_of(struct emu_stream *s)
{
    if (!s)
        pthread_once(&null_once, make_null_stream);
    return s ? s : null_stream;
}

bool emu_stream_push(struct emu_stream *s, struct emu_task task)
{
    s = stream_of(s);
    if (!s) {
        task.drop(task.ud);
        return false;
    }
    struct item *item = s->capture ? NULL : malloc(sizeof(*item));
    if (s->capture && emu_graph_add(s->capture, task))
        return true;
    if (!item) {
        task.drop(task.ud);
        return false;
    }
    *item = (struct item){.task = task};
    if (is_work(&task))
        atomic_fetch_add(&n_work, 1);
    pthread_mutex_lock(&s->lock);
    *s->last = item;
    s->last = &item->next;
    s->n_left++;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return true;
}

bool emu_stream_idle(struct emu_stream *s)
{
    s = stream_of(s);
    if (!s)
        return true;
    pthread_mutex_lock(&s->lock);
    bool idle = s->n_left == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

bool emu_stream_capture(struct emu_stream *s)
{
    if (s->capture)
        return false;
    s->capture = emu_graph_create();
    return s->capture != NULL;
}

struct emu_graph *emu_stream_captured(struct emu_stream *s)
{
    struct emu_graph *graph = s->capture;
    s->capture = NULL;
    return graph;
}

bool emu_stream_capturing(struct emu_stream *s)
{
    return s && s->capture != NULL;
}

static void release(struct emu_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool last = --e->holders == 0;
    pthread_mutex_unlock(&e->lock);
    if (!last)
        return;
    pthread_cond_destroy(&e->moved);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

struct emu_event *emu_event_create(void)
{
    struct emu_event *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->moved, NULL);
    e->holders = 1;
    return e;
}

void emu_event_destroy(struct emu_event *e)
{
    release(e);
}

static int reach(void *ud)
{
    struct mark *mark = ud;
    pthread_mutex_lock(&mark->event->lock);
    if (mark->number > mark->event->reached)
        mark->event->reached = mark->number;
    clock_gettime(CLOCK_MONOTONIC, &mark->event->reached_at);
    pthread_cond_broadcast(&mark->event->moved);
    pthread_mutex_unlock(&mark->event->lock);
    return 0;
}

static void drop_mark(void *ud)
{
    struct mark *mark = ud;
    release(mark->event);
    free(mark);
}

/* Queues what is done about the event's last record (`records`: about a new one). */
static bool push_mark(struct emu_event *e, struct emu_stream *s, int (*run)(void *), bool records)
{
    struct mark *mark = malloc(sizeof(*mark));
    if (!mark)
        return false;
    pthread_mutex_lock(&e->lock);
    e->recorded += records;
    *mark = (struct mark){e, e->recorded};
    e->holders++;
    pthread_mutex_unlock(&e->lock);
    return emu_stream_push(s, (struct emu_task){run, drop_mark, mark});
}

bool emu_event_record(struct emu_event *e, struct emu_stream *s)
{
    return push_mark(e, s, reach, true);
}

bool emu_event_done(struct emu_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool done = e->reached == e->recorded;
    pthread_mutex_unlock(&e->lock);
    return done;
}

/* On the thread of the stream that waits; a stalled stream never reaches the event, and then nobody waits for it. */
static int await(void *ud)
{
    struct mark *mark = ud;
    struct emu_event *e = mark->event;
    pthread_mutex_lock(&e->lock);
    while (e->reached < mark->number && !emu_stalled()) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&e->moved, &e->lock, &until);
    }
    pthread_mutex_unlock(&e->lock);
    return 0;
}

bool emu_event_wait(struct emu_event *e, struct emu_stream *s)
{
    return push_mark(e, s, await, false);
}

static int reached_at(struct emu_event *e, struct timespec *ret)
{
    pthread_mutex_lock(&e->lock);
    int error = e->recorded == 0 ? EMU_INVALID : e->reached < e->recorded ? EMU_NOT_READY : EMU_SUCCESS;
    *ret = e->reached_at;
    pthread_mutex_unlock(&e->lock);
    return error;
}

int emu_event_elapsed(struct emu_event *start, struct emu_event *end, float *ret_ms)
{
    struct timespec from, to;
    int error = reached_at(start, &from), of_end = reached_at(end, &to);
    *ret_ms = (float)(to.tv_sec - from.tv_sec) * 1e3f + (float)(to.tv_nsec - from.tv_nsec) * 1e-6f;
    return error ? error : of_end;
}
