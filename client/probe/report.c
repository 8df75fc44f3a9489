/* report.c: verdicts over one reply, for a person, for a page, for a script; and the self-check. Writes to stdout. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <client/show.h>

#include "probe_priv.h"

struct row {
    const char *name;
    struct halo_finding finding;
};

static int rank(enum halo_verdict verdict)
{
    return verdict == HALO_VERDICT_FAIL ? 3 : verdict == HALO_VERDICT_WARN ? 2 : verdict == HALO_VERDICT_OK ? 1 : 0;
}

/* All detectors, a row for the daemon's notices, and one for how the request ended. */
static size_t judge(const struct probe_record *record, const struct probe_context *context, struct row *rows)
{
    const struct halo_detect_reply reply = {.ids = record->ids,
                                            .n_ids = record->n_ids,
                                            .t_ms = record->t_ms,
                                            .logprobs = record->has_logprobs ? record->logprobs : NULL,
                                            .text_at = record->text_at,
                                            .text = record->text ? record->text : "",
                                            .n_text = record->n_text,
                                            .prompt = context->prompt,
                                            .n_prompt = context->n_prompt,
                                            .tools = context->tools,
                                            .n_tools = context->n_tools,
                                            .end = record->end,
                                            .stall_ids = context->stall_ids};
    size_t n = 0;
    for (; n < halo_n_detectors; n++) {
        rows[n] = (struct row){halo_detectors[n].name, {HALO_VERDICT_OK, ""}};
        halo_detectors[n].look(&reply, &rows[n].finding);
    }
    rows[n] = (struct row){"notice", {record->notice[0] ? HALO_VERDICT_WARN : HALO_VERDICT_SKIP, "none came"}};
    if (record->notice[0])
        snprintf(rows[n].finding.detail, sizeof rows[n].finding.detail, "%.199s", record->notice);
    if (record->engine_died)
        rows[n].finding.verdict = HALO_VERDICT_FAIL;
    n++;
    rows[n] = (struct row){"request", {HALO_VERDICT_OK, ""}};
    if (record->failed || !record->ended) {
        rows[n].finding.verdict = HALO_VERDICT_FAIL;
        snprintf(rows[n].finding.detail, sizeof rows[n].finding.detail, "%.199s",
                 record->failed ? record->error_text : "the events end before the reply does");
    }
    return n + 1;
}

static void print_figure(const char *name, double value, const char *unit)
{
    if (isnan(value))
        printf("%s ? %s", name, unit);
    else
        printf("%s %.1f %s", name, value, unit);
}

/* How probable the reply was, in two runs of the same bits the same number. NaN where logprobs are missing. */
static double mean_logprob(const struct probe_record *record)
{
    double sum = 0;
    for (size_t i = 0; i < record->n_ids; i++)
        sum += record->logprobs[i];
    return sum / (double)record->n_ids;
}

static void print_head(const struct probe_record *record, const struct probe_context *context, const char *line_end)
{
    halo_client_print_line(stdout, "model %s, device %s, seed %lld%s", record->model[0] ? record->model : "?",
                           context->device ? context->device : "?", (long long)record->seed, line_end);
    printf("prompt %s, %lld tokens; reply %zu ids, %zu bytes", record->md5[0] ? record->md5 : "?",
           (long long)record->prompt_tokens, record->n_ids, record->n_text);
    if (isfinite(mean_logprob(record)))
        printf(", mean logprob %.12g", mean_logprob(record));
    printf("%s\n", line_end);
    print_figure("prefill", record->prefill_tok_s, "tok/s, ");
    print_figure("decode", record->decode_tok_s, "tok/s, ");
    print_figure("first token after", record->ttft_ms, "ms");
    printf("%s\n", line_end);
}

