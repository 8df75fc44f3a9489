/* doc.c: keeps the tables of docs/PROTOCOL.md equal to message.def.
 *
 *   protocol-doc --check FILE    exit 1 and the first differing line if a table is not what message.def says
 *   protocol-doc --write FILE    put the right tables in
 *
 * The tables are called request, event or part with a name, or `errors`, `notices`, `limits`. A message without a table
 * is an error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <protocol/doc_tables.h>

#include "message_table_priv.h"

static void write_i64(FILE *out, int64_t value)
{
    if (value == INT64_MAX)
        fprintf(out, "2^63-1");
    else if (value == INT32_MAX)
        fprintf(out, "2^31-1");
    else
        fprintf(out, "%" PRId64, value);
}

static void write_f64(FILE *out, double value)
{
    char text[HALO_JSON_NUMBER_BYTES];

    fprintf(out, "%.*s", (int)halo_json_format_f64(text, value), text);
}

static void write_words(FILE *out, const struct halo_words *words)
{
    if (words->n == HALO_N_ERRORS && strcmp(words->names[HALO_ERROR_BAD_JSON], "bad_json") == 0) {
        fprintf(out, "an error code");
        return;
    }
    for (int i = 0, n = 0; i < words->n; i++) {
        if (words->names[i])
            fprintf(out, "%s`%s`", n++ ? " " : "", words->names[i]);
    }
}

static void write_count(FILE *out, const char *what, const struct halo_field *f)
{
    fprintf(out, "list of %s", what);
    if (f->i.hi < INT32_MAX)
        fprintf(out, ", %" PRId64 " to %" PRId64, f->i.lo, f->i.hi);
}

static void write_type(FILE *out, const struct halo_field *f)
{
    switch (f->kind) {
    case HALO_KIND_ID: fprintf(out, "string up to %" PRId64 " bytes, or integer", f->i.hi); break;
    case HALO_KIND_BOOL: fprintf(out, "boolean"); break;
    case HALO_KIND_I64:
        fprintf(out, "integer ");
        write_i64(out, f->i.lo);
        fprintf(out, " to ");
        write_i64(out, f->i.hi);
        break;
    case HALO_KIND_F64:
        fprintf(out, "number");
        if (f->f.hi < 1e15) {
            fprintf(out, " ");
            write_f64(out, f->f.lo);
            fprintf(out, " to ");
            write_f64(out, f->f.hi);
        }
        if (f->form == HALO_FORM_sig9)
            fprintf(out, ", 9 significant digits");
        if (f->form == HALO_FORM_fix3)
            fprintf(out, ", 3 decimals");
        break;
    case HALO_KIND_STR:
        fprintf(out, "string");
        if (f->i.hi < HALO_LIMIT_LINE_BYTES)
            fprintf(out, ", %" PRId64 " to %" PRId64 " bytes", f->i.lo, f->i.hi);
        break;
    case HALO_KIND_WORD: write_words(out, f->words); break;
    case HALO_KIND_STRS:
        write_count(out, "strings", f);
        if (f->i.dflt < HALO_LIMIT_LINE_BYTES)
            fprintf(out, ", each up to %" PRId64 " bytes", f->i.dflt);
        break;
    case HALO_KIND_TOKS: write_count(out, "token ids", f); break;
    case HALO_KIND_OBJ: fprintf(out, "object [%s](#%s)", f->part->name, f->part->name); break;
    case HALO_KIND_OBJS: fprintf(out, "list of [%s](#%s)", f->part->name, f->part->name); break;
    case HALO_KIND_BIAS:
        fprintf(out, "object of token id to number -%" PRId64 " to %" PRId64 ", up to %" PRId64, f->i.dflt, f->i.dflt,
                f->i.hi);
        break;
    case HALO_KIND_TOPS: fprintf(out, "list of pairs [token id, logprob]"); break;
    case HALO_KIND_CONT:
        fprintf(out, "string, null or list of [%s](#%s), up to %" PRId64, f->part->name, f->part->name, f->i.hi);
        break;
    case HALO_KIND_JSON:
        fprintf(out, f->form == HALO_FORM_object    ? "object"
                     : f->form == HALO_FORM_objects ? "list of objects"
                     : f->form == HALO_FORM_array   ? "list"
                     : f->form == HALO_FORM_call    ? "object or string"
                                                    : "any JSON");
        if (f->form == HALO_FORM_objects)
            fprintf(out, ", up to %" PRId64, f->i.hi);
        break;
    case HALO_KIND_VOID: fprintf(out, f->i.hi ? "null or integer" : "null"); break;
    case HALO_KIND_END: break;
    }
}

static void write_presence(FILE *out, const struct halo_field *f)
{
    switch (f->presence) {
    case HALO_PRESENCE_REQ: fprintf(out, "required"); return;
    case HALO_PRESENCE_OPT: fprintf(out, "optional"); return;
    case HALO_PRESENCE_NUL: fprintf(out, "null if unknown"); return;
    case HALO_PRESENCE_LINK: fprintf(out, "from halod only"); return;
    case HALO_PRESENCE_DEF: break;
    }
    switch (f->kind) {
    case HALO_KIND_BOOL: fprintf(out, "%s", f->i.dflt ? "true" : "false"); break;
    case HALO_KIND_I64: write_i64(out, f->i.dflt); break;
    case HALO_KIND_F64: write_f64(out, f->f.dflt); break;
    case HALO_KIND_WORD: fprintf(out, "`%s`", f->words->names[f->i.dflt]); break;
    case HALO_KIND_OBJ: fprintf(out, "its defaults"); break;
    case HALO_KIND_CONT:
    case HALO_KIND_VOID: fprintf(out, "absent"); break;
    default: fprintf(out, "empty"); break;
    }
}

static void write_fields(FILE *out, const struct halo_shape *shape)
{
    const struct halo_field *f = shape->fields();

    if (f->kind == HALO_KIND_END) {
        fprintf(out, "No fields of its own.\n");
        return;
    }
    fprintf(out, "| field | type | default | meaning |\n|---|---|---|---|\n");
    for (; f->kind != HALO_KIND_END; f++) {
        fprintf(out, "| `%s` | ", f->name);
        write_type(out, f);
        fprintf(out, " | ");
        write_presence(out, f);
        fprintf(out, " | %s |\n", f->doc);
    }
}

static void write_errors(FILE *out)
{
    fprintf(out, "| code | retryable | numbers | meaning |\n|---|---|---|---|\n");
    for (int i = HALO_ERROR_NONE + 1; i < HALO_N_ERRORS; i++) {
        enum halo_error code = (enum halo_error)i;

        fprintf(out, "| `%s` | %s | %s | %s |\n", halo_error_name(code), halo_error_retryable(code) ? "yes" : "no",
                halo_error_numbers(code), halo_error_meaning(code));
    }
}

static void write_notices(FILE *out)
{
    fprintf(out, "| code | about | log | meaning |\n|---|---|---|---|\n");
    for (int i = 0; i < HALO_N_NOTICES; i++) {
        enum halo_notice code = (enum halo_notice)i;

        fprintf(out, "| `%s` | a %s | %s | %s |\n", halo_notice_name(code),
                halo_notice_is_of_load(code) ? "load" : "reply", halo_notice_warns(code) ? "warning" : "information",
                halo_notice_meaning(code));
    }
}

static void write_limits(FILE *out)
{
    static const struct {
        const char *what;
        long long value;
        const char *breach;
    } rows[] = {
        {"connections", HALO_LIMIT_CONNECTIONS, "`too_many_requests`, then the connection is closed"},
        {"open requests of one connection", HALO_LIMIT_OPEN_REQUESTS, "`too_many_requests`"},
        {"queued requests in all", HALO_LIMIT_QUEUED_REQUESTS, "`queue_full`"},
        {"bytes of one request's line, newline not counted", HALO_LIMIT_LINE_BYTES, "`line_too_long`"},
        {"levels of nesting in one line", HALO_LIMIT_DEPTH, "`bad_request`"},
        {"arrays and objects in one request", HALO_LIMIT_CONTAINERS, "`bad_request`"},
        {"fields of all objects in one request", HALO_LIMIT_KEYS, "`bad_request`"},
        {"JSON values in one request", HALO_LIMIT_VALUES, "`bad_request`"},
        {"bytes of one event's line, newline not counted", HALO_LIMIT_ANSWER_BYTES, "`unsupported`"},
        {"JSON values in one event", HALO_LIMIT_ANSWER_VALUES, "`unsupported`"},
        {"arrays and objects in one event", HALO_LIMIT_ANSWER_CONTAINERS, "`unsupported`"},
        {"fields of all objects in one event", HALO_LIMIT_ANSWER_KEYS, "`unsupported`"},
        {"bytes of an id", HALO_LIMIT_ID_BYTES, "`bad_request`"},
        {"stop strings", HALO_LIMIT_STOP_STRINGS, "`bad_request`"},
        {"bytes of a stop string", HALO_LIMIT_STOP_BYTES, "`bad_request`"},
        {"buffered output of one connection, high mark, bytes", HALO_LIMIT_OUTPUT_HIGH_BYTES, "its sequences pause"},
        {"buffered output of one connection, low mark, bytes", HALO_LIMIT_OUTPUT_LOW_BYTES, "they continue"},
        {"milliseconds above the high mark", HALO_LIMIT_STALL_MS, "`client_stalled`"},
        {"bytes of request lines kept for resume", HALO_LIMIT_RESUME_BYTES, "`too_many_requests`"},
        {"the same for one user id", HALO_LIMIT_RESUME_USER_BYTES, "`too_many_requests`"},
        {"parts of one message's content", HALO_LIMIT_PARTS, "`bad_request`"},
        {"tool calls of one message", HALO_LIMIT_TOOL_CALLS, "`bad_request`"},
        {"tools of one request", HALO_LIMIT_TOOLS, "`bad_request`"},
        {"progress events of one request in a second", HALO_LIMIT_PROGRESS_PER_S, "left out"},
    };

    fprintf(out, "| limit | value | beyond it |\n|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, "| %s | %lld | %s |\n", rows[i].what, rows[i].value, rows[i].breach);
}

static const struct halo_shape *find_part(const char *name)
{
    for (int i = 0; i < HALO_N_PARTS; i++) {
        if (strcmp(halo_part_table[i]->name, name) == 0)
            return halo_part_table[i];
    }
    return NULL;
}

/* Two events are called done; the second one's table is named after its request. */
static int find_event(const char *name)
{
    return strcmp(name, "done-score") == 0 ? HALO_EV_SCORED : halo_ev_type_from_name(name, strlen(name));
}

