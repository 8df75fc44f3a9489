/* rig.c: see rig.h. */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

/* cmocka.h wants these headers before it. */
#include <stddef.h>
#include <cmocka.h>

static char pieces[RIG_VOCAB][8];

/* Ids 2..27 are letters; 28, 29 and 30 are the bytes of one euro sign; the rest are two characters. */
static struct halo_span rig_piece(const void *ud, int32_t id)
{
    static const char euro[] = "\xe2\x82\xac";
    if (id < 2 || id >= RIG_VOCAB)
        return (struct halo_span){"", 0};
    if (id >= 28 && id <= 30)
        return (struct halo_span){euro + (id - 28), 1};
    if (id < 28)
        snprintf(pieces[id], sizeof(pieces[id]), "%c", 'a' + id - 2);
    else
        snprintf(pieces[id], sizeof(pieces[id]), " %c", 'A' + id - 31);
    return (struct halo_span){pieces[id], strlen(pieces[id])};
}

static bool rig_is_end(const void *ud, int32_t id)
{
    return id == RIG_END;
}

void rig_init(struct rig *rig, uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages)
{
    rig_init_vocab(rig, RIG_VOCAB, max_rows, max_outputs, n_pages);
}

void rig_init_vocab(struct rig *rig, uint32_t n_vocab, uint32_t max_rows, uint32_t max_outputs, uint32_t n_pages)
{
    struct halo_plan plan;
    fake_plan(&plan, n_vocab, 1024, max_rows, max_outputs, n_pages);
    rig_init_plan(rig, &plan);
}

void rig_init_plan(struct rig *rig, const struct halo_plan *plan)
{
    rig_init_checkpoints(rig, plan, 0);
}

void rig_init_checkpoints(struct rig *rig, const struct halo_plan *plan, uint32_t n_checkpoints)
{
    memset(rig, 0, sizeof(*rig));
    fake_control = &rig->control;
    rig->plan = *plan;
    assert_int_equal(halo_mailbox_init(&rig->port, false), 0);
    rig->model = fake_model(&rig->plan);
    rig->seqs = calloc(RIG_MAX, sizeof(*rig->seqs));
    struct halo_scheduler_setup setup = {.ops = fake_device(),
                                         .device_model = rig->model,
                                         .plan = &rig->plan,
                                         .any_cut = true,
                                         .n_checkpoints = n_checkpoints,
                                         .max_queued = 256,
                                         .phase = &rig->phase,
                                         .stats = &rig->stats,
                                         .port = &rig->port,
                                         .lost = &rig->lost};
    assert_int_equal(halo_scheduler_init(&rig->scheduler, &setup), 0);
}

void rig_finish(struct rig *rig)
{
    assert_int_equal(rig->n_open, 0);
    assert_int_equal(halo_kv_pool_available(&rig->scheduler.pool), rig->plan.kv[0].n_pages); /* no page is lost */
    for (uint32_t s = 0; s < rig->scheduler.pool.n_sides; s++)
        assert_int_equal(halo_kv_side_available(&rig->scheduler.pool.sides[s]), rig->plan.kv[s + 1].n_pages);
    assert_int_equal(atomic_load(&rig->stats.n_queued), 0);
    assert_int_equal(atomic_load(&rig->stats.n_running), 0);
    halo_scheduler_finish(&rig->scheduler);
    fake_device()->model_destroy(rig->model);
    assert_null(halo_mailbox_drain(&rig->port));
    halo_mailbox_finish(&rig->port);
    free(rig->seqs);
}

struct halo_sequence_setup rig_setup(struct rig *rig, uint32_t seed, uint32_t n_prompt, uint32_t max_tokens)
{
    static int32_t ids[4096];
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    assert_true(n_prompt <= 4096);
    for (uint32_t i = 0; i < n_prompt; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = 2 + (int32_t)((state >> 33) % (RIG_VOCAB - 2));
    }
    return (struct halo_sequence_setup){.kind = HALO_SEQUENCE_GENERATE,
                                        .ids = ids,
                                        .n_prompt = n_prompt,
                                        .max_tokens = max_tokens,
                                        .ignore_eos = true,
                                        .cache_prompt = true,
                                        .sampler = {.temperature = 0, .top_p = 1, .repeat_penalty = 1, .seed = seed},
                                        .arrived_ns = halo_clock_ns()};
}

