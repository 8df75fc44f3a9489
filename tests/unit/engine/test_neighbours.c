/* test_neighbours.c: two models on one device: a long prompt on one does not stop the replies on the other. */
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "child.h"

#define REPLIES 4

static void slow_rows(struct fake_control *control)
{
    control->row_us = 500;
}

static void a_prompt_beside_replies_on_another_model(void **state)
{
    struct child c;
    char dir[] = "/tmp/halo-neighbours-XXXXXX", path[64], ids[4096] = "5";
    uint32_t before[REPLIES], n_least = UINT32_MAX;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/second.gguf", dir);
    child_copy_model(path);
    child_start(&c, false, slow_rows);
    child_load(&c);
    child_send(&c, "{\"type\":\"load\",\"id\":2,\"model\":\"%s\"}", path);
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_LOADED);
    for (int i = 0; i < REPLIES; i++)
        child_send(
            &c,
            "{\"type\":\"generate\",\"id\":%d,\"model\":\"fable-Q4_K_M\",\"tokens\":[1,2,%d],\"max_tokens\":1000,"
            "\"ignore_eos\":true,\"emit_token_ids\":true}",
            10 + i, i);
    while (c.requests[10 + REPLIES - 1].n_ids < 10)
        assert_true(child_read(&c, 100));
    for (int i = 1; i < 900; i++)
        strcat(ids, ",5");
    child_send(&c, "{\"type\":\"generate\",\"id\":30,\"model\":\"second\",\"tokens\":[%s],\"max_tokens\":1}", ids);
    while (c.requests[30].n_started == 0)
        assert_true(child_read(&c, 100));
    for (int i = 0; i < REPLIES; i++)
        before[i] = c.requests[10 + i].n_ids;
    child_wait(&c, 30);
    for (int i = 0; i < REPLIES; i++)
        if (c.requests[10 + i].n_ids - before[i] < n_least)
            n_least = c.requests[10 + i].n_ids - before[i];
    /* Pieces as long as a step of 4 replies. By itself the prompt would take 64 rows and more at once. */
    if (n_least < 40)
        fail_msg("the replies had only %u tokens while the prompt ran", n_least);
    for (int i = 0; i < REPLIES; i++)
        child_send(&c, "{\"type\":\"cancel\",\"id\":%d,\"target\":%d}", 50 + i, 10 + i);
    assert_int_equal(child_end(&c), 0);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_prompt_beside_replies_on_another_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
