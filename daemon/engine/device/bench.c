/* bench.c: repetitions of prefill and decode, each one run of the device at a time. Device thread. */
#include <engine/bench.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct halo_spread halo_spread_of(double *values, uint32_t n)
{
    assert(n > 0);
    qsort(values, n, sizeof(*values), compare_doubles);
    double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return (struct halo_spread){median, values[0], values[n - 1]};
}

/* Tokens of a sequence. */
static uint64_t length_of(const struct halo_bench_wish *wish)
{
    return (uint64_t)(wish->prefill > 0 ? wish->prefill : 1) + wish->decode;
}

/* Whether the model has room for it. */
static int check_wish(const struct halo_instance *instance, const struct halo_bench_wish *wish,
                      struct halo_fault *fault)
{
    uint32_t prefill = wish->prefill, decode = wish->decode, batch = wish->batch;
    uint32_t max_rows = instance->model->plan.max_rows;
    uint64_t length = length_of(wish);
    if (wish->chunk > max_rows) {
        int r = halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                               "a chunk of %u tokens is more than the %u rows of this model's batches", wish->chunk,
                               max_rows);
        halo_fault_number(fault, "chunk", wish->chunk);
        halo_fault_number(fault, "limit", max_rows);
        return r;
    }
    if (prefill == 0 && decode == 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "prefill and decode are both 0: there is nothing to measure");
    if (length > instance->context) {
        int r = halo_fault_set(fault, HALO_FAULT_CONTEXT_OVERFLOW,
                               "prefill %u and decode %u are more than the context of %u", prefill, decode,
                               instance->context);
        halo_fault_number(fault, "tokens", length);
        halo_fault_number(fault, "context", instance->context);
        return r;
    }
    uint64_t pool_tokens = batch * (uint64_t)halo_kv_pages_for(length) * HALO_KV_PAGE_TOKENS;
    if (batch > HALO_BATCH_OUTPUTS || pool_tokens > instance->kv_tokens) {
        int r = halo_fault_set(
            fault, HALO_FAULT_CONTEXT_OVERFLOW,
            "a batch of %u sequences of %llu tokens is more than %u sequences or the KV pool of %u tokens", batch,
            (unsigned long long)length, HALO_BATCH_OUTPUTS, instance->kv_tokens);
        halo_fault_number(fault, "tokens", pool_tokens);
        halo_fault_number(fault, "kv_tokens", instance->kv_tokens);
        return r;
    }
    return 0;
}

int halo_bench_create(struct halo_bench **ret, struct halo_instance *instance, const struct halo_bench_wish *wish,
                      struct halo_fault *fault)
{
    uint32_t batch = wish->batch, repeat = wish->repeat;
    *ret = NULL;
    int r = check_wish(instance, wish, fault);
    if (r < 0)
        return r;
    struct halo_bench *bench = calloc(1, sizeof(*bench));
    if (!bench)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a bench");
    bench->instance = instance;
    bench->prefill = wish->prefill;
    bench->decode = wish->decode;
    bench->batch = batch;
    bench->repeat = repeat;
    bench->chunk = wish->chunk;
    bench->number = atomic_fetch_add(&instance->n_benches, 1);
    bench->runs = calloc(repeat, sizeof(*bench->runs));
    bench->tables = calloc(batch, sizeof(*bench->tables));
    bool whole = bench->runs && bench->tables &&
                 halo_batch_room_init(&bench->room, instance->model->plan.max_rows, batch, batch,
                                      instance->model->plan.n_vocab) == 0;
    for (uint32_t i = 0; whole && i < batch; i++)
        whole = halo_kv_table_init(&bench->tables[i], (uint32_t)length_of(wish)) == 0;
    if (!whole) {
        halo_bench_destroy(bench);
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a bench of %u runs and %u sequences",
                              repeat, batch);
    }
    *ret = bench;
    return 0;
}

void halo_bench_destroy(struct halo_bench *bench)
{
    if (!bench)
        return;
    for (uint32_t i = 0; bench->tables && i < bench->batch; i++)
        halo_kv_table_finish(&bench->tables[i]);
    halo_batch_room_finish(&bench->room);
    free(bench->tables);
    free(bench->runs);
    free(bench);
}

/* Ids spread over the vocabulary, the same in every run: for decode too, since what a model of random weights goes on
 * with is the same id again and again, whose experts a cache would always hold. Another bench of the same model has
 * others, of which the cache knows nothing yet. */
