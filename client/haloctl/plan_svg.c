/* plan_svg.c: a plan as one picture: the layers by tier, and the predicted speed over the budget.
 *
 * Plain SVG 1.1: rectangles, lines and text, in colours that differ in brightness too. The same answer gives the same
 * bytes. A value on an axis is a linear map; ticks are 1, 2 or 5 times a power of ten.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "ctl_priv.h"

#define WIDTH 760
#define LEFT 70
#define RIGHT 20
#define LAYERS_TOP 76
#define LAYERS_HEIGHT 130
#define CURVE_TOP 280
#define CURVE_HEIGHT 170
#define HEIGHT 506

#define MEMORY_COLOUR "#2b6cb0"
#define DISK_COLOUR "#f2b04c"
#define INK "#222222"
#define GRID "#d8d8d8"

#define INNER (WIDTH - LEFT - RIGHT)

/* From a value to a coordinate. */
struct axis {
    double most; /* the value at the end; the axis begins with 0 */
    double from, to;
};

static double at(const struct axis *axis, double value)
{
    return axis->from + (axis->to - axis->from) * value / axis->most;
}

/* About five ticks. */
static double step_of(double most)
{
    double power = pow(10, floor(log10(most / 5)));
    double rest = most / 5 / power;
    return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

/* Text of the daemon. */
static void put_text(FILE *f, struct halo_str text)
{
    for (size_t i = 0; i < text.len; i++)
        switch (text.at[i]) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        default:
            if ((unsigned char)text.at[i] >= 0x20)
                fputc(text.at[i], f);
        }
}

static void put_label(FILE *f, double x, double y, const char *anchor, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

static void put_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour);
}

static void put_box(FILE *f, double x, double y, double width, double height, const char *colour)
{
    if (height > 0)
        fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width, height,
                colour);
}

/* Ticks of a vertical axis with lines across the panel. */
static void put_rows(FILE *f, const struct axis *axis)
{
    double step = step_of(axis->most);
    char text[32];
    for (int i = 0; i * step <= axis->most * 1.0001; i++) {
        double y = at(axis, i * step);
        put_line(f, LEFT, y, WIDTH - RIGHT, y, GRID);
        snprintf(text, sizeof(text), "%g", i * step);
        put_label(f, LEFT - 6, y + 4, "end", text);
    }
}

static void put_columns(FILE *f, const struct axis *axis, double bottom)
{
    double step = step_of(axis->most);
    char text[32];
    for (int i = 0; i * step <= axis->most * 1.0001; i++) {
        put_line(f, at(axis, i * step), bottom, at(axis, i * step), bottom + 4, INK);
        snprintf(text, sizeof(text), "%g", i * step);
        put_label(f, at(axis, i * step), bottom + 17, "middle", text);
    }
}

/* ---- the layers ---- */

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void put_layers(FILE *f, const json_t *layers)
{
    size_t n = json_array_size(layers);
    double most = 0, bottom = LAYERS_TOP + LAYERS_HEIGHT;
    char text[32];
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(layers, i);
        double bytes = number_of(layer, "memory_bytes") + number_of(layer, "disk_bytes");
        most = bytes > most ? bytes : most;
    }
    if (most <= 0)
        return;
    const struct axis rows = {.most = most / 1e9, .from = bottom, .to = LAYERS_TOP};
    put_rows(f, &rows);
    double width = (double)INNER / (double)n, gap = n > 200 ? 0 : width * 0.12;
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(layers, i);
        double memory = number_of(layer, "memory_bytes") / 1e9, disk = number_of(layer, "disk_bytes") / 1e9;
        double x = LEFT + (double)i * width + gap / 2;
        put_box(f, x, at(&rows, memory), width - gap, bottom - at(&rows, memory), MEMORY_COLOUR);
        put_box(f, x, at(&rows, memory + disk), width - gap, at(&rows, memory) - at(&rows, memory + disk), DISK_COLOUR);
    }
    put_line(f, LEFT, bottom, WIDTH - RIGHT, bottom, INK);
    for (size_t i = 0; i < n; i += (size_t)fmax(1, step_of((double)n) / 2)) {
        snprintf(text, sizeof(text), "%zu", i);
        put_label(f, LEFT + ((double)i + 0.5) * width, bottom + 15, "middle", text);
    }
    put_label(f, LEFT, LAYERS_TOP - 12, "start", "GB of each layer");
    put_box(f, WIDTH - RIGHT - 220, LAYERS_TOP - 21, 10, 10, MEMORY_COLOUR);
    put_label(f, WIDTH - RIGHT - 206, LAYERS_TOP - 12, "start", "in memory");
    put_box(f, WIDTH - RIGHT - 120, LAYERS_TOP - 21, 10, 10, DISK_COLOUR);
    put_label(f, WIDTH - RIGHT - 106, LAYERS_TOP - 12, "start", "read when needed");
    put_label(f, LEFT + INNER / 2.0, bottom + 31, "middle", "layer");
}

