/* test_top.c: a device that makes lists of the largest logits is asked for them wherever they decide the next token,
 * and for rows wherever they do not. What comes out is the same to the last id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

enum { N = 3, LENGTH = 20, VOCAB = 200 };

typedef void change_fn(struct halo_sequence_setup *setup);

/* What N replies give, and what of their logits came back. */
struct result {
    int32_t ids[N][LENGTH];
    double logprobs[N][LENGTH];
    uint32_t n_listed, n_outputs;
    uint64_t n_bytes;
};

/* N greedy replies, each changed by its own; from `first_seed` on. All are prefilled in the first steps. */
static void run(bool makes_lists, bool coarse, change_fn *const changes[N], uint32_t first_seed, struct result *ret)
{
    struct rig rig;
    struct rig_seq *seq[N];
    rig_init_vocab(&rig, VOCAB, 64, 8, 64);
    rig.scheduler.setup.makes_lists = makes_lists;
    rig.control.coarse = coarse;
    for (uint32_t i = 0; i < N; i++) {
        struct halo_sequence_setup setup = rig_setup(&rig, first_seed + i, 5 + 9 * i, LENGTH);
        changes[i](&setup);
        seq[i] = rig_submit(&rig, &setup);
    }
    rig_run(&rig);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(seq[i]->outcome, HALO_OUTCOME_LENGTH);
        assert_int_equal(seq[i]->n_ids, LENGTH);
        memcpy(ret->ids[i], seq[i]->ids, sizeof(ret->ids[i]));
        memcpy(ret->logprobs[i], seq[i]->logprobs, sizeof(ret->logprobs[i]));
    }
    ret->n_listed = atomic_load(&rig.control.n_listed);
    ret->n_outputs = atomic_load(&rig.control.n_outputs);
    ret->n_bytes = atomic_load(&rig.control.n_bytes);
    rig_finish(&rig);
}

/* ---- who can do with a list, and how long it is ---- */

static void greedy(struct halo_sequence_setup *setup)
{
    (void)setup;
}

/* What a client gets that says nothing. */
static void usual(struct halo_sequence_setup *setup)
{
    setup->sampler.temperature = 0.8;
    setup->sampler.top_k = 40;
    setup->sampler.top_p = 0.95;
    setup->sampler.min_p = 0.05;
    setup->sampler.repeat_window = 64;
}

static void hot_two(struct halo_sequence_setup *setup)
{
    setup->sampler.temperature = 30;
    setup->sampler.top_k = 2;
}

static void longest(struct halo_sequence_setup *setup)
{
    setup->sampler.temperature = 100;
    setup->sampler.top_k = HALO_CANDIDATES_MAX;
    setup->sampler.min_p = 0.001;
}

/* ---- who needs the row ---- */

static void longer(struct halo_sequence_setup *setup)
{
    longest(setup);
    setup->sampler.top_k++;
}

static void of_all(struct halo_sequence_setup *setup)
{
    usual(setup);
    setup->sampler.top_k = 0;
}

static void all_by_name(struct halo_sequence_setup *setup)
{
    usual(setup);
    setup->sampler.top_k = VOCAB;
}

static void with_logprob(struct halo_sequence_setup *setup)
{
    usual(setup);
    setup->want_logprob = true;
    setup->n_top = 3;
}

static void with_penalty(struct halo_sequence_setup *setup)
{
    usual(setup);
    setup->sampler.presence_penalty = 1.5;
}

static void greedy_with_penalty(struct halo_sequence_setup *setup)
{
    setup->sampler.repeat_window = 64;
    setup->sampler.repeat_penalty = 1.3;
}

static void with_bias(struct halo_sequence_setup *setup)
{
    static const struct halo_logit_bias biases[] = {{5, 3}, {9, -100}};
    usual(setup);
    setup->sampler.biases = biases;
    setup->sampler.n_biases = 2;
}

static const struct {
    change_fn *change;
    uint32_t list; /* its length; 0: rows */
} kinds[] = {{greedy, 1},
             {usual, 40},
             {hot_two, 2},
             {longest, HALO_CANDIDATES_MAX},
             {longer, 0},
             {of_all, 0},
             {all_by_name, 0},
             {with_logprob, 0},
             {with_penalty, 0},
             {with_bias, 0},
             {greedy_with_penalty, 0}};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void same(const struct result *have, const struct result *want)
{
    assert_memory_equal(have->ids, want->ids, sizeof(want->ids));
    assert_memory_equal(have->logprobs, want->logprobs, sizeof(want->logprobs));
    assert_int_equal(want->n_listed, 0);
    assert_int_equal(want->n_bytes, (uint64_t)want->n_outputs * VOCAB * sizeof(float));
    assert_int_equal(have->n_outputs, want->n_outputs);
}

