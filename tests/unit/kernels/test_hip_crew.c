/* test_hip_crew.c: the threads that pack rows: every item once, whatever their number, and also when no thread could be
 * started. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "crew_priv.h"

enum { ITEMS_MAX = 1000 };

static int threads_allowed;

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud)
{
    return threads_allowed-- > 0 ? __real_pthread_create(ret, attributes, fn, ud) : EAGAIN;
}

struct job {
    atomic_uint done[ITEMS_MAX], beyond;
    atomic_uint busy[HALO_HIP_CREW_MAX]; /* a hand has one item at a time */
    uint32_t n;
};

static void count(void *ud, uint64_t i, uint32_t hand)
{
    struct job *job = ud;
    if (hand >= HALO_HIP_CREW_MAX || i >= job->n || atomic_fetch_add(&job->busy[hand], 1) != 0) {
        atomic_fetch_add(&job->beyond, 1);
        return;
    }
    atomic_fetch_add(&job->done[i], 1);
    atomic_fetch_sub(&job->busy[hand], 1);
}

static void run_jobs(int threads)
{
    static const uint32_t sizes[] = {0, 1, 2, 7, 64, 999, ITEMS_MAX};
    struct halo_hip_crew crew;
    threads_allowed = threads;
    halo_hip_crew_init(&crew);
    assert_true((int)crew.n_threads <= threads);
    for (uint32_t round = 0; round < 50; round++) {
        struct job *job = calloc(1, sizeof(*job));
        assert_non_null(job);
        job->n = sizes[round % 7];
        halo_hip_crew_run(&crew, job->n, count, job);
        assert_int_equal(atomic_load(&job->beyond), 0);
        for (uint32_t i = 0; i < ITEMS_MAX; i++)
            assert_int_equal(atomic_load(&job->done[i]), i < job->n);
        free(job); /* nobody touches it any more */
    }
    halo_hip_crew_finish(&crew);
}

static void every_item_once(void **state)
{
    (void)state;
    run_jobs(HALO_HIP_CREW_MAX);
}

static void without_threads(void **state)
{
    (void)state;
    run_jobs(0);
    run_jobs(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_item_once), cmocka_unit_test(without_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
