/* test_model_stem.c: what model files are called, at the edges of the rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/model_stem.h>

static void follows_the_rule(void **state)
{
    static const struct {
        const char *path, *stem;
    } cases[] = {
        {"a", "a"},
        {"a.gguf", "a"},
        {"/x/y.z/a.gguf", "a"},
        {"x/a", "a"},
        {"", ""},
        {"x/", ""},
        {".gguf", ".gguf"}, /* an end with nothing in front of it is the name */
        {"x/.gguf", ".gguf"},
        {"a.gguf.gguf", "a.gguf"},
        {"a.GGUF", "a.GGUF"},
        {"a-00001-of-00012.gguf", "a"},
        {"a-00012-of-00012", "a"},
        {"a-0001-of-00012.gguf", "a-0001-of-00012"},
        {"a-00001-of-0001x.gguf", "a-00001-of-0001x"},
        {"a_00001-of-00012.gguf", "a_00001-of-00012"},
        {"-00001-of-00002.gguf", "-00001-of-00002"},
        {"a-00001-of-00002-00001-of-00002", "a-00001-of-00002"},
    };
    char stem[HALO_MODEL_STEM_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(halo_model_stem(cases[i].path, strlen(cases[i].path), stem), strlen(cases[i].stem));
        assert_string_equal(stem, cases[i].stem);
    }
    assert_int_equal(halo_model_stem("a.gguf/b", 6, stem), 1); /* no byte beyond its length counts */
    assert_string_equal(stem, "a");
}

static void cuts_long_names_between_characters(void **state)
{
    char path[400], stem[HALO_MODEL_STEM_BYTES];
    memset(path, 'n', sizeof(path));
    assert_int_equal(halo_model_stem(path, 255, stem), 255);
    assert_int_equal(halo_model_stem(path, 256, stem), 255);
    assert_int_equal(strlen(stem), 255);
    memcpy(path + 254, "\xe2\x82\xac", 3);
    assert_int_equal(halo_model_stem(path, 300, stem), 254);
    memcpy(path + 254, "nnn", 3);
    memcpy(path + 252, "\xe2\x82\xac", 3);
    assert_int_equal(halo_model_stem(path, 300, stem), 255);
    memcpy(path + 300, ".gguf", 5);
    char again[HALO_MODEL_STEM_BYTES];
    assert_int_equal(halo_model_stem(path, 305, again), 255); /* a file of that name and the name are one model */
    assert_string_equal(again, stem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_rule),
        cmocka_unit_test(cuts_long_names_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
