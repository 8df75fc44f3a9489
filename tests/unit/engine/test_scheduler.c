/* test_scheduler.c: the life of sequences on the scripted device: replies, ends, refusals, faults, pauses, resumes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include "rig.h"

/* The ids of a setup when it runs by itself on a roomy device. */
static uint32_t alone(const struct halo_sequence_setup *setup, int32_t *ids)
{
    struct fake_control *kept = fake_control;
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    rig.control.favourite = kept->favourite;
    rig.control.favourite_every = kept->favourite_every;
    struct rig_seq *seq = rig_submit(&rig, setup);
    rig_run(&rig);
    uint32_t n = seq->n_ids;
    memcpy(ids, seq->ids, n * sizeof(*ids));
    rig_finish(&rig);
    fake_control = kept;
    return n;
}

static void a_reply_has_its_length_and_depends_on_every_token(void **state)
{
    struct rig rig;
    rig_init(&rig, 8, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 1, 30, 40);
    struct rig_seq *a = rig_submit(&rig, &setup);
    ((int32_t *)setup.ids)[3] ^= 1; /* copied before: the second one differs in its fourth token */
    struct rig_seq *b = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(a->outcome, HALO_OUTCOME_LENGTH);
    assert_int_equal(a->n_ids, 40);
    assert_int_equal(a->n_started, 1);
    assert_int_equal(b->n_ids, 40);
    assert_memory_not_equal(a->ids, b->ids, sizeof(a->ids[0]) * 40);
    rig_finish(&rig);
}

static void an_end_token_ends_unless_ignored(void **state)
{
    struct rig rig;
    rig_init(&rig, 8, 8, 64);
    rig.control.favourite = RIG_END;
    rig.control.favourite_every = 10;
    struct halo_sequence_setup setup = rig_setup(&rig, 2, 12, 40);
    setup.ignore_eos = false;
    struct rig_seq *stopped = rig_submit(&rig, &setup);
    setup.ignore_eos = true;
    struct rig_seq *going = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(stopped->outcome, HALO_OUTCOME_STOP_TOKEN);
    assert_int_equal(stopped->ids[stopped->n_ids - 1], RIG_END); /* committed like any other */
    assert_true(stopped->n_ids < 40);
    assert_int_equal(going->outcome, HALO_OUTCOME_LENGTH);
    assert_int_equal(going->n_ids, 40);
    assert_memory_equal(stopped->ids, going->ids, stopped->n_ids * sizeof(int32_t));
    rig_finish(&rig);
}

/* Text of ids as the rig's vocabulary has it, whole. */
static size_t text_of(struct rig *rig, const struct rig_seq *seq, char *text)
{
    memcpy(text, seq->text, seq->n_text);
    return seq->n_text;
}

static void a_stop_string_across_tokens_cuts_exactly(void **state)
{
    struct rig rig;
    rig_init(&rig, 8, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 5, 12, 60);
    struct rig_seq *free_running = rig_submit(&rig, &setup);
    rig_run(&rig);
    char text[8192];
    size_t n = text_of(&rig, free_running, text);
    assert_true(n > 40);
    size_t at = 10; /* six whole characters from the middle: they span tokens */
    for (size_t k = 0; k < 6; k++)
        if (text[at + k] & 0x80) {
            at += k + 1;
            k = SIZE_MAX;
        }
    struct halo_span stops[2] = {{"\x01never", 6}, {text + at, 6}};
    setup.stops = stops;
    setup.n_stops = 2;
    struct rig_seq *stopped = rig_submit(&rig, &setup);
    rig_run(&rig);
    const char *first = memmem(text, n, text + at, 6);
    assert_int_equal(stopped->outcome, HALO_OUTCOME_STOP_STRING);
    assert_int_equal(stopped->stopped_by, 1);
    assert_int_equal(stopped->n_text, first - text);
    assert_memory_equal(stopped->text, text, stopped->n_text);
    assert_true(stopped->n_ids < free_running->n_ids);
    rig_finish(&rig);
}

static void characters_across_tokens_come_whole(void **state)
{
    struct rig rig;
    rig_init(&rig, 8, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 6, 4, 7);
    struct halo_logit_bias biases[1];
    setup.sampler.biases = biases;
    setup.sampler.n_biases = 1;
    biases[0] = (struct halo_logit_bias){29, 1000}; /* nothing but the second byte of three */
    struct rig_seq *broken = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(broken->n_text, 7 * 3); /* seven replacement characters, each complete */
    for (int i = 0; i < 7; i++)
        assert_memory_equal(broken->text + 3 * i, "\xef\xbf\xbd", 3);
    biases[0].id = 28; /* the first byte again and again; the last one is still unfinished at the end */
    struct rig_seq *cut = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(cut->n_text, 7 * 3);
    rig_finish(&rig);
}

