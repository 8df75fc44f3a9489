/* crew.c: threads that share the rows of a weight (contract in crew_priv.h). */
#include <sched.h>

#include "crew_priv.h"

#define SLICES_PER_HAND 4 /* of a job: none waits long for the last */

static void work(struct halo_hip_crew *crew, uint32_t hand)
{
    uint64_t first;
    while ((first = atomic_fetch_add(&crew->next, crew->slice)) < crew->n_items)
        for (uint64_t i = first; i < crew->n_items && i < first + crew->slice; i++)
            crew->fn(crew->ud, i, hand);
}

static void *run_hand(void *ud)
{
    const struct halo_hip_hand *hand = ud;
    struct halo_hip_crew *crew = hand->crew;
    uint64_t seen = 0;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->job == seen && !crew->leave)
            pthread_cond_wait(&crew->begin, &crew->lock);
        if (crew->leave)
            break;
        seen = crew->job;
        pthread_mutex_unlock(&crew->lock);
        work(crew, hand->index);
        pthread_mutex_lock(&crew->lock);
        if (--crew->n_working == 0)
            pthread_cond_signal(&crew->end);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static uint32_t n_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

void halo_hip_crew_init(struct halo_hip_crew *crew)
{
    uint32_t n = n_processors();
    *crew = (struct halo_hip_crew){0};
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begin, NULL);
    pthread_cond_init(&crew->end, NULL);
    for (uint32_t i = 0; i + 1 < n && i + 1 < HALO_HIP_CREW_MAX; i++) {
        crew->hands[i] = (struct halo_hip_hand){crew, i + 1};
        if (pthread_create(&crew->threads[i], NULL, run_hand, &crew->hands[i]) != 0)
            break;
        crew->n_threads++;
    }
}

void halo_hip_crew_finish(struct halo_hip_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->leave = true;
    pthread_cond_broadcast(&crew->begin);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 0; i < crew->n_threads; i++)
        pthread_join(crew->threads[i], NULL);
    crew->n_threads = 0;
    pthread_cond_destroy(&crew->begin);
    pthread_cond_destroy(&crew->end);
    pthread_mutex_destroy(&crew->lock);
}

void halo_hip_crew_run(struct halo_hip_crew *crew, uint64_t n_items, halo_hip_crew_fn *fn, void *ud)
{
    pthread_mutex_lock(&crew->lock);
    crew->fn = fn;
    crew->ud = ud;
    crew->n_items = n_items;
    crew->slice = n_items / ((crew->n_threads + 1) * SLICES_PER_HAND) + 1;
    atomic_store(&crew->next, 0);
    crew->n_working = crew->n_threads;
    crew->job++;
    pthread_cond_broadcast(&crew->begin);
    pthread_mutex_unlock(&crew->lock);
    work(crew, 0);
    pthread_mutex_lock(&crew->lock);
    while (crew->n_working > 0)
        pthread_cond_wait(&crew->end, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}
