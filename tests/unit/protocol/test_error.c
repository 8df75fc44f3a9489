/* test_error.c: names and retry advice of the error codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/message.h>

static void names_go_both_ways(void **state)
{
    int n = 0;

    for (int code = HALO_ERROR_NONE + 1; code < HALO_N_ERRORS; code++, n++) {
        const char *name = halo_error_name((enum halo_error)code);

        assert_int_equal(halo_error_from_name(name, strlen(name)), code);
        assert_true(strlen(halo_error_meaning((enum halo_error)code)) > 10);
    }
    assert_int_equal(n, 20); /* as many as the contract lists */
}

static void strangers_are_unknown(void **state)
{
    assert_int_equal(halo_error_from_name("none", 4), HALO_ERROR_UNKNOWN);
    assert_int_equal(halo_error_from_name("bad_jso", 7), HALO_ERROR_UNKNOWN);
    assert_int_equal(halo_error_from_name("bad_jsonx", 8), HALO_ERROR_BAD_JSON); /* the length counts, not a NUL */
    assert_string_equal(halo_error_name(HALO_ERROR_UNKNOWN), "unknown");
    assert_string_equal(halo_error_name((enum halo_error)1000), "unknown");
    assert_false(halo_error_retryable((enum halo_error)1000));
}

static void retry_advice_is_fixed(void **state)
{
    static const char *const retryable[] = {"out_of_memory", "queue_full",     "too_many_requests",
                                            "deadline",      "client_stalled", "engine_lost",
                                            "device_hang",   "device_fault",   "shutting_down"};

    for (int code = HALO_ERROR_NONE; code < HALO_N_ERRORS; code++) {
        bool wanted = false;

        for (size_t i = 0; i < sizeof retryable / sizeof *retryable; i++)
            wanted |= strcmp(retryable[i], halo_error_name((enum halo_error)code)) == 0;
        assert_int_equal(halo_error_retryable((enum halo_error)code), wanted);
    }
}

/* What an error says in numbers it says to programs too: no event is made without. */
static void numeric_errors_have_detail(void **state)
{
    int n = 0;

    for (int code = HALO_ERROR_NONE + 1; code < HALO_N_ERRORS; code++) {
        const char *names = halo_error_numbers((enum halo_error)code);
        char name[32], detail[HALO_DETAIL_BYTES];
        struct halo_refusal refusal;
        struct halo_ev ev;

        halo_ev_init_error(&ev, NULL, (enum halo_error)code, "a sentence");
        assert_int_equal(halo_ev_check(&ev, &refusal), *names ? HALO_MSG_E_REFUSED : 0);
        halo_ev_set_detail(&ev, HALO_NUMBERS({"something_else", 1}), detail);
        assert_int_equal(halo_ev_check(&ev, &refusal), *names ? HALO_MSG_E_REFUSED : 0);
        if (*names)
            assert_non_null(strstr(refusal.message, names));
        for (const char *at = names; *at; at += strspn(at, " "), n++) {
            size_t len = strcspn(at, " ");

            assert_true(len < sizeof name);
            memcpy(name, at, len);
            name[len] = '\0';
            halo_ev_set_detail(&ev, HALO_NUMBERS({"something_else", 1}, {name, -5}), detail);
            assert_int_equal(halo_ev_check(&ev, &refusal), 0);
            at += len;
        }
    }
    assert_true(n >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(strangers_are_unknown),
        cmocka_unit_test(retry_advice_is_fixed),
        cmocka_unit_test(numeric_errors_have_detail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
