/* test_hip_file_pool.c: weights read through the pool of a discrete GPU never share memory, are at places that direct
 * reads can fill, and every load goes on within the pool's size, whatever the order in which they are committed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "device_priv.h"

#define WEIGHTS 60
#define PARTS 2

struct job {
    uint32_t part, weight;
    uint64_t offset;
};

struct rig {
    struct halo_plan plan;
    struct halo_weight infos[WEIGHTS];
    struct halo_hip_weight weights[WEIGHTS];
    uint32_t order[WEIGHTS], left[WEIGHTS]; /* pieces that are still to be read */
    struct job jobs[WEIGHTS * 8];
    size_t n_jobs;
    struct halo_hip_pool pool;
    uint64_t taken, peak; /* bytes of the slots in use */
    uint32_t seed;
};

static uint32_t draw(struct rig *rig, uint32_t n)
{
    rig->seed = rig->seed * 1664525u + 1013904223u;
    return (rig->seed >> 8) % n;
}

static int job_compare(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Tensors one behind the other in two files; every eighth holds the experts of two weights by turns. */
static void files_make(struct rig *rig)
{
    uint64_t at = 1000;
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        struct halo_weight *w = &rig->infos[i];
        uint32_t part = i < WEIGHTS / 2 ? 0 : 1;
        bool paired = i % 8 == 5 && i + 1 < WEIGHTS / 2;
        at = i == WEIGHTS / 2 ? 64 : at + 32;
        uint64_t n = draw(rig, 3) > 0 ? 1 + draw(rig, 3000000) : 1 + draw(rig, 9000);
        *w = (struct halo_weight){.part = part, .offset = at, .n_bytes = n, .n_experts = 1};
        if (paired) {
            n = n / 4 + 1;
            *w = (struct halo_weight){
                .part = part, .offset = at, .n_bytes = 4 * n, .n_experts = 4, .expert_step = 2 * n};
            rig->infos[i + 1] = *w;
            rig->infos[i + 1].offset += n;
            at += 8 * n;
            i++;
        } else {
            at += n;
        }
    }
    rig->plan = (struct halo_plan){.weights = rig->infos, .n_weights = WEIGHTS};
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        const struct halo_weight *w = &rig->infos[i];
        rig->weights[i] = (struct halo_hip_weight){.info = w};
        rig->left[i] = halo_weight_n_pieces(w);
        for (uint32_t k = 0; k < rig->left[i]; k++)
            rig->jobs[rig->n_jobs++] = (struct job){w->part, i, w->offset + k * w->expert_step};
    }
    qsort(rig->jobs, rig->n_jobs, sizeof(*rig->jobs), job_compare);
}

static void check_slot(struct rig *rig, uint32_t index)
{
    const struct halo_hip_weight *w = &rig->weights[index];
    assert_true(w->data >= w->slot && w->data + w->info->n_bytes <= rig->pool.n_bytes);
    assert_int_equal(w->slot % HALO_HIP_PAGE_BYTES, 0);
    assert_int_equal(w->slack, w->info->n_bytes >= HALO_HIP_SLACK_MIN);
    if (w->slack)
        assert_int_equal(w->data % HALO_HIP_PAGE_BYTES, w->info->offset % HALO_HIP_PAGE_BYTES);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        const struct halo_hip_weight *other = &rig->weights[i];
        uint64_t end = (w->data + w->info->n_bytes + HALO_HIP_PAGE_BYTES - 1) / HALO_HIP_PAGE_BYTES;
        uint64_t other_end = (other->data + other->info->n_bytes + HALO_HIP_PAGE_BYTES - 1) / HALO_HIP_PAGE_BYTES;
        if (i != index && other->has_slot)
            assert_true(end <= other->slot / HALO_HIP_PAGE_BYTES || other_end <= w->slot / HALO_HIP_PAGE_BYTES);
    }
}

/* Commits one of those that are wholly read. False: there is none. */
static bool commit_one(struct rig *rig)
{
    uint32_t n = 0, chosen[WEIGHTS];
    for (uint32_t i = 0; i < WEIGHTS; i++)
        if (rig->weights[i].has_slot && rig->left[i] == 0)
            chosen[n++] = i;
    if (n == 0)
        return false;
    uint32_t index = chosen[draw(rig, n)];
    rig->taken -= rig->infos[index].n_bytes;
    halo_hip_pool_give_back(&rig->pool, index);
    return true;
}

static void load_all(struct rig *rig, uint64_t ahead)
{
    uint64_t all = 0, n_refused = 0;
    files_make(rig);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        all += rig->infos[i].n_bytes;
    halo_hip_pool_init(&rig->pool, rig->weights, rig->order, WEIGHTS, halo_hip_pool_bytes(&rig->plan, ahead));
    for (size_t i = 0; i < rig->n_jobs; i++) {
        uint32_t index = rig->jobs[i].weight;
        bool had = rig->weights[index].has_slot;
        int r;
        while ((r = halo_hip_pool_take(&rig->pool, index)) == -EAGAIN) {
            assert_true(commit_one(rig)); /* else the load would wait for ever */
            n_refused++;
        }
        assert_int_equal(r, 0);
        rig->taken += had ? 0 : rig->infos[index].n_bytes;
        rig->peak = rig->taken > rig->peak ? rig->taken : rig->peak;
        check_slot(rig, index);
        rig->left[index]--;
        if (draw(rig, 4) == 0)
            commit_one(rig);
    }
    while (commit_one(rig))
        continue;
    assert_int_equal(rig->taken, 0);
    assert_int_equal(rig->pool.n, 0);
    if (ahead == UINT64_MAX) /* all of it at once */
        assert_true(n_refused == 0 && rig->pool.n_bytes < all + WEIGHTS * 2 * HALO_HIP_PAGE_BYTES);
    else
        assert_true(n_refused > 0 && rig->peak <= rig->pool.n_bytes && rig->pool.n_bytes < all / 2);
    halo_hip_pool_finish(&rig->pool);
}

static void test_loads_go_on(void **state)
{
    static const uint64_t aheads[] = {0, 100000, 4000000, UINT64_MAX};
    (void)state;
    for (uint32_t seed = 0; seed < 400; seed++) {
        struct rig *rig = calloc(1, sizeof(*rig));
        assert_non_null(rig);
        rig->seed = seed;
        load_all(rig, aheads[seed % 4]);
        free(rig);
    }
}

static void test_bounds(void **state)
{
    struct halo_weight infos[3] = {{.offset = 4096, .n_bytes = 1 << 20, .n_experts = 1},
                                   {.offset = 8192 + (1 << 20), .n_bytes = 3 << 20, .n_experts = 1},
                                   {.offset = 100 << 20, .n_bytes = 2 << 20, .n_experts = 1}};
    struct halo_plan plan = {.weights = infos, .n_weights = 3};
    (void)state;
    assert_int_equal(halo_hip_pool_bytes(&plan, 0), 3 << 20); /* the largest */
    assert_int_equal(halo_hip_pool_bytes(&plan, 4096), (3 << 20) + 4096);
    assert_int_equal(halo_hip_pool_bytes(&plan, 1 << 30), 6 << 20); /* no more than all of them */
    infos[1].streamed = 1;                                          /* its experts have slots of their own */
    assert_int_equal(halo_hip_pool_bytes(&plan, 0), 2 << 20);
    infos[0].n_bytes = UINT64_MAX;
    assert_int_equal(halo_hip_pool_bytes(&plan, 0), UINT64_MAX / 4096 * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loads_go_on), cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
