/* test_hip_faults.c: a GPU that hangs, fails or runs out of memory under a real daemon.
 *
 * The engine drives the emulated HIP runtime, whose faults come from a script file: it is there while the fault
 * lasts and gone for the engine that follows. In each case the request ends exactly once and in time, with a code, a
 * place and a cause, or goes on to its end if it had begun; the daemon answers all along; and the next load and the
 * next request work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon_fixture.h"

#define MODEL "fable-Q4_K_M"
#define LOAD "\"model\":\"" MODEL "\",\"params\":{\"context\":64,\"kv_tokens\":128}"
#define DEADLINE_MS 4000 /* of the device, in the environment: what a busy machine emulates within it is no hang */
#define ENDS_MS 120000   /* three engines, each with a load and its deadline, on a busy machine under a sanitizer */

static struct daemon_fixture fixture;
static char script_path[320];

static void script(const char *text)
{
    char part[340];
    snprintf(part, sizeof part, "%s.part", script_path);
    FILE *file = fopen(part, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(part, script_path), 0); /* read by the engine at any moment */
}

static void no_script(void)
{
    unlink(script_path);
}

/* Sends one request until it succeeds; an engine that is on its way back may refuse some. */
static void works(const char *type, const char *rest, enum halo_ev_type wanted)
{
    struct client client;
    client_open(&client, &fixture);
    for (int attempt = 0; attempt < 60; attempt++) {
        size_t i = client_send(&client, type, "%s", rest);
        assert_true(client_wait(&client, 0, ENDS_MS));
        if (client.requests[i].terminal == wanted) {
            client_close(&client);
            return;
        }
        usleep(300000);
    }
    fail_msg("%s does not work after the fault: %s", type, client.requests[client.n_requests - 1].message);
}

static void everything_works(void)
{
    works("load", LOAD, HALO_EV_LOADED);
    works("generate", "\"model\":\"" MODEL "\",\"prompt\":\"Once\",\"max_tokens\":3,\"temperature\":0", HALO_EV_DONE);
}

struct fault {
    const char *script;
    bool in_load;          /* else in a request, after a good load */
    enum halo_error error; /* when the first failure ends the request */
    const char *says[2];   /* place and cause, in its message */
};

static const struct fault faults[] = {
    {"hipMemcpyAsync:30:stall", true, HALO_ERROR_DEVICE_HANG, {"uploading", "did not finish within"}},
    {"hipHostMalloc:2:oom", true, HALO_ERROR_OUT_OF_MEMORY, {"buffers of the upload", "out of memory"}},
    {"hipMalloc:3:oom", true, HALO_ERROR_OUT_OF_MEMORY, {"activations", "out of memory"}},
    {"hipMemcpyAsync:40:lost", true, HALO_ERROR_DEVICE_FAULT, {"uploading", "launch failed (719)"}},
    {"hipModuleLaunchKernel:5:stall", false, HALO_ERROR_DEVICE_HANG, {"first launch of", "did not finish within"}},
    {"hipGraphLaunch:2:stall", false, HALO_ERROR_DEVICE_HANG, {"a step of 1 rows", "did not finish within"}},
    {"hipEventQuery:*:error=700", false, HALO_ERROR_DEVICE_FAULT, {"", "illegal address (700)"}},
    {"hipGraphLaunch:1:lost", false, HALO_ERROR_DEVICE_FAULT, {"replaying a step", "launch failed (719)"}},
};

#define N_TOKENS 30

/* A reply that had begun goes on in the next engine, where the fault is gone, to its end. Everything else meets the
 * fault again and again: how it ends then is the daemon's choice, but it says what a person can act on. */
static void check_end(const struct fault *fault, const struct client_request *request)
{
    assert_int_equal(request->n_terminal, 1);
    if (request->n_restarts > 0) {
        if (request->terminal != HALO_EV_DONE)
            fail_msg("%s: did not go on: %s", fault->script, request->message);
        assert_int_equal(request->n_ids, N_TOKENS);
        return;
    }
    if (request->terminal != HALO_EV_ERROR)
        fail_msg("%s: the request succeeded", fault->script);
    assert_true(request->message[0] != '\0');
    if (request->error == HALO_ERROR_ENGINE_LOST)
        return;
    if (request->error != fault->error)
        fail_msg("%s: error %d, wanted %d: %s", fault->script, (int)request->error, (int)fault->error,
                 request->message);
    for (int i = 0; i < 2; i++)
        if (!strstr(request->message, fault->says[i]))
            fail_msg("%s: \"%s\" does not say \"%s\"", fault->script, request->message, fault->says[i]);
}

static void play(const struct fault *fault)
{
    struct client client;
    char generate[200];
    daemon_start(&fixture, NULL);
    if (!fault->in_load)
        works("load", LOAD, HALO_EV_LOADED);
    script(fault->script);
    client_open(&client, &fixture);
    snprintf(generate, sizeof generate,
             "\"model\":\"" MODEL "\",\"prompt\":\"Once\",\"max_tokens\":%d,\"temperature\":0,\"ignore_eos\":true,"
             "\"emit_token_ids\":true",
             N_TOKENS);
    client_send(&client, fault->in_load ? "load" : "generate", "%s", fault->in_load ? LOAD : generate);
    client_poll(&client, 300);
    daemon_answers(&fixture);
    const struct client_request *request = &client.requests[0];
    for (int ms = 0; ms < ENDS_MS && request->n_terminal == 0 && request->n_restarts == 0; ms += 20)
        client_poll(&client, 20);
    no_script();
    assert_true(client_wait(&client, 0, ENDS_MS));
    daemon_answers(&fixture);
    print_message("%-32s %s\n", fault->script, request->n_restarts > 0 ? "went on" : request->message);
    check_end(fault, request);
    client_close(&client);
    everything_works();
    daemon_stop(&fixture, 60000);
}

static void requests_end_and_the_next_work(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        play(&faults[i]);
}

int main(void)
{
    char variable[340];
    if (!getenv("HALO_HIP_LIB")) {
        fprintf(stderr, "SKIPPED: HALO_HIP_LIB names no runtime\n");
        return 77;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(script_path, sizeof script_path, "%s/halod-hip-script-%d", tmp ? tmp : "/tmp", (int)getpid());
    snprintf(variable, sizeof variable, "@%s", script_path);
    setenv("HALO_HIP_EMU_SCRIPT", variable, 1);
    setenv("HALO_HIP_EMU_DISCRETE", "1", 1);
    snprintf(variable, sizeof variable, "%d", DEADLINE_MS);
    setenv("HALO_HIP_DEADLINE_MS", variable, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_end_and_the_next_work)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    no_script();
    return failed;
}