static void cancel_works_in_queue_prefill_and_decode(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 1, 64); /* one at a time */
    struct halo_sequence_setup setup = rig_setup(&rig, 7, 200, 400);
    struct rig_seq *running = rig_submit(&rig, &setup), *waiting = rig_submit(&rig, &setup);
    rig_step(&rig);
    assert_int_equal(halo_sequence_state_of(running->sequence), HALO_SEQUENCE_PREFILL);
    assert_int_equal(halo_sequence_state_of(waiting->sequence), HALO_SEQUENCE_QUEUED);
    atomic_store(&waiting->sequence->cancel, true);
    rig_step(&rig);
    assert_int_equal(waiting->outcome, HALO_OUTCOME_CANCELLED);
    assert_int_equal(waiting->n_started, 0);
    atomic_store(&running->sequence->cancel, true);
    assert_int_equal(rig_step(&rig), HALO_SCHEDULER_IDLE);
    assert_int_equal(running->outcome, HALO_OUTCOME_CANCELLED);
    assert_int_equal(running->n_ids, 0);
    setup = rig_setup(&rig, 7, 4, 400);
    struct rig_seq *decoding = rig_submit(&rig, &setup);
    for (int i = 0; i < 5; i++)
        rig_step(&rig);
    uint32_t n = decoding->n_ids;
    assert_true(n >= 4);
    atomic_store(&decoding->sequence->cancel, true);
    rig_step(&rig);
    assert_int_equal(decoding->outcome, HALO_OUTCOME_CANCELLED);
    assert_int_equal(decoding->n_ids, n); /* within one step, and no token after it */
    assert_int_equal(rig.stats.cancelled_queued, 1);
    assert_int_equal(rig.stats.cancelled_prefill, 1);
    assert_int_equal(rig.stats.cancelled_decode, 1);
    rig_finish(&rig);
}

static void a_deadline_ends_with_what_there_is(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 1, 64);
    rig.control.run_us = 2000;
    struct halo_sequence_setup setup = rig_setup(&rig, 8, 4, 900);
    setup.deadline_ns = halo_clock_ns() + 30000000;
    struct rig_seq *late = rig_submit(&rig, &setup);
    struct halo_sequence_setup waiting_setup = setup;
    struct rig_seq *waiting = rig_submit(&rig, &waiting_setup);
    assert_int_equal(halo_scheduler_next_deadline_ns(&rig.scheduler), setup.deadline_ns);
    rig_run(&rig);
    assert_int_equal(late->outcome, HALO_OUTCOME_DEADLINE);
    assert_true(late->n_ids > 0 && late->n_ids < 900);
    assert_int_equal(waiting->outcome, HALO_OUTCOME_FAULT); /* no token yet: an error that may be tried again */
    assert_int_equal(waiting->fault.code, HALO_FAULT_DEADLINE);
    assert_non_null(strstr(waiting->fault.text, "queued"));
    assert_int_equal(halo_scheduler_next_deadline_ns(&rig.scheduler), UINT64_MAX);
    rig_finish(&rig);
}

static void nonsense_logits_end_only_their_sequence(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 9, 20, 30);
    struct rig_seq *good = rig_submit(&rig, &setup);
    int32_t want[1024];
    uint32_t n_want = alone(&setup, want);
    struct halo_sequence_setup bad_setup = rig_setup(&rig, 10, 20, 30);
    int32_t fatal = 0;
    for (int i = 0; i < 20 && !fatal; i++) { /* a token that only the second one has */
        bool in_good = false;
        for (uint32_t k = 0; k < 20 + n_want; k++)
            in_good |= (k < 20 ? good->sequence->ids[k] : want[k - 20]) == bad_setup.ids[i];
        fatal = in_good ? 0 : bad_setup.ids[i];
    }
    assert_true(fatal > 0);
    struct rig_seq *bad = rig_submit(&rig, &bad_setup);
    rig.control.nan_token = fatal;
    rig_run(&rig);
    assert_int_equal(bad->outcome, HALO_OUTCOME_FAULT);
    assert_int_equal(bad->fault.code, HALO_FAULT_DEVICE_FAULT);
    assert_int_equal(bad->n_ids, 0);
    assert_int_equal(bad->n_text, 0);
    assert_int_equal(good->outcome, HALO_OUTCOME_LENGTH);
    assert_int_equal(good->n_ids, n_want);
    assert_memory_equal(good->ids, want, n_want * sizeof(*want));
    rig_finish(&rig);
}

