/* test_jinja_reference.c: 155 real templates over 26 conversations, compared byte for byte with the reference's output.
 *
 * Reads ../shared/templates (HALO_SHARED overrides ../shared) and skips aloud without it. A line that is ok must render
 * to the same text; a line that failed must fail with the same kind, and with the same sentence where the template
 * raised it. Differences that are wanted stand in `exceptions` with their reason.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jinja/jinja.h>

#define SKIP 77
#define N_LINES 8060
#define N_OK 6840
#define N_UNDEF_LINES 214

static const struct {
    const char *template, *name, *reason;
} exceptions[] = {
    {NULL, NULL, NULL},
};

static const struct tm frozen = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};

static char folder[3000];
static unsigned long n_lines, n_ok, n_failed, n_different, n_excepted;

static char *read_file(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long n = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)n + 1);
    if (!bytes || fread(bytes, 1, (size_t)n, file) != (size_t)n)
        abort();
    bytes[n] = 0;
    fclose(file);
    *ret_n = (size_t)n;
    return bytes;
}

/* A template stays compiled while lines ask for it. */
static struct halo_jinja *template_of(const char *name)
{
    static struct halo_jinja *jinja;
    static char held[256];
    char path[4096];
    size_t n;
    struct halo_fault fault = {0};
    if (jinja && strcmp(held, name) == 0)
        return jinja;
    halo_jinja_destroy(jinja);
    jinja = NULL;
    snprintf(path, sizeof path, "%s/templates/%s", folder, name);
    char *text = read_file(path, &n);
    if (!text || halo_jinja_compile(&jinja, text, n, &fault) < 0) {
        printf("%s: %s\n", name, text ? fault.text : "cannot be read");
        exit(1);
    }
    free(text);
    snprintf(held, sizeof held, "%s", name);
    return jinja;
}

static struct halo_jinja_value value_of(struct halo_arena *arena, const json_t *json)
{
    struct halo_jinja_value value;
    struct halo_fault fault = {0};
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (!text || halo_jinja_json(arena, &value, text, strlen(text), &fault) < 0) {
        printf("the reader of JSON: %s\n", fault.text);
        exit(1);
    }
    free(text);
    return value;
}

static const json_t *case_named(const json_t *cases, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(cases, "cases"), i,
                       item) if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) return item;
    printf("there is no case %s\n", name);
    exit(1);
}

static bool left_out(const json_t *line, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(line, "undefined"), i,
                       item) if (strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

static size_t set_vars(struct halo_jinja_var *vars, struct halo_arena *arena, const json_t *line,
                       const json_t *conversation)
{
    size_t n = 0;
    const char *name;
    json_t *value;
    vars[n++] = (struct halo_jinja_var){"messages", value_of(arena, json_object_get(conversation, "messages"))};
    vars[n++] = (struct halo_jinja_var){"add_generation_prompt",
                                        value_of(arena, json_object_get(line, "add_generation_prompt"))};
    if (!left_out(line, "tools"))
        vars[n++] = (struct halo_jinja_var){"tools", value_of(arena, json_object_get(conversation, "tools"))};
    if (!left_out(line, "documents"))
        vars[n++] = (struct halo_jinja_var){"documents", halo_jinja_none()};
    json_object_foreach(json_object_get(line, "vars"), name, value) vars[n++] =
        (struct halo_jinja_var){name, value_of(arena, value)};
    return n;
}

static char *text_of(const struct halo_chat_text *spans, size_t *ret_n)
{
    size_t n = 0;
    for (size_t i = 0; i < spans->n; i++)
        n += spans->spans[i].n;
    char *text = malloc(n + 1);
    *ret_n = 0;
    for (size_t i = 0; i < spans->n; *ret_n += spans->spans[i++].n)
        memcpy(text + *ret_n, spans->spans[i].bytes, spans->spans[i].n);
    return text;
}

static bool is_exception(const char *template, const char *name)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (exceptions[i].template && strcmp(exceptions[i].template, template) == 0 &&
            strcmp(exceptions[i].name, name) == 0)
            return true;
    return false;
}

