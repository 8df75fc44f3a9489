/* event_line.h: a line of the engine as it passes through: its type, its id and what its record needs, in one pass. */
#ifndef HALO_SERVE_REQUEST_EVENT_LINE_H
#define HALO_SERVE_REQUEST_EVENT_LINE_H

#include <stddef.h>

#include <base/fault.h>
#include <protocol/envelope.h>
#include <protocol/message.h>

enum halo_event_field {
    HALO_EVENT_TOK_ID,
    HALO_EVENT_POS,
    HALO_EVENT_TEXT,
    HALO_EVENT_LOGPROB,
    HALO_EVENT_FINISH_REASON,
    HALO_N_EVENT_FIELDS
};

struct halo_event_line {
    const char *at; /* the caller's */
    size_t len;
    enum halo_ev_type type;
    struct halo_envelope env;
    struct halo_envelope_field fields[HALO_N_EVENT_FIELDS];
};

/* 0, or -EPROTO with the reason: the line is no event. */
int halo_event_line_scan(struct halo_event_line *ret_line, const char *line, size_t len, struct halo_fault *fault);

/* The value of a field: true, or false if it is not there or of another kind. */
static inline bool halo_event_line_i64(const struct halo_event_line *line, enum halo_event_field field,
                                       int64_t *ret_value)
{
    return halo_envelope_i64(line->at, line->fields[field].value, ret_value);
}

static inline bool halo_event_line_f64(const struct halo_event_line *line, enum halo_event_field field,
                                       double *ret_value)
{
    return halo_envelope_f64(line->at, line->fields[field].value, ret_value);
}

/* The bytes of a string, unescaped. */
static inline bool halo_event_line_bytes(const struct halo_event_line *line, enum halo_event_field field,
                                         size_t *ret_bytes)
{
    return halo_envelope_str_bytes(line->at, line->fields[field].value, ret_bytes);
}

/* -EPROTO, with a reason why a line is no event that the engine may send now. */
__attribute__((format(printf, 2, 3))) int halo_event_line_refuse(struct halo_fault *fault, const char *format, ...);

#endif