static void a_failed_run_ends_those_in_it_once(void **state)
{
    struct rig rig;
    rig_init(&rig, 64, 4, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 11, 8, 30);
    for (int i = 0; i < 6; i++)
        rig_submit(&rig, &setup);
    rig.control.fail_run = 3;
    rig.control.fail_error = -EINVAL;
    assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(rig_step(&rig), -EINVAL);
    assert_int_equal(rig.n_open, 3); /* 3 of 4 outputs are for replies; the other three wait */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig.seqs[i].fault.code, HALO_FAULT_DEVICE_FAULT);
        assert_non_null(strstr(rig.seqs[i].fault.text, "told to fail in run 3"));
        assert_int_equal(rig.seqs[i].n_ids, 2);
    }
    rig_run(&rig);
    for (int i = 3; i < 6; i++)
        assert_int_equal(rig.seqs[i].outcome, HALO_OUTCOME_LENGTH);
    assert_false(atomic_load(&rig.lost)); /* -EINVAL: only that step */
    rig.control.fail_run = rig.control.n_runs + 1;
    rig.control.fail_error = -ETIME;
    struct rig_seq *hung = rig_submit(&rig, &setup);
    assert_int_equal(rig_step(&rig), -ETIME);
    assert_int_equal(hung->fault.code, HALO_FAULT_DEVICE_HANG);
    assert_true(atomic_load(&rig.lost)); /* the step says so itself, not whoever reads its result */
    rig_finish(&rig);
}

static void what_cannot_fit_is_refused_with_the_numbers(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 4, 4); /* 128 tokens */
    struct halo_sequence_setup setup = rig_setup(&rig, 12, 100, 29);
    struct rig_seq *seq = rig_submit(&rig, &setup);
    rig_collect(&rig);
    assert_int_equal(seq->fault.code, HALO_FAULT_CONTEXT_OVERFLOW);
    assert_non_null(strstr(seq->fault.text, "129 tokens"));
    assert_non_null(strstr(seq->fault.text, "128 tokens"));
    setup.max_tokens = 28;
    seq = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(seq->n_ids, 28);
    rig_finish(&rig);
}

static void the_queue_has_a_limit(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 1, 64);
    rig.scheduler.setup.max_queued = 5;
    struct halo_sequence_setup setup = rig_setup(&rig, 13, 4, 4);
    for (int i = 0; i < 8; i++)
        rig_submit(&rig, &setup);
    rig_run(&rig);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(rig.seqs[i].n_done, 1);
        assert_int_equal(rig.seqs[i].fault.code, i < 5 ? HALO_FAULT_NONE : HALO_FAULT_QUEUE_FULL);
    }
    assert_int_equal(rig.stats.refused_queue_full, 3);
    rig_finish(&rig);
}

static void a_slow_reader_pauses_only_itself(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 8, 256);
    struct halo_sequence_setup setup = rig_setup(&rig, 14, 8, 1000);
    int32_t want[1024];
    uint32_t n_want = alone(&setup, want);
    struct rig_seq *slow = rig_submit(&rig, &setup), *fast = rig_submit(&rig, &setup);
    slow->blocked = true;
    while (fast->n_done == 0)
        assert_int_equal(rig_step(&rig), 0);
    assert_int_equal(fast->n_ids, n_want);
    assert_int_equal(halo_sequence_state_of(slow->sequence), HALO_SEQUENCE_PAUSED);
    assert_int_equal(rig_step(&rig), HALO_SCHEDULER_IDLE);
    assert_true(atomic_load(&slow->sequence->stalled)); /* so the port knows that it must kick */
    slow->blocked = false;
    atomic_store(&slow->sequence->events_posted, false);
    halo_sequence_tell(slow->sequence, &rig.port); /* the note that the sleeping reader swallowed */
    rig_collect(&rig);
    rig_run(&rig);
    assert_int_equal(slow->n_ids, n_want);
    assert_memory_equal(slow->ids, want, n_want * sizeof(*want));
    rig_finish(&rig);
}

static void hold_takes_a_sequence_out_and_back(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 15, 40, 50);
    int32_t want[1024];
    alone(&setup, want);
    struct rig_seq *seq = rig_submit(&rig, &setup);
    for (int round = 0; seq->n_done == 0; round++) {
        bool hold = round % 5 == 2;
        uint32_t before = seq->n_ids;
        atomic_store(&seq->sequence->hold, hold);
        assert_int_equal(rig_step(&rig), hold ? HALO_SCHEDULER_IDLE : 0);
        assert_true(!hold || seq->n_ids == before);
        assert_true(round < 1000);
    }
    assert_memory_equal(seq->ids, want, 50 * sizeof(*want));
    rig_finish(&rig);
}

