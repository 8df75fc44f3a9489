/* test_text.c: the texts of several users: each has its turn whatever the others sent, a cancel is heard inside, and
 * what cannot fit is refused before it is tokenized.
 *
 * The tokenizer waits at its entrance for as long as the test wants, so that all requests are there when work begins.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <tokenizer/tokenizer.h>

#include "child.h"

#define M "\"model\":\"fable-Q4_K_M\""
#define MIB ((size_t)1 << 20)

int __real_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);
int __wrap_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault);

int __wrap_halo_tokenizer_encode(const struct halo_tokenizer *tokenizer, const char *text, size_t n, bool special,
                                 bool first, struct halo_turn *turn, struct halo_tokens *out, struct halo_fault *fault)
{
    while (atomic_load(&fake_control->hang_text))
        usleep(1000);
    return __real_halo_tokenizer_encode(tokenizer, text, n, special, first, turn, out, fault);
}

/* An engine whose tokenizer waits. */
static void begin(struct child *c)
{
    child_start(c, true, NULL);
    child_load(c);
    atomic_store(&c->control->hang_text, true);
}

static void tokenize(struct child *c, int64_t id, int user, size_t n_bytes)
{
    static const char words[] = "Once upon a time there was a king who had three sons. ";
    char *text = malloc(n_bytes + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n_bytes; i++)
        text[i] = words[i % (sizeof(words) - 1)];
    text[n_bytes] = '\0';
    child_send(c, "{\"type\":\"tokenize\",\"id\":%lld," M ",\"user\":%d,\"text\":\"%s\"}", (long long)id, user, text);
    free(text);
}

static void cancel(struct child *c, int64_t id, int64_t target)
{
    child_send(c, "{\"type\":\"cancel\",\"id\":%lld,\"target\":%lld}", (long long)id, (long long)target);
}

/* Until everything that was sent before has been taken up. */
static void settle(struct child *c, int64_t id)
{
    child_send(c, "{\"type\":\"ping\",\"id\":%lld}", (long long)id);
    assert_int_equal(child_wait(c, id)->terminal, HALO_EV_PONG);
}

static void assert_cancelled(struct child *c, int64_t id)
{
    struct child_request *request = child_wait(c, id);
    if (request->terminal != HALO_EV_DONE || request->finish != HALO_WIRE_FINISH_CANCELLED)
        fail_msg("%s", request->last);
}

static void long_texts_hold_nobody_up(void **state)
{
    enum { LONG = 3, SHORT = 6 };
    struct child c;
    begin(&c);
    for (int64_t i = 0; i < LONG; i++)
        tokenize(&c, 10 + i, 1, 6 * MIB);
    for (int64_t i = 0; i < SHORT; i++)
        tokenize(&c, 20 + i, 2, 50);
    settle(&c, 2);
    atomic_store(&c.control->hang_text, false);
    for (int64_t i = 0; i < SHORT; i++)
        assert_int_equal(child_wait(&c, 20 + i)->terminal, HALO_EV_TOKENS);
    for (int64_t i = LONG; i-- > 0;)
        cancel(&c, 30 + i, 10 + i);
    for (int64_t i = 0; i < LONG; i++)
        assert_cancelled(&c, 10 + i);
    for (int64_t i = 0; i < SHORT; i++) {
        assert_true(c.requests[20 + i].order < c.requests[10].order);
        assert_true(i == 0 || c.requests[20 + i].order > c.requests[19 + i].order); /* its own are in order */
    }
    assert_int_equal(child_end(&c), 0);
}

static void a_cancel_is_heard_at_once(void **state)
{
    struct child c;
    begin(&c);
    tokenize(&c, 10, 1, 7 * MIB);
    tokenize(&c, 11, 1, 50);
    tokenize(&c, 12, 1, 50);
    tokenize(&c, 20, 2, 3 * MIB);
    cancel(&c, 30, 11);
    assert_cancelled(&c, 11); /* nobody had begun it: while the first one still waits */
    assert_int_equal(c.requests[10].n_terminal, 0);
    cancel(&c, 31, 10);
    settle(&c, 2);
    atomic_store(&c.control->hang_text, false);
    assert_cancelled(&c, 10);
    assert_int_equal(child_wait(&c, 12)->terminal, HALO_EV_TOKENS);
    assert_int_equal(child_wait(&c, 20)->terminal, HALO_EV_TOKENS);
    assert_true(c.requests[10].order < c.requests[12].order);
    assert_true(c.requests[12].order < c.requests[20].order); /* inside, not at the end of 7 MiB */
    assert_int_equal(child_end(&c), 0);
}

static void more_users_than_workers(void **state)
{
    enum { USERS = 30 };
    struct child c;
    begin(&c);
    for (int64_t i = 0; i < 2 * USERS; i++)
        tokenize(&c, 10 + i, (int)(i % USERS), i < USERS ? MIB / 16 : 50);
    settle(&c, 2);
    atomic_store(&c.control->hang_text, false);
    for (int64_t i = 0; i < 2 * USERS; i++)
        assert_int_equal(child_wait(&c, 10 + i)->terminal, HALO_EV_TOKENS);
    for (int64_t i = 0; i < USERS; i++)
        assert_true(c.requests[10 + i].order < c.requests[10 + USERS + i].order);
    assert_int_equal(child_end(&c), 0);
}

static char *repeat(const char *what, size_t n)
{
    size_t n_what = strlen(what);
    char *text = malloc(n * n_what + 1);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * n_what, what, n_what + 1);
    return text;
}

/* While the tokenizer waits: whoever is answered did not go there. */
static void what_cannot_fit_is_refused_unseen(void **state)
{
    static const char *const forms[][3] = {
        {"score", "\"text\":\"", "\""},
        {"generate", "\"prompt\":\"", "\""},
        {"generate", "\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]"},
    };
    struct child c;
    begin(&c);
    char *text = repeat("a word, ", MIB / 2);
    for (int i = 0; i < 3; i++) {
        child_send(&c, "{\"type\":\"%s\",\"id\":%d," M ",%s%s%s}", forms[i][0], 10 + i, forms[i][1], text, forms[i][2]);
        struct child_request *request = child_wait(&c, 10 + i);
        assert_int_equal(request->error, HALO_ERROR_CONTEXT_OVERFLOW);
        long context = child_number(request, "context"), least = child_number(request, "least_prompt_tokens");
        assert_true(context > 0 && least > context);
        assert_true(child_number(request, "bytes") >= (long)strlen(text));
    }
    assert_int_equal(child_end(&c), 0);
    free(text);
}

/* So many tokens that each is short: counted no further than a few contexts. */
static void counting_ends_early(void **state)
{
    struct child c;
    child_start(&c, true, NULL);
    child_load(&c);
    char *text = repeat("\\u0001", 12000);
    child_send(&c, "{\"type\":\"score\",\"id\":2," M ",\"text\":\"%s\"}", text);
    struct child_request *request = child_wait(&c, 2);
    assert_int_equal(request->error, HALO_ERROR_CONTEXT_OVERFLOW);
    assert_int_equal(child_number(request, "least_prompt_tokens"), 4 * child_number(request, "context") + 1);
    assert_int_equal(child_end(&c), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_texts_hold_nobody_up), cmocka_unit_test(a_cancel_is_heard_at_once),
        cmocka_unit_test(more_users_than_workers),   cmocka_unit_test(what_cannot_fit_is_refused_unseen),
        cmocka_unit_test(counting_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
