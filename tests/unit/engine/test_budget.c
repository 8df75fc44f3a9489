/* test_budget.c: what fits into free memory, in pages and as the context that a refusal recommends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/budget.h>

#include "fake_device.h"

/* The budget of a small plan on the scripted device, when so many bytes are free beside what it needs anyway. */
static struct halo_budget budget_of(uint64_t spare_bytes)
{
    struct halo_plan plan;
    struct halo_budget budget;
    fake_plan(&plan, 64, 256, 16, 8, 8);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    assert_int_equal(budget.max_pages, 0);
    assert_int_equal(budget.groups[0].page_bytes, halo_kv_page_bytes(&plan.kv[0]));
    assert_true(budget.scratch_bytes > 64 * sizeof(float) * 12); /* logits and the sampler's rows are counted */
    uint64_t fixed = budget.weights_bytes + budget.scratch_bytes;
    halo_budget_of(fake_device(), NULL, &plan, spare_bytes > UINT64_MAX - fixed ? UINT64_MAX : fixed + spare_bytes,
                   &budget);
    return budget;
}

static uint32_t fit(uint64_t spare_bytes, uint32_t n_sequences, uint32_t limit)
{
    struct halo_budget budget = budget_of(spare_bytes);
    return halo_budget_fit_context(&budget, n_sequences, limit);
}

static void fitting_context(void **state)
{
    const uint64_t page = budget_of(0).groups[0].page_bytes;
    assert_int_equal(fit(0, 1, 256), 0);
    assert_int_equal(fit(page - 1, 1, 256), 0);
    assert_int_equal(fit(page, 1, 256), 32);
    assert_int_equal(fit(7 * page, 2, 256), 96);
    assert_int_equal(fit(8 * page - 1, 1, 256), 224);
    assert_int_equal(fit(8 * page, 1, 256), 256);
    assert_int_equal(fit(2 * page, 1, 50), 50); /* no whole number of pages */
    assert_int_equal(fit(UINT64_MAX, 1, UINT32_MAX), UINT32_MAX);
    assert_int_equal(fit(UINT64_MAX, 1, 256), 256);
}

/* A long context costs the first group all its positions and a group with a window its span, twice. */
static void windows_make_long_contexts_cheap(void **state)
{
    struct halo_plan plan;
    struct halo_budget budget;
    fake_plan(&plan, 64, 1 << 16, 16, 8, 8);
    fake_plan_window(&plan, 100, 0);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    uint64_t full = halo_kv_page_bytes(&plan.kv[0]), window = halo_kv_page_bytes(&plan.kv[1]);
    assert_int_equal(budget.groups[0].page_bytes, full);
    assert_int_equal(budget.groups[1].page_bytes, window);
    assert_int_equal(halo_kv_span(100, 16), 5); /* 99 + 16 positions, anyhow they lie */
    assert_int_equal(halo_budget_pool_bytes(&budget, 2048, 2048), 2048 * full + 10 * window);
    assert_int_equal(halo_budget_pool_bytes(&budget, 2049, 2048), 2049 * full + 20 * window);
    assert_int_equal(halo_budget_pool_bytes(&budget, 3, 2048), 3 * (full + window));
    assert_int_equal(halo_budget_pool_bytes(&budget, UINT64_MAX / 2, 2048), UINT64_MAX);
    uint64_t fixed = budget.weights_bytes + budget.scratch_bytes;
    halo_budget_of(fake_device(), NULL, &plan, fixed + 100 * full + 10 * window, &budget);
    assert_int_equal(budget.max_pages, 100);
    assert_int_equal(halo_budget_fit_context(&budget, 1, 1 << 16), 100 * HALO_KV_PAGE_TOKENS);
    assert_int_equal(halo_budget_fit_context(&budget, 2, 1 << 16),
                     (100 - 10 * window / full) / 2 * HALO_KV_PAGE_TOKENS);
    /* What a plan gets is what is counted. */
    uint64_t weights, kv, scratch;
    plan.n_context = 320;
    halo_plan_set_pages(&plan, 35);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    fake_device()->estimate(NULL, &plan, &weights, &kv, &scratch);
    assert_int_equal(halo_budget_pool_bytes(&budget, 35, 10), kv);
    assert_int_equal(budget.kv_bytes, kv);
}