static int32_t id_at(const struct halo_bench *bench, uint32_t sequence, uint32_t position)
{
    uint64_t mixed = ((uint64_t)bench->number << 48 ^ (uint64_t)sequence << 32 ^ position) * 0x9e3779b97f4a7c15u;
    return (int32_t)((mixed >> 33) % bench->instance->model->plan.n_vocab);
}

/* A prompt of at least one token, so that decode has something to go on from. */
static uint32_t prompt_length(const struct halo_bench *bench)
{
    return bench->prefill > 0 ? bench->prefill : 1;
}

/* The largest logit of an output of the step, -1 when one is no number. */
static int32_t best_id(const struct halo_bench *bench, uint32_t output)
{
    const struct halo_batch *batch = &bench->batch_run;
    uint32_t n_vocab = bench->instance->model->plan.n_vocab;
    const float *logits = bench->room.logits + (size_t)output * n_vocab;
    if (batch->n_top > 0)
        return bench->room.top[output * batch->n_top].id;
    return halo_logits_finite(logits, n_vocab) ? halo_logits_argmax(logits, n_vocab) : -1;
}

static int run(struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_scheduler *scheduler = &bench->instance->scheduler;
    uint64_t start_ns = halo_clock_ns();
    int r = ops->run(bench->instance->device_model, &bench->batch_run, phase, reason);
    uint64_t end_ns = halo_clock_ns();
    bench->phase_ns += end_ns - start_ns;
    if (!bench->decoding)
        halo_pace_note_chunk(&scheduler->pace, bench->batch_run.n_rows,
                             !scheduler->setup.queues || bench->batch_run.n_outputs > 0, start_ns, end_ns);
    if (r < 0) {
        halo_fault_set(&bench->fault, r == -ETIME ? HALO_FAULT_DEVICE_HANG : HALO_FAULT_DEVICE_FAULT,
                       "the device failed in a bench: %s", reason[0] ? reason : strerror(-r));
        return r;
    }
    for (uint32_t i = 0; i < bench->batch_run.n_outputs; i++)
        if (best_id(bench, i) < 0) {
            halo_fault_set(&bench->fault, HALO_FAULT_DEVICE_FAULT, "the logits of a bench are not finite numbers");
            return -EDOM;
        }
    return 0;
}

static void clear_batch(struct halo_bench *bench)
{
    struct halo_batch_room *room = &bench->room;
    bench->batch_run = halo_batch_room_begin(room);
    if (!bench->instance->scheduler.setup.makes_lists)
        return;
    memset(room->whole, 0, bench->batch * sizeof(*room->whole));
    bench->batch_run.n_top = 1;
    bench->batch_run.whole = room->whole;
    bench->batch_run.top = room->top;
}

/* Of a sequence whose next position is this one: what groups with a window need for it and a step. What it gives up is
 * free at once, so that there is always enough. */
static struct halo_batch_seq pages_at(struct halo_bench *bench, struct halo_kv_table *table, uint32_t position)
{
    struct halo_kv_pool *pool = &bench->instance->scheduler.pool;
    halo_kv_table_slide(table, pool, position);
    int r = halo_kv_table_grow(table, pool, prompt_length(bench) + bench->decode);
    assert(r == 0);
    return halo_kv_table_seq(table);
}

/* Rows of the next piece of a prompt: as many as one of a request would have where the cut matters, and few beside the
 * requests of others. */
static uint32_t piece_rows(const struct halo_bench *bench)
{
    const struct halo_scheduler *scheduler = &bench->instance->scheduler;
    uint32_t left = prompt_length(bench) - bench->at_position, rows = bench->instance->model->plan.max_rows;
    bool alone = scheduler->n_running == 0 && scheduler->others.decode_ns <= 0;
    if (bench->chunk > 0)
        rows = bench->chunk;
    else if (!alone && rows > HALO_PACE_CHUNK)
        rows = HALO_PACE_CHUNK;
    else if (!scheduler->setup.any_cut && !scheduler->setup.streams)
        rows = halo_pace_chunk(&scheduler->pace, rows);
    return left < rows ? left : rows;
}

