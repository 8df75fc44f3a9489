/* device_thread.c: the loop of the thread that owns the device.
 *
 * Mail in, steps, mail out. It never touches JSON or files. Failures travel inside the objects that failed.
 */
#include "device/device_thread_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include <base/clock.h>
#include <base/thread.h>
#include <model/streamed.h>

#include "device/device_priv.h"

/* ---- opening ---- */

static void open_device(struct halo_device_thread *t)
{
    char reason[HALO_DEVICE_REASON] = "";
    struct halo_device_info info = {0};
    halo_device_set_phase(t, "opening the device");
    int r = t->ops->abi == HALO_DEVICE_ABI && t->ops->size == sizeof(*t->ops)
                ? t->ops->open(&t->device, &t->options, reason)
                : -ENOTSUP;
    if (r < 0)
        t->device = NULL;
    else
        t->ops->describe(t->device, &info);
    pthread_mutex_lock(&t->info_lock);
    t->opened = true;
    t->info = info;
    t->has_budget = t->budget_bytes > 0;
    if (!t->has_budget)
        t->budget_bytes = halo_budget_free_bytes(&info);
    if (r < 0)
        halo_fault_set(&t->open_fault, r == -ENOMEM ? HALO_FAULT_OUT_OF_MEMORY : HALO_FAULT_UNSUPPORTED,
                       "the %s device cannot be used: %s", halo_device_thread_name(t),
                       reason[0] ? reason : strerror(-r));
    pthread_mutex_unlock(&t->info_lock);
    halo_note_post(t->port, &t->open_note, HALO_NOTE_DEVICE_OPEN);
}

uint64_t halo_device_thread_budget(struct halo_device_thread *t)
{
    pthread_mutex_lock(&t->info_lock);
    uint64_t bytes = t->opened ? t->budget_bytes : 0;
    pthread_mutex_unlock(&t->info_lock);
    return bytes;
}

int halo_device_thread_info(struct halo_device_thread *t, struct halo_device_info *ret, struct halo_fault *fault)
{
    int r = 0;
    pthread_mutex_lock(&t->info_lock);
    *ret = t->info;
    if (!t->opened)
        r = -EAGAIN;
    else if (t->open_fault.code != HALO_FAULT_NONE) {
        if (fault)
            *fault = t->open_fault;
        r = -ENODEV;
    }
    pthread_mutex_unlock(&t->info_lock);
    return r;
}

/* ---- models ---- */

static void unload(struct halo_device_thread *t, struct halo_instance *instance)
{
    halo_device_set_phase(t, "unloading a model");
    halo_scheduler_finish(&instance->scheduler);
    halo_device_forget_model(t, instance);
    instance->freed_bytes = halo_instance_bytes(instance);
    halo_note_post(t->port, &instance->note, HALO_NOTE_UNLOAD_DONE);
}

static void publish_absent(struct halo_instance *instance)
{
    struct halo_experts_memory memory;
    halo_experts_memory(instance->experts, &memory);
    atomic_store(&instance->absent_bytes, memory.absent_bytes);
}

/* Slabs of experts go, or the slots of one that was taken again open. */
static void resize(struct halo_device_thread *t, struct halo_resize *resize)
{
    struct halo_instance *instance = HALO_NOTE_ITEM(resize, struct halo_instance, resize);
    halo_device_set_phase(t, resize->grows ? "taking memory for experts" : "giving memory of experts back");
    if (!resize->grows) {
        resize->done_bytes = halo_experts_give_back(instance->experts);
    } else if (resize->is_taken) {
        resize->done_bytes = halo_experts_open_taken(instance->experts, &resize->fault);
        HALO_COUNT(t->stats, expert_taken_bytes, resize->done_bytes);
    }
    halo_device_on_fault(t, &resize->fault);
    publish_absent(instance);
    atomic_store(&instance->takes_memory, false);
    halo_note_post(t->port, &resize->note, HALO_NOTE_RESIZE_DONE);
}

/* ---- sequences and benches ---- */

static struct halo_instance *model_of(struct halo_device_thread *t, const struct halo_sequence *sequence)
{
    for (uint32_t i = 0; i < t->n_models; i++)
        if (t->models[i] == sequence->model)
            return t->models[i];
    assert(!"a sequence names a model that is loaded: the port holds it");
    return NULL;
}

