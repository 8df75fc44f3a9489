/* fake_device.c: see fake_device.h. Allocates nothing in run(), like a real one. */
#include "fake_device.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_control *fake_control;

struct halo_device {
    int unused;
};

/* What a recurrent layer would have come to. */
struct fake_state {
    uint64_t hash, n; /* n: positions */
};

struct halo_device_model {
    const struct halo_plan *plan;
    struct fake_state *states[HALO_KV_GROUPS_MAX]; /* [n_pages] of groups of states */
    int32_t *cells[HALO_KV_GROUPS_MAX];            /* [n_pages * 32] the token whose K and V would be there */
    uint8_t **weights;
    uint64_t n_bytes;
    bool sealed;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

static int fake_probe(const struct halo_device_options *options, char *reason)
{
    return 0;
}

static int fake_open(struct halo_device **ret, const struct halo_device_options *options, char *reason)
{
    if (fake_control->open_error) {
        snprintf(reason, HALO_DEVICE_REASON, "the fake device was told not to open");
        return fake_control->open_error;
    }
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

static void fake_close(struct halo_device *device)
{
    atomic_fetch_add(&fake_control->n_closed, 1);
    free(device);
}

static void fake_describe(const struct halo_device *device, struct halo_device_info *ret)
{
    *ret = (struct halo_device_info){.features = fake_control->not_invariant ? 0 : HALO_DEVICE_BATCH_INVARIANT,
                                     .n_threads = 1,
                                     .batch_rows = fake_control->batch_rows,
                                     .memory_bytes = 1ull << 40,
                                     .free_bytes = 1ull << 40};
    uint64_t taken = atomic_load(&fake_control->taken_bytes) + atomic_load(&fake_control->others_bytes);
    if (fake_control->free_bytes)
        ret->memory_bytes = ret->free_bytes = fake_control->free_bytes;
    ret->free_bytes -= ret->free_bytes < taken ? ret->free_bytes : taken;
    strcpy(ret->name, "fake");
    strcpy(ret->kv_layout, "fake");
    strcpy(ret->detail, "scripted");
    strcpy(ret->runtime, "/opt/fake/libfake.so");
    ret->runtime_version = 70000042;
    strcpy(ret->kernel_file, "/opt/fake/kernels.fake");
    strcpy(ret->kernel_arch, "fake");
    strcpy(ret->kernel_sha256, "0123abcd");
    ret->n_gpus = fake_control->is_two ? 2 : 0;
    ret->n_notices = atomic_load(&fake_control->n_notices);
    if (ret->n_notices > 0)
        strcpy(ret->notice, "a seal goes without something");
}

static int fake_supports(const struct halo_device *device, const struct halo_plan *plan, uint32_t index, char *reason)
{
    if (!fake_control || !fake_control->lacks_q4 || plan->kv[0].type != HALO_KV_Q4)
        return 0;
    snprintf(reason, HALO_DEVICE_REASON, "no q4");
    return -ENOTSUP;
}

static void fake_estimate(const struct halo_device *device, const struct halo_plan *plan, uint64_t *ret_weights,
                          uint64_t *ret_kv, uint64_t *ret_scratch)
{
    *ret_weights = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++)
        *ret_weights += plan->weights[i].n_bytes;
    *ret_kv = 0;
    for (uint32_t group = 0; group < plan->n_kv_groups; group++)
        *ret_kv += plan->kv[group].n_pages * halo_kv_page_bytes(&plan->kv[group]);
    *ret_scratch = 4096 + (fake_control ? (uint64_t)plan->max_rows * fake_control->scratch_row_bytes : 0);
}

static int fake_divide(const struct halo_device *device, const struct halo_plan *plan,
                       struct halo_device_share ret[HALO_DEVICE_GPUS_MAX])
{
    uint64_t weights, kv, scratch;
    if (!fake_control->is_two)
        return -ENOTSUP;
    fake_estimate(device, plan, &weights, &kv, &scratch);
    ret[0] = (struct halo_device_share){.first_layer = HALO_NONE, .last_layer = HALO_NONE, .kv_bytes = kv / 2};
    ret[1] = (struct halo_device_share){.weights_bytes = weights, .kv_bytes = kv - kv / 2};
    return 0;
}

static void fake_destroy(struct halo_device_model *model)
{
    if (!model)
        return;
    for (uint32_t i = 0; model->weights && i < model->plan->n_weights; i++)
        free(model->weights[i]);
    free(model->weights);
    atomic_fetch_sub(&fake_control->taken_bytes, model->n_bytes);
    for (uint32_t group = 0; group < HALO_KV_GROUPS_MAX; group++) {
        free(model->cells[group]);
        free(model->states[group]);
    }
    free(model);
}

static int fake_create(struct halo_device *device, const struct halo_plan *plan, struct halo_device_model **ret,
                       char *reason)
{
    struct halo_device_model *model = calloc(1, sizeof(*model));
    assert(model);
    uint64_t weights, kv, scratch;
    fake_estimate(device, plan, &weights, &kv, &scratch);
    model->n_bytes = weights + kv + scratch;
    atomic_fetch_add(&fake_control->taken_bytes, model->n_bytes);
    model->plan = plan;
    model->weights = calloc(plan->n_weights + 1, sizeof(*model->weights));
    assert(model->weights);
    for (uint32_t group = 0; group < plan->n_kv_groups; group++) {
        size_t n_bytes = (size_t)plan->kv[group].n_pages * HALO_KV_PAGE_TOKENS * sizeof(*model->cells[0]);
        model->cells[group] = malloc(n_bytes);
        model->states[group] = calloc(plan->kv[group].n_pages + 1, sizeof(*model->states[group]));
        assert(model->cells[group] && model->states[group]);
        memset(model->cells[group], 0xff, n_bytes);
    }
    for (uint32_t i = 0; i < plan->n_weights; i++)
        model->weights[i] = malloc(plan->weights[i].n_bytes);
    *ret = model;
    return 0;
}

struct halo_device_model *fake_model(const struct halo_plan *plan)
{
    struct halo_device_model *model;
    char reason[HALO_DEVICE_REASON];
    fake_create(NULL, plan, &model, reason);
    model->sealed = true;
    return model;
}

static int fake_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    *ret = (struct halo_device_slot){model->weights[index], false};
    return 0;
}

