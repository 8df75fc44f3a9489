/* report.c: findings, and how they are written: for a person, for a script (a JSON object a line), for a page.
 *
 * Each is written as soon as it is known: whoever is killed at a deadline has told what it knew.
 */
#include "report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <client/clock.h>
#include <protocol/json_write.h>

static const char *const stage_names[] = {"open", "load", "launch", "step"};

const char *halo_doctor_verdict_name(enum halo_doctor_verdict verdict)
{
    static const char *const names[HALO_DOCTOR_N_VERDICTS] = {"PASS", "WARN", "FAIL", "SKIP"};
    return names[verdict];
}

/* Bytes of the character at `p`: 0 when it is none, or one that is not to be printed. */
static size_t character(const unsigned char *p)
{
    if (p[0] < 0x80)
        return p[0] >= 0x20 && p[0] != 0x7f;
    size_t n = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xc2 && p[1] < 0xa0) || (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Makes what came from a machine fit for a line: in place, never longer. */
static void clean(char *text, bool was_cut)
{
    char *to = text;
    for (const char *from = text; *from;) {
        size_t n = character((const unsigned char *)from);
        if (n == 0 && was_cut && strlen(from) < 4 && (unsigned char)*from >= 0xc2)
            break; /* half a character where the room ended */
        if (n == 0)
            *to++ = *from == '\n' || *from == '\t' ? ' ' : '?';
        for (size_t i = 0; i < n; i++)
            *to++ = from[i];
        from += n ? n : 1;
    }
    *to = '\0';
}

__attribute__((format(printf, 4, 0))) static void put(char *text, size_t room, size_t from, const char *format,
                                                      va_list args)
{
    int n = vsnprintf(text + from, room - from, format, args);
    clean(text + from, n < 0 || (size_t)n >= room - from);
}

static void put_word(char *text, size_t room, const char *word)
{
    snprintf(text, room, "%s", word);
    clean(text, strlen(word) >= room);
}

void halo_doctor_finding_init(struct halo_doctor_finding *finding, const char *id, const char *title)
{
    memset(finding, 0, sizeof *finding);
    finding->verdict = HALO_DOCTOR_SKIP;
    put_word(finding->id, sizeof finding->id, id);
    put_word(finding->title, sizeof finding->title, title);
    finding->began_ns = halo_client_now_ns();
    finding->took_ms = -1;
}

void halo_doctor_finding_read(struct halo_doctor_finding *finding, const char *format, ...)
{
    va_list args;
    size_t n = strlen(finding->read);
    if (n + 4 >= sizeof finding->read)
        return;
    if (n > 0)
        memcpy(finding->read + n, "; ", 3);
    va_start(args, format);
    put(finding->read, sizeof finding->read, n > 0 ? n + 2 : 0, format, args);
    va_end(args);
}

void halo_doctor_finding_say(struct halo_doctor_finding *finding, enum halo_doctor_verdict verdict, const char *format,
                             ...)
{
    va_list args;
    finding->verdict = verdict;
    va_start(args, format);
    put(finding->advice, sizeof finding->advice, 0, format, args);
    va_end(args);
}

void halo_doctor_finding_end(struct halo_doctor_finding *finding)
{
    if (finding->took_ms < 0)
        finding->took_ms = (double)(halo_client_now_ns() - finding->began_ns) / 1e6;
}

void halo_doctor_report_init(struct halo_doctor_report *report, enum halo_doctor_form form, FILE *out)
{
    memset(report, 0, sizeof *report);
    report->form = form;
    report->out = out;
    report->began_ns = halo_client_now_ns();
}

void halo_doctor_report_finish(struct halo_doctor_report *report)
{
    free(report->at);
    report->at = NULL;
    report->n = report->room = 0;
}

struct halo_doctor_finding *halo_doctor_report_begin(struct halo_doctor_report *report, const char *id,
                                                     const char *title)
{
    struct halo_doctor_finding *finding = &report->lost;
    if (report->n == report->room) {
        size_t room = report->room ? 2 * report->room : 32;
        struct halo_doctor_finding *at = reallocarray(report->at, room, sizeof *at);
        if (at) {
            report->at = at;
            report->room = room;
        }
    }
    if (report->n < report->room)
        finding = &report->at[report->n++];
    else
        report->error = -ENOMEM;
    halo_doctor_finding_init(finding, id, title);
    return finding;
}

/* ---- writing ---- */

static void put_field(struct halo_json *w, const char *key, const char *text)
{
    halo_json_key(w, key);
    halo_json_str(w, text);
}

static void write_line(struct halo_doctor_report *report, struct halo_json *w)
{
    int r = halo_json_line_end(w);
    if (r == 0)
        fwrite(w->at, 1, w->len, report->out);
    else
        report->error = r;
    halo_json_finish(w);
}

static void write_json(struct halo_doctor_report *report, const struct halo_doctor_finding *f)
{
    struct halo_json w;
    halo_json_init(&w);
    halo_json_object_begin(&w);
    put_field(&w, "id", f->id);
    put_field(&w, "title", f->title);
    put_field(&w, "verdict", halo_doctor_verdict_name(f->verdict));
    put_field(&w, "read", f->read);
    put_field(&w, "advice", f->advice);
    put_field(&w, "source", f->source);
    halo_json_key(&w, "stages");
    halo_json_array_begin(&w);
    for (size_t i = 0; i < sizeof stage_names / sizeof *stage_names; i++)
        if (f->stages & 1u << i)
            halo_json_str(&w, stage_names[i]);
    halo_json_array_end(&w);
    halo_json_key(&w, "took_ms");
    halo_json_fix3(&w, f->took_ms);
    halo_json_object_end(&w);
    write_line(report, &w);
}

/* Text in lines behind a label, which stands before the first. Nothing for no text. */
static void write_wrapped(FILE *out, const char *label, const char *text)
{
    const size_t width = 100;
    while (*text) {
        size_t n = strlen(text), cut = n;
        if (n > width) {
            for (cut = width; cut > 0 && text[cut] != ' '; cut--)
                ;
            if (cut == 0)
                cut = strcspn(text, " "); /* a word longer than a line stays whole */
        }
        fprintf(out, "      %-7s%.*s\n", label, (int)cut, text);
        label = "";
        text += cut;
        text += strspn(text, " ");
    }
}

static void write_text(FILE *out, const struct halo_doctor_finding *f)
{
    bool is_wrong = f->verdict == HALO_DOCTOR_FAIL || f->verdict == HALO_DOCTOR_WARN;
    fprintf(out, "%s  %-11s  %s\n", halo_doctor_verdict_name(f->verdict), f->id, f->title);
    write_wrapped(out, "", f->advice);
    write_wrapped(out, "read", f->read);
    if (is_wrong)
        write_wrapped(out, "source", f->source);
}

/* A cell of a table: what would end it, or be taken for markup, is escaped. */
static void write_cell(FILE *out, const char *text)
{
    fputc(' ', out);
    for (; *text; text++) {
        if (strchr("|\\`*_<>[]", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputs(" |", out);
}

static void write_markdown(FILE *out, const struct halo_doctor_finding *f)
{
    fputc('|', out);
    write_cell(out, f->id);
    write_cell(out, f->title);
    fprintf(out, " %s%s%s |", f->verdict == HALO_DOCTOR_FAIL ? "**" : "", halo_doctor_verdict_name(f->verdict),
            f->verdict == HALO_DOCTOR_FAIL ? "**" : "");
    write_cell(out, f->read);
    write_cell(out, f->advice);
    fprintf(out, " %s |\n", f->source);
}

void halo_doctor_report_end(struct halo_doctor_report *report, struct halo_doctor_finding *finding)
{
    halo_doctor_finding_end(finding);
    if (!report->out)
        return;
    if (report->form == HALO_DOCTOR_JSON)
        write_json(report, finding);
    else if (report->form == HALO_DOCTOR_MARKDOWN)
        write_markdown(report->out, finding);
    else
        write_text(report->out, finding);
    fflush(report->out);
}

void halo_doctor_report_open(struct halo_doctor_report *report, const char *sysroot)
{
    if (!report->out || report->form == HALO_DOCTOR_JSON)
        return;
    if (report->form == HALO_DOCTOR_TEXT) {
        fprintf(report->out, "halo-doctor %s%s%s\n", HALO_VERSION, *sysroot ? ", reading " : "", sysroot);
        return;
    }
    fprintf(report->out, "# halo-doctor %s\n\n", HALO_VERSION);
    if (*sysroot)
        fprintf(report->out, "Read below `%s`.\n\n", sysroot);
    fputs("| id | looked at | verdict | read | what to do | source |\n|---|---|---|---|---|---|\n", report->out);
}

/* " (mes, kernel)" */
static void name_failed(const struct halo_doctor_report *report)
{
    const char *before = " (";
    for (size_t i = 0; i < report->n; i++)
        if (report->at[i].verdict == HALO_DOCTOR_FAIL) {
            fprintf(report->out, "%s%s", before, report->at[i].id);
            before = ", ";
        }
    if (before[0] == ',')
        fputc(')', report->out);
}

void halo_doctor_report_close(struct halo_doctor_report *report)
{
    size_t n[HALO_DOCTOR_N_VERDICTS];
    double took_ms = (double)(halo_client_now_ns() - report->began_ns) / 1e6;
    const char *worst = halo_doctor_verdict_name(halo_doctor_report_worst(report));
    if (!report->out)
        return;
    for (int v = 0; v < HALO_DOCTOR_N_VERDICTS; v++)
        n[v] = halo_doctor_report_count(report, (enum halo_doctor_verdict)v);
    if (report->form == HALO_DOCTOR_JSON) {
        static const char *const keys[HALO_DOCTOR_N_VERDICTS] = {"pass", "warn", "fail", "skip"};
        struct halo_json w;
        halo_json_init(&w);
        halo_json_object_begin(&w);
        put_field(&w, "summary", worst);
        for (int v = 0; v < HALO_DOCTOR_N_VERDICTS; v++) {
            halo_json_key(&w, keys[v]);
            halo_json_u64(&w, n[v]);
        }
        put_field(&w, "version", HALO_VERSION);
        halo_json_key(&w, "took_ms");
        halo_json_fix3(&w, took_ms);
        halo_json_object_end(&w);
        write_line(report, &w);
    } else {
        const char *bold = report->form == HALO_DOCTOR_MARKDOWN ? "**" : "";
        fprintf(report->out, "%s%s%s%s", report->form == HALO_DOCTOR_MARKDOWN ? "\n" : "", bold, worst, bold);
        name_failed(report);
        fprintf(report->out, ": %zu passed, %zu warned, %zu failed, %zu skipped, %.0f ms\n", n[HALO_DOCTOR_PASS],
                n[HALO_DOCTOR_WARN], n[HALO_DOCTOR_FAIL], n[HALO_DOCTOR_SKIP], took_ms);
    }
    if (fflush(report->out) != 0 || ferror(report->out))
        report->error = report->error ? report->error : -EIO;
}

/* ---- all of them ---- */

size_t halo_doctor_report_count(const struct halo_doctor_report *report, enum halo_doctor_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++)
        n += report->at[i].verdict == verdict;
    return n;
}

enum halo_doctor_verdict halo_doctor_report_worst(const struct halo_doctor_report *report)
{
    static const enum halo_doctor_verdict order[] = {HALO_DOCTOR_FAIL, HALO_DOCTOR_WARN, HALO_DOCTOR_PASS};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (halo_doctor_report_count(report, order[i]) > 0)
            return order[i];
    return HALO_DOCTOR_SKIP;
}

int halo_doctor_report_exit(const struct halo_doctor_report *report)
{
    enum halo_doctor_verdict worst = halo_doctor_report_worst(report);
    if (worst == HALO_DOCTOR_FAIL)
        return 1;
    return worst == HALO_DOCTOR_SKIP || report->error < 0 ? 2 : 0;
}
