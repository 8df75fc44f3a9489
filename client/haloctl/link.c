/* link.c: haloctl's connection to the daemon: find the socket, send a request, hand out its events.
 *
 * Blocking writes, polled reads. An interrupt (SIGINT) becomes a `cancel` of the running request, so that the daemon
 * stops computing and the stream still ends with its terminal event.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <protocol/envelope.h>

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
    signal(SIGPIPE, SIG_IGN);
}

bool halo_ctl_interrupted(void)
{
    return interrupts > 0;
}
void halo_ctl_forget_interrupt(void)
{
    interrupts = 0;
}

/* Returns a connected socket or a negative errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) > HALO_LIMIT_SOCKET_PATH_BYTES)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

/* Tries one path; on failure adds the reason to what is said if none answers. */
static bool try_path(struct halo_ctl *ctl, const char *path, char *tried, size_t n_tried)
{
    int fd = connect_to(path);
    if (fd >= 0) {
        ctl->fd = fd;
        halo_line_init(&ctl->lines, HALO_CTL_LINE_BYTES);
        return true;
    }
    size_t used = strlen(tried);
    snprintf(tried + used, n_tried - used, "%s%s: %s", used ? "; " : "", path, strerror(-fd));
    return false;
}

int halo_ctl_connect(struct halo_ctl *ctl)
{
    if (ctl->fd >= 0)
        return HALO_CTL_OK;
    char tried[1024] = "";
    const char *given = ctl->socket_path ? ctl->socket_path : getenv("HALO_SOCKET");
    if (given && *given) {
        if (try_path(ctl, given, tried, sizeof tried))
            return HALO_CTL_OK;
    } else {
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        char path[512];
        if (runtime && *runtime && snprintf(path, sizeof path, "%s/halod/halod.sock", runtime) < (int)sizeof path &&
            try_path(ctl, path, tried, sizeof tried))
            return HALO_CTL_OK;
        if (try_path(ctl, "/run/halod/halod.sock", tried, sizeof tried))
            return HALO_CTL_OK;
    }
    fprintf(stderr, "haloctl: no daemon answers (%s); is halod running? (--socket PATH or HALO_SOCKET name another)\n",
            tried);
    return HALO_CTL_NO_DAEMON;
}

void halo_ctl_disconnect(struct halo_ctl *ctl)
{
    if (ctl->fd >= 0) {
        close(ctl->fd);
        halo_line_finish(&ctl->lines);
    }
    ctl->fd = -1;
}

int halo_ctl_write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

static int send_message(struct halo_ctl *ctl, const struct halo_msg *msg)
{
    halo_json_reset(&ctl->out);
    int r = halo_msg_encode(&ctl->out, msg);
    if (r < 0)
        return r;
    return halo_ctl_write_all(ctl->fd, ctl->out.at, ctl->out.len);
}

static void send_cancel(struct halo_ctl *ctl, const struct halo_id *target)
{
    struct halo_msg cancel;
    halo_msg_init(&cancel, HALO_MSG_CANCEL);
    cancel.id = halo_id_of(++ctl->next_id);
    cancel.cancel.target = *target;
    send_message(ctl, &cancel);
}

int halo_ctl_exit_of(enum halo_error code)
{
    switch (code) {
    case HALO_ERROR_LOAD_FAILED:
    case HALO_ERROR_DEADLINE:
    case HALO_ERROR_CLIENT_STALLED:
    case HALO_ERROR_ENGINE_LOST:
    case HALO_ERROR_DEVICE_HANG:
    case HALO_ERROR_DEVICE_FAULT:
    case HALO_ERROR_INTERNAL:
    case HALO_ERROR_UNKNOWN: return HALO_CTL_FAILED;
    default: return HALO_CTL_REFUSED;
    }
}

/* One line from the daemon. *ret_exit is set and true returned when it ended the request. */
static bool take_line(struct halo_ctl *ctl, const struct halo_id *id, const char *line, size_t n,
                      halo_ctl_event_fn on_event, void *ud, int *ret_exit)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    int r = halo_ev_decode(&ev, line, n, 0, &refusal);
    if (r != 0) {
        /* A type that only a newer daemon knows is no reason to lose the stream. */
        if (refusal.code == HALO_ERROR_UNKNOWN_TYPE)
            return false;
        fprintf(stderr, "haloctl: the daemon sent a line that is no event: %s\n", refusal.message);
        *ret_exit = HALO_CTL_FAILED;
        return true;
    }
    bool ours = halo_id_equal(&ev.id, id);
    /* An error without an id can only be about our line: the daemon could not read it. */
    bool ended = (ours && halo_ev_is_terminal(ev.type)) || (ev.type == HALO_EV_ERROR && ev.id.kind == HALO_ID_NONE);
    if (ours || ended) {
        if (ctl->json) {
            fwrite(line, 1, n, stdout);
            putchar('\n');
            fflush(stdout);
        }
        if (ev.type == HALO_EV_ERROR) {
            halo_ctl_progress_clear(ctl);
            if (!ctl->json)
                fprintf(stderr, "haloctl: %s: %.*s\n", halo_error_name(ev.error.code), (int)ev.error.message.len,
                        ev.error.message.at);
            *ret_exit = halo_ctl_exit_of(ev.error.code);
        } else if (on_event) {
            on_event(ctl, &ev, ud);
        }
    }
    halo_ev_finish(&ev);
    return ended;
}

/* Waits for bytes and feeds them. 0, 1 at an interrupt, negative when the connection is gone. */
static int receive(struct halo_ctl *ctl)
{
    struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};
    if (poll(&wait, 1, -1) < 0)
        return errno == EINTR ? 1 : -errno;
    char *at;
    size_t room;
    int r = halo_line_reserve(&ctl->lines, 64 * 1024, &at, &room);
    if (r < 0)
        return r;
    ssize_t n = read(ctl->fd, at, room);
    if (n < 0)
        return errno == EINTR ? 1 : -errno;
    if (n == 0)
        return -ECONNRESET;
    halo_line_commit(&ctl->lines, (size_t)n);
    return 0;
}

int halo_ctl_run(struct halo_ctl *ctl, struct halo_msg *msg, halo_ctl_event_fn on_event, void *ud)
{
    int status = halo_ctl_connect(ctl);
    if (status != HALO_CTL_OK)
        return status;
    msg->id = halo_id_of(++ctl->next_id);
    int r = send_message(ctl, msg);
    bool cancelled = false;
    while (r >= 0) {
        const char *line;
        size_t n;
        while (halo_line_next(&ctl->lines, &line, &n) == 0)
            if (take_line(ctl, &msg->id, line, n, on_event, ud, &status)) {
                halo_ctl_progress_clear(ctl);
                return cancelled ? HALO_CTL_INTERRUPTED : status;
            }
        if (interrupts > (cancelled ? 1 : 0)) {
            halo_ctl_progress_clear(ctl);
            if (cancelled || msg->type != HALO_MSG_GENERATE) {
                if (msg->type == HALO_MSG_LOAD)
                    fprintf(stderr, "haloctl: interrupted; the load goes on in the daemon\n");
                return HALO_CTL_INTERRUPTED;
            }
            send_cancel(ctl, &msg->id);
            cancelled = true;
        }
        r = receive(ctl);
    }
    halo_ctl_progress_clear(ctl);
    fprintf(stderr, "haloctl: the connection to the daemon broke: %s\n", strerror(-r));
    halo_ctl_disconnect(ctl);
    return HALO_CTL_NO_DAEMON;
}
