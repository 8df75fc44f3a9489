/* golden_host.c: loads a model into a device and feeds it. See golden_host.h. */
#include "golden_host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include <cpu/cpu.h>
#if HALO_HIP
#include <hip/hip.h>
#endif
#if HALO_INJECT
#include <inject/inject.h>
#endif
#include <pipeline/pipeline.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int device_fault(int error, const char *what, const char *reason, struct halo_fault *fault)
{
    enum halo_fault_code code = error == -ENOTSUP  ? HALO_FAULT_UNSUPPORTED
                                : error == -ENOMEM ? HALO_FAULT_OUT_OF_MEMORY
                                                   : HALO_FAULT_DEVICE_FAULT;
    return halo_fault_set(fault, code, "%s: %s", what, reason);
}

static int weight_read(const struct halo_golden_host *host, const struct halo_weight *weight, void *dest,
                       struct halo_fault *fault)
{
    const char *path = halo_gguf_part_path(host->model->gguf, weight->part);
    size_t done = 0, piece = weight->n_bytes / halo_weight_n_pieces(weight);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return halo_fault_errno(fault, HALO_FAULT_LOAD_FAILED, -errno, "%s", path);
    while (done < weight->n_bytes) {
        uint64_t at = weight->offset + done / piece * weight->expert_step + done % piece;
        ssize_t n = pread(fd, (char *)dest + done, piece - done % piece, (off_t)at);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            close(fd);
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s: %s cannot be read", path, weight->name);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return 0;
}

static int weights_load(struct halo_golden_host *host, struct halo_fault *fault)
{
    char reason[HALO_DEVICE_REASON] = "";
    int r;

    for (uint32_t i = 0; i < host->plan.n_weights; i++) {
        struct halo_device_slot slot;
        r = host->table->weight_slot(host->device_model, i, &slot);
        assert(r == 0); /* all before it are committed */
        if ((r = weight_read(host, &host->plan.weights[i], slot.data, fault)) < 0)
            return r;
        if ((r = host->table->weight_commit(host->device_model, i, reason)) < 0)
            return device_fault(r, host->plan.weights[i].name, reason, fault);
    }
    r = host->table->model_seal(host->device_model, reason);
    return r < 0 ? device_fault(r, "seal", reason, fault) : 0;
}

/* The table of the device; NULL when the build has it not. */
static const struct halo_device_ops *device_table(const struct halo_golden_settings *settings)
{
#if HALO_HIP
    return settings->hip_library ? halo_device_hip() : halo_device_cpu();
#else
    return settings->hip_library ? NULL : halo_device_cpu();
#endif
}

static const struct halo_device_ops *device_inject(const struct halo_device_ops *table, bool oracle)
{
#if HALO_INJECT
    return oracle ? table : halo_inject_wrap(table);
#else
    return table;
#endif
}

static int device_fill(struct halo_golden_host *host, const struct halo_golden_settings *settings,
                       struct halo_fault *fault)
{
    const struct halo_device_options options = {.n_threads = settings->n_threads,
                                                .variant = settings->variant,
                                                .library = settings->hip_library,
                                                .stage = device_table(settings),
                                                .n_stages = settings->n_stages};
    char reason[HALO_DEVICE_REASON] = "";
    int r;

    host->table = device_inject(options.stage && settings->n_stages > 0 ? halo_device_pipeline() : options.stage,
                                settings->oracle);
    if (!host->table)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "this build has no HIP device");
    assert(host->table->abi == HALO_DEVICE_ABI && host->table->size == sizeof(*host->table));
    if ((r = host->table->probe(&options, reason)) < 0)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "device: %s", reason);
    if ((r = host->table->open(&host->device, &options, reason)) < 0)
        return device_fault(r, "open", reason, fault);
    for (uint32_t i = 0; i < host->plan.n_ops; i++)
        if ((r = host->table->supports(host->device, &host->plan, i, reason)) < 0)
            return device_fault(r, "plan", reason, fault);
    if ((r = host->table->model_create(host->device, &host->plan, &host->device_model, reason)) < 0)
        return device_fault(r, "model", reason, fault);
    return weights_load(host, fault);
}

/* A plan of the host's own, logits and page table. */
static bool memory_take(struct halo_golden_host *host)
{
    const struct halo_plan *plan = &host->model->plan;
    size_t n_bytes = (HALO_GOLDEN_ROWS * (size_t)plan->n_vocab * sizeof(float) + 63) / 64 * 64;

    uint32_t n_pairs = plan->n_ropes > 0 ? plan->ropes[0].n_rot / 2 : 0;
    host->plan = *plan;
    for (uint32_t group = 1; group < plan->n_kv_groups; group++) /* nothing is recycled here */
        host->plan.kv[group].n_pages = plan->kv[0].n_pages;
    host->ops = malloc(plan->n_ops * sizeof(*host->ops));
    host->weights = malloc(plan->n_weights * sizeof(*host->weights));
    host->ropes = malloc((plan->n_ropes + 1) * sizeof(*host->ropes));
    host->freqs = malloc((n_pairs + 1) * sizeof(*host->freqs));
    host->logits = aligned_alloc(64, n_bytes);
    host->pages = calloc(plan->kv[0].n_pages, sizeof(*host->pages));
    if (!host->ops || !host->weights || !host->ropes || !host->freqs || !host->logits || !host->pages)
        return false;
    memcpy(host->ops, plan->ops, plan->n_ops * sizeof(*host->ops));
    memcpy(host->ropes, plan->ropes, plan->n_ropes * sizeof(*host->ropes));
    memcpy(host->weights, plan->weights, plan->n_weights * sizeof(*host->weights));
    host->plan.ops = host->ops;
    host->plan.weights = host->weights;
    host->plan.ropes = host->ropes;
    return true;
}