/* NULL: as the reference. Otherwise what differs. */
static const char *compare(const json_t *line, int r, const struct halo_chat_text *spans,
                           const struct halo_fault *fault)
{
    if (r < 0)
        return "it failed without an outcome";
    if (json_is_true(json_object_get(line, "ok"))) {
        const json_t *expected = json_object_get(line, "text");
        size_t n;
        if (r > 0)
            return "it does not render";
        char *text = text_of(spans, &n);
        bool equal = n == json_string_length(expected) && memcmp(text, json_string_value(expected), n) == 0;
        if (!equal && getenv("HALO_VERBOSE"))
            printf("---- got\n%.*s\n---- expected\n%s\n----\n", (int)n, text, json_string_value(expected));
        free(text);
        n_ok += equal;
        return equal ? NULL : "the text differs";
    }
    if (r == 0)
        return "it renders";
    if (strcmp(halo_jinja_outcome_name((enum halo_jinja_outcome)r),
               json_string_value(json_object_get(line, "error_kind"))) != 0)
        return "it fails with another kind";
    if (r == HALO_JINJA_RAISED && strcmp(fault->text, json_string_value(json_object_get(line, "error"))) != 0)
        return "it raises another sentence";
    n_failed++;
    return NULL;
}

static void check_line(const json_t *line, const json_t *cases)
{
    struct halo_arena arena;
    struct halo_jinja_var vars[32];
    struct halo_chat_text spans;
    struct halo_fault fault = {0};
    const char *name = json_string_value(json_object_get(line, "template"));
    const char *case_name = json_string_value(json_object_get(line, "case"));
    struct halo_jinja *jinja = template_of(name);
    halo_arena_init(&arena, 0);
    struct halo_jinja_params params = {.vars = vars, .now = &frozen};
    params.n_vars = set_vars(vars, &arena, line, case_named(cases, case_name));
    int r = halo_jinja_render(jinja, &params, &arena, &spans, &fault);
    const char *difference = compare(line, r, &spans, &fault);
    n_lines++;
    if (difference && is_exception(name, case_name)) {
        n_excepted++;
    } else if (difference) {
        n_different++;
        printf("%s, %s: %s (%s)\n", name, case_name, difference, fault.text);
        if (!json_is_true(json_object_get(line, "ok")))
            printf("    expected: %s\n", json_string_value(json_object_get(line, "error")));
    }
    halo_arena_finish(&arena);
}

/* The number of lines of a file of lines; each is checked. */
static unsigned long check_file(const char *name, const json_t *cases)
{
    char path[4096];
    size_t n;
    unsigned long before = n_lines;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_file(path, &n);
    for (char *line = text, *end; line && line < text + n; line = end + 1) {
        end = memchr(line, '\n', n - (size_t)(line - text));
        if (!end)
            break;
        json_error_t error;
        json_t *json = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &error);
        if (!json) {
            printf("%s: %s\n", name, error.text);
            exit(1);
        }
        check_line(json, cases);
        json_decref(json);
    }
    free(text);
    return n_lines - before;
}

int main(void)
{
    const char *shared = getenv("HALO_SHARED"), *root = getenv("HALO_SOURCE_ROOT");
    char path[4096];
    size_t n;
    snprintf(folder, sizeof folder, "%s%s",
             shared ? shared
             : root ? root
                    : ".",
             shared ? "/templates" : "/../shared/templates");
    snprintf(path, sizeof path, "%s/cases.json", folder);
    char *text = read_file(path, &n);
    if (!text) {
        printf("skipped: %s is not there\n", path);
        return SKIP;
    }
    json_t *cases = json_loadb(text, n, 0, NULL);
    free(text);
    if (!cases)
        return 1;
    unsigned long lines = check_file("expected.jsonl", cases), ok = n_ok,
                  undef = check_file("expected_undef.jsonl", cases);
    printf("%lu lines, %lu texts equal, %lu failures of the same kind, %lu different, %lu excepted\n", n_lines, n_ok,
           n_failed, n_different, n_excepted);
    json_decref(cases);
    if (lines != N_LINES || undef != N_UNDEF_LINES || ok != N_OK) {
        printf("expected %d and %d lines, %d texts\n", N_LINES, N_UNDEF_LINES, N_OK);
        return 1;
    }
    return n_different ? 1 : 0;
}
