/* test_turns.c: several users on one loop: whose lines are handled in a turn, who gets a connection, what those read
 * who get none. Users are stated by the name of a client's socket (client/credentials.c): needs -Dinject=true.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include <serve/client/clients.h>

#define MOST 64
#define WORK_NS 200000 /* what handling a line takes */

static uv_loop_t loop;
static struct halo_config config;
static struct halo_quota quota;
static struct halo_counters counters;
static struct halo_list touched;
static struct halo_clients clients;
static int fds[MOST]; /* the clients' ends */
static size_t n_fds, n_lines[2], n_before_b, n_gone;
static char last_drop[256];
static char path[64];

static void on_line(struct halo_peer *peer, const char *line, size_t len)
{
    bool is_b = peer->client.user->uid == 1002;
    for (uint64_t end = halo_clock_ns() + WORK_NS; halo_clock_ns() < end;)
        ;
    if (is_b && n_lines[1] == 0)
        n_before_b = n_lines[0];
    n_lines[is_b]++;
}

static void on_dropped(struct halo_peer *peer, enum halo_error code, struct halo_numbers numbers, const char *message)
{
    snprintf(last_drop, sizeof(last_drop), "%s", message);
}

static void on_pressure(struct halo_peer *peer, enum halo_pressure pressure)
{
}

static void on_gone(struct halo_peer *peer)
{
    n_gone++;
}

static const struct halo_peer_ops ops = {on_line, on_dropped, on_pressure, on_gone};

static int begin(void **state)
{
    struct halo_fault fault;
    setenv("HALO_INJECT_UIDS", "1", 1);
    halo_log_set_level(HALO_LOG_ERROR);
    assert_int_equal(halo_config_init(&config), 0);
    snprintf(path, sizeof(path), "/tmp/halo-turns-%ld", (long)getpid());
    assert_int_equal(halo_config_set_string(&config.socket_path, path), 0);
    halo_list_init(&touched);
    assert_int_equal(uv_loop_init(&loop), 0);
    clients = (struct halo_clients){
        .loop = &loop, .config = &config, .quota = &quota, .counters = &counters, .touched = &touched, .ops = &ops};
    halo_quota_init(&quota, &config, 999);
    quota.limits[HALO_QUOTA_CONNECTIONS] = (struct halo_quota_limit){.all = 33, .reserved = 1};
    assert_int_equal(halo_clients_start(&clients, -1, &fault), 0);
    n_fds = n_lines[0] = n_lines[1] = n_before_b = n_gone = 0;
    last_drop[0] = '\0';
    return 0;
}

static int end(void **state)
{
    char lock[80];
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]);
    halo_clients_stop(&clients);
    halo_clients_close(&clients);
    halo_clients_close_handles(&clients);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    halo_clients_finish(&clients);
    halo_quota_finish(&quota);
    halo_config_finish(&config);
    snprintf(lock, sizeof(lock), "%s.lock", path);
    unlink(lock);
    return 0;
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    halo_clients_take(&clients);
    halo_clients_flush(&clients);
}

/* A connection of this user, accepted or refused by now. */
static int connect_as(unsigned uid)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX}, to = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "halo-uid-%u-%ld-%zu", uid, (long)getpid(), n_fds);
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_true(n_fds < MOST);
    fds[n_fds++] = fd;
    turn();
    return fd;
}

static void expect_connections(int64_t a, int64_t b)
{
    int64_t n[2] = {0, 0};
    for (const struct halo_list_node *node = clients.peers.first; node; node = node->next)
        n[HALO_LIST_ITEM(node, const struct halo_peer, node)->client.user->uid == 1002]++;
    assert_int_equal(n[0], a);
    assert_int_equal(n[1], b);
}

