/* test_peer.c: a connection against fake ops: lines, dropped lines, pressure, the end. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include <protocol/limits.h>

#include <serve/client/clients.h>

static uv_loop_t loop;
static struct halo_config config;
static struct halo_quota quota;
static struct halo_counters counters;
static struct halo_list touched;
static struct halo_clients clients;
static char told[512]; /* what the ops heard */
static int fd;         /* the client's end */

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    size_t len = strlen(told);
    va_list args;
    va_start(args, format);
    vsnprintf(told + len, sizeof(told) - len, format, args);
    va_end(args);
}

static void on_line(struct halo_peer *peer, const char *line, size_t len)
{
    tell("[%.*s]", (int)len, line);
}

static void on_dropped(struct halo_peer *peer, enum halo_error code, struct halo_numbers numbers, const char *message)
{
    tell("(%s)", halo_error_name(code));
    assert_true(numbers.n > 0);
}

static void on_pressure(struct halo_peer *peer, enum halo_pressure pressure)
{
    tell("%s", pressure == HALO_PRESSURE_SLOW ? "slow " : pressure == HALO_PRESSURE_NONE ? "quick " : "stalled ");
}

static void on_gone(struct halo_peer *peer)
{
    tell("gone");
}

static const struct halo_peer_ops ops = {on_line, on_dropped, on_pressure, on_gone};

static struct halo_peer *peer(void)
{
    return HALO_LIST_ITEM(clients.peers.first, struct halo_peer, node);
}

static int begin(void **state)
{
    int fds[2];
    signal(SIGPIPE, SIG_IGN);
    halo_log_set_level(HALO_LOG_ERROR);
    told[0] = '\0';
    assert_int_equal(halo_config_init(&config), 0);
    halo_quota_init(&quota, &config, geteuid());
    halo_list_init(&touched);
    assert_int_equal(uv_loop_init(&loop), 0);
    clients = (struct halo_clients){
        .loop = &loop, .config = &config, .quota = &quota, .counters = &counters, .touched = &touched, .ops = &ops};
    halo_list_init(&clients.peers);
    halo_list_init(&clients.ready);
    halo_list_init(&clients.refused);
    uv_idle_init(&loop, &clients.idle);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fd = fds[0];
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    assert_int_equal(halo_peer_create(&clients, fds[1], NULL), 0);
    return 0;
}

static int end(void **state)
{
    if (fd >= 0)
        close(fd);
    halo_clients_close(&clients);
    halo_clients_close_handles(&clients);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    halo_quota_finish(&quota);
    halo_config_finish(&config);
    return 0;
}

/* Turns the loop until the ops have heard all of it. */
static void expect(const char *wanted)
{
    for (int i = 0; i < 60000 && strcmp(told, wanted) != 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        halo_clients_take(&clients);
        halo_clients_flush(&clients);
        if (i > 100)
            usleep(1000);
    }
    assert_string_equal(told, wanted);
    told[0] = '\0';
}

