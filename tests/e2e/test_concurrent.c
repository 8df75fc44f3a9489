/* test_concurrent.c: two hundred requests at once (or as many as the argument says) give, each, the ids they give
 * alone.
 *
 * With 1 and with 2 threads and for each KV type. `stats` must show that steps really held 8 sequences or more:
 * otherwise the requests ran one after the other and nothing was shown.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "daemon_fixture.h"

#define MAX_REQUESTS 200
#define N_CLIENTS 10
#define MODEL "fable-Q4_K_M"

static int n_requests = MAX_REQUESTS;

static const char *const openings[] = {
    "Once upon a time",
    "The king had three daughters, and the youngest",
    "In the deep forest there lived an old woman who",
    "\\\"Dear wolf,\\\" said the fox,",
    "A poor miller",
    "When winter came and the snow lay deep, the tailor went out to",
    "Es war einmal",
    "The little tin soldier stood",
    "Far out in the sea",
    "\xe6\x98\x94\xe3\x80\x85",
};

static void send_one(struct client *client, int i)
{
    /* Lengths 1..40, four sampling styles, prompts of different lengths repeated so that some need several chunks. */
    char prompt[4096] = "";
    int repeat = i % 13 == 0 ? 30 : 1 + i % 3;
    for (int k = 0; k < repeat; k++) {
        strcat(prompt, openings[(i + k) % (int)(sizeof openings / sizeof openings[0])]);
        strcat(prompt, " ");
    }
    static const char *const styles[] = {"\"temperature\":0", "\"temperature\":0.8",
                                         "\"temperature\":1.2,\"top_k\":0,\"min_p\":0",
                                         "\"temperature\":0.9,\"repeat_penalty\":1.3,\"presence_penalty\":0.2"};
    client_send(client, "generate",
                "\"model\":\"" MODEL "\",\"prompt\":\"%s\",\"max_tokens\":%d,\"seed\":%d,\"emit_token_ids\":true,%s",
                prompt, 1 + (i * 7) % 40, 1000 + i, styles[i % 4]);
}

struct reply {
    int32_t ids[64];
    size_t n;
};

static void keep(const struct client_request *request, struct reply *reply)
{
    assert_int_equal(request->n_terminal, 1);
    if (request->terminal != HALO_EV_DONE)
        fail_msg("ended with an error: %s", request->message);
    assert_true(request->n_ids >= 1 && request->n_ids <= 64);
    memcpy(reply->ids, request->ids, request->n_ids * sizeof *request->ids);
    reply->n = request->n_ids;
}

static void load(const struct daemon_fixture *daemon, const char *kv)
{
    struct client client;
    client_open(&client, daemon);
    client_send(&client, "load",
                "\"model\":\"" MODEL "\",\"params\":{\"kv\":\"%s\",\"context\":512,\"kv_tokens\":16384}", kv);
    assert_true(client_wait(&client, 0, 60000));
    if (client.requests[0].terminal != HALO_EV_LOADED)
        fail_msg("load: %s", client.requests[0].message);
    client_close(&client);
}

/* Counts by the engine's own histogram of sequences per step how many steps held at least 8. */
static int64_t steps_with_eight(const struct daemon_fixture *daemon)
{
    struct client client;
    client_open(&client, daemon);
    client_send(&client, "stats", "%s", "");
    assert_true(client_wait(&client, 0, 60000));
    const char *at = client.last_line ? strstr(client.last_line, "\"steps_8_or_more\":") : NULL;
    int64_t n = at ? atoll(at + strlen("\"steps_8_or_more\":")) : -1;
    client_close(&client);
    return n;
}

static void run(int threads, const char *kv)
{
    static struct reply alone[MAX_REQUESTS], together[MAX_REQUESTS];
    static struct client clients[N_CLIENTS];
    struct daemon_fixture daemon;
    char config[128];
    snprintf(config, sizeof config, "[engine]\nthreads = %d\n", threads);
    daemon_start(&daemon, config);
    load(&daemon, kv);

    for (int i = 0; i < n_requests; i++) {
        struct client client;
        client_open(&client, &daemon);
        send_one(&client, i);
        assert_true(client_wait(&client, 0, 60000));
        keep(&client.requests[0], &alone[i]);
        client_close(&client);
    }
    assert_int_equal(steps_with_eight(&daemon), 0); /* they really ran alone */

    for (int c = 0; c < N_CLIENTS; c++)
        client_open(&clients[c], &daemon);
    for (int i = 0; i < n_requests; i++)
        send_one(&clients[i % N_CLIENTS], i);
    for (int c = 0; c < N_CLIENTS; c++)
        assert_true(client_wait(&clients[c], 0, 240000));
    for (int i = 0; i < n_requests; i++)
        keep(&clients[i % N_CLIENTS].requests[i / N_CLIENTS], &together[i]);
    for (int c = 0; c < N_CLIENTS; c++)
        client_close(&clients[c]);

    int n_different = 0, n_distinct = 0;
    for (int i = 0; i < n_requests; i++) {
        if (alone[i].n != together[i].n ||
            memcmp(alone[i].ids, together[i].ids, alone[i].n * sizeof alone[i].ids[0]) != 0) {
            fprintf(stderr, "request %d differs (threads %d, kv %s)\n", i, threads, kv);
            n_different++;
        }
        n_distinct += i > 0 && (alone[i].n != alone[0].n ||
                                memcmp(alone[i].ids, alone[0].ids, alone[i].n * sizeof alone[i].ids[0]) != 0);
    }
    assert_int_equal(n_different, 0);
    assert_true(n_distinct > n_requests / 2); /* the replies are not all the same one */
    assert_true(steps_with_eight(&daemon) >= 8);
    daemon_stop(&daemon, 60000);
}

static void one_thread_f32(void **state)
{
    (void)state;
    run(1, "f32");
}
static void two_threads_f32(void **state)
{
    (void)state;
    run(2, "f32");
}
static void one_thread_f16(void **state)
{
    (void)state;
    run(1, "f16");
}
static void two_threads_f16(void **state)
{
    (void)state;
    run(2, "f16");
}
static void one_thread_q8(void **state)
{
    (void)state;
    run(1, "q8");
}
static void two_threads_q8(void **state)
{
    (void)state;
    run(2, "q8");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        n_requests = atoi(argv[1]);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    if (n_requests < 4 * N_CLIENTS || n_requests > MAX_REQUESTS || n_requests % N_CLIENTS != 0) {
        fprintf(stderr, "usage: %s [requests: %d to %d, a multiple of %d [name of the only test]]\n", argv[0],
                4 * N_CLIENTS, MAX_REQUESTS, N_CLIENTS);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_f32),  cmocka_unit_test(two_threads_f32), cmocka_unit_test(one_thread_f16),
        cmocka_unit_test(two_threads_f16), cmocka_unit_test(one_thread_q8),   cmocka_unit_test(two_threads_q8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