static int fake_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    while (atomic_load(&fake_control->hang_weights))
        usleep(1000);
    if (fake_control->refuse_weight != index + 1)
        return 0;
    snprintf(reason, HALO_DEVICE_REASON, "the fake device does not like it");
    return -EINVAL;
}

static int fake_seal(struct halo_device_model *model, char *reason)
{
    atomic_fetch_add(&fake_control->n_notices, fake_control->lacks);
    model->sealed = true;
    return 0;
}

/* Where a group has the token of a position of the sequence. */
static int32_t *cell(const struct halo_device_model *model, const struct halo_batch_seq *seq, uint32_t group,
                     uint32_t pos)
{
    uint32_t page = seq->pages[group][pos / HALO_KV_PAGE_TOKENS];
    assert(page < model->plan->kv[group].n_pages);
    return &model->cells[group][page * HALO_KV_PAGE_TOKENS + pos % HALO_KV_PAGE_TOKENS];
}

/* Whether the groups behind the first have the same tokens as far as a row at `pos` sees. */
static void check_windows(const struct halo_device_model *model, const struct halo_batch_seq *seq, uint32_t pos)
{
    for (uint32_t group = 1; group < model->plan->n_kv_groups; group++) {
        uint32_t window = model->plan->kv[group].window;
        if (model->plan->kv[group].state_width > 0)
            continue;
        for (uint32_t p = window > 0 && pos >= window ? pos + 1 - window : 0; p <= pos; p++)
            assert(*cell(model, seq, group, p) == *cell(model, seq, 0, p));
    }
}