static void submit(struct halo_device_thread *t, struct halo_sequence *sequence)
{
    if (!halo_device_usable(t, &sequence->fault)) {
        sequence->outcome = HALO_OUTCOME_FAULT;
        halo_sequence_move(sequence, HALO_SEQUENCE_DONE);
        halo_note_post(t->port, &sequence->note, HALO_NOTE_SEQUENCE_DONE);
        return;
    }
    halo_scheduler_submit(&model_of(t, sequence)->scheduler, sequence);
}

static void append_bench(struct halo_device_thread *t, struct halo_bench *bench)
{
    struct halo_bench **at = &t->benches;
    while (*at)
        at = &(*at)->next;
    bench->next = NULL;
    *at = bench;
}

/* `at`: where it hangs in the list. */
static void end_bench(struct halo_device_thread *t, struct halo_bench **at)
{
    struct halo_bench *bench = *at;
    *at = bench->next;
    halo_bench_give_back(bench);
    halo_note_post(t->port, &bench->note, HALO_NOTE_BENCH_DONE);
}

/* Operations per second of the prompt rows that a loaded model has run; 0: none has. */
static double measured_flops(const struct halo_device_thread *t)
{
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct halo_plan_cost cost;
        if (t->models[i]->scheduler.pace.row_ns <= 0)
            continue;
        halo_plan_cost(&t->models[i]->model->plan, 0, 1, &cost);
        return (double)cost.flops / (t->models[i]->scheduler.pace.row_ns / 1e9);
    }
    return 0;
}

/* Sets `bandwidth`. False: not now, while others wait for their next token. They matter more, and the figure would be
 * too low. */
static bool measure_bandwidth(struct halo_device_thread *t)
{
    if (atomic_load(&t->stats->n_running) > 0 || atomic_load(&t->stats->n_queued) > 0)
        return false;
    halo_device_set_phase(t, "measuring memory bandwidth");
    t->bandwidth = t->ops->measure_bandwidth ? t->ops->measure_bandwidth(t->device) : 0;
    return true;
}

/* What the model takes when its experts have slots, or its layers stream. */
static void forecast_streamed(struct halo_device_thread *t, struct halo_forecast *f)
{
    struct halo_plan plan = f->model->plan; /* its weights are the model's */
    struct halo_settled settled;
    uint64_t tokens = f->wish.kv_tokens > plan.n_context ? f->wish.kv_tokens : plan.n_context;
    uint32_t n_pages = halo_kv_pages_for(tokens);
    f->streamed.miss_traffic = f->info.miss_traffic;
    if (t->ops->expert_bytes && halo_model_stream_experts(f->model, true) > 0) {
        halo_budget_settle(t->ops, t->device, &plan, f->budget_bytes, n_pages, true, t->checkpoint_bytes, &settled);
        halo_budget_streamed(&settled.budget, &plan, &f->streamed);
        f->streamed_context = halo_budget_fit_context(&settled.budget, 1, f->model->hparams.n_context_train);
        if (settled.n_pages < n_pages) /* a load is refused, so there is no placement with a smaller pool either */
            f->streamed.streamed_kv_bytes =
                halo_budget_pool_bytes(&settled.budget, n_pages, settled.budget.context_pages);
    }
    halo_model_stream_experts(f->model, false);
    if (f->budget.max_pages < n_pages)
        halo_layer_needs_of(t->ops, t->device, f->model, f->budget_bytes, n_pages, &f->layers);
}

/* What a load that keeps everything in memory would take for its cache, in all and of each GPU. A default pool that
 * does not fit shrinks to what does, as there; a wanted one is told as it is. */
static void forecast_resident(struct halo_device_thread *t, struct halo_forecast *f)
{
    struct halo_plan plan = f->model->plan; /* its weights are the model's */
    struct halo_budget settled;
    const struct halo_budget *budget = &f->budget;
    f->n_pages = plan.kv[0].n_pages;
    if (f->wish.kv_tokens == 0 && f->n_pages > budget->max_pages && budget->max_pages >= budget->context_pages)
        f->n_pages = budget->max_pages;
    f->checkpoints = halo_budget_checkpoints_of(budget, &plan, f->n_pages, t->checkpoint_bytes);
    halo_plan_set_pages(&plan, f->n_pages);
    for (uint32_t group = 0; group < plan.n_kv_groups; group++)
        if (plan.kv[group].state_width > 0)
            plan.kv[group].n_pages += f->checkpoints.n;
    halo_budget_of(t->ops, t->device, &plan, f->budget_bytes, &settled);
    f->kv_bytes = settled.kv_bytes;
    halo_stages_of(t->ops, t->device, f->info.n_gpus, &plan, &f->stages);
}

