/* weight.c: where each weight lies, and its way from the file's bytes to the kernels' layout.
 *
 * On an integrated GPU there is one region, which host and GPU share: the file's bytes are read to the end of the
 * weight's slot and packed forwards over themselves, some rows at a time (a packed row is never smaller than its row in
 * the file). On a discrete one the file's bytes go through a pool of the host's memory (file_pool.c), and packed rows
 * through two pinned buffers. A large weight owns whole pages in either, and its bytes begin at an address congruent to
 * their file offset, for direct reads.
 *
 * Worker threads share the rows of a large weight: packing by one thread is slower than a disk. halo_hip_weight_commit
 * may be called for several weights at once; one at a time has the workers and the pinned buffers.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_priv.h"
#include "pack_priv.h"

#define SHARE_MIN (512 * 1024)    /* packed bytes that are worth waking workers for */
#define SLICES_PER_THREAD 4       /* so that no thread waits long for the last */
#define IN_PLACE_BYTES (8u << 20) /* packed together in place */

static uint64_t add_or_max(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t align_or_max(uint64_t n, uint64_t to)
{
    return add_or_max(n, to - 1) / to * to;
}

static uint64_t packed_bytes(const struct halo_weight *w)
{
    if (w->role == HALO_WEIGHT_VECTOR)
        return (uint64_t)w->n_cols * w->n_rows * w->n_experts * sizeof(float);
    uint64_t n;
    if (__builtin_mul_overflow(halo_hip_weight_bytes(w->type, w->n_cols, w->n_rows), (uint64_t)w->n_experts, &n))
        return UINT64_MAX;
    return n;
}

/* The file's bytes, `growth` behind the begin of a slot at `at`: on a congruent page when it is large. Returns the
 * slot's end. */
static uint64_t place_data(const struct halo_weight *info, uint64_t at, uint64_t growth, uint64_t *ret_data,
                           bool *ret_slack)
{
    uint64_t data = add_or_max(at, growth);
    bool slack = info->n_bytes >= HALO_HIP_SLACK_MIN;
    if (slack)
        data =
            add_or_max(data, (info->offset + HALO_HIP_PAGE_BYTES - data % HALO_HIP_PAGE_BYTES) % HALO_HIP_PAGE_BYTES);
    uint64_t end = add_or_max(data, info->n_bytes);
    *ret_data = data;
    *ret_slack = slack;
    return slack ? align_or_max(end, HALO_HIP_PAGE_BYTES) : end;
}

uint64_t halo_hip_weights_place(const struct halo_plan *plan, bool integrated, struct halo_hip_weight *weights)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *info = &plan->weights[i];
        if (info->streamed > 0) { /* take_slots says where its experts lie */
            if (weights)
                weights[i].info = info;
            continue;
        }
        uint64_t packed = packed_bytes(info), growth = packed > info->n_bytes ? packed - info->n_bytes : 0;
        uint64_t data = 0, end = 0;
        bool slack = false;
        at = align_or_max(at, info->n_bytes >= HALO_HIP_SLACK_MIN ? HALO_HIP_PAGE_BYTES : HALO_HIP_ALIGN);
        if (integrated)
            end = place_data(info, at, growth, &data, &slack);
        if (weights) {
            weights[i].info = info;
            weights[i].at = at;
            weights[i].data = data;
            weights[i].slack = slack;
            weights[i].expert_bytes = packed / info->n_experts;
        }
        uint64_t packed_end = add_or_max(at, packed);
        at = end > packed_end ? end : packed_end;
    }
    return align_or_max(at, HALO_HIP_PAGE_BYTES);
}

static uint8_t *file_bytes(const struct halo_device_model *model, const struct halo_hip_weight *w)
{
    const struct halo_hip_region *region =
        model->device->properties.integrated ? &model->weight_region : &model->file_region;
    return region->host + w->data;
}

int halo_hip_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    assert(index < model->plan->n_weights && !model->sealed && model->plan->weights[index].streamed == 0);
    const struct halo_hip_weight *w = &model->weights[index];
    int r = model->device->properties.integrated ? 0 : halo_hip_pool_take(&model->pool, index);
    if (r == 0)
        *ret = (struct halo_device_slot){.data = file_bytes(model, w), .slack = w->slack};
    return r;
}

