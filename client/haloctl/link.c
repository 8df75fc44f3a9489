/* link.c: haloctl's connection to the daemon: find the socket, send a request, receive lines.
 *
 * Blocking writes, polled reads. A daemon that closes the connection is an error here, never a SIGPIPE: that signal is
 * left to standard output, whose reader may go away.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <client/clock.h>
#include <client/say.h>
#include <client/socket.h>

#include "ctl_priv.h"

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupts++;
}

void halo_ctl_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* no SA_RESTART: poll and read must return */
}

int halo_ctl_interrupts(void)
{
    return interrupts;
}

void halo_ctl_forget_interrupts(void)
{
    interrupts = 0;
}

void halo_ctl_disconnect(struct halo_ctl *ctl)
{
    if (ctl->fd >= 0) {
        close(ctl->fd);
        halo_line_finish(&ctl->lines);
    }
    ctl->fd = -1;
}

/* Tries one path; on failure adds the reason to what is said if none answers. */
static bool try_path(struct halo_ctl *ctl, const char *path, char *tried, size_t n_bytes)
{
    char reason[400];
    int fd = halo_client_connect(path);
    if (fd >= 0) {
        ctl->fd = fd;
        halo_line_init(&ctl->lines, HALO_CTL_LINE_BYTES);
        return true;
    }
    size_t used = strlen(tried);
    snprintf(tried + used, n_bytes - used, "%s%s: %s", used ? "; " : "", path,
             halo_client_connect_reason(path, fd, reason, sizeof(reason)));
    return false;
}

/* Whether the daemon has closed the connection: it was restarted, or needed the place of a silent client. */
static bool has_hung_up(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLRDHUP};
    return poll(&end, 1, 0) > 0;
}

bool halo_ctl_try_connect(struct halo_ctl *ctl, char *tried, size_t n_bytes)
{
    tried[0] = '\0';
    if (ctl->fd >= 0 && !has_hung_up(ctl->fd))
        return true;
    halo_ctl_disconnect(ctl);
    const char *given = ctl->socket_path ? ctl->socket_path : getenv("HALO_SOCKET");
    if (given && *given)
        return try_path(ctl, given, tried, n_bytes);
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char path[512];
    if (runtime && *runtime && snprintf(path, sizeof(path), "%s/halod/halod.sock", runtime) < (int)sizeof(path) &&
        try_path(ctl, path, tried, n_bytes))
        return true;
    return try_path(ctl, "/run/halod/halod.sock", tried, n_bytes);
}

int halo_ctl_connect(struct halo_ctl *ctl)
{
    char tried[1024];
    if (halo_ctl_try_connect(ctl, tried, sizeof(tried)))
        return HALO_CTL_OK;
    halo_client_say("no daemon answers (%s). Is halod running? --socket PATH or HALO_SOCKET names another socket.",
                    tried);
    return HALO_CTL_NO_DAEMON;
}

static int send_bytes(struct halo_ctl *ctl, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = send(ctl->fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

int halo_ctl_send(struct halo_ctl *ctl, const struct halo_msg *msg)
{
    halo_json_reset(&ctl->out);
    int r = halo_msg_encode(&ctl->out, msg);
    return r < 0 ? r : send_bytes(ctl, ctl->out.at, ctl->out.len);
}

/* Waits for bytes and feeds them. */
static int receive(struct halo_ctl *ctl)
{
    struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};
    int64_t left_ms = ctl->until_ms > 0 ? ctl->until_ms - halo_client_now_ms() : -1;
    int r = ctl->until_ms > 0 && left_ms <= 0 ? 0 : poll(&wait, 1, left_ms > 60000 ? 60000 : (int)left_ms);
    if (r < 0)
        return -errno;
    if (r == 0)
        return left_ms > 60000 ? 0 : -ETIMEDOUT;
    char *at;
    size_t room;
    r = halo_line_reserve(&ctl->lines, 64 * 1024, &at, &room);
    if (r < 0)
        return r;
    ssize_t n = read(ctl->fd, at, room);
    if (n <= 0)
        return n < 0 ? -errno : -ECONNRESET;
    halo_line_commit(&ctl->lines, (size_t)n);
    return 0;
}

int halo_ctl_next_line(struct halo_ctl *ctl, const char **ret_line, size_t *ret_len)
{
    for (;;) {
        int r = halo_line_next(&ctl->lines, ret_line, ret_len);
        if (r == HALO_LINE_E_MORE)
            r = receive(ctl);
        else
            return r == 0 ? 0 : -EMSGSIZE;
        if (r < 0)
            return r;
    }
}
