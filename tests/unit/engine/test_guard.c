/* test_guard.c: a step of the scheduler on the real CPU device allocates nothing, and one that does would be seen.
 *
 * The device runs on the caller's thread alone, so that the guard sees all of it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/guard.h>

#include "cpu_rig.h"

static void open_rig(struct cpu_rig *rig)
{
    struct cpu_rig_setup setup = {.kv = HALO_KV_F16, .context = 256, .kv_tokens = 512, .n_threads = 1};
    cpu_rig_init(rig, &setup);
}

/* Prompts, replies, scores, prefixes taken and copied, preemption, and allocations of nobody. */
static void steps_allocate_nothing(void **state)
{
    enum { N = 9 };
    struct cpu_rig rig;
    int32_t ids[140];
    uint64_t n_allocated = 0;
    uint32_t n_steps = 0;
    open_rig(&rig);
    for (uint32_t i = 0; i < N; i++) {
        cpu_rig_ids(&rig, i % 4, ids, 140);
        struct halo_sequence_setup setup = cpu_rig_reply(ids, 100 + i * 3, 30);
        setup.n_top = 5;
        if (i % 4 == 3) {
            setup.kind = HALO_SEQUENCE_SCORE;
            setup.score_from = 20;
            setup.max_tokens = 0;
        }
        cpu_rig_submit(&rig, &setup);
    }
    for (; rig.n_open > 0; n_steps++) {
        struct halo_fault fault = {0};
        uint64_t before = halo_guard_count();
        assert_int_equal(halo_scheduler_step(&rig.instance.scheduler, &fault), 0); /* guarded: would abort */
        n_allocated += halo_guard_count() - before;
        cpu_rig_collect(&rig);
    }
    assert_true(n_steps > 60);
    assert_int_equal(n_allocated, 0);
    assert_true(rig.stats.committed_tokens == 7 * 30 && rig.stats.ended_scored == 2);
    assert_true(rig.stats.prefix_hits > 0 && rig.stats.prefix_copies > 0);
    assert_true(halo_guard_count() > 100); /* it does count: the load and the sequences allocated */
    cpu_rig_finish(&rig);
}

static int allocating_run(struct halo_device_model *model, const struct halo_batch *batch,
                          struct halo_device_phase *phase, char *reason)
{
    void *volatile leak = malloc(48);
    free(leak);
    return cpu_rig_device->run(model, batch, phase, reason);
}

static void an_allocation_in_a_step_aborts(void **state)
{
    int fds[2], status;
    char text[256] = "";
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct cpu_rig rig;
        int32_t ids[10];
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        open_rig(&rig);
        rig.ops.run = allocating_run;
        cpu_rig_ids(&rig, 1, ids, 10);
        struct halo_sequence_setup setup = cpu_rig_reply(ids, 10, 3);
        cpu_rig_submit(&rig, &setup);
        cpu_rig_step(&rig);
        _exit(0);
    }
    close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof(text) - 1);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(n > 0 && strstr(text, "malloc of 48 bytes inside a step"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
#ifndef HALO_ALLOC_GUARD
    fprintf(stderr, "skipped: this build has no allocation guard (-Dalloc_guard=true)\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(an_allocation_in_a_step_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