/* A weight as rows: how many, and how long each is. A vector is taken as rows of VECTOR_ROW elements. */
#define VECTOR_ROW 4096
struct rows {
    uint64_t n, n_file, n_packed; /* bytes of a row in the file and packed */
    uint64_t n_last;              /* elements of the last row of a vector */
};

static struct rows rows_of(const struct halo_weight *info)
{
    uint64_t n = (uint64_t)info->n_rows * info->n_experts;
    if (info->role != HALO_WEIGHT_VECTOR)
        return (struct rows){n, halo_type_row_bytes(info->type, info->n_cols),
                             halo_hip_row_layout(info->type, info->n_cols).stride, 0};
    n *= info->n_cols;
    uint64_t n_rows = (n + VECTOR_ROW - 1) / VECTOR_ROW;
    return (struct rows){n_rows, halo_type_row_bytes(info->type, VECTOR_ROW), VECTOR_ROW * sizeof(float),
                         n - (n_rows - 1) * VECTOR_ROW};
}

/* Rows first .. first + n - 1 of a weight, packed together: row r of the file is at from + (r - first) * rows.n_file,
 * its packed form at out likewise. */
struct chunk {
    const struct halo_weight *info;
    struct rows rows;
    uint64_t first, n;
    const uint8_t *from;
    uint8_t *out;
    uint64_t slice; /* rows of an item */
};

static float scale_of(const struct halo_weight *info, uint64_t row)
{
    return info->scales ? info->scales[row / info->n_rows] : 1;
}

static void pack_row(const struct chunk *c, uint64_t i)
{
    const uint8_t *from = c->from + i * c->rows.n_file;
    uint8_t *out = c->out + i * c->rows.n_packed;
    if (c->info->role == HALO_WEIGHT_VECTOR) {
        uint64_t n = c->first + i + 1 == c->rows.n ? c->rows.n_last : VECTOR_ROW;
        float *vector = (float *)(void *)out;
        halo_hip_pack_vector(c->info->type, n, from, vector);
        for (uint64_t k = 0; c->info->scales && k < n; k++)
            vector[k] *= c->info->scales[0];
    } else {
        halo_hip_pack_row(c->info->type, c->info->n_cols, from, out);
        if (c->info->type == HALO_TYPE_NVFP4)
            halo_hip_pack_factor(c->info->n_cols, scale_of(c->info, c->first + i), out);
    }
}

static void pack_slice(void *arg, uint32_t item, uint32_t thread)
{
    const struct chunk *c = arg;
    uint64_t begin = item * c->slice, end = begin + c->slice < c->n ? begin + c->slice : c->n;
    (void)thread;
    for (uint64_t i = begin; i < end; i++)
        pack_row(c, i);
}

static void pack_chunk(struct halo_workers *workers, struct chunk *c)
{
    uint32_t n_items = c->n * c->rows.n_packed < SHARE_MIN ? 1 : halo_workers_count(workers) * SLICES_PER_THREAD;
    c->slice = c->n / n_items + 1;
    halo_workers_run(workers, (uint32_t)((c->n + c->slice - 1) / c->slice), pack_slice, c);
}

/* Bytes of the chunk, `n_row` a row; the last row of a vector may be shorter. */
static uint64_t bytes_of(const struct chunk *c, uint64_t n_row)
{
    bool last = c->info->role == HALO_WEIGHT_VECTOR && c->first + c->n == c->rows.n;
    return last ? (c->n - 1) * n_row + n_row / VECTOR_ROW * c->rows.n_last : c->n * n_row;
}

static struct chunk chunk_of(const struct halo_weight *info, const uint8_t *from)
{
    return (struct chunk){.info = info, .rows = rows_of(info), .from = from};
}

/* Copies rows c.first .. c.rows.n - 1 packed from the pinned buffers: one is filled while the other is copied. One at a
 * time has these. */
