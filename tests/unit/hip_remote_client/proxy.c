/* proxy.c: passes bytes on, up to a fault. */
#include "proxy.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define PIECE 4096

static struct sockaddr_un address(const char *path)
{
    struct sockaddr_un ret = {.sun_family = AF_UNIX};
    memcpy(ret.sun_path, path, strlen(path) + 1); /* those of this file are short */
    return ret;
}

/* ---- in its process ---- */

static bool send_all(int fd, const uint8_t *at, size_t n, size_t piece)
{
    while (n > 0) {
        ssize_t sent = send(fd, at, n < piece ? n : piece, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* False: the connection ends. */
static bool pass(const struct proxy_rule *rule, int way, int from, int to, size_t *n_passed)
{
    uint8_t bytes[PIECE];
    bool is_hit = rule->fault != PROXY_PASS && rule->way == way;
    size_t room = is_hit && rule->at - *n_passed < sizeof(bytes) ? rule->at - *n_passed : sizeof(bytes);
    bool is_over = is_hit && room == 0; /* what comes now is lost */
    ssize_t n = recv(from, bytes, is_over ? sizeof(bytes) : room, 0);
    if (n <= 0)
        return false;
    if (is_over)
        return true;
    usleep(rule->delay_us);
    if (!send_all(to, bytes, (size_t)n, rule->trickles ? 1 : PIECE))
        return false;
    *n_passed += (size_t)n;
    return !(is_hit && rule->fault == PROXY_CUT && *n_passed == rule->at);
}

static _Noreturn void run(int listening, const char *worker_path, const struct proxy_rule *rule, size_t *n_passed)
{
    int near = accept(listening, NULL, NULL), far = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un worker = address(worker_path);
    if (near < 0 || connect(far, (struct sockaddr *)&worker, sizeof(worker)) != 0)
        _exit(1);
    const int ends[PROXY_WAYS] = {near, far};
    bool goes_on = !(rule->fault == PROXY_CUT && rule->at == 0);
    while (goes_on) {
        struct pollfd states[PROXY_WAYS];
        for (int way = 0; way < PROXY_WAYS; way++) {
            bool stalls = rule->fault == PROXY_STALL && rule->way == way && n_passed[way] == rule->at;
            states[way] = (struct pollfd){.fd = ends[way], .events = stalls ? POLLRDHUP : POLLIN};
        }
        if (poll(states, PROXY_WAYS, -1) < 0)
            _exit(1);
        for (int way = 0; way < PROXY_WAYS && goes_on; way++) {
            if (states[way].events == POLLRDHUP && states[way].revents)
                goes_on = false;
            else if (states[way].revents)
                goes_on = pass(rule, way, ends[way], ends[!way], &n_passed[way]);
        }
    }
    _exit(0);
}

/* ---- in the test's ---- */

void proxy_start(struct proxy *p, const char *folder, const struct proxy_rule *rule)
{
    char worker_path[96];
    snprintf(p->path, sizeof(p->path), "%s/p", folder);
    snprintf(worker_path, sizeof(worker_path), "%s/s", folder);
    struct sockaddr_un own = address(p->path);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    p->n_passed = mmap(NULL, PROXY_WAYS * sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p->n_passed != MAP_FAILED);
    unlink(p->path);
    assert_int_equal(bind(listening, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(listen(listening, 1), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(listening, worker_path, rule, p->n_passed);
    }
    close(listening);
}

void proxy_wait(struct proxy *p)
{
    int status;
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(p->path);
}
