/* test_halod_alloc.c: for n = 0, 1, 2, ... halod's n-th allocation fails, until none is left to fail. Whatever it hits:
 * halod does not crash; it either refuses to start with a message, or it serves: each request ends once or its
 * connection is closed, a new connection works, and SIGTERM ends it with status 0 and nothing left on the loop. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

#define N_MAX 100000

static struct rig rig;

struct asked {
    const char *line;
    int n_terminal;
    bool insists; /* refused for want of memory, it is asked again: others depend on it */
};

/* All at once on one connection; counts terminal events by id. False if the connection ended. */
static bool talk(struct asked *asked, size_t n)
{
    struct client client;
    size_t n_ended = 0;
    bool open = true;
    for (size_t i = 0; i < n; i++) /* what an earlier connection was told is not this one's */
        asked[i].n_terminal = 0;
    client_connect(&client, &rig);
    for (size_t i = 0; i < n && open; i++) {
        size_t len = strlen(asked[i].line);
        open = send(client.fd, asked[i].line, len, MSG_NOSIGNAL) == (ssize_t)len;
    }
    while (open && n_ended < n) {
        struct halo_refusal refusal;
        struct halo_ev ev;
        const char *line;
        size_t len;
        open = client_line(&client, &line, &len);
        if (!open)
            break;
        assert_int_equal(halo_ev_decode(&ev, line, len, HALO_EV_STRICT, &refusal), 0);
        if (halo_ev_is_terminal(ev.type)) {
            size_t which;
            /* Out of memory before the id could be read: answered with the id null, and nothing else will come for it.
             */
            if (ev.id.kind == HALO_ID_NONE)
                for (which = 0; which < n && asked[which].n_terminal > 0;)
                    which++;
            else
                which = (size_t)ev.id.num;
            assert_true(which < n);
            if (ev.type == HALO_EV_ERROR && asked[which].insists) {
                asked[which].insists = false;
                size_t again = strlen(asked[which].line);
                assert_int_equal(send(client.fd, asked[which].line, again, MSG_NOSIGNAL), again);
            } else {
                n_ended += asked[which].n_terminal++ == 0;
            }
        }
        halo_ev_finish(&ev);
    }
    if (open)
        assert_true(client_is_quiet(&client, 0));
    client_close(&client);
    return open;
}

static void converse(void)
{
    struct asked first[] = {
        {"{\"type\":\"load\",\"id\":0,\"model\":\"m\"}\n", 0},
        {"{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=100 size=9\",\"emit_token_ids\":true}\n", 0},
        {"{\"type\":\"status\",\"id\":2}\n", 0},
        {"{\"type\":\"stats\",\"id\":3}\n", 0},
        {"{\"type\":\"generate\",\"id\":4,\"prompt\":\"never=1\",\"deadline_ms\":100000}\n", 0},
        {"{\"type\":\"hello\",\"id\":5}\n", 0},
        {"{\"type\":\"cancel\",\"id\":6,\"target\":4}\n", 0, true},
    };
    /* The engine dies of the first one; all three go on in the next. */
    struct asked deadly[] = {
        {"{\"type\":\"generate\",\"id\":0,\"prompt\":\"n=5 us=200 die=4\",\"model\":\"named\"}\n", 0},
        {"{\"type\":\"score\",\"id\":1,\"model\":\"named\",\"text\":\"n=6 us=300\"}\n", 0},
        {"{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=9 us=200\",\"deadline_ms\":100000}\n", 0},
    };
    struct asked last[] = {{"{\"type\":\"generate\",\"id\":0,\"prompt\":\"n=2\"}\n", 0},
                           {"{\"type\":\"ping\",\"id\":1}\n", 0}};
    if (talk(first, 7))
        for (size_t i = 0; i < 7; i++)
            assert_int_equal(first[i].n_terminal, 1);
    if (talk(deadly, 3))
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(deadly[i].n_terminal, 1);
    /* One of them may be hit; the next cannot be, only one allocation fails. */
    if (!talk(last, 2))
        assert_true(talk(last, 2));
}

/* One run; whether the failure happened in it. */
static bool run(uint64_t n)
{
    char variable[64], path[128];
    const char *const env[] = {variable, NULL};
    int status;
    struct stat st;
    snprintf(variable, sizeof(variable), "HALO_FAIL_AT=%llu", (unsigned long long)n);
    if (rig_try_start(&rig, "[engine]\nstatus_ms = 5000\n[daemon]\ndrain_ms = 20\n", env, &status)) {
        converse();
        kill(rig.pid, SIGTERM);
        status = rig_wait(&rig);
        if (status != 0)
            fail_msg("allocation %llu: wait status %d at the end", (unsigned long long)n, status);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
        fail_msg("allocation %llu: wait status %d at the start", (unsigned long long)n, status);
    }
    snprintf(path, sizeof(path), "%s/failed", rig.dir);
    bool failed = stat(path, &st) == 0;
    unlink(path);
    rig_remove(&rig);
    return failed;
}

static void every_allocation_fails_once(void **state)
{
    uint64_t n = 0;
    while (run(n)) {
        print_message("allocation %llu failed, halod did not\n", (unsigned long long)n);
        n++;
        assert_true(n < N_MAX);
    }
    print_message("%llu allocations failed, one in each run\n", (unsigned long long)n);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
