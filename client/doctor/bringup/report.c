/* report.c: the matrix and what it comes to, as a page and as JSON. */
#include <errno.h>
#include <string.h>

#include <protocol/json_write.h>

#include "bringup_priv.h"

/* For a table: no bar, no line end. */
static void put_cell_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text == '|' ? '/' : (unsigned char)*text < ' ' ? ' ' : *text, out);
}

static void write_failures(FILE *out, const struct halo_bringup_matrix *matrix)
{
    bool any = false;
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
            const struct halo_bringup_cell *cell = &matrix->cell[v][s];
            if (cell->outcome & (HALO_BRINGUP_OK | HALO_BRINGUP_SKIP))
                continue;
            fprintf(out, "%s- %s, %s: %s: ", any ? "" : "\n", halo_bringup_variant_name(v), halo_bringup_stage_title(s),
                    halo_bringup_outcome_name(cell->outcome));
            put_cell_text(out, cell->says);
            fputc('\n', out);
            any = true;
        }
}

static void write_table(FILE *out, const struct halo_bringup_matrix *matrix)
{
    char text[96];
    fputs("| environment |", out);
    for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++)
        fprintf(out, " %s |", halo_bringup_stage_title(s));
    fputs("\n|---|", out);
    for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++)
        fputs("---|", out);
    fputc('\n', out);
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++) {
        const char *set = halo_bringup_variant_text(v, text, sizeof(text));
        fprintf(out, "| %s |", strcmp(set, "-") == 0 ? "nothing set" : set);
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
            const struct halo_bringup_cell *cell = &matrix->cell[v][s];
            if (cell->outcome == HALO_BRINGUP_SKIP)
                fputs(" - |", out);
            else
                fprintf(out, " %s, %.1f s |", halo_bringup_outcome_name(cell->outcome), cell->took_ms / 1e3);
        }
        fputc('\n', out);
    }
}

static void write_environment(FILE *out, const char *environment)
{
    if (!environment[0])
        return;
    fputs("\nFor the service (`systemctl edit halod`):\n\n```\n[Service]\n", out);
    while (*environment) {
        size_t n = strcspn(environment, " ");
        fprintf(out, "Environment=%.*s\n", (int)n, environment);
        environment += n + strspn(environment + n, " ");
    }
    fputs("```\n", out);
}

int halo_bringup_write_markdown(FILE *out, const struct halo_bringup_matrix *matrix,
                                const struct halo_bringup_rule *rule)
{
    fprintf(out, "# halo-doctor %s bringup\n\n", HALO_VERSION);
    if (matrix->runtime[0]) {
        put_cell_text(out, matrix->runtime);
        fputs("\n\n", out);
    }
    write_table(out, matrix);
    write_failures(out, matrix);
    fprintf(out, "\n## %s\n\n%s\n\nKnown from: %s\n", rule->id, rule->says, rule->source);
    fprintf(out, "\nFor `halod.conf`:\n\n```\n%s\n```\n", rule->conf);
    write_environment(out, rule->environment);
    return fflush(out) == 0 && !ferror(out) ? 0 : -EIO;
}

static void put_string(struct halo_json *w, const char *key, const char *text)
{
    halo_json_key(w, key);
    halo_json_str(w, text);
}

static void json_cells(struct halo_json *w, const struct halo_bringup_matrix *matrix)
{
    char text[96];
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        for (unsigned s = 0; s < HALO_BRINGUP_N_STAGES; s++) {
            const struct halo_bringup_cell *cell = &matrix->cell[v][s];
            halo_json_object_begin(w);
            put_string(w, "variant", halo_bringup_variant_name(v));
            put_string(w, "environment", halo_bringup_variant_text(v, text, sizeof(text)));
            put_string(w, "stage", halo_bringup_stage_name(s));
            put_string(w, "outcome",
                       cell->outcome == HALO_BRINGUP_SKIP ? "SKIP" : halo_bringup_outcome_name(cell->outcome));
            put_string(w, "says", cell->says);
            halo_json_key(w, "took_ms");
            halo_json_i64(w, cell->took_ms);
            halo_json_object_end(w);
        }
}

int halo_bringup_write_json(FILE *out, const struct halo_bringup_matrix *matrix, const struct halo_bringup_rule *rule)
{
    struct halo_json w;
    halo_json_init(&w);
    halo_json_object_begin(&w);
    put_string(&w, "version", HALO_VERSION);
    put_string(&w, "runtime", matrix->runtime);
    halo_json_key(&w, "cells");
    halo_json_array_begin(&w);
    json_cells(&w, matrix);
    halo_json_array_end(&w);
    put_string(&w, "conclusion", rule->id);
    halo_json_key(&w, "works");
    halo_json_bool(&w, rule->works);
    put_string(&w, "says", rule->says);
    put_string(&w, "conf", rule->conf);
    put_string(&w, "environment", rule->environment);
    put_string(&w, "source", rule->source);
    halo_json_object_end(&w);
    int r = halo_json_line_end(&w);
    bool written = !r && fwrite(w.at, 1, w.len, out) == w.len && fflush(out) == 0;
    halo_json_finish(&w);
    return r ? r : written ? 0 : -EIO;
}
