/* weight.c: where each weight lies, and its way from the file's bytes to the kernels' layout.
 *
 * On an integrated GPU there is one region, which host and GPU share: the file's bytes are read to the end of the
 * weight's slot and packed forwards over themselves, some rows at a time (a packed row is never smaller than its row in
 * the file). On a discrete one the host has a region of its own for the file's bytes; packed rows go through two pinned
 * buffers, and the pages of the file's bytes are given back. A large weight owns whole pages there, at an address
 * congruent to its file offset, for direct reads.
 *
 * The rows of a large weight are shared among a crew (crew_priv.h). halo_hip_weight_commit may be called for several
 * weights at once; one at a time has the crew and the pinned buffers.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device_priv.h"
#include "pack_priv.h"

#define SLACK_MIN (256 * 1024)
#define CREW_MIN (512 * 1024)     /* bytes that are worth waking others */
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
    bool slack = info->n_bytes >= SLACK_MIN;
    if (slack)
        data =
            add_or_max(data, (info->offset + HALO_HIP_PAGE_BYTES - data % HALO_HIP_PAGE_BYTES) % HALO_HIP_PAGE_BYTES);
    uint64_t end = add_or_max(data, info->n_bytes);
    *ret_data = data;
    *ret_slack = slack;
    return slack ? align_or_max(end, HALO_HIP_PAGE_BYTES) : end;
}

uint64_t halo_hip_weights_place(const struct halo_plan *plan, bool integrated, struct halo_hip_weight *weights,
                                uint64_t *ret_file)
{
    uint64_t at = 0, file = 0;
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        const struct halo_weight *info = &plan->weights[i];
        uint64_t packed = packed_bytes(info), growth = packed > info->n_bytes ? packed - info->n_bytes : 0, data, end;
        bool large = info->n_bytes >= SLACK_MIN, slack;
        uint64_t alignment = large ? HALO_HIP_PAGE_BYTES : HALO_HIP_ALIGN;
        at = align_or_max(at, alignment);
        if (integrated) {
            end = place_data(info, at, growth, &data, &slack);
        } else {
            file = align_or_max(file, alignment);
            end = file = place_data(info, file, 0, &data, &slack);
        }
        if (weights) {
            weights[i].info = info;
            weights[i].at = at;
            weights[i].data = data;
            weights[i].slot_end = end;
            weights[i].slack = slack;
            weights[i].expert_bytes = packed / info->n_experts;
        }
        uint64_t packed_end = add_or_max(at, packed);
        at = integrated && end > packed_end ? end : packed_end;
    }
    if (ret_file)
        *ret_file = integrated ? 0 : align_or_max(file, HALO_HIP_PAGE_BYTES);
    return align_or_max(at, HALO_HIP_PAGE_BYTES);
}

static uint8_t *file_bytes(const struct halo_device_model *model, const struct halo_hip_weight *w)
{
    const struct halo_hip_region *region =
        model->device->properties.integrated ? &model->weight_region : &model->file_region;
    return region->host + w->data;
}

void halo_hip_weight_slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    assert(index < model->plan->n_weights && !model->sealed);
    const struct halo_hip_weight *w = &model->weights[index];
    *ret = (struct halo_device_slot){.data = file_bytes(model, w), .slack = w->slack};
}

/* A weight as rows: how many, and how long each is. A vector is one row of floats, cut into pieces of VECTOR_ROW. */
#define VECTOR_ROW 4096
struct rows {
    uint64_t n, n_file, n_packed; /* bytes of a row in the file and packed */
    uint64_t n_last;              /* elements of the last piece of a vector */
};

static struct rows rows_of(const struct halo_weight *info)
{
    uint64_t n = (uint64_t)info->n_rows * info->n_experts;
    if (info->role != HALO_WEIGHT_VECTOR)
        return (struct rows){n, halo_type_row_bytes(info->type, info->n_cols),
                             halo_hip_row_layout(info->type, info->n_cols).stride, 0};
    n *= info->n_cols;
    uint64_t pieces = (n + VECTOR_ROW - 1) / VECTOR_ROW;
    return (struct rows){pieces, halo_type_row_bytes(info->type, VECTOR_ROW), VECTOR_ROW * sizeof(float),
                         n - (pieces - 1) * VECTOR_ROW};
}

/* Rows of a weight on their way: row r of the file at from + (r - first) * rows.n_file, packed to out likewise. */
struct piece {
    const struct halo_weight *info;
    struct rows rows;
    uint64_t first;
    const uint8_t *from;
    uint8_t *out;
};

static void pack_item(void *ud, uint64_t i, uint32_t hand)
{
    const struct piece *p = ud;
    const uint8_t *from = p->from + i * p->rows.n_file;
    uint8_t *out = p->out + i * p->rows.n_packed;
    (void)hand;
    if (p->info->role == HALO_WEIGHT_VECTOR) {
        uint64_t n = p->first + i + 1 == p->rows.n ? p->rows.n_last : VECTOR_ROW;
        halo_hip_pack_vector(p->info->type, n, from, (float *)(void *)out);
    } else {
        halo_hip_pack_row(p->info->type, p->info->n_cols, from, out);
    }
}

