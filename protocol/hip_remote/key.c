/* key.c: reads a key's file and checks who else can read it. POSIX only. */
#include <hip_remote/key.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS (2 * (size_t)HALO_REMOTE_KEY_BYTES)

static void wipe(void *at, size_t n)
{
    for (volatile uint8_t *byte = at; n > 0; n--)
        *byte++ = 0;
}

void halo_remote_key_forget(struct halo_remote_key *key)
{
    wipe(key, sizeof(*key));
}

/* The negative errno. */
static int say_errno(char *reason, size_t reason_size)
{
    int error = errno;
    snprintf(reason, reason_size, "%s", strerror(error));
    return -error;
}

/* 0 or a negative errno. */
static int check_file(int fd, char *reason, size_t reason_size)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return say_errno(reason, reason_size);
    if (!S_ISREG(st.st_mode)) {
        snprintf(reason, reason_size, "not a regular file");
        return -EINVAL;
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        snprintf(reason, reason_size, "it belongs to user %u, not to user %u", (unsigned)st.st_uid,
                 (unsigned)geteuid());
        return -EPERM;
    }
    if (st.st_mode & 077) {
        snprintf(reason, reason_size, "its mode %04o gives rights to others; use chmod 600",
                 (unsigned)(st.st_mode & 07777));
        return -EPERM;
    }
    return 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool parse(const char *text, size_t n, struct halo_remote_key *ret)
{
    if (n == DIGITS + 1 && text[DIGITS] == '\n')
        n--;
    if (n != DIGITS)
        return false;
    for (size_t i = 0; i < HALO_REMOTE_KEY_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

int halo_remote_key_read(const char *path, struct halo_remote_key *ret, char *reason, size_t reason_size)
{
    char text[DIGITS + 2]; /* a byte more than a key may have */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return say_errno(reason, reason_size);
    int r = check_file(fd, reason, reason_size);
    ssize_t n = r == 0 ? read(fd, text, sizeof(text)) : 0;
    if (r == 0 && n < 0) {
        r = say_errno(reason, reason_size);
    } else if (r == 0 && !parse(text, (size_t)n, ret)) {
        r = -EINVAL;
        snprintf(reason, reason_size, "it does not hold 64 hexadecimal digits alone");
    }
    wipe(text, sizeof(text));
    close(fd);
    if (r < 0)
        halo_remote_key_forget(ret);
    return r;
}
