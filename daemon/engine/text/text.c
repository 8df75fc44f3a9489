/* text.c: the text workers and their turns. See text_priv.h.
 *
 * They touch neither the device nor files. A job fails with job->fault.
 */
#include <assert.h>

#include <base/clock.h>
#include <base/thread.h>

#include "port/job_priv.h"

static struct halo_job *job_of(struct halo_text_place *place)
{
    return HALO_LIST_ITEM(place, struct halo_job, text_place);
}

static struct halo_text_worker *idle_worker(struct halo_text_thread *text)
{
    for (size_t i = 0; i < HALO_TEXT_WORKERS; i++)
        if (!text->workers[i].job)
            return &text->workers[i];
    return NULL;
}

/* With the lock held. Gives the turn to the next user, if nobody has it. */
static void pass_turn(struct halo_text_thread *text)
{
    if (text->running)
        return;
    struct halo_text_worker *idle = idle_worker(text);
    struct halo_text_place *place = halo_text_queue_next(&text->queue, idle != NULL);
    if (!place) {
        halo_phase_set(&text->phase, HALO_ACTIVITY_IDLE, "idle");
        return;
    }
    if (!place->worker) {
        idle->job = job_of(place);
        place->worker = idle;
    }
    text->running = place->worker;
    halo_phase_set(&text->phase, HALO_ACTIVITY_TEXT, "preparing the text of a %s request",
                   halo_msg_type_name(job_of(place)->msg.type));
    pthread_cond_signal(&text->running->wake);
}

/* With the lock held. */
static void wait_for_turn(struct halo_text_worker *worker)
{
    while (worker->text->running != worker)
        pthread_cond_wait(&worker->wake, &worker->text->lock);
    worker->since_ns = halo_clock_ns();
}

/* With the lock held: the worker's job has had its turn. */
static void end_turn(struct halo_text_worker *worker)
{
    halo_text_queue_end_turn(&worker->text->queue, &worker->job->text_place);
    worker->text->running = NULL;
}

/* ---- inside a job ---- */

static int check(struct halo_turn *turn)
{
    struct halo_text_worker *worker = (struct halo_text_worker *)turn;
    struct halo_text_thread *text = worker->text;
    struct halo_job *job = worker->job;
    halo_phase_tick(&text->phase);
    if (halo_clock_ns() - worker->since_ns >= HALO_TEXT_SLICE_NS) {
        pthread_mutex_lock(&text->lock);
        end_turn(worker);
        pass_turn(text);
        wait_for_turn(worker);
        pthread_mutex_unlock(&text->lock);
    }
    if (atomic_load(&job->cancel))
        return halo_fault_set(&job->fault, HALO_FAULT_CANCELLED, "cancelled while its text was prepared");
    return halo_text_check_counted(worker, job);
}

static void do_job(struct halo_text_worker *worker, struct halo_job *job)
{
    if (atomic_load(&job->cancel))
        return;
    switch (job->msg.type) {
    case HALO_MSG_GENERATE: halo_text_job_generate(worker, job); break;
    case HALO_MSG_SCORE: halo_text_job_score(worker, job); break;
    case HALO_MSG_TOKENIZE: halo_text_job_tokenize(worker, job); break;
    case HALO_MSG_TEMPLATE: halo_text_job_template(worker, job); break;
    case HALO_MSG_DETOKENIZE: halo_text_job_detokenize(worker, job); break;
    default: assert(!"a request of this type needs no text worker");
    }
    worker->ids = NULL;
}

/* ---- the loop ---- */

static void *loop(void *ud)
{
    struct halo_text_worker *worker = ud;
    struct halo_text_thread *text = worker->text;
    pthread_mutex_lock(&text->lock);
    for (;;) {
        wait_for_turn(worker);
        struct halo_job *job = worker->job;
        pthread_mutex_unlock(&text->lock);
        do_job(worker, job);
        pthread_mutex_lock(&text->lock);
        end_turn(worker);
        halo_text_queue_remove(&text->queue, &job->text_place);
        worker->job = NULL;
        halo_note_post(text->port, &job->note, HALO_NOTE_TEXT_DONE); /* the job is the port's from here on */
        pass_turn(text);
    }
    return NULL;
}

void halo_text_submit(struct halo_text_thread *text, struct halo_job *job, uint64_t user)
{
    pthread_mutex_lock(&text->lock);
    job->text_place = (struct halo_text_place){.user = user};
    halo_text_queue_add(&text->queue, &job->text_place);
    pass_turn(text);
    pthread_mutex_unlock(&text->lock);
}

bool halo_text_withdraw(struct halo_text_thread *text, struct halo_job *job)
{
    pthread_mutex_lock(&text->lock);
    bool waits = !job->text_place.worker;
    if (waits)
        halo_text_queue_remove(&text->queue, &job->text_place);
    pthread_mutex_unlock(&text->lock);
    return waits;
}

int halo_text_thread_start(struct halo_text_thread *text)
{
    halo_phase_init(&text->phase);
    halo_list_init(&text->queue.users);
    int r = -pthread_mutex_init(&text->lock, NULL);
    for (size_t i = 0; r == 0 && i < HALO_TEXT_WORKERS; i++) {
        struct halo_text_worker *worker = &text->workers[i];
        *worker = (struct halo_text_worker){.turn.check = check, .text = text, .keeps_memory = i == 0};
        halo_arena_init(&worker->arena, 0);
        halo_arena_init(&worker->scratch, 0);
        r = -pthread_cond_init(&worker->wake, NULL);
    }
    for (size_t i = 0; r == 0 && i < HALO_TEXT_WORKERS; i++)
        r = halo_thread_start(&text->workers[i].thread, "text", loop, &text->workers[i]);
    if (r == 0) {
        pthread_mutex_lock(&text->lock);
        pass_turn(text);
        pthread_mutex_unlock(&text->lock);
    }
    return r;
}
