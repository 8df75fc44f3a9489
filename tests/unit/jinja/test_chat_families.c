/* test_chat_families.c: conversations by the templates of the families that the daemon loads, as a request brings them,
 * with tools, calls, thoughts and variables.
 *
 * Where the chat layer takes a conversation as it is, the text is the reference's, byte for byte, or both refuse it.
 * Where it puts one into the form that a template takes, it renders, unless the reference refuses it as well; and calls
 * whose arguments are JSON text give what the same calls with objects give.
 *
 * Reads ../shared/templates (HALO_SHARED overrides ../shared) and skips aloud without it. A new family is a row.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jinja/chat.h>

#define SKIP 77
#define N_LINES 52 /* of a template: conversations, with and without a generation prompt */

static const char *const families[] = {
    "google-gemma-4-31B-it.jinja",
    "google-gemma-4-31B-it-interleaved.jinja",
    "ollama-gemma4_31b.jinja",
    "ollama-gemma4_e2b.jinja",
    "google-gemma-2-2b-it.jinja",
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen3-Coder.jinja",
    "Qwen3.5-4B.jinja",
    "openai-gpt-oss-120b.jinja",
    "GLM-4.6.jinja",
    "GLM-4.7-Flash.jinja",
    "MiniMax-M2.jinja",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja",
    "deepseek-ai-DeepSeek-V4-Flash-0731.jinja",
    "LFM2-8B-A1B.jinja",
    "ibm-granite-granite-4.0.jinja",
    "mistralai-Ministral-3-14B-Reasoning-2512.jinja",
    "ByteDance-Seed-OSS.jinja",
    "HuggingFaceTB-SmolLM3-3B.jinja",
    "meta-llama-Llama-3.1-8B-Instruct.jinja",
};
#define N_FAMILIES (sizeof families / sizeof families[0])

static const struct tm frozen = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 15, .tm_hour = 12, .tm_wday = 4, .tm_yday = 14};

static char folder[3000];
static json_t *lines[N_FAMILIES]; /* the reference's, of each family */

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

static const char *string_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Sorts the reference's lines by family. Those of a template lie together. */
static void read_lines(const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    for (char *line = text, *end; line && line < text + n; line = end + 1) {
        end = memchr(line, '\n', n - (size_t)(line - text));
        if (!end)
            break;
        for (size_t f = 0; f < N_FAMILIES; f++) {
            char begin[256];
            int len = snprintf(begin, sizeof begin, "{\"template\": \"%s\"", families[f]);
            if (strncmp(line, begin, (size_t)len) == 0)
                json_array_append_new(lines[f], json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL));
        }
    }
    free(text);
}

static const json_t *case_named(const json_t *cases, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(cases, "cases"), i,
                       item) if (strcmp(string_of(item, "name"), name) == 0) return item;
    abort();
}

/* The line of another case with the same end. */
static const json_t *line_of(const json_t *family, const char *name, const json_t *add_generation_prompt)
{
    size_t i;
    json_t *item;
    json_array_foreach(family, i, item) if (strcmp(string_of(item, "case"), name) == 0 &&
                                            json_equal(json_object_get(item, "add_generation_prompt"),
                                                       add_generation_prompt)) return item;
    abort();
}

static struct halo_span span_of(const char *text)
{
    return (struct halo_span){text, text ? strlen(text) : 0};
}

/* The prompt, malloc; NULL: refused, with the reason in the fault. */
static char *render(const struct halo_chat *chat, const json_t *line, const json_t *conversation, size_t *ret_n,
                    struct halo_remarks *changes, struct halo_fault *fault)
{
    struct halo_arena arena;
    struct halo_chat_text text;
    json_t *vars = json_copy(json_object_get(line, "vars"));
    const json_t *tools = json_object_get(conversation, "tools");
    json_object_del(vars, "bos_token");
    json_object_del(vars, "eos_token");
    char *messages = json_dumps(json_object_get(conversation, "messages"), 0), *more = json_dumps(vars, 0),
         *given = json_is_array(tools) ? json_dumps(tools, 0) : NULL, *joined = NULL;
    const struct halo_chat_input input = {.messages_json = span_of(messages),
                                          .tools_json = span_of(given),
                                          .vars_json = span_of(more),
                                          .add_generation_prompt =
                                              json_is_true(json_object_get(line, "add_generation_prompt")),
                                          .now = &frozen,
                                          .changes = changes};
    halo_arena_init(&arena, 0);
    *ret_n = 0;
    if (halo_chat_render(chat, &input, &arena, &text, fault) == 0) {
        for (size_t i = 0; i < text.n; i++)
            *ret_n += text.spans[i].n;
        joined = malloc(*ret_n + 1);
        size_t at = 0;
        for (size_t i = 0; i < text.n; at += text.spans[i++].n)
            memcpy(joined + at, text.spans[i].bytes, text.spans[i].n);
    }
    halo_arena_finish(&arena);
    json_decref(vars);
    free(messages);
    free(more);
    free(given);
    return joined;
}