/* Three of a kind: each brings what the table says, and nothing beside it. */
static void each_kind_brings_what_it_needs(void **state)
{
    struct result want, have;
    for (uint32_t i = 0; i < N_KINDS; i++)
        for (uint32_t seed = 0; seed < 16; seed++) {
            change_fn *const changes[N] = {kinds[i].change, kinds[i].change, kinds[i].change};
            run(false, seed & 1, changes, 3 * seed + 1, &want);
            run(true, seed & 1, changes, 3 * seed + 1, &have);
            same(&have, &want);
            assert_true(have.n_outputs >= N * LENGTH);
            assert_int_equal(have.n_listed, kinds[i].list > 0 ? have.n_outputs : 0);
            assert_int_equal(have.n_bytes, kinds[i].list > 0
                                               ? have.n_outputs * kinds[i].list * sizeof(struct halo_candidate)
                                               : have.n_outputs * VOCAB * sizeof(float));
        }
}

/* Mixtures of three, every seventh of all: a row comes for those that need one, a list for the others. */
static void mixed_steps_bring_rows_to_those_that_need_them(void **state)
{
    struct result want, have;
    for (uint32_t i = 0; i < N_KINDS * N_KINDS * N_KINDS; i += 7) {
        uint32_t of[N] = {i % N_KINDS, i / N_KINDS % N_KINDS, i / N_KINDS / N_KINDS}, n_lists = 0, most = 0;
        change_fn *const changes[N] = {kinds[of[0]].change, kinds[of[1]].change, kinds[of[2]].change};
        for (uint32_t k = 0; k < N; k++) {
            n_lists += kinds[of[k]].list > 0;
            most = kinds[of[k]].list > most ? kinds[of[k]].list : most;
        }
        run(false, i & 1, changes, i, &want);
        run(true, i & 1, changes, i, &have);
        same(&have, &want);
        assert_int_equal(have.n_listed, have.n_outputs / N * n_lists);
        uint64_t n_rows = have.n_outputs / N * (N - n_lists);
        uint64_t row_bytes = n_rows * VOCAB * sizeof(float);
        assert_int_equal(have.n_outputs % N, 0);
        assert_int_equal(have.n_bytes, row_bytes + have.n_outputs * most * sizeof(struct halo_candidate));
    }
}

/* A score beside a reply: rows for the one, lists for the other. */
static void scores_take_rows(void **state)
{
    double nll[2];
    int32_t ids[2][LENGTH];
    for (uint32_t lists = 0; lists < 2; lists++) {
        struct rig rig;
        rig_init(&rig, 8, 8, 64);
        rig.scheduler.setup.makes_lists = lists;
        struct halo_sequence_setup setup = rig_setup(&rig, 1, 9, LENGTH);
        usual(&setup);
        struct rig_seq *reply = rig_submit(&rig, &setup);
        setup = rig_setup(&rig, 2, 100, 0);
        setup.kind = HALO_SEQUENCE_SCORE;
        struct rig_seq *score = rig_submit(&rig, &setup);
        rig_run(&rig);
        assert_int_equal(score->outcome, HALO_OUTCOME_SCORED);
        assert_int_equal(reply->n_ids, LENGTH);
        nll[lists] = score->nll;
        memcpy(ids[lists], reply->ids, sizeof(ids[lists]));
        assert_int_equal(atomic_load(&rig.control.n_listed), lists ? LENGTH : 0);
        assert_int_equal(atomic_load(&rig.control.n_outputs), LENGTH + 100);
        rig_finish(&rig);
    }
    assert_memory_equal(&nll[1], &nll[0], sizeof(nll[0]));
    assert_memory_equal(ids[1], ids[0], sizeof(ids[0]));
}

/* A list without an id is refused as a row with a NaN is. */
static void no_number_ends_the_sequence(void **state)
{
    change_fn *const changes[] = {greedy, usual};
    for (uint32_t c = 0; c < 2; c++) {
        struct halo_fault fault[2];
        for (uint32_t lists = 0; lists < 2; lists++) {
            struct rig rig;
            rig_init(&rig, 8, 8, 64);
            rig.scheduler.setup.makes_lists = lists;
            struct halo_sequence_setup setup = rig_setup(&rig, 1, 9, LENGTH);
            changes[c](&setup);
            atomic_store(&rig.control.nan_token, setup.ids[4]);
            struct rig_seq *seq = rig_submit(&rig, &setup);
            rig_run(&rig);
            assert_int_equal(seq->n_ids, 0);
            assert_int_equal(atomic_load(&rig.control.n_listed), lists);
            fault[lists] = seq->fault;
            rig_finish(&rig);
        }
        assert_int_equal(fault[0].code, HALO_FAULT_DEVICE_FAULT);
        assert_int_equal(fault[1].code, fault[0].code);
        assert_string_equal(fault[1].text, fault[0].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_brings_what_it_needs),
        cmocka_unit_test(mixed_steps_bring_rows_to_those_that_need_them),
        cmocka_unit_test(scores_take_rows),
        cmocka_unit_test(no_number_ends_the_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