/* A reply that was cut anywhere goes on as if it had not been: the same ids, the same text, no byte twice. */
static void a_resumed_reply_continues_byte_for_byte(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 16, 10, 30);
    setup.sampler.temperature = 0.9;
    setup.sampler.repeat_penalty = 1.3;
    setup.sampler.repeat_window = 16;
    struct rig_seq *whole = rig_submit(&rig, &setup);
    rig_run(&rig);
    for (uint32_t cut = 0; cut <= 30; cut += 3) {
        int32_t ids[64];
        memcpy(ids, setup.ids, 10 * sizeof(*ids));
        memcpy(ids + 10, whole->ids, cut * sizeof(*ids));
        struct halo_sequence_setup again = setup;
        again.ids = ids;
        again.n_committed = cut;
        again.bytes_sent = cut / 2; /* the client has less text than was committed */
        struct rig_seq *rest = rig_submit(&rig, &again);
        rig_run(&rig);
        assert_int_equal(rest->outcome, HALO_OUTCOME_LENGTH);
        assert_int_equal(rest->n_ids, 30 - cut);
        assert_memory_equal(rest->ids, whole->ids + cut, rest->n_ids * sizeof(*ids));
        assert_int_equal(rest->n_text, whole->n_text - cut / 2);
        assert_memory_equal(rest->text, whole->text + cut / 2, rest->n_text);
    }
    rig_finish(&rig);
}

static void logprobs_are_those_of_the_unmodified_logits(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 8, 64);
    struct halo_sequence_setup setup = rig_setup(&rig, 17, 6, 12);
    setup.want_logprob = true;
    setup.n_top = RIG_VOCAB;
    struct rig_seq *plain = rig_submit(&rig, &setup);
    struct halo_logit_bias bias = {0, 500};
    setup.sampler.biases = &bias; /* forces token 0 everywhere */
    setup.sampler.n_biases = 1;
    struct rig_seq *forced = rig_submit(&rig, &setup);
    rig_run(&rig);
    assert_int_equal(plain->n_top, RIG_VOCAB);
    assert_int_equal(forced->ids[0], 0);
    assert_true(forced->logprobs[0] < plain->logprobs[0]); /* greedy took the best; the forced one is not it */
    assert_true(plain->logprobs[0] < 0 && forced->logprobs[0] > -20); /* a bias of 500 did not leak in */
    rig_finish(&rig);
}

static void waiting_and_prefill_are_reported(void **state)
{
    struct rig rig;
    rig_init(&rig, 16, 1, 64);
    rig.control.row_us = 1000;
    struct halo_sequence_setup setup = rig_setup(&rig, 18, 300, 2);
    struct rig_seq *long_prompt = rig_submit(&rig, &setup);
    rig_step(&rig);
    setup = rig_setup(&rig, 19, 300, 2);
    struct rig_seq *second = rig_submit(&rig, &setup), *third = rig_submit(&rig, &setup);
    uint64_t start_ns = halo_clock_ns();
    rig_run(&rig);
    uint64_t most = (halo_clock_ns() - start_ns) / 100000000 + 1;
    assert_true(long_prompt->n_progress >= 1 && long_prompt->n_progress <= most); /* at most 10 a second */
    assert_int_equal(second->n_queue_progress, 0); /* was next from the start: nothing changed before it started */
    assert_true(third->n_queue_progress >= 1 && third->n_queue_progress <= most);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_its_length_and_depends_on_every_token),
        cmocka_unit_test(an_end_token_ends_unless_ignored),
        cmocka_unit_test(a_stop_string_across_tokens_cuts_exactly),
        cmocka_unit_test(characters_across_tokens_come_whole),
        cmocka_unit_test(cancel_works_in_queue_prefill_and_decode),
        cmocka_unit_test(a_deadline_ends_with_what_there_is),
        cmocka_unit_test(nonsense_logits_end_only_their_sequence),
        cmocka_unit_test(a_failed_run_ends_those_in_it_once),
        cmocka_unit_test(what_cannot_fit_is_refused_with_the_numbers),
        cmocka_unit_test(the_queue_has_a_limit),
        cmocka_unit_test(a_slow_reader_pauses_only_itself),
        cmocka_unit_test(hold_takes_a_sequence_out_and_back),
        cmocka_unit_test(a_resumed_reply_continues_byte_for_byte),
        cmocka_unit_test(waiting_and_prefill_are_reported),
        cmocka_unit_test(logprobs_are_those_of_the_unmodified_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
