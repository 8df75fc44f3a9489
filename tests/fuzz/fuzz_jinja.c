/* fuzz_jinja.c: any text as a template over any JSON as its variables.
 *
 * The input is the template, then after a NUL the variables as a JSON object; they come on top of a small conversation.
 * What must hold: no crash within tight limits; a failure has a sentence; two renderings are equal; spans alternate in
 * kind; and a character that only variables hold never stands in a template span.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jinja/jinja.h>

#define MARK "\xEE\x80\x80" /* U+E000 */
#define MAX_VARS 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"user" MARK "\", \"content\": \" Hello" MARK
    "\\n\"}, {\"role\": \"assistant\", \"content\":"
    " [{\"type\": \"text\", \"text\": \"" MARK "\"}], \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\":"
    " {\"a\": 1, \"b\": [1.5, null, true, \"" MARK "\"]}}}]}], \"tools\": [{\"name\": \"" MARK "\"}], \"s\": \"a" MARK
    "b,c\","
    " \"n\": 3, \"f\": -2.5, \"d\": {\"k" MARK
    "\": \"v\", \"x\": 2}, \"l\": [3, 1, 2], \"add_generation_prompt\": true}";

static const char *const names[] = {"messages", "tools", "s", "n", "f", "d", "l", "add_generation_prompt"};

static size_t add_vars(struct halo_arena *arena, struct halo_jinja_var *vars, size_t n, struct halo_jinja_value all)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n < MAX_VARS && halo_jinja_dict_get(all, names[i], &vars[n].value))
            vars[n++].name = names[i];
    const char *name;
    for (size_t i = 0; n < MAX_VARS && (name = halo_jinja_dict_at(arena, all, i, &vars[n].value)); i++)
        vars[n++].name = name;
    return n;
}

static void check_spans(const struct halo_chat_text *text, bool marked)
{
    for (size_t i = 0; i < text->n; i++) {
        const struct halo_chat_span *span = &text->spans[i];
        assert(span->n > 0 && (i == 0 || text->spans[i - 1].is_template != span->is_template));
        if (marked && span->is_template)
            assert(!memmem(span->bytes, span->n, MARK, 3));
    }
}

static void check_equal(const struct halo_chat_text *a, const struct halo_chat_text *b)
{
    assert(a->n == b->n);
    for (size_t i = 0; i < a->n; i++)
        assert(a->spans[i].n == b->spans[i].n && a->spans[i].is_template == b->spans[i].is_template &&
               memcmp(a->spans[i].bytes, b->spans[i].bytes, a->spans[i].n) == 0);
}

/* Whether only variables can bring the mark: the template neither holds nor spells it. */
static bool is_marked(const char *text, size_t n)
{
    return !memmem(text, n, MARK, 3) && !memchr(text, '\\', n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tm noon = {.tm_year = 126, .tm_mday = 15, .tm_hour = 12};
    const char *text = (const char *)data, *end = size ? memchr(text, 0, size) : NULL;
    size_t n = end ? (size_t)(end - text) : size;
    struct halo_fault fault = {0};
    struct halo_arena arena;
    struct halo_jinja *jinja;
    struct halo_jinja_value all;
    struct halo_jinja_var vars[MAX_VARS];
    struct halo_chat_text first, second;
    struct halo_jinja_params params = {.vars = vars, .now = &noon};
    halo_arena_init(&arena, 0);
    int r = halo_jinja_json(&arena, &all, conversation, sizeof conversation - 1, &fault);
    assert(r == 0);
    params.n_vars = add_vars(&arena, vars, 0, all);
    if (end) {
        r = halo_jinja_json(&arena, &all, end + 1, size - n - 1, &fault);
        assert(r == 0 || fault.text[0]);
        if (r == 0)
            params.n_vars = add_vars(&arena, vars, params.n_vars, all);
    }
    params.limits = (struct halo_jinja_limits){
        .max_steps = 100000, .max_memory_bytes = 16 << 20, .max_output_bytes = 1 << 20, .max_time_ms = 10000};
    r = halo_jinja_compile(&jinja, text, n, &fault);
    assert((r == 0) == (jinja != NULL) && (r == 0 || fault.text[0]));
    if (r == 0) {
        r = halo_jinja_render(jinja, &params, &arena, &first, &fault);
        assert(r >= 0 && (r == 0 || fault.code == HALO_FAULT_BAD_REQUEST) && (r == 0 || first.n == 0));
        check_spans(&first, is_marked(text, n));
        int again = halo_jinja_render(jinja, &params, &arena, &second, &fault);
        assert(again == r);
        check_equal(&first, &second);
    }
    halo_jinja_destroy(jinja);
    halo_arena_finish(&arena);
    return 0;
}
