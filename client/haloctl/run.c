/* run.c: one request: its events to the verb, its errors to a person.
 *
 * An interrupt (SIGINT) becomes a `cancel` of the running request, so that the daemon stops computing and the stream
 * still ends with its terminal event.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <client/clock.h>
#include <client/say.h>
#include <client/show.h>
#include <client/suggest.h>

#include "ctl_priv.h"

#define SUGGEST_MS 2000    /* how long the list of models may take */
#define SUGGEST_NAMES 1024 /* of them that are compared */

struct run {
    struct halo_msg *msg;
    halo_ctl_event_fn on_event;
    void *ud;
    int status;
    bool not_found;
};

static int exit_of_error(enum halo_error code)
{
    switch (code) {
    case HALO_ERROR_LOAD_FAILED:
    case HALO_ERROR_DEADLINE:
    case HALO_ERROR_CLIENT_STALLED:
    case HALO_ERROR_ENGINE_LOST:
    case HALO_ERROR_DEVICE_HANG:
    case HALO_ERROR_DEVICE_FAULT:
    case HALO_ERROR_INTERNAL:
    case HALO_ERROR_UNKNOWN: return HALO_CTL_FAILED;
    default: return HALO_CTL_REFUSED;
    }
}

/* A reply that reached the caller's own limit is what was asked for. */
static int exit_of_done(const struct halo_msg *msg, const struct halo_ev_done *done)
{
    if (done->finish_reason == HALO_WIRE_FINISH_DEADLINE)
        return HALO_CTL_DEADLINE;
    bool limit_reached =
        msg->type == HALO_MSG_GENERATE && msg->generate.has_max_tokens && done->tokens >= msg->generate.max_tokens;
    return done->finish_reason == HALO_WIRE_FINISH_LENGTH && !limit_reached ? HALO_CTL_CUT : HALO_CTL_OK;
}

bool halo_ctl_flush(struct halo_ctl *ctl)
{
    if (!ctl->out_error && (fflush(stdout) != 0 || ferror(stdout)))
        ctl->out_error = errno ? errno : EIO;
    return !ctl->out_error;
}

void halo_ctl_end_line(struct halo_ctl *ctl)
{
    if (ctl->mid_line)
        fputc('\n', stderr);
    ctl->mid_line = false;
}

static void send_cancel(struct halo_ctl *ctl, const struct halo_id *target)
{
    struct halo_msg cancel;
    halo_msg_init(&cancel, HALO_MSG_CANCEL);
    cancel.id = halo_id_of(++ctl->next_id);
    cancel.cancel.target = *target;
    halo_ctl_send(ctl, &cancel);
}

/* ---- a model that is not there ---- */

/* The model that a request names; len 0: none. */
static struct halo_str model_of(const struct halo_msg *msg)
{
    switch (msg->type) {
    case HALO_MSG_LOAD: return msg->load.model;
    case HALO_MSG_GENERATE: return msg->generate.model;
    case HALO_MSG_TOKENIZE: return msg->tokenize.model;
    case HALO_MSG_DETOKENIZE: return msg->detokenize.model;
    case HALO_MSG_TEMPLATE: return msg->template.model;
    case HALO_MSG_SCORE: return msg->score.model;
    case HALO_MSG_PLAN: return msg->plan.model;
    case HALO_MSG_BENCH: return msg->bench.model;
    case HALO_MSG_PROFILE: return msg->profile.model;
    default: return (struct halo_str){NULL, 0};
    }
}