static void forecast(struct halo_device_thread *t, struct halo_forecast *f)
{
    struct halo_plan *plan = &f->model->plan;
    if (halo_device_usable(t, &f->fault) && halo_load_check_ops(plan, t->ops, t->device, &f->fault) == 0) {
        t->ops->describe(t->device, &f->info);
        halo_profile_name_device(&f->here, &f->info);
        if (f->budget_bytes == 0)
            f->budget_bytes = halo_device_room(t).bytes;
        plan->max_rows = halo_budget_rows(t->ops, t->device, plan, f->budget_bytes, halo_kv_pages_for(plan->n_context),
                                          f->info.batch_rows);
        halo_plan_set_pages(plan, plan->kv[0].n_pages);
        halo_budget_of(t->ops, t->device, plan, f->budget_bytes, &f->budget);
        forecast_resident(t, f);
        if (t->bandwidth == 0)
            measure_bandwidth(t);
        f->profile.memory_bytes_s = t->bandwidth;
        f->flops = measured_flops(t);
        forecast_streamed(t, f);
    }
    halo_note_post(t->port, &f->note, HALO_NOTE_FORECAST_DONE);
}

/* Sets the device's figures of a profile, if nobody waits for their next token. */
static void measure_device(struct halo_device_thread *t, struct halo_profile *ret)
{
    struct halo_device_costs costs = {0};
    if (!measure_bandwidth(t))
        return;
    ret->memory_bytes_s = t->bandwidth;
    if (t->ops->measure_costs)
        t->ops->measure_costs(t->device, &costs);
    ret->copy_bytes_s = costs.copy_bytes_s;
    ret->launch_s = costs.launch_s;
}

/* The first time, and once more after the drive was read if others used the device. */
static void profile(struct halo_device_thread *t, struct halo_profiling *p)
{
    struct halo_mailbox *to = t->port;
    bool again = p->stage == HALO_PROFILING_RETRY;
    p->stage = HALO_PROFILING_DONE;
    if (halo_device_usable(t, &p->fault)) {
        struct halo_device_info info;
        t->ops->describe(t->device, &info);
        halo_profile_name_device(&p->here, &info);
        if (!p->stored && !atomic_load(&p->cancel))
            measure_device(t, &p->record.profile);
        to = again || p->stored ? t->io : t->prefetch;
        p->stage = again || p->stored ? HALO_PROFILING_COOL : HALO_PROFILING_DISK;
    }
    halo_note_post(to, &p->note, HALO_NOTE_PROFILE);
}

static void look(struct halo_device_thread *t, struct halo_look *look)
{
    halo_device_refresh_info(t);
    halo_note_post(t->port, &look->note, HALO_NOTE_LOOK_DONE);
}

static void reset(struct halo_device_thread *t, struct halo_reset *r)
{
    r->n_freed = halo_scheduler_forget(&r->instance->scheduler, r->all, r->user);
    halo_note_post(t->port, &r->note, HALO_NOTE_RESET_DONE);
}

/* ---- the loop ---- */

/* The device's own calls for these can hang as a step can. */
static enum halo_activity activity_of(const struct halo_note *note)
{
    switch (note->what) {
    case HALO_NOTE_LOAD:
        return HALO_NOTE_ITEM(note, const struct halo_load, note)->stage == HALO_LOAD_RESTORE ? HALO_ACTIVITY_STEP
                                                                                              : HALO_ACTIVITY_MODEL;
    case HALO_NOTE_RESIZE:
    case HALO_NOTE_UNLOAD: return HALO_ACTIVITY_MODEL;
    case HALO_NOTE_FORECAST:
    case HALO_NOTE_PROFILE:
    case HALO_NOTE_SAVE_PAGES: return HALO_ACTIVITY_STEP;
    default: return HALO_ACTIVITY_IDLE;
    }
}

