/* test_bench.c: a bench shares the device with the requests of others, and benches with each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "child.h"

#define M "\"model\":\"fable-Q4_K_M\""
#define POOL 1024 /* tokens */

static void quick_runs(struct fake_control *control)
{
    control->run_us = 300;
}

static void load_small(struct child *c)
{
    child_send(c, "{\"type\":\"load\",\"id\":1," M ",\"params\":{\"kv_tokens\":%d}}", POOL);
    assert_int_equal(child_wait(c, 1)->terminal, HALO_EV_LOADED);
}

static void a_long_bench_stops_nobody(void **state)
{
    struct child c;
    child_start(&c, false, quick_runs);
    child_load(&c);
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":500,\"decode\":200,\"repeat\":1000}");
    child_send(&c, "{\"type\":\"generate\",\"id\":3," M ",\"prompt\":\"a\",\"max_tokens\":50,\"ignore_eos\":true}");
    child_send(&c, "{\"type\":\"score\",\"id\":4," M ",\"text\":\"It was a dark and stormy night\"}");
    child_send(&c, "{\"type\":\"bench\",\"id\":5," M ",\"prefill\":20,\"decode\":4,\"repeat\":3}");
    assert_int_equal(child_wait(&c, 3)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_SCORED);
    assert_int_equal(child_wait(&c, 5)->terminal, HALO_EV_BENCH);
    assert_int_equal(c.requests[2].n_terminal, 0);
    child_send(&c, "{\"type\":\"cancel\",\"id\":6,\"target\":2}");
    assert_int_equal(child_wait(&c, 2)->finish, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(child_end(&c), 0);
}

static void slow_runs(struct fake_control *control)
{
    control->run_us = 20000;
}

/* A cancel does not wait for a turn: the other bench is within its only run, of eight seconds, when this one ends. */
static void a_bench_that_waits_is_cancelled(void **state)
{
    struct child c;
    child_start(&c, false, slow_runs);
    child_load(&c);
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":20,\"decode\":400,\"repeat\":1}");
    child_send(&c, "{\"type\":\"bench\",\"id\":3," M ",\"prefill\":20,\"decode\":4,\"repeat\":1000}");
    while (atomic_load(&c.control->n_runs) < 4)
        usleep(1000);
    child_send(&c, "{\"type\":\"cancel\",\"id\":4,\"target\":3}");
    assert_int_equal(child_wait(&c, 3)->finish, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(c.requests[2].n_terminal, 0);
    child_send(&c, "{\"type\":\"cancel\",\"id\":5,\"target\":2}");
    assert_int_equal(child_wait(&c, 2)->finish, HALO_WIRE_FINISH_CANCELLED);
    assert_int_equal(child_end(&c), 0);
}

/* It takes as long as many steps: a reply does not wait for it. */
static void bandwidth_is_measured_alone(void **state)
{
    struct child c;
    child_start(&c, false, quick_runs);
    child_load(&c);
    child_send(&c, "{\"type\":\"generate\",\"id\":2," M ",\"prompt\":\"a\",\"max_tokens\":900,\"ignore_eos\":true}");
    while (c.requests[2].n_started == 0)
        assert_true(child_read(&c, 100));
    child_send(&c, "{\"type\":\"bench\",\"id\":3," M ",\"prefill\":20,\"decode\":4,\"repeat\":2}");
    child_wait(&c, 3);
    assert_int_equal(c.requests[2].n_terminal, 0); /* it ran all the time */
    assert_non_null(strstr(c.requests[3].last, "\"bandwidth_gb_s\":null"));
    child_wait(&c, 2);
    child_send(&c, "{\"type\":\"bench\",\"id\":4," M ",\"prefill\":20,\"decode\":4,\"repeat\":2}");
    child_wait(&c, 4);
    assert_null(strstr(c.requests[4].last, "\"bandwidth_gb_s\":null"));
    assert_non_null(strstr(c.requests[4].last, "\"bandwidth_gb_s\":"));
    assert_int_equal(child_end(&c), 0);
}

/* Whoever ends first, the others go on by themselves. */
static void benches_outlast_requests(void **state)
{
    struct child c;
    int id = 2;
    child_start(&c, false, quick_runs);
    child_load(&c);
    for (int round = 0; round < 40; round++, id += 3) {
        child_send(&c, "{\"type\":\"bench\",\"id\":%d," M ",\"prefill\":%d,\"decode\":%d,\"repeat\":3}", id,
                   round * 17 % 600, 1 + round);
        child_send(&c, "{\"type\":\"bench\",\"id\":%d," M ",\"prefill\":5,\"decode\":2,\"repeat\":9}", id + 1);
        child_send(&c, "{\"type\":\"generate\",\"id\":%d," M ",\"prompt\":\"a\",\"max_tokens\":%d,\"ignore_eos\":true}",
                   id + 2, 1 + round % 7);
        for (int i = 0; i < 3; i++)
            assert_int_equal(child_wait(&c, id + i)->terminal, i < 2 ? HALO_EV_BENCH : HALO_EV_DONE);
    }
    assert_int_equal(child_end(&c), 0);
}