/* One bit for each message that had its table. */
struct seen {
    bool msg[HALO_N_MSGS], ev[HALO_N_EVS], part[HALO_N_PARTS];
};

/* Writes the table of `what`, e.g. "request load". False if there is no such thing. */
static bool write_table(FILE *out, const char *what, void *ud)
{
    struct seen *seen = ud;
    char name[64];
    int type;

    if (strcmp(what, "errors") == 0) {
        write_errors(out);
        return true;
    }
    if (strcmp(what, "notices") == 0) {
        write_notices(out);
        return true;
    }
    if (strcmp(what, "limits") == 0) {
        write_limits(out);
        return true;
    }
    if (sscanf(what, "request %63s", name) == 1 && (type = halo_msg_type_from_name(name, strlen(name))) >= 0) {
        fprintf(out, "%s Answer: %s.\n\n", halo_msg_table[type].doc, halo_msg_table[type].reply);
        write_fields(out, &halo_msg_table[type].shape);
        return seen->msg[type] = true;
    }
    if (sscanf(what, "event %63s", name) == 1 && (type = find_event(name)) >= 0) {
        fprintf(out, "%s%s\n\n", halo_ev_table[type].doc, halo_ev_table[type].terminal ? " Terminal." : "");
        write_fields(out, &halo_ev_table[type].shape);
        return seen->ev[type] = true;
    }
    if (sscanf(what, "part %63s", name) == 1 && find_part(name)) {
        write_fields(out, find_part(name));
        if (find_part(name)->null_is_absent)
            fprintf(out, "\nAn optional field may be null, which means the same as leaving it out.\n");
        for (int i = 0; i < HALO_N_PARTS; i++)
            seen->part[i] |= halo_part_table[i] == find_part(name);
        return true;
    }
    return false;
}

static int missing(void *ud)
{
    const struct seen *seen = ud;
    int n = 0;

    for (int i = 0; i < HALO_N_MSGS; i++)
        n += !seen->msg[i] && fprintf(stderr, "no table: request %s\n", halo_msg_type_name((enum halo_msg_type)i)) > 0;
    for (int i = 0; i < HALO_N_EVS; i++)
        n += !seen->ev[i] && fprintf(stderr, "no table: event %s\n", halo_ev_type_name((enum halo_ev_type)i)) > 0;
    for (int i = 0; i < HALO_N_PARTS; i++)
        n += !seen->part[i] && fprintf(stderr, "no table: part %s\n", halo_part_table[i]->name) > 0;
    return n;
}

int main(int argc, char **argv)
{
    struct seen seen = {0};
    const struct halo_doc_tables tables = {
        .program = "protocol-doc",
        .source = "message.def",
        .write_table = write_table,
        .missing = missing,
        .ud = &seen,
    };

    return halo_doc_tables_main(argc, argv, &tables);
}
