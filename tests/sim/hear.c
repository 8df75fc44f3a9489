/* hear.c: what a client is told, event by event, held against the story of its request.
 *
 * One terminal event each, none for what is not open; ids, texts and rows without gap or repeat, whichever engine they
 * come from; an end only with a reason that the world knows to be true.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "sim.h"

enum field { POS, TOK_ID, TEXT, CODE, REASON, NLL, TOKENS, RESUMED, N_FIELDS };

struct heard {
    const char *line;
    int len;
    enum halo_ev_type type;
    struct halo_envelope_field fields[N_FIELDS];
};

static int64_t number(struct sim *sim, const struct heard *heard, enum field field)
{
    int64_t value = -1;
    if (!halo_envelope_i64(heard->line, heard->fields[field].value, &value))
        sim_fail(sim, "event", "no number %s in %.*s", heard->fields[field].key, heard->len, heard->line);
    return value;
}

static bool is_word(const struct heard *heard, enum field field, const char *word)
{
    struct halo_range value = heard->fields[field].value;
    return value.len == strlen(word) + 2 && memcmp(heard->line + value.at + 1, word, value.len - 2) == 0;
}

/* ---- what belongs to no story ---- */

static void hear_short(struct sim *sim, struct sim_conn *conn, const struct heard *heard, int64_t id)
{
    if (id != conn->short_id)
        sim_fail(sim, "one_end", "an event for the id %" PRId64 ", which waits for none: %.*s", id, heard->len,
                 heard->line);
    if (!halo_ev_is_terminal(heard->type))
        sim_fail(sim, "event", "no answer to a ping or a cancel: %.*s", heard->len, heard->line);
    conn->short_id = -1;
}

static void hear_null(struct sim *sim, struct sim_conn *conn, const struct heard *heard)
{
    if (!conn->short_null || heard->type != HALO_EV_ERROR)
        sim_fail(sim, "one_end", "an event that nobody waits for: %.*s", heard->len, heard->line);
    conn->short_null = false;
}

/* ---- how a story may end ---- */

static bool is_late(const struct sim *sim, const struct sim_story *story)
{
    return story->deadline_ms > 0 && sim->now_ns >= story->asked_ns + (uint64_t)story->deadline_ms * SIM_MS;
}

/* The last engine died with it in a way that the rule ends it for. */
static bool is_guilty(const struct sim *sim, const struct sim_story *story)
{
    return (int64_t)story->n_deaths >= sim->config.request_deaths &&
           (story->died_alone || sim->config.request_deaths == 1);
}

/* The reply has begun and cannot continue: its model did not come back, or came back with other files. */
static bool is_stranded(const struct sim *sim, const struct sim_story *story)
{
    char name[16];
    if (story->began_with < 0)
        return false;
    snprintf(name, sizeof(name), "m%d", story->began_with);
    return !halo_known_models_find(&sim->requests.models, halo_str_of(name)) ||
           sim->engine.models[story->began_with].in_memory != story->version;
}

static bool may_be_lost(const struct sim *sim, const struct sim_story *story)
{
    bool waited = sim->requests.link.state == HALO_LINK_DOWN &&
                  sim->now_ns - story->asked_ns >= (uint64_t)sim->config.wait_ms * SIM_MS;
    return sim->requests.breaker.open || waited || is_guilty(sim, story) || is_stranded(sim, story) ||
           (story->unkept && story->n_committed > 0);
}

/* Its user leaves so much unread that another event might not fit. */
static bool is_stalled(const struct sim *sim, const struct sim_conn *conn)
{
    const struct halo_quota_user *user = conn->client.user;
    return conn->flow.stalled || user->used[HALO_QUOTA_OUTPUT] + SIM_MOST_EVENT > sim->config.output_user_bytes ||
           sim->quota.used[HALO_QUOTA_OUTPUT] + SIM_MOST_EVENT > sim->config.output_bytes;
}

static enum halo_error error_of(const struct heard *heard)
{
    struct halo_range value = heard->fields[CODE].value;
    return value.len > 2 ? halo_error_from_name(heard->line + value.at + 1, value.len - 2) : HALO_ERROR_NONE;
}

