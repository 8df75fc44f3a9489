/* test_fault.c: codes, names, errnos, and text that is cut only between characters. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/fault.h>

static void test_names_and_errnos(void **state)
{
    static const struct {
        enum halo_fault_code code;
        const char *name;
        int error;
    } rows[] = {
        {HALO_FAULT_BAD_REQUEST, "bad_request", -EINVAL}, {HALO_FAULT_NOT_FOUND, "not_found", -ENOENT},
        {HALO_FAULT_LOAD_FAILED, "load_failed", -EIO},    {HALO_FAULT_OUT_OF_MEMORY, "out_of_memory", -ENOMEM},
        {HALO_FAULT_CANCELLED, "cancelled", -ECANCELED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct halo_fault fault = {0};
        assert_string_equal(halo_fault_name(rows[i].code), rows[i].name);
        assert_int_equal(halo_fault_set(&fault, rows[i].code, "x"), rows[i].error);
        assert_int_equal(halo_fault_set(NULL, rows[i].code, "x"), rows[i].error);
        assert_int_equal(fault.code, rows[i].code);
    }
#define X(id, name)                                                                                                    \
    assert_string_equal(halo_fault_name(HALO_FAULT_##id), name);                                                       \
    assert_true(HALO_FAULT_##id == HALO_FAULT_NONE || halo_fault_set(NULL, HALO_FAULT_##id, "x") < 0);
    HALO_FAULT_LIST(X)
#undef X
    assert_string_equal(halo_fault_name((enum halo_fault_code)99), "internal");
}

static void test_text(void **state)
{
    struct halo_fault fault = {0};
    halo_fault_set(&fault, HALO_FAULT_LOAD_FAILED, "key '%s' is %d", "a.b", 3);
    assert_string_equal(fault.text, "key 'a.b' is 3");
    halo_fault_prefix(&fault, "model %d", 7);
    assert_string_equal(fault.text, "model 7: key 'a.b' is 3");
    assert_int_equal(fault.code, HALO_FAULT_LOAD_FAILED);
    assert_int_equal(halo_fault_errno(&fault, HALO_FAULT_NOT_FOUND, -EACCES, "open %s", "x"), -EACCES);
    assert_string_equal(fault.text, "open x: Permission denied");
    halo_fault_set(&fault, HALO_FAULT_INTERNAL, "again: %s", fault.text); /* out of its own text */
    assert_string_equal(fault.text, "again: open x: Permission denied");
    halo_fault_prefix(NULL, "x");
}

static int is_whole_utf8(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t length = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        for (size_t k = 1; k < length; k++)
            if (((unsigned char)text[i + k] & 0xc0) != 0x80)
                return 0;
        i += length;
    }
    return 1;
}

static void test_cut_between_characters(void **state)
{
    static const char *const characters[] = {"x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t c = 0; c < 4; c++)
        for (size_t shift = 0; shift < 4; shift++) {
            char longer[400] = "";
            memset(longer, '.', shift);
            while (strlen(longer) < 300)
                strcat(longer, characters[c]);
            struct halo_fault fault;
            memset(&fault, 0x55, sizeof fault);
            halo_fault_set(&fault, HALO_FAULT_INTERNAL, "%s", longer);
            assert_true(strlen(fault.text) > 255 - 4 && strlen(fault.text) <= 255);
            assert_memory_equal(fault.text, longer, strlen(fault.text));
            assert_true(is_whole_utf8(fault.text));
            halo_fault_prefix(&fault, "p%.*s", (int)shift, "qrs");
            assert_true(strlen(fault.text) > 255 - 4 && is_whole_utf8(fault.text));
            assert_int_equal(fault.text[0], 'p');
            halo_fault_errno(&fault, HALO_FAULT_INTERNAL, -EIO, "%s", longer);
            assert_true(strlen(fault.text) <= 255 && is_whole_utf8(fault.text));
        }
    struct halo_fault fault;
    char exact[256];
    memset(exact, 'y', 255);
    exact[255] = '\0';
    halo_fault_set(&fault, HALO_FAULT_INTERNAL, "%s", exact);
    assert_string_equal(fault.text, exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_errnos),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_cut_between_characters),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
