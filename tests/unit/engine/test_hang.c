/* test_hang.c: a thread that hangs is seen in the heartbeat, and the others go on.
 *
 * The folder that does not answer is opendir() itself, and the text that is never ready the tokenizer: both wait here
 * for as long as the test wants.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>
#include <tokenizer/tokenizer.h>

#include "child.h"

#define M "\"model\":\"fable-Q4_K_M\""

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
int __real_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);
int __wrap_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);

static void wait_while(const atomic_bool *flag)
{
    while (atomic_load(flag))
        usleep(1000);
}

DIR *__wrap_opendir(const char *path)
{
    wait_while(&fake_control->hang_folder);
    return __real_opendir(path);
}

int __wrap_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault)
{
    wait_while(&fake_control->hang_text);
    return __real_halo_tokenizer_encode(tokenizer, text, n, special, first, turn, out, fault);
}

/* Until a heartbeat says that this thread has made no progress in such work for longer than `ms`. */
static void wait_for_hang(struct child *c, enum halo_wire_thread thread, enum halo_wire_activity activity, int64_t ms)
{
    const struct child_phase *phase = &c->phases[thread];
    uint64_t until_ms = halo_clock_ms() + CHILD_PATIENCE_MS;
    while (phase->activity != activity || phase->ms <= ms)
        assert_true(child_read(c, 100) && halo_clock_ms() < until_ms);
}

static void a_folder_that_hangs_holds_up_nothing_else(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_load(&c);
    atomic_store(&c.control->hang_folder, true);
    child_send(&c, "{\"type\":\"models\",\"id\":2}");
    wait_for_hang(&c, HALO_WIRE_THREAD_IO, HALO_WIRE_ACTIVITY_FILE, 300);
    assert_non_null(strstr(c.phases[HALO_WIRE_THREAD_IO].what, "tests/models"));
    child_send(&c, "{\"type\":\"tokenize\",\"id\":3," M ",\"text\":\"still here\"}");
    child_send(&c, "{\"type\":\"generate\",\"id\":4," M ",\"prompt\":\"a\",\"max_tokens\":5,\"ignore_eos\":true}");
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_TOKENS);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_DONE);
    wait_for_hang(&c, HALO_WIRE_THREAD_IO, HALO_WIRE_ACTIVITY_FILE, c.phases[HALO_WIRE_THREAD_IO].ms + 100);
    assert_int_equal(c.phases[HALO_WIRE_THREAD_TEXT].activity, HALO_WIRE_ACTIVITY_IDLE);
    assert_int_equal(c.requests[2].n_terminal, 0);
    atomic_store(&c.control->hang_folder, false); /* the server is back */
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_MODELS);
    assert_int_equal(child_end(&c), 0);
}

static void a_text_that_hangs_is_seen(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_load(&c);
    atomic_store(&c.control->hang_text, true);
    child_send(&c, "{\"type\":\"tokenize\",\"id\":2," M ",\"text\":\"never ready\"}");
    wait_for_hang(&c, HALO_WIRE_THREAD_TEXT, HALO_WIRE_ACTIVITY_TEXT, 300);
    child_send(&c, "{\"type\":\"ping\",\"id\":3}");
    child_send(&c, "{\"type\":\"models\",\"id\":4}");
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_PONG);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_MODELS);
    assert_int_equal(c.requests[2].n_terminal, 0);
    assert_int_equal(child_end(&c), 0);
}

/* The weights of a large model take minutes. Who asks for the list of models, or for another file, does not wait. */
static void weights_that_take_long_hold_up_nothing_else(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    atomic_store(&c.control->hang_weights, true);
    child_send(&c, "{\"type\":\"load\",\"id\":1," M "}");
    wait_for_hang(&c, HALO_WIRE_THREAD_PREFETCH, HALO_WIRE_ACTIVITY_FILE, 300);
    child_send(&c, "{\"type\":\"models\",\"id\":2}");
    child_send(&c, "{\"type\":\"load\",\"id\":3,\"model\":\"nowhere\"}");
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_MODELS);
    assert_int_equal(child_wait(&c, 3)->error, HALO_ERROR_NOT_FOUND);
    assert_int_equal(c.requests[1].n_terminal, 0);
    atomic_store(&c.control->hang_weights, false);
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_end(&c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_hangs_holds_up_nothing_else),
        cmocka_unit_test(a_text_that_hangs_is_seen),
        cmocka_unit_test(weights_that_take_long_hold_up_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
