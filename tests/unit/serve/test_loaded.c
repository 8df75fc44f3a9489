/* test_loaded.c: the list of models that come back after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <serve/loaded.h>

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

static const char *order(const struct halo_loaded *loaded)
{
    static char text[16];
    for (size_t i = 0; i < loaded->n_models; i++)
        text[i] = loaded->models[i].name[0];
    text[loaded->n_models] = '\0';
    return text;
}

static void is_in_order_of_use(void **state)
{
    struct halo_loaded loaded = {0};
    halo_loaded_touch(&loaded, halo_str_of("a"));
    for (const char *name = "a\0b\0c\0d\0"; name[0]; name += 2)
        put(&loaded, name, "line");
    halo_loaded_touch(&loaded, halo_str_of("/x/b.gguf"));
    assert_string_equal(order(&loaded), "acdb");
    halo_loaded_touch(&loaded, halo_str_of("b"));
    halo_loaded_touch(&loaded, halo_str_of("e"));
    assert_string_equal(order(&loaded), "acdb");
    put(&loaded, "a", "line 2");
    assert_string_equal(order(&loaded), "cdba");
    assert_string_equal(halo_loaded_find(&loaded, halo_str_of("a"))->line, "line 2");
    halo_loaded_remove(&loaded, halo_str_of("d"));
    assert_string_equal(order(&loaded), "cba");
    halo_loaded_finish(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(remembers), cmocka_unit_test(is_in_order_of_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
