/* supervisor.c: listens, checks who connects, starts a child for each connection, ends with all of them.
 *
 * A child is a fresh program: HIP does not survive a fork. It is killed when the supervisor dies (PR_SET_PDEATHSIG),
 * and its own death frees what it held. One thread.
 */
#include "supervisor_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <base/clock.h>
#include <base/log.h>
#include <listen/listen.h>

#include "secure_priv.h"
#include "store_priv.h"
#include "strangers_priv.h"
#include "tcp_priv.h"

#define SESSION_FD 3
#define FIRST_FREE_FD 8 /* above the descriptors that a child is given */
#define SOCKET_MODE 0600

struct supervisor {
    const struct halo_worker_options *options;
    char **child_argv; /* of this process, with --session */
    struct halo_listen unix_socket;
    int tcp_fd, signal_fd;
    int known[2]; /* a pipe: children whose client has the key write their process ids */
    struct halo_strangers strangers;
    sigset_t signals_before;
    pid_t *children; /* [n_sessions] */
    uint32_t n_children;
};

/* ---- children ---- */

/* In the child, between fork and exec. */
static _Noreturn void become_session(const struct supervisor *s, int fd, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, &s->signals_before, NULL);
    int session = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    int known = fcntl(s->known[1], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (session < 0 || known < 0 || dup2(session, SESSION_FD) < 0 || dup2(known, HALO_SECURE_KNOWN_FD) < 0)
        _exit(1);
    execv("/proc/self/exe", s->child_argv);
    _exit(127);
}

/* `from`: NULL for a client whose user is known already. */
static void start_session(struct supervisor *s, int fd, const struct sockaddr_storage *from, const char *name)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become_session(s, fd, parent);
    if (pid < 0) {
        halo_log(HALO_LOG_ERROR, "cannot start a session: %s", strerror(errno));
        return;
    }
    s->children[s->n_children++] = pid;
    if (from)
        halo_strangers_enter(&s->strangers, from, pid);
    halo_log(HALO_LOG_INFO, "session %d begins (%u of %u), from %s", (int)pid, s->n_children, s->options->n_sessions,
             name);
}

static void hear_of_known(struct supervisor *s)
{
    int32_t pid;
    while (read(s->known[0], &pid, sizeof(pid)) == (ssize_t)sizeof(pid))
        halo_strangers_prove(&s->strangers, pid);
}

static void reap(struct supervisor *s)
{
    int status;
    hear_of_known(s); /* before its writer is taken for a stranger that left */
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (uint32_t i = 0; i < s->n_children; i++)
            if (s->children[i] == pid)
                s->children[i] = s->children[--s->n_children];
        halo_strangers_leave(&s->strangers, pid, halo_clock_ms());
        if (WIFSIGNALED(status))
            halo_log(HALO_LOG_WARN, "session %d was killed by signal %d", (int)pid, WTERMSIG(status));
    }
}

static void kill_all(struct supervisor *s)
{
    for (uint32_t i = 0; i < s->n_children; i++)
        kill(s->children[i], SIGKILL);
    for (uint32_t i = 0; i < s->n_children; i++)
        waitpid(s->children[i], NULL, 0);
    s->n_children = 0;
}

/* ---- connections ---- */

static int peer_uid(int fd, bool is_tcp, uid_t *ret)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    if (is_tcp)
        return halo_tcp_peer_uid(fd, ret);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        return -errno;
    *ret = peer.uid;
    return 0;
}

static void refuse(const char *name, const char *why)
{
    halo_log(HALO_LOG_WARN, "refused a connection from %s: %s", name, why);
}

/* Who may use the GPU without a key: this user, and root, who can anyway. */
static bool is_own(int fd, bool is_tcp, const char *name)
{
    uid_t uid;
    int r = peer_uid(fd, is_tcp, &uid);
    if (r == 0 && (uid == geteuid() || uid == 0))
        return true;
    if (r < 0)
        halo_log(HALO_LOG_WARN, "refused a connection from %s: cannot tell whose it is: %s", name, strerror(-r));
    else
        halo_log(HALO_LOG_WARN, "refused a connection of user %u: this worker serves user %u", (unsigned)uid,
                 (unsigned)geteuid());
    return false;
}

/* Whether a connection of the network may try to prove the key. */
static bool may_try(const struct supervisor *s, const struct sockaddr_storage *from, const char *name)
{
    int r = halo_strangers_ask(&s->strangers, from, halo_clock_ms());
    if (r == HALO_STRANGERS_E_WAIT)
        refuse(name, "the last client from there failed to prove the key; the next one has to wait");
    else if (r == HALO_STRANGERS_E_FULL)
        refuse(name, "too many other clients have not proved the key yet");
    return r == 0;
}

static void take_connection(struct supervisor *s, int fd, bool is_tcp, const struct sockaddr_storage *from)
{
    char name[96] = "this machine";
    bool needs_key = is_tcp && s->options->key_file;
    if (is_tcp)
        halo_tcp_name(from, name, sizeof(name));
    if (needs_key ? !may_try(s, from, name) : !is_own(fd, is_tcp, name))
        return;
    if (s->n_children == s->options->n_sessions)
        halo_log(HALO_LOG_WARN, "refused a connection: all %u sessions are in use (--max-sessions)", s->n_children);
    else
        start_session(s, fd, needs_key ? from : NULL, name);
}

