/* test_reuse.c: prefix reuse on the real CPU device: the same ids and the same logprobs to the last bit, for every type
 * of KV cache, however the pages were cut, and only new tokens are computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TURNS 8 /* they look at memory and threads, for which fewer do */
static const enum halo_kv_type kv_types[] = {HALO_KV_Q8};
#else
#define TURNS 20
static const enum halo_kv_type kv_types[] = {HALO_KV_F32, HALO_KV_F16, HALO_KV_Q8};
#endif
#define REPLY 8
#define N_KV_TYPES (sizeof(kv_types) / sizeof(*kv_types))

struct turn {
    int32_t ids[REPLY];
    double logprobs[REPLY];
    uint64_t n_rows;
    uint32_t n_cached, n_prompt;
};

/* A conversation: each turn's prompt is everything before and some new ids. */
static void converse(const struct cpu_rig_setup *setup, bool cache, struct turn *turns)
{
    struct cpu_rig rig;
    int32_t text[1024];
    uint32_t n_text = 0;
    cpu_rig_init(&rig, setup);
    for (uint32_t t = 0; t < TURNS; t++) {
        uint32_t n_new = 3 + t * 11 % 37;
        cpu_rig_ids(&rig, t, text + n_text, n_new);
        n_text += n_new;
        struct halo_sequence_setup reply = cpu_rig_reply(text, n_text, REPLY);
        reply.cache_prompt = cache;
        uint64_t before = cpu_rig_rows;
        struct cpu_seq *seq = cpu_rig_submit(&rig, &reply);
        cpu_rig_run(&rig);
        assert_int_equal(seq->n_ids, REPLY);
        turns[t] = (struct turn){.n_rows = cpu_rig_rows - before, .n_cached = seq->n_cached, .n_prompt = n_text};
        memcpy(turns[t].ids, seq->ids, sizeof(turns[t].ids));
        memcpy(turns[t].logprobs, seq->logprobs, sizeof(turns[t].logprobs));
        memcpy(text + n_text, seq->ids, sizeof(turns[t].ids));
        n_text += REPLY;
    }
    cpu_rig_finish(&rig);
}

/* With a window: afresh every layer keeps every position, with reuse those with a window keep theirs. */
static void compare_conversations(uint32_t window)
{
    for (size_t k = 0; k < N_KV_TYPES; k++) {
        struct turn afresh[TURNS], reused[TURNS];
        struct cpu_rig_setup setup = {
            .kv = kv_types[k], .context = 1024, .kv_tokens = 4096, .n_threads = 2, .window = window, .keeps_all = true};
        uint64_t n_afresh = 0, n_reused = 0;
        converse(&setup, false, afresh);
        setup.max_rows = 23; /* pages are filled in other pieces than above */
        setup.n_threads = window > 0 ? 8 : 1;
        setup.keeps_all = false;
        converse(&setup, true, reused);
        for (uint32_t t = 0; t < TURNS; t++) {
            assert_memory_equal(reused[t].ids, afresh[t].ids, sizeof(afresh[t].ids));
            assert_memory_equal(reused[t].logprobs, afresh[t].logprobs, sizeof(afresh[t].logprobs));
            assert_int_equal(reused[t].n_cached, t == 0 ? 0 : reused[t - 1].n_prompt + REPLY - 1);
            assert_int_equal(reused[t].n_rows, reused[t].n_prompt - reused[t].n_cached + REPLY - 1);
            n_afresh += afresh[t].n_rows;
            n_reused += reused[t].n_rows;
        }
        assert_int_equal(n_reused, reused[TURNS - 1].n_prompt + REPLY - 1); /* every position once */
        print_message("%d turns: %llu rows afresh, %llu with reuse\n", TURNS, (unsigned long long)n_afresh,
                      (unsigned long long)n_reused);
    }
}

static void a_conversation_is_the_same_to_the_bit(void **state)
{
    compare_conversations(0);
}

static void windows_are_the_same_to_the_bit(void **state)
{
    compare_conversations(40);
}

