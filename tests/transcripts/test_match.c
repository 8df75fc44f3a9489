/* test_match.c: the transcript patterns themselves: a pattern that fits too much would make every transcript worthless.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "transcript.h"

static void fits(void **state)
{
    static const char *const yes[][2] = {
        {"{\"a\":1}", "{\"a\":1}"},
        {"{\"a\":*}", "{\"a\":1}"},
        {"{\"a\":*}", "{\"a\":{\"b\":[1,\"}\"]}}"},
        {"{\"a\":*,\"b\":2}", "{\"a\":\"x,\\\"y\",\"b\":2}"},
        {"{\"a\":[*,*],\"b\":*}", "{\"a\":[1,[2]],\"b\":null}"},
        {"{\"a\":1,...}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":\"x...z\"}", "{\"a\":\"xyyz\"}"},
        {"{\"a\":\"*\"}", "{\"a\":\"*\"}"},
        {"...", ""},
    };
    static const char *const no[][2] = {
        {"{\"a\":1}", "{\"a\":12}"},
        {"{\"a\":1}", "{\"a\":1} "},
        {"{\"a\":*}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":*,\"b\":2}", "{\"a\":1}"},
        {"{\"a\":*}", "{\"a\":}"},
        {"{\"a\":[*]}", "{\"a\":[1,2]}"},
        {"{\"a\":\"*\"}", "{\"a\":\"xyz\"}"},
        {"{\"a\":1,...}", "{\"a\":2,\"b\":2}"},
        {"", "x"},
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!transcript_match(yes[i][0], yes[i][1], strlen(yes[i][1])))
            fail_msg("%s does not fit %s", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (transcript_match(no[i][0], no[i][1], strlen(no[i][1])))
            fail_msg("%s fits %s", no[i][0], no[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