static int upload(struct halo_device_model *model, struct chunk c, uint8_t *to, char *reason)
{
    struct halo_device *device = model->device;
    uint64_t most = HALO_HIP_STAGING_BYTES / c.rows.n_packed;
    char what[96];
    snprintf(what, sizeof(what), "uploading %.64s", c.info->name);
    int r = halo_hip_check(device, device->api.SetDevice(device->index), what, reason);
    for (; c.first < c.rows.n && !r; c.first += c.n) {
        uint32_t buffer = model->staging_next;
        model->staging_next ^= 1;
        c.out = model->staging_region.host + (size_t)buffer * HALO_HIP_STAGING_BYTES;
        c.n = c.rows.n - c.first < most ? c.rows.n - c.first : most;
        if (model->staging_busy[buffer] && (r = halo_hip_wait(device, model->staging_event[buffer], what, reason)) != 0)
            break;
        pack_chunk(model->packers, &c);
        uint64_t n_bytes = bytes_of(&c, c.rows.n_packed);
        r = device->api.MemcpyAsync(to, c.out, n_bytes, HIP_COPY_TO_DEVICE, device->stream);
        if (!r)
            r = device->api.EventRecord(model->staging_event[buffer], device->stream);
        r = halo_hip_check(device, r, what, reason);
        model->staging_busy[buffer] = !r;
        to += n_bytes;
        c.from += c.n * c.rows.n_file;
    }
    return r;
}

static int commit_discrete(struct halo_device_model *model, uint32_t index, char *reason)
{
    const struct halo_hip_weight *w = &model->weights[index];
    int r = upload(model, chunk_of(w->info, file_bytes(model, w)), model->weight_region.device + w->at, reason);
    halo_hip_pool_give_back(&model->pool, index);
    return r;
}

_Static_assert(HALO_HIP_PACK_COPY_BYTES >= IN_PLACE_BYTES + HALO_HIP_STAGING_BYTES, "no row is longer than a buffer");

/* Packs rows c.first .. c.rows.n - 1 from c.from on to `to`: some rows at a time, first copied to `copy`, because their
 * packed form may overlap them. */
static void pack_in_place(struct halo_workers *packers, struct chunk c, uint8_t *to, uint8_t *copy)
{
    uint64_t most = IN_PLACE_BYTES / c.rows.n_packed + 1;
    const uint8_t *file = c.from;
    c.from = copy;
    c.out = to;
    for (; c.first < c.rows.n; c.first += c.n) {
        c.n = c.rows.n - c.first < most ? c.rows.n - c.first : most;
        uint64_t n_bytes = bytes_of(&c, c.rows.n_file);
        memcpy(copy, file, n_bytes);
        pack_chunk(packers, &c);
        file += n_bytes;
        c.out += bytes_of(&c, c.rows.n_packed);
    }
}

static int commit_in_place(struct halo_device_model *model, struct halo_hip_weight *w, char *reason)
{
    uint8_t *copy = malloc(HALO_HIP_PACK_COPY_BYTES);
    if (!copy)
        return halo_reason(reason, -ENOMEM, "no memory to pack %s", w->info->name);
    pack_in_place(model->packers, chunk_of(w->info, file_bytes(model, w)), model->weight_region.host + w->at, copy);
    free(copy);
    return 0;
}

int halo_hip_weight_bring_expert(struct halo_device_model *model, uint32_t index, const struct halo_expert *expert,
                                 uint32_t part, char *reason)
{
    struct chunk c = chunk_of(model->weights[index].info, expert->data[part]);
    c.first = (uint64_t)expert->id * c.info->n_rows; /* of the rows of all experts */
    c.rows.n = c.first + c.info->n_rows;
    if (model->device->properties.integrated) {
        pack_in_place(model->packers, c, expert->base[part], model->experts.copy);
        return 0;
    }
    const struct halo_hip_slots *slots = &model->experts.slots;
    uint64_t at = halo_hip_slot_place(slots, expert->slot) * slots->slot_bytes + model->weights[index].at;
    return upload(model, c, slots->base + at, reason);
}

int halo_hip_weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    assert(index < model->plan->n_weights && !model->sealed);
    struct halo_hip_weight *w = &model->weights[index];
    int r = halo_hip_usable(model->device, reason);
    if (r)
        return r;
    pthread_mutex_lock(&model->commit_lock);
    r = model->device->properties.integrated ? commit_in_place(model, w, reason)
                                             : commit_discrete(model, index, reason);
    pthread_mutex_unlock(&model->commit_lock);
    if (!r)
        atomic_store_explicit(&w->committed, true, memory_order_release);
    return r;
}
