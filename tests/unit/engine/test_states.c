/* test_states.c: a model with recurrent states beside its pages: what of a text need not be computed again, counted in
 * rows. The fake device aborts when a state is not that of the text in front of a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rig.h"

#define REPLY 20

static void begin(struct rig *rig, uint32_t n_slots)
{
    struct halo_plan plan;
    fake_plan(&plan, RIG_VOCAB, 4096, 100, 16, 600);
    fake_plan_states(&plan, n_slots);
    rig_init_plan(rig, &plan);
}

/* Runs a text alone and returns how many of its positions were not computed. n_stable: of them, what the next turn
 * repeats; 0: unknown. */
static uint32_t run_turn(struct rig *rig, const int32_t *ids, uint32_t n, uint32_t n_stable)
{
    struct halo_sequence_setup setup = rig_setup(rig, 1, 1, REPLY);
    uint32_t before = atomic_load(&rig->control.n_rows);
    setup.ids = ids;
    setup.n_prompt = n;
    setup.n_stable = n_stable;
    struct rig_seq *seq = rig_submit(rig, &setup);
    rig_run(rig);
    assert_int_equal(seq->n_ids, REPLY);
    assert_int_equal(atomic_load(&rig->control.n_rows) - before, n - seq->n_cached + REPLY - 1);
    assert_int_equal(atomic_load(&rig->control.n_through_host), 0); /* states are copied on the device */
    return seq->n_cached;
}

static uint32_t run_text(struct rig *rig, const int32_t *ids, uint32_t n)
{
    return run_turn(rig, ids, n, 0);
}

static void make_text(struct rig *rig, uint32_t seed, int32_t *ids, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += 4096) {
        uint32_t more = n - at < 4096 ? n - at : 4096;
        memcpy(ids + at, rig_setup(rig, seed + at, more, 1).ids, more * sizeof(*ids));
    }
}

static void a_turn_computes_the_turn(void **state)
{
    struct rig rig;
    int32_t ids[400];
    begin(&rig, 0);
    make_text(&rig, 5, ids, 300);
    assert_int_equal(run_text(&rig, ids, 300), 0);
    memcpy(ids + 300, rig.seqs[0].ids, REPLY * sizeof(*ids));
    make_text(&rig, 6, ids + 300 + REPLY, 30);
    assert_int_equal(run_text(&rig, ids, 350), 300 + REPLY - 1); /* the last id of a reply is not computed */
    /* A reply that ends with a page leaves its state behind the page. */
    memcpy(ids + 350, rig.seqs[1].ids, REPLY * sizeof(*ids));
    assert_int_equal(run_text(&rig, ids, 350 + 15), 300 + REPLY - 1);
    assert_int_equal((350 + 15 + REPLY - 1) % HALO_KV_PAGE_TOKENS, 0);
    memcpy(ids + 365, rig.seqs[2].ids, REPLY * sizeof(*ids));
    assert_int_equal(run_text(&rig, ids, 365 + REPLY), 365 + REPLY - 1);
    rig_finish(&rig);
}

/* Two texts part at position 200: the second leaves a state there, behind a page, which the third finds. */
static void where_texts_part_is_learned(void **state)
{
    struct rig rig;
    int32_t ids[3][260];
    begin(&rig, 0);
    for (uint32_t i = 0; i < 3; i++) {
        make_text(&rig, 9, ids[i], 200);
        make_text(&rig, 20 + i, ids[i] + 200, 60);
    }
    assert_int_equal(run_text(&rig, ids[0], 260), 0);
    assert_int_equal(run_text(&rig, ids[1], 260), 0);
    assert_int_equal(run_text(&rig, ids[2], 260), 192);
    rig_finish(&rig);
}

static void a_grid_of_states_is_left(void **state)
{
    struct rig rig;
    static int32_t ids[2200];
    begin(&rig, 0);
    make_text(&rig, 9, ids, 2200);
    assert_int_equal(run_text(&rig, ids, 2200), 0);
    ids[2100] = ids[2100] == 2 ? 3 : 2;
    assert_int_equal(run_text(&rig, ids, 2200), 2048);
    rig_finish(&rig);
}

/* With one slot the sequence's own takes that of what was left. */
static void one_slot_is_enough(void **state)
{
    struct rig rig;
    int32_t ids[2][150];
    begin(&rig, 1);
    for (uint32_t i = 0; i < 2; i++)
        make_text(&rig, 30 + i, ids[i], 150);
    assert_int_equal(run_text(&rig, ids[0], 150), 0);
    assert_int_equal(run_text(&rig, ids[0], 150), 0); /* a state behind the prompt is gone with the reply */
    assert_int_equal(run_text(&rig, ids[1], 150), 0);
    rig_finish(&rig);
}

/* Three slots: two conversations and what runs. Turns of the one, and requests beside them, take what is covered and
 * what is free, then the latest of neither conversation. */
