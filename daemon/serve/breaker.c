/* breaker.c: an engine that dies again and again without getting anything done is left down for a while.
 *
 * While the breaker is open no engine is started and requests are refused at once, so that nobody waits for nothing
 * and no machine spends its time loading models into engines that die. A `load`, or the timer, closes it; one more
 * death without progress opens it again. Loop thread.
 */
#include <base/clock.h>
#include <base/log.h>

#include <serve/answer.h>
#include <serve/daemon.h>
#include <serve/notify.h>

#define MS 1000000ull

bool halo_engine_is_broken(const struct halo_engine *engine)
{
    return engine->broken;
}

void halo_breaker_count(struct halo_engine *engine)
{
    const struct halo_config *config = engine->daemon->config;
    uint64_t now = halo_clock_ns();
    bool lasted = engine->ready_ns != 0 && now - engine->ready_ns >= (uint64_t)config->breaker_ms * MS;
    engine->n_futile = engine->progressed || lasted ? 0 : engine->n_futile + 1;
    if ((int64_t)engine->n_futile < config->breaker_deaths)
        return;
    engine->broken = true;
    engine->broken_until_ns = now + (uint64_t)config->breaker_ms * MS;
    halo_log(HALO_LOG_ERROR,
             "the engine died %u times in a row without getting anything done; requests are refused for %lld ms, or "
             "until a `load`",
             engine->n_futile, (long long)config->breaker_ms);
    halo_notify_status("broken: the engine died %u times in a row, last it %.200s; refusing requests, `haloctl load` "
                       "tries again",
                       engine->n_futile, engine->reason);
}

uint64_t halo_breaker_left_ms(const struct halo_engine *engine)
{
    uint64_t now = halo_clock_ns();
    return engine->broken && engine->broken_until_ns > now ? (engine->broken_until_ns - now + MS - 1) / MS : 0;
}

void halo_breaker_close(struct halo_engine *engine, const char *why)
{
    if (!engine->broken)
        return;
    engine->broken = false;
    halo_log(HALO_LOG_INFO, "starting an engine again: %s", why);
    halo_notify_status("starting an engine again after %u deaths in a row", engine->n_futile);
    engine->n_futile = (unsigned)engine->daemon->config->breaker_deaths - 1;
    if (engine->state == HALO_ENGINE_DOWN)
        halo_engine_start(engine);
}

void halo_breaker_answer(struct halo_engine *engine, char *ret_text, size_t room)
{
    char note[HALO_CHECKUP_TEXT_BYTES + 32];
    halo_checkup_note(&engine->daemon->checkup, note, sizeof(note));
    if (note[0] == '\0' && engine->known && halo_checkup_concerns(engine))
        snprintf(note, sizeof(note), "; `halo-doctor` may know why");
    snprintf(
        ret_text, room,
        "the engine died %u times in a row without getting anything done, last it %.200s; requests are refused for "
        "%llu s more, `load` tries again at once%s",
        engine->n_futile, engine->reason, (unsigned long long)(halo_breaker_left_ms(engine) + 999) / 1000, note);
}

void halo_breaker_refuse(struct halo_daemon *daemon)
{
    struct halo_request *request = daemon->requests.wait_first, *next;
    char text[HALO_BREAKER_TEXT_BYTES];
    halo_breaker_answer(&daemon->engine, text, sizeof(text));
    for (; request; request = next) {
        next = request->wait_next;
        if (halo_request_is_query(request->type)) {
            halo_query_answer(daemon, request, NULL, 0);
            continue;
        }
        daemon->counters.requests_lost++;
        halo_answer_failed(request, HALO_ERROR_ENGINE_LOST, "%s", text);
        halo_dispatch_ended(daemon, request);
    }
}
