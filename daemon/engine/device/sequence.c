/* sequence.c: creation, states and events of a sequence.
 *
 * create runs on a text worker, emit and move on the device thread, destroy on the port's. The ring is sized so that
 * one row's events always fit when has_room said so, whatever the row turns out to be.
 */
#include <engine/sequence.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/state.h>

#define RING_ROWS 64 /* rows of events that a reader may lag behind */
#define PROGRESS_BYTES                                                                                                 \
    (3 *                                                                                                               \
     (uint32_t)sizeof(struct halo_ring_event)) /* a started or a progress event, and a loop's, beside the row's own */

static const char *const state_names[HALO_N_SEQUENCE_STATES] = {
    [HALO_SEQUENCE_QUEUED] = "queued", [HALO_SEQUENCE_PREFILL] = "prefill", [HALO_SEQUENCE_DECODE] = "decode",
    [HALO_SEQUENCE_PAUSED] = "paused", [HALO_SEQUENCE_DONE] = "done",
};

#define BIT(state) HALO_STATE_BIT(HALO_SEQUENCE_##state)
static const unsigned moves[HALO_N_SEQUENCE_STATES] = {
    [HALO_SEQUENCE_QUEUED] = BIT(PREFILL) | BIT(DONE),
    [HALO_SEQUENCE_PREFILL] = BIT(DECODE) | BIT(PAUSED) | BIT(QUEUED) | BIT(DONE),
    [HALO_SEQUENCE_DECODE] = BIT(PAUSED) | BIT(QUEUED) | BIT(DONE),
    [HALO_SEQUENCE_PAUSED] = BIT(PREFILL) | BIT(DECODE) | BIT(QUEUED) | BIT(DONE),
    [HALO_SEQUENCE_DONE] = 0,
};

const char *halo_sequence_state_name(enum halo_sequence_state state)
{
    assert(state < HALO_N_SEQUENCE_STATES);
    return state_names[state];
}

void halo_sequence_move(struct halo_sequence *sequence, enum halo_sequence_state to)
{
    enum halo_sequence_state from = halo_sequence_state_of(sequence);
    assert(from < HALO_N_SEQUENCE_STATES && to < HALO_N_SEQUENCE_STATES);
    assert(halo_state_may_move(moves, from, to));
    atomic_store(&sequence->state, to);
}

/* Feeds what was committed before, keeps what the client has not got, and finds out whether the reply was complete. */
static int replay(struct halo_sequence *s, const struct halo_sequence_setup *setup, struct halo_fault *fault)
{
    size_t bound = s->text.capacity;
    for (uint32_t i = 0; i < setup->n_committed; i++)
        bound += 3 * s->pieces.piece(s->pieces.ud, setup->ids[s->n_prompt + i]).n;
    char *out = halo_arena_alloc(&s->arena, bound, 1);
    if (!out)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %zu bytes of resumed text", bound);
    s->replay = out;
    halo_text_stream_skip(&s->text, setup->bytes_sent);
    for (uint32_t i = 0; i < setup->n_committed && s->outcome == HALO_OUTCOME_NONE; i++) {
        int32_t id = setup->ids[s->n_prompt + i];
        struct halo_span text = {0}, piece = s->pieces.piece(s->pieces.ud, id);
        if (!s->ignore_eos && s->pieces.is_end(s->pieces.ud, id)) {
            s->outcome = HALO_OUTCOME_STOP_TOKEN;
            s->stop_token = id;
        } else {
            if (halo_text_stream_feed(&s->text, piece.bytes, piece.n, &text) == HALO_TEXT_STOPPED)
                s->outcome = HALO_OUTCOME_STOP_STRING;
            memcpy(out + s->n_replay, text.bytes ? text.bytes : "", text.n);
            s->n_replay += text.n;
        }
    }
    if (s->outcome == HALO_OUTCOME_NONE && setup->n_committed >= s->max_tokens)
        s->outcome = HALO_OUTCOME_LENGTH;
    return 0;
}

