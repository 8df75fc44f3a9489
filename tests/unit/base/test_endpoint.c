/* test_endpoint.c: addresses of workers are read and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/endpoint.h>

static void what_is_read_is_written(void **state)
{
    static const struct {
        const char *text, *written; /* NULL: refused */
    } cases[] = {
        {"unix:/run/s", "unix:/run/s"},
        {" unix:/a b ", "unix:/a b"},
        {"host:1", "host:1"},
        {"tcp:host:65535 ", "host:65535"},
        {"[::1]:18515", "[::1]:18515"},
        {"::1:18515", "[::1]:18515"},
        {"unix:", NULL},
        {"", NULL},
        {"host", NULL},
        {"host:", NULL},
        {":1", NULL},
        {"[]:1", NULL},
        {"host:0", NULL},
        {"host:65536", NULL},
        {"host:4294967297", NULL},
        {"host:1x", NULL},
        {"host:-1", NULL},
        {"host:00000001", NULL}, /* longer than `port` */
    };
    struct halo_endpoint endpoint;
    char text[HALO_ENDPOINT_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        bool is_valid = halo_endpoint_parse(&endpoint, cases[i].text, strlen(cases[i].text));
        if (is_valid != (cases[i].written != NULL))
            fail_msg("'%s' was %s", cases[i].text, is_valid ? "taken" : "refused");
        if (!is_valid)
            continue;
        halo_endpoint_format(&endpoint, text, sizeof(text));
        assert_string_equal(text, cases[i].written);
    }
}

static void only_what_fits_is_read(void **state)
{
    struct halo_endpoint endpoint;
    char text[400];
    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "unix:", 5);
    assert_true(halo_endpoint_parse(&endpoint, text, 5 + sizeof(endpoint.path) - 1));
    assert_false(halo_endpoint_parse(&endpoint, text, 5 + sizeof(endpoint.path)));
    memset(text, 'x', sizeof(text));
    memcpy(text + HALO_ENDPOINT_HOST_BYTES - 1, ":1", 2);
    assert_true(halo_endpoint_parse(&endpoint, text, HALO_ENDPOINT_HOST_BYTES + 1));
    assert_int_equal(strlen(endpoint.host), HALO_ENDPOINT_HOST_BYTES - 1);
    assert_false(halo_endpoint_parse(&endpoint, text, HALO_ENDPOINT_HOST_BYTES - 1)); /* the colon lies behind */
    text[HALO_ENDPOINT_HOST_BYTES - 1] = 'x';
    memcpy(text + HALO_ENDPOINT_HOST_BYTES, ":1", 2);
    assert_false(halo_endpoint_parse(&endpoint, text, HALO_ENDPOINT_HOST_BYTES + 2));
}

static void the_port_of_a_listener_may_be_any_text(void **state)
{
    char host[HALO_ENDPOINT_HOST_BYTES];
    const char *port;
    (void)state;
    assert_true(halo_endpoint_split("[::1]:http", 10, host, &port));
    assert_string_equal(host, "::1");
    assert_string_equal(port, "http");
    assert_true(halo_endpoint_split("a:0", 3, host, &port));
    assert_string_equal(port, "0");
    assert_false(halo_endpoint_split("a", 1, host, &port));
    assert_false(halo_endpoint_split(":1", 2, host, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(only_what_fits_is_read),
        cmocka_unit_test(the_port_of_a_listener_may_be_any_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
