/* resume.c: how a request is written for an engine, the first one or another one after a death.
 *
 * The line of the record goes out with what is added now: what is left of the deadline, where a score continues, and
 * for a reply that has begun what the client has of it.
 */
#include "resume_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <protocol/message.h>

#include "answer_priv.h"

static int append_line(struct halo_json *out, const struct halo_request *request)
{
    struct halo_json_mark mark = halo_json_mark(out);
    halo_json_raw(out, request->line, request->line_len);
    int r = halo_json_line_end(out);
    if (r < 0)
        halo_json_rollback(out, mark);
    return r;
}

static void write_resume(struct halo_json *out, const struct halo_request *request, uint64_t now_ns)
{
    struct halo_part_resume resume = {
        .tokens = {request->tokens, request->n_tokens},
        .bytes_sent = (int64_t)request->text_bytes,
        .seed = request->seed,
        .elapsed_ms = (double)(now_ns - request->started_ns) / 1e6,
        .started = true,
        .loop_told = request->loop_told,
        .has_effective_md5 = request->effective_md5[0] != '\0',
        .effective_md5 = halo_str_of(request->effective_md5),
    };
    halo_json_key(out, "resume");
    halo_resume_write(out, &resume);
}

int halo_resume_append(struct halo_json *out, const struct halo_request *request, int64_t left_ms, uint64_t now_ns)
{
    struct halo_json_mark mark = halo_json_mark(out);
    struct halo_id id = halo_id_of((int64_t)request->id);
    struct halo_envelope env;
    bool resumes = request->started_ns != 0;
    if (request->deadline_ms == 0 && request->score.next == 0 && !resumes)
        return append_line(out, request);
    if (halo_envelope_scan(request->line, request->line_len, &env) != 0)
        return -EINVAL; /* it was encoded here */
    halo_envelope_rewrite_begin(out, request->line, &env, &id);
    if (request->deadline_ms > 0) {
        halo_json_key(out, "deadline_ms");
        halo_json_i64(out, left_ms);
    }
    if (request->score.next > 0) {
        halo_json_key(out, "from");
        halo_json_i64(out, request->score.next);
    }
    if (resumes)
        write_resume(out, request, now_ns);
    int r = halo_envelope_rewrite_end(out);
    if (r < 0)
        halo_json_rollback(out, mark);
    return r;
}

bool halo_resume_possible(const struct halo_known_models *models, const struct halo_request *request, char *ret_reason,
                          size_t room)
{
    if (!halo_request_has_begun(request))
        return true;
    if (request->record_lost) {
        snprintf(ret_reason, room, "the daemon had no memory left to record what a continuation needs");
        return false;
    }
    if (!request->model)
        return true; /* not a model that is loaded by name: the engine decides */
    const struct halo_known_model *model = halo_known_models_find(models, halo_str_of(request->model));
    if (!model)
        snprintf(ret_reason, room, "model %.200s was not reloaded", request->model);
    else if (strcmp(model->print, request->print) != 0)
        snprintf(ret_reason, room, "model %.100s was reloaded %.150s, but the reply began %.150s", request->model,
                 model->print, request->print);
    else
        return true;
    return false;
}

void halo_resume_notify(struct halo_request *request, const char *reason, const char *note)
{
    struct halo_ev ev;
    char message[1024];
    bool died = request->died;
    request->died = false;
    if (!died || !request->client || !halo_request_has_begun(request))
        return;
    snprintf(message, sizeof(message), "the engine %.300s%s; the next one continues this reply", reason, note);
    halo_ev_init_notice(&ev, &request->client_id, HALO_NOTICE_ENGINE_RESTARTED, message);
    ev.notice.has_resumed_at = true;
    ev.notice.resumed_at = request->type == HALO_MSG_SCORE ? request->score.next : (int64_t)request->n_tokens;
    halo_answer(request->client, &ev);
}

void halo_resume_score_done(struct halo_request *request)
{
    struct halo_ev ev;
    const struct halo_score_record *score = &request->score;
    halo_ev_init(&ev, HALO_EV_SCORED, &request->client_id);
    ev.scored.tokens = score->next;
    ev.scored.has_nll = score->n_nll > 0;
    ev.scored.nll = score->n_nll > 0 ? score->nll_sum / (double)score->n_nll : 0;
    halo_answer_terminal(request, &ev);
}
