/* event_line.c: one pass over a line of the engine. The engine is not trusted: what is no event is refused. */
#include <serve/request/event_line.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define SHOWN_BYTES 80

int halo_event_line_refuse(struct halo_fault *fault, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    fault->code = HALO_FAULT_INTERNAL;
    return -EPROTO;
}

int halo_event_line_scan(struct halo_event_line *ret_line, const char *line, size_t len, struct halo_fault *fault)
{
    int shown = (int)(len > SHOWN_BYTES ? SHOWN_BYTES : len);
    *ret_line = (struct halo_event_line){
        .at = line,
        .len = len,
        .fields = {[HALO_EVENT_TOK_ID] = {"tok_id"},
                   [HALO_EVENT_POS] = {"pos"},
                   [HALO_EVENT_TEXT] = {"text"},
                   [HALO_EVENT_LOGPROB] = {"logprob"},
                   [HALO_EVENT_FINISH_REASON] = {"finish_reason"}},
    };
    if (halo_envelope_scan_fields(line, len, &ret_line->env, ret_line->fields, HALO_N_EVENT_FIELDS) != 0)
        return halo_event_line_refuse(fault, "no JSON object at byte %zu of '%.*s'", ret_line->env.bad_at, shown, line);
    int type = halo_ev_type_from_name(line + ret_line->env.type.at, ret_line->env.type.len);
    if (type < 0)
        return halo_event_line_refuse(fault, "no known event in '%.*s'", shown, line);
    ret_line->type = (enum halo_ev_type)type;
    return 0;
}
