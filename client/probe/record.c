/* record.c: the events of one reply, kept for the detectors. Grows as they come; owned by whoever created it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe_priv.h"

struct probe_record *probe_record_create(const struct halo_id *id)
{
    struct probe_record *record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->id = *id;
    if (id->kind == HALO_ID_STR) {
        memcpy(record->id_text, id->str.at, id->str.len < HALO_LIMIT_ID_BYTES ? id->str.len : HALO_LIMIT_ID_BYTES);
        record->id.str = (struct halo_str){record->id_text, strlen(record->id_text)};
    }
    record->decode_tok_s = record->prefill_tok_s = record->ttft_ms = NAN;
    return record;
}

void probe_record_destroy(struct probe_record *record)
{
    if (!record)
        return;
    free(record->ids);
    free(record->t_ms);
    free(record->logprobs);
    free(record->text_at);
    free(record->text);
    free(record);
}

static int grow(struct probe_record *record)
{
    size_t room = record->room ? 2 * record->room : 1024;
    void *ids = reallocarray(record->ids, room, sizeof *record->ids);
    record->ids = ids ? ids : record->ids;
    void *t_ms = reallocarray(record->t_ms, room, sizeof *record->t_ms);
    record->t_ms = t_ms ? t_ms : record->t_ms;
    void *logprobs = reallocarray(record->logprobs, room, sizeof *record->logprobs);
    record->logprobs = logprobs ? logprobs : record->logprobs;
    void *text_at = reallocarray(record->text_at, room, sizeof *record->text_at);
    record->text_at = text_at ? text_at : record->text_at;
    if (!ids || !t_ms || !logprobs || !text_at)
        return -ENOMEM;
    record->room = room;
    return 0;
}

static int take_committed(struct probe_record *record, const struct halo_ev_committed *committed)
{
    if (record->n_ids == record->room && grow(record) < 0)
        return -ENOMEM;
    record->has_logprobs |= committed->has_logprob;
    record->ids[record->n_ids] = (int32_t)committed->tok_id;
    record->t_ms[record->n_ids] = committed->t_ms;
    record->logprobs[record->n_ids] = committed->has_logprob ? committed->logprob : NAN;
    record->text_at[record->n_ids++] = record->n_text;
    return 0;
}

static int take_text(struct probe_record *record, struct halo_str text)
{
    if (record->text_room - record->n_text < text.len) {
        size_t room = 2 * record->text_room + text.len + 4096;
        char *more = realloc(record->text, room);
        if (!more)
            return -ENOMEM;
        record->text = more;
        record->text_room = room;
    }
    if (text.len > 0)
        memcpy(record->text + record->n_text, text.at, text.len);
    record->n_text += text.len;
    return 0;
}

static int take_done(struct probe_record *record, const struct halo_ev_done *done)
{
    record->ended = true;
    record->end = done->finish_reason == HALO_WIRE_FINISH_LENGTH ? HALO_DETECT_LENGTH : HALO_DETECT_OTHER;
    if (done->finish_reason == HALO_WIRE_FINISH_STOP && !(done->has_stop && done->stop.kind == HALO_ID_STR))
        record->end = HALO_DETECT_STOP; /* an end token, which is among the ids */
    record->decode_tok_s = done->has_decode_tok_s ? done->decode_tok_s : NAN;
    record->prefill_tok_s = done->has_prefill_tok_s ? done->prefill_tok_s : NAN;
    record->ttft_ms = done->has_ttft_ms ? done->ttft_ms : NAN;
    return done->has_text ? take_text(record, done->text) : 0;
}

/* The worst one is kept: that an engine died, else the first. */
static void take_notice(struct probe_record *record, const struct halo_ev_notice *notice)
{
    bool died = halo_str_is(notice->code, "engine_restarted");
    if (record->notice[0] && !(died && !record->engine_died))
        return;
    record->engine_died = died;
    snprintf(record->notice, sizeof record->notice, "%s: %s", notice->code.at, notice->message.at);
}

int probe_record_take(struct probe_record *record, const struct halo_ev *ev)
{
    switch (ev->type) {
    case HALO_EV_STARTED:
        record->started = true;
        snprintf(record->model, sizeof record->model, "%s", ev->started.model.at);
        snprintf(record->md5, sizeof record->md5, "%s", ev->started.effective_md5.at);
        record->seed = ev->started.seed;
        record->prompt_tokens = ev->started.prompt_tokens;
        return 0;
    case HALO_EV_COMMITTED: return take_committed(record, &ev->committed);
    case HALO_EV_TOKEN: return take_text(record, ev->token.text);
    case HALO_EV_NOTICE: take_notice(record, &ev->notice); return 0;
    case HALO_EV_DONE: return take_done(record, &ev->done);
    case HALO_EV_ERROR:
        record->failed = true;
        snprintf(record->error_text, sizeof record->error_text, "%s: %s", halo_error_name(ev->error.code),
                 ev->error.message.at);
        return 0;
    default: return 0;
    }
}
