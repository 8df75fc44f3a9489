/* world.c: see world.h. */
#include "world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void query(void *ud, struct halo_request *request, const struct halo_ev *said)
{
    struct halo_ev ev;
    halo_ev_init(&ev, HALO_EV_STATS, &request->client_id);
    ev.stats.counters = halo_raw_of(said ? "{\"heard\":true}" : "{\"heard\":false}");
    ev.stats.histograms = halo_raw_of("{}");
    halo_answer_terminal(request, &ev);
}

static const char *engine_state(void *ud)
{
    return "starting";
}

static const char *death_note(void *ud, bool advise)
{
    struct world *world = ud;
    return world->note[0] == '\0' && advise ? "; ask" : world->note;
}

static void breaker_closed(void *ud)
{
    struct world *world = ud;
    world->n_starts++;
}

static void status(void *ud, const char *text)
{
    struct world *world = ud;
    snprintf(world->status, sizeof(world->status), "%s", text);
}

static int draw_seed(void *ud, int64_t *ret_seed)
{
    struct world *world = ud;
    *ret_seed = world->seed;
    return world->seed < 0 ? -1 : 0;
}

static int64_t wall_s(void *ud)
{
    return 1700000000;
}

static const struct halo_requests_ops ops = {
    .query = query,
    .engine_state = engine_state,
    .death_note = death_note,
    .breaker_closed = breaker_closed,
    .status = status,
    .draw_seed = draw_seed,
    .wall_s = wall_s,
};

void world_begin(struct world *world)
{
    *world = (struct world){.now_ns = 1000 * WORLD_MS, .seed = 7, .note = ""};
    assert_int_equal(halo_config_init(&world->config), 0);
    halo_log_set_level(HALO_LOG_ERROR);
    halo_quota_init(&world->quota, &world->config, 999);
    halo_requests_init(&world->requests, &world->config, &world->quota, &world->counters, &ops, world, world->now_ns);
    halo_json_init(&world->to_engine);
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        halo_json_init(&world->outs[i]);
        halo_client_init(&world->clients[i], &world->quota, halo_quota_acquire(&world->quota, (uid_t)(1000 + i)),
                         &world->outs[i], &world->requests.touched);
        assert_non_null(world->clients[i].user);
    }
}

void world_end(struct world *world)
{
    for (int i = 0; i < WORLD_CLIENTS; i++)
        world_close(world, i);
    if (world->requests.link.state != HALO_LINK_DOWN)
        world_engine_dies(world, "was told to");
    halo_requests_end_all(&world->requests, HALO_ERROR_SHUTTING_DOWN, "the end", world->now_ns);
    assert_int_equal(world->quota.used[HALO_QUOTA_LINES], 0);
    assert_int_equal(world->quota.used[HALO_QUOTA_QUEUED], 0);
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        halo_client_settle(&world->clients[i], 0);
        halo_json_finish(&world->outs[i]);
        halo_quota_release(&world->quota, world->clients[i].user);
    }
    halo_json_finish(&world->to_engine);
    halo_requests_finish(&world->requests);
    halo_quota_finish(&world->quota);
    halo_config_finish(&world->config);
}

void world_flush(struct world *world)
{
    if (world->requests.dispatch_due)
        halo_requests_dispatch(&world->requests, world->now_ns);
    while (world->requests.touched.first)
        halo_list_remove(world->requests.touched.first);
}

void world_say(struct world *world, int client, const char *line)
{
    halo_requests_line(&world->requests, &world->clients[client], line, strlen(line), world->now_ns);
    world_flush(world);
}

void world_close(struct world *world, int client)
{
    if (world->clients[client].closed)
        return;
    world->clients[client].closed = true;
    halo_requests_client_gone(&world->requests, &world->clients[client], world->now_ns);
    halo_list_remove(&world->clients[client].touch);
    world_flush(world);
}

void world_engine_up(struct world *world)
{
    halo_json_reset(&world->to_engine);
    halo_requests_engine_up(&world->requests, &world->to_engine, world->now_ns);
    world_flush(world);
}

void world_engine_dies(struct world *world, const char *reason)
{
    halo_requests_engine_died(&world->requests, reason, world->now_ns);
    halo_json_reset(&world->to_engine);
    world_flush(world);
}

int world_engine_says(struct world *world, const char *format, ...)
{
    struct halo_event_line line;
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_true(n > 0 && (size_t)n < sizeof(text));
    int r = halo_event_line_scan(&line, text, (size_t)n, &world->fault);
    if (r == 0)
        r = halo_requests_engine_line(&world->requests, &line, world->now_ns, &world->fault);
    world_flush(world);
    return r;
}

