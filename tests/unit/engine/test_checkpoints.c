/* test_checkpoints.c: memory for checkpoints of states, through the whole engine on the CPU device: what it is given,
 * what it is told as, and what it keeps.
 *
 * Models: $HALO_SHARED/models, else ../shared/models; without them the test is skipped (77).
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

#include <cpu/cpu.h>

#include "child.h"

#define STATES "tiny-qwen35"
#define WINDOWS "tiny-gemma3"
#define CONTEXT 512
#define N_TALKS 3
#define N_BESIDE 12
#define N_IDS 100 /* of a prompt */
#define REPLY 8

static char folder[4096];
static int64_t next_id;

static struct child_request *load(struct child *c, const char *model, uint64_t checkpoint_bytes)
{
    child_checkpoint_bytes = checkpoint_bytes;
    child_start(c, true, NULL);
    child_send(c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s\",\"params\":{\"context\":%d,\"kv_tokens\":%d}}", model,
               CONTEXT, 4 * CONTEXT);
    next_id = 1;
    struct child_request *request = child_wait(c, 1);
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    return request;
}

static struct child_request *plan(struct child *c, uint64_t budget_bytes)
{
    char budget[64] = "";
    if (budget_bytes > 0)
        snprintf(budget, sizeof(budget), ",\"budget_bytes\":%llu", (unsigned long long)budget_bytes);
    child_send(
        c, "{\"type\":\"plan\",\"id\":%lld,\"model\":\"" STATES "\",\"params\":{\"context\":%d,\"kv_tokens\":%d}%s}",
        (long long)++next_id, CONTEXT, 4 * CONTEXT, budget);
    return child_wait(c, next_id);
}

static uint64_t slot_bytes(void)
{
    static long n;
    struct child c;
    if (n > 0)
        return (uint64_t)n;
    load(&c, STATES, 0);
    n = child_number(plan(&c, 0), "kv_sequence_bytes");
    assert_true(n > 0);
    assert_int_equal(child_end(&c), 0);
    return (uint64_t)n;
}

static void the_bytes_are_counted(void **state)
{
    struct child c;
    const long slot = (long)slot_bytes();
    long without = child_number(load(&c, STATES, 0), "kv_bytes");
    assert_non_null(strstr(c.requests[1].last, "\"checkpoint_bytes\":0"));
    assert_int_equal(child_end(&c), 0);

    struct child_request *loaded = load(&c, STATES, (uint64_t)(10 * slot + slot / 2));
    assert_int_equal(child_number(loaded, "checkpoint_bytes"), 10 * slot);
    assert_int_equal(child_number(loaded, "kv_bytes"), without + 10 * slot);
    assert_null(strstr(loaded->last, "checkpoint_bytes: "));
    struct child_request *planned = plan(&c, 0);
    assert_int_equal(child_number(planned, "checkpoint_bytes"), 10 * slot);
    assert_int_equal(child_number(planned, "kv_bytes"), without + 10 * slot);
    planned = plan(&c, (uint64_t)(child_number(planned, "total_bytes") - 3 * slot));
    assert_int_equal(child_number(planned, "checkpoint_bytes"), 7 * slot);
    assert_non_null(strstr(planned->last, "\"fits\":true"));
    child_send(&c, "{\"type\":\"status\",\"id\":50}");
    assert_int_equal(child_number(child_wait(&c, 50), "checkpoint_bytes"), 10 * slot);
    child_send(&c, "{\"type\":\"models\",\"id\":51}");
    assert_int_equal(child_number(child_wait(&c, 51), "checkpoint_bytes"), 10 * slot);
    assert_int_equal(child_end(&c), 0);

    assert_null(strstr(load(&c, WINDOWS, 1 << 20)->last, "checkpoint_bytes"));
    assert_int_equal(child_end(&c), 0);
}

/* Of memory that is short, checkpoints get what the pool leaves, and the answer says so. */
static void checkpoints_yield_to_the_pool(void **state)
{
    struct child c;
    const long slot = (long)slot_bytes();
    load(&c, STATES, (uint64_t)(10 * slot));
    long total = child_number(plan(&c, 0), "total_bytes");
    assert_int_equal(child_end(&c), 0);
    child_budget_bytes = (uint64_t)(total - 4 * slot);
    struct child_request *loaded = load(&c, STATES, (uint64_t)(10 * slot));
    child_budget_bytes = 0;
    char remark[128];
    snprintf(remark, sizeof(remark), "checkpoint_bytes: %ld instead of %ld, as memory allows", 6 * slot, 10 * slot);
    assert_int_equal(child_number(loaded, "checkpoint_bytes"), 6 * slot);
    assert_non_null(strstr(loaded->last, remark));
    assert_int_equal(child_end(&c), 0);
}

/* ---- conversations ---- */

static void append_ids(char *ids, uint32_t seed, int n)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        snprintf(ids + strlen(ids), 8, "%s%u", ids[0] ? "," : "", 3 + (seed >> 16) % 200);
    }
}

static void send_ids(struct child *c, const char *ids)
{
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld,\"model\":\"" STATES "\",\"tokens\":[%s],\"max_tokens\":%d,"
               "\"ignore_eos\":true,\"temperature\":0,\"emit_token_ids\":true}",
               (long long)++next_id, ids, REPLY);
}

/* Runs the turn and appends its reply. Returns how many tokens of the prompt were computed. */
static long run_turn(struct child *c, char *ids)
{
    send_ids(c, ids);
    struct child_request *request = child_wait(c, next_id);
    assert_int_equal(request->n_ids, REPLY);
    for (uint32_t i = 0; i < request->n_ids; i++)
        snprintf(ids + strlen(ids), 8, ",%d", request->ids[i]);
    return child_number(request, "prefill_tokens");
}

/* Turns of several conversations, requests beside them, and their next turns: tokens computed by all of those. */
static long tokens_computed(uint64_t checkpoint_bytes)
{
    struct child c;
    char talks[N_TALKS][4096] = {""}, beside[4096];
    long n = 0;
    load(&c, STATES, checkpoint_bytes);
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t t = 0; t < N_TALKS; t++) {
            append_ids(talks[t], 10 * (uint32_t)turn + t, turn == 0 ? N_IDS : 5);
            long n_prefill = run_turn(&c, talks[t]);
            n += turn == 2 ? n_prefill : 0;
        }
        for (uint32_t i = 0; i < N_BESIDE && turn == 1; i++) {
            beside[0] = '\0';
            append_ids(beside, 1000 + i, 20);
            send_ids(&c, beside);
        }
        for (uint32_t i = 0; i < N_BESIDE && turn == 1; i++)
            child_wait(&c, next_id - i);
    }
    assert_int_equal(child_end(&c), 0);
    return n;
}

static void conversations_outlast_requests_beside_them(void **state)
{
    /* Of each conversation the last id of its reply, and five new ones. */
    assert_int_equal(tokens_computed(3 * N_TALKS * slot_bytes()), N_TALKS * 6);
}

static int start(void **state)
{
    child_device = halo_device_cpu();
    child_dirs[child_n_dirs++] = folder;
    return 0;
}

int main(void)
{
    if (!child_find_models(folder, sizeof(folder)))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_counted),
        cmocka_unit_test(checkpoints_yield_to_the_pool),
        cmocka_unit_test(conversations_outlast_requests_beside_them),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