static void the_last_of_a_conversation_goes_last(void **state)
{
    struct rig rig;
    int32_t one[400], other[60];
    uint32_t n = 40;
    begin(&rig, 3);
    make_text(&rig, 50, other, 60);
    make_text(&rig, 51, one, n);
    assert_int_equal(run_text(&rig, other, 60), 0);
    for (uint32_t turn = 0; turn < 5; turn++) {
        assert_int_equal(run_text(&rig, one, n), turn == 0 ? 0 : n - 10 - 1);
        memcpy(one + n, rig.seqs[rig.n_seqs - 1].ids, REPLY * sizeof(*one));
        make_text(&rig, 60 + turn, one + n + REPLY, 10);
        n += REPLY + 10;
    }
    int32_t next[60 + REPLY + 5];
    memcpy(next, other, sizeof(other));
    memcpy(next + 60, rig.seqs[0].ids, REPLY * sizeof(*next));
    make_text(&rig, 70, next + 60 + REPLY, 5);
    assert_int_equal(run_text(&rig, next, 60 + REPLY + 5), 60 + REPLY - 1); /* its state is still there */
    rig_finish(&rig);
}

/* Cancelled in the middle of a prompt, or sent back to the queue: it goes on where it was. */
static void what_was_computed_is_not_computed_again(void **state)
{
    struct rig rig;
    int32_t ids[1000];
    begin(&rig, 0);
    make_text(&rig, 3, ids, 1000);
    struct halo_sequence_setup setup = rig_setup(&rig, 1, 1, REPLY);
    setup.ids = ids;
    setup.n_prompt = 1000;
    struct rig_seq *seq = rig_submit(&rig, &setup);
    for (int i = 0; i < 4; i++)
        rig_step(&rig);
    uint32_t n = seq->sequence->n_filled;
    assert_true(n >= 100 && n < 1000);
    atomic_store(&seq->sequence->cancel, true);
    rig_run(&rig);
    assert_int_equal(run_text(&rig, ids, 1000), n);
    rig_finish(&rig);
}

/* A conversation whose next turn repeats everything but the generation prompt and what was thought behind it. However
 * long it is, a turn computes its own rows and no others. */
static void a_turn_behind_30000_tokens_computes_the_turn(void **state)
{
    enum { LONG = 30011, HEAD = 3, TURN = 40 }; /* HEAD: of the generation prompt */
    static int32_t ids[LONG + 5 * (REPLY + TURN)];
    for (int window = 0; window < 2; window++) {
        struct halo_plan plan;
        struct rig rig;
        fake_plan(&plan, RIG_VOCAB, 32768, 512, 16, 2048);
        if (window)
            fake_plan_window(&plan, 100, 0);
        else
            fake_plan_states(&plan, 0);
        rig_init_plan(&rig, &plan);
        make_text(&rig, 5, ids, LONG);
        assert_int_equal(run_turn(&rig, ids, LONG, LONG - HEAD), 0);
        uint32_t n = LONG;
        for (uint32_t turn = 1; turn < 4; turn++) {
            uint32_t n_known = n - HEAD;
            make_text(&rig, 100 + turn, ids + n_known, TURN + HEAD); /* not even its first id is the same */
            ids[n_known] = ids[n_known] % 60 + 2 == ids[n_known] ? 2 : ids[n_known];
            n = n_known + TURN + HEAD;
            uint32_t n_cached = run_turn(&rig, ids, n, n - HEAD);
            assert_true(n_cached >= n_known && n - n_cached <= TURN + HEAD);
        }
        rig_finish(&rig);
    }
}

/* Beside a conversation come requests that are not continued, with a text of their own, or (`shared`) every third one
 * with the conversation's and another end. The conversation keeps what its next turn is computed from. */
static void run_beside(bool window, uint32_t n_slots, bool shared)
{
    struct halo_plan plan;
    struct rig rig;
    int32_t talk[600], side[1100];
    uint32_t n = 300;
    fake_plan(&plan, RIG_VOCAB, 4096, 100, 16, 600);
    if (window)
        fake_plan_window(&plan, 70, n_slots * halo_kv_span(70, 100));
    else
        fake_plan_states(&plan, n_slots);
    rig_init_plan(&rig, &plan);
    make_text(&rig, 5, talk, n);
    uint32_t last = rig.n_seqs;
    assert_int_equal(run_turn(&rig, talk, n, n - 5), 0);
    for (uint32_t turn = 0; turn < 4; turn++) {
        memcpy(talk + n, rig.seqs[last].ids, REPLY * sizeof(*talk));
        for (uint32_t i = 0; i < 12 && turn > 0; i++) {
            uint32_t n_shared = shared && i % 3 == 0 ? n - 5 : 0;
            make_text(&rig, 1000 + 20 * turn + i, side + n_shared, 500);
            memcpy(side, talk, n_shared * sizeof(*side));
            assert_true(run_turn(&rig, side, n_shared + 500, n_shared + 490) >= n_shared);
        }
        make_text(&rig, 6 + turn, talk + n + REPLY, 30);
        uint32_t n_end = n + REPLY - 1, n_stable = n - 5;
        n += REPLY + 30;
        last = rig.n_seqs;
        uint32_t n_cached = run_turn(&rig, talk, n, n - 5);
        assert_true(n_cached == n_end || (turn > 0 && shared && n_cached >= n_stable));
    }
    rig_finish(&rig);
}

