/* message.c: how messages begin and end, and the `error` event. No thread of its own; frees what a decoded message
 * owns. */
#include <protocol/message.h>

#include <assert.h>

#include "message_table_priv.h"
#include "pool_priv.h"

void halo_msg_init(struct halo_msg *msg, enum halo_msg_type type)
{
    assert((int)type >= 0 && type < HALO_N_MSGS);
    *msg = (struct halo_msg){.type = type};
    halo_shape_defaults(&halo_msg_table[type].shape, &msg->hello);
}

void halo_msg_finish(struct halo_msg *msg)
{
    if (!msg)
        return;
    halo_pool_free(&msg->memory);
    *msg = (struct halo_msg){0};
}

void halo_ev_init(struct halo_ev *ev, enum halo_ev_type type, const struct halo_id *id)
{
    assert((int)type >= 0 && type < HALO_N_EVS);
    *ev = (struct halo_ev){.type = type};
    if (id)
        ev->id = *id;
    halo_shape_defaults(&halo_ev_table[type].shape, &ev->hello);
}

void halo_ev_finish(struct halo_ev *ev)
{
    if (!ev)
        return;
    halo_pool_free(&ev->memory);
    *ev = (struct halo_ev){0};
}

void halo_ev_init_error(struct halo_ev *ev, const struct halo_id *id, enum halo_error code, const char *message)
{
    halo_ev_init(ev, HALO_EV_ERROR, id);
    ev->error.code = code;
    ev->error.message = halo_str_of(message);
    ev->error.retryable = halo_error_retryable(code);
}

void halo_ev_init_notice(struct halo_ev *ev, const struct halo_id *id, enum halo_notice code, const char *message)
{
    halo_ev_init(ev, HALO_EV_NOTICE, id);
    ev->notice.code = halo_str_of(halo_notice_name(code));
    ev->notice.message = halo_str_of(message);
}

void halo_ev_set_detail(struct halo_ev *ev, struct halo_numbers numbers, char buf[static HALO_DETAIL_BYTES])
{
    struct halo_json w;

    assert(ev->type == HALO_EV_ERROR && numbers.n <= HALO_DETAIL_NUMBERS);
    if (numbers.n == 0)
        return;
    halo_json_init_fixed(&w, buf, HALO_DETAIL_BYTES);
    halo_json_object_begin(&w);
    for (size_t i = 0; i < numbers.n; i++) {
        halo_json_key(&w, numbers.at[i].name);
        halo_json_i64(&w, numbers.at[i].value);
    }
    halo_json_object_end(&w);
    assert(!w.error);
    ev->error.has_detail = true;
    ev->error.detail = (struct halo_raw){w.at, w.len};
}