static void send_text(const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void write_output(size_t n)
{
    for (size_t i = 0; i < n; i += 1000) {
        char text[1000];
        memset(text, 'x', sizeof(text) - 1);
        halo_json_str_n(peer()->client.out, text, sizeof(text) - 3);
        assert_int_equal(halo_json_line_end(peer()->client.out), 0);
    }
    halo_client_touch(&peer()->client);
    halo_clients_flush(&clients);
}

static size_t read_output(size_t n)
{
    char text[4096];
    size_t got = 0;
    while (got < n) {
        ssize_t r = recv(fd, text, sizeof(text), MSG_DONTWAIT);
        if (r > 0)
            got += (size_t)r;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    return got;
}

static void cuts_lines(void **state)
{
    config.line_bytes = 1024;
    peer()->reader.limit_bytes = 1024;
    send_text("one\ntwo\r\n\nthr");
    expect("[one][two]");
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 3); /* the half line */
    send_text("ee\n");
    expect("[three]");
    assert_int_equal(quota.used[HALO_QUOTA_LINES], 0);
    char much[1100];
    memset(much, 'x', sizeof(much));
    much[1098] = '\n';
    much[1099] = '\0';
    send_text(much);
    send_text("four\n");
    expect("(line_too_long)[four]");
    assert_true(peer()->client.user->privileged);
    assert_int_equal(peer()->client.user->uid, geteuid());
}

static void a_last_line_needs_no_newline(void **state)
{
    struct halo_list_node request = {0};
    send_text("one\ntwo");
    shutdown(fd, SHUT_WR);
    halo_list_append(&peer()->client.requests, &request); /* what the line became */
    expect("[one][two]");
    halo_list_remove(&request);
    halo_client_touch(&peer()->client);
    expect("gone");
}

/* What its user holds already leaves no room for the line that it is in the middle of. */
static void half_a_line_over_the_quota(void **state)
{
    quota.limits[HALO_QUOTA_LINES].user = 2;
    send_text("three");
    expect("(too_many_requests)");
    send_text("three\nxy\n");
    expect("[xy]");
}

static void a_slow_reader(void **state)
{
    config.stall_ms = 100;
    write_output(4 << 20);
    expect("slow ");
    send_text("not read\n");
    expect("stalled ");
    read_output(4 << 20);
    expect("quick [not read]");
    write_output(4 << 20);
    expect("slow stalled gone");
    assert_int_equal(counters.stalls, 3);
}

static void more_than_a_pause_explains(void **state)
{
    config.output_high_bytes = 4096;
    write_output((64 * 4096) + HALO_LIMIT_ANSWER_BYTES + (2 << 20));
    expect("gone");
}

static void half_open(void **state)
{
    struct halo_list_node request = {0};
    halo_list_append(&peer()->client.requests, &request); /* one is due */
    send_text("one\n");
    shutdown(fd, SHUT_WR);
    expect("[one]");
    uv_run(&loop, UV_RUN_NOWAIT);
    halo_clients_flush(&clients);
    expect("");
    halo_list_remove(&request);
    write_output(1000);
    expect("gone");
    assert_int_equal(read_output(1000), 1000);
}

static void gone_while_half_open(void **state)
{
    struct halo_list_node request = {0};
    halo_list_append(&peer()->client.requests, &request);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 1000 && !peer()->flow.input_over; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
        halo_clients_take(&clients);
    }
    close(fd);
    fd = -1;
    expect("gone"); /* no event says so: the tick looks */
}

static void gone_at_once(void **state)
{
    close(fd);
    fd = -1;
    expect("gone");
}

static void writing_to_one_that_left(void **state)
{
    close(fd);
    fd = -1;
    write_output(1000);
    expect("gone");
}

static void doomed_ones_close_when_their_output_is_out(void **state)
{
    halo_clients_doom(&clients);
    expect("gone");
}

static void doomed_ones_do_not_wait_for_ever(void **state)
{
    config.stall_ms = 100;
    write_output(4 << 20);
    halo_clients_doom(&clients);
    expect("slow gone");
}

static void a_lost_event_closes(void **state)
{
    halo_client_break(&peer()->client);
    expect("gone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cuts_lines, begin, end),
        cmocka_unit_test_setup_teardown(a_last_line_needs_no_newline, begin, end),
        cmocka_unit_test_setup_teardown(half_a_line_over_the_quota, begin, end),
        cmocka_unit_test_setup_teardown(a_slow_reader, begin, end),
        cmocka_unit_test_setup_teardown(more_than_a_pause_explains, begin, end),
        cmocka_unit_test_setup_teardown(half_open, begin, end),
        cmocka_unit_test_setup_teardown(gone_while_half_open, begin, end),
        cmocka_unit_test_setup_teardown(gone_at_once, begin, end),
        cmocka_unit_test_setup_teardown(writing_to_one_that_left, begin, end),
        cmocka_unit_test_setup_teardown(doomed_ones_close_when_their_output_is_out, begin, end),
        cmocka_unit_test_setup_teardown(doomed_ones_do_not_wait_for_ever, begin, end),
        cmocka_unit_test_setup_teardown(a_lost_event_closes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