static void print_text(const struct probe_record *record, const struct probe_context *context, const struct row *rows,
                       size_t n, bool markdown)
{
    print_head(record, context, markdown ? "  " : "");
    printf(markdown ? "\n```text\n" : "----\n");
    halo_client_show_text(stdout, record->text ? record->text : "", record->n_text);
    printf(markdown ? "\n```\n\n| detector | verdict | detail |\n|---|---|---|\n" : "\n----\n");
    for (size_t i = 0; i < n; i++)
        halo_client_print_line(stdout, markdown ? "| %s | %s | %s |" : "%-18s %-5s%s", rows[i].name,
                               halo_verdict_name(rows[i].finding.verdict), rows[i].finding.detail);
}

static void print_json(const struct probe_record *record, const struct probe_context *context, const struct row *rows,
                       size_t n, enum halo_verdict worst)
{
    struct halo_json w;
    halo_json_init(&w);
    halo_json_object_begin(&w);
    const struct {
        const char *key, *value;
    } texts[] = {{"verdict", halo_verdict_name(worst)},
                 {"model", record->model},
                 {"device", context->device},
                 {"prompt_md5", record->md5}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        halo_json_key(&w, texts[i].key);
        halo_json_str(&w, texts[i].value);
    }
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"seed", (double)record->seed},         {"prompt_tokens", (double)record->prompt_tokens},
                   {"ids", (double)record->n_ids},         {"prefill_tok_s", record->prefill_tok_s},
                   {"decode_tok_s", record->decode_tok_s}, {"ttft_ms", record->ttft_ms},
                   {"mean_logprob", mean_logprob(record)}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        halo_json_key(&w, numbers[i].key);
        if (i == 0)
            halo_json_i64(&w, record->seed);
        else
            halo_json_f64(&w, numbers[i].value);
    }
    halo_json_key(&w, "text");
    halo_json_str_n(&w, record->text ? record->text : "", record->n_text);
    halo_json_key(&w, "rows");
    halo_json_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        halo_json_object_begin(&w);
        halo_json_key(&w, "detector");
        halo_json_str(&w, rows[i].name);
        halo_json_key(&w, "verdict");
        halo_json_str(&w, halo_verdict_name(rows[i].finding.verdict));
        halo_json_key(&w, "detail");
        halo_json_str(&w, rows[i].finding.detail);
        halo_json_object_end(&w);
    }
    halo_json_array_end(&w);
    halo_json_object_end(&w);
    if (halo_json_line_end(&w) == 0)
        fwrite(w.at, 1, w.len, stdout);
    halo_json_finish(&w);
}

enum halo_verdict probe_report(const struct probe_record *record, const struct probe_context *context,
                               enum probe_form form, size_t *n_judged)
{
    struct row rows[64];
    size_t n = judge(record, context, rows);
    enum halo_verdict worst = HALO_VERDICT_SKIP;
    for (size_t i = 0; i < n; i++) {
        bool is_request = i == n - 1; /* that it ended well says nothing of the text */
        *n_judged += rows[i].finding.verdict != HALO_VERDICT_SKIP && !is_request;
        if (rank(rows[i].finding.verdict) > rank(worst))
            worst = rows[i].finding.verdict;
    }
    if (form == PROBE_JSON)
        print_json(record, context, rows, n, worst);
    else
        print_text(record, context, rows, n, form == PROBE_MARKDOWN);
    if (form != PROBE_JSON)
        printf(form == PROBE_MARKDOWN ? "\nVerdict: **%s**\n" : "verdict: %s\n", halo_verdict_name(worst));
    return worst;
}

int probe_self_check(void)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < halo_n_detect_cases; i++) {
        const struct halo_detect_case *test = &halo_detect_cases[i];
        struct halo_finding finding;
        if (halo_detect_try(test, &finding) == 0)
            continue;
        printf("%s, %s: %s instead of %s (%s)\n", test->detector, test->name, halo_verdict_name(finding.verdict),
               halo_verdict_name(test->verdict), finding.detail);
        n_wrong++;
    }
    printf("self-check: %zu detectors, %zu cases, %zu wrong\n", halo_n_detectors, halo_n_detect_cases, n_wrong);
    return halo_n_detect_cases == 0 ? PROBE_NOTHING : n_wrong > 0 ? PROBE_BROKEN : PROBE_CLEAN;
}
