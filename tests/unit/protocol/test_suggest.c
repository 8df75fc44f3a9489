/* test_suggest.c: which word is near to which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <protocol/suggest.h>

static void nearest(void **state)
{
    static const char *const words[] = {"generate", "load", "unload", "top_k", "top_p", "id", "a", "max_tokens"};
    static const struct {
        const char *word, *best;
    } cases[] = {
        {"generate", "generate"},
        {"GENERATE", "generate"},
        {"genarate", "generate"},   /* changed */
        {"gnerate", "generate"},    /* missing */
        {"generrate", "generate"},  /* added */
        {"genreate", "generate"},   /* swapped */
        {"egnerat", "generate"},    /* swapped and missing */
        {"gen", "generate"},        /* its beginning */
        {"ge", NULL},               /* too little of it */
        {"gnrt", NULL},             /* four missing, two are near */
        {"maxtoken", "max_tokens"}, /* two missing */
        {"laod", "load"},
        {"nload", "load"}, /* as near as unload, which comes later */
        {"topk", "top_k"},
        {"xd", "id"},
        {"xx", NULL},
        {"", NULL},
        {"b", NULL}, /* nothing of "a" is left */
        {"generategenerategenerategenerategenerategenerategenerategenerategenerate", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct halo_suggest s;

        halo_suggest_start(&s, cases[i].word, strlen(cases[i].word));
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            halo_suggest_offer(&s, words[k]);
        if (!cases[i].best != !s.best || (s.best && strcmp(s.best, cases[i].best) != 0))
            fail_msg("%s: %s", cases[i].word, s.best ? s.best : "nothing");
    }
}

/* A word is read up to its length. */
static void not_terminated(void **state)
{
    struct halo_suggest s;

    halo_suggest_start(&s, "pingpong", 4);
    halo_suggest_offer(&s, "ping");
    assert_string_equal(s.best, "ping");
    assert_int_equal(s.distance, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nearest), cmocka_unit_test(not_terminated)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
