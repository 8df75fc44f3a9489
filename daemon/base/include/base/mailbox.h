/* mailbox.h: how objects pass from thread to thread.
 *
 * An intrusive list under a mutex. post() wakes the receiver only when the box was empty; drain() takes the whole list,
 * to be walked outside the lock. Any number of senders, one receiver. A box can also be bound to an eventfd, so that a
 * poll loop can wait on it together with files.
 */
#ifndef HALO_BASE_MAILBOX_H
#define HALO_BASE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct halo_mail {
    struct halo_mail *next; /* owned by the box while posted */
};

struct halo_mailbox {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct halo_mail *first;
    struct halo_mail **last;
    int event_fd; /* -1, or an eventfd that is written on empty -> non-empty */
    bool closed;
};

/* with_fd: makes an eventfd. Returns 0 or a negative errno. */
int halo_mailbox_init(struct halo_mailbox *box, bool with_fd);
void halo_mailbox_finish(struct halo_mailbox *box); /* the box must be empty */

/* Returns false when the box is closed; the mail then stays the caller's. */
bool halo_mailbox_post(struct halo_mailbox *box, struct halo_mail *mail);

/* Takes all mail in order of posting (NULL: none). Also clears the eventfd. */
struct halo_mail *halo_mailbox_drain(struct halo_mailbox *box);

/* Waits up to timeout_us (UINT64_MAX: for ever) for mail or for close(), then drains. */
struct halo_mail *halo_mailbox_wait(struct halo_mailbox *box, uint64_t timeout_us);

/* No more posts; wakes the receiver. What is already in the box stays to be drained. */
void halo_mailbox_close(struct halo_mailbox *box);
bool halo_mailbox_is_closed(struct halo_mailbox *box);

#endif