static bool may_end(const struct sim *sim, const struct sim_conn *conn, const struct sim_story *story,
                    enum halo_error code)
{
    switch (code) {
    case HALO_ERROR_NONE: return false;
    case HALO_ERROR_ENGINE_LOST: return may_be_lost(sim, story);
    case HALO_ERROR_DEADLINE: return is_late(sim, story) && story->n_committed == 0;
    case HALO_ERROR_CLIENT_STALLED: return is_stalled(sim, conn);
    case HALO_ERROR_FORBIDDEN:
        return !conn->client.admin &&
               (story->privileged_only || story->type == HALO_MSG_LOAD || story->type == HALO_MSG_UNLOAD);
    case HALO_ERROR_QUEUE_FULL:
    case HALO_ERROR_TOO_MANY_REQUESTS: return story->asked_ns == sim->now_ns; /* at once; see sim_ask() */
    case HALO_ERROR_SHUTTING_DOWN: return !sim->requests.accepts;
    default: return code == story->said;
    }
}

static void end_by_error(struct sim *sim, struct sim_conn *conn, struct sim_story *story, const struct heard *heard)
{
    if (!may_end(sim, conn, story, error_of(heard)))
        sim_fail(sim, "reason", "a %s with %u tokens and %u deaths ended with an error that is not so: %.*s",
                 halo_msg_type_name(story->type), story->n_committed, story->n_deaths, heard->len, heard->line);
}

static void end_reply(struct sim *sim, const struct sim_story *story, const struct heard *heard)
{
    int64_t tokens = number(sim, heard, TOKENS);
    if (is_word(heard, REASON, "deadline") && !is_late(sim, story))
        sim_fail(sim, "reason", "a reply ended by its deadline, which has not come");
    if (tokens != (int64_t)story->n_committed)
        sim_fail(sim, "lost", "done counts %" PRId64 " tokens, %u were committed", tokens, story->n_committed);
    if (!is_word(heard, REASON, "length"))
        return;
    if (story->n_committed != story->n || story->n_pieces != story->n || (story->wants_ids && story->n_ids != story->n))
        sim_fail(sim, "lost", "a reply of %u tokens ended with %u committed, %u ids, %u texts", story->n,
                 story->n_committed, story->n_ids, story->n_pieces);
}

static void end_score(struct sim *sim, const struct sim_story *story, const struct heard *heard)
{
    double nll = 0, wanted = 0;
    unsigned n = story->n - 1 - story->from;
    for (unsigned pos = story->from; pos + 1 < story->n; pos++)
        wanted -= sim_logprob(pos) / n;
    if (story->n_rows != story->n - story->from)
        sim_fail(sim, "lost", "a score of %u rows ended with %u", story->n - story->from, story->n_rows);
    if (n > 0 &&
        (!halo_envelope_f64(heard->line, heard->fields[NLL].value, &nll) || fabs(nll - wanted) > 1e-6 * fabs(wanted)))
        sim_fail(sim, "sum", "a score's nll is %g, not %g: %.*s", nll, wanted, heard->len, heard->line);
}

static void end_by_done(struct sim *sim, const struct sim_story *story, const struct heard *heard)
{
    if (is_word(heard, REASON, "cancelled")) {
        if (!story->cancelled)
            sim_fail(sim, "reason", "a request was cancelled that nobody cancelled");
    } else if (story->type == HALO_MSG_GENERATE) {
        end_reply(sim, story, heard);
    } else if (story->type == HALO_MSG_SCORE) {
        end_score(sim, story, heard);
    } else {
        sim_fail(sim, "event", "done for a %s: %.*s", halo_msg_type_name(story->type), heard->len, heard->line);
    }
}

static void hear_end(struct sim *sim, struct sim_conn *conn, struct sim_story *story, const struct heard *heard)
{
    if (heard->type == HALO_EV_ERROR)
        end_by_error(sim, conn, story, heard);
    else if (heard->type == HALO_EV_DONE || heard->type == HALO_EV_SCORED)
        end_by_done(sim, story, heard);
    if (heard->type != HALO_EV_ERROR && story->privileged_only)
        sim_fail(sim, "forbidden", "a %s of somebody who is no administrator was served",
                 halo_msg_type_name(story->type));
    if (heard->type == HALO_EV_ERROR)
        story->ended = error_of(heard);
    story->open = false;
    conn->ids[story->id] = -1;
    sim->report->n_ended++;
}

/* ---- on the way ---- */