static int prepare_text(struct halo_sequence *s, const struct halo_sequence_setup *setup, struct halo_fault *fault)
{
    struct halo_text_params params = {
        .stops = setup->stops, .n_stops = setup->n_stops, .max_piece_bytes = s->pieces.max_piece_bytes};
    int r = halo_text_stream_init(&s->text, &s->arena, &params, fault);
    if (r < 0)
        return r;
    return setup->n_committed > 0 ? replay(s, setup, fault) : 0;
}

static int take_memory(struct halo_sequence *s, const struct halo_sequence_setup *setup)
{
    size_t n_biases = setup->sampler.n_biases;
    s->ids =
        malloc((size_t)s->capacity * sizeof(*s->ids)); /* not from the arena: pages of it are touched only when used */
    s->tops = halo_arena_alloc(&s->arena, s->n_top, sizeof(*s->tops));
    struct halo_logit_bias *biases = halo_arena_alloc(&s->arena, n_biases, sizeof(*biases));
    if (!s->ids || !s->tops || !biases)
        return -ENOMEM;
    if (n_biases > 0)
        memcpy(biases, setup->sampler.biases, n_biases * sizeof(*biases));
    s->sampler.biases = biases;
    memcpy(s->ids, setup->ids, ((size_t)s->n_prompt + setup->n_committed) * sizeof(*s->ids));
    uint32_t text_bytes = s->kind == HALO_SEQUENCE_GENERATE ? (uint32_t)s->text.capacity : 0;
    s->final_bytes = s->kind == HALO_SEQUENCE_GENERATE ? halo_ring_bytes(0, text_bytes) : 0;
    s->step_bytes = halo_ring_bytes(s->n_top, 0) + (text_bytes > 0 ? halo_ring_bytes(0, text_bytes) : 0);
    size_t largest = s->step_bytes > s->final_bytes ? s->step_bytes : s->final_bytes;
    int r = halo_kv_table_init(&s->table, s->capacity);
    if (setup->n_stable > 0)
        s->table.places.stable = setup->n_stable;
    return r < 0 ? r : halo_ring_init(&s->ring, RING_ROWS * (size_t)s->step_bytes + 4 * largest);
}

static atomic_uint n_live;

uint32_t halo_sequence_n_live(void)
{
    return atomic_load(&n_live);
}