/* Hash of the tokens of positions 0..pos, and whether the fatal token is among them. */
static uint64_t hash_prefix(const struct halo_device_model *model, const struct halo_batch_seq *seq, int32_t pos,
                            bool *ret_nan)
{
    uint64_t hash = 1;
    int32_t nan_token = atomic_load(&fake_control->nan_token);
    for (int32_t p = 0; p <= pos; p++) {
        int32_t token = *cell(model, seq, 0, (uint32_t)p);
        assert(token >= 0); /* computed before it is read */
        hash = mix(hash * 31 + (uint64_t)token + 1);
        *ret_nan |= nan_token > 0 && token == nan_token;
    }
    return hash;
}

/* A state must stand exactly in front of the row, and be that of the row's own text. */
static void advance_states(const struct halo_device_model *model, const struct halo_batch_seq *seq, uint32_t pos,
                           int32_t token)
{
    for (uint32_t group = 1; group < model->plan->n_kv_groups; group++) {
        if (model->plan->kv[group].state_width == 0)
            continue;
        assert(seq->pages[group][0] < model->plan->kv[group].n_pages);
        struct fake_state *state = &model->states[group][seq->pages[group][0]];
        bool nan = false;
        if (pos == 0)
            *state = (struct fake_state){.hash = 1};
        assert(state->n == pos);
        *state = (struct fake_state){mix(state->hash * 31 + (uint64_t)token + 1), pos + 1};
        assert(state->hash == hash_prefix(model, seq, (int32_t)pos, &nan));
    }
}

static void fill_logits(const struct halo_device_model *model, const struct halo_batch *batch, uint32_t output,
                        float *logits)
{
    uint32_t row = batch->output[output], n_vocab = model->plan->n_vocab;
    bool nan = false;
    uint64_t hash = hash_prefix(model, &batch->seqs[batch->seq[row]], batch->pos[row], &nan);
    for (uint32_t v = 0; v < n_vocab; v++)
        logits[v] = (float)(mix(hash + v) >> 40) / (float)(1 << 24) * 8 - 4;
    for (uint32_t v = 0; v < n_vocab && fake_control->coarse; v++)
        logits[v] = rintf(logits[v] / 2); /* -0 as well as 0 */
    uint32_t next = (uint32_t)batch->pos[row] + 1, place = fake_control->cycle > 0 ? next % fake_control->cycle : 0;
    if (fake_control->cycle > 0 && next < fake_control->cycle_until)
        logits[place < 60 ? 2 + place : 2 + (place * place + place) % 60] = 30;
    if (fake_control->favourite > 0 && ((uint32_t)batch->pos[row] + 1) % fake_control->favourite_every == 0)
        logits[fake_control->favourite] = 20;
    if (nan)
        logits[hash % n_vocab] = hash & 1 ? NAN : INFINITY;
}

/* The n_top largest, the lowest id first on a tie; no id where a number is none, and behind the last. */
static void fill_list(const float *logits, uint32_t n_vocab, uint32_t n_top, struct halo_candidate *top)
{
    bool taken[FAKE_VOCAB_MAX] = {false}, finite = true;
    for (uint32_t v = 0; v < n_vocab; v++)
        finite = finite && isfinite(logits[v]);
    for (uint32_t k = 0; k < n_top; k++) {
        int32_t best = -1;
        for (uint32_t v = 0; v < n_vocab && finite; v++)
            if (!taken[v] && (best < 0 || logits[v] > logits[best]))
                best = (int32_t)v;
        top[k] = (struct halo_candidate){best < 0 ? 0 : logits[best], best};
        if (best >= 0)
            taken[best] = true;
    }
}

