/* plan.c: answers of plan and bench: what a model would need, and how fast it is.
 *
 * Port thread. A prediction is bytes over measured bandwidth (decode) and operations over the rate that prompts have
 * reached on this device (prefill); what was not measured is null.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/clock.h>
#include <base/size.h>

#include "device/op_cost_priv.h"
#include "port/placement_priv.h"
#include "port/port_priv.h"
#include "port/stages_priv.h"

/* ---- plan ---- */

void halo_port_plan(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_plan *msg = &job->msg.plan;
    const struct halo_part_load_params *params = &msg->params;
    if (msg->has_model + msg->has_path != 1) {
        halo_job_end_error(port, job, HALO_ERROR_BAD_REQUEST, "give exactly one of `model` and `path`");
        return;
    }
    if (!halo_port_has_device(port, job, params->device))
        return;
    struct halo_forecast *forecast = job->forecast = calloc(1, sizeof(*forecast));
    if (forecast)
        forecast->file = strdup(msg->has_path ? msg->path.at : msg->model.at);
    if (!forecast || !forecast->file) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for a plan");
        return;
    }
    forecast->job = job;
    forecast->is_path = msg->has_path;
    halo_port_name_device(port, &forecast->here);
    forecast->budget_bytes = msg->has_budget_bytes      ? (uint64_t)msg->budget_bytes
                             : params->has_budget_bytes ? (uint64_t)params->budget_bytes
                                                        : 0;
    forecast->wish = (struct halo_model_params){.context = params->has_context ? (uint32_t)params->context : 0,
                                                .kv_tokens = params->has_kv_tokens ? (uint64_t)params->kv_tokens : 0,
                                                .kv = params->has_kv ? (enum halo_kv_type)params->kv : HALO_KV_F16,
                                                .max_rows = HALO_BATCH_ROWS,
                                                .max_outputs = HALO_BATCH_OUTPUTS};
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->io.box, &forecast->note, HALO_NOTE_FORECAST_OPEN);
}