/* Texts that begin alike and part somewhere, in a pool that is too small for them: beside each other, preempted. */
static void compare_crowds(uint32_t window)
{
    enum { N = 24, LENGTH = 90 };
    for (size_t k = 0; k < N_KV_TYPES; k++) {
        static int32_t ids[N][LENGTH];
        struct cpu_seq *want = calloc(N, sizeof(*want));
        struct cpu_rig rig;
        struct cpu_rig_setup setup = {
            .kv = kv_types[k], .context = 256, .kv_tokens = 8192, .n_threads = 2, .window = window, .keeps_all = true};
        cpu_rig_init(&rig, &setup);
        for (uint32_t i = 0; i < N; i++) {
            cpu_rig_ids(&rig, i, ids[i], LENGTH);
            memcpy(ids[i], ids[i % 3], (i * 17 % LENGTH) * sizeof(int32_t));
            struct halo_sequence_setup reply = cpu_rig_reply(ids[i], LENGTH, 20);
            reply.cache_prompt = false;
            cpu_rig_submit(&rig, &reply);
        }
        cpu_rig_run(&rig);
        memcpy(want, rig.seqs, N * sizeof(*want));
        assert_int_equal(rig.stats.prefix_hits, 0);
        cpu_rig_finish(&rig);

        setup.kv_tokens = 512;
        setup.max_rows = 40;
        setup.keeps_all = false;
        cpu_rig_init(&rig, &setup);
        for (uint32_t i = 0; i < N; i++) {
            struct halo_sequence_setup reply = cpu_rig_reply(ids[i], LENGTH, 20);
            cpu_rig_submit(&rig, &reply);
            if (i == N / 2)
                cpu_rig_run(&rig);
        }
        cpu_rig_run(&rig);
        for (uint32_t i = 0; i < N; i++) {
            assert_memory_equal(rig.seqs[i].ids, want[i].ids, 20 * sizeof(int32_t));
            assert_memory_equal(rig.seqs[i].logprobs, want[i].logprobs, 20 * sizeof(double));
        }
        assert_true(rig.stats.prefix_hits > N / 3 && rig.stats.prefix_copies > 3);
        assert_true(rig.instance.scheduler.pool.prefix.n_evicted > 0);
        cpu_rig_finish(&rig);
        free(want);
    }
}

static void a_crowd_is_the_same_to_the_bit(void **state)
{
    compare_crowds(0);
}

static void a_crowd_with_windows_is_the_same_to_the_bit(void **state)
{
    compare_crowds(33);
}

static void a_score_behind_a_reply_is_the_same_to_the_bit(void **state)
{
    struct cpu_rig rig;
    struct cpu_rig_setup setup = {.kv = HALO_KV_F16, .context = 256, .kv_tokens = 2048, .n_threads = 2};
    int32_t ids[150];
    double want[150];
    cpu_rig_init(&rig, &setup);
    cpu_rig_ids(&rig, 3, ids, 150);
    struct halo_sequence_setup score = {.kind = HALO_SEQUENCE_SCORE, .ids = ids, .n_prompt = 150};
    struct cpu_seq *all = cpu_rig_submit(&rig, &score);
    cpu_rig_run(&rig);
    memcpy(want, all->logprobs, sizeof(want));
    struct halo_sequence_setup reply = cpu_rig_reply(ids, 120, 3);
    reply.user = score.user;
    cpu_rig_submit(&rig, &reply);
    cpu_rig_run(&rig);
    score.cache_prompt = true;
    score.score_from = 70;
    uint64_t before = cpu_rig_rows;
    struct cpu_seq *part = cpu_rig_submit(&rig, &score);
    cpu_rig_run(&rig);
    assert_int_equal(cpu_rig_rows - before, 80);
    assert_int_equal(part->n_logprobs, 80);
    assert_memory_equal(part->logprobs, want + 70, 80 * sizeof(double));
    cpu_rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_is_the_same_to_the_bit),
        cmocka_unit_test(windows_are_the_same_to_the_bit),
        cmocka_unit_test(a_crowd_is_the_same_to_the_bit),
        cmocka_unit_test(a_crowd_with_windows_is_the_same_to_the_bit),
        cmocka_unit_test(a_score_behind_a_reply_is_the_same_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