/* Rows that nobody wanted keep what was in them: who asked for a list must not look there. */
static void fill_outputs(const struct halo_device_model *model, const struct halo_batch *batch)
{
    static float listed[FAKE_VOCAB_MAX];
    uint32_t n_vocab = model->plan->n_vocab, n_listed = 0;
    assert(batch->n_top <= HALO_CANDIDATES_MAX && (batch->n_top == 0 || n_vocab <= FAKE_VOCAB_MAX));
    for (uint32_t i = 0; i < batch->n_outputs; i++) {
        bool whole = batch->n_top == 0 || batch->whole[i];
        float *logits = whole ? batch->logits + (size_t)i * n_vocab : listed;
        fill_logits(model, batch, i, logits);
        if (batch->n_top > 0)
            fill_list(logits, n_vocab, batch->n_top, batch->top + (size_t)i * batch->n_top);
        n_listed += !whole;
    }
    atomic_fetch_add(&fake_control->n_listed, n_listed);
    atomic_fetch_add(&fake_control->n_bytes, (uint64_t)(batch->n_outputs - n_listed) * n_vocab * sizeof(float) +
                                                 batch->n_outputs * batch->n_top * sizeof(struct halo_candidate));
}

static void see(_Atomic uint32_t *most, uint32_t value)
{
    if (value > atomic_load(most))
        atomic_store(most, value);
}

static int fake_run(struct halo_device_model *model, const struct halo_batch *batch, struct halo_device_phase *phase,
                    char *reason)
{
    uint32_t run = atomic_fetch_add(&fake_control->n_runs, 1) + 1;
    assert(model->sealed && batch->n_rows > 0 && batch->n_rows <= model->plan->max_rows);
    assert(batch->n_outputs <= model->plan->max_outputs);
    atomic_fetch_add(&phase->step, 1);
    atomic_store(&phase->what, "run");
    atomic_fetch_add(&fake_control->n_rows, batch->n_rows);
    see(&fake_control->max_rows, batch->n_rows);
    see(&fake_control->max_seqs, batch->n_seqs);
    atomic_fetch_add(&fake_control->n_outputs, batch->n_outputs);
    while (atomic_load(&fake_control->hang_run) == run)
        usleep(10000);
    uint32_t us = atomic_load(&fake_control->run_us) + batch->n_rows * atomic_load(&fake_control->row_us);
    if (us > 0)
        usleep(us);
    uint32_t fail_run = atomic_load(&fake_control->fail_run);
    if (fail_run > 0 && run >= fail_run) {
        atomic_store(&fake_control->fail_run, 0);
        snprintf(reason, HALO_DEVICE_REASON, "the fake device was told to fail in run %u", run);
        return fake_control->fail_error;
    }
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct halo_batch_seq *seq = &batch->seqs[batch->seq[i]];
        uint32_t at = (uint32_t)batch->pos[i];
        assert(at / HALO_KV_PAGE_TOKENS < seq->n_pages && (i == 0 || batch->seq[i] >= batch->seq[i - 1]));
        assert(at < model->plan->n_context && batch->token[i] >= 0 && (uint32_t)batch->token[i] < model->plan->n_vocab);
        for (uint32_t group = 0; group < model->plan->n_kv_groups; group++)
            if (model->plan->kv[group].state_width == 0)
                *cell(model, seq, group, at) = batch->token[i];
        advance_states(model, seq, at, batch->token[i]);
    }
    for (uint32_t i = 0; i < batch->n_rows; i++)
        check_windows(model, &batch->seqs[batch->seq[i]], (uint32_t)batch->pos[i]);
    fill_outputs(model, batch);
    return 0;
}

static int fake_kv_copy(struct halo_device_model *model, uint32_t group, uint32_t from_page, uint32_t to_page,
                        char *reason)
{
    if (fake_control->copy_error)
        return fake_control->copy_error;
    atomic_fetch_add(&fake_control->n_copies, group == 0);
    model->states[group][to_page] = model->states[group][from_page];
    if (model->plan->kv[group].state_width > 0)
        return 0;
    memcpy(model->cells[group] + to_page * HALO_KV_PAGE_TOKENS, model->cells[group] + from_page * HALO_KV_PAGE_TOKENS,
           HALO_KV_PAGE_TOKENS * sizeof(*model->cells[group]));
    return 0;
}

/* Of groups of states: both halves of what stands for a state, with no padding between. */
_Static_assert(sizeof(struct fake_state) == 16, "a state is 16 bytes");

static uint64_t fake_page_bytes(const struct halo_device_model *model, uint32_t group)
{
    return model->plan->kv[group].state_width > 0 ? sizeof(struct fake_state)
                                                  : HALO_KV_PAGE_TOKENS * sizeof(*model->cells[group]);
}