static void a_side_request_evicts_no_conversation(void **state)
{
    for (int window = 0; window < 2; window++) {
        run_beside(window, 3, false);
        run_beside(window, 8, false);
        run_beside(window, 8, true);
    }
}

/* Conversations that wait for their next turns, and requests beside them, all at once. Returns how many turns begin in
 * front of where their conversations ended. */
static uint32_t turns_lost_beside_a_crowd(uint32_t n_talks, uint32_t n_slots, uint32_t n_checkpoints)
{
    struct halo_plan plan;
    struct rig rig;
    int32_t talks[4][400], side[200];
    uint32_t n = 300, n_lost = 0;
    fake_plan(&plan, RIG_VOCAB, 4096, 100, 16, 600);
    fake_plan_states(&plan, n_slots + n_checkpoints);
    rig_init_checkpoints(&rig, &plan, n_checkpoints);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t t = 0; t < n_talks; t++) {
            uint32_t last = rig.n_seqs;
            if (turn == 0)
                make_text(&rig, 5 + t, talks[t], n);
            uint32_t n_cached = run_turn(&rig, talks[t], n, n - 5);
            n_lost += turn == 2 && n_cached < n - 10 - 1;
            memcpy(talks[t] + n, rig.seqs[last].ids, REPLY * sizeof(*talks[t]));
            make_text(&rig, 10 * turn + t, talks[t] + n + REPLY, 10);
        }
        n += REPLY + 10;
        for (uint32_t i = 0; i < 12 && turn == 1; i++) {
            struct halo_sequence_setup setup = rig_setup(&rig, 1, 1, REPLY);
            make_text(&rig, 1000 + i, side, 200);
            setup.ids = side;
            setup.n_prompt = 200;
            setup.n_stable = 190;
            rig_submit(&rig, &setup);
        }
        rig_run(&rig);
    }
    rig_finish(&rig);
    return n_lost;
}

/* Three slots keep a conversation: its end, the end of what its next turn repeats, and where its last turn began. */
static void a_crowd_leaves_what_is_kept_for_checkpoints(void **state)
{
    for (uint32_t n_slots = 1; n_slots < 4; n_slots++)
        for (uint32_t n_talks = 1; n_talks <= 4; n_talks++)
            assert_int_equal(turns_lost_beside_a_crowd(n_talks, n_slots, 3 * n_talks), 0);
    assert_int_equal(turns_lost_beside_a_crowd(1, 1, 1), 0); /* no checkpoint of the crowd takes a conversation's */
    assert_true(turns_lost_beside_a_crowd(4, 6, 0) > 0);     /* the crowd is one */
}

/* A copy that the device refuses: the text begins anew. */
static void a_copy_that_fails_costs_only_computing(void **state)
{
    struct rig rig;
    int32_t ids[300];
    begin(&rig, 0);
    make_text(&rig, 5, ids, 256);
    assert_int_equal(run_text(&rig, ids, 256), 0);
    memcpy(ids + 256, rig.seqs[0].ids, REPLY * sizeof(*ids));
    rig.control.copy_error = -5;
    assert_int_equal(run_text(&rig, ids, 256 + REPLY), 0);
    rig.control.copy_error = 0;
    assert_int_equal(run_text(&rig, ids, 256 + REPLY), 256 + REPLY - 1);
    /* Nor is a checkpoint left whose copy failed: its page would be taken for one with these ids. */
    make_text(&rig, 7, ids, 300);
    rig.control.copy_error = -5;
    assert_int_equal(run_turn(&rig, ids, 300, 297), 0);
    rig.control.copy_error = 0;
    ids[298] = ids[298] == 2 ? 3 : 2;
    assert_int_equal(run_turn(&rig, ids, 300, 297), 0);
    assert_int_equal(run_turn(&rig, ids, 300, 297), 297);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_computes_the_turn),
        cmocka_unit_test(where_texts_part_is_learned),
        cmocka_unit_test(a_grid_of_states_is_left),
        cmocka_unit_test(one_slot_is_enough),
        cmocka_unit_test(the_last_of_a_conversation_goes_last),
        cmocka_unit_test(what_was_computed_is_not_computed_again),
        cmocka_unit_test(a_turn_behind_30000_tokens_computes_the_turn),
        cmocka_unit_test(a_side_request_evicts_no_conversation),
        cmocka_unit_test(a_crowd_leaves_what_is_kept_for_checkpoints),
        cmocka_unit_test(a_copy_that_fails_costs_only_computing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
