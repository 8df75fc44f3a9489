/* fuzz_message.c: the decoders, the encoders and the envelope against each other.
 *
 * Input: a byte that says who reads (client's request, halod's request, tolerant or strict event), then the line.
 * What is accepted must come back the same after encoding, under the id that the envelope shows; what is refused must
 * give an answer that is itself a valid event; and the scan and the JSON library must agree on what JSON is.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/envelope.h>
#include <protocol/message.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct halo_refusal *refusal, int well_formed)
{
    struct halo_refusal none;
    struct halo_json w;
    struct halo_ev ev;

    assert(refusal->code == HALO_ERROR_BAD_JSON || refusal->code == HALO_ERROR_BAD_REQUEST ||
           refusal->code == HALO_ERROR_UNKNOWN_TYPE);
    assert(refusal->message[0] && strlen(refusal->message) < sizeof refusal->message);
    /* The scan lets NUL pass, which only requests refuse; nothing else may be JSON to one and not to the other. */
    assert(!well_formed || refusal->code != HALO_ERROR_BAD_JSON || strstr(refusal->message, "NUL"));
    halo_json_init(&w);
    if (halo_refusal_encode(&w, refusal) < 0)
        abort();
    assert(memchr(w.at, '\n', w.len) == w.at + w.len - 1);
    if (halo_ev_decode(&ev, w.at, w.len - 1, HALO_EV_STRICT, &none) != 0)
        abort();
    assert(ev.type == HALO_EV_ERROR && ev.error.code == refusal->code);
    halo_ev_finish(&ev);
    halo_json_finish(&w);
}

/* Encodes, decodes and encodes again: the same text. */
static void check_msg(const struct halo_msg *msg)
{
    struct halo_refusal refusal;
    struct halo_json a, b;
    struct halo_msg copy;

    halo_json_init(&a);
    halo_json_init(&b);
    if (halo_msg_encode(&a, msg) < 0 || halo_msg_decode(&copy, a.at, a.len - 1, HALO_ROLE_LINK, &refusal) != 0 ||
        halo_msg_encode(&b, &copy) < 0)
        abort();
    assert(a.len == b.len && memcmp(a.at, b.at, a.len) == 0);
    halo_msg_finish(&copy);
    halo_json_finish(&a);
    halo_json_finish(&b);
}

static void check_ev(const struct halo_ev *ev)
{
    struct halo_refusal refusal;
    struct halo_json a, b;
    struct halo_ev copy;

    halo_json_init(&a);
    halo_json_init(&b);
    /* A word of a newer peer has no text to be sent on by; an error without its numbers is read, but not made here. */
    if (halo_ev_check(ev, &refusal) == 0 && halo_ev_encode(&a, ev) == 0) {
        if (halo_ev_decode(&copy, a.at, a.len - 1, HALO_EV_STRICT, &refusal) != 0 || halo_ev_encode(&b, &copy) < 0)
            abort();
        assert(a.len == b.len && memcmp(a.at, b.at, a.len) == 0);
        halo_ev_finish(&copy);
    }
    halo_json_finish(&a);
    halo_json_finish(&b);
}

/* A line that was accepted is accepted under another id too, as a line of one object. */
static void check_rewrite(const char *line, size_t len, const struct halo_envelope *env, const struct halo_id *id,
                          int event)
{
    struct halo_id other = id->kind == HALO_ID_INT ? halo_id_of_str(halo_str_of("\"\xC3\xA9\n")) : halo_id_of(-5);
    char buf[HALO_ID_BUF_BYTES];
    struct halo_refusal refusal;
    struct halo_envelope again;
    struct halo_json w;
    struct halo_id got;
    struct halo_msg msg;
    struct halo_ev ev;
    struct halo_envelope_field fields[] = {{"tok_id"}, {"logprob"}, {"text"}};
    int64_t number;
    double real;
    size_t bytes;

    got = halo_envelope_id(line, env, buf);
    assert(halo_id_equal(&got, id));
    assert(halo_envelope_scan_fields(line, len, &again, fields, 3) == 0 && again.body.len == env->body.len);
    (void)halo_envelope_i64(line, fields[0].value, &number);
    (void)halo_envelope_f64(line, fields[1].value, &real);
    (void)halo_envelope_str_bytes(line, fields[2].value, &bytes);
    halo_json_init(&w);
    halo_envelope_rewrite_begin(&w, line, env, &other);
    halo_json_key(&w, "added");
    halo_json_bool(&w, true);
    if (halo_envelope_rewrite_end(&w) < 0 || halo_envelope_scan(w.at, w.len - 1, &again) != 0)
        abort();
    got = halo_envelope_id(w.at, &again, buf);
    assert(halo_id_equal(&got, &other));
    halo_json_reset(&w);
    if (halo_envelope_rewrite(&w, line, env, &other) < 0)
        abort();
    if (event) {
        if (halo_ev_decode(&ev, w.at, w.len - 1, 0, &refusal) != 0)
            abort();
        assert(halo_id_equal(&ev.id, &other));
        halo_ev_finish(&ev);
    } else {
        if (halo_msg_decode(&msg, w.at, w.len - 1, HALO_ROLE_LINK, &refusal) != 0)
            abort();
        assert(halo_id_equal(&msg.id, &other));
        halo_msg_finish(&msg);
    }
    halo_json_finish(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *line = (const char *)data + 1;
    size_t len = size - 1;
    struct halo_refusal refusal;
    struct halo_envelope env;
    struct halo_msg msg;
    struct halo_ev ev;
    int well_formed, r;

    if (size < 1)
        return 0;
    well_formed = halo_envelope_scan(line, len, &env) == 0;
    if (data[0] & 1) {
        r = halo_ev_decode(&ev, line, len, data[0] & 2 ? HALO_EV_STRICT : 0, &refusal);
        if (r == 0) {
            assert(well_formed);
            check_ev(&ev);
            check_rewrite(line, len, &env, &ev.id, 1);
            halo_ev_finish(&ev);
        }
    } else {
        r = halo_msg_decode(&msg, line, len, data[0] & 2 ? HALO_ROLE_LINK : HALO_ROLE_CLIENT, &refusal);
        if (r == 0) {
            assert(well_formed);
            check_msg(&msg);
            check_rewrite(line, len, &env, &msg.id, 0);
            halo_msg_finish(&msg);
        }
    }
    if (r > 0)
        check_refusal(&refusal, well_formed);
    return 0;
}
