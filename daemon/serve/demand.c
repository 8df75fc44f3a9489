/* demand.c: a request that names a model which is not in memory has it loaded.
 *
 * The load is the daemon's: it goes to the engine before the request, which waits there until the model is ready and
 * hears of the load's progress, as does everybody else who names it meanwhile; if the load fails they all end with its
 * reason. After a death it is asked for again by whoever still waits for it. Loop thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/log.h>
#include <protocol/message.h>

#include <serve/daemon.h>

static bool is_under_way(const struct halo_daemon *daemon, const char *model)
{
    const struct halo_request *request = halo_requests_next(&daemon->requests, NULL);
    for (; request; request = halo_requests_next(&daemon->requests, request))
        if (request->type == HALO_MSG_LOAD && request->state != HALO_REQUEST_WAITING && request->needs &&
            strcmp(request->needs, model) == 0)
            return true;
    return false;
}

static int encode_load(struct halo_daemon *daemon, struct halo_request *load, const char *model)
{
    struct halo_json *w = &daemon->scratch;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_LOAD);
    msg.id = halo_id_of((int64_t)load->id);
    msg.load.model = halo_str_of(model);
    halo_demand_complete(daemon, &msg.load);
    halo_json_reset(w);
    int r = halo_msg_encode(w, &msg);
    if (r == 0) {
        load->line = strndup(w->at, w->len - 1);
        load->line_len = w->len - 1;
        r = load->line ? 0 : -ENOMEM;
    }
    halo_json_reset(w);
    return r;
}

int halo_demand(struct halo_daemon *daemon, const struct halo_request *request, struct halo_json *out)
{
    static const struct halo_id nobody = {HALO_ID_NONE, 0, {NULL, 0}};
    if (!daemon->config->on_demand || !request->needs || request->type == HALO_MSG_LOAD ||
        halo_loaded_find(&daemon->loaded, halo_str_of(request->needs)) || is_under_way(daemon, request->needs))
        return 0;
    struct halo_request *load = halo_request_create(&daemon->requests, HALO_MSG_LOAD, &nobody);
    if (!load)
        return -ENOMEM;
    load->demanded = true;
    load->needs = strdup(request->needs);
    int r = load->needs ? encode_load(daemon, load, request->needs) : -ENOMEM;
    struct halo_json_mark mark = halo_json_mark(out);
    if (r == 0) {
        halo_json_raw(out, load->line, load->line_len);
        r = halo_json_line_end(out);
    }
    if (r < 0) {
        halo_json_rollback(out, mark);
        halo_request_destroy(&daemon->requests, load);
        return r;
    }
    halo_log(HALO_LOG_INFO, "loading %s, which a request names", request->needs);
    load->phase = "loading";
    halo_request_move(&daemon->requests, load, HALO_REQUEST_SENT);
    return 0;
}

void halo_demand_complete(const struct halo_daemon *daemon, struct halo_msg_load *load)
{
    if (load->params.has_keep_alive_s || daemon->config->keep_alive_s == 0 ||
        halo_loaded_find(&daemon->loaded, load->model)) /* it keeps the time that it has */
        return;
    load->params.has_keep_alive_s = true;
    load->params.keep_alive_s = daemon->config->keep_alive_s;
}
