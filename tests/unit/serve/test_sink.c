/* test_sink.c: everything written comes out once and in order, whatever the reader's pace, and the byte count is right.
 */
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

#include <serve/sink.h>

struct fixture {
    uv_loop_t loop;
    uv_pipe_t pipe;
    struct halo_sink sink;
    int reader;
    int n_written, last_status;
};

static void on_written(struct halo_sink *sink, int status, void *ud)
{
    struct fixture *f = ud;
    f->n_written++;
    f->last_status = status;
}

static void begin(struct fixture *f)
{
    int fds[2];
    *f = (struct fixture){0};
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_pipe_init(&f->loop, &f->pipe, 0), 0);
    assert_int_equal(uv_pipe_open(&f->pipe, fds[0]), 0);
    f->reader = fds[1];
    halo_sink_init(&f->sink, (uv_stream_t *)&f->pipe, on_written, f);
}

static void end(struct fixture *f)
{
    uv_close((uv_handle_t *)&f->pipe, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    halo_sink_finish(&f->sink);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    if (f->reader >= 0)
        close(f->reader);
}

static void put_number(struct halo_sink *sink, int64_t number)
{
    halo_json_i64(&sink->pending, number);
    assert_int_equal(halo_json_line_end(&sink->pending), 0);
}

static void keeps_order(void **state)
{
    enum { N = 300000 };
    struct fixture f;
    int64_t next = 0, sent = 0, number = 0;
    size_t most = 0;
    begin(&f);
    while (next < N) {
        char buf[8192];
        for (int i = 0; i < 3000 && sent < N; i++)
            put_number(&f.sink, sent++);
        assert_int_equal(halo_sink_flush(&f.sink), 0);
        if (halo_sink_bytes(&f.sink) > most)
            most = halo_sink_bytes(&f.sink);
        ssize_t n = recv(f.reader, buf, sizeof(buf), MSG_DONTWAIT);
        for (ssize_t i = 0; i < n; i++) {
            if (buf[i] == '\n') {
                assert_int_equal(number, next);
                next++;
                number = 0;
            } else {
                number = number * 10 + (buf[i] - '0');
            }
        }
        uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(halo_sink_bytes(&f.sink), 0);
    assert_true(most > 500000); /* it really did back up */
    assert_true(f.n_written > 1);
    assert_true(f.sink.pending.cap + f.sink.flying.cap <= 128 << 10); /* and gave the memory back */
    end(&f);
}

static void reports_a_broken_stream(void **state)
{
    struct fixture f;
    begin(&f);
    close(f.reader);
    f.reader = -1;
    put_number(&f.sink, 1);
    assert_int_equal(halo_sink_flush(&f.sink), UV_EPIPE);
    end(&f);
}

static void reports_a_stream_that_breaks_in_flight(void **state)
{
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 300000; i++)
        put_number(&f.sink, i);
    assert_int_equal(halo_sink_flush(&f.sink), 0);
    assert_true(f.sink.busy);
    close(f.reader);
    f.reader = -1;
    for (int i = 0; i < 100 && f.n_written == 0; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    assert_int_equal(f.n_written, 1);
    assert_true(f.last_status < 0);
    end(&f);
}

static void closes_in_flight(void **state)
{
    struct fixture f;
    begin(&f);
    for (int i = 0; i < 300000; i++)
        put_number(&f.sink, i);
    assert_int_equal(halo_sink_flush(&f.sink), 0);
    assert_true(f.sink.busy);
    end(&f); /* asserts that nothing is left */
    assert_int_equal(f.n_written, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order),
        cmocka_unit_test(reports_a_broken_stream),
        cmocka_unit_test(reports_a_stream_that_breaks_in_flight),
        cmocka_unit_test(closes_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
