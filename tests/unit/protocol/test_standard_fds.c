/* test_standard_fds.c: a program that starts with closed standard streams does not reuse their numbers. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <protocol/standard_fds.h>

/* In a child: closes what `mask` names. Its exit status: 0, or the number of what was wrong. */
static int child_with_closed(int mask)
{
    char byte;
    for (int fd = 0; fd < 3; fd++)
        if (mask & 1 << fd)
            close(fd);
    if (halo_standard_fds_open() != mask)
        return 1;
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) != 0) /* open, and inherited by children */
            return 2;
        if (mask & 1 << fd && (write(fd, "x", 1) != -1 || errno != EBADF || read(fd, &byte, 1) != 0))
            return 3;
    }
    if (open("/dev/null", O_RDONLY) < 3)
        return 4;
    return halo_standard_fds_open() == 0 ? 0 : 5;
}

static void every_combination(void **state)
{
    for (int mask = 0; mask < 8; mask++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child_with_closed(mask));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