/* One entry for each kind of op: how many, bytes of weights, operations of one decode step. */
static void write_ops(struct halo_json *w, const struct halo_plan *plan)
{
    halo_json_array_begin(w);
    for (uint32_t kind = 0; kind < HALO_OP_COUNT; kind++) {
        struct halo_op_cost sum = {0};
        uint32_t n = 0;
        for (uint32_t i = 0; i < plan->n_ops; i++)
            if ((uint32_t)plan->ops[i].kind == kind) {
                struct halo_op_cost cost = halo_op_cost_of(plan, &plan->ops[i]);
                sum.weight_bytes += cost.weight_bytes;
                sum.flops += cost.flops;
                n++;
            }
        if (n == 0)
            continue;
        halo_json_object_begin(w);
        halo_json_key(w, "op");
        halo_json_str(w, halo_op_name((enum halo_op_kind)kind));
        halo_json_key(w, "n");
        halo_json_u64(w, n);
        halo_json_key(w, "weight_bytes");
        halo_json_u64(w, sum.weight_bytes);
        halo_json_key(w, "flops");
        halo_json_u64(w, sum.flops);
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
}

/* The longest context that some load with these tiers has room for. */
static int64_t longest_context(const struct halo_forecast *f, int tiers)
{
    uint32_t resident = halo_budget_fit_context(&f->budget, 1, f->model->hparams.n_context_train);
    if (tiers == HALO_WIRE_TIERS_MEMORY || f->streamed.slot_bytes == 0)
        return resident;
    return tiers == HALO_WIRE_TIERS_STREAM || f->streamed_context > resident ? f->streamed_context : resident;
}

static void fill_memory(struct halo_ev_plan *ev, const struct halo_forecast *f)
{
    const struct halo_budget *budget = &f->budget;
    ev->has_checkpoint_bytes = f->checkpoints.slot_bytes > 0;
    ev->checkpoint_bytes = (int64_t)(f->checkpoints.n * f->checkpoints.slot_bytes);
    ev->fits = budget->max_pages >= f->n_pages;
    ev->context = f->model->plan.n_context;
    ev->kv_tokens = (int64_t)f->n_pages * HALO_KV_PAGE_TOKENS;
    ev->weights_bytes = (int64_t)budget->weights_bytes;
    ev->kv_bytes = (int64_t)f->kv_bytes;
    ev->scratch_bytes = (int64_t)budget->scratch_bytes;
    ev->total_bytes = (int64_t)(budget->weights_bytes + f->kv_bytes + budget->scratch_bytes);
    ev->budget_bytes = (int64_t)f->budget_bytes;
    ev->has_budget_bytes = true;
    ev->has_context_max = true;
    ev->context_max = longest_context(f, f->job->msg.plan.params.tiers);
    ev->has_kv_token_bytes = ev->has_kv_sequence_bytes = ev->has_cache = true;
    ev->kv_token_bytes = (int64_t)halo_budget_token_bytes(budget);
    ev->kv_sequence_bytes = (int64_t)halo_budget_sequence_bytes(budget);
}

/* The KV pool of a load: the one that fits with all weights, else as many tokens as were asked for or one sequence. */
static uint64_t placed_kv_bytes(const struct halo_ev_plan *ev, const struct halo_forecast *f, bool wants_pool)
{
    return ev->fits || wants_pool
               ? (uint64_t)ev->kv_bytes
               : halo_budget_pool_bytes(&f->budget, f->budget.context_pages, f->budget.context_pages);
}

/* A model that does not fit is as fast as its placement; NULL: it cannot run. */
static void predict_streamed(struct halo_ev_plan *ev, const struct halo_port_placement *p, char *bound, size_t n)
{
    if (!ev->has_placement) {
        ev->has_decode_tok_s = ev->has_prefill_tok_s = false;
        snprintf(bound, n, "%s", p->fault.text);
        return;
    }
    const struct halo_placement *placement = &p->placement;
    if (placement->fits)
        return;
    ev->has_decode_tok_s = placement->tok_s > 0;
    ev->decode_tok_s = placement->tok_s;
    ev->has_prefill_tok_s = false; /* the speed of earlier prompts is that of models in memory */
    snprintf(bound, n, "%s", placement->reasons[placement->n_reasons - 1]);
}

/* Text for `bound`, with the numbers. */
static void predict(struct halo_ev_plan *ev, const struct halo_forecast *f, char *bound, size_t n)
{
    const struct halo_plan *plan = &f->model->plan;
    struct halo_plan_cost decode, prefill;
    uint32_t half = plan->n_context / 2;
    halo_plan_cost(plan, half, 1, &decode);
    double bytes = (double)(decode.weight_bytes + decode.kv_bytes);
    ev->has_decode_tok_s = f->profile.memory_bytes_s > 0;
    ev->decode_tok_s = ev->has_decode_tok_s ? f->profile.memory_bytes_s / bytes : 0;
    halo_plan_cost(plan, half, plan->max_rows, &prefill);
    ev->has_prefill_tok_s = f->flops > 0;
    ev->prefill_tok_s = ev->has_prefill_tok_s ? f->flops * plan->max_rows / (double)prefill.flops : 0;
    char read[HALO_SIZE_TEXT];
    if (f->profile.memory_bytes_s > 0)
        snprintf(bound, n, "a token at position %u reads %s of weights and cache at %.1f GB/s of memory bandwidth; %s",
                 half, halo_size_text(decode.weight_bytes + decode.kv_bytes, read), f->profile.memory_bytes_s / 1e9,
                 f->flops > 0 ? "the speed of a prompt is that of earlier ones on this device"
                              : "the speed of a prompt is predicted once one has run on this device");
    else
        snprintf(bound, n, "the device does not measure its bandwidth, so nothing is predicted");
}

/* Bytes of memory, and those of the file that are not there all the time. */
static void write_tiers(const struct halo_ev_plan *ev, char *ret, size_t n)
{
    if (!ev->has_placement || ev->placement.resident)
        snprintf(ret, n, "{\"memory\":%" PRId64 "}", ev->total_bytes);
    else
        snprintf(ret, n, "{\"memory\":%" PRId64 ",\"disk\":%" PRId64 "}", ev->placement.total_bytes,
                 ev->placement.prefill_bytes);
}

void halo_port_forecast_done(struct halo_port *port, struct halo_forecast *f)
{
    struct halo_job *job = f->job;
    if (f->fault.code != HALO_FAULT_NONE || atomic_load(&job->cancel)) {
        if (f->fault.code == HALO_FAULT_NONE)
            halo_fault_set(&f->fault, HALO_FAULT_CANCELLED, "cancelled");
        halo_job_end_fault(port, job, &f->fault);
        return;
    }
    const struct halo_msg_plan *msg = &job->msg.plan;
    char bound[256], tiers[96], cache[HALO_CACHE_TEXT];
    struct halo_port_placement *placement = NULL;
    struct halo_stages_shown shown;
    struct halo_json ops;
    struct halo_ev ev;
    halo_port_use_profile(port, f, f->file);
    halo_ev_init(&ev, HALO_EV_PLAN, &job->msg.id);
    ev.plan.model = msg->has_model ? msg->model : msg->path;
    ev.plan.arch = halo_str_of(f->model->arch);
    ev.plan.device = halo_str_of(f->info.name);
    fill_memory(&ev.plan, f);
    predict(&ev.plan, f, bound, sizeof(bound));
    int r =
        halo_port_placement_fill(f, msg, placed_kv_bytes(&ev.plan, f, msg->params.has_kv_tokens), &ev.plan, &placement);
    if (r == 0)
        predict_streamed(&ev.plan, placement, bound, sizeof(bound));
    halo_budget_cache_text(&f->budget, &f->model->plan, cache);
    ev.plan.cache = halo_str_of(cache);
    ev.plan.bound = halo_str_of(bound);
    ev.plan.has_bound = true;
    write_tiers(&ev.plan, tiers, sizeof(tiers));
    ev.plan.tiers = halo_raw_of(tiers);
    ev.plan.stages = halo_port_show_stages(&f->stages, &f->info, &shown);
    halo_json_init(&ops);
    write_ops(&ops, &f->model->plan);
    if (r < 0 || ops.error < 0) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for an answer to `plan`");
    } else {
        ev.plan.ops = (struct halo_raw){ops.at, ops.len};
        halo_job_end(port, job, &ev);
    }
    halo_json_finish(&ops);
    halo_port_placement_finish(placement);
}