static void take_connections(struct supervisor *s, int listening, bool is_tcp)
{
    struct sockaddr_storage from = {0};
    socklen_t n = sizeof(from);
    int fd;
    while ((fd = accept4(listening, (struct sockaddr *)&from, &n, SOCK_CLOEXEC)) >= 0) {
        reap(s);
        take_connection(s, fd, is_tcp, &from);
        close(fd);
        n = sizeof(from);
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        halo_log(HALO_LOG_ERROR, "cannot accept a connection: %s", strerror(errno));
        poll(NULL, 0, 100); /* it is still there; not in a busy loop */
    }
}

/* ---- lifecycle ---- */

/* A key that cannot be used is found now, not with the first client. */
static int check_key(const struct supervisor *s, struct halo_fault *fault)
{
    struct halo_remote_key key;
    int r = s->options->key_file ? halo_secure_read_key(s->options->key_file, &key, fault) : 0;
    halo_remote_key_forget(&key);
    return r;
}

/* The same for the folder of blobs. */
static int check_blobs(const struct supervisor *s, struct halo_fault *fault)
{
    char path[PATH_MAX];
    return s->options->blobs ? halo_blob_folder_make(s->options->blobs, "user", path, sizeof(path), fault) : 0;
}

static int listen_tcp(struct supervisor *s, struct halo_fault *fault)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof(address);
    char name[96];
    s->tcp_fd = halo_tcp_listen(s->options->listen, s->options->key_file, fault);
    if (s->tcp_fd < 0)
        return s->tcp_fd;
    (void)getsockname(s->tcp_fd, (struct sockaddr *)&address, &n);
    halo_tcp_name(&address, name, sizeof(name));
    halo_log(HALO_LOG_INFO, "listening on %s", name);
    return 0;
}

static int open_sockets(struct supervisor *s, struct halo_fault *fault)
{
    if (s->options->socket[0]) {
        int r = halo_listen_open(&s->unix_socket, s->options->socket, SOCKET_MODE, fault);
        if (r < 0)
            return r;
        halo_log(HALO_LOG_INFO, "listening on %s", s->options->socket);
    }
    return s->options->listen ? listen_tcp(s, fault) : 0;
}

static int take_signals(struct supervisor *s, struct halo_fault *fault)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigprocmask(SIG_BLOCK, &mask, &s->signals_before);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot take signals") : 0;
}

/* False: it is time to end. */
static bool take_signal(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            return false;
    reap(s);
    return true;
}

static void serve(struct supervisor *s)
{
    for (;;) {
        struct pollfd states[] = {{.fd = s->signal_fd, .events = POLLIN},
                                  {.fd = s->unix_socket.fd, .events = POLLIN},
                                  {.fd = s->tcp_fd, .events = POLLIN},
                                  {.fd = s->known[0], .events = POLLIN}};
        if (poll(states, 4, -1) < 0)
            continue;
        if (states[0].revents && !take_signal(s))
            return;
        if (states[3].revents)
            hear_of_known(s);
        if (states[1].revents)
            take_connections(s, s->unix_socket.fd, false);
        if (states[2].revents)
            take_connections(s, s->tcp_fd, true);
    }
}

int halo_supervisor_run(const struct halo_worker_options *options, int argc, char **argv, struct halo_fault *fault)
{
    static char flag[] = "--session", value[] = "3";
    struct supervisor s = {
        .options = options,
        .child_argv = calloc((size_t)argc + 3, sizeof(*s.child_argv)),
        .unix_socket = {.fd = -1, .lock_fd = -1},
        .tcp_fd = -1,
        .signal_fd = -1,
        .known = {-1, -1},
        .children = calloc(options->n_sessions, sizeof(*s.children)),
    };
    int r = s.child_argv && s.children ? 0 : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory");
    if (r == 0) {
        memcpy(s.child_argv, argv, (size_t)argc * sizeof(*argv));
        s.child_argv[argc] = flag;
        s.child_argv[argc + 1] = value;
        r = check_key(&s, fault);
    }
    if (r == 0)
        r = check_blobs(&s, fault);
    if (r == 0)
        r = take_signals(&s, fault);
    if (r == 0 && pipe2(s.known, O_CLOEXEC | O_NONBLOCK) < 0)
        r = halo_fault_errno(fault, HALO_FAULT_INTERNAL, -errno, "cannot make a pipe");
    if (r == 0)
        r = open_sockets(&s, fault);
    if (r == 0)
        serve(&s);
    kill_all(&s);
    halo_listen_finish(&s.unix_socket);
    const int rest[] = {s.tcp_fd, s.signal_fd, s.known[0], s.known[1]};
    for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
        if (rest[i] >= 0)
            close(rest[i]);
    free(s.child_argv);
    free(s.children);
    return r;
}
