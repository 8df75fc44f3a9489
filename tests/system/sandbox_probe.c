/* sandbox_probe.c: a library that tries what an engine in the hands of somebody else would try.
 *
 * The engine opens it in the place of a GPU's runtime (--hip-lib), on its device thread, so nothing of this is in the
 * product. It tries everything there and again on a thread of its own, and writes a line for each to stderr:
 * "probe THREAD GROUP NAME refused|reached ERROR". HALO_PROBE names the folder with the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *nobody[] = {NULL};

/* HALO_PROBE/name, in one of a few buffers. */
static const char *in(const char *name)
{
    static char paths[4][4096];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", getenv("HALO_PROBE"), name);
    return path;
}

static long closed(long fd)
{
    if (fd >= 0)
        close((int)fd);
    return fd;
}

static long opened(const char *path, int flags)
{
    return closed(open(path, flags | O_CLOEXEC, 0600));
}

static long ended(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return pid;
}

static void *nothing(void *ud)
{
    return ud;
}

static long made_thread(void)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, nothing, NULL);
    if (r == 0)
        pthread_join(thread, NULL);
    errno = r;
    return -r;
}

static void *wait_for_it(void *ud)
{
    pthread_barrier_wait(ud);
    return NULL;
}

/* The name of another thread is a file of it. */
static long named_thread(void)
{
    pthread_t thread;
    pthread_barrier_t end;
    pthread_barrier_init(&end, NULL, 2);
    int r = pthread_create(&thread, NULL, wait_for_it, &end);
    if (r == 0) {
        r = pthread_setname_np(thread, "probe");
        pthread_barrier_wait(&end);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&end);
    errno = r;
    return -r;
}

static long mapped_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? -1 : munmap(at, 4096);
}

static long made_pair(void)
{
    int fds[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 ? -1 : closed(fds[0]) + closed(fds[1]);
}

static long made_temporary(void)
{
    char path[4096];
    const char *where = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/probe-XXXXXX", where ? where : "/tmp");
    return mkdtemp(path) ? rmdir(path) : -1;
}

static void report(const char *thread, const char *group, const char *name, long result)
{
    int error = result < 0 ? errno : 0;
    bool refused = error == EPERM || error == EACCES || error == ENOSYS;
    fprintf(stderr, "probe %s %s %s %s %s\n", thread, group, name, refused ? "refused" : "reached",
            error ? strerrorname_np(error) : "0");
}

static void *try_all(void *ud)
{
    const char *thread = ud;
#define TRY(group, name, call) report(thread, #group, #name, (long)(call));
#include "sandbox_probe.def"
#undef TRY
    return NULL;
}

__attribute__((constructor)) static void probe(void)
{
    pthread_t thread;
    if (!getenv("HALO_PROBE"))
        return;
    try_all((void *)"device");
    if (pthread_create(&thread, NULL, try_all, (void *)"later") == 0)
        pthread_join(thread, NULL);
}
