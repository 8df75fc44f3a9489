/* test_loaded.c: the list of models that come back after a restart. */
#include <serve/loaded.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void put(struct halo_loaded *loaded, const char *name, const char *line)
{
    assert_int_equal(halo_loaded_put(loaded, halo_str_of(name), "print", line, strlen(line)), 0);
}

static void remembers(void **state)
{
    struct halo_loaded loaded = {0};
    put(&loaded, "a", "line a");
    put(&loaded, "b", "line b");
    put(&loaded, "a", "line a2"); /* loaded again with other parameters */
    assert_int_equal(loaded.n_models, 2);
    assert_string_equal(halo_loaded_find(&loaded, halo_str_of("a"))->line, "line a2");
    assert_null(halo_loaded_find(&loaded, halo_str_of("ab")));
    /* As the engine names a file. */
    assert_non_null(halo_loaded_find(&loaded, halo_str_of("/x/y.z/a.gguf")));
    assert_non_null(halo_loaded_find(&loaded, halo_str_of("a-00001-of-00012.gguf")));
    assert_null(halo_loaded_find(&loaded, halo_str_of("a-0001-of-00012.gguf")));
    assert_null(halo_loaded_find(&loaded, halo_str_of("/x/a/b2")));
    assert_int_equal(halo_loaded_set_print(halo_loaded_find(&loaded, halo_str_of("a")), "other"), 0);
    assert_string_equal(halo_loaded_find(&loaded, halo_str_of("a"))->print, "other");
    halo_loaded_remove(&loaded, halo_str_of("zzz"));
    assert_int_equal(loaded.n_models, 2);
    halo_loaded_remove(&loaded, halo_str_of("a"));
    assert_null(halo_loaded_find(&loaded, halo_str_of("a")));
    assert_string_equal(halo_loaded_find(&loaded, halo_str_of("b"))->line, "line b");
    halo_loaded_finish(&loaded);
    halo_loaded_finish(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(remembers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