int halo_sequence_create(struct halo_sequence **ret, const struct halo_sequence_setup *setup,
                         const struct halo_pieces *pieces, struct halo_fault *fault)
{
    *ret = NULL;
    assert(setup->n_prompt > 0 && setup->n_stable <= setup->n_prompt && setup->n_committed <= setup->max_tokens);
    struct halo_sequence *s = calloc(1, sizeof(*s));
    if (!s)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a sequence");
    atomic_fetch_add(&n_live, 1);
    halo_arena_init(&s->arena, 0);
    s->kind = setup->kind;
    s->pieces = *pieces;
    s->sampler = setup->sampler;
    s->n_prompt = setup->n_prompt;
    s->n_resumed = setup->n_committed;
    s->n_ids = setup->n_prompt + setup->n_committed;
    s->max_tokens = setup->max_tokens;
    s->capacity = setup->n_prompt + setup->max_tokens;
    s->ignore_eos = setup->ignore_eos;
    s->want_logprob = setup->want_logprob;
    s->cache_prompt = setup->cache_prompt;
    s->detect_loops = setup->detect_loops;
    s->user = setup->user;
    s->n_top = setup->n_top;
    s->score_from = setup->score_from;
    s->elapsed_ns = setup->elapsed_ns;
    s->arrived_ns = setup->arrived_ns;
    s->deadline_ns = setup->deadline_ns;
    atomic_store(&s->state, HALO_SEQUENCE_QUEUED);
    int r = s->kind == HALO_SEQUENCE_GENERATE ? prepare_text(s, setup, fault) : 0;
    if (r == 0) {
        r = take_memory(s, setup);
        if (r < 0)
            halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a sequence of %u tokens", s->capacity);
    }
    if (r < 0) {
        halo_sequence_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void halo_sequence_destroy(struct halo_sequence *sequence)
{
    if (!sequence)
        return;
    atomic_fetch_sub(&n_live, 1);
    halo_kv_table_finish(&sequence->table);
    halo_ring_finish(&sequence->ring);
    free(sequence->ids);
    halo_arena_finish(&sequence->arena);
    free(sequence);
}

bool halo_sequence_has_room(const struct halo_sequence *s, uint32_t n_rows)
{
    /* A record may waste its own size at the end of the buffer: once for the rows, once for the ending. */
    uint64_t needed = ((uint64_t)n_rows + 1) * s->step_bytes + 2 * (uint64_t)s->final_bytes + PROGRESS_BYTES;
    return halo_ring_room(&s->ring) >= needed;
}

void halo_sequence_emit_started(struct halo_sequence *s, uint64_t now_ns)
{
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, HALO_RING_STARTED, 0, 0);
    assert(event);
    event->t_ns = now_ns;
    event->a = s->n_cached;
    halo_ring_push(&s->ring);
}

void halo_sequence_emit_progress(struct halo_sequence *s, enum halo_ring_kind kind, uint64_t a, uint64_t b)
{
    assert(kind == HALO_RING_QUEUE || kind == HALO_RING_PREFILL);
    if (!halo_sequence_has_room(s, 1))
        return; /* progress is news, not content: a reader that lags this much misses one */
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, kind, 0, 0);
    assert(event);
    event->a = (int64_t)a;
    event->b = (int64_t)b;
    halo_ring_push(&s->ring);
}

static void put_report(struct halo_sequence *s, struct halo_ring_event *event, bool has_logprob, double logprob,
                       uint32_t n_top)
{
    event->has_logprob = has_logprob;
    event->logprob = logprob;
    memcpy(event + 1, s->tops, n_top * sizeof(*s->tops));
}

void halo_sequence_emit_committed(struct halo_sequence *s, int32_t id, uint64_t now_ns, double logprob, uint32_t n_top)
{
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, HALO_RING_COMMITTED, n_top, 0);
    assert(event && s->n_ids > s->n_prompt);
    event->tok_id = id;
    event->a = s->n_ids - s->n_prompt - 1;
    event->t_ns = now_ns;
    put_report(s, event, s->want_logprob, logprob, n_top);
    halo_ring_push(&s->ring);
}

void halo_sequence_emit_row(struct halo_sequence *s, uint32_t pos, bool has_logprob, double logprob, uint32_t n_top)
{
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, HALO_RING_ROW, n_top, 0);
    assert(event && pos < s->n_prompt);
    event->tok_id = s->ids[pos];
    event->a = pos;
    put_report(s, event, has_logprob, logprob, n_top);
    halo_ring_push(&s->ring);
}

void halo_sequence_emit_loop(struct halo_sequence *s)
{
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, HALO_RING_LOOP, 0, 0);
    assert(event && s->loop.period > 0);
    event->a = (int64_t)(s->n_ids - s->n_prompt - s->loop.n_ids);
    halo_ring_push(&s->ring);
}

void halo_sequence_emit_text(struct halo_sequence *s, struct halo_span text)
{
    if (text.n == 0)
        return;
    struct halo_ring_event *event = halo_ring_reserve(&s->ring, HALO_RING_TEXT, 0, (uint32_t)text.n);
    assert(event);
    memcpy(event + 1, text.bytes, text.n);
    halo_ring_push(&s->ring);
}

void halo_sequence_tell(struct halo_sequence *s, struct halo_mailbox *port)
{
    if (!atomic_exchange(&s->events_posted, true))
        halo_note_post(port, &s->events_note, HALO_NOTE_EVENTS);
}
