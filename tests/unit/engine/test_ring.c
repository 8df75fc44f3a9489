/* test_ring.c: the event ring: order, wrapping, refusal when full, and two threads. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/ring.h>

static void refuses_when_full_and_goes_on_when_read(void **state)
{
    struct halo_ring ring;
    assert_int_equal(halo_ring_init(&ring, 1), 0);
    int64_t pushed = 0, popped = 0;
    for (int round = 0; round < 10000; round++) {
        uint32_t n_text = (uint32_t)(round * 7919 % 700);
        struct halo_ring_event *event = halo_ring_reserve(&ring, HALO_RING_TEXT, 0, n_text);
        if (event) {
            event->a = pushed++;
            memset(event + 1, (int)(event->a & 0x7f), n_text);
            halo_ring_push(&ring);
            continue;
        }
        assert_true(halo_ring_room(&ring) < 2 * halo_ring_bytes(0, n_text)); /* refused for want of room, not for fun */
        const struct halo_ring_event *old = halo_ring_peek(&ring);
        assert_non_null(old);
        assert_int_equal(old->a, popped++);
        for (uint32_t i = 0; i < old->n_text; i++)
            assert_int_equal(halo_ring_text(old)[i], old->a & 0x7f);
        halo_ring_pop(&ring);
    }
    assert_true(pushed > 1000);
    for (const struct halo_ring_event *old; (old = halo_ring_peek(&ring)); halo_ring_pop(&ring))
        assert_int_equal(old->a, popped++);
    assert_int_equal(pushed, popped);
    assert_int_equal(halo_ring_room(&ring), ring.capacity);
    halo_ring_finish(&ring);
}

static void a_record_larger_than_the_ring_is_refused(void **state)
{
    struct halo_ring ring;
    assert_int_equal(halo_ring_init(&ring, 4096), 0);
    assert_null(halo_ring_reserve(&ring, HALO_RING_TEXT, 0, 5000));
    assert_non_null(halo_ring_reserve(&ring, HALO_RING_TEXT, 0, 3000));
    halo_ring_finish(&ring);
    assert_true(halo_ring_init(&ring, (size_t)1 << 40) < 0);
}

#define N_EVENTS 200000

static void *write_events(void *ud)
{
    struct halo_ring *ring = ud;
    for (int64_t i = 0; i < N_EVENTS;) {
        uint32_t n_top = (uint32_t)(i % 5);
        struct halo_ring_event *event = halo_ring_reserve(ring, HALO_RING_COMMITTED, n_top, 0);
        if (!event) {
            sched_yield();
            continue;
        }
        event->a = i++;
        struct halo_ring_top *tops = (struct halo_ring_top *)(event + 1);
        for (uint32_t t = 0; t < n_top; t++)
            tops[t] = (struct halo_ring_top){(int32_t)(i + t), (double)i};
        halo_ring_push(ring);
    }
    return NULL;
}

static void two_threads_see_every_record_once(void **state)
{
    struct halo_ring ring;
    pthread_t writer;
    assert_int_equal(halo_ring_init(&ring, 4096), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_events, &ring), 0);
    for (int64_t i = 0; i < N_EVENTS;) {
        const struct halo_ring_event *event = halo_ring_peek(&ring);
        if (!event) {
            sched_yield();
            continue;
        }
        assert_int_equal(event->a, i++);
        for (uint32_t t = 0; t < event->n_top; t++)
            assert_int_equal(halo_ring_tops(event)[t].tok_id, i + t);
        halo_ring_pop(&ring);
    }
    pthread_join(writer, NULL);
    assert_null(halo_ring_peek(&ring));
    halo_ring_finish(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_when_full_and_goes_on_when_read),
        cmocka_unit_test(a_record_larger_than_the_ring_is_refused),
        cmocka_unit_test(two_threads_see_every_record_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
