/* test_mailbox.c: many senders, one receiver; nothing lost, order kept for each sender, nobody asleep beside a full
 * box. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>
#include <base/mailbox.h>

enum { SENDERS = 8, MAILS = 5000 };

struct letter {
    struct halo_mail mail; /* first: the mail is the letter */
    unsigned sender, number;
};

struct sender {
    struct halo_mailbox *box;
    struct letter *letters;
    pthread_t thread;
    unsigned id;
    unsigned n_posted;
};

static void *send_all(void *ud)
{
    struct sender *s = ud;
    for (unsigned i = 0; i < MAILS; i++) {
        s->letters[i] = (struct letter){.sender = s->id, .number = i};
        if (!halo_mailbox_post(s->box, &s->letters[i].mail))
            break;
        s->n_posted++;
        if (i % 997 == 0)
            usleep(100);
    }
    return NULL;
}

static void senders_start(struct sender *senders, struct halo_mailbox *box)
{
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.box = box, .letters = calloc(MAILS, sizeof(struct letter)), .id = i};
        assert_non_null(senders[i].letters);
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]), 0);
    }
}

static unsigned senders_join(struct sender *senders)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
        n += senders[i].n_posted;
        free(senders[i].letters);
    }
    return n;
}

static unsigned count(struct halo_mail *mail, unsigned next[SENDERS])
{
    unsigned n = 0;
    for (; mail; mail = mail->next, n++) {
        const struct letter *letter = (const struct letter *)mail;
        assert_int_equal(letter->number, next[letter->sender]);
        next[letter->sender]++;
    }
    return n;
}

static void test_many_senders_by_wait(void **state)
{
    struct halo_mailbox box;
    struct sender senders[SENDERS];
    unsigned next[SENDERS] = {0}, n = 0;
    assert_int_equal(halo_mailbox_init(&box, false), 0);
    senders_start(senders, &box);
    while (n < SENDERS * MAILS) {
        struct halo_mail *mail = halo_mailbox_wait(&box, 10000000);
        assert_non_null(mail); /* ten seconds: a wake-up was lost */
        n += count(mail, next);
    }
    assert_int_equal(senders_join(senders), n);
    assert_null(halo_mailbox_drain(&box));
    halo_mailbox_finish(&box);
}

static void test_many_senders_by_poll(void **state)
{
    struct halo_mailbox box;
    struct sender senders[SENDERS];
    unsigned next[SENDERS] = {0}, n = 0;
    assert_int_equal(halo_mailbox_init(&box, true), 0);
    assert_true(box.event_fd >= 0);
    senders_start(senders, &box);
    while (n < SENDERS * MAILS) {
        struct pollfd fd = {box.event_fd, POLLIN, 0};
        assert_int_equal(poll(&fd, 1, 10000), 1);
        struct halo_mail *mail = halo_mailbox_drain(&box);
        assert_non_null(mail); /* the descriptor speaks only while mail waits */
        n += count(mail, next);
    }
    struct pollfd fd = {box.event_fd, POLLIN, 0};
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(senders_join(senders), n);
    halo_mailbox_finish(&box);
}

static void test_timeout(void **state)
{
    struct halo_mailbox box;
    assert_int_equal(halo_mailbox_init(&box, false), 0);
    uint64_t before = halo_clock_us();
    assert_null(halo_mailbox_wait(&box, 30000));
    uint64_t waited = halo_clock_us() - before;
    assert_true(waited >= 30000 && waited < 10000000);
    assert_null(halo_mailbox_wait(&box, 0));
    struct letter letter = {0};
    assert_true(halo_mailbox_post(&box, &letter.mail));
    assert_ptr_equal(halo_mailbox_wait(&box, UINT64_MAX), &letter.mail);
    assert_true(halo_mailbox_post(&box, &letter.mail));
    assert_ptr_equal(halo_mailbox_wait(&box, UINT64_MAX - 1), &letter.mail); /* must not wrap */
    halo_mailbox_finish(&box);
}

static void *close_soon(void *ud)
{
    usleep(20000);
    halo_mailbox_close(ud);
    return NULL;
}

static void test_close(void **state)
{
    struct halo_mailbox box;
    struct letter letters[2] = {{.number = 0}, {.number = 1}};
    assert_int_equal(halo_mailbox_init(&box, true), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_soon, &box), 0);
    assert_null(halo_mailbox_wait(&box, UINT64_MAX)); /* woken by the close */
    pthread_join(thread, NULL);
    assert_true(halo_mailbox_is_closed(&box));
    assert_false(halo_mailbox_post(&box, &letters[0].mail));
    assert_null(halo_mailbox_wait(&box, UINT64_MAX)); /* and never again asleep */
    halo_mailbox_close(&box);
    halo_mailbox_finish(&box);

    assert_int_equal(halo_mailbox_init(&box, true), 0);
    assert_true(halo_mailbox_post(&box, &letters[0].mail));
    assert_true(halo_mailbox_post(&box, &letters[1].mail));
    halo_mailbox_close(&box); /* what was in it stays */
    struct halo_mail *mail = halo_mailbox_drain(&box);
    assert_ptr_equal(mail, &letters[0].mail);
    assert_ptr_equal(mail->next, &letters[1].mail);
    assert_null(mail->next->next);
    halo_mailbox_finish(&box);
}

static void test_close_during_posts(void **state)
{
    struct halo_mailbox box;
    struct sender senders[SENDERS];
    unsigned next[SENDERS] = {0}, n = 0;
    assert_int_equal(halo_mailbox_init(&box, false), 0);
    senders_start(senders, &box);
    while (n < MAILS)
        n += count(halo_mailbox_wait(&box, 1000000), next);
    halo_mailbox_close(&box);
    n += count(halo_mailbox_drain(&box), next); /* after close nothing can follow */
    assert_int_equal(senders_join(senders), n);
    assert_null(halo_mailbox_drain(&box));
    halo_mailbox_finish(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_senders_by_wait),
        cmocka_unit_test(test_many_senders_by_poll),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_during_posts),
    };
    return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