/* Asks for the models' names and says which are like `name`. Best effort: the error itself has been reported. */
static void suggest_model(struct halo_ctl *ctl, struct halo_str name)
{
    struct halo_msg msg;
    struct halo_refusal refusal;
    struct halo_ev ev;
    const char *line, *names[SUGGEST_NAMES];
    char text[1024];
    size_t len, n = 0;
    halo_msg_init(&msg, HALO_MSG_MODELS);
    msg.id = halo_id_of(++ctl->next_id);
    ctl->until_ms = halo_client_now_ms() + SUGGEST_MS;
    bool answered = false;
    for (int r = halo_ctl_send(ctl, &msg); r == 0 && !answered;) {
        r = halo_ctl_next_line(ctl, &line, &len);
        if (r < 0 || halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
            continue;
        answered = halo_id_equal(&ev.id, &msg.id) && halo_ev_is_terminal(ev.type);
        for (size_t i = 0; answered && ev.type == HALO_EV_MODELS && i < ev.models.models.n && n < SUGGEST_NAMES; i++)
            names[n++] = ev.models.models.at[i].name.at;
        if (n > 0 && *halo_client_did_you_mean(name.at, names, n, text, sizeof(text)))
            halo_client_say("%s", text + 2); /* without "; " */
        halo_ev_finish(&ev);
    }
    ctl->until_ms = 0;
}

/* ---- events ---- */

static void report_error(struct halo_ctl *ctl, struct run *run, const struct halo_ev_error *error)
{
    halo_ctl_progress_clear(ctl);
    halo_ctl_end_line(ctl);
    if (!ctl->json)
        halo_client_say("%s: %.*s", halo_error_name(error->code), (int)error->message.len, error->message.at);
    run->status = exit_of_error(error->code);
    run->not_found = error->code == HALO_ERROR_NOT_FOUND;
}

static void report_notice(struct halo_ctl *ctl, const struct halo_ev_notice *notice)
{
    halo_ctl_progress_clear(ctl);
    if (ctl->json || ctl->quiet)
        return;
    halo_ctl_end_line(ctl);
    halo_client_say("%.*s: %.*s", (int)notice->code.len, notice->code.at, (int)notice->message.len, notice->message.at);
}

static void take_event(struct halo_ctl *ctl, struct run *run, const struct halo_ev *ev)
{
    if (ev->type == HALO_EV_ERROR) {
        report_error(ctl, run, &ev->error);
    } else if (ev->type == HALO_EV_NOTICE) {
        report_notice(ctl, &ev->notice);
    } else if (ev->type == HALO_EV_PROGRESS) {
        halo_ctl_progress(ctl, &ev->progress);
    } else {
        halo_ctl_progress_clear(ctl);
        if (ev->type == HALO_EV_DONE)
            run->status = exit_of_done(run->msg, &ev->done);
        if (run->on_event)
            run->on_event(ctl, ev, run->ud);
    }
}

/* One line from the daemon. True when it ended the request. */
static bool take_line(struct halo_ctl *ctl, struct run *run, const char *line, size_t n)
{
    struct halo_ev ev;
    struct halo_refusal refusal;
    if (halo_ev_decode(&ev, line, n, 0, &refusal) != 0) {
        /* A type that only a newer daemon knows is no reason to lose the stream. */
        if (refusal.code == HALO_ERROR_UNKNOWN_TYPE)
            return false;
        halo_client_say("the daemon sent a line that is not an event: %s", refusal.message);
        run->status = HALO_CTL_FAILED;
        return true;
    }
    bool ours = halo_id_equal(&ev.id, &run->msg->id);
    /* An error without an id can only be about our line: the daemon could not read it. */
    bool ended = (ours && halo_ev_is_terminal(ev.type)) || (ev.type == HALO_EV_ERROR && ev.id.kind == HALO_ID_NONE);
    if (ours || ended) {
        if (ctl->json) {
            halo_client_show_text(stdout, line, n);
            putchar('\n');
        }
        take_event(ctl, run, &ev);
    }
    halo_ev_finish(&ev);
    return ended;
}

/* ---- the request ---- */

/* Receives until the terminal event. 0 with run->status set, or a negative errno. */
static int receive_reply(struct halo_ctl *ctl, struct run *run)
{
    bool cancelled = false;
    for (;;) {
        const char *line;
        size_t n;
        if (halo_ctl_interrupts() > (cancelled ? 1 : 0)) {
            halo_ctl_progress_clear(ctl);
            if (cancelled || run->msg->type != HALO_MSG_GENERATE) {
                if (run->msg->type == HALO_MSG_LOAD)
                    halo_client_say("interrupted; the load continues in the daemon");
                run->status = HALO_CTL_INTERRUPTED;
                halo_ctl_disconnect(ctl);
                return 0;
            }
            send_cancel(ctl, &run->msg->id);
            cancelled = true;
        }
        int r = halo_ctl_next_line(ctl, &line, &n);
        if (r < 0 && r != -EINTR)
            return r;
        if (r == 0 && take_line(ctl, run, line, n)) {
            run->status = cancelled ? HALO_CTL_INTERRUPTED : run->status;
            return 0;
        }
        if (!halo_ctl_flush(ctl)) {
            run->status = HALO_CTL_FAILED;
            halo_ctl_disconnect(ctl); /* which cancels the request */
            return 0;
        }
    }
}

int halo_ctl_run(struct halo_ctl *ctl, struct halo_msg *msg, halo_ctl_event_fn on_event, void *ud)
{
    struct run run = {.msg = msg, .on_event = on_event, .ud = ud};
    int status = halo_ctl_connect(ctl);
    if (status != HALO_CTL_OK)
        return status;
    msg->id = halo_id_of(++ctl->next_id);
    int r = halo_ctl_send(ctl, msg);
    if (r == 0)
        r = receive_reply(ctl, &run);
    halo_ctl_progress_clear(ctl);
    if (r < 0) {
        halo_ctl_end_line(ctl);
        if (r == -ETIMEDOUT)
            halo_client_say("the daemon is connected but did not answer in time");
        else
            halo_client_say("the connection to the daemon broke: %s", strerror(-r));
        halo_ctl_disconnect(ctl);
        return HALO_CTL_NO_DAEMON;
    }
    struct halo_str name = model_of(msg);
    if (run.not_found && !ctl->json && name.len > 0)
        suggest_model(ctl, name);
    return run.status;
}
