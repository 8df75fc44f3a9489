/* cpu_rig.c: see cpu_rig.h. */
#include "cpu_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <cpu/cpu.h>

/* cmocka.h wants these headers before it. */
#include <stddef.h>
#include <cmocka.h>

uint64_t cpu_rig_rows;
const struct halo_device_ops *cpu_rig_device;

static int counting_run(struct halo_device_model *model, const struct halo_batch *batch,
                        struct halo_device_phase *phase, char *reason)
{
    cpu_rig_rows += batch->n_rows;
    return cpu_rig_device->run(model, batch, phase, reason);
}

static void fail_on(const struct halo_fault *fault, int r, const char *what, const char *reason)
{
    if (r < 0 || fault->code != HALO_FAULT_NONE)
        fail_msg("%s: %s%s", what, fault->text, reason);
}

/* Gives every other layer a window, and a group of their own to those that have one. */
static void add_windows(struct cpu_rig *rig, const struct cpu_rig_setup *setup)
{
    struct halo_plan *plan = &rig->instance.model->plan;
    rig->plan_ops = malloc(plan->n_ops * sizeof(*rig->plan_ops));
    assert_non_null(rig->plan_ops);
    memcpy(rig->plan_ops, plan->ops, plan->n_ops * sizeof(*rig->plan_ops));
    plan->ops = rig->plan_ops;
    assert_true(plan->n_kv_groups == 1 && plan->kv[0].n_layers > 1);
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        struct halo_op *op = &rig->plan_ops[i];
        uint32_t local = op->layer % 2 == 0, layer = setup->keeps_all ? op->layer : op->layer / 2;
        if (op->kind == HALO_OP_KV_WRITE) {
            op->u.kv_write.kv_group = setup->keeps_all ? 0 : local;
            op->u.kv_write.kv_layer = layer;
        } else if (op->kind == HALO_OP_ATTEND) {
            op->u.attend.kv_group = setup->keeps_all ? 0 : local;
            op->u.attend.kv_layer = layer;
            op->u.attend.window = local ? setup->window : 0;
        }
    }
    if (setup->keeps_all)
        return;
    plan->kv[1] = plan->kv[0];
    plan->kv[1].window = setup->window;
    plan->kv[1].n_layers = (plan->kv[0].n_layers + 1) / 2;
    plan->kv[0].n_layers /= 2;
    plan->n_kv_groups = 2;
}

static void bring_model(struct cpu_rig *rig, const struct cpu_rig_setup *setup)
{
    const char *root = getenv("HALO_SOURCE_ROOT"), *model = getenv("HALO_RIG_MODEL");
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_room plenty = {.bytes = UINT64_MAX};
    struct halo_load *load = &rig->load;
    load->instance = &rig->instance;
    load->wish = (struct halo_load_wish){.context = setup->context, .kv_tokens = setup->kv_tokens, .kv = setup->kv};
    if (model)
        snprintf(rig->instance.path, sizeof(rig->instance.path), "%s", model);
    else
        snprintf(rig->instance.path, sizeof(rig->instance.path), "%s/tests/models/fable-Q4_K_M.gguf",
                 root ? root : ".");
    halo_load_parse(load);
    fail_on(&load->fault, 0, "parse", reason);
    if (setup->max_rows > 0)
        rig->instance.model->plan.max_rows = setup->max_rows;
    if (setup->window > 0)
        add_windows(rig, setup);
    fail_on(&load->fault, halo_load_create(load, &rig->ops, rig->device, &plenty, NULL), "create", reason);
    fail_on(&load->fault, halo_load_read(load, &rig->ops, &rig->port, NULL), "read", reason);
    fail_on(&load->fault, rig->ops.model_seal(rig->instance.device_model, reason), "seal", reason);
}

void cpu_rig_init(struct cpu_rig *rig, const struct cpu_rig_setup *setup)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_device_options options = {.n_threads = setup->n_threads};
    struct halo_device_info info;
    memset(rig, 0, sizeof(*rig));
    cpu_rig_device = halo_device_cpu();
    rig->ops = *cpu_rig_device;
    rig->ops.run = counting_run;
    if (rig->ops.open(&rig->device, &options, reason) < 0)
        fail_msg("the cpu device does not open: %s", reason);
    rig->ops.describe(rig->device, &info);
    assert_true(info.features & HALO_DEVICE_BATCH_INVARIANT);
    assert_int_equal(halo_mailbox_init(&rig->port, false), 0);
    rig->seqs = calloc(CPU_RIG_MAX, sizeof(*rig->seqs));
    assert_non_null(rig->seqs);
    bring_model(rig, setup);
    halo_mailbox_drain(&rig->port); /* progress of the load */
    struct halo_scheduler_setup scheduler = {.ops = &rig->ops,
                                             .device_model = rig->instance.device_model,
                                             .plan = &rig->instance.model->plan,
                                             .any_cut = true,
                                             .max_queued = CPU_RIG_MAX,
                                             .phase = &rig->phase,
                                             .stats = &rig->stats,
                                             .port = &rig->port};
    assert_int_equal(halo_scheduler_init(&rig->instance.scheduler, &scheduler), 0);
}