/* The norm at the end takes what the layer after the last one would have taken. */
static bool layers_cut(struct halo_golden_host *host, uint32_t n_layers)
{
    uint32_t n_ops = host->plan.n_ops, at = 0;

    while (at < n_ops && host->ops[at].layer != n_layers)
        at++;
    if (at == n_ops) /* the last layer of all, or beyond it */
        return n_layers > 0 && host->ops[n_ops - 3].layer == n_layers - 1;
    assert(host->ops[n_ops - 2].kind == HALO_OP_RMSNORM && host->ops[n_ops - 1].kind == HALO_OP_LOGITS);
    if (at == 0 || host->ops[at].kind != HALO_OP_RMSNORM)
        return false;
    struct halo_op norm = host->ops[n_ops - 2];
    norm.u.rmsnorm.x = host->ops[at].u.rmsnorm.x;
    norm.u.rmsnorm.add = host->ops[at].u.rmsnorm.add;
    norm.u.rmsnorm.x_scale = host->ops[at].u.rmsnorm.x_scale;
    host->ops[at] = norm;
    host->ops[at + 1] = host->ops[n_ops - 1];
    host->plan.n_ops = at + 2;
    return true;
}

int halo_golden_host_open(struct halo_golden_host *ret, const char *path, const struct halo_golden_settings *settings,
                          struct halo_fault *fault)
{
    uint32_t context = settings->context ? settings->context : 1024;
    const struct halo_model_params params = {.context = context,
                                             .kv_tokens = context,
                                             .kv = settings->kv,
                                             .max_rows = HALO_GOLDEN_ROWS,
                                             .max_outputs = HALO_GOLDEN_ROWS};
    int r;

    memset(ret, 0, sizeof(*ret));
    if ((r = halo_model_create(&ret->model, path, &params, fault)) < 0)
        return r;
    if (!memory_take(ret))
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the logits");
    else if (settings->n_layers > 0 && !layers_cut(ret, settings->n_layers))
        r = halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s cannot be cut after %u layers", path, settings->n_layers);
    else if (settings->mutate && !settings->mutate(ret))
        r = halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s has nothing that this mutation changes", path);
    else
        r = device_fill(ret, settings, fault);
    if (r < 0) {
        halo_golden_host_close(ret);
        return r;
    }
    /* Pages in falling order: a device that forgets the page table shows it. */
    for (uint32_t i = 0; i < ret->plan.kv[0].n_pages; i++)
        ret->pages[i] = ret->plan.kv[0].n_pages - 1 - i;
    return 0;
}

void halo_golden_host_close(struct halo_golden_host *host)
{
    if (host->device_model)
        host->table->model_destroy(host->device_model);
    if (host->device)
        host->table->close(host->device);
    halo_model_destroy(host->model);
    free(host->ops);
    free(host->weights);
    free(host->ropes);
    free(host->freqs);
    free(host->logits);
    free(host->pages);
    memset(host, 0, sizeof(*host));
}

int halo_golden_host_feed(struct halo_golden_host *host, const int32_t *tokens, uint32_t first, uint32_t n,
                          uint32_t chunk, uint32_t wanted_from, halo_golden_row *row, void *ud,
                          struct halo_fault *fault)
{
    struct halo_batch_seq seq = {.n_pages = host->plan.kv[0].n_pages};
    struct halo_device_phase phase = {0};
    char reason[HALO_DEVICE_REASON] = "";

    assert(chunk >= 1 && chunk <= HALO_GOLDEN_ROWS && first + n <= host->plan.n_context);
    for (uint32_t group = 0; group < host->plan.n_kv_groups; group++)
        seq.pages[group] = host->pages;
    for (uint32_t done = 0; done < n;) {
        int32_t pos[HALO_GOLDEN_ROWS];
        uint32_t of[HALO_GOLDEN_ROWS] = {0}, output[HALO_GOLDEN_ROWS], n_outputs = 0;
        uint32_t n_rows = n - done < chunk ? n - done : chunk;
        int r;

        for (uint32_t i = 0; i < n_rows; i++) {
            pos[i] = (int32_t)(first + done + i);
            if (first + done + i >= wanted_from)
                output[n_outputs++] = i;
        }
        const struct halo_batch batch = {.n_rows = n_rows,
                                         .token = tokens + done,
                                         .pos = pos,
                                         .seq = of,
                                         .n_seqs = 1,
                                         .seqs = &seq,
                                         .n_outputs = n_outputs,
                                         .output = output,
                                         .logits = host->logits};
        if ((r = host->table->run(host->device_model, &batch, &phase, reason)) < 0)
            return device_fault(r, "run", reason, fault);
        for (uint32_t i = 0; i < n_outputs; i++)
            row(ud, (uint32_t)pos[output[i]], host->logits + (size_t)i * host->plan.n_vocab);
        done += n_rows;
    }
    return 0;
}