/* Of states a sequence takes one slot, and the pool has two for each whole sequence. */
static void states_are_counted(void **state)
{
    struct halo_plan plan;
    struct halo_budget budget;
    fake_plan(&plan, 64, 1 << 16, 16, 8, 4096);
    fake_plan_states(&plan, 0);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    uint64_t full = halo_kv_page_bytes(&plan.kv[0]), slot = halo_kv_page_bytes(&plan.kv[1]);
    assert_int_equal(slot, 2 * 24 * sizeof(float));
    assert_int_equal(budget.kv_bytes, 4096 * full + 4 * slot);
    assert_int_equal(halo_budget_pool_bytes(&budget, 4096, 2048), budget.kv_bytes);
    assert_int_equal(halo_budget_token_bytes(&budget), full / HALO_KV_PAGE_TOKENS);
    assert_int_equal(halo_budget_sequence_bytes(&budget), slot);
}

/* Slots for checkpoints: what the bytes pay for, what memory leaves, one for each page. */
static void checkpoints_take_what_is_left(void **state)
{
    struct halo_plan plan;
    struct halo_budget budget;
    fake_plan(&plan, 64, 1 << 16, 16, 8, 2048);
    halo_budget_of(fake_device(), NULL, &plan, UINT64_MAX, &budget);
    assert_int_equal(halo_budget_checkpoints_of(&budget, &plan, 2048, 1 << 20).slot_bytes, 0);
    fake_plan_states(&plan, 0);
    halo_budget_of(fake_device(), NULL, &plan, UINT64_MAX, &budget);
    const uint64_t slot = halo_kv_page_bytes(&plan.kv[1]);
    uint64_t taken = budget.weights_bytes + budget.scratch_bytes + halo_budget_pool_bytes(&budget, 2048, 2048);
    const struct {
        uint64_t left_bytes, bytes;
        uint32_t n, n_wanted;
    } rows[] = {
        {1 << 20, 0, 0, 0},
        {1 << 20, slot - 1, 0, 0},
        {1 << 20, 7 * slot, 7, 7},
        {5 * slot, 7 * slot + 1, 5, 7},
        {slot - 1, 7 * slot, 0, 7},
        {UINT64_MAX - taken, UINT64_MAX, 2046, 2046}, /* a whole sequence has two slots already */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        halo_budget_of(fake_device(), NULL, &plan, taken + rows[i].left_bytes, &budget);
        struct halo_budget_checkpoints got = halo_budget_checkpoints_of(&budget, &plan, 2048, rows[i].bytes);
        assert_int_equal(got.n, rows[i].n);
        assert_int_equal(got.n_wanted, rows[i].n_wanted);
        assert_int_equal(got.slot_bytes, slot);
    }
    halo_budget_of(fake_device(), NULL, &plan, taken + 80 * slot, &budget);
    budget.slot_bytes = 1; /* experts are streamed: they get seven eighths */
    assert_int_equal(halo_budget_checkpoints_of(&budget, &plan, 2048, 100 * slot).n, 10);
    assert_int_equal(halo_budget_checkpoints_of(&budget, &plan, 2048, 7 * slot).n, 7);
    halo_budget_of(fake_device(), NULL, &plan, taken - 1, &budget); /* not even the pool fits */
    assert_int_equal(halo_budget_checkpoints_of(&budget, &plan, 2048, 1 << 20).n, 0);
}

