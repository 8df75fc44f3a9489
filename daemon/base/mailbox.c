/* mailbox.c: the one way from thread to thread.
 *
 * Any number of senders, one receiver. Owns the eventfd. Mail belongs to the box between post and drain. The eventfd is
 * written and cleared under the lock: so it is readable exactly while mail waits (or the box was closed since the last
 * drain), and no sender can touch it after finish. init fails with the errno of eventfd or of the pthread calls.
 */
#include <base/mailbox.h>

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int halo_mailbox_init(struct halo_mailbox *box, bool with_fd)
{
    *box = (struct halo_mailbox){.event_fd = -1};
    box->last = &box->first;
    pthread_condattr_t attr;
    int r = pthread_condattr_init(&attr);
    if (r)
        return -r;
    r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!r)
        r = pthread_cond_init(&box->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (r)
        return -r;
    r = pthread_mutex_init(&box->lock, NULL);
    if (r) {
        pthread_cond_destroy(&box->wake);
        return -r;
    }
    if (with_fd) {
        box->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (box->event_fd < 0) {
            r = errno;
            halo_mailbox_finish(box);
            return -r;
        }
    }
    return 0;
}

void halo_mailbox_finish(struct halo_mailbox *box)
{
    assert(!box->first);
    if (box->event_fd >= 0)
        close(box->event_fd);
    box->event_fd = -1;
    pthread_cond_destroy(&box->wake);
    pthread_mutex_destroy(&box->lock);
}

/* Both with the lock held. The counter never comes near its end, and a counter of 0 gives EAGAIN: neither can block or
 * matter. */
static void box_ring(struct halo_mailbox *box)
{
    pthread_cond_signal(&box->wake);
    if (box->event_fd >= 0)
        (void)!eventfd_write(box->event_fd, 1);
}

static struct halo_mail *box_take(struct halo_mailbox *box)
{
    struct halo_mail *mail = box->first;
    box->first = NULL;
    box->last = &box->first;
    eventfd_t count;
    if (box->event_fd >= 0)
        (void)!eventfd_read(box->event_fd, &count);
    return mail;
}

bool halo_mailbox_post(struct halo_mailbox *box, struct halo_mail *mail)
{
    pthread_mutex_lock(&box->lock);
    bool open = !box->closed;
    if (open) {
        bool was_empty = !box->first;
        mail->next = NULL;
        *box->last = mail;
        box->last = &mail->next;
        if (was_empty)
            box_ring(box);
    }
    pthread_mutex_unlock(&box->lock);
    return open;
}

struct halo_mail *halo_mailbox_drain(struct halo_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    struct halo_mail *mail = box_take(box);
    pthread_mutex_unlock(&box->lock);
    return mail;
}

static struct timespec deadline_after(uint64_t timeout_us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t year_us = (uint64_t)365 * 86400 * 1000000;
    uint64_t us = timeout_us < year_us ? timeout_us : year_us;
    uint64_t ns = (uint64_t)at.tv_nsec + us % 1000000 * 1000;
    at.tv_sec += (time_t)(us / 1000000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

struct halo_mail *halo_mailbox_wait(struct halo_mailbox *box, uint64_t timeout_us)
{
    struct timespec deadline = {0};
    if (timeout_us != UINT64_MAX)
        deadline = deadline_after(timeout_us);
    pthread_mutex_lock(&box->lock);
    int r = 0;
    while (!box->first && !box->closed && r == 0)
        r = timeout_us == UINT64_MAX ? pthread_cond_wait(&box->wake, &box->lock)
                                     : pthread_cond_timedwait(&box->wake, &box->lock, &deadline);
    assert(r == 0 || r == ETIMEDOUT);
    struct halo_mail *mail = box_take(box);
    pthread_mutex_unlock(&box->lock);
    return mail;
}

void halo_mailbox_close(struct halo_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    if (!box->closed) {
        box->closed = true;
        box_ring(box);
    }
    pthread_mutex_unlock(&box->lock);
}

bool halo_mailbox_is_closed(struct halo_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    bool closed = box->closed;
    pthread_mutex_unlock(&box->lock);
    return closed;
}