static void *page_at(const struct halo_device_model *model, uint32_t group, uint32_t page)
{
    assert(page < model->plan->kv[group].n_pages);
    return model->plan->kv[group].state_width > 0 ? (void *)(model->states[group] + page)
                                                  : (void *)(model->cells[group] + page * HALO_KV_PAGE_TOKENS);
}

static int fake_kv_read(struct halo_device_model *model, uint32_t group, uint32_t page, void *ret_bytes, char *reason)
{
    if (fake_control->copy_error)
        return fake_control->copy_error;
    atomic_fetch_add(&fake_control->n_through_host, 1);
    memcpy(ret_bytes, page_at(model, group, page), fake_page_bytes(model, group));
    return 0;
}

static int fake_kv_write(struct halo_device_model *model, uint32_t group, uint32_t page, const void *bytes,
                         char *reason)
{
    if (fake_control->copy_error)
        return fake_control->copy_error;
    atomic_fetch_add(&fake_control->n_through_host, 1);
    memcpy(page_at(model, group, page), bytes, fake_page_bytes(model, group));
    return 0;
}

static void fake_costs(struct halo_device *device, struct halo_device_costs *ret)
{
    *ret = (struct halo_device_costs){.copy_bytes_s = 25e9, .launch_s = 12.5e-6};
}

static double fake_bandwidth(struct halo_device *device)
{
    return 1e9;
}

static const struct halo_device_ops table = {
    .abi = HALO_DEVICE_ABI,
    .size = sizeof(table),
    .name = "fake",
    .probe = fake_probe,
    .open = fake_open,
    .close = fake_close,
    .describe = fake_describe,
    .supports = fake_supports,
    .estimate = fake_estimate,
    .divide = fake_divide,
    .model_create = fake_create,
    .model_destroy = fake_destroy,
    .weight_slot = fake_slot,
    .weight_commit = fake_commit,
    .model_seal = fake_seal,
    .run = fake_run,
    .kv_copy = fake_kv_copy,
    .kv_page_bytes = fake_page_bytes,
    .kv_read = fake_kv_read,
    .kv_write = fake_kv_write,
    .measure_bandwidth = fake_bandwidth,
    .measure_costs = fake_costs,
};

const struct halo_device_ops *fake_device(void)
{
    return &table;
}

void fake_plan(struct halo_plan *plan, uint32_t n_vocab, uint32_t n_context, uint32_t max_rows, uint32_t max_outputs,
               uint32_t n_pages)
{
    *plan = (struct halo_plan){
        .n_vocab = n_vocab, .n_context = n_context, .max_rows = max_rows, .max_outputs = max_outputs};
    plan->n_kv_groups = 1;
    plan->kv[0] = (struct halo_kv_group){
        .type = HALO_KV_F32, .n_layers = 1, .n_head_kv = 1, .head_dim_k = 8, .head_dim_v = 8, .n_pages = n_pages};
}

void fake_plan_window(struct halo_plan *plan, uint32_t window, uint32_t n_pages)
{
    struct halo_kv_group *kv = &plan->kv[plan->n_kv_groups++];
    assert(plan->n_kv_groups <= HALO_KV_GROUPS_MAX);
    *kv = plan->kv[0];
    kv->window = window;
    kv->head_dim_k = kv->head_dim_v = 16;
    halo_plan_set_pages(plan, plan->kv[0].n_pages);
    if (n_pages > 0)
        kv->n_pages = n_pages;
}

void fake_plan_states(struct halo_plan *plan, uint32_t n_slots)
{
    struct halo_kv_group *kv = &plan->kv[plan->n_kv_groups++];
    assert(plan->n_kv_groups <= HALO_KV_GROUPS_MAX);
    *kv = (struct halo_kv_group){.n_layers = 2, .state_width = 24};
    halo_plan_set_pages(plan, plan->kv[0].n_pages);
    if (n_slots > 0)
        kv->n_pages = n_slots;
}
