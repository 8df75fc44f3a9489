/* mutants.c: the simulation can fail: policies of halod are broken one after the other, and each is caught by the rule
 * that it breaks. With --print, the shortest list of events that shows it follows: corpus/ has these.
 *
 * The linker puts these functions in front of halod's own (--wrap, for calls between files). One is broken at a time;
 * all others pass the call on.
 */
#include <stdio.h>
#include <string.h>

#include "answer_priv.h"
#include "order_priv.h"
#include "retry_priv.h"
#include "run.h"
#include "sim.h"
#include "table_priv.h"
#include "wait_priv.h"

#define MOST_SEEDS 400
#define EVENTS 4000
#define LEAK_EVERY 64

enum mutant {
    TWO_ENDS,
    LOST_CANCEL,
    LOST_PAUSE,
    QUOTA_LEAK,
    OPEN_QUEUE,
    UNFAIR_QUEUE,
    RETRY_GUILTY,
    NEVER_ALONE,
    NO_DEADLINE,
    WRONG_ID,
    LOST_ROWS,
    NO_BREAKER,
    NO_WATCH,
    N_MUTANTS
};

static const struct {
    const char *name, *rule;
} mutants[N_MUTANTS] = {
    [TWO_ENDS] = {"a request that halod ends is ended twice", "one_end"},
    [LOST_CANCEL] = {"the engine is not told of a cancel", "for_ever"},
    [LOST_PAUSE] = {"the engine is not told of a slow reader", "pause"},
    [QUOTA_LEAK] = {"a charge is not given back", "quota"},
    [OPEN_QUEUE] = {"one user may have the whole queue", "queue"},
    [UNFAIR_QUEUE] = {"the oldest request is passed over", "starved"},
    [RETRY_GUILTY] = {"a request runs again whatever died with it", "retry"},
    [NEVER_ALONE] = {"a suspect runs with others", "alone"},
    [NO_DEADLINE] = {"deadlines do not pass", "deadline"},
    [WRONG_ID] = {"the record keeps another id", "resume"},
    [LOST_ROWS] = {"a score begins again after a death", "resume"},
    [NO_BREAKER] = {"the breaker does not open", "breaker"},
    [NO_WATCH] = {"a silent engine is not given up", "watch"},
};

static enum mutant broken;

/* ---- in front of halod ---- */

#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

WRAP(void, halo_answer_ended, struct halo_request *request, enum halo_wire_finish reason, uint64_t now_ns)
{
    struct halo_client *client = request->client;
    struct halo_ev ev;
    __real_halo_answer_ended(request, reason, now_ns);
    if (broken != TWO_ENDS || !client)
        return;
    halo_ev_init(&ev, HALO_EV_DONE, &request->client_id);
    ev.done.finish_reason = reason;
    halo_answer(client, &ev);
}

WRAP(void, halo_request_cancel, struct halo_requests *requests, struct halo_request *request)
{
    if (broken != LOST_CANCEL)
        __real_halo_request_cancel(requests, request);
    else if (request->state != HALO_REQUEST_CANCELLING)
        halo_request_move(requests, request, HALO_REQUEST_CANCELLING);
}

WRAP(void, halo_request_pause, struct halo_requests *requests, struct halo_request *request, bool pause)
{
    if (broken != LOST_PAUSE)
        __real_halo_request_pause(requests, request, pause);
}

WRAP(void, halo_quota_give_back, struct halo_quota *quota, struct halo_quota_user *user, enum halo_quota_kind kind,
     size_t n)
{
    static unsigned n_calls;
    if (broken != QUOTA_LEAK || ++n_calls % LEAK_EVERY != 0)
        __real_halo_quota_give_back(quota, user, kind, n);
}

WRAP(int, halo_quota_fits, const struct halo_quota *quota, const struct halo_quota_user *user,
     enum halo_quota_kind kind, size_t n)
{
    return broken == OPEN_QUEUE && kind == HALO_QUOTA_QUEUED && quota->used[kind] < quota->limits[kind].all
               ? 0
               : __real_halo_quota_fits(quota, user, kind, n);
}

WRAP(struct halo_request *, halo_request_first_waiting, const struct halo_requests *requests)
{
    struct halo_request *first = __real_halo_request_first_waiting(requests);
    return broken == UNFAIR_QUEUE && first ? halo_request_next_waiting(first) : first;
}

WRAP(enum halo_retry, halo_retry_verdict, const struct halo_request *request, int64_t most_deaths)
{
    enum halo_retry verdict = __real_halo_retry_verdict(request, most_deaths);
    return broken == RETRY_GUILTY && verdict == HALO_RETRY_GUILTY ? HALO_RETRY_AGAIN : verdict;
}

WRAP(bool, halo_retry_is_suspect, const struct halo_request *request, int64_t most_deaths)
{
    return broken != NEVER_ALONE && __real_halo_retry_is_suspect(request, most_deaths);
}

WRAP(int64_t, halo_request_left_ms, const struct halo_request *request, uint64_t now_ns)
{
    return broken == NO_DEADLINE ? INT64_MAX : __real_halo_request_left_ms(request, now_ns);
}

WRAP(void, halo_request_note_token, struct halo_requests *requests, struct halo_request *request, int32_t tok_id)
{
    __real_halo_request_note_token(requests, request, broken == WRONG_ID ? tok_id + 1 : tok_id);
}

WRAP(void, halo_request_note_death, struct halo_request *request)
{
    __real_halo_request_note_death(request);
    if (broken == LOST_ROWS)
        request->score.next = request->score.from;
}

WRAP(bool, halo_breaker_engine_died, struct halo_breaker *breaker, const struct halo_config *config, uint64_t now_ns)
{
    return broken != NO_BREAKER && __real_halo_breaker_engine_died(breaker, config, now_ns);
}

WRAP(bool, halo_engine_is_hung, const struct halo_engine *engine, uint64_t now_ns,
     char ret_reason[static HALO_ENGINE_REASON_BYTES])
{
    return broken != NO_WATCH && __real_halo_engine_is_hung(engine, now_ns, ret_reason);
}

/* ---- the hunt ---- */

/* The number of lives until the rule was broken; 0: never; or a negative errno. */
static int hunt(const char *rule, bool print)
{
    for (int seed = 1; seed <= MOST_SEEDS; seed++) {
        struct sim_report report;
        struct sim_life life;
        int r = sim_life_draw(&life, (uint64_t)seed, EVENTS);
        if (r == 0)
            r = sim_run(&life, true, &report);
        bool caught = r == 0 && report.failed && strcmp(report.rule, rule) == 0;
        if (caught && print && (r = sim_minimise(&life, &report)) == 0)
            sim_life_print(&life);
        sim_life_finish(&life);
        if (r < 0)
            return r;
        if (caught)
            return seed;
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool print = argc > 1 && strcmp(argv[1], "--print") == 0;
    int bad = 0;
    for (broken = 0; broken < N_MUTANTS; broken++) {
        int n = hunt(mutants[broken].rule, print);
        printf("# %s: %s by rule %s, %d lives\n", mutants[broken].name, n > 0 ? "caught" : "NOT CAUGHT",
               mutants[broken].rule, n > 0 ? n : MOST_SEEDS);
        fflush(stdout);
        bad |= n <= 0;
    }
    return bad;
}