static void hear_text(struct sim *sim, struct sim_story *story, const struct heard *heard)
{
    struct halo_range text = heard->fields[TEXT].value;
    char wanted = (char)('a' + story->n_pieces % 26);
    if (text.len != story->piece_bytes + 2 || heard->line[text.at + 1] != wanted)
        sim_fail(sim, "order", "text %u of a reply is not %u times %c: %.*s", story->n_pieces, story->piece_bytes,
                 wanted, heard->len, heard->line);
    story->n_pieces++;
}

static void hear_id(struct sim *sim, struct sim_story *story, const struct heard *heard)
{
    int64_t pos = number(sim, heard, POS), tok_id = number(sim, heard, TOK_ID);
    int index = (int)(story - sim->stories);
    if (!story->wants_ids)
        sim_fail(sim, "event", "a committed event that was not asked for");
    if (pos != story->n_ids || tok_id != sim_token(sim, index, story->n_ids))
        sim_fail(sim, "order", "id %" PRId64 " at %" PRId64 ", wanted %d at %u", tok_id, pos,
                 sim_token(sim, index, story->n_ids), story->n_ids);
    story->n_ids++;
}

static void hear_middle(struct sim *sim, struct sim_story *story, const struct heard *heard)
{
    switch (heard->type) {
    case HALO_EV_STARTED:
        if (story->started)
            sim_fail(sim, "order", "a second started event");
        story->started = true;
        return;
    case HALO_EV_COMMITTED: hear_id(sim, story, heard); return;
    case HALO_EV_TOKEN: hear_text(sim, story, heard); return;
    case HALO_EV_SCORE_ROW:
        if (number(sim, heard, POS) != story->from + story->n_rows)
            sim_fail(sim, "order", "row %" PRId64 ", wanted %u", number(sim, heard, POS), story->from + story->n_rows);
        story->n_rows++;
        return;
    case HALO_EV_NOTICE:
        if (is_word(heard, CODE, "engine_restarted") &&
            number(sim, heard, RESUMED) !=
                (int64_t)(story->type == HALO_MSG_SCORE ? story->from + story->n_rows : story->n_committed))
            sim_fail(sim, "order", "a reply with %u tokens goes on at %" PRId64, story->n_committed,
                     number(sim, heard, RESUMED));
        return;
    case HALO_EV_PROGRESS: return;
    default: sim_fail(sim, "event", "nobody asked for %.*s", heard->len, heard->line);
    }
}

void sim_hear(struct sim *sim, struct sim_conn *conn, const char *line, size_t len)
{
    char buf[HALO_ID_BUF_BYTES];
    struct halo_envelope env;
    struct heard heard = {.line = line,
                          .len = (int)len,
                          .fields = {[POS] = {"pos"},
                                     [TOK_ID] = {"tok_id"},
                                     [TEXT] = {"text"},
                                     [CODE] = {"code"},
                                     [REASON] = {"finish_reason"},
                                     [NLL] = {"nll"},
                                     [TOKENS] = {"tokens"},
                                     [RESUMED] = {"resumed_at"}}};
    if (halo_envelope_scan_fields(line, len, &env, heard.fields, N_FIELDS) != 0)
        sim_fail(sim, "lines", "no event: %.*s", (int)len, line);
    int type = halo_ev_type_from_name(line + env.type.at, env.type.len);
    struct halo_id id = halo_envelope_id(line, &env, buf);
    if (type < 0)
        sim_fail(sim, "lines", "no known event: %.*s", (int)len, line);
    heard.type = (enum halo_ev_type)type;
    int64_t at = id.kind == HALO_ID_INT ? id.num : id.kind == HALO_ID_STR ? strtol(id.str.at + 1, NULL, 10) : -1;
    if (id.kind == HALO_ID_NONE) {
        hear_null(sim, conn, &heard);
    } else if (at >= SIM_SHORT_ID) {
        hear_short(sim, conn, &heard, at);
    } else if (at == conn->repeated && is_word(&heard, CODE, "duplicate_id")) {
        conn->repeated = -1;
    } else {
        if (at < 0 || at >= SIM_IDS || conn->ids[at] < 0)
            sim_fail(sim, "one_end", "an event for the id %" PRId64 ", which is not open: %.*s", at, (int)len, line);
        struct sim_story *story = &sim->stories[conn->ids[at]];
        if (halo_ev_is_terminal(heard.type))
            hear_end(sim, conn, story, &heard);
        else
            hear_middle(sim, story, &heard);
    }
}
