/* remote_rig.c: see remote_rig.h. */
#include "remote_rig.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define STEP_MS 8000 /* of one op on the emulated GPU, however busy the machine */

void start_halod(struct daemon_fixture *daemon, const char *remote, const char *more)
{
    char config[512];
    snprintf(config, sizeof(config),
             "[defaults]\nemit_token_ids = true\n[engine]\nremote = %s\nrestart_max_ms = 200\nbreaker_ms = "
             "300\nstep_ms = %d\n%s",
             remote, STEP_MS, more);
    daemon_start(daemon, config);
}

const char *worker_said(struct worker *w)
{
    struct pollfd state = {.fd = w->log_fd, .events = POLLIN};
    while (poll(&state, 1, 0) > 0) {
        ssize_t n = read(w->log_fd, w->log + w->n_log, sizeof(w->log) - 1 - w->n_log);
        if (n <= 0)
            break;
        w->n_log += (size_t)n;
    }
    return w->log;
}

pid_t worker_session(struct worker *w)
{
    pid_t pid = 0;
    for (const char *at = worker_said(w); (at = strstr(at, "info  session ")); at++)
        if (atoi(at + 14) > 0)
            pid = (pid_t)atoi(at + 14);
    assert_true(pid > 1);
    return pid;
}

void worker_remove(const struct worker *w)
{
    static const char *const names[] = {"s", "s.lock"};
    char path[96];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", w->folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(w->folder), 0);
}

void works(const struct daemon_fixture *daemon, const char *type, const char *rest, enum halo_ev_type wanted)
{
    struct client client;
    client_open(&client, daemon);
    for (int attempt = 0; attempt < 100; attempt++) {
        size_t i = client_send(&client, type, "%s", rest);
        assert_true(client_wait(&client, 0, ENDS_MS));
        if (client.requests[i].terminal == wanted) {
            client_close(&client);
            return;
        }
        client_forget(&client);
        usleep(200000);
    }
    fail_msg("%s never works", type);
}

size_t reply(const struct daemon_fixture *daemon, void (*meanwhile)(void), int32_t ids[static N_TOKENS])
{
    struct client client;
    client_open(&client, daemon);
    size_t i = client_send(&client, "generate", "%s", GENERATE), n_before = N_TOKENS;
    while (meanwhile && client.requests[i].n_ids < 4)
        client_poll(&client, 50);
    if (meanwhile) {
        n_before = client.requests[i].n_ids;
        assert_true(n_before < N_TOKENS);
        meanwhile();
    }
    assert_true(client_wait(&client, 0, ENDS_MS));
    const struct client_request *request = &client.requests[i];
    if (request->terminal != HALO_EV_DONE)
        fail_msg("the reply ended with: %s", request->message);
    assert_int_equal(request->n_restarts, meanwhile ? 1 : 0);
    assert_int_equal(request->n_ids, N_TOKENS);
    memcpy(ids, request->ids, N_TOKENS * sizeof(*ids));
    client_close(&client);
    return n_before;
}