void cpu_rig_finish(struct cpu_rig *rig)
{
    assert_int_equal(rig->n_open, 0);
    const struct halo_kv_pool *pool = &rig->instance.scheduler.pool;
    assert_int_equal(halo_kv_pool_available(pool), rig->instance.model->plan.kv[0].n_pages);
    for (uint32_t s = 0; s < pool->n_sides; s++)
        assert_int_equal(halo_kv_side_available(&pool->sides[s]), rig->instance.model->plan.kv[s + 1].n_pages);
    halo_scheduler_finish(&rig->instance.scheduler);
    rig->ops.model_destroy(rig->instance.device_model);
    rig->ops.close(rig->device);
    halo_texts_destroy(&rig->instance.texts);
    halo_model_destroy(rig->instance.model);
    halo_mailbox_finish(&rig->port);
    free(rig->plan_ops);
    free(rig->seqs);
}

void cpu_rig_ids(const struct cpu_rig *rig, uint32_t seed, int32_t *ids, uint32_t n)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % rig->instance.model->plan.n_vocab);
    }
}

struct halo_sequence_setup cpu_rig_reply(const int32_t *ids, uint32_t n_prompt, uint32_t max_tokens)
{
    return (struct halo_sequence_setup){.kind = HALO_SEQUENCE_GENERATE,
                                        .ids = ids,
                                        .n_prompt = n_prompt,
                                        .max_tokens = max_tokens,
                                        .ignore_eos = true,
                                        .cache_prompt = true,
                                        .want_logprob = true,
                                        .user = HALO_SEQUENCE_NOBODY,
                                        .arrived_ns = halo_clock_ns(),
                                        .sampler = {.temperature = 0.8,
                                                    .top_k = 40,
                                                    .top_p = 0.95,
                                                    .repeat_penalty = 1.1,
                                                    .repeat_window = 64,
                                                    .seed = n_prompt}};
}

struct cpu_seq *cpu_rig_submit(struct cpu_rig *rig, const struct halo_sequence_setup *setup)
{
    struct halo_fault fault = {0};
    assert_true(rig->n_seqs < CPU_RIG_MAX);
    struct cpu_seq *seq = &rig->seqs[rig->n_seqs++];
    if (halo_sequence_create(&seq->sequence, setup, &rig->instance.pieces, &fault) < 0)
        fail_msg("%s", fault.text);
    seq->job.seq = seq;
    seq->sequence->job = &seq->job;
    rig->n_open++;
    halo_scheduler_submit(&rig->instance.scheduler, seq->sequence);
    return seq;
}

static void read_ring(struct cpu_seq *seq)
{
    const struct halo_ring_event *event;
    while ((event = halo_ring_peek(&seq->sequence->ring))) {
        if (event->kind == HALO_RING_COMMITTED) {
            assert_true(seq->n_ids < 512);
            seq->ids[seq->n_ids++] = event->tok_id;
        }
        if (event->kind == HALO_RING_COMMITTED || event->kind == HALO_RING_ROW) {
            assert_true(seq->n_logprobs < 512);
            seq->logprobs[seq->n_logprobs++] = event->has_logprob ? event->logprob : 0;
        }
        halo_ring_pop(&seq->sequence->ring);
    }
    atomic_store(&seq->sequence->stalled, false);
}

void cpu_rig_collect(struct cpu_rig *rig)
{
    struct halo_mail *mail = halo_mailbox_drain(&rig->port);
    while (mail) {
        struct halo_note *note = halo_note_of(mail);
        mail = mail->next;
        struct halo_sequence *sequence = note->what == HALO_NOTE_EVENTS
                                             ? HALO_NOTE_ITEM(note, struct halo_sequence, events_note)
                                             : HALO_NOTE_ITEM(note, struct halo_sequence, note);
        struct cpu_seq *seq = sequence->job->seq;
        read_ring(seq);
        if (note->what == HALO_NOTE_EVENTS) {
            atomic_store(&sequence->events_posted, false);
            continue;
        }
        seq->outcome = sequence->outcome;
        seq->fault = sequence->fault;
        seq->n_cached = sequence->n_cached;
        seq->n_preempted = sequence->n_preempted;
        halo_sequence_destroy(sequence);
        seq->sequence = NULL;
        rig->n_open--;
    }
}

int cpu_rig_step(struct cpu_rig *rig)
{
    struct halo_fault fault = {0};
    int r = halo_scheduler_step(&rig->instance.scheduler, &fault);
    cpu_rig_collect(rig);
    return r;
}

void cpu_rig_run(struct cpu_rig *rig)
{
    for (int i = 0; rig->n_open > 0; i++)
        if (cpu_rig_step(rig) != 0 || i > 100000)
            fail_msg("%u sequences are open and nothing moves", rig->n_open);
}
