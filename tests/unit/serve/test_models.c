/* test_models.c: the list of models that come back after a restart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <serve/request/models.h>

static void put(struct halo_known_models *known, const char *name, const char *line)
{
    char path[64];
    snprintf(path, sizeof(path), "/x/%s.gguf", name);
    assert_int_equal(halo_known_models_put(known, halo_str_of(name), halo_str_of(path), 7, "print", line, strlen(line)),
                     0);
}

static void remembers(void **state)
{
    struct halo_known_models known = {0};
    put(&known, "a", "line a");
    put(&known, "b", "line b");
    put(&known, "a", "line a2"); /* loaded again with other parameters */
    assert_int_equal(known.n_models, 2);
    assert_string_equal(halo_known_models_find(&known, halo_str_of("a"))->line, "line a2");
    assert_null(halo_known_models_find(&known, halo_str_of("ab")));
    /* As the engine names a file; and a path is that of the very file. */
    assert_non_null(halo_known_models_find(&known, halo_str_of("/x/a.gguf")));
    assert_non_null(halo_known_models_find(&known, halo_str_of("a-00001-of-00012.gguf")));
    assert_non_null(halo_known_models_find(&known, halo_str_of("a.gguf")));
    assert_null(halo_known_models_find(&known, halo_str_of("/y/a.gguf")));
    assert_null(halo_known_models_find(&known, halo_str_of("/x/y.z/a.gguf")));
    assert_null(halo_known_models_find(&known, halo_str_of("a-0001-of-00012.gguf")));
    assert_null(halo_known_models_find(&known, halo_str_of("/x/a/b2")));
    assert_int_equal(halo_known_model_set_print(halo_known_models_find(&known, halo_str_of("a")), "other"), 0);
    assert_string_equal(halo_known_models_find(&known, halo_str_of("a"))->print, "other");
    halo_known_models_remove(&known, halo_str_of("zzz"));
    assert_int_equal(known.n_models, 2);
    halo_known_models_remove(&known, halo_str_of("a"));
    assert_null(halo_known_models_find(&known, halo_str_of("a")));
    assert_string_equal(halo_known_models_find(&known, halo_str_of("b"))->line, "line b");
    halo_known_models_finish(&known);
    halo_known_models_finish(&known);
}

static const char *order(const struct halo_known_models *known)
{
    static char text[16];
    for (size_t i = 0; i < known->n_models; i++)
        text[i] = known->models[i].name[0];
    text[known->n_models] = '\0';
    return text;
}

static void is_in_order_of_use(void **state)
{
    struct halo_known_models known = {0};
    halo_known_models_touch(&known, halo_str_of("a"));
    for (const char *name = "a\0b\0c\0d\0"; name[0]; name += 2)
        put(&known, name, "line");
    halo_known_models_touch(&known, halo_str_of("/x/b.gguf"));
    assert_string_equal(order(&known), "acdb");
    halo_known_models_touch(&known, halo_str_of("b"));
    halo_known_models_touch(&known, halo_str_of("e"));
    assert_string_equal(order(&known), "acdb");
    put(&known, "a", "line 2");
    assert_string_equal(order(&known), "cdba");
    assert_string_equal(halo_known_models_find(&known, halo_str_of("a"))->line, "line 2");
    halo_known_models_remove(&known, halo_str_of("d"));
    assert_string_equal(order(&known), "cba");
    halo_known_models_finish(&known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(remembers), cmocka_unit_test(is_in_order_of_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