/* ---- bench ---- */

void halo_port_bench(struct halo_port *port, struct halo_job *job)
{
    const struct halo_msg_bench *msg = &job->msg.bench;
    struct halo_fault fault = {0};
    if (!halo_port_hold_model(port, job, msg->model))
        return;
    const struct halo_bench_wish wish = {.prefill = (uint32_t)msg->prefill,
                                         .decode = (uint32_t)msg->decode,
                                         .batch = (uint32_t)msg->batch,
                                         .repeat = (uint32_t)msg->repeat,
                                         .chunk = (uint32_t)msg->chunk};
    int r = halo_bench_create(&job->bench, job->model, &wish, &fault);
    if (r < 0) {
        halo_job_end_fault(port, job, &fault);
        return;
    }
    job->bench->job = job;
    halo_job_move(job, HALO_JOB_DEVICE);
    halo_note_post(&port->device.box, &job->bench->note, HALO_NOTE_BENCH);
}

void halo_port_bench_progress(struct halo_port *port, struct halo_bench *bench)
{
    struct halo_job *job = bench->job;
    atomic_store(&bench->progress_posted, false);
    uint32_t done = atomic_load(&bench->runs_done);
    if (done == bench->runs_shown)
        return;
    bench->runs_shown = done;
    uint64_t now_ns = halo_clock_ns();
    if (now_ns - bench->shown_ns < 1000000000u / HALO_LIMIT_PROGRESS_PER_S)
        return;
    bench->shown_ns = now_ns;
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_PROGRESS, &job->msg.id);
    ev.progress.phase = HALO_WIRE_PHASE_PREFILL;
    ev.progress.done = done;
    ev.progress.total = bench->repeat;
    ev.progress.has_step = true;
    ev.progress.step = halo_str_of("bench run");
    halo_port_put(port, &ev);
}