/* Bytes of rows first .. first + n - 1, of whose size `n_row` the last piece of a vector is less. */
static uint64_t bytes_of(const struct piece *p, uint64_t n, uint64_t n_row)
{
    bool last = p->info->role == HALO_WEIGHT_VECTOR && p->first + n == p->rows.n;
    return last ? (n - 1) * n_row + n_row / VECTOR_ROW * p->rows.n_last : n * n_row;
}

static void run_rows(struct halo_hip_crew *crew, struct piece *p, uint64_t n, halo_hip_crew_fn *fn)
{
    if (n * p->rows.n_packed >= CREW_MIN) {
        halo_hip_crew_run(crew, n, fn, p);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        fn(p, i, 0);
}

/* Copies packed rows from the pinned buffers: one is filled while the other is under way. The caller holds the lock. */
static int upload(struct halo_device_model *model, const struct halo_hip_weight *w, char *reason)
{
    struct halo_device *device = model->device;
    struct piece p = {.info = w->info, .rows = rows_of(w->info), .from = file_bytes(model, w)};
    uint64_t most = HALO_HIP_STAGING_BYTES / p.rows.n_packed;
    uint8_t *to = model->weight_region.device + w->at;
    char what[96];
    snprintf(what, sizeof(what), "uploading %.64s", w->info->name);
    int r = halo_hip_check(device, device->api.SetDevice(device->index), what, reason);
    for (uint64_t n; p.first < p.rows.n && !r; p.first += n) {
        uint32_t turn = model->staging_turn ^= 1;
        p.out = model->staging_region.host + (size_t)turn * HALO_HIP_STAGING_BYTES;
        n = p.rows.n - p.first < most ? p.rows.n - p.first : most;
        if (model->staging_busy[turn] && (r = halo_hip_wait(device, model->staging_event[turn], what, reason)) != 0)
            break;
        run_rows(&model->crew, &p, n, pack_item);
        uint64_t n_bytes = bytes_of(&p, n, p.rows.n_packed);
        r = device->api.MemcpyAsync(to, p.out, n_bytes, HIP_COPY_TO_DEVICE, device->stream);
        if (!r)
            r = device->api.EventRecord(model->staging_event[turn], device->stream);
        r = halo_hip_check(device, r, what, reason);
        model->staging_busy[turn] = !r;
        to += n_bytes;
        p.from += n * p.rows.n_file;
    }
    return r;
}

static int commit_discrete(struct halo_device_model *model, struct halo_hip_weight *w, char *reason)
{
    int r = upload(model, w, reason);
    if (w->slack) {
        uint8_t *base = model->file_region.host;
        uint64_t begin = w->data / HALO_HIP_PAGE_BYTES * HALO_HIP_PAGE_BYTES;
        madvise(base + begin, w->slot_end - begin, MADV_DONTNEED);
    }
    return r;
}

/* Some rows at a time: out of the way first, because their packed form may lie over them. */
static int commit_in_place(struct halo_device_model *model, struct halo_hip_weight *w, char *reason)
{
    struct piece p = {.info = w->info, .rows = rows_of(w->info)};
    uint64_t most = IN_PLACE_BYTES / p.rows.n_packed + 1;
    const uint8_t *file = file_bytes(model, w);
    most = most < p.rows.n ? most : p.rows.n;
    uint8_t *copy = malloc(most * p.rows.n_file);
    if (!copy)
        return halo_hip_reason(reason, -ENOMEM, "no memory to pack %s", w->info->name);
    p.from = copy;
    p.out = model->weight_region.host + w->at;
    for (uint64_t n; p.first < p.rows.n; p.first += n) {
        n = p.rows.n - p.first < most ? p.rows.n - p.first : most;
        uint64_t n_bytes = bytes_of(&p, n, p.rows.n_file);
        memcpy(copy, file, n_bytes);
        run_rows(&model->crew, &p, n, pack_item);
        file += n_bytes;
        p.out += bytes_of(&p, n, p.rows.n_packed);
    }
    free(copy);
    return 0;
}

int halo_hip_weight_commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    assert(index < model->plan->n_weights && !model->sealed);
    struct halo_hip_weight *w = &model->weights[index];
    int r = halo_hip_usable(model->device, reason);
    if (r)
        return r;
    pthread_mutex_lock(&model->commit_lock);
    r = model->device->properties.integrated ? commit_in_place(model, w, reason) : commit_discrete(model, w, reason);
    pthread_mutex_unlock(&model->commit_lock);
    if (!r)
        atomic_store_explicit(&w->committed, true, memory_order_release);
    return r;
}
