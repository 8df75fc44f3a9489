/* test_workers.c: the worker threads: every item once, also where fewer threads start than were asked for; no CPU time
 * when idle; a fair share beside another process. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <common/workers.h>

#define N_ITEMS_MAX 1000

struct tally {
    unsigned char seen[N_ITEMS_MAX];
    atomic_uint busy[8]; /* how many calls run with this thread number */
    uint32_t n_threads;
};

static int threads_allowed = 1000;

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*fn)(void *), void *ud)
{
    return threads_allowed-- > 0 ? __real_pthread_create(ret, attributes, fn, ud) : EAGAIN;
}

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void count(void *arg, uint32_t item, uint32_t thread)
{
    struct tally *tally = arg;
    assert_true(thread < tally->n_threads);
    assert_int_equal(atomic_fetch_add(&tally->busy[thread], 1), 0);
    tally->seen[item]++;
    atomic_fetch_sub(&tally->busy[thread], 1);
}

static void every_item_runs_once(void **state)
{
    uint32_t seed = 1;
    for (uint32_t n_threads = 1; n_threads <= 5; n_threads++) {
        struct halo_workers *workers;
        assert_int_equal(halo_workers_create(&workers, "test", n_threads, n_threads), 0);
        assert_int_equal(halo_workers_count(workers), n_threads);
        for (uint32_t round = 0; round < 3000; round++) {
            static struct tally tally;
            memset(&tally, 0, sizeof(tally));
            tally.n_threads = n_threads;
            seed = seed * 1664525 + 1013904223;
            uint32_t n = seed >> 8 & 1 ? seed % 7 : seed % N_ITEMS_MAX;
            halo_workers_run(workers, n, count, &tally);
            for (uint32_t i = 0; i < N_ITEMS_MAX; i++)
                assert_int_equal(tally.seen[i], i < n);
            if (round % 500 == 0)
                usleep(2000); /* long enough for the workers to fall asleep */
        }
        halo_workers_destroy(workers);
    }
    halo_workers_destroy(NULL);
}

/* When threads cannot be created, fewer are used, down to the least that was asked for. */
static void fewer_threads_do_the_same_work(void **state)
{
    for (int allowed = 0; allowed < 4; allowed++) {
        struct halo_workers *workers;
        static struct tally tally;
        threads_allowed = allowed;
        assert_int_equal(halo_workers_create(&workers, "test", 4, 1), 0);
        assert_int_equal(halo_workers_count(workers), allowed + 1);
        memset(&tally, 0, sizeof(tally));
        tally.n_threads = (uint32_t)allowed + 1;
        halo_workers_run(workers, N_ITEMS_MAX, count, &tally);
        for (uint32_t i = 0; i < N_ITEMS_MAX; i++)
            assert_int_equal(tally.seen[i], 1);
        halo_workers_destroy(workers);
        threads_allowed = allowed;
        if (allowed < 3)
            assert_int_equal(halo_workers_create(&workers, "test", 4, (uint32_t)allowed + 2), -EAGAIN);
    }
    threads_allowed = 1000;
    assert_true(halo_workers_processors() >= 1);
}

/* Those that are kept awake sleep a little later. */
static void idle_workers_use_no_time(void **state)
{
    struct halo_workers *workers;
    uint32_t n_threads = halo_workers_processors() < 4 ? halo_workers_processors() : 4;
    struct tally tally = {.n_threads = n_threads};
    assert_int_equal(halo_workers_create(&workers, "test", n_threads, n_threads), 0);
    for (int awake = 0; awake < 2; awake++) {
        halo_workers_keep_awake(workers, awake);
        halo_workers_run(workers, 100, count, &tally);
        usleep(20000);
        double before = now_s(CLOCK_PROCESS_CPUTIME_ID);
        usleep(300000);
        double used = now_s(CLOCK_PROCESS_CPUTIME_ID) - before;
        print_message("idle: %.3f ms of processor time in 300 ms\n", used * 1e3);
        assert_true(used < 0.01);
    }
    halo_workers_destroy(workers);
}

static void spin(void *arg, uint32_t item, uint32_t thread)
{
    volatile uint32_t *n = arg;
    for (uint32_t i = 0; i < *n; i++)
        __asm__ volatile("");
}

/* Rounds of small items per second, as a decode step makes them. */
static double rounds_per_second(struct halo_workers *workers)
{
    uint32_t n_spins = 3000, n_rounds = 0;
    double begin = now_s(CLOCK_MONOTONIC), elapsed;
    do {
        for (uint32_t i = 0; i < 20; i++)
            halo_workers_run(workers, 16, spin, &n_spins);
        n_rounds += 20;
        elapsed = now_s(CLOCK_MONOTONIC) - begin;
    } while (elapsed < 0.4);
    return n_rounds / elapsed;
}

static pid_t hog(int cpu)
{
    pid_t pid = fork();
    if (pid == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
        alarm(20);
        for (;;)
            __asm__ volatile("");
    }
    assert_true(pid > 0);
    return pid;
}

/* The factor by which rounds slow down while another process wants each of the two cores. */
static double slowdown(const int cpus[2])
{
    struct halo_workers *workers;
    assert_int_equal(halo_workers_create(&workers, "test", 2, 2), 0);
    double alone = rounds_per_second(workers);
    pid_t hogs[2] = {hog(cpus[0]), hog(cpus[1])};
    double beside = rounds_per_second(workers);
    for (int i = 0; i < 2; i++) {
        kill(hogs[i], SIGKILL);
        waitpid(hogs[i], NULL, 0);
    }
    halo_workers_destroy(workers);
    print_message("rounds a second: %.0f alone, %.0f beside a busy process on each core: 1 / %.2f\n", alone, beside,
                  alone / beside);
    return alone / beside;
}

/* Two threads on two cores, each of which another process wants too: half the cores is the fair share. The bound
 * leaves room for rounds that wait for a worker in mid-item and for other load of the machine, with three tries;
 * spinning barriers lose a factor of a hundred here. */
static void a_busy_neighbour_costs_its_share(void **state)
{
    cpu_set_t before, two;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    int cpus[2], n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
        if (CPU_ISSET(cpu, &before))
            cpus[n++] = cpu;
    if (n < 2)
        skip();
    CPU_ZERO(&two);
    CPU_SET(cpus[0], &two);
    CPU_SET(cpus[1], &two);
    assert_int_equal(sched_setaffinity(0, sizeof(two), &two), 0);
    double least = slowdown(cpus);
    for (int i = 0; i < 2 && least >= 15; i++) {
        double again = slowdown(cpus);
        least = again < least ? again : least;
    }
    sched_setaffinity(0, sizeof(before), &before);
    assert_true(least < 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(fewer_threads_do_the_same_work),
        cmocka_unit_test(idle_workers_use_no_time),
        cmocka_unit_test(a_busy_neighbour_costs_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