struct rig_seq *rig_submit(struct rig *rig, const struct halo_sequence_setup *setup)
{
    static const struct halo_pieces vocabulary = {NULL, rig_piece, rig_is_end, 8};
    struct halo_fault fault = {0};
    assert_true(rig->n_seqs < RIG_MAX);
    struct rig_seq *seq = &rig->seqs[rig->n_seqs++];
    if (halo_sequence_create(&seq->sequence, setup, &vocabulary, &fault) < 0)
        fail_msg("%s", fault.text);
    seq->job.seq = seq;
    seq->sequence->job = &seq->job;
    memcpy(seq->text, seq->sequence->replay ? seq->sequence->replay : "", seq->sequence->n_replay);
    seq->n_text = (uint32_t)seq->sequence->n_replay;
    rig->n_open++;
    halo_scheduler_submit(&rig->scheduler, seq->sequence);
    return seq;
}

static void take_event(struct rig_seq *seq, const struct halo_ring_event *event)
{
    switch (event->kind) {
    case HALO_RING_QUEUE:
        assert_int_equal(seq->n_started, 0);
        assert_true(event->a <= event->b);
        seq->n_queue_progress++;
        break;
    case HALO_RING_STARTED:
        seq->n_started++;
        seq->n_started_cached = event->a;
        break;
    case HALO_RING_PREFILL: seq->n_progress++; break;
    case HALO_RING_COMMITTED:
        assert_int_equal(seq->n_started, 1);
        assert_int_equal(event->a, seq->n_ids + seq->sequence->n_resumed);
        seq->n_top = event->n_top;
        seq->logprobs[seq->n_ids] = event->logprob;
        seq->ids[seq->n_ids++] = event->tok_id;
        break;
    case HALO_RING_TEXT:
        assert_true(seq->n_text + event->n_text < sizeof(seq->text));
        memcpy(seq->text + seq->n_text, halo_ring_text(event), event->n_text);
        seq->n_text += event->n_text;
        break;
    case HALO_RING_ROW:
        if (seq->n_rows == 0)
            seq->first_row = (uint32_t)event->a;
        assert_int_equal(event->a, seq->first_row + seq->n_rows);
        seq->row_has[seq->n_rows] = event->has_logprob;
        seq->row_logprobs[seq->n_rows++] = event->logprob;
        seq->n_top = event->n_top;
        break;
    case HALO_RING_LOOP:
        seq->n_loops++;
        seq->loop_at = seq->n_ids;
        seq->loop_start = event->a;
        seq->loop = seq->sequence->loop;
        break;
    case HALO_RING_SKIP: fail_msg("the ring keeps these to itself");
    }
}

static void read_ring(struct rig_seq *seq)
{
    const struct halo_ring_event *event;
    while ((event = halo_ring_peek(&seq->sequence->ring))) {
        take_event(seq, event);
        halo_ring_pop(&seq->sequence->ring);
    }
    atomic_store(&seq->sequence->stalled, false);
}

void rig_collect(struct rig *rig)
{
    struct halo_mail *mail = halo_mailbox_drain(&rig->port);
    while (mail) {
        struct halo_note *note = halo_note_of(mail);
        mail = mail->next;
        struct halo_sequence *sequence = note->what == HALO_NOTE_EVENTS
                                             ? HALO_NOTE_ITEM(note, struct halo_sequence, events_note)
                                             : HALO_NOTE_ITEM(note, struct halo_sequence, note);
        struct rig_seq *seq = sequence->job->seq;
        if (note->what == HALO_NOTE_EVENTS) {
            atomic_store(&sequence->events_posted, false);
            if (!seq->blocked)
                read_ring(seq);
            continue;
        }
        assert_int_equal(note->what, HALO_NOTE_SEQUENCE_DONE);
        assert_int_equal(seq->n_done++, 0);
        read_ring(seq);
        seq->text[seq->n_text] = '\0';
        seq->outcome = sequence->outcome;
        seq->fault = sequence->fault;
        seq->n_preempted = sequence->n_preempted;
        seq->n_prompt = sequence->n_prompt;
        seq->n_cached = sequence->n_cached;
        seq->stopped_by = sequence->text.stopped_by;
        seq->nll = sequence->n_nll ? sequence->nll_sum / sequence->n_nll : 0;
        halo_sequence_destroy(sequence);
        seq->sequence = NULL;
        rig->n_open--;
    }
}

int rig_step(struct rig *rig)
{
    struct halo_fault fault = {0};
    int r = halo_scheduler_step(&rig->scheduler, &fault);
    rig_collect(rig);
    return r;
}

void rig_run(struct rig *rig)
{
    for (int i = 0; rig->n_open > 0; i++) {
        int r = rig_step(rig);
        if (i > 100000 || (r == HALO_SCHEDULER_IDLE && rig->n_open > 0))
            fail_msg("%u sequences are open and nothing moves after %d steps", rig->n_open, i);
    }
}