static void fill(int fd, const char *line)
{
    char text[4096] = "";
    size_t len = strlen(line), n = 0;
    for (; n + len < sizeof(text); n += len)
        memcpy(text + n, line, len);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* A has thousands of lines on eight connections, B has one: it comes after A's time in one turn, not after all. */
static void one_user_gets_its_time_only(void **state)
{
    for (int i = 0; i < 8; i++)
        connect_as(1001);
    int b = connect_as(1002);
    for (int i = 0; i < 8; i++)
        fill(fds[i], "line\n");
    assert_int_equal(send(b, "b\n", 2, MSG_NOSIGNAL), 2);
    for (int i = 0; i < 100 && n_lines[1] == 0; i++)
        turn();
    assert_int_equal(n_lines[1], 1);
    /* 2 ms for lines of 200 us, in the turn in which it came and at most one more. */
    if (n_before_b > 2 * 11)
        fail_msg("%zu lines of the other user came first", n_before_b);
    /* And nothing is lost: A's lines all come, by and by. */
    size_t before = n_lines[0];
    for (int i = 0; i < 20; i++)
        turn();
    assert_true(n_lines[0] > before);
}

static void shares_of_connections(void **state)
{
    char text[1024];
    for (int i = 0; i < 16; i++)
        connect_as(1001);
    expect_connections(16, 0);
    int refused = connect_as(1001); /* half of 32 */
    expect_connections(16, 0);
    assert_int_equal(counters.connections_refused, 1);
    /* Who writes before it reads, reads why. */
    assert_int_equal(send(refused, "{\"type\":\"ping\"}\n", 16, MSG_NOSIGNAL), 16);
    turn();
    assert_int_equal(send(refused, "{\"type\":\"ping\"}\n", 16, MSG_NOSIGNAL), 16);
    ssize_t n = recv(refused, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(
        strstr(text, "\"code\":\"too_many_requests\",\"message\":\"user 1001 has 16 connections and gets no more"));
    assert_non_null(strstr(text, "\"detail\":{\"connections\":16,\"limit\":16}"));
    assert_int_equal(recv(refused, text, sizeof(text), 0), 0); /* and then the end */
    connect_as(1002);
    expect_connections(16, 1);
    connect_as(0);
    assert_int_equal(clients.peers.n, 18);
}

/* After a second of silence A's oldest connection makes room, first for A, and when all are in use for others. */
static void silent_ones_make_room(void **state)
{
    for (int i = 0; i < 16; i++)
        connect_as(1001);
    for (struct halo_list_node *node = clients.peers.first; node; node = node->next)
        HALO_LIST_ITEM(node, struct halo_peer, node)->active_ms -= 1000;
    struct halo_peer *first = HALO_LIST_ITEM(clients.peers.first, struct halo_peer, node);
    struct halo_list_node open = {0};
    halo_list_append(&first->client.requests, &open); /* a reply is due to the oldest: it is not silent */
    connect_as(1001);
    expect_connections(16, 0);
    assert_int_equal(counters.connections_shed, 1);
    assert_string_equal(last_drop,
                        "this connection was silent and was closed to make room for another one; connect again");
    assert_ptr_equal(HALO_LIST_ITEM(clients.peers.first, struct halo_peer, node), first);
    halo_list_remove(&open);
    /* Others take all that is left; who comes then takes one of A's, who has most. */
    for (unsigned uid = 1003; clients.peers.n < 32; uid++)
        connect_as(uid);
    connect_as(1002);
    expect_connections(32 - 1, 1);
    assert_int_equal(counters.connections_shed, 2);
    assert_int_equal(n_gone, 2);
}

static void only_so_many_linger(void **state)
{
    quota.limits[HALO_QUOTA_CONNECTIONS] = (struct halo_quota_limit){.all = 1};
    connect_as(1001);
    for (int i = 0; i < 40; i++)
        connect_as(1001);
    assert_int_equal(clients.refused.n, 32);
    close(fds[--n_fds - 20]);
    fds[n_fds - 20] = fds[n_fds];
    for (int i = 0; i < 1000 && clients.refused.n > 31; i++)
        turn();
    assert_int_equal(clients.refused.n, 31);
    for (int i = 0; i < 60000 && clients.refused.n > 0; i++) { /* their second is over */
        turn();
        usleep(1000);
    }
    assert_int_equal(clients.refused.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_user_gets_its_time_only, begin, end),
        cmocka_unit_test_setup_teardown(shares_of_connections, begin, end),
        cmocka_unit_test_setup_teardown(silent_ones_make_room, begin, end),
        cmocka_unit_test_setup_teardown(only_so_many_linger, begin, end),
    };
    const char *inject = getenv("HALO_TEST_INJECT");
    if (!inject || strcmp(inject, "1") != 0) {
        fprintf(stderr, "skipped: built without -Dinject=true\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
