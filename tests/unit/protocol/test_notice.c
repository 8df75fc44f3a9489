/* test_notice.c: names and priorities of the codes of notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/message.h>

static void names_go_both_ways(void **state)
{
    for (int i = 0; i < HALO_N_NOTICES; i++) {
        enum halo_notice code = (enum halo_notice)i;
        const char *name = halo_notice_name(code);
        struct halo_refusal refusal;
        struct halo_ev ev;
        assert_int_equal(halo_notice_from_name(name, strlen(name)), code);
        assert_true(strlen(halo_notice_meaning(code)) > 10);
        halo_ev_init_notice(&ev, NULL, code, "a sentence");
        assert_int_equal(halo_ev_check(&ev, &refusal), 0);
        assert_true(halo_str_is(ev.notice.code, name));
    }
}

static void strangers_are_unknown(void **state)
{
    assert_int_equal(halo_notice_from_name("load_change", 11), HALO_NOTICE_UNKNOWN);
    assert_int_equal(halo_notice_from_name("load_changedx", 12), HALO_NOTICE_LOAD_CHANGED); /* the length counts */
    assert_string_equal(halo_notice_name(HALO_NOTICE_UNKNOWN), "unknown");
    assert_string_equal(halo_notice_name((enum halo_notice)1000), "unknown");
    assert_true(halo_notice_warns(HALO_NOTICE_UNKNOWN)); /* rather too loud */
    assert_false(halo_notice_is_of_load((enum halo_notice)1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(strangers_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