static bool is_text(const json_t *line, const char *text, size_t n)
{
    const json_t *expected = json_object_get(line, "text");
    return json_is_true(json_object_get(line, "ok")) && n == json_string_length(expected) &&
           memcmp(text, json_string_value(expected), n) == 0;
}

/* NULL: as it should be. Otherwise what is wrong. */
static const char *judge(const json_t *family, const json_t *line, const char *text, size_t n, bool changed)
{
    bool ok = json_is_true(json_object_get(line, "ok"));
    if (!text)
        return ok ? "it is refused" : NULL;
    if (!changed)
        return !ok ? "it renders" : is_text(line, text, n) ? NULL : "the text differs";
    if (strcmp(string_of(line, "case"), "tool_call_args_string") != 0)
        return NULL;
    const json_t *objects = line_of(family, "tool_call_result", json_object_get(line, "add_generation_prompt"));
    return is_text(objects, text, n) ? NULL : "the text is not that of objects";
}

static unsigned check_line(size_t f, struct halo_span template, const json_t *line, const json_t *cases,
                           unsigned *n_changed)
{
    const json_t *vars = json_object_get(line, "vars");
    const struct halo_chat_source source = {.template = template,
                                            .bos = span_of(string_of(vars, "bos_token")),
                                            .eos = span_of(string_of(vars, "eos_token"))};
    struct halo_chat *chat;
    struct halo_fault fault = {0};
    struct halo_remarks changes = {0};
    size_t n;
    if (halo_chat_create(&chat, &source, &fault) < 0)
        abort();
    char *text = render(chat, line, case_named(cases, string_of(line, "case")), &n, &changes, &fault);
    const char *wrong = judge(lines[f], line, text, n, changes.n > 0);
    if (wrong)
        printf("%s, %s: %s (%s%s)\n", families[f], string_of(line, "case"), wrong, fault.text,
               changes.n ? changes.text[0] : "");
    *n_changed += changes.n > 0;
    free(text);
    halo_chat_destroy(chat);
    return wrong != NULL;
}

static unsigned check_family(size_t f, const json_t *cases)
{
    char path[4096];
    size_t n, i;
    json_t *line;
    unsigned n_wrong = 0, n_changed = 0;
    snprintf(path, sizeof path, "%s/templates/%s", folder, families[f]);
    char *template = read_file(path, &n);
    if (!template || json_array_size(lines[f]) != N_LINES) {
        printf("%s: %zu lines, expected %d\n", families[f], json_array_size(lines[f]), N_LINES);
        return 1;
    }
    json_array_foreach(lines[f], i, line) n_wrong +=
        check_line(f, (struct halo_span){template, n}, line, cases, &n_changed);
    free(template);
    printf("%s: %d conversations, %u put into its form, %u wrong\n", families[f], N_LINES, n_changed, n_wrong);
    return n_wrong;
}

int main(void)
{
    const char *shared = getenv("HALO_SHARED"), *root = getenv("HALO_SOURCE_ROOT");
    char path[4096];
    size_t n;
    unsigned n_wrong = 0;
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
    for (size_t f = 0; f < N_FAMILIES; f++)
        lines[f] = json_array();
    snprintf(path, sizeof path, "%s/expected.jsonl", folder);
    read_lines(path);
    for (size_t f = 0; f < N_FAMILIES; f++) {
        n_wrong += check_family(f, cases);
        json_decref(lines[f]);
    }
    json_decref(cases);
    return n_wrong > 0;
}
