/* raw.c: `haloctl raw`: protocol lines from standard input to the daemon, events to standard output, unchanged.
 *
 * Ends when standard input has ended and every line sent has had its terminal event (each line has exactly one).
 * Reading and writing go on at once, so a script that writes a thousand requests before it reads cannot deadlock.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <protocol/envelope.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

#define CHUNK_BYTES (64 * 1024)

struct raw {
    struct halo_ctl *ctl;
    struct halo_line_reader input; /* only to count the lines that are sent */
    char pending[CHUNK_BYTES];     /* read from stdin, not yet taken by the socket */
    size_t n_pending, at_pending;
    int64_t n_open; /* lines sent minus terminal events seen */
    bool input_ended, saw_error;
};

static int count_lines(struct raw *raw, const char *bytes, size_t n)
{
    const char *line;
    size_t len;
    int r = halo_line_feed(&raw->input, bytes, n);
    if (r < 0)
        return r;
    while ((r = halo_line_next(&raw->input, &line, &len)) != HALO_LINE_E_MORE)
        raw->n_open++;
    return 0;
}

/* 0; 1: standard input failed, after a message; negative errno. */
static int take_input(struct raw *raw)
{
    ssize_t n = read(STDIN_FILENO, raw->pending, sizeof(raw->pending) - 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n < 0) {
        halo_client_say("cannot read standard input: %s", strerror(errno));
        return 1;
    }
    if (n == 0) {
        raw->input_ended = true;
        if (halo_line_pending(&raw->input) == 0)
            return 0;
        raw->pending[0] = '\n'; /* the last line lacks its newline */
        n = 1;
    }
    raw->n_pending = (size_t)n;
    raw->at_pending = 0;
    return count_lines(raw, raw->pending, (size_t)n);
}

static int give_pending(struct raw *raw)
{
    ssize_t n = send(raw->ctl->fd, raw->pending + raw->at_pending, raw->n_pending - raw->at_pending, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    raw->at_pending += (size_t)n;
    if (raw->at_pending == raw->n_pending)
        raw->at_pending = raw->n_pending = 0;
    return 0;
}

/* 0; 1: standard output failed; negative errno. */
static int take_events(struct raw *raw)
{
    char *at;
    size_t room;
    int r = halo_line_reserve(&raw->ctl->lines, CHUNK_BYTES, &at, &room);
    if (r < 0)
        return r;
    ssize_t n = read(raw->ctl->fd, at, room);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    halo_line_commit(&raw->ctl->lines, (size_t)n);
    const char *line;
    size_t len;
    while (halo_line_next(&raw->ctl->lines, &line, &len) == 0) {
        struct halo_envelope env;
        halo_client_show_text(stdout, line, len);
        putchar('\n');
        if (halo_envelope_scan(line, len, &env) != 0)
            continue;
        int type = halo_ev_type_from_name(line + env.type.at, env.type.len);
        if (type >= 0 && halo_ev_is_terminal((enum halo_ev_type)type))
            raw->n_open--;
        raw->saw_error |= type == HALO_EV_ERROR;
    }
    return halo_ctl_flush(raw->ctl) ? 0 : 1;
}

int halo_ctl_raw(struct halo_ctl *ctl, int argc, char **argv)
{
    int at = halo_ctl_parse(ctl, argc, argv, NULL, NULL, "raw < LINES");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc) {
        halo_client_say("raw: takes no argument, got '%s'", argv[at]);
        return HALO_CTL_USAGE;
    }
    int r = halo_ctl_connect(ctl);
    if (r != HALO_CTL_OK)
        return r;
    static struct raw raw;
    raw = (struct raw){.ctl = ctl};
    halo_line_init(&raw.input, HALO_CTL_LINE_BYTES);
    fcntl(ctl->fd, F_SETFL, O_NONBLOCK);
    while (r == 0 && !halo_ctl_interrupts() && !(raw.input_ended && raw.n_pending == 0 && raw.n_open <= 0)) {
        struct pollfd waits[2] = {
            {.fd = ctl->fd, .events = (short)(POLLIN | (raw.n_pending ? POLLOUT : 0))},
            {.fd = raw.input_ended || raw.n_pending ? -1 : STDIN_FILENO, .events = POLLIN},
        };
        if (poll(waits, 2, -1) < 0) {
            r = errno == EINTR ? 0 : -errno;
            continue;
        }
        if (waits[0].revents & POLLOUT)
            r = give_pending(&raw);
        if (r == 0 && waits[0].revents & (POLLIN | POLLHUP | POLLERR))
            r = take_events(&raw);
        if (r == 0 && waits[1].revents)
            r = take_input(&raw);
    }
    halo_line_finish(&raw.input);
    if (r < 0) {
        halo_client_say("the connection to the daemon broke: %s", strerror(-r));
        return HALO_CTL_NO_DAEMON;
    }
    return halo_ctl_interrupts() ? HALO_CTL_INTERRUPTED : r > 0 || raw.saw_error ? HALO_CTL_FAILED : HALO_CTL_OK;
}
