/* test_kv_pages.c: the page pool: nothing is lost, nothing is given twice, a refusal takes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <engine/kv_pages.h>
#include <kernels/plan.h>

static void counts_positions_in_pages(void **state)
{
    assert_int_equal(halo_kv_pages_for(0), 0);
    assert_int_equal(halo_kv_pages_for(1), 1);
    assert_int_equal(halo_kv_pages_for(HALO_KV_PAGE_TOKENS), 1);
    assert_int_equal(halo_kv_pages_for(HALO_KV_PAGE_TOKENS + 1), 2);
    assert_int_equal(halo_kv_pages_for(1ull << 32), (1ull << 32) / HALO_KV_PAGE_TOKENS);
}

static void a_refusal_takes_nothing(void **state)
{
    struct halo_kv_pool pool;
    struct halo_kv_table a, b;
    assert_int_equal(halo_kv_pool_init(&pool, 3), 0);
    assert_int_equal(halo_kv_table_init(&a, 1000), 0);
    assert_int_equal(halo_kv_table_init(&b, 1000), 0);
    assert_int_equal(halo_kv_table_grow(&a, &pool, 64), 0);
    assert_int_equal(a.n, 2);
    assert_int_equal(halo_kv_table_grow(&b, &pool, 33), HALO_KV_E_FULL);
    assert_int_equal(b.n, 0);
    assert_int_equal(pool.n_free, 1);
    assert_int_equal(halo_kv_table_grow(&b, &pool, 32), 0);
    assert_int_equal(halo_kv_table_grow(&b, &pool, 5), 0); /* covers it already */
    assert_int_equal(b.n, 1);
    halo_kv_table_clear(&a, &pool);
    halo_kv_table_clear(&b, &pool);
    assert_int_equal(pool.n_free, 3);
    halo_kv_table_finish(&a);
    halo_kv_table_finish(&b);
    halo_kv_pool_finish(&pool);
}

static void no_page_is_given_twice(void **state)
{
    enum { PAGES = 97, TABLES = 13, ROUNDS = 20000 };
    struct halo_kv_pool pool;
    struct halo_kv_table tables[TABLES];
    uint32_t refused = 0, owner[PAGES];
    srand(1);
    assert_int_equal(halo_kv_pool_init(&pool, PAGES), 0);
    for (int i = 0; i < TABLES; i++)
        assert_int_equal(halo_kv_table_init(&tables[i], PAGES * HALO_KV_PAGE_TOKENS), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct halo_kv_table *table = &tables[rand() % TABLES];
        uint32_t before = table->n, free_before = pool.n_free;
        if (rand() % 4 == 0) {
            halo_kv_table_clear(table, &pool);
            assert_int_equal(pool.n_free, free_before + before);
        } else {
            uint32_t more = (uint32_t)(rand() % 300), wanted = before * HALO_KV_PAGE_TOKENS + more;
            if (wanted > PAGES * HALO_KV_PAGE_TOKENS)
                wanted = PAGES * HALO_KV_PAGE_TOKENS;
            if (halo_kv_table_grow(table, &pool, wanted) == HALO_KV_E_FULL)
                refused++;
        }
        uint32_t held = 0;
        for (int i = 0; i < PAGES; i++)
            owner[i] = TABLES;
        for (uint32_t i = 0; i < TABLES; i++)
            for (uint32_t p = 0; p < tables[i].n; p++, held++) {
                assert_true(tables[i].pages[p] < PAGES);
                assert_int_equal(owner[tables[i].pages[p]], TABLES);
                owner[tables[i].pages[p]] = i;
            }
        assert_int_equal(held + pool.n_free, PAGES);
    }
    assert_true(refused > 100); /* the full pool was met */
    for (int i = 0; i < TABLES; i++) {
        halo_kv_table_clear(&tables[i], &pool);
        halo_kv_table_finish(&tables[i]);
    }
    halo_kv_pool_finish(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_positions_in_pages),
        cmocka_unit_test(a_refusal_takes_nothing),
        cmocka_unit_test(no_page_is_given_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