void world_started(struct world *world, long long id, const char *model)
{
    assert_int_equal(world_engine_says(world,
                                       "{\"type\":\"started\",\"id\":%lld,\"model\":\"%s\",\"prompt_tokens\":1,"
                                       "\"cached_tokens\":0,\"prompt_md5\":\"0\",\"effective_md5\":\"e\","
                                       "\"newline_runs\":0,\"seed\":7,\"context\":64,\"changes\":[]}",
                                       id, model),
                     0);
}

void world_committed(struct world *world, long long id, long long pos)
{
    assert_int_equal(
        world_engine_says(world, "{\"type\":\"committed\",\"id\":%lld,\"tok_id\":5,\"pos\":%lld,\"t_ms\":1}", id, pos),
        0);
}

void world_row(struct world *world, long long id, long long pos, double logprob)
{
    char number[32] = "null";
    if (isfinite(logprob))
        snprintf(number, sizeof(number), "%g", logprob);
    assert_int_equal(world_engine_says(world,
                                       "{\"type\":\"score_row\",\"id\":%lld,\"pos\":%lld,\"tok_id\":1,\"logprob\":%s}",
                                       id, pos, number),
                     0);
}

void world_done(struct world *world, long long id, const char *finish_reason)
{
    assert_int_equal(world_engine_says(world,
                                       "{\"type\":\"done\",\"id\":%lld,\"finish_reason\":\"%s\",\"tokens\":0,"
                                       "\"prefill_tokens\":1,\"cached_tokens\":0}",
                                       id, finish_reason),
                     0);
}

void world_loaded(struct world *world, long long id, const char *model, const char *stamp)
{
    assert_int_equal(world_engine_says(world,
                                       "{\"type\":\"loaded\",\"id\":%lld,\"model\":\"%s\",\"arch\":\"a\","
                                       "\"device\":\"d\",\"context\":64,\"kv_tokens\":128,\"weights_bytes\":1,"
                                       "\"kv_bytes\":1,\"load_ms\":1,\"gb_s\":1,\"tiers\":{},\"stamp\":\"%s\","
                                       "\"pinned\":true,\"keep_alive_s\":9}",
                                       id, model, stamp),
                     0);
}

void world_unloaded(struct world *world, const char *model, const char *reason)
{
    assert_int_equal(
        world_engine_says(world,
                          "{\"type\":\"unloaded\",\"id\":null,\"model\":\"%s\",\"freed_bytes\":1,\"reason\":\"%s\"}",
                          model, reason),
        0);
}

void world_error(struct world *world, long long id, const char *code)
{
    assert_int_equal(
        world_engine_says(
            world, "{\"type\":\"error\",\"id\":%lld,\"code\":\"%s\",\"message\":\"m\",\"retryable\":false}", id, code),
        0);
}

void world_pass(struct world *world, uint64_t ms)
{
    uint64_t end_ns = world->now_ns + ms * WORLD_MS;
    while (world->requests.next_ns <= end_ns) {
        if (world->requests.next_ns > world->now_ns)
            world->now_ns = world->requests.next_ns;
        halo_requests_expire(&world->requests, world->now_ns);
        world_flush(world);
    }
    world->now_ns = end_ns;
}

bool world_matches(const char *text, size_t len, const char *pattern)
{
    for (; *pattern != '\0' && *pattern != '*'; pattern++, text++, len--)
        if (len == 0 || *text != *pattern)
            return false;
    if (*pattern == '\0')
        return len == 0;
    for (size_t skip = 0; skip <= len; skip++)
        if (world_matches(text + skip, len - skip, pattern + 1))
            return true;
    return false;
}

static void hears(struct halo_json *out, const char *who, const char *pattern)
{
    if (!world_matches(out->at, out->len, pattern))
        fail_msg("%s heard\n%.*s\nwanted\n%s", who, (int)out->len, out->at, pattern);
    halo_json_reset(out);
}

/* The client reads all that was written. */
static void read_all(struct world *world, int client)
{
    halo_json_reset(&world->outs[client]);
    halo_client_settle(&world->clients[client], 0);
}

void world_hears(struct world *world, int client, const char *pattern)
{
    hears(&world->outs[client], "the client", pattern);
    read_all(world, client);
}

void world_engine_hears(struct world *world, const char *pattern)
{
    hears(&world->to_engine, "the engine", pattern);
}

void world_forget(struct world *world)
{
    for (int i = 0; i < WORLD_CLIENTS; i++)
        read_all(world, i);
    halo_json_reset(&world->to_engine);
}

long long world_last_id(const struct world *world)
{
    return (long long)world->requests.last_id;
}