/* The next piece of one sequence's prompt. */
static int prefill_piece(struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase)
{
    struct halo_batch_room *room = &bench->room;
    uint32_t n_prompt = prompt_length(bench), left = n_prompt - bench->at_position, n_rows = piece_rows(bench);
    bench->longest_chunk = n_rows > bench->longest_chunk ? n_rows : bench->longest_chunk;
    clear_batch(bench);
    for (uint32_t i = 0; i < n_rows; i++) {
        room->token[i] = id_at(bench, bench->at_sequence, bench->at_position + i);
        room->pos[i] = (int32_t)(bench->at_position + i);
        room->seq[i] = 0;
    }
    room->seqs[0] = pages_at(bench, &bench->tables[bench->at_sequence], bench->at_position);
    bench->batch_run.n_rows = n_rows;
    bench->batch_run.n_seqs = 1;
    if (n_rows == left) {
        room->output[0] = n_rows - 1;
        bench->batch_run.n_outputs = 1;
    }
    int r = run(bench, ops, phase);
    if (r < 0)
        return r;
    bench->at_position += n_rows;
    if (bench->at_position == n_prompt) {
        bench->at_sequence++;
        bench->at_position = 0;
    }
    return 0;
}

/* One token of every sequence. */
static int decode_step(struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase)
{
    struct halo_batch_room *room = &bench->room;
    uint32_t position = prompt_length(bench) + bench->at_position;
    clear_batch(bench);
    for (uint32_t i = 0; i < bench->batch; i++) {
        room->token[i] = id_at(bench, i, position);
        room->pos[i] = (int32_t)position;
        room->seq[i] = room->output[i] = i;
        room->seqs[i] = pages_at(bench, &bench->tables[i], position);
    }
    bench->batch_run.n_rows = bench->batch_run.n_seqs = bench->batch_run.n_outputs = bench->batch;
    int r = run(bench, ops, phase);
    if (r < 0)
        return r;
    bench->at_position++;
    return 0;
}

static double rate(uint64_t tokens, uint64_t ns)
{
    return ns > 0 ? (double)tokens * 1e9 / (double)ns : 0;
}

static bool borrow_pages(struct halo_bench *bench)
{
    if (!bench->lent)
        bench->lent = halo_scheduler_lend(&bench->instance->scheduler, bench->tables, bench->batch,
                                          prompt_length(bench) + bench->decode);
    return bench->lent;
}

void halo_bench_give_back(struct halo_bench *bench)
{
    if (bench->lent)
        halo_scheduler_take_back(&bench->instance->scheduler, bench->tables, bench->batch);
    bench->lent = false;
}

static void begin(struct halo_bench *bench)
{
    struct halo_plan_cost cost;
    /* Weights are read once a step for the whole batch, K and V for each sequence. */
    halo_plan_cost(&bench->instance->model->plan, prompt_length(bench) + bench->decode / 2, bench->batch, &cost);
    bench->bytes_per_token = (double)(cost.weight_bytes + cost.kv_bytes) / bench->batch;
    bench->begun = true;
}

int halo_bench_step(struct halo_bench *bench, const struct halo_device_ops *ops, struct halo_device_phase *phase)
{
    if (!bench->begun) {
        begin(bench);
        return HALO_BENCH_MORE;
    }
    if (!borrow_pages(bench))
        return HALO_BENCH_WAIT;
    int r = bench->decoding ? decode_step(bench, ops, phase) : prefill_piece(bench, ops, phase);
    if (r < 0) {
        halo_bench_give_back(bench);
        return r;
    }
    struct halo_bench_run *result = &bench->runs[bench->at_run];
    if (!bench->decoding && bench->at_sequence == bench->batch) {
        result->prefill_tok_s = bench->prefill > 0 ? rate((uint64_t)bench->prefill * bench->batch, bench->phase_ns) : 0;
        bench->decoding = true;
        bench->at_position = 0;
        bench->phase_ns = 0;
    }
    if (bench->decoding && bench->at_position == bench->decode) {
        result->decode_tok_s = rate((uint64_t)bench->decode * bench->batch, bench->phase_ns);
        bench->decoding = false;
        bench->at_sequence = bench->at_position = 0;
        bench->phase_ns = 0;
        halo_bench_give_back(bench);
        bench->at_run++;
        atomic_store(&bench->runs_done, bench->at_run);
    }
    return bench->at_run < bench->repeat ? HALO_BENCH_MORE : 0;
}
