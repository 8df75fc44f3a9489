/* test_table.c: the record's state machine and lists, and the state machines of peer and engine. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <serve/child/engine.h>

#include "flow_priv.h"
#include "link_priv.h"
#include "table_priv.h"

static struct halo_counters counters;
static struct halo_config config;
static const struct halo_requests_ops ops;

static void begin(struct halo_requests *table, struct halo_quota *quota, int64_t limit_bytes)
{
    config.resume_bytes = config.resume_user_bytes = limit_bytes;
    config.queued_requests = 10000;
    halo_quota_init(quota, &config, 0);
    halo_requests_init(table, &config, quota, &counters, &ops, NULL, 1);
}

/* The allowed moves, written down a second time: from each state, the states that may follow. */
static void moves_are_as_declared(void **state)
{
    enum { W = 1, S = 2, R = 4, C = 8, E = 16 };
    static const unsigned request[] = {S | E, R | C | W | E, C | W | E, E, 0};
    static const unsigned peer[] = {2 | 4 | 8, 1 | 4 | 8, 2 | 8, 0};
    static const unsigned engine[] = {2, 4 | 8, 8, 1};
    static const unsigned link[] = {1 | 2, 1 | 4, 1};
    for (int from = 0; from < HALO_N_REQUEST_STATES; from++)
        for (int to = 0; to < HALO_N_REQUEST_STATES; to++)
            assert_int_equal(halo_request_may_move(from, to), request[from] >> to & 1);
    for (int from = 0; from < HALO_N_PEER_STATES; from++)
        for (int to = 0; to < HALO_N_PEER_STATES; to++)
            assert_int_equal(halo_flow_may_move(from, to), peer[from] >> to & 1);
    for (int from = 0; from < HALO_N_ENGINE_STATES; from++)
        for (int to = 0; to < HALO_N_ENGINE_STATES; to++)
            assert_int_equal(halo_engine_may_move(from, to), engine[from] >> to & 1);
    for (int from = 0; from < HALO_N_LINK_STATES; from++)
        for (int to = 0; to < HALO_N_LINK_STATES; to++)
            assert_int_equal(halo_link_may_move(from, to), link[from] >> to & 1);
}

static void bad_move_aborts(void **state)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct halo_quota quota;
        struct halo_requests table;
        begin(&table, &quota, 100);
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        struct halo_request *request = halo_request_create(&table, NULL, HALO_MSG_GENERATE, NULL);
        halo_request_move(&table, request, HALO_REQUEST_RUNNING); /* never sent */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void table_finds_and_counts(void **state)
{
    enum { N = 3000 }; /* more than there are buckets */
    static struct halo_request *made[N];
    struct halo_quota quota;
    struct halo_requests table;
    size_t seen = 0;
    begin(&table, &quota, 1 << 20);
    for (size_t i = 0; i < N; i++) {
        char text[16];
        snprintf(text, sizeof(text), "id %zu", i);
        struct halo_id id = halo_id_of_str(halo_str_of(text));
        made[i] = halo_request_create(&table, NULL, i % 10 == 0 ? HALO_MSG_STATUS : HALO_MSG_GENERATE, &id);
        assert_non_null(made[i]);
    }
    assert_int_equal(table.all.n, N);
    assert_int_equal(table.n_states[HALO_REQUEST_WAITING], N - N / 10); /* queries are not counted */
    for (struct halo_request *r = halo_request_first(&table); r; r = halo_request_next(r))
        assert_ptr_equal(r, made[seen++]); /* by age */
    assert_int_equal(seen, N);
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(halo_request_find(&table, made[i]->id), made[i]);
    assert_true(halo_str_is(made[77]->client_id.str, "id 77")); /* its own copy */
    assert_null(halo_request_find(&table, table.last_id + 1));
    for (size_t i = 0; i < N; i += 2)
        halo_request_destroy(&table, made[i]);
    seen = 0;
    for (struct halo_request *r = halo_request_first_waiting(&table); r; r = halo_request_next_waiting(r))
        assert_ptr_equal(r, made[2 * seen++ + 1]); /* still in order of arrival */
    assert_int_equal(seen, N / 2);
    for (size_t i = 1; i < N; i += 2)
        halo_request_destroy(&table, made[i]);
    halo_requests_finish(&table);
    halo_quota_finish(&quota);
}

static void waiting_is_a_queue(void **state)
{
    struct halo_quota quota;
    struct halo_requests table;
    struct halo_request *r[3];
    begin(&table, &quota, 100);
    for (int i = 0; i < 3; i++)
        r[i] = halo_request_create(&table, NULL, HALO_MSG_GENERATE, NULL);
    halo_request_move(&table, r[1], HALO_REQUEST_SENT);
    assert_ptr_equal(halo_request_first_waiting(&table), r[0]);
    assert_ptr_equal(halo_request_next_waiting(r[0]), r[2]);
    halo_request_move(&table, r[1], HALO_REQUEST_RUNNING);
    assert_int_equal(table.n_states[HALO_REQUEST_RUNNING], 1);
    halo_request_move(&table, r[1], HALO_REQUEST_WAITING); /* its engine died: where it was, by age */
    assert_ptr_equal(halo_request_next_waiting(r[0]), r[1]);
    assert_ptr_equal(halo_request_next_waiting(r[1]), r[2]);
    assert_null(halo_request_next_waiting(r[2]));
    halo_request_move(&table, r[2], HALO_REQUEST_ENDED);
    halo_request_move(&table, r[0], HALO_REQUEST_SENT);
    halo_request_move(&table, r[0], HALO_REQUEST_WAITING);
    assert_ptr_equal(halo_request_first_waiting(&table), r[0]);
    assert_ptr_equal(halo_request_next_waiting(r[0]), r[1]);
    for (int i = 0; i < 3; i++)
        halo_request_destroy(&table, r[i]);
    assert_null(halo_request_first_waiting(&table));
    halo_requests_finish(&table);
}

static void line_and_tokens_are_charged(void **state)
{
    struct halo_quota quota;
    struct halo_requests table;
    char line[200] = {'x'};
    begin(&table, &quota, 1000);
    struct halo_quota_user *user = halo_quota_acquire(&quota, 5);
    struct halo_request *request = halo_request_create(&table, NULL, HALO_MSG_GENERATE, NULL);
    assert_int_equal(halo_request_keep_line(&table, request, user, line, sizeof(line)), 0);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 200);
    for (int i = 0; i < 64; i++)
        halo_request_note_token(&table, request, i * 3);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 200 + 64 * 4);
    assert_int_equal(request->tokens[63], 189);
    for (int i = 64; i < 128; i++)
        halo_request_note_token(&table, request, i * 3);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 200 + 128 * 4);
    assert_false(request->record_lost);
    halo_request_note_token(&table, request, 1); /* 256 ids do not fit into the rest: counted, but not kept */
    assert_true(request->record_lost);
    assert_int_equal(request->n_tokens, 129);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 200 + 128 * 4);
    struct halo_request *second = halo_request_create(&table, NULL, HALO_MSG_GENERATE, NULL);
    char big[400] = {'y'};
    assert_int_equal(halo_request_keep_line(&table, second, user, big, sizeof(big)), HALO_QUOTA_E_USER);
    halo_request_destroy(&table, second);
    halo_request_destroy(&table, request);
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 0);
    halo_quota_release(&quota, user);
    halo_requests_finish(&table);
    halo_quota_finish(&quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_are_as_declared),       cmocka_unit_test(bad_move_aborts),
        cmocka_unit_test(table_finds_and_counts),      cmocka_unit_test(waiting_is_a_queue),
        cmocka_unit_test(line_and_tokens_are_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