/* ---- the speed ---- */

static void put_curve(FILE *f, const json_t *curve, const struct halo_part_placement *p, double budget)
{
    double most_tok_s = p->has_tok_s ? p->tok_s : 0, most_gb = budget / 1e9, bottom = CURVE_TOP + CURVE_HEIGHT;
    size_t n = json_array_size(curve);
    for (size_t i = 0; i < n; i++) {
        most_tok_s = fmax(most_tok_s, number_of(json_array_get(curve, i), "tok_s"));
        most_gb = fmax(most_gb, number_of(json_array_get(curve, i), "budget_bytes") / 1e9);
    }
    if (most_tok_s <= 0 || most_gb <= 0)
        return;
    const struct axis columns = {.most = most_gb * 1.02, .from = LEFT, .to = WIDTH - RIGHT};
    const struct axis rows = {.most = most_tok_s * 1.1, .from = bottom, .to = CURVE_TOP};
    put_rows(f, &rows);
    put_columns(f, &columns, bottom);
    put_line(f, LEFT, bottom, WIDTH - RIGHT, bottom, INK);
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", MEMORY_COLOUR);
    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(curve, i);
        fprintf(f, "%s%.1f,%.1f", i > 0 ? " " : "", at(&columns, number_of(point, "budget_bytes") / 1e9),
                at(&rows, number_of(point, "tok_s")));
    }
    fputs("\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        if (json_is_true(json_object_get(json_array_get(curve, i), "resident"))) {
            put_label(f, at(&columns, number_of(json_array_get(curve, i), "budget_bytes") / 1e9) - 8,
                      at(&rows, number_of(json_array_get(curve, i), "tok_s")) + 4, "end", "all in memory");
            break;
        }
    if (p->has_tok_s) {
        double x = at(&columns, budget / 1e9), y = at(&rows, p->tok_s);
        char text[64];
        put_line(f, x, y, x, bottom, INK);
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, INK);
        snprintf(text, sizeof(text), "%.1f tok/s", p->tok_s);
        put_label(f, x - 8, y - 8, "end", text);
    }
    put_label(f, LEFT, CURVE_TOP - 10, "start", "tokens per second of one sequence, predicted");
    put_label(f, LEFT + INNER / 2.0, bottom + 34, "middle", "GB of memory to use");
}

/* ---- the picture ---- */

static void put_title(FILE *f, const struct halo_ev_plan *plan)
{
    const struct halo_part_placement *p = &plan->placement;
    char budget[HALO_SIZE_TEXT];
    fprintf(f, "<text x=\"%d\" y=\"26\" font-size=\"16\">", LEFT);
    put_text(f, plan->model);
    fprintf(f, ", %s to use</text>\n<text x=\"%d\" y=\"44\">", halo_ctl_bytes(plan->budget_bytes, budget), LEFT);
    if (p->has_memory_gb_s)
        fprintf(f, "memory %.1f GB/s", p->memory_gb_s);
    if (p->has_disk_gb_s)
        fprintf(f, ", disk %.1f GB/s", p->disk_gb_s);
    if (p->slots > 0)
        fprintf(f, ", %" PRId64 " slots for %" PRId64 " experts, hit rate %.1f %%", p->slots, p->experts,
                p->hit_rate * 100);
    if (p->streamed_layers > 0)
        fprintf(f, ", %" PRId64 " layers streamed", p->streamed_layers);
    fputs("</text>\n", f);
}

int halo_ctl_plan_svg(const char *path, const struct halo_ev_plan *plan)
{
    const struct halo_part_placement *p = &plan->placement;
    if (!plan->has_placement || !plan->has_budget_bytes)
        return -ENODATA;
    FILE *f = fopen(path, "w");
    if (!f)
        return -errno;
    json_t *layers = json_loadb(p->layers.at, p->layers.len, 0, NULL);
    json_t *curve = p->has_curve ? json_loadb(p->curve.at, p->curve.len, 0, NULL) : NULL;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"%s\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#ffffff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, INK);
    put_title(f, plan);
    put_layers(f, layers);
    put_curve(f, curve, p, (double)plan->budget_bytes);
    fputs("</svg>\n", f);
    json_decref(layers);
    json_decref(curve);
    int r = ferror(f) ? -EIO : 0;
    if (fclose(f) != 0 && r == 0)
        r = -errno;
    return r;
}
