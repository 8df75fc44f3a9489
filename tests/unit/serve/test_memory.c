/* test_memory.c: every allocation of the requests fails, one after the other. Whatever fails, each request ends once,
 * or its connection breaks, and nothing stays behind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <fail_alloc.h>

#include "world.h"

static struct world world;

static long long id_of(const char *client_id)
{
    for (struct halo_list_node *node = world.requests.all.first; node; node = node->next) {
        const struct halo_request *request = HALO_LIST_ITEM(node, struct halo_request, all);
        if (request->state != HALO_REQUEST_WAITING && halo_str_is(request->client_id.str, client_id))
            return (long long)request->id;
    }
    return 0;
}

static long long id_of_load(void)
{
    for (struct halo_list_node *node = world.requests.all.first; node; node = node->next) {
        const struct halo_request *request = HALO_LIST_ITEM(node, struct halo_request, all);
        if (request->state != HALO_REQUEST_WAITING && request->type == HALO_MSG_LOAD)
            return (long long)request->id;
    }
    return 0;
}

/* A line for a request that may have ended for want of memory. */
#define WITH(id, ...)                                                                                                  \
    do {                                                                                                               \
        long long ID = id;                                                                                             \
        if (ID != 0)                                                                                                   \
            __VA_ARGS__;                                                                                               \
    } while (0)

/* Loads, replies, scores, a death in the middle of all, and everything again in the next engine. */
static void live(void)
{
    world_engine_up(&world);
    world_say(&world, 0, "{\"type\":\"load\",\"id\":\"l\",\"model\":\"m\"}");
    WITH(id_of_load(), world_loaded(&world, ID, "m", "1"));
    world_say(&world, 1, "{\"type\":\"generate\",\"id\":\"g\",\"model\":\"m\",\"prompt\":\"p\",\"deadline_ms\":60000}");
    world_say(&world, 2, "{\"type\":\"score\",\"id\":\"s\",\"model\":\"m\",\"text\":\"t\"}");
    world_say(&world, 3, "{\"type\":\"tokenize\",\"id\":\"t\",\"model\":\"n\",\"text\":\"t\"}");
    world_say(&world, 3, "{\"type\":\"stats\",\"id\":\"q\"}");
    WITH(id_of("g"),
         world_engine_says(&world, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"prefill\",\"done\":0,\"total\":1}",
                           ID));
    WITH(id_of("g"), world_started(&world, ID, "m"));
    for (int i = 0; i < 70; i++)
        WITH(id_of("g"), world_committed(&world, ID, i));
    WITH(id_of("g"), world_engine_says(
                         &world, "{\"type\":\"notice\",\"id\":%lld,\"code\":\"loop_detected\",\"message\":\"m\"}", ID));
    WITH(id_of("s"), world_row(&world, ID, 0, -1));
    WITH(id_of("q"),
         world_engine_says(&world, "{\"type\":\"stats\",\"id\":%lld,\"counters\":{},\"histograms\":{}}", ID));
    world_unloaded(&world, "x", "idle");
    halo_requests_client_slow(&world.requests, &world.clients[1], true, world.now_ns);
    world_pass(&world, 60);
    world_engine_dies(&world, "died");
    world_engine_up(&world);
    WITH(id_of_load(), world_loaded(&world, ID, "m", "1"));
    world_pass(&world, 60);
    halo_requests_client_slow(&world.requests, &world.clients[1], false, world.now_ns);
    WITH(id_of("s"), world_row(&world, ID, 1, NAN));
    WITH(id_of("s"), world_engine_says(&world, "{\"type\":\"done\",\"id\":%lld,\"tokens\":1,\"nll\":1}", ID));
    WITH(id_of("t"), world_error(&world, ID, "not_found"));
    world_say(&world, 1, "{\"type\":\"cancel\",\"id\":\"c\",\"target\":\"g\"}");
    WITH(id_of("g"), world_done(&world, ID, "cancelled"));
    for (int i = 0; i < 2; i++)
        WITH(id_of_load(), world_error(&world, ID, "load_failed"));
    world_pass(&world, 40000);
}

/* Terminal events of the request, among them an error without an id: its line could not even be read. */
static unsigned n_ends(const struct halo_json *out, const char *id)
{
    unsigned n = 0;
    for (size_t at = 0; at < out->len;) {
        const char *newline = memchr(out->at + at, '\n', out->len - at);
        size_t len = (size_t)(newline - out->at) - at;
        struct halo_refusal refusal;
        struct halo_ev ev;
        assert_int_equal(halo_ev_decode(&ev, out->at + at, len, 0, &refusal), 0);
        bool is_own = ev.id.kind == HALO_ID_NONE || (ev.id.kind == HALO_ID_STR && halo_str_is(ev.id.str, id));
        n += is_own && halo_ev_is_terminal(ev.type);
        halo_ev_finish(&ev);
        at += len + 1;
    }
    return n;
}

static void every_allocation_fails(void **state)
{
    static const char *const ids[] = {"l", "g", "s", "t"};
    bool failed = true;
    uint64_t n = 0;
    for (; failed; n++) {
        world_begin(&world);
        halo_log_set_level((enum halo_log_level) - 1); /* what is said about each failure is not looked at */
        halo_fail_alloc_arm(n);
        live();
        failed = halo_fail_alloc_disarm();
        for (int i = 0; i < 4; i++)
            if (!world.clients[i].broken && n_ends(&world.outs[i], ids[i]) != 1)
                fail_msg("allocation %llu: not one end of %s in\n%.*s", (unsigned long long)n, ids[i],
                         (int)world.outs[i].len, world.outs[i].at);
        if (world.requests.all.n > 0) {
            const struct halo_request *left = HALO_LIST_ITEM(world.requests.all.first, struct halo_request, all);
            fail_msg("allocation %llu: %s %s is left in state %d", (unsigned long long)n,
                     halo_msg_type_name(left->type), left->client_id_text, left->state);
        }
        world_end(&world);
    }
    print_message("%llu allocations\n", (unsigned long long)n);
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
