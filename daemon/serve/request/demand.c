/* demand.c: loads that no client asked for.
 *
 * Such a load is the daemon's: it goes to the engine before the request, which waits there until the model is ready and
 * reads of the load's progress, as does everybody else who names the model meanwhile; if the load fails they all end
 * with its reason. After a death it is asked for again by whoever still waits for it.
 */
#include "demand_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <base/log.h>
#include <protocol/message.h>

#include "table_priv.h"

static bool is_under_way(const struct halo_requests *requests, const char *model)
{
    const struct halo_request *request = halo_request_first(requests);
    for (; request; request = halo_request_next(request))
        if (request->type == HALO_MSG_LOAD && request->state != HALO_REQUEST_WAITING && request->needs &&
            strcmp(request->needs, model) == 0)
            return true;
    return false;
}

static int encode_load(struct halo_requests *requests, struct halo_request *load, const char *model)
{
    struct halo_json *w = &requests->scratch;
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_LOAD);
    msg.id = halo_id_of((int64_t)load->id);
    msg.load.model = halo_str_of(model);
    halo_demand_complete(requests, &msg.load);
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

int halo_demand(struct halo_requests *requests, const struct halo_request *request)
{
    struct halo_json *out = requests->link.out;
    if (!requests->config->on_demand || !request->needs || request->type == HALO_MSG_LOAD ||
        halo_known_models_find(&requests->models, halo_str_of(request->needs)) ||
        is_under_way(requests, request->needs))
        return 0;
    struct halo_request *load = halo_request_create(requests, NULL, HALO_MSG_LOAD, NULL);
    if (!load)
        return -ENOMEM;
    load->demanded = true;
    load->owner = request->owner;
    load->needs = strdup(request->needs);
    int r = load->needs ? encode_load(requests, load, request->needs) : -ENOMEM;
    struct halo_json_mark mark = halo_json_mark(out);
    if (r == 0) {
        halo_json_raw(out, load->line, load->line_len);
        r = halo_json_line_end(out);
    }
    if (r < 0) {
        halo_json_rollback(out, mark);
        halo_request_destroy(requests, load);
        return r;
    }
    halo_log_limited(&requests->log_limit, HALO_LOG_INFO, "loading %s for a request", request->needs);
    load->phase = "loading";
    halo_request_move(requests, load, HALO_REQUEST_SENT);
    return 0;
}

void halo_demand_complete(const struct halo_requests *requests, struct halo_msg_load *load)
{
    if (load->params.has_keep_alive_s || requests->config->keep_alive_s == 0 ||
        halo_known_models_find(&requests->models, load->model)) /* a loaded model keeps its own */
        return;
    load->params.has_keep_alive_s = true;
    load->params.keep_alive_s = requests->config->keep_alive_s;
}