static void take_mail(struct halo_device_thread *t, struct halo_mail *mail)
{
    while (mail) {
        struct halo_note *note = halo_note_of(mail);
        mail = mail->next; /* before the note's object goes to somebody else */
        atomic_store(&t->activity, (int)activity_of(note));
        switch (note->what) {
        case HALO_NOTE_KICK: atomic_store(&t->kick_posted, false); break;
        case HALO_NOTE_SEQUENCE: submit(t, HALO_NOTE_ITEM(note, struct halo_sequence, note)); break;
        case HALO_NOTE_LOAD: halo_load_run(HALO_NOTE_ITEM(note, struct halo_load, note)); break;
        case HALO_NOTE_UNLOAD: unload(t, HALO_NOTE_ITEM(note, struct halo_instance, note)); break;
        case HALO_NOTE_BENCH: append_bench(t, HALO_NOTE_ITEM(note, struct halo_bench, note)); break;
        case HALO_NOTE_FORECAST: forecast(t, HALO_NOTE_ITEM(note, struct halo_forecast, note)); break;
        case HALO_NOTE_PROFILE: profile(t, HALO_NOTE_ITEM(note, struct halo_profiling, note)); break;
        case HALO_NOTE_LOOK: look(t, HALO_NOTE_ITEM(note, struct halo_look, note)); break;
        case HALO_NOTE_RESET: reset(t, HALO_NOTE_ITEM(note, struct halo_reset, note)); break;
        case HALO_NOTE_RESIZE: resize(t, HALO_NOTE_ITEM(note, struct halo_resize, note)); break;
        case HALO_NOTE_SAVE_PAGES: halo_device_save_pages(t, HALO_NOTE_ITEM(note, struct halo_save, note)); break;
        default: assert(!"no note for the device thread");
        }
    }
    atomic_store(&t->activity, HALO_ACTIVITY_IDLE);
}

/* The next bench is somebody else's. */
static void rotate_benches(struct halo_device_thread *t)
{
    struct halo_bench *bench = t->benches;
    t->benches = bench->next;
    append_bench(t, bench);
}

static int step_bench(struct halo_device_thread *t, struct halo_bench *bench)
{
    if (!halo_device_usable(t, &bench->fault))
        return -ENODEV;
    if (!bench->measured) { /* at the first moment when nobody else waits */
        bench->measured = measure_bandwidth(t);
        bench->bandwidth = bench->measured ? t->bandwidth : 0;
    }
    int r = halo_bench_step(bench, t->ops, &t->phase);
    if (r < 0)
        halo_device_on_failure(t, r); /* first: `lost` must be known when somebody hears of the failure */
    return r;
}

static void note_bench(struct halo_device_thread *t, struct halo_bench *bench, int r)
{
    if (r == HALO_BENCH_MORE && !atomic_exchange(&bench->progress_posted, true))
        halo_note_post(t->port, &bench->progress_note, HALO_NOTE_BENCH_PROGRESS);
    if (r <= 0)
        end_bench(t, &t->benches);
    else if (!bench->lent)
        rotate_benches(t); /* between two repetitions, or without pages for one */
}

/* Whosever turn it is. */
static void end_cancelled_benches(struct halo_device_thread *t)
{
    for (struct halo_bench **at = &t->benches; *at;) {
        if (!atomic_load(&(*at)->cancel)) {
            at = &(*at)->next;
            continue;
        }
        (*at)->cancelled = true;
        end_bench(t, at);
    }
}

/* One run of a bench, if it is its turn: benches have had no more of the device than the requests beside them. False:
 * there is nothing that a bench could do now or in the next round. */
static bool run_bench(struct halo_device_thread *t)
{
    uint32_t n = 0;
    int r = HALO_BENCH_WAIT;
    end_cancelled_benches(t);
    for (const struct halo_bench *bench = t->benches; bench; bench = bench->next)
        n++;
    if (n > 0 && t->models_worked && t->bench_ns > t->models_ns)
        return true; /* in a later round */
    uint64_t start_ns = halo_clock_ns();
    for (uint32_t i = 0; i < n && r == HALO_BENCH_WAIT; i++) {
        struct halo_bench *bench = t->benches;
        r = step_bench(t, bench);
        note_bench(t, bench, r);
    }
    t->bench_ns += halo_clock_ns() - start_ns;
    return r != HALO_BENCH_WAIT;
}

/* Replies on one model wait for prompts on another as well: tells each scheduler of the others. */
static void share_device(struct halo_device_thread *t)
{
    double all_ns = 0;
    uint32_t n_prompts_of = 0;
    for (uint32_t i = 0; i < t->n_models; i++) {
        all_ns += halo_scheduler_decode_ns(&t->models[i]->scheduler);
        n_prompts_of += halo_scheduler_has_prompts(&t->models[i]->scheduler);
    }
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct halo_scheduler *s = &t->models[i]->scheduler;
        struct halo_scheduler_others others = {
            .decode_ns = t->n_models > 1 ? all_ns - halo_scheduler_decode_ns(s) : 0,
            .n_prompts_of = n_prompts_of,
        };
        halo_scheduler_share(s, &others);
    }
}

