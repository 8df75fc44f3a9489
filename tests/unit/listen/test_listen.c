/* test_listen.c: who gets the socket: stale files, live daemons, locks, path lengths, rights, passed sockets. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <listen/listen.h>

#define MODE 0640 /* not what umask leaves anyway */

static char dir[64], path[96], lock_path[104];

static int set_up(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/halo-listen-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
    return 0;
}

static int tear_down(void **state)
{
    unlink(path);
    unlink(lock_path);
    return rmdir(dir);
}

static int raw_socket(const char *at, bool listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", at);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    if (listening)
        assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static bool exists(const char *at)
{
    struct stat st;
    return lstat(at, &st) == 0;
}

static void opens_and_closes(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    struct stat st;
    mode_t before = umask(0);
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), 0);
    assert_int_equal(umask(before), 0); /* as it was */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, MODE);
    halo_listen_close(&self);
    assert_false(exists(path));
    halo_listen_close(&self);
    halo_listen_finish(&self);
    assert_true(exists(lock_path));
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), 0); /* and again */
    halo_listen_finish(&self);
}

static void replaces_stale(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    close(raw_socket(path, true)); /* a daemon that was killed leaves its file */
    assert_true(exists(path));
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), 0);
    halo_listen_finish(&self);
}

static void spares_live(void **state)
{
    struct halo_listen self, second;
    struct halo_fault fault = {0};
    char pid_text[32];
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), 0);
    int status;
    pid_t pid = fork(); /* flock() is per open file: another process, as in life */
    if (pid == 0) {
        snprintf(pid_text, sizeof(pid_text), "(pid %ld)", (long)getppid());
        int r = halo_listen_open(&second, path, MODE, &fault);
        _exit(r == -EINVAL && strstr(fault.text, pid_text) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(exists(path));
    halo_listen_finish(&self);
}

/* Somebody else's live socket, which knows nothing of our lock. */
static void spares_foreign(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    char pid_text[32];
    int fd = raw_socket(path, true);
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), -EINVAL);
    snprintf(pid_text, sizeof(pid_text), "(pid %ld)", (long)getpid());
    assert_non_null(strstr(fault.text, pid_text));
    assert_true(exists(path));
    close(fd);
}

static void spares_other_files(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(halo_listen_open(&self, path, MODE, &fault), -EINVAL);
    assert_non_null(strstr(fault.text, "not a socket"));
    assert_true(exists(path));
}

static void refuses_paths(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    char longer[160];
    memset(longer, 'x', sizeof(longer));
    longer[0] = '/';
    longer[108] = '\0';
    assert_int_equal(halo_listen_open(&self, longer, MODE, &fault), -EINVAL);
    assert_non_null(strstr(fault.text, "108 bytes"));
    assert_int_equal(halo_listen_open(&self, "", MODE, &fault), -EINVAL);
    assert_int_equal(halo_listen_open(&self, "/nonexistent/s", MODE, &fault), -ENOENT);
}

/* 107 bytes is the last length that works. */
static void takes_the_longest(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    char longest[128], lock[136];
    int n = snprintf(longest, sizeof(longest), "%s/", dir);
    memset(longest + n, 'y', 107 - (size_t)n);
    longest[107] = '\0';
    assert_int_equal(halo_listen_open(&self, longest, MODE, &fault), 0);
    assert_true(exists(longest));
    halo_listen_finish(&self);
    assert_false(exists(longest));
    snprintf(lock, sizeof(lock), "%s.lock", longest);
    unlink(lock);
}

static void adopts(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    int fd = raw_socket(path, true);
    assert_int_equal(halo_listen_adopt(&self, fd, &fault), 0);
    assert_string_equal(self.path, path);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    halo_listen_finish(&self);
    assert_true(exists(path)); /* not ours to remove */
    assert_false(exists(lock_path));
}

static void adopts_only_listeners(void **state)
{
    struct halo_listen self;
    struct halo_fault fault = {0};
    int fds[2], fd = raw_socket(path, false);
    assert_int_equal(halo_listen_adopt(&self, fd, &fault), -EINVAL);
    close(fd);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(halo_listen_adopt(&self, fds[0], &fault), -EINVAL);
    close(fds[0]);
    close(fds[1]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(opens_and_closes),      CASE(replaces_stale), CASE(spares_live),       CASE(spares_foreign),
        CASE(spares_other_files),    CASE(refuses_paths),  CASE(takes_the_longest), CASE(adopts),
        CASE(adopts_only_listeners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
