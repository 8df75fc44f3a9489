/* test_orders.c: every order of what can happen to a request: its engine dies, an engine comes, its client leaves,
 * cancels, reads slowly or stalls, time passes, the engine begins, commits and ends. Whatever the order, the client
 * gets exactly one terminal event, or none after it left, and nothing stays behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

enum event { UP, DIES, LEAVES, CANCELS, SLOW, QUICK, STALLS, EXPIRES, BEGINS, COMMITS, ENDS, FAILS, N_EVENTS };

static const struct kind {
    const char *line;
    int length; /* events in a row: 12 to the power of so many orders */
} kinds[] = {
    {"{\"type\":\"generate\",\"id\":1,\"prompt\":\"p\"}", 4},
    {"{\"type\":\"generate\",\"id\":1,\"model\":\"m\",\"prompt\":\"p\",\"deadline_ms\":40000}", 4},
    {"{\"type\":\"score\",\"id\":1,\"model\":\"m\",\"text\":\"t\"}", 3},
    {"{\"type\":\"load\",\"id\":1,\"model\":\"m\"}", 3},
    {"{\"type\":\"tokenize\",\"id\":1,\"model\":\"m\",\"text\":\"t\"}", 3},
    {"{\"type\":\"stats\",\"id\":1}", 3},
    {"{\"type\":\"hello\",\"id\":1}", 3},
};

#define MAX_LENGTH 4

static struct world world;
static uint64_t sent_id; /* the latest id that the engine was sent this request by; 0: it has not got it */

static struct halo_request *record(void)
{
    struct halo_request *request = HALO_LIST_ITEM(world.requests.all.first, struct halo_request, all);
    while (request && halo_request_is_own_load(request))
        request = HALO_LIST_ITEM(request->all.next, struct halo_request, all);
    return request;
}

/* The engine says something that fits the request that it has. */
static void engine_speaks(enum event event)
{
    const struct halo_request *request = record();
    if (!request || request->state == HALO_REQUEST_WAITING || world.requests.link.state == HALO_LINK_DOWN)
        return;
    sent_id = request->id;
    if (event == FAILS)
        world_error(&world, (long long)sent_id, "not_found");
    else if (request->type == HALO_MSG_GENERATE && event == BEGINS && request->started_ns == 0)
        world_started(&world, (long long)sent_id, "m");
    else if (request->type == HALO_MSG_GENERATE && event == COMMITS && request->started_ns != 0)
        world_committed(&world, (long long)sent_id, (long long)request->n_tokens);
    else if (request->type == HALO_MSG_SCORE && event <= COMMITS)
        world_row(&world, (long long)sent_id, (long long)request->score.next, -1);
    else if (event == BEGINS)
        world_engine_says(&world, "{\"type\":\"progress\",\"id\":%lld,\"phase\":\"load\",\"done\":0,\"total\":1}",
                          (long long)sent_id);
    else if (event == ENDS && request->type == HALO_MSG_LOAD)
        world_loaded(&world, (long long)sent_id, "m", "1");
    else if (event == ENDS)
        world_done(&world, (long long)sent_id, "length");
}

static void happens(enum event event)
{
    struct halo_client *client = &world.clients[0];
    switch (event) {
    case UP:
        if (world.requests.link.state == HALO_LINK_DOWN)
            world_engine_up(&world);
        break;
    case DIES:
        if (world.requests.link.state != HALO_LINK_DOWN)
            world_engine_dies(&world, "died");
        break;
    case LEAVES: world_close(&world, 0); break;
    case CANCELS:
        if (!client->closed)
            world_say(&world, 0, "{\"type\":\"cancel\",\"id\":9,\"target\":1}");
        break;
    case SLOW:
    case QUICK:
        if (!client->closed)
            halo_requests_client_slow(&world.requests, client, event == SLOW, world.now_ns);
        break;
    case STALLS:
        if (!client->closed)
            halo_requests_client_stalled(&world.requests, client, world.now_ns);
        break;
    case EXPIRES: world_pass(&world, 30001); break;
    default: engine_speaks(event); break;
    }
    world_flush(&world);
}

/* Terminal events of request 1 among what the client heard. */
static unsigned n_terminal(void)
{
    const struct halo_json *out = &world.outs[0];
    unsigned n = 0;
    for (size_t at = 0; at < out->len;) {
        const char *newline = memchr(out->at + at, '\n', out->len - at);
        size_t len = (size_t)(newline - out->at) - at;
        struct halo_refusal refusal;
        struct halo_ev ev;
        if (halo_ev_decode(&ev, out->at + at, len, 0, &refusal) != 0)
            fail_msg("%.*s", (int)len, out->at + at);
        if (ev.id.kind == HALO_ID_INT && ev.id.num == 1 && halo_ev_is_terminal(ev.type))
            n++;
        else if (n > 0 && ev.id.kind == HALO_ID_INT && ev.id.num == 1)
            n = 100; /* something after the end */
        halo_ev_finish(&ev);
        at += len + 1;
    }
    return n;
}

static void try_order(const struct kind *kind, const enum event *events, bool up_first)
{
    world_begin(&world);
    sent_id = 0;
    if (up_first)
        world_engine_up(&world);
    world_say(&world, 0, kind->line);
    bool left = false;
    for (int i = 0; i < kind->length; i++) {
        happens(events[i]);
        left = left || events[i] == LEAVES;
        unsigned n = n_terminal();
        assert_true(n <= 1);
        assert_int_equal(n == 0 && !left, world.clients[0].requests.n == 1); /* open until it ended */
    }
    /* An engine that does its work ends whatever is left. */
    world.requests.breaker.open = false;
    happens(UP);
    for (int i = 0; i < 8 && world.requests.all.n > 0; i++) {
        struct halo_request *own = HALO_LIST_ITEM(world.requests.all.first, struct halo_request, all);
        if (own->type == HALO_MSG_LOAD && own->state != HALO_REQUEST_WAITING)
            world_loaded(&world, (long long)own->id, "m", "1");
        else
            happens(own->type == HALO_MSG_STATS || own->type == HALO_MSG_HELLO ? EXPIRES : ENDS);
    }
    assert_int_equal(world.requests.all.n, 0);
    assert_int_equal(n_terminal(), left && n_terminal() == 0 ? 0 : 1);
    assert_int_equal(world.quota.used[HALO_QUOTA_LINES], 0);
    world_end(&world);
}

static void every_order(void **state)
{
    unsigned n = 0;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        unsigned n_orders = 1;
        for (int i = 0; i < kinds[k].length; i++)
            n_orders *= N_EVENTS;
        for (unsigned order = 0; order < 2 * n_orders; order++) {
            enum event events[MAX_LENGTH];
            unsigned rest = order / 2;
            for (int i = 0; i < kinds[k].length; i++, rest /= N_EVENTS)
                events[i] = (enum event)(rest % N_EVENTS);
            try_order(&kinds[k], events, order % 2 == 0);
            n++;
        }
    }
    print_message("%u orders\n", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