/* Long chunks where memory is large, shorter ones before the cache has too little. Every plan has 256 rows. */
static void rows_follow_memory(void **state)
{
    static const struct {
        uint64_t free_bytes;
        uint32_t n_pages, rows;
    } cases[] = {{1ull << 40, 8, 4096},
                 {16 * (8ull << 20) + 131072, 8, 4096},
                 {15 * (8ull << 20), 8, 2048},
                 {3 * 16 * (1ull << 20), 8, 1024},
                 {1 << 20, 8, 256},
                 {0, 8, 256},
                 {1ull << 40, INT32_MAX, 256}};
    struct halo_plan plan;
    fake_plan(&plan, 64, 1 << 16, 256, 8, 8);
    fake_control->scratch_row_bytes = 2048;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(halo_budget_rows(fake_device(), NULL, &plan, cases[i].free_bytes, cases[i].n_pages, 4096),
                         cases[i].rows);
    assert_int_equal(plan.max_rows, 256);
    /* A group with a window holds the pages of a step too. */
    fake_control->scratch_row_bytes = 0;
    fake_plan_window(&plan, 100, 0);
    uint64_t window = halo_kv_page_bytes(&plan.kv[1]), full = halo_kv_page_bytes(&plan.kv[0]);
    struct halo_budget budget;
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    uint64_t tight = budget.weights_bytes + budget.scratch_bytes + 2048 * full + 2 * halo_kv_span(100, 1024) * window;
    assert_int_equal(halo_budget_rows(fake_device(), NULL, &plan, tight, 2048, 4096), 1024);
    assert_int_equal(halo_budget_rows(fake_device(), NULL, &plan, tight - 1, 2048, 4096), 512);
    assert_int_equal(halo_budget_rows(fake_device(), NULL, &plan, 1ull << 40, 8, 0), 256);
}

static void the_cache_in_words(void **state)
{
    struct halo_plan plan;
    struct halo_budget budget;
    char text[HALO_CACHE_TEXT];
    fake_plan(&plan, 64, 1 << 16, 16, 8, 4096);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    halo_budget_cache_text(&budget, &plan, text);
    assert_string_equal(text, "1 layer keeps every token (64 bytes a token); a sequence of 65536 tokens takes 4.0 MiB");
    plan.kv[0].stride = 4;
    halo_budget_cache_text(&budget, &plan, text);
    assert_string_equal(
        text, "one row is kept for several tokens (64 bytes a token); a sequence of 65536 tokens takes 4.0 MiB");
    plan.kv[0].stride = 0;
    fake_plan_window(&plan, 100, 0);
    fake_plan_states(&plan, 0);
    halo_budget_of(fake_device(), NULL, &plan, 0, &budget);
    halo_budget_cache_text(&budget, &plan, text);
    assert_string_equal(text,
                        "1 layer keeps every token (64 bytes a token); 1 layer keeps a window (20.0 KiB a sequence); "
                        "2 recurrent layers keep a state (192 bytes a sequence), however long it is, which makes long "
                        "contexts cheap; a sequence of 65536 tokens takes 4.0 MiB");
    assert_int_equal(halo_budget_token_bytes(&budget), 64);
    assert_int_equal(halo_budget_sequence_bytes(&budget), 5 * halo_kv_page_bytes(&plan.kv[1]) + 192);
    /* Beside a plan of the largest numbers it has room. */
    for (uint32_t group = 0; group < plan.n_kv_groups; group++) {
        plan.kv[group].n_layers = UINT32_MAX;
        budget.groups[group].page_bytes = UINT64_MAX >> 20;
    }
    plan.n_context = UINT32_MAX;
    halo_budget_cache_text(&budget, &plan, text);
    assert_non_null(strstr(text, "a sequence of 4294967295 tokens takes "));
}

int main(void)
{
    struct fake_control control = {0};
    fake_control = &control;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitting_context),    cmocka_unit_test(windows_make_long_contexts_cheap),
        cmocka_unit_test(states_are_counted), cmocka_unit_test(checkpoints_take_what_is_left),
        cmocka_unit_test(rows_follow_memory), cmocka_unit_test(the_cache_in_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