static bool run_models(struct halo_device_thread *t)
{
    bool worked = false;
    uint64_t start_ns = halo_clock_ns();
    share_device(t);
    for (uint32_t i = 0; i < t->n_models; i++) {
        struct halo_fault fault = {0};
        if (t->models[i]->saving)
            continue;
        int r = halo_scheduler_step(&t->models[i]->scheduler, &fault);
        worked |= r != HALO_SCHEDULER_IDLE;
        if (r != HALO_SCHEDULER_IDLE && t->models[i]->experts)
            publish_absent(t->models[i]); /* the kernel may have taken slots */
        if (r < 0) {
            halo_device_on_failure(t, r);
            break;
        }
    }
    t->models_worked = worked;
    t->models_ns += halo_clock_ns() - start_ns;
    if (!worked || !t->benches)
        t->models_ns = t->bench_ns = 0; /* nobody has to wait for anybody */
    return worked;
}

static void publish_pages(struct halo_device_thread *t)
{
    uint32_t n_held = 0;
    for (uint32_t i = 0; i < t->n_models; i++)
        n_held += halo_scheduler_count_pages(&t->models[i]->scheduler);
    atomic_store(&t->stats->n_held, n_held);
}

static uint64_t sleep_us(const struct halo_device_thread *t)
{
    uint64_t next_ns = UINT64_MAX, now_ns = halo_clock_ns();
    for (uint32_t i = 0; i < t->n_models; i++) {
        uint64_t ns = halo_scheduler_next_deadline_ns(&t->models[i]->scheduler);
        next_ns = ns < next_ns ? ns : next_ns;
    }
    if (next_ns == UINT64_MAX)
        return UINT64_MAX;
    return next_ns > now_ns ? (next_ns - now_ns) / 1000 + 1 : 0;
}

static void end_everything(struct halo_device_thread *t)
{
    struct halo_fault fault = {0};
    halo_fault_set(&fault, HALO_FAULT_SHUTTING_DOWN, "the engine is going away");
    while (t->benches) {
        t->benches->fault = fault;
        end_bench(t, &t->benches);
    }
    for (uint32_t i = 0; i < t->n_models; i++)
        halo_scheduler_fail_all(&t->models[i]->scheduler, &fault);
    for (uint32_t i = t->n_models; i-- > 0;) {
        struct halo_instance *instance = t->models[i];
        if (instance->saving || atomic_load(&instance->takes_memory))
            continue; /* its pages are on their way to the io thread, or the prefetch thread has a slab */
        halo_scheduler_finish(&instance->scheduler);
        halo_device_forget_model(t, instance);
    }
    if (t->device && t->n_device_models == 0)
        t->ops->close(t->device);
}

static void *loop(void *ud)
{
    struct halo_device_thread *t = ud;
    open_device(t);
    bool worked = false;
    for (;;) {
        struct halo_mail *mail;
        if (worked) {
            mail = halo_mailbox_drain(&t->box);
        } else {
            halo_device_set_phase(t, "idle");
            mail = halo_mailbox_wait(&t->box, sleep_us(t));
        }
        take_mail(t, mail);
        if (halo_mailbox_is_closed(&t->box))
            break;
        halo_device_set_phase(t, "stepping");
        atomic_store(&t->activity, HALO_ACTIVITY_STEP);
        bool benched = run_bench(t);
        worked = run_models(t) || benched;
        publish_pages(t);
        atomic_store(&t->activity, HALO_ACTIVITY_IDLE);
    }
    end_everything(t);
    return NULL;
}

int halo_device_thread_start(struct halo_device_thread *t)
{
    int r = halo_mailbox_init(&t->box, false);
    if (r < 0)
        return r;
    pthread_mutex_init(&t->info_lock, NULL);
    halo_device_set_phase(t, "starting");
    r = halo_thread_start(&t->thread, "device", loop, t);
    if (r < 0) {
        halo_mailbox_finish(&t->box);
        pthread_mutex_destroy(&t->info_lock);
    }
    return r;
}

bool halo_device_thread_stop(struct halo_device_thread *t, uint32_t most_ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t until_ns = halo_clock_ns() + (uint64_t)most_ms * 1000000;
    halo_mailbox_close(&t->box);
    while (pthread_tryjoin_np(t->thread, NULL) != 0) { /* not clockjoin: ThreadSanitizer does not know it */
        if (halo_clock_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool halo_device_thread_is_idle(const struct halo_device_thread *t)
{
    return !atomic_load(&t->lost) && atomic_load(&t->activity) == HALO_ACTIVITY_IDLE;
}

void halo_device_thread_kick(struct halo_device_thread *t)
{
    if (!atomic_exchange(&t->kick_posted, true))
        halo_note_post(&t->box, &t->kick_note, HALO_NOTE_KICK);
}