static struct halo_spread spread_of(const struct halo_bench *bench, bool decode, double *scratch)
{
    for (uint32_t i = 0; i < bench->repeat; i++)
        scratch[i] = decode ? bench->runs[i].decode_tok_s : bench->runs[i].prefill_tok_s;
    return halo_spread_of(scratch, bench->repeat);
}

static void write_runs(struct halo_json *w, const struct halo_bench *bench)
{
    halo_json_array_begin(w);
    for (uint32_t i = 0; i < bench->repeat; i++) {
        halo_json_object_begin(w);
        halo_json_key(w, "prefill_tok_s");
        halo_json_fix3(w, bench->runs[i].prefill_tok_s);
        halo_json_key(w, "decode_tok_s");
        halo_json_fix3(w, bench->runs[i].decode_tok_s);
        halo_json_object_end(w);
    }
    halo_json_array_end(w);
}

static void fill_bench(struct halo_ev_bench *ev, const struct halo_bench *bench, double *scratch)
{
    struct halo_spread prefill = spread_of(bench, false, scratch), decode = spread_of(bench, true, scratch);
    ev->prefill = bench->prefill;
    ev->decode = bench->decode;
    ev->batch = bench->batch;
    ev->repeat = bench->repeat;
    ev->has_chunk = bench->longest_chunk > 0;
    ev->chunk = bench->longest_chunk;
    ev->has_prefill_tok_s = ev->has_prefill_spread_tok_s = bench->prefill > 0;
    ev->prefill_tok_s = prefill.median;
    ev->prefill_spread_tok_s = prefill.greatest - prefill.least;
    ev->has_decode_tok_s = ev->has_decode_spread_tok_s = bench->decode > 0;
    ev->decode_tok_s = decode.median;
    ev->decode_spread_tok_s = decode.greatest - decode.least;
    ev->has_bytes_per_token = ev->has_gb_s = bench->decode > 0;
    ev->bytes_per_token = bench->bytes_per_token;
    ev->gb_s = bench->bytes_per_token * decode.median / 1e9; /* tokens of all sequences: steps times the batch */
    ev->has_bandwidth_gb_s = bench->bandwidth > 0;
    ev->bandwidth_gb_s = bench->bandwidth / 1e9;
    ev->has_bandwidth_share = bench->decode > 0 && bench->bandwidth > 0;
    ev->bandwidth_share = ev->has_bandwidth_share ? ev->gb_s / ev->bandwidth_gb_s : 0;
}

void halo_port_bench_done(struct halo_port *port, struct halo_bench *bench)
{
    struct halo_job *job = bench->job;
    if (bench->fault.code != HALO_FAULT_NONE) {
        halo_job_end_fault(port, job, &bench->fault);
        return;
    }
    if (bench->cancelled) {
        halo_job_end_cancelled(port, job);
        return;
    }
    double *scratch = calloc(bench->repeat, sizeof(*scratch));
    struct halo_json runs;
    struct halo_ev ev;
    halo_json_init(&runs);
    write_runs(&runs, bench);
    if (!scratch || runs.error < 0) {
        halo_job_end_error(port, job, HALO_ERROR_OUT_OF_MEMORY, "no memory for an answer to `bench`");
    } else {
        halo_ev_init(&ev, HALO_EV_BENCH, &job->msg.id);
        ev.bench.model = halo_str_of(job->model->name);
        ev.bench.device = halo_str_of(halo_device_thread_name(&port->device));
        fill_bench(&ev.bench, bench, scratch);
        ev.bench.runs = (struct halo_raw){runs.at, runs.len};
        ev.bench.has_runs = true;
        halo_job_end(port, job, &ev);
    }
    halo_json_finish(&runs);
    free(scratch);
}
