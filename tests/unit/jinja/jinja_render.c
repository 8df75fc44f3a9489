/* jinja_render.c: renders templates for compare_jinja2.py.
 *
 * Reads lines {"template": path, "vars": {name: the value as JSON text, ...}}; answers each with {"text": ...} or
 * {"kind": ..., "error": ...}. The time is frozen to 2026-01-15 12:00. Exits 1 when a line cannot be read or a template
 * does not compile.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jinja/jinja.h>

#define MAX_VARS 64

static const struct tm frozen = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
    fprintf(stderr, "jinja_render: %s: %s\n", what, why);
    exit(1);
}

/* A template stays compiled while lines ask for it. */
static const struct halo_jinja *template_of(const char *path)
{
    static struct halo_jinja *jinja;
    static char held[4096], text[HALO_JINJA_MAX_BYTES];
    struct halo_fault fault = {0};
    if (jinja && strcmp(held, path) == 0)
        return jinja;
    halo_jinja_destroy(jinja);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be opened");
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    if (halo_jinja_compile(&jinja, text, n, &fault) < 0)
        fail(path, fault.text);
    snprintf(held, sizeof held, "%s", path);
    return jinja;
}

static struct halo_jinja_value value_of(struct halo_arena *arena, const json_t *text)
{
    struct halo_jinja_value value;
    struct halo_fault fault = {0};
    if (halo_jinja_json(arena, &value, json_string_value(text), json_string_length(text), &fault) < 0)
        fail("a variable", fault.text);
    return value;
}

static void answer(int r, const struct halo_chat_text *spans, const struct halo_fault *fault)
{
    size_t n = 0;
    char *text = NULL;
    for (size_t i = 0; r == 0 && i < spans->n; i++) {
        text = realloc(text, n + spans->spans[i].n);
        memcpy(text + n, spans->spans[i].bytes, spans->spans[i].n);
        n += spans->spans[i].n;
    }
    json_t *json = r == 0 ? json_pack("{s:o}", "text", json_stringn(n ? text : "", n))
                          : json_pack("{s:s,s:s}", "kind", halo_jinja_outcome_name((enum halo_jinja_outcome)r), "error",
                                      fault->text);
    char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;
    if (!line)
        fail("an answer", "cannot be written");
    puts(line);
    free(line);
    free(text);
    json_decref(json);
}

static void render(const json_t *request)
{
    struct halo_arena arena;
    struct halo_jinja_var vars[MAX_VARS];
    struct halo_jinja_params params = {.vars = vars, .now = &frozen};
    struct halo_chat_text spans;
    struct halo_fault fault = {0};
    const char *name, *path = json_string_value(json_object_get(request, "template"));
    json_t *value;
    if (!path || json_object_size(json_object_get(request, "vars")) > MAX_VARS)
        fail("a line", "has no template or too many variables");
    halo_arena_init(&arena, 0);
    json_object_foreach(json_object_get(request, "vars"), name, value) vars[params.n_vars++] =
        (struct halo_jinja_var){name, value_of(&arena, value)};
    int r = halo_jinja_render(template_of(path), &params, &arena, &spans, &fault);
    if (r < 0)
        fail(path, fault.text);
    answer(r, &spans, &fault);
    halo_arena_finish(&arena);
}

int main(void)
{
    char *line = NULL;
    size_t n_room = 0;
    for (ssize_t n; (n = getline(&line, &n_room, stdin)) > 0;) {
        json_error_t error;
        json_t *request = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &error);
        if (!request)
            fail("a line", error.text);
        render(request);
        json_decref(request);
    }
    free(line);
    return 0;
}