/* All pages are the bench's or a sequence's in turn: each waits for the other, and all end. */
static void a_bench_and_requests_share_a_small_pool(void **state)
{
    enum { N = 12 };
    struct child c;
    char prompt[16 * 500];
    child_start(&c, false, quick_runs);
    load_small(&c);
    child_prompt(prompt, 450);
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":400,\"decode\":100,\"batch\":2,\"repeat\":5}");
    for (int id = 3; id < 3 + N; id++)
        child_send(&c,
                   "{\"type\":\"generate\",\"id\":%d," M
                   ",\"tokens\":[%s],\"max_tokens\":%d,\"ignore_eos\":true,\"cache_prompt\":%s}",
                   id, prompt, 40 + id, id % 2 ? "true" : "false");
    child_send(&c, "{\"type\":\"bench\",\"id\":20," M ",\"prefill\":1000,\"decode\":0,\"repeat\":3}");
    for (int id = 3; id < 3 + N; id++)
        assert_int_equal(child_wait(&c, id)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_BENCH);
    assert_int_equal(child_wait(&c, 20)->terminal, HALO_EV_BENCH);
    int64_t id = 30;
    assert_non_null(strstr(child_stats_at_rest(&c, &id)->last, "\"now_kv_pages_held\":0}"));
    assert_int_equal(child_end(&c), 0);
}

/* The pages of a bench that ends with the device go back: nothing is torn down with pages out. */
static void a_bench_ends_with_the_device(void **state)
{
    struct child c;
    child_start(&c, false, quick_runs);
    child_load(&c);
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":500,\"decode\":200,\"repeat\":1000}");
    child_send(&c, "{\"type\":\"bench\",\"id\":3," M ",\"prefill\":500,\"decode\":200,\"repeat\":1000}");
    while (c.requests[2].n_progress == 0 || c.requests[3].n_progress == 0)
        child_read(&c, 100);
    c.control->fail_error = HALO_DEVICE_E_LOST;
    c.control->fail_run = c.control->n_runs + 3;
    assert_int_equal(child_wait(&c, 2)->error, HALO_ERROR_DEVICE_FAULT);
    assert_int_equal(child_wait(&c, 3)->error, HALO_ERROR_DEVICE_FAULT);
    assert_int_equal(child_end(&c), 3);
}

static void wants_long_batches(struct fake_control *control)
{
    control->not_invariant = true;
    control->batch_rows = 2048;
}

static void has_little_memory(struct fake_control *control)
{
    control->not_invariant = true;
    control->batch_rows = 2048;
    control->scratch_row_bytes = 16384;
    control->free_bytes = 200u << 20;
}

/* Prompts are cut as the request says, or as those of requests are: short at first, long when that is known to be
 * quick. */
static void a_bench_cuts_the_prompt(void **state)
{
    struct child c;
    child_start(&c, false, wants_long_batches);
    child_load(&c);
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":1000,\"decode\":1,\"repeat\":1}");
    assert_int_equal(child_number(child_wait(&c, 2), "chunk"), 744); /* behind one of 256 */
    assert_int_equal(c.control->max_rows, 744);
    child_send(&c, "{\"type\":\"bench\",\"id\":3," M ",\"prefill\":1000,\"decode\":1,\"chunk\":300}");
    assert_int_equal(child_number(child_wait(&c, 3), "chunk"), 300);
    child_send(&c, "{\"type\":\"bench\",\"id\":4," M ",\"prefill\":1000,\"decode\":1}");
    assert_int_equal(child_number(child_wait(&c, 4), "chunk"), 1000);
    child_send(&c, "{\"type\":\"bench\",\"id\":5," M ",\"prefill\":1000,\"chunk\":2049}");
    assert_int_equal(child_wait(&c, 5)->error, HALO_ERROR_BAD_REQUEST);
    assert_string_equal(c.requests[5].message,
                        "a chunk of 2049 tokens is more than the 2048 rows of this model's batches");
    assert_int_equal(child_end(&c), 0);
}

/* Scratch for 2,048 rows would be more than it is worth here. */
static void little_memory_means_short_chunks(void **state)
{
    struct child c;
    child_start(&c, false, has_little_memory);
    child_load(&c);
    assert_non_null(strstr(c.requests[1].notice, "prompts are computed in chunks of 512 tokens instead of 2048, as "
                                                 "memory allows"));
    child_send(&c, "{\"type\":\"bench\",\"id\":2," M ",\"prefill\":1000,\"chunk\":513}");
    assert_non_null(strstr(child_wait(&c, 2)->last, "\"limit\":512"));
    child_send(&c, "{\"type\":\"bench\",\"id\":3," M ",\"prefill\":1000,\"decode\":1,\"chunk\":512}");
    assert_int_equal(child_number(child_wait(&c, 3), "chunk"), 512);
    assert_int_equal(c.control->max_rows, 512);
    assert_int_equal(child_end(&c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_bench_stops_nobody),
        cmocka_unit_test(a_bench_that_waits_is_cancelled),
        cmocka_unit_test(bandwidth_is_measured_alone),
        cmocka_unit_test(benches_outlast_requests),
        cmocka_unit_test(a_bench_and_requests_share_a_small_pool),
        cmocka_unit_test(a_bench_ends_with_the_device),
        cmocka_unit_test(a_bench_cuts_the_prompt),
        cmocka_unit_test(little_memory_means_short_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
